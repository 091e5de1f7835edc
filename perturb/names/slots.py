"""Slots of a corpus that hold people's names: ``data/slots.txt``, and files of the same form from users."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.context import is_entity_slot
from tod_bias.perturb.names.resources import FOLDER
from tod_bias.perturb.tables import expect, read_table

SLOTS = FOLDER / "slots.txt"
"""Slots that the package knows; the head of the file describes the kinds."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
KINDS = ("user", "person", "first", "last", "id", "email", "none")


@dataclass(frozen=True, eq=False)
class NameSlots:
    """Slots to the kind of name that they hold."""

    kinds: Mapping[str, str]
    """A slot in lower case to one of :data:`KINDS` (never ``none``)."""

    def kind(self, slot: str) -> str:
        """Return the kind of name in a slot; empty if it holds none."""
        return self.kinds.get(slot.lower(), "")

    @property
    def signature(self) -> str:
        """A hash of the slots and kinds."""
        return hashlib.sha256(repr(sorted(self.kinds.items())).encode("utf-8")).hexdigest()[:12]


@cache
def name_slots(path: str | Path | None = None) -> NameSlots:
    """Return the slots of the package, with those of a user's file added.

    Raises:
        LexiconError: the file cannot be read, or a line has no kind or no slot; names the file and the line.
    """
    kinds: dict[str, str] = {}

    def read(cells: list[str]) -> None:
        kind, *slots = " ".join(cells).partition("#")[0].split() or ["none", ""]
        expect(kind in KINDS, f"unknown kind {kind!r}; expected one of {', '.join(KINDS)}")
        expect(bool(slots), f"{kind!r} without a slot; write the slots behind it")
        kinds.update({slot.lower(): kind for slot in slots})

    for file in (SLOTS, *(() if path is None else (Path(path),))):
        read_table(file, read)
    return NameSlots({slot: kind for slot, kind in kinds.items() if kind != "none"})


@lru_cache(maxsize=4096)
def is_thing(slot: str, slots: NameSlots) -> bool:
    """True if a slot holds names of things (``restaurant_name``, ``DoctorName``, ``song``) and not of the user."""
    return not slots.kind(slot) and is_entity_slot(_HUMP.sub("_", slot))


def things_called(dialogue: Dialogue, names: Sequence[str], slots: NameSlots) -> tuple[str, ...]:
    """Values of slots of things (``restaurant_name``, ``DoctorName``, ``song``) that hold one of the names, each once.

    A value that is the name and nothing more is left out: it may be the person.
    """
    lower = [name.lower() for name in names if name]
    values = ((slot, value, value.lower()) for turn in dialogue.turns for slot, value in turn.values)
    held = (
        (slot, value) for slot, value, low in values if low.strip() not in lower and any(map(low.__contains__, lower))
    )
    return tuple(dict.fromkeys(value for slot, value in held if is_thing(slot, slots)))
