"""Sheets: plain TSV files with the forms of introductions and what fills their slots.

Lines, joined by tabs; ``#`` starts a comment::

    @attributes  young  senior
    @alias       old    senior
    @paired      years
    form  age    before  I'm {years}, by the way.
    fill  years  senior  67, 68, 69

A form (template) has a kind, a place (``before`` or ``after`` what the user says) and a text with slots; ``{a noun}``
writes the article that fits. It can be about those groups that have a fill for each of its slots. The fills of a paired
slot stand for each other one by one; those of others are dealt out each by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from tod_bias.errors import LexiconError
from tod_bias.perturb.english import takes_an
from tod_bias.perturb.tables import expect, numbered_lines

FOLDER = Path(__file__).parent / "data"
"""The sheets of the package; ``NAME.tsv`` is the axis ``persona_NAME``."""
NEUTRAL = FOLDER / "neutral.tsv"
"""Introductions that say nothing of anybody."""
PLACES = ("before", "after")
_SLOT = re.compile(r"\{(a )?([\w-]+)\}")


@dataclass(frozen=True)
class Template:
    """One way to introduce oneself."""

    kind: str
    """Such as ``name`` or ``statement``; kinds take turns over a corpus."""
    place: str
    """``before`` or ``after`` what the user says; ``own`` where it is not said, as the user has a name already."""
    text: str
    """With slots in braces."""

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Names of the slots, in order."""
        return tuple(dict.fromkeys(match[2] for match in _SLOT.finditer(self.text)))

    def beside(self, utterance: str) -> str:
        """The text, which has no slots, before or after what the user says."""
        return f"{self.text} {utterance}" if self.place == "before" else f"{utterance} {self.text}"

    def filled(self, values: Mapping[str, str]) -> str:
        """The text with every slot filled."""

        def fill(match: re.Match[str]) -> str:
            value = values[match[2]]
            return f"{'an' if takes_an(value) else 'a'} {value}" if match[1] else value

        return _SLOT.sub(fill, self.text)


@dataclass(frozen=True)
class TemplateSheet:
    """Templates and fills of one axis."""

    path: Path
    groups: tuple[str, ...]
    """In the order of the file; empty where the fills alone name them."""
    templates: tuple[Template, ...]
    fills: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Slot to group to what may fill it."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of groups."""
    paired: frozenset[str] = frozenset()
    """Slots whose fills stand for each other, one by one."""

    def choices(self, slot: str, group: str) -> tuple[tuple[str, ...], str]:
        """The fills of a slot for a group, and the label under which they are dealt out: one label for all groups where
        they are paired."""
        return self.fills[slot][group], slot if slot in self.paired else f"{slot} {group}"


@cache
def read_sheet(path: Path, slots: frozenset[str] = frozenset()) -> TemplateSheet:
    """Read a sheet.

    Args:
        path: the file.
        slots: that are filled elsewhere.

    Raises:
        LexiconError: it cannot be read, a line is malformed, a group is unknown, a fill is empty or stands for
            two groups, or a form has a slot that nothing fills; names the file and the line.
    """
    reading = _SheetReading(slots)
    number = 0
    try:
        for number, line in numbered_lines(path):
            reading.read([part.strip() for part in line.split("\t")], number)
        for template, number in reading.templates.items():  # noqa: B007 (the line that the error names)
            reading.check(template)
        reading.check_all()
    except ValueError as error:
        raise LexiconError(f"{path}, line {number}: {error}") from None
    return TemplateSheet(
        path,
        tuple(reading.groups),
        tuple(reading.templates),
        reading.fills,
        reading.aliases,
        frozenset(reading.paired),
    )


class _SheetReading:
    """A sheet as far as it is read; every method raises ValueError where something is wrong."""

    def __init__(self, slots: frozenset[str]) -> None:
        self._slots = slots
        self.groups: list[str] = []
        self.aliases: dict[str, str] = {}
        self.paired: set[str] = set()
        self.templates: dict[Template, int] = {}
        """Each with its line."""
        self.fills: dict[str, dict[str, tuple[str, ...]]] = {}
        self._owners: dict[tuple[str, str], str] = {}

    def read(self, parts: list[str], number: int) -> None:
        """One line."""
        head, *rest = parts
        if head == "@attributes":
            expect(len(rest) > 1 and all(rest) and len(set(rest)) == len(rest), "expected two groups or more")
            expect(not any("×" in name for name in rest), "a group's name holds ×, which joins crossed ones")
            self.groups = rest
        elif head == "@alias":
            expect(len(rest) == 2 and all(rest), "expected '@alias', the other name and the group")
            self.aliases[rest[0].lower()] = rest[1]
        elif head == "@paired":
            expect(len(rest) == 1 and bool(rest[0]), "expected '@paired' and a slot")
            self.paired.add(rest[0])
        elif head == "form":
            expect(len(rest) == 3 and all(rest), "expected 'form', a kind, a place and a text, joined by tabs")
            expect(rest[1] in PLACES, f"unknown place {rest[1]!r}; expected before or after")
            self.templates[Template(*rest)] = number
        elif head == "fill":
            expect(len(rest) == 3, "expected 'fill', a slot, a group and what fills it, joined by tabs")
            self._fill(*rest)
        else:
            expect(False, f"unknown line {head!r}; expected form, fill, @attributes, @alias or @paired")

    def _fill(self, slot: str, group: str, text: str) -> None:
        expect(not self.groups or group in self.groups, f"unknown group {group!r}")
        values = tuple(value.strip() for value in text.split(","))
        expect(all(values), f"an empty fill for {group!r}")
        for value in values:
            owner = self._owners.setdefault((slot, value.lower()), group)
            expect(owner == group, f"{value!r} stands for two groups, {owner!r} and {group!r}")
        self.fills.setdefault(slot, {})[group] = values

    def check(self, template: Template) -> None:
        """A template, once all fills are read."""
        unfilled = [slot for slot in template.slots if slot not in self.fills.keys() | self._slots]
        expect(bool(template.slots), f"the form {template.text!r} has no slot")
        expect(not unfilled, f"nothing fills {{{''.join(unfilled[:1])}}}")

    def check_all(self) -> None:
        """What only the whole sheet shows."""
        expect(bool(self.templates), "holds no form")
        filled = self.groups or {name for by_name in self.fills.values() for name in by_name}
        expect(len(filled) > 1, "holds fills of one group; expected two or more")
        for slot in sorted(self.paired):
            counts = {len(values) for values in self.fills.get(slot, {}).values()}
            expect(len(counts) == 1, f"the fills of {slot!r} are paired, but groups have {sorted(counts)} of them")
        unknown = [name for name in self.aliases.values() if self.groups and name not in self.groups]
        expect(not unknown, f"an alias of {''.join(unknown[:1])!r}, which is no group")


@cache
def neutral_templates(path: Path = NEUTRAL) -> tuple[Template, ...]:
    """Introductions that say nothing of anybody.

    Raises:
        LexiconError: the file cannot be read or a line is malformed; names the file and the line.
    """
    templates = []
    for number, line in numbered_lines(path):
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 3 or parts[0] != "neutral" or parts[1] not in PLACES or not parts[2]:
            raise LexiconError(
                f"{path}, line {number}: expected 'neutral', before or after, and a text, joined by tabs"
            )
        templates.append(Template(*parts))
    for place in PLACES:
        if all(template.place != place for template in templates):
            raise LexiconError(f"{path}: holds no introduction {place} what the user says")
    return tuple(templates)
