"""``tod-bias recommend train``."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.checks import check_files, refuse
from tod_bias.cli.options import command
from tod_bias.cli.recommender_options import ReviewOptions, TemplateOptions, check_reviews
from tod_bias.config import OutputOptions, ResumeOptions
from tod_bias.recommenders.lmrec.settings import SCRATCH, RecommenderTrainConfig


class TrainingReviews(ReviewOptions, TemplateOptions):
    """Reviews to train on."""


class ModelOutput(ResumeOptions, OutputOptions):
    """Folder for the models."""

    title = "Output"

    out: Path
    """Folder for the model; with several cities, a folder each in it."""


@command("tod-bias recommend train --reviews Leeds=leeds.csv --out models/leeds")
def train(*, source: TrainingReviews, config: RecommenderTrainConfig, output: ModelOutput) -> None:
    """Train LMRec on reviews: which venue is this a review of? (Shen §3.2)."""
    if config.init != "scratch":
        refuse(config, SCRATCH, f"for encoders from scratch; {config.init} has its own")
    if not config.mask:
        refuse(source, ("templates",), "what --mask takes out; give that, or leave it out")
    if config.head_layers == 1:
        refuse(config, ("hidden",), "between the head's two layers, and head_layers is 1; leave it out")
    check_files(source.templates, otherwise="no such folder")
    check_reviews(source)
    from tod_bias.cli.work.recommender_training import (
        train_cities,  # heavy imports come after what may go wrong at once
    )

    train_cities(source, source.templates, config, output.out, resume=output.resume, quiet=output.quiet)
