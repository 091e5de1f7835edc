"""The parts of an introduction: who the user is by name, title or statement, or by anything that a sheet holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import gcd

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.text import SILENCE
from tod_bias.perturb.names.resources import GENDERS, RACES, dealt, dealt_last
from tod_bias.perturb.personas.sheet import FOLDER, NOT_AXES, Template, TemplateSheet, read_sheet

Combination = tuple[str, ...]
"""One group of each factor that a part says."""
Deal = Callable[[Sequence[str], str], str]
"""Function that chooses a fill, given a label of its purpose."""
PEOPLE = {
    "gender": (*GENDERS, "non-binary"),
    "race": (*RACES, "native-american", "pacific-islander"),
}
"""Factors that a name can reveal, and their groups."""
ENOUGH = 16
"""Number of terms of a kind beyond which more have no effect; kinds with fewer take fewer turns."""
_REVEALS = {
    "first": ("gender", "race"),
    "last": ("race",),
    "noun": ("gender",),
    "adjective": ("race",),
    "title": ("gender",),
    "pronouns": ("gender",),
}
"""Dimensions that a slot's fill reveals; the first of two decides the fill."""
JOINED = {"full": ("first", "last"), "person": ("adjective", "noun")}
"""Slots that are filled by two others, which a blank joins."""
_ORDER = ("first", "last", "full", "noun", "adjective", "person")
"""Order in which slots are filled; all others follow in the order of the template."""
_EXPECTS_NAME = re.compile(
    r"\b(?:your|the) (?:full |first |last )?name\b[^.]*\?|\bwho am i (?:speaking|talking)\b|\bname,? please\b",
    re.IGNORECASE,
)


class IntroductionPart:
    """One part of an introduction: templates, and what fills their slots for every group.

    Args:
        factors: what it reveals: what a sheet is about, or ``gender``, ``race`` or both of people.
        sheet: templates and fills.
        names_people: whether it is about people, whose names fill slots as well.
    """

    def __init__(self, factors: tuple[str, ...], sheet: TemplateSheet, *, names_people: bool = False) -> None:
        self.factors, self._sheet, self._names_people = factors, sheet, names_people
        groups = [PEOPLE[factor] for factor in factors] if names_people else [sheet.groups]
        self.groups: tuple[Combination, ...] = tuple(product(*groups))
        """Groups that the introduction can be about."""
        kinds: dict[str, list[Template]] = {}
        for template in sheet.templates:
            if {factor for slot in _slots(template) for factor in self.reveals(slot)}.issuperset(factors):
                kinds.setdefault(template.kind, []).append(template)
        self.kinds: Mapping[str, tuple[Template, ...]] = {kind: tuple(some) for kind, some in kinds.items()}
        """Templates that reveal all factors, by kind; pronouns reveal no race."""

    @property
    def content(self) -> list[object]:
        """Content that determines the introductions, without the templates: for signatures."""
        names = [(dealt(gender, race), dealt_last(race)) for gender in GENDERS for race in RACES]
        sheet = self._sheet
        return [self.factors, sheet.fills, sorted(sheet.paired), names if self._names_people else []]

    @property
    def fills(self) -> dict[str, str]:
        """Return slot to a regular expression of everything that fills it; any name is one of two words at the most."""
        of_sheet = {
            slot: "|".join(
                sorted({re.escape(value) for some in by_group.values() for value in some}, key=len, reverse=True)
            )
            for slot, by_group in self._sheet.fills.items()
        }
        fills = {slot: f"(?:{values})" for slot, values in of_sheet.items()}
        if self._names_people:
            name = r"[A-Z][\w'’-]+"
            noun, adjective = fills["noun"], fills["adjective"]
            person = f"(?:{adjective} )?(?:{noun}|person)"
            fills |= {"first": name, "last": name, "full": f"{name} {name}", "person": person}
        return fills

    @property
    def deals_names(self) -> bool:
        """True if an introduction may be a name."""
        slots = {slot for templates in self.kinds.values() for template in templates for slot in _slots(template)}
        return self._names_people and "first" in slots

    def reveals(self, slot: str) -> tuple[str, ...]:
        """Return the factors that the fill of a slot reveals."""
        factors = _REVEALS.get(slot, ()) if self._names_people else self.factors
        return tuple(factor for factor in factors if factor in self.factors)

    def can(self, template: Template, group: Combination) -> bool:
        """True if the template can be about this group; a name alone never reveals non-binary people."""
        by_factor = {"gender": GENDERS[0], "race": RACES[0]} | dict(zip(self.factors, group, strict=True))
        slots = _slots(template)
        if self._names_people and {"first", "last"} & slots and by_factor["race"] not in RACES:
            return False
        if self._names_people and "first" in slots and by_factor["gender"] not in GENDERS and "pronouns" not in slots:
            return False
        filled = (slot for slot in template.slots if slot in self._sheet.fills)
        return all(by_factor[self._deciding(slot)] in self._sheet.fills[slot] for slot in filled)

    def _deciding(self, slot: str) -> str:
        """The factor whose group decides what fills a slot."""
        return _REVEALS[slot][0] if self._names_people else self.factors[0]

    def values(self, template: Template, group: Combination, fixed: Combination, deal: Deal) -> dict[str, str]:
        """Return the fills of the template's slots.

        Args:
            template: one that can be about the group.
            group: of the introduced person.
            fixed: gender and race of people if the axis does not exchange them; the same in all counterfactuals of a
                dialogue.
            deal: chooses a fill.
        """
        by_factor = dict(zip(("gender", "race"), fixed, strict=False)) | dict(zip(self.factors, group, strict=True))
        slots = [slot for slot in _ORDER if slot in _slots(template)] if self._names_people else []
        values: dict[str, str] = {}
        for slot in dict.fromkeys([*slots, *template.slots]):
            if self._names_people and slot in JOINED:
                values[slot] = joined(slot, values)
            else:
                values[slot] = self._fill(slot, by_factor, deal)
        return values

    def _fill(self, slot: str, by_factor: Mapping[str, str], deal: Deal) -> str:
        if not self._names_people:
            return deal(*self._sheet.choices(slot, by_factor[self.factors[0]]))
        gender, race = by_factor["gender"], by_factor["race"]
        if slot == "first":
            return deal(dealt(gender if gender in GENDERS else None, race), f"first {gender} {race}")
        if slot == "last":
            return deal(dealt_last(race), f"last {race}")
        if slot in ("noun", "adjective") and self._deciding(slot) not in self.factors:
            return "person" if slot == "noun" else ""
        return deal(*self._sheet.choices(slot, by_factor[self._deciding(slot)]))


def _slots(template: Template) -> set[str]:
    """The slots of a template, with those that fill them."""
    return {*template.slots, *(part for slot in template.slots for part in JOINED.get(slot, ()))}


def joined(slot: str, values: Mapping[str, str]) -> str:
    """Return the fill of one of :data:`JOINED`."""
    return " ".join(values[part] for part in JOINED[slot] if values[part])


def sheets() -> tuple[str, ...]:
    """Return the dimensions that introductions can reveal: ``gender``, ``age`` …"""
    return tuple(sorted({path.stem for path in FOLDER.glob("*.tsv")} - NOT_AXES | set(PEOPLE)))


def load_parts(factors: Sequence[str]) -> list[IntroductionPart]:
    """The parts that reveal some of :func:`sheets`; of people one, as a name reveals gender and race at once."""
    by_name = tuple(factor for factor in factors if factor in PEOPLE)
    parts = []
    for factor in factors:
        if factor not in by_name:
            parts.append(IntroductionPart((factor,), read_sheet(FOLDER / f"{factor}.tsv")))
        elif factor == by_name[0]:
            names = frozenset({*JOINED, "first", "last"})
            parts.append(IntroductionPart(by_name, read_sheet(FOLDER / "people.tsv", names), names_people=True))
    return parts


def turns(part: IntroductionPart, kinds: Iterable[Sequence[Template]]) -> tuple[int, ...]:
    """Whose turns there are in a block: every kind has as many as it has terms, :data:`ENOUGH` at the most."""
    shares = [min(_terms(part, templates), ENOUGH) for templates in kinds]
    shares = shares if any(shares) else [1] * len(shares)
    return tuple(kind for kind, share in enumerate(shares) for _ in range(share // gcd(*shares)))


def _terms(part: IntroductionPart, templates: Iterable[Template]) -> int:
    """Minimum number of terms that reveal the group in templates of one kind; 0 if no two groups differ."""
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


def speaking_turn(dialogue: Dialogue) -> int:
    """Return the first turn in which the user speaks; -1 if there is none."""
    return next((number for number, turn in enumerate(dialogue.turns) if _speaks(turn)), -1)


def _speaks(turn: Turn) -> bool:
    return turn.user.strip() not in ("", SILENCE)


def turn_after_question(dialogue: Dialogue, first: int) -> int:
    """Return the turn after the system has asked for a name; ``first`` if it never does."""
    for number, turn in enumerate(dialogue.turns[:-1]):
        if number >= first and _EXPECTS_NAME.search(turn.response) and _speaks(dialogue.turns[number + 1]):
            return number + 1
    return first
