"""Stages of a pipeline with LMRec: the recommender, a lookup of the first venue, and a response (Shen 2022)::

stages:
  recommend: {stage: "tod_bias.stages:Recommend", model: models/lmrec}
  lookup: {stage: "tod_bias.stages:ItemLookup", table: models/lmrec/venues.jsonl}
  response: "tod_bias.stages:VenueResponse"
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tod_bias.errors import StageError
from tod_bias.io.documents import loads
from tod_bias.models.checkpoints import fingerprint
from tod_bias.recommenders.lmrec.model import K, LMRec
from tod_bias.recommenders.lmrec.templates import Neutraliser
from tod_bias.systems.outputs import Lookup, Outcome
from tod_bias.systems.stage import Stage, StageInput

RANKED = tuple[Mapping[str, str], ...]
"""Ranked venues: ``id``, ``name``, ``price`` (dollar signs), ``categories`` (joined by commas)."""


class Recommend(Stage):
    """Stage from an utterance to ranked venues: a tuple of mappings, the best first.

    Args:
        model: folder of a trained LMRec.
        top: venues in a list; None for all.
        neutralise: mask names, places and gendered relations of the utterance first (test-side neutralisation).
        device: of the model.
        batch: utterances per batch.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        top: int | None = K,
        neutralise: bool = False,
        device: str | None = None,
        batch: int = 128,
    ) -> None:
        self.model = LMRec.load(model, device=device)
        self._fingerprint = hashlib.sha256(f"{fingerprint(str(model))} {self.model.venues}".encode()).hexdigest()[:16]
        top = len(self.model.venues) if top is None else top
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
        """Identify everything that determines the lists."""
        return f"lmrec:{self._fingerprint}|top:{self._top}|neutralise:{self._hide is not None}"

    def __call__(self, inputs: Sequence[StageInput], /) -> list[RANKED]:
        """One ranked list an input."""
        texts = [self._hide(item.user) if self._hide else item.user for item in inputs]
        ranked = self.model.rank(texts, self._top, batch=self._batch)
        return [tuple(dict(self._rows[number]) for number in row) for row in ranked]


class ItemLookup(Stage):
    """Look up the first recommended venue that the table holds.

    Args:
        table: id to row, or a file of JSON lines with ``id``: a model's ``venues.jsonl``, or one with more fields.
        recommend: name of the stage whose ranked venues are looked up.
    """

    def __init__(self, table: Mapping[str, Mapping[str, str]] | str | Path, *, recommend: str = "recommend") -> None:
        self._table = dict(table) if isinstance(table, Mapping) else _read_table(Path(table))
        self._recommend = recommend

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Lookup]:
        """Return one lookup per input.

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
                return Lookup(Outcome.ROWS, (row,))
        return Lookup(Outcome.NO_ROW)


class VenueResponse(Stage):
    """Say in one sentence which venue was found.

    Args:
        lookup: name of the stage whose row is put into words.
        template: the response, with the row's fields in braces.
        nothing: the response if no row was found.
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
        """Return one response per input.

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
    records = [loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {record["id"]: {name: _text(name, value) for name, value in record.items()} for record in records}


def _text(name: str, value: Any) -> str:
    if name == "price":
        return "$" * value if isinstance(value, int) else str(value or "not known")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
