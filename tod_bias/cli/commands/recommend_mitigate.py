"""``tod-bias recommend mitigate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from annotated_types import MinLen

from tod_bias.cli.options import command
from tod_bias.cli.recommender_options import (
    LevelOptions,
    ReviewOptions,
    TemplateOptions,
    TopOptions,
    check_models,
    check_reviews,
)
from tod_bias.config import DeviceOptions, OutputOptions, Positive


class ComparedModels(DeviceOptions):
    """Models to compare."""

    title = "System"

    model: Annotated[tuple[Path, ...], MinLen(1)]
    """LMRec trained on reviews as they are; several for several cities or seeds; may be repeated."""
    masked_model: tuple[Path, ...] = ()
    """LMRec trained with --mask: one for each --model, with the same city and seed; may be repeated."""
    augmented_model: tuple[Path, ...] = ()
    """LMRec trained with --augment: one for each --model, with the same city and seed; may be repeated."""


class ComparedReviews(ReviewOptions, TemplateOptions, TopOptions):
    """Data of the comparison."""

    title = "Data"

    top: Positive = 20
    """Ranks that count."""


class MaskingOutput(OutputOptions):
    """Folder for the comparison."""

    out: Path = Path("runs/mitigation")
    """Folder for the results."""


@command("tod-bias recommend mitigate --model models/leeds --masked-model models/masked --reviews Leeds=leeds.csv")
def mitigate(*, models: ComparedModels, source: ComparedReviews, how: LevelOptions, output: MaskingOutput) -> None:
    """Quality and bias before and after mitigation, side by side (Shen 2023 §3.5 and Fig. 2, Shen 2022 §5).

    Before; with masks in requests, in training reviews and in both; trained on augmented reviews; and with lists
    re-ranked so that each has the venues' shares of price levels at every rank (Geyik et al. 2019). Means are over the
    cities, as in evaluate.
    """
    check_models(*models.model, *models.masked_model, *models.augmented_model)
    check_reviews(source)
    from tod_bias.cli.work.recommender_mitigation import compare_trainings  # heavy: after what may go wrong at once

    folders = {"plain": models.model, "masked": models.masked_model, "augmented": models.augmented_model}
    written = (source.templates, source.top)
    compare_trainings(folders, source, how, written, output.out, device=models.device, quiet=output.quiet)
