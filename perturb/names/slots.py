"""Which slots of a corpus hold people's names: ``data/slots.txt``, and files of the same form from users."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tod_bias.documents import LARGEST_LIST, read_text
from tod_bias.errors import LexiconError
from tod_bias.perturb.names.resources import FOLDER

SLOTS = FOLDER / "slots.txt"
"""The slots that the package knows; its head says what the kinds are."""
KINDS = ("user", "person", "first", "last", "id", "email", "none")


@dataclass(frozen=True, eq=False)
class NameSlots:
    """Slots to the kind of name that they hold."""

    kinds: Mapping[str, str]
    """A slot in lower case to one of :data:`KINDS` (never ``none``)."""
    _asked: dict[str, str] = field(default_factory=dict, repr=False)

    def kind(self, slot: str) -> str:
        """The kind of name that a slot holds; empty where it holds none."""
        found = self._asked.get(slot)
        if found is None:
            found = self._asked[slot] = self.kinds.get(slot) or self.kinds.get(slot.lower(), "")
        return found

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
    try:
        lines = read_text(path, "utf-8", LARGEST_LIST).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LexiconError(
            f"{path}: cannot be read: {error}; give a file of slots, a kind and its slots a line"
        ) from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        kind, *slots = line.partition("#")[0].split() or [""]
        if not kind:
            continue
        if kind not in KINDS:
            raise LexiconError(f"{path}, line {number}: unknown kind {kind!r}; expected one of {', '.join(KINDS)}")
        if not slots:
            raise LexiconError(f"{path}, line {number}: {kind!r} without a slot; write the slots behind it")
        found |= {slot.lower(): kind for slot in slots}
    return found
