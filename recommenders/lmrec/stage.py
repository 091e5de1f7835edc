"""LMRec as a stage: ``recommend: {stage: "tod_bias.stages:Recommend", model: models/lmrec}``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tod_bias.errors import StageError
from tod_bias.models.checkpoints import fingerprint
from tod_bias.recommenders.lmrec.masking import Neutraliser
from tod_bias.recommenders.lmrec.model import K, LMRec
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
