"""``tod-bias recommend evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from annotated_types import MinLen

from tod_bias.cli.options import command
from tod_bias.cli.recommender_options import (
    LevelOptions,
    NeutraliseOptions,
    ReviewOptions,
    check_models,
    check_reviews,
)
from tod_bias.config import DeviceOptions, OutputOptions


class EvaluatedModels(DeviceOptions, NeutraliseOptions):
    """Models to score."""

    title = "System"

    model: Annotated[tuple[Path, ...], MinLen(1)]
    """Folder of a trained LMRec; one or, with other seeds, several per city; may be repeated."""


class QualityOutput(OutputOptions):
    """Folder for the scores."""

    out: Path = Path("runs/quality")
    """Folder for the results."""


@command("tod-bias recommend evaluate --model models/leeds --reviews Leeds=leeds.csv")
def evaluate(*, models: EvaluatedModels, source: ReviewOptions, how: LevelOptions, output: QualityOutput) -> None:
    """Recommendation quality on the test split (Shen 2022, Table 3).

    Each model is scored on the reviews of its city. The mean is over the cities, each the mean of its models, with a t
    interval over the cities (with one city: over its models).
    """
    check_models(*models.model)
    check_reviews(source)
    from tod_bias.cli.work.recommender_quality import score_models  # heavy imports come after what may go wrong at once

    masked = models.neutralise
    score_models(models.model, source, how, output.out, device=models.device, neutralise=masked, quiet=output.quiet)
