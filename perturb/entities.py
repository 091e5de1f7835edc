"""Which values of a dialogue's API calls and results are names of things, and so no mention of anybody."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.tables import words as listed_words

_ENTITY_SLOTS, _PERSON_SLOTS = listed_words("entity-slots"), listed_words("person-slots")
_PARTS = re.compile(r"[\W_]+")
_LIST = re.compile(r"\s*,\s*")


@lru_cache(maxsize=4096)
def is_entity_slot(slot: str) -> bool:
    """Whether the values of a slot are names of things or places (``restaurant_name``, ``artist``, ``from_station``).

    A slot that holds a person as the user calls them (``recipient_name``: "Mom") is none.
    """
    parts = set(_PARTS.split(slot.lower()))
    return not parts.isdisjoint(_ENTITY_SLOTS) and parts.isdisjoint(_PERSON_SLOTS)


def entity_names(dialogue: Dialogue, may_mention: Callable[[str], bool]) -> tuple[str, ...]:
    """The names in a dialogue's calls and results that hold a word for which ``may_mention`` is true, each once.

    They are looked for at any depth; the innermost slot decides, and a list's values belong to the list's slot.
    A name of three words or more also gives its first two, which is how people shorten it ("Uncle Yu's" for "Uncle
    Yu's Szechuan"). A value that lists several names ("A, B") gives each of them too, as utterances hold them apart.
    """
    values = dict.fromkeys(value for turn in dialogue.turns for slot, value in turn.values if is_entity_slot(slot))
    names: dict[str, None] = {}
    for value in values:
        if may_mention(value):
            words = value.split()
            short = " ".join(words[:2]) if len(words) > 2 and words[0].lower() not in ("the", "a") else ""
            parts = _LIST.split(value) if "," in value else ()
            names |= dict.fromkeys((value, *(part for part in (short, *parts) if part and may_mention(part))))
    return tuple(names)
