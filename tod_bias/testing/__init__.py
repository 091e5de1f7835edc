"""Tools for tests: contracts of what a user adds, regression cases, and the gate of a release."""

from tod_bias.testing.contract import AxisContract, CorpusContract, EventContract, StageContract, inputs_of

__all__ = ["AxisContract", "CorpusContract", "EventContract", "StageContract", "inputs_of"]
