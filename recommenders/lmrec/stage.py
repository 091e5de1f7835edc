"""LMRec in a pipeline: recommender, item lookup and a response, as stages.

::

    stages:
      recommend: {stage: "tod_bias.recommenders.lmrec:Recommend", model: models/lmrec}
      lookup: {stage: "tod_bias.recommenders.lmrec:ItemLookup", table: models/lmrec/venues.jsonl}
      response: "tod_bias.recommenders.lmrec:VenueResponse"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tod_bias.documents import loads, read_text
from tod_bias.errors import StageError
from tod_bias.recommenders.lmrec.masking import Neutraliser
from tod_bias.recommenders.lmrec.model import K, LMRec
from tod_bias.systems.outputs import Lookup, Outcome
from tod_bias.systems.stage import Stage, StageInput

RANKED = tuple[Mapping[str, str], ...]
"""Ranked venues: ``id``, ``name``, ``price`` (dollar signs), ``categories`` (joined by commas)."""


class Recommend(Stage):
    """Utterance in, ranked venues out: a tuple of mappings, the best first.

    Args:
        model: a trained LMRec, or its folder.
        top: venues in a list.
        neutralise: mask names, places and gendered relations of the utterance first (test-side neutralisation).
        device: where it runs.
        batch: utterances at once.
    """

    def __init__(
        self,
        model: LMRec | str | Path,
        *,
        top: int = K,
        neutralise: bool = False,
        device: str | None = None,
        batch: int = 128,
    ) -> None:
        self.model = model if isinstance(model, LMRec) else LMRec.load(model, device=device)
        if not 0 < top <= len(self.model.venues):
            raise StageError(
                f"Recommend: top is {top}; expected 1 to {len(self.model.venues)}, the venues of the model"
            )
        self._hide = Neutraliser() if neutralise else None
        self._top = top
        self._batch = batch
        self._rows = [
            {"id": v.id, "name": v.name, "price": v.dollars, "categories": ", ".join(v.categories)}
            for v in self.model.venues
        ]

    @cached_property
    def signature(self) -> str:  # type: ignore[override]
        """What decides the lists."""
        return f"lmrec:{self.model.fingerprint}|top:{self._top}|neutralise:{self._hide is not None}"

    def __call__(self, inputs: Sequence[StageInput], /) -> list[RANKED]:
        """One ranked list an input."""
        texts = [self._hide(item.user) if self._hide else item.user for item in inputs]
        ranked = self.model.rank(texts, self._top, batch=self._batch)
        return [tuple(dict(self._rows[number]) for number in row) for row in ranked]


class ItemLookup(Stage):
    """Looks up the first recommended venue that the table knows.

    Args:
        table: id to row, or a file of JSON lines with ``id`` (a model's ``venues.jsonl``, or one with more to say).
        recommend: name of the stage whose ranked venues are looked up.
    """

    def __init__(self, table: Mapping[str, Mapping[str, str]] | str | Path, *, recommend: str = "recommend") -> None:
        self._table = dict(table) if isinstance(table, Mapping) else _read_table(Path(table))
        self._recommend = recommend

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Lookup]:
        """One lookup an input.

        Raises:
            StageError: an input has no output of the recommender.
        """
        return [self._look_up(item) for item in inputs]

    def _look_up(self, item: StageInput) -> Lookup:
        if self._recommend not in item.outputs:
            names = ", ".join(item.outputs) or "none"
            raise StageError(f"ItemLookup: needs the output of a stage {self._recommend!r} before it; there is {names}")
        ranked = item.outputs[self._recommend]
        if not ranked:
            return Lookup(Outcome.NO_CALL)
        for venue in ranked:
            row = self._table.get(venue["id"])
            if row is not None:
                return Lookup(Outcome.FOUND, (row,))
        return Lookup(Outcome.NO_ROW)


class VenueResponse(Stage):
    """Says which venue was found, in one sentence.

    Args:
        lookup: name of the stage whose row is said.
        template: with the row's fields in braces.
        nothing: said where no row was found.
    """

    def __init__(
        self,
        lookup: str = "lookup",
        template: str = "How about {name}? It serves {categories} and its price level is {price}.",
        nothing: str = "Sorry, I know no place for that.",
    ) -> None:
        self._lookup = lookup
        self._template = template
        self._nothing = nothing

    def __call__(self, inputs: Sequence[StageInput], /) -> list[str]:
        """One response an input.

        Raises:
            StageError: the row lacks a field of the template.
        """
        return [self._say(item.outputs.get(self._lookup)) for item in inputs]

    def _say(self, result: Any) -> str:
        if not isinstance(result, Lookup) or not result.rows:
            return self._nothing
        try:
            return self._template.format(**result.result)
        except (KeyError, IndexError) as error:
            raise StageError(f"VenueResponse: the row of {result.result.get('id')!r} has no {error}") from error


def _read_table(path: Path) -> dict[str, Mapping[str, str]]:
    try:
        lines = read_text(path, "utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StageError(f"{path}: cannot be read as a table of venues: {error}") from error
    table: dict[str, Mapping[str, str]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = loads(line)
            table[record["id"]] = {name: _text(name, value) for name, value in record.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StageError(f'{path}, line {number}: expected {{"id": …, "name": …}} ({error!r})') from error
    return table


def _text(name: str, value: Any) -> str:
    if name == "price":
        return "$" * value if isinstance(value, int) else str(value or "not known")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
