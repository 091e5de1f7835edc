"""Sheets: plain TSV files with the forms of introductions and the fills of their slots.

Lines, joined by tabs; ``#`` starts a comment::

    @attributes  young  senior
    @paired      years
    form  age    before  I'm {years}, by the way.
    fill  years  senior  67, 68, 69

A form (template) has a kind, a place (``before`` or ``after`` the user's message) and a text with slots; ``{a noun}``
adds the article. A form can be about the groups that have a fill for each of its slots. The fills of a paired slot
correspond one by one; those of other slots are dealt independently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tod_bias.errors import LexiconError
from tod_bias.perturb.english import takes_an
from tod_bias.perturb.tables import expect, read_table

FOLDER = Path(__file__).parent / "data"
"""The sheets of the package; ``NAME.tsv`` is the axis ``persona_NAME``."""
NOT_AXES = frozenset({"neutral", "people"})
"""Files other than axes: neutral introductions, and those by name."""
PLACES = ("before", "after")
_SLOT = re.compile(r"\{(a )?([\w-]+)\}")


@dataclass(frozen=True)
class Template:
    """One way to introduce oneself."""

    kind: str
    """Kind such as ``name`` or ``statement``; kinds take turns over a corpus."""
    place: str
    """``before`` or ``after`` the user's message; ``own`` if the introduction is not spoken because the user has a
    name."""
    text: str
    """Text with slots in braces."""

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Names of the slots, in order."""
        return tuple(dict.fromkeys(match[2] for match in _SLOT.finditer(self.text)))

    def pattern(self, fills: Mapping[str, str]) -> str:
        """Return the regular expression of the text.

        Args:
            fills: slot to the regular expression of what may fill it.
        """
        parts = _SLOT.split(self.text)  # each slot leaves its article and its name between the texts
        texts = [re.escape(text) for text in parts[::3]]
        slots = [
            f"(?:an? )?{fills[name]}" if article else fills[name]
            for article, name in zip(parts[1::3], parts[2::3], strict=True)
        ]
        return "".join(text + slot for text, slot in zip(texts, [*slots, ""], strict=True))

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

    groups: tuple[str, ...]
    """Groups in the order of the file."""
    templates: tuple[Template, ...]
    fills: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Slot to group to what may fill it."""
    paired: frozenset[str] = frozenset()
    """Slots whose fills correspond one by one."""

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
        LexiconError: the file cannot be read, a line is malformed, a group is unknown, a fill is empty or belongs to
            two groups, or a form has a slot without fills; names the file and, if possible, the line.
    """
    reading = _SheetReading()
    read_table(path, reading.read)
    try:
        return reading.sheet(slots)
    except ValueError as error:
        raise LexiconError(f"{path}: {error}") from None


class _SheetReading:
    """Sheet while it is read; every method raises ValueError for mistakes."""

    def __init__(self) -> None:
        self._groups: tuple[str, ...] = ()
        self._paired: set[str] = set()
        self._templates: dict[Template, None] = {}
        self._fills: dict[str, dict[str, tuple[str, ...]]] = {}
        self._owners: dict[tuple[str, str], str] = {}

    def read(self, cells: list[str]) -> None:
        """One line."""
        head, *rest = cells
        expect(all(rest), f"{head!r}: an empty cell")
        if head == "@attributes":
            expect(len(set(rest)) == len(rest) > 1, "expected two groups or more")
            expect(not any("×" in name for name in rest), "a group's name holds ×, which joins crossed ones")
            self._groups = tuple(rest)
        elif head == "@paired":
            expect(len(rest) == 1, "expected '@paired' and a slot")
            self._paired.add(rest[0])
        elif head == "form":
            expect(len(rest) == 3, "expected 'form', a kind, a place and a text, joined by tabs")
            expect(rest[1] in PLACES, f"unknown place {rest[1]!r}; expected before or after")
            template = Template(*rest)
            expect(bool(template.slots), f"the form {template.text!r} has no slot")
            self._templates[template] = None
        else:
            expect(head == "fill", f"unknown line {head!r}; expected form, fill, @attributes or @paired")
            expect(len(rest) == 3, "expected 'fill', a slot, a group and what fills it, joined by tabs")
            self._fill(*rest)

    def _fill(self, slot: str, group: str, text: str) -> None:
        expect(not self._groups or group in self._groups, f"unknown group {group!r}")
        values = tuple(value.strip() for value in text.split(","))
        expect(all(values), f"an empty fill for {group!r}")
        for value in values:
            owner = self._owners.setdefault((slot, value.lower()), group)
            expect(owner == group, f"{value!r} belongs to two groups, {owner!r} and {group!r}")
        self._fills.setdefault(slot, {})[group] = values

    def sheet(self, filled_elsewhere: frozenset[str]) -> TemplateSheet:
        """The whole, and what only the whole shows to be wrong."""
        expect(bool(self._templates), "holds no form")
        for text, slot in ((template.text, slot) for template in self._templates for slot in template.slots):
            expect(slot in self._fills or slot in filled_elsewhere, f"the form {text!r}: nothing fills {{{slot}}}")
        groups = self._groups or tuple(dict.fromkeys(name for fills in self._fills.values() for name in fills))
        expect(len(groups) > 1, "holds fills of one group; expected two or more")
        for slot in sorted(self._paired):
            counts = {len(values) for values in self._fills.get(slot, {}).values()}
            expect(len(counts) == 1, f"the fills of {slot!r} are paired, but groups have {sorted(counts)} of them")
        return TemplateSheet(groups, tuple(self._templates), self._fills, frozenset(self._paired))


@cache
def neutral_templates() -> tuple[Template, ...]:
    """Return neutral introductions, which reveal no group."""
    templates: list[Template] = []
    read_table(FOLDER / "neutral.tsv", lambda cells: templates.append(Template(*cells)))
    return tuple(templates)
