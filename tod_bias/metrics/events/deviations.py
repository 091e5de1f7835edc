"""Events of deviation: a field, a list or a text is not what most variants of the same turn have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np

from tod_bias.metrics.events.event import Cells, Event, Reading
from tod_bias.metrics.events.facts import Facts
from tod_bias.metrics.events.fields import words_for

Form = tuple[str, ...] | None
"""Items of a list, or the one value of a field or text; None for none."""


def form_of(facts: Facts, path: str) -> Form:
    """Return what a turn has at a path: the items of a list, a value, or a text."""
    if path in facts.lists:
        return tuple(facts.lists[path])
    if path in facts.fields:
        return tuple(json.dumps(value) for value in facts.fields[path])
    root = path.removeprefix(_TEXT)
    return (facts.texts[root],) if path.startswith(_TEXT) and root in facts.texts else None


_TEXT = "text/"
"""Beginning of the path of a text as a whole."""


def _majority(forms: Sequence[Form]) -> tuple[bool, Form]:
    """Return whether more than half of some variants have one form, and the form."""
    form, number = Counter(forms).most_common(1)[0]
    return 2 * number > len(forms), form


class Deviates(Event):
    """A field, list or text is not what most variants of the same turn have; it takes three groups."""

    kind = "deviates"
    level = 2
    order = 1
    takes_majority = True

    @property
    def label(self) -> str:  # type: ignore[override]
        """The field, other than for most."""
        return f"{self._what} other than for most"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the share."""
        return f"turns in 100 with {self.label}"

    @property
    def _what(self) -> str:
        path = self.place[0]
        if not path.startswith(_TEXT):
            return words_for(path)
        return f"text of {unquote(path.removeprefix(_TEXT))}" if path != _TEXT else "response"

    @classmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield every place; whether one deviates takes the other variants (:meth:`differing`)."""
        for path in cls._paths(facts):
            yield (path,), 0.0

    @classmethod
    def _paths(cls, facts: Facts) -> Iterator[str]:
        yield from facts.lists
        yield from (path for path in facts.fields if "[" not in path)
        yield from (f"{_TEXT}{path}" for path in facts.texts if path not in facts.fields)

    def reading(self, facts: Facts) -> Reading:
        """Return (0, 1) for a turn alone: it deviates from nothing."""
        return 0.0, float(form_of(facts, self.place[0]) is not None)

    @classmethod
    def happens(cls, form: Form, usual: Form) -> bool:
        """Return whether a form is an event beside the usual one."""
        return form is not None and usual is not None and form != usual

    @classmethod
    def differing(cls, variants: Sequence[Facts]) -> Iterator[tuple[tuple[str, ...], list[Reading]]]:
        """Yield the places at which some variants are not as most are."""
        if len(variants) < 3 or len({id(facts) for facts in variants}) < 2:
            return
        for path in dict.fromkeys(path for facts in variants for path in cls._paths(facts)):
            forms = [form_of(facts, path) for facts in variants]
            is_most, usual = _majority(forms)
            if is_most and any(cls.happens(form, usual) for form in forms):
                yield (path,), [(float(cls.happens(form, usual)), 1.0) for form in forms]

    def depends(self, original: Facts, variant: Facts) -> bool:
        """Return whether a turn and its variant have different forms."""
        return self.happens(*(form_of(facts, self.place[0]) for facts in (original, variant)))

    def sums(self, cells: Cells) -> np.ndarray:
        """Return (rows, 2): whether each turn deviates from most variants, and whether most agree."""
        numbers: dict[Form, int] = {}
        forms = [form_of(facts, self.place[0]) for facts in cells.facts]
        codes = np.array([numbers.setdefault(form, len(numbers)) for form in forms], dtype=int)
        known = list(numbers)
        of_row = codes[cells.of_row] if len(codes) else np.zeros(0, dtype=int)
        usual = _usual(of_row[cells.is_system], cells.cell[cells.is_system], cells.number, len(known))
        pairs = usual[cells.cell] * max(1, len(known)) + of_row
        distinct, place = np.unique(pairs, return_inverse=True)
        happens = [pair >= 0 and self.happens(known[pair % len(known)], known[pair // len(known)]) for pair in distinct]
        could = (usual >= 0) & (usual != numbers.get(None, -2))
        happened = np.array(happens, dtype=float)[place] if len(distinct) else np.zeros(len(of_row))
        return np.stack([happened * could[cells.cell], could[cells.cell].astype(float)], axis=1)

    def excerpt(self, facts: Facts) -> str:
        """Return the field or list as the turn has it."""
        form = form_of(facts, self.place[0])
        if self.place[0].startswith(_TEXT):
            return facts.texts.get(self.place[0].removeprefix(_TEXT), "") if self.place[0] != _TEXT else ""
        if form is None:
            return f"{words_for(self.place[0])} missing"
        return f"{words_for(self.place[0])} {', '.join(_named(item) for item in form[:_MOST_ITEMS])}"

    def name_in(self, excerpt: str) -> str:
        """Return the field or list; empty for a text."""
        return "" if self.place[0].startswith(_TEXT) else words_for(self.place[0])

    def place_in(self, facts: Facts) -> float:
        """Return the place among the steps."""
        return facts.place(self.place[0].removeprefix(_TEXT))

    def stage_in(self, facts: Facts) -> str:
        """Return the component whose output it is."""
        return facts.stage(self.place[0].removeprefix(_TEXT))


_MOST_ITEMS = 4
"""Items of a list that an example names."""


def _usual(codes: np.ndarray, cell: np.ndarray, cells: int, number: int) -> np.ndarray:
    """Return (cells,) the code that more than half of the rows of a cell have; -1 if there is none."""
    usual = np.full(cells, -1)
    if not len(codes):
        return usual
    pairs, counts = np.unique(cell * number + codes, return_counts=True)
    rows = np.bincount(cell, minlength=cells)
    is_most = 2 * counts > rows[pairs // number]
    usual[pairs[is_most] // number] = pairs[is_most] % number
    return usual


def _named(item: str) -> str:
    """Return the item of a list by its first text, or as it is."""
    value: Any = json.loads(item)
    if isinstance(value, Mapping):
        texts = [entry for entry in value.values() if isinstance(entry, str)]
        return texts[0] if texts else ", ".join(f"{name} {entry}" for name, entry in value.items())
    return str(value)


class Order(Deviates):
    """A list has the same items as most variants of the turn have, in another order."""

    kind = "order"
    level = 0
    order = 4

    @property
    def label(self) -> str:  # type: ignore[override]
        """The list in another order."""
        return f"{words_for(self.place[0])} in another order"

    @classmethod
    def _paths(cls, facts: Facts) -> Iterator[str]:
        yield from (path for path, items in facts.lists.items() if len(items) > 1)

    @classmethod
    def happens(cls, form: Form, usual: Form) -> bool:
        """Return whether two lists differ in their order alone."""
        return form != usual and form is not None and usual is not None and sorted(form) == sorted(usual)
