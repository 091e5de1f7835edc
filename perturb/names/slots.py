"""Which slots of a corpus hold people's names: ``data/slots.txt``, and files of the same form from users."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import LexiconError
from tod_bias.perturb.entities import is_entity_slot
from tod_bias.perturb.names.resources import FOLDER
from tod_bias.perturb.tables import numbered_lines

SLOTS = FOLDER / "slots.txt"
"""The slots that the package knows; its head says what the kinds are."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
KINDS = ("user", "person", "first", "last", "id", "email", "none")


@dataclass(frozen=True, eq=False)
class NameSlots:
    """Slots to the kind of name that they hold."""

    kinds: Mapping[str, str]
    """A slot in lower case to one of :data:`KINDS` (never ``none``)."""
    _known: dict[str, str] = field(default_factory=dict, repr=False)

    def kind(self, slot: str) -> str:
        """The kind of name that a slot holds; empty where it holds none."""
        kind = self._known.get(slot)
        if kind is None:
            kind = self._known[slot] = self.kinds.get(slot) or self.kinds.get(slot.lower(), "")
        return kind

    @property
    def signature(self) -> str:
        """A hash of the slots and kinds."""
        return hashlib.sha256(repr(sorted(self.kinds.items())).encode("utf-8")).hexdigest()[:12]


@cache
def name_slots(path: str | Path | None = None) -> NameSlots:
    """The slots of the package, with those of a file of one's own added.

    Raises:
        LexiconError: the file cannot be read, or a line has no kind or no slot; names the file and the line.
    """
    kinds = dict(_read(SLOTS))
    if path is not None:
        kinds |= _read(Path(path))
    return NameSlots({slot: kind for slot, kind in kinds.items() if kind != "none"})


def _read(path: Path) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for number, line in numbered_lines(path):
        kind, *slots = line.partition("#")[0].split() or [""]
        if not kind:
            continue
        if kind not in KINDS:
            raise LexiconError(f"{path}, line {number}: unknown kind {kind!r}; expected one of {', '.join(KINDS)}")
        if not slots:
            raise LexiconError(f"{path}, line {number}: {kind!r} without a slot; write the slots behind it")
        kinds |= {slot.lower(): kind for slot in slots}
    return kinds


@lru_cache(maxsize=4096)
def is_thing(slot: str, slots: NameSlots) -> bool:
    """Whether a slot holds names of things (``restaurant_name``, ``DoctorName``, ``song``) and nobody's own."""
    return not slots.kind(slot) and is_entity_slot(_HUMP.sub("_", slot))


def things_called(dialogue: Dialogue, names: Sequence[str], slots: NameSlots) -> tuple[str, ...]:
    """Values of slots of things (``restaurant_name``, ``DoctorName``, ``song``) that hold one of the names, each once.

    A value that is the name and nothing more is left out: it may be the person.
    """
    return tuple(dict.fromkeys(_things(dialogue, [name.lower() for name in names if name], slots)))


def _things(dialogue: Dialogue, names: Sequence[str], slots: NameSlots) -> Iterator[str]:
    for turn in dialogue.turns:
        for slot, value in turn.values:
            lower = value.lower()
            for name in names:
                if name in lower:
                    if lower.strip() not in names and is_thing(slot, slots):
                        yield value
                    break
