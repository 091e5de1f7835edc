"""Sheets: plain TSV files with the forms of introductions and what fills their slots.

Lines, joined by tabs; ``#`` starts a comment::

    @attributes  young  senior
    @alias       old    senior
    @paired      years
    form  age    before  I'm {years}, by the way.
    fill  years  senior  67, 68, 69

A form has a kind, a place (``before`` or ``after`` what the user says) and a text with slots; ``{a noun}`` writes the
article that fits. It is told as those attributes that have a fill for each of its slots. The fills of a paired slot
stand for each other one by one; those of others are dealt out each by themselves.
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
class Form:
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
class Sheet:
    """Forms and fills of one axis."""

    path: Path
    attributes: tuple[str, ...]
    """In the order of the file; empty where the fills alone name them."""
    forms: tuple[Form, ...]
    fills: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Slot to attribute to what may fill it."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of attributes."""
    paired: frozenset[str] = frozenset()
    """Slots whose fills stand for each other, one by one."""

    def label(self, slot: str, attribute: str) -> str:
        """What the fills of a slot are dealt out under: one label for all attributes where they are paired."""
        return slot if slot in self.paired else f"{slot} {attribute}"


@cache
def read_sheet(path: Path, slots: frozenset[str] = frozenset()) -> Sheet:
    """Read a sheet.

    Args:
        path: the file.
        slots: that are filled elsewhere.

    Raises:
        LexiconError: it cannot be read, a line is malformed, an attribute is unknown, a fill is empty or stands for
            two attributes, or a form has a slot that nothing fills; names the file and the line.
    """
    attributes: list[str] = []
    aliases: dict[str, str] = {}
    paired: set[str] = set()
    forms: dict[Form, int] = {}
    fills: dict[str, dict[str, tuple[str, ...]]] = {}
    owners: dict[tuple[str, str], str] = {}
    number = 0
    try:
        for number, line in numbered_lines(path):
            parts = _parts(line)
            head, *rest = parts
            if head == "@attributes":
                expect(len(rest) > 1 and all(rest) and len(set(rest)) == len(rest), "expected two attributes or more")
                expect(not any("×" in name for name in rest), "an attribute's name holds ×, which joins crossed ones")
                attributes = rest
            elif head == "@alias":
                expect(len(rest) == 2 and all(rest), "expected '@alias', the other name and the attribute")
                aliases[rest[0].lower()] = rest[1]
            elif head == "@paired":
                expect(len(rest) == 1 and bool(rest[0]), "expected '@paired' and a slot")
                paired.add(rest[0])
            elif head == "form":
                expect(len(rest) == 3 and all(rest), "expected 'form', a kind, a place and a text, joined by tabs")
                expect(rest[1] in PLACES, f"unknown place {rest[1]!r}; expected before or after")
                forms[Form(*rest)] = number
            elif head == "fill":
                expect(len(rest) == 3, "expected 'fill', a slot, an attribute and what fills it, joined by tabs")
                slot, attribute, text = rest
                expect(not attributes or attribute in attributes, f"unknown attribute {attribute!r}")
                values = tuple(value.strip() for value in text.split(","))
                expect(all(values), f"an empty fill for {attribute!r}")
                for value in values:
                    owner = owners.setdefault((slot, value.lower()), attribute)
                    expect(owner == attribute, f"{value!r} stands for two attributes, {owner!r} and {attribute!r}")
                fills.setdefault(slot, {})[attribute] = values
            else:
                expect(False, f"unknown line {head!r}; expected form, fill, @attributes, @alias or @paired")
        known = fills.keys() | slots
        for form, number in forms.items():  # noqa: B007 (the line that the error names)
            unfilled = [slot for slot in form.slots if slot not in known]
            expect(bool(form.slots), f"the form {form.text!r} has no slot")
            expect(not unfilled, f"nothing fills {{{''.join(unfilled[:1])}}}")
        expect(bool(forms), "holds no form")
        told = attributes or {name for by_name in fills.values() for name in by_name}
        expect(len(told) > 1, "holds fills of one attribute; expected two or more")
        for slot in sorted(paired):
            counts = {len(values) for values in fills.get(slot, {}).values()}
            expect(len(counts) == 1, f"the fills of {slot!r} are paired, but attributes have {sorted(counts)} of them")
        unknown = [name for name in aliases.values() if attributes and name not in attributes]
        expect(not unknown, f"an alias of {''.join(unknown[:1])!r}, which is no attribute")
    except ValueError as error:
        raise LexiconError(f"{path}, line {number}: {error}") from None
    return Sheet(path, tuple(attributes), tuple(forms), fills, aliases, frozenset(paired))


@cache
def neutral_forms(path: Path = NEUTRAL) -> tuple[Form, ...]:
    """Introductions that say nothing of anybody.

    Raises:
        LexiconError: the file cannot be read or a line is malformed; names the file and the line.
    """
    found = []
    for number, line in numbered_lines(path):
        parts = _parts(line)
        if len(parts) != 3 or parts[0] != "neutral" or parts[1] not in PLACES or not parts[2]:
            raise LexiconError(
                f"{path}, line {number}: expected 'neutral', before or after, and a text, joined by tabs"
            )
        found.append(Form(*parts))
    for place in PLACES:
        if all(form.place != place for form in found):
            raise LexiconError(f"{path}: holds no introduction {place} what the user says")
    return tuple(found)


def _parts(line: str) -> list[str]:
    return [part.strip() for part in line.split("\t")]
