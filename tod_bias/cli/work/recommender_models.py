"""Trained models of LMRec, each with the reviews that it was trained for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tod_bias.errors import RecommenderError
from tod_bias.recommenders.lmrec.model import LMRec, distinct_names, training_settings
from tod_bias.recommenders.lmrec.reviews import Reviews


def with_reviews(
    folders: Sequence[Path], reviews: Sequence[Reviews], device: str | None
) -> dict[str, tuple[Any, Any, int]]:
    """Map the name of each model to the model, the reviews of the very venues that it was trained for, and its seed.

    Raises:
        RecommenderError: a model has no reviews, or reviews have no model.
    """
    trained = []
    for folder in folders:
        model = LMRec.load(folder, device=device)
        ids = [venue.id for venue in model.venues]
        part = next((part for part in reviews if [venue.id for venue in part.venues] == ids), None)
        if part is None:
            given = ", ".join(f"{len(part.venues)} of {part.city}" for part in reviews)
            raise RecommenderError(
                f"{folder}: its {len(ids)} venues are not those of the reviews ({given}); give the reviews (and "
                "--min-reviews, missing, category) that it was trained on"
            )
        trained.append((model, part, int(training_settings(folder).get("seed", 0))))
    if folders and (left := [part.city for part in reviews if all(part is not mine for _, mine, _ in trained)]):
        raise RecommenderError(f"--reviews {left[0]}: no model was trained on them; give one, or leave them out")
    return dict(zip(distinct_names([part.city for _, part, _ in trained], folders), trained, strict=True))
