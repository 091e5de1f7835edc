"""Names of things and places in a dialogue that hold somebody's name: they stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.entities import is_entity_slot
from tod_bias.perturb.names.slots import NameSlots

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@lru_cache(maxsize=4096)
def is_thing(slot: str, slots: NameSlots) -> bool:
    """Whether a slot holds names of things (``restaurant_name``, ``DoctorName``, ``song``) and nobody's own."""
    return not slots.kind(slot) and is_entity_slot(_HUMP.sub("_", slot))


def things_called(dialogue: Dialogue, names: Sequence[str], slots: NameSlots) -> tuple[str, ...]:
    """Values of slots of things (``restaurant_name``, ``DoctorName``, ``song``) that hold one of the names, each once.

    A value that is the name and nothing more is left out: it may be the person.
    """
    return tuple(dict.fromkeys(_found(dialogue, [name.lower() for name in names if name], slots)))


def _found(dialogue: Dialogue, names: Sequence[str], slots: NameSlots) -> Iterator[str]:
    for turn in dialogue.turns:
        for slot, value in turn.values:
            lower = value.lower()
            for name in names:
                if name in lower:
                    if lower.strip() not in names and is_thing(slot, slots):
                        yield value
                    break
