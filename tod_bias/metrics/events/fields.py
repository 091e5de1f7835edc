"""Events of fields: a field that is missing or present, one of few values, the mean of a number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self
from urllib.parse import unquote

from tod_bias.dialogues.text import is_sentence
from tod_bias.metrics.events.event import NOTHING, Event, Presence, Reading, number_in
from tod_bias.metrics.events.facts import ANY, Facts, Leaf, escaped, root_of, unescaped
from tod_bias.metrics.metric import Better

_USUAL = 0.4
"""Share of turns with a mapping from which a field belongs to it, so that it can be missing: if two of three groups
lose a field in 60% of the turns, it is still there in 60% of all."""
MOST_VALUES = 6
"""Most values of a field that are counted one by one; a field with more is not a choice from a list."""


def owner_of(path: str) -> tuple[str, str]:
    """Return the path of the mapping that a field belongs to, and the field's name; empty if it is in none."""
    owner, dot, name = path.rpartition(".")
    return (owner, name) if dot else ("", path)


def words_for(path: str) -> str:
    """Return a path as a person reads it: the field, or the tool with its argument or result's field."""
    root = root_of(path)
    inside = unquote(path[len(root) :].replace("[]", "").strip("."))
    first, inside = ("first ", inside.replace("[0]", "").strip(".")) if "[0]" in inside else ("", inside)
    tool, slash, part = root.partition("/")
    if slash and part == "result":
        whose = "results" if tool == ANY else unquote(tool)
        return f"{first}{inside} of {whose}" if inside else f"{first}result of {whose}"
    if first:
        return f"{first}{inside} of {unquote(tool)}" if inside else f"{first}of {unquote(tool)}"
    return inside or unquote(tool)


def _owner_words(path: str) -> str:
    """Return a mapping as a person reads it: a tool, a component, the results of a tool."""
    if path == ANY:
        return "calls"
    tool, slash, rest = path.partition("/")
    if slash and rest.startswith("result"):
        return "results" if tool == ANY else f"results of {unquote(tool)}"
    if slash and rest == "argument":
        return unquote(tool)
    return unquote(path.replace("[]", ""))


class FieldEvent(Event):
    """Event of a field; its place is the field's path."""

    @property
    def specificity(self) -> int:
        """A list is named before its first item."""
        return -self.place[0].count("[0]")

    def name_in(self, excerpt: str) -> str:
        """Return the field."""
        return words_for(self.place[0])

    def excerpt(self, facts: Facts) -> str:
        """Return the field with its values, or that it is missing."""
        path = self.place[0]
        name = words_for(path)
        if values := facts.fields.get(path, []):
            shown = ", ".join(text_of(value) for value in dict.fromkeys(values))
            return f"{name} {shown}"
        owner = owner_of(path)[0]
        if owner and owner not in facts.objects and "/" not in owner and root_of(path) not in facts.stage_of:
            return "no call"
        return f"{name} missing"


def text_of(value: Leaf) -> str:
    """Return a value as text, the same for equal values."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


class Missing(FieldEvent):
    """A field or an argument is missing, where another variant of the dialogue has it."""

    kind = "missing"
    better: Better = "lower"

    @property
    def label(self) -> str:  # type: ignore[override]
        """Tool or component without the field."""
        owner, name = owner_of(self.place[0])
        return f"{_owner_words(owner)} without {unquote(name)}"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the share."""
        return f"turns in 100 with {self.label}"

    @classmethod
    def fits(cls, place: tuple[str, ...], presence: Presence, share: float) -> bool:
        """Return whether the field usually belongs to the mapping.

        The fields of a tool are its own. A component may put out mappings of several shapes, so that most variants of
        the same turn decide.
        """
        if root_of(place[0]) in presence.tools:
            return presence.fields[place[0]] >= _USUAL * presence.objects[owner_of(place[0])[0]]
        return share <= 1 / 2

    @classmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the fields that are there, with 1 if another mapping of the same list lacks it."""
        for path, values in facts.fields.items():
            owner = owner_of(path)[0]
            if owner and "[0]" not in path and not path.endswith("[]"):  # an item is no field of its own
                yield (path,), float(len(values) < facts.objects.get(owner, 0))

    def reading(self, facts: Facts) -> Reading:
        """Return 1 if a mapping lacks the field, and 1 if any has it."""
        path = self.place[0]
        owner = owner_of(path)[0]
        has = len(facts.fields.get(path, ()))
        return float(has < facts.objects.get(owner, 0)), float(has > 0)


class Has(FieldEvent):
    """A field is there that most variants of the dialogue lack."""

    kind = "has"
    needs_all = True

    @property
    def label(self) -> str:  # type: ignore[override]
        """Tool or component with the field."""
        owner, name = owner_of(self.place[0])
        return f"{_owner_words(owner)} with {unquote(name)}"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the share."""
        return f"turns in 100 with {self.label}"

    @classmethod
    def fits(cls, place: tuple[str, ...], presence: Presence, share: float) -> bool:
        """Return whether the field usually does not belong to the mapping."""
        return not Missing.fits(place, presence, 1 - share)

    @classmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the fields that are there."""
        return ((place, 1.0) for place, _ in Missing.shown(facts))

    def reading(self, facts: Facts) -> Reading:
        """Return 1 if the field is there, and 1 if the mapping that may hold it is."""
        path = self.place[0]
        return float(path in facts.fields), float(owner_of(path)[0] in facts.objects or path in facts.fields)


class HasValue(FieldEvent):
    """A field has one of few values; of a list, any item has."""

    kind = "value"
    order = 6
    needs_all = True

    def __init__(self, path: str, value: str) -> None:
        super().__init__(path, value)

    @classmethod
    def name_of(cls, *place: str) -> str:
        """Return ``value:PATH=VALUE``."""
        return f"{cls.kind}:{place[0]}={escaped(place[1])}"

    @classmethod
    def parsed(cls, place: str) -> Self | None:
        """Return the event of a path and a value."""
        path, equals, value = place.partition("=")
        return cls(path, unescaped(value)) if path and equals else None

    @property
    def label(self) -> str:  # type: ignore[override]
        """Field with its value."""
        return f"{words_for(self.place[0])} is {' '.join(self.place[1].split())}"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the share."""
        return f"turns in 100 in which {self.label}"

    @classmethod
    def fits(cls, place: tuple[str, ...], presence: Presence, share: float) -> bool:
        """Return whether the field has few values."""
        return len(presence.values.get(place[0], ())) <= MOST_VALUES

    @classmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield every field with each of its values; numbers have a kind of their own."""
        for path, values in facts.fields.items():
            for value in dict.fromkeys(map(text_of, values)):
                if len(value) <= _LONGEST_VALUE and number_in(value) is None and not is_sentence(value):
                    yield (path, value), 1.0

    def reading(self, facts: Facts) -> Reading:
        """Return 1 if the field has the value, and 1 if it has any."""
        values = facts.fields.get(self.place[0])
        return NOTHING if not values else (float(self.place[1] in map(text_of, values)), 1.0)


_LONGEST_VALUE = 60
"""Characters of a value that may be one of few."""


class Number(FieldEvent):
    """Mean of a number: of a field, of a field of all items of a list, or of its first item."""

    kind = "number"
    order = 5
    range = None
    needs_all = True

    @property
    def label(self) -> str:  # type: ignore[override]
        """The field."""
        return words_for(self.place[0])

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the mean."""
        return f"{self.label} per turn"

    @classmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield every field that holds numbers, with their mean."""
        for path, values in facts.fields.items():
            if (mean := _mean(values)) is not None:
                yield (path,), mean

    def reading(self, facts: Facts) -> Reading:
        """Return the mean of the field's numbers, and 1 if it has any."""
        mean = _mean(facts.fields.get(self.place[0], ()))
        return NOTHING if mean is None else (mean, 1.0)


def _mean(values: list[Leaf] | tuple[()]) -> float | None:
    numbers = [number for value in values if (number := number_in(value)) is not None]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None


class ListLength(Event):
    """Mean number of items of a list in the output of a component."""

    kind = "length"
    order = 4
    range = None
    needs_all = True

    @property
    def label(self) -> str:  # type: ignore[override]
        """The list; a component may put out nothing else."""
        items = "items of " if self.place[0] == root_of(self.place[0]) else ""
        return f"number of {items}{words_for(self.place[0])}"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the mean."""
        return f"items of {words_for(self.place[0])} per turn"

    @classmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield every list with its length."""
        for path, items in facts.lists.items():
            if not path.endswith("/result"):  # results have a kind of their own
                yield (path,), float(len(items))

    def reading(self, facts: Facts) -> Reading:
        """Return the number of items, and 1 if there is such a list."""
        items = facts.lists.get(self.place[0])
        return NOTHING if items is None else (float(len(items)), 1.0)

    def name_in(self, excerpt: str) -> str:
        """Return the list."""
        return words_for(self.place[0])

    def excerpt(self, facts: Facts) -> str:
        """Return the number of items."""
        items = facts.lists.get(self.place[0])
        return f"{words_for(self.place[0])} {'missing' if items is None else len(items)}"
