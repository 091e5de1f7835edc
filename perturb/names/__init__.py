"""People's names: what is known of them, who is named in a dialogue, and dialogues under other names."""

from tod_bias.perturb.names.resources import dealt, dealt_last, first_names, last_names

__all__ = ["dealt", "dealt_last", "first_names", "last_names"]
