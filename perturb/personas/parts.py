"""The parts of an introduction: who the user is by name, title or statement, or by anything that a sheet holds."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import gcd

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.text import SILENCE
from tod_bias.perturb.names.people import people
from tod_bias.perturb.names.resources import GENDERS, RACES, dealt, dealt_last
from tod_bias.perturb.personas.sheet import FOLDER, Template, TemplateSheet, read_sheet

Combination = tuple[str, ...]
"""One group of each factor that a part says."""
Deal = Callable[[Sequence[str], str], str]
"""Chooses among fills, given a label that tells apart what they are for."""
PEOPLE = {
    "gender": (*GENDERS, "non-binary"),
    "race": (*RACES, "native-american", "pacific-islander"),
}
"""Factors that a name can reveal, and their groups."""
ENOUGH = 16
"""So many terms of a kind are as good as more: kinds with fewer have fewer turns."""
_NAMES = frozenset({"first", "last", "full", "person"})
_REVEALS = {
    "first": ("gender", "race"),
    "last": ("race",),
    "title": ("gender",),
    "pronouns": ("gender",),
    "noun": ("gender",),
    "adjective": ("race",),
}
"""What a slot's filling reveals of people."""
_FOUND_BY = {
    "gender": {"title": "title", "pronouns": "pronouns", "person": "noun"},
    "race": {"person": "adjective"},
}
"""Factor to the slots by which an introduction is recognised, and whose fills may stand there."""
_ANY = r"[^\W\d_][\w'’-]*"
_SLOT = re.compile(r"\\\{(a\\ )?([\w-]+)\\\}")
_NAME_ASKED = re.compile(
    r"\b(?:your|the) (?:full |first |last )?name\b[^.]*\?|\bwho am i (?:speaking|talking)\b|\bname,? please\b",
    re.IGNORECASE,
)


class IntroductionPart(ABC):
    """One part of an introduction."""

    factors: tuple[str, ...]
    """What it reveals."""
    groups: tuple[Combination, ...]
    """Those that it can be about."""
    kinds: Mapping[str, tuple[Template, ...]]
    """Its templates by kind."""

    @abstractmethod
    def can(self, template: Template, group: Combination) -> bool:
        """Whether the template can be about this group."""

    @abstractmethod
    def reveals(self, slot: str) -> tuple[str, ...]:
        """Which factors what fills a slot says anything of."""

    @abstractmethod
    def finder(self) -> IntroductionFinder:
        """What finds such introductions in a corpus as it is."""

    @abstractmethod
    def values(self, template: Template, group: Combination, fixed: Combination, deal: Deal) -> dict[str, str]:
        """What fills the template's slots.

        Args:
            template: one that can be about the group.
            group: whom it is about.
            fixed: gender and race of people where the axis does not exchange them; the same in all counterfactuals of a
                dialogue.
            deal: chooses.
        """


class SheetPart(IntroductionPart):
    """An introduction by the sheet of one axis.

    Args:
        factor: its name.
        sheet: templates and fills.
    """

    def __init__(self, factor: str, sheet: TemplateSheet) -> None:
        self.factors = (factor,)
        self._sheet = sheet
        names = sheet.groups or tuple(dict.fromkeys(name for fills in sheet.fills.values() for name in fills))
        self.groups = tuple((name,) for name in names)
        self.kinds = by_kind(sheet.templates)

    def can(self, template: Template, group: Combination) -> bool:
        """Whether every slot has a fill."""
        return all(group[0] in self._sheet.fills[slot] for slot in template.slots)

    def reveals(self, slot: str) -> tuple[str, ...]:
        """Every slot does."""
        return self.factors

    def finder(self) -> IntroductionFinder:
        """By any of the sheet's templates."""
        return IntroductionFinder(self.factors[0], self._sheet, {slot: slot for slot in self._sheet.fills})

    def values(self, template: Template, group: Combination, fixed: Combination, deal: Deal) -> dict[str, str]:
        """A fill for every slot."""
        return {slot: deal(*self._sheet.choices(slot, group[0])) for slot in template.slots}


class PeoplePart(IntroductionPart):
    """An introduction by name, title, pronouns, statement or signature.

    Args:
        factors: ``gender``, ``race`` or both.
        sheet: templates, and fills of titles, pronouns, nouns and adjectives.
    """

    def __init__(self, factors: tuple[str, ...], sheet: TemplateSheet | None = None) -> None:
        self.factors = factors
        self._sheet = read_sheet(FOLDER / "people.tsv", _NAMES) if sheet is None else sheet
        self.groups = tuple(product(*(PEOPLE[factor] for factor in factors)))
        self.kinds = by_kind([template for template in self._sheet.templates if self._reveals_all(template)])

    def _reveals_all(self, template: Template) -> bool:
        """Whether a template reveals every factor: pronouns reveal nobody's race."""
        slots = set(template.slots)
        slots |= {"first", "last"} if "full" in slots else set()
        slots |= {"noun", "adjective"} if "person" in slots else set()
        return {factor for slot in slots for factor in _REVEALS.get(slot, ())}.issuperset(self.factors)

    def reveals(self, slot: str) -> tuple[str, ...]:
        """Names reveal gender and race, titles and pronouns gender, last names race."""
        return tuple(factor for factor in _REVEALS.get(slot, ()) if factor in self.factors)

    def finder(self) -> IntroductionFinder:
        """By name, title, pronouns or statement."""
        return IntroductionFinder(self.factors[0], self._sheet, _FOUND_BY[self.factors[0]])

    def can(self, template: Template, group: Combination) -> bool:
        """Whether there are such names, titles and terms; a name alone reveals nobody as non-binary."""
        by_factor = dict(zip(self.factors, group, strict=True))
        race, gender = by_factor.get("race", RACES[0]), by_factor.get("gender", GENDERS[0])
        slots, fills = set(template.slots), self._sheet.fills
        if slots & {"first", "last", "full"} and race not in RACES:
            return False
        if slots & {"first", "full"} and gender not in GENDERS and "pronouns" not in slots:
            return False
        return all(gender in fills[slot] for slot in slots if slot in fills)

    def values(self, template: Template, group: Combination, fixed: Combination, deal: Deal) -> dict[str, str]:
        """Names of the gender and race; what the axis does not exchange is as ``fixed`` (gender, race) says."""
        by_factor = dict(zip(("gender", "race"), fixed, strict=True)) | dict(zip(self.factors, group, strict=True))
        gender, race = by_factor["gender"], by_factor["race"]
        slots, sheet = set(template.slots), self._sheet
        values: dict[str, str] = {}
        if {"first", "full"} & slots:
            names = dealt(gender if gender in GENDERS else None, race)
            values["first"] = deal(names, f"first {gender} {race}")
        if {"last", "full"} & slots:
            values["last"] = deal(dealt_last(race), f"last {race}")
        if "full" in slots:
            values["full"] = f"{values['first']} {values['last']}"
        if "person" in slots:
            noun = deal(*sheet.choices("noun", gender)) if "gender" in self.factors else "person"
            adjective = deal(*sheet.choices("adjective", race)) if "race" in self.factors else ""
            values |= {"noun": noun, "adjective": adjective, "person": f"{adjective} {noun}".strip()}
        for slot in template.slots:
            if slot in sheet.fills:
                values[slot] = deal(*sheet.choices(slot, gender))
        return values


class IntroductionFinder:
    """Finds introductions of one factor in what users say.

    Args:
        factor: such as ``gender`` or ``age``.
        sheet: its templates and fills.
        slots: those whose fillings reveal it, with the slot of the sheet whose fills may stand there.
    """

    def __init__(self, factor: str, sheet: TemplateSheet, slots: Mapping[str, str]) -> None:
        self._factor = factor
        self._group_of: dict[tuple[str, str], str] = {}
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        for template in sheet.templates:
            slot = next((name for name in template.slots if name in slots), None)
            fills = sheet.fills.get(slots[slot], {}) if slot is not None else {}
            if slot is None or not fills:
                continue  # by a name: people() finds it
            self._group_of |= {(slot, fill.lower()): group for group, some in fills.items() for fill in some}
            every = [fill for some in fills.values() for fill in some]
            self._patterns.append((_pattern(template, slot, every), slot))

    def mentions(self, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
        """``user`` and the group, once for each introduction; by name once where the user is named."""
        for turn in dialogue.turns:
            for pattern, slot in self._patterns:
                for match in pattern.finditer(turn.user):
                    yield "user", self._group_of[slot, match["fill"].lower()]
        user = next((person for person in people(dialogue) if person.user), None) if self._factor in PEOPLE else None
        group = "" if user is None else (user.gender if self._factor == "gender" else user.race)
        if group:
            yield "user", group


def _pattern(template: Template, slot: str, fills: Sequence[str]) -> re.Pattern[str]:
    """The template with any of the fills in the slot, and any word in the others; without its full stop."""
    longest = "|".join(map(re.escape, sorted(fills, key=lambda fill: -len(fill))))

    def filled(match: re.Match[str]) -> str:
        article = "(?:an? )?" if match[1] else ""
        return f"{article}(?P<fill>{longest})" if match[2] == slot else _ANY

    text = _SLOT.sub(filled, re.escape(template.text.rstrip(".")))
    return re.compile(rf"(?<!\w){text}(?!\w)", re.IGNORECASE)


def by_kind(templates: Collection[Template]) -> dict[str, tuple[Template, ...]]:
    """Templates by kind, in their order."""
    kinds: dict[str, tuple[Template, ...]] = {}
    for template in templates:
        kinds[template.kind] = (*kinds.get(template.kind, ()), template)
    return kinds


def deals_names(part: IntroductionPart) -> bool:
    """Whether a part's introductions may be by name."""
    return any({"first", "full"} & set(template.slots) for templates in part.kinds.values() for template in templates)


def turns(part: IntroductionPart, kinds: Iterable[Sequence[Template]]) -> tuple[int, ...]:
    """Whose turns there are in a block: every kind has as many as it has terms, :data:`ENOUGH` at the most."""
    shares = [min(_terms(part, templates), ENOUGH) for templates in kinds]
    shares = shares if any(shares) else [1] * len(shares)
    return tuple(kind for kind, share in enumerate(shares) for _ in range(share // gcd(*shares)))


def _terms(part: IntroductionPart, templates: Iterable[Template]) -> int:
    """How many terms reveal the group in templates of one kind, where fewest; 0 where no two groups differ."""
    counts: list[int] = []
    able: set[Combination] = set()

    def counted(fills: Sequence[str], label: str) -> str:
        if part.reveals(label.split()[0]):
            counts.append(len(fills))
        return fills[0]

    for template in templates:
        for group in part.groups:
            if part.can(template, group):
                able.add(group)
                part.values(template, group, (GENDERS[0], RACES[0]), counted)
    return min(counts) if len(able) > 1 and counts else 0


def first_turn(dialogue: Dialogue) -> int:
    """The first turn in which the user says something; -1 where there is none."""
    return next((number for number, turn in enumerate(dialogue.turns) if _speaks(turn)), -1)


def _speaks(turn: Turn) -> bool:
    return turn.user.strip() not in ("", SILENCE)


def turn_after_question(dialogue: Dialogue, first: int) -> int:
    """The turn after the system has asked for a name; ``first`` where it never does."""
    for number, turn in enumerate(dialogue.turns[:-1]):
        if number >= first and _NAME_ASKED.search(turn.response) and _speaks(dialogue.turns[number + 1]):
            return number + 1
    return first
