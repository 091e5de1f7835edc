"""What a part of a persona says: who the user is by name, title or statement, or by anything that a sheet holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from math import gcd
from typing import Protocol

from tod_bias.perturb.names.resources import GENDERS, RACES, dealt, dealt_last
from tod_bias.perturb.personas.heard import Heard
from tod_bias.perturb.personas.sheet import FOLDER, Form, Sheet, read_sheet

Attribute = tuple[str, ...]
"""One attribute of each factor that a part tells."""
Deal = Callable[[Sequence[str], str], str]
"""Chooses among fills, given a label that tells apart what they are for."""
PEOPLE = {
    "gender": (*GENDERS, "non-binary"),
    "race": (*RACES, "native-american", "pacific-islander"),
}
"""Factors that a name can tell, and their attributes."""
ENOUGH = 16
"""So many words of a kind are as good as more: kinds with fewer have fewer turns."""
_NAMES = frozenset({"first", "last", "full", "person"})
_TELLS = {
    "first": ("gender", "race"), "last": ("race",), "title": ("gender",), "pronouns": ("gender",),
    "noun": ("gender",), "adjective": ("race",),
}  # fmt: skip
"""What a slot's filling tells of people."""


class Part(Protocol):
    """One part of an introduction."""

    @property
    def factors(self) -> tuple[str, ...]:
        """What it tells."""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """As whom it can be told."""

    @property
    def kinds(self) -> Mapping[str, tuple[Form, ...]]:
        """Its forms by kind."""

    def can(self, form: Form, attribute: Attribute) -> bool:
        """Whether the form can be told as this attribute."""

    def tells(self, slot: str) -> tuple[str, ...]:
        """Which factors what fills a slot says anything of."""

    def heard(self) -> Heard:
        """What finds such introductions in a corpus as it is."""

    def values(self, form: Form, attribute: Attribute, fixed: Attribute, deal: Deal) -> dict[str, str]:
        """What fills the form's slots.

        Args:
            form: one that can be told.
            attribute: as whom.
            fixed: attributes of people that the axis does not tell; the same in all tellings of a dialogue.
            deal: chooses.
        """


class SheetPart:
    """An introduction by the sheet of one axis.

    Args:
        factor: its name.
        sheet: forms and fills.
    """

    def __init__(self, factor: str, sheet: Sheet) -> None:
        self.factors = (factor,)
        self._sheet = sheet
        names = sheet.attributes or tuple(dict.fromkeys(name for fills in sheet.fills.values() for name in fills))
        self.attributes: tuple[Attribute, ...] = tuple((name,) for name in names)
        self.kinds = by_kind(sheet.forms)

    def can(self, form: Form, attribute: Attribute) -> bool:
        """Whether every slot has a fill."""
        return all(attribute[0] in self._sheet.fills[slot] for slot in form.slots)

    def tells(self, slot: str) -> tuple[str, ...]:
        """Every slot does."""
        return self.factors

    def heard(self) -> Heard:
        """By any of the sheet's forms."""
        return Heard(self.factors[0], self._sheet, self._sheet.forms, {slot: slot for slot in self._sheet.fills})

    def values(self, form: Form, attribute: Attribute, fixed: Attribute, deal: Deal) -> dict[str, str]:
        """A fill for every slot."""
        name = attribute[0]
        return {slot: deal(self._sheet.fills[slot][name], self._sheet.label(slot, name)) for slot in form.slots}


class PeoplePart:
    """An introduction by name, title, pronouns, statement or signature.

    Args:
        factors: ``gender``, ``race`` or both.
        sheet: forms, and fills of titles, pronouns, nouns and adjectives.
    """

    def __init__(self, factors: tuple[str, ...], sheet: Sheet | None = None) -> None:
        self.factors = factors
        self._sheet = read_sheet(FOLDER / "people.tsv", _NAMES) if sheet is None else sheet
        self.attributes: tuple[Attribute, ...] = tuple(product(*(PEOPLE[factor] for factor in factors)))

    @cached_property
    def kinds(self) -> Mapping[str, tuple[Form, ...]]:
        """Forms that tell apart at least two attributes: pronouns tell nobody's race."""
        told = []
        for form in self._sheet.forms:
            factors = {factor for slot in _single(form) for factor in _TELLS.get(slot, ())}
            if factors.issuperset(self.factors):
                told.append(form)
        return by_kind(told)

    def tells(self, slot: str) -> tuple[str, ...]:
        """Names tell gender and race, titles and pronouns gender, last names race."""
        return tuple(factor for factor in _TELLS.get(slot, ()) if factor in self.factors)

    def heard(self) -> Heard:
        """By name, title, pronouns or statement."""
        factor = self.factors[0]
        telling = {
            "gender": {"title": "title", "pronouns": "pronouns", "person": "noun"},
            "race": {"person": "adjective"},
        }
        return Heard(factor, self._sheet, self._sheet.forms, telling[factor])

    def can(self, form: Form, attribute: Attribute) -> bool:
        """Whether there are such names, titles and words; a name alone tells nobody non-binary."""
        told = dict(zip(self.factors, attribute, strict=True))
        race, gender = told.get("race", RACES[0]), told.get("gender", GENDERS[0])
        for slot in form.slots:
            if slot in ("first", "last", "full") and race not in RACES:
                return False
            if slot in ("first", "full") and gender not in GENDERS and "pronouns" not in form.slots:
                return False
            if slot in self._sheet.fills and gender not in self._sheet.fills[slot]:
                return False
        return True

    def values(self, form: Form, attribute: Attribute, fixed: Attribute, deal: Deal) -> dict[str, str]:
        """Names of the gender and race; what the axis does not tell is as ``fixed`` (gender, race) says."""
        told = dict(zip(("gender", "race"), fixed, strict=True)) | dict(zip(self.factors, attribute, strict=True))
        gender, race = told["gender"], told["race"]
        values: dict[str, str] = {}
        if {"first", "full"} & set(form.slots):
            names = dealt(gender if gender in GENDERS else None, race)
            values["first"] = deal(names, f"first {gender} {race}")
        if {"last", "full"} & set(form.slots):
            values["last"] = deal(dealt_last(race), f"last {race}")
        if "full" in form.slots:
            values["full"] = f"{values['first']} {values['last']}"
        fills = self._sheet.fills
        if "person" in form.slots:
            noun, adjective = "person", ""
            if "gender" in self.factors:
                noun = deal(fills["noun"][gender], self._sheet.label("noun", gender))
            if "race" in self.factors:
                adjective = deal(fills["adjective"][race], self._sheet.label("adjective", race))
            values |= {"noun": noun, "adjective": adjective, "person": f"{adjective} {noun}".strip()}
        for slot in form.slots:
            if slot in fills:
                values[slot] = deal(fills[slot][gender], self._sheet.label(slot, gender))
        return values


def _single(form: Form) -> set[str]:
    """The slots of a form, those that hold two words taken apart."""
    slots = set(form.slots)
    return (
        slots
        | ({"first", "last"} if "full" in slots else set())
        | ({"noun", "adjective"} if "person" in slots else set())
    )


def by_kind(forms: Collection[Form]) -> dict[str, tuple[Form, ...]]:
    """Forms by kind, in their order."""
    kinds: dict[str, tuple[Form, ...]] = {}
    for form in forms:
        kinds[form.kind] = (*kinds.get(form.kind, ()), form)
    return kinds


def tells_name(part: Part) -> bool:
    """Whether a part's introductions may be by name."""
    return any("first" in form.slots or "full" in form.slots for forms in part.kinds.values() for form in forms)


def turns(part: Part, kinds: Iterable[Sequence[Form]]) -> tuple[int, ...]:
    """Whose turns there are in a block: every kind has as many as it has words, :data:`ENOUGH` at the most."""
    shares = [min(_words(part, forms), ENOUGH) for forms in kinds]
    shares = shares if any(shares) else [1] * len(shares)
    return tuple(kind for kind, share in enumerate(shares) for _ in range(share // gcd(*shares)))


def _words(part: Part, forms: Iterable[Form]) -> int:
    """How many words tell the attribute in forms of one kind, where there are fewest; 0 where it tells no two apart."""
    counts: list[int] = []
    able: set[Attribute] = set()

    def counted(fills: Sequence[str], label: str) -> str:
        if part.tells(label.split()[0]):
            counts.append(len(fills))
        return fills[0]

    for form in forms:
        for attribute in part.attributes:
            if part.can(form, attribute):
                able.add(attribute)
                part.values(form, attribute, (GENDERS[0], RACES[0]), counted)
    return min(counts) if len(able) > 1 and counts else 0
