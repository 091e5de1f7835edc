"""``tod-bias recommend train``, ``evaluate`` and ``mitigate``: LMRec itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen
from pydantic import Field

from tod_bias.cli.arguments import check_files, refuse
from tod_bias.cli.options import command
from tod_bias.cli.recommend_options import (
    LevelOptions,
    NeutraliseOptions,
    ReviewOptions,
    TemplateOptions,
    TopOptions,
    check_models,
    read_reviews,
)
from tod_bias.config import DeviceOptions, OutputOptions, Positive, ResumeOptions
from tod_bias.errors import RecommenderError, repeated
from tod_bias.files import subfolder, write_json, write_table, write_text
from tod_bias.folder import claimed
from tod_bias.recommenders.lmrec.settings import SCRATCH, RecommenderTrainConfig
from tod_bias.report.sheets import print_sheets


class TrainingReviews(ReviewOptions, TemplateOptions):
    """What is learned from."""


class ModelOutput(ResumeOptions, OutputOptions):
    """Where models go."""

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
        refuse(config, ("hidden",), "between the head's two layers, and --head-layers is 1; leave it out")
    check_files(source.templates, otherwise="no such folder")
    from tod_bias.recommenders.lmrec.masking import Neutraliser
    from tod_bias.recommenders.lmrec.templates import load_templates

    hide = Neutraliser(load_templates(source.templates))
    every = read_reviews(source)
    names = [part.city for part in every]
    if doubled := repeated(names):
        raise RecommenderError(f"two cities are called {doubled!r}; name them apart with --reviews CITY=FILE")
    if len(every) > 1 and (odd := [name for name in names if Path(name).name != name]):
        raise RecommenderError(f"the city {odd[0]!r}: its model goes into a folder of this name; give it another one")

    from tod_bias.recommenders.lmrec.training import train as train_model  # heavy: after what may go wrong at once

    for part in every:
        folder = subfolder(output.out, part.city) if len(every) > 1 else output.out
        record = train_model(
            part, folder, config, neutraliser=hide, resume=output.resume, show_progress=not output.quiet
        )
        if not output.quiet:
            print(
                f"{part.city}: {len(part.venues)} venues, {len(part):,} reviews, {record['steps']} steps; lowest "
                f"validation loss {record['validation_loss']:.4f} nats per review at step {record['best_step']}. "
                f"Model: {folder}"
            )


class EvaluatedModels(DeviceOptions, NeutraliseOptions):
    """Which models are scored."""

    title = "System"

    model: Annotated[tuple[Path, ...], MinLen(1)]
    """Folder of a trained LMRec; one per city."""


class QualityStatistics(LevelOptions):
    """How intervals are estimated."""

    level: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95
    """Level of the intervals."""


class QualityOutput(OutputOptions):
    """Where scores go."""

    out: Path = Path("runs/quality")
    """Folder for the results."""


@command("tod-bias recommend evaluate --model models/leeds --reviews Leeds=leeds.csv")
def evaluate(*, models: EvaluatedModels, source: ReviewOptions, how: QualityStatistics, output: QualityOutput) -> None:
    """Recommendation quality on the test split (Shen 2022, Table 3)."""
    check_models(*models.model)
    from tod_bias.recommenders.lmrec.masking import Neutraliser
    from tod_bias.recommenders.lmrec.quality import quality, quality_sheet, rank_reviews
    from tod_bias.recommenders.lmrec.queries import distinct_names
    from tod_bias.recommenders.lmrec.training import training_settings

    every, folders = read_reviews(source), models.model
    if len(folders) != len(every):
        raise RecommenderError(f"{len(folders)} models, but reviews of {len(every)} cities; give one model a city")
    loaded = [_matching(folder, part, models.device) for folder, part in zip(folders, every, strict=True)]
    claimed(output.out)
    names = distinct_names([part.city for part in every], folders)
    hide = Neutraliser() if models.neutralise else None
    ranked, splits = {}, {}
    for name, lmrec, folder, part in zip(names, loaded, folders, every, strict=True):
        splits[name] = int(training_settings(folder).get("seed", 0))  # other splits hold reviews it was trained on
        held_out = list(part.of_split(2, splits[name]))
        texts = [hide(review.text) if hide else review.text for review in held_out]
        venues = [review.venue for review in held_out]
        ranked[name] = rank_reviews(lmrec, texts, venues, show_progress=not output.quiet)
    frame = quality(ranked, level=how.level, resamples=how.bootstrap, seed=how.seed)
    record = {
        "schema": 1,
        "models": list(map(str, folders)),
        "cities": list(ranked),
        "neutralised": models.neutralise,
        "level": how.level,
        "resamples": how.bootstrap,
        "seed": how.seed,
        "split_seeds": splits,
        "test_reviews": {name: len(part) for name, part in ranked.items()},
    }
    write_table(output.out / "quality.csv", frame)
    write_json(output.out / "quality.json", record)
    if not output.quiet:
        print_sheets([quality_sheet(frame, how.level)])
        print(f"Results: {output.out}")


class ComparedModels(DeviceOptions):
    """Which models are compared."""

    title = "System"

    model: Path
    """LMRec trained on reviews as they are."""
    masked_model: Path
    """LMRec trained with --mask."""


class ComparedReviews(ReviewOptions, TemplateOptions, TopOptions):
    """On what."""

    title = "Data"

    top: Positive = 20
    """Ranks that count."""


class MaskingOutput(OutputOptions):
    """Where the comparison goes."""

    out: Path = Path("runs/mitigation")
    """Folder for the results."""


@command("tod-bias recommend mitigate --model models/leeds --masked-model models/masked --reviews Leeds=leeds.csv")
def mitigate(*, models: ComparedModels, source: ComparedReviews, how: LevelOptions, output: MaskingOutput) -> None:
    """Quality and bias before and after masking, side by side (Shen §3.5, Fig. 2)."""
    check_models(models.model, models.masked_model)
    from tod_bias.recommenders.lmrec import mitigation
    from tod_bias.recommenders.lmrec.templates import load_templates
    from tod_bias.recommenders.lmrec.training import training_settings
    from tod_bias.report.palette import to_svg
    from tod_bias.statistics.settings import Inference

    part, *others = read_reviews(source)
    if others:
        raise RecommenderError(f"reviews of {1 + len(others)} cities are given; expected one")
    folders = (models.model, models.masked_model)
    plain, masked = (_matching(folder, part, models.device) for folder in folders)
    if not masked.model.config.masked:
        raise RecommenderError(f"{models.masked_model}: was not trained with --mask")
    seeds = [int(training_settings(folder).get("seed", 0)) for folder in folders]
    if seeds[0] != seeds[1]:
        raise RecommenderError(
            f"{folders[0]} was trained with seed {seeds[0]}, {folders[1]} with {seeds[1]}, so their test reviews "
            "differ; compare models of one seed"
        )
    out = claimed(output.out)
    inference = Inference(level=how.level, resamples=how.bootstrap, seed=how.seed)
    result = mitigation.compare(
        plain,
        masked,
        part,
        split_seed=seeds[0],
        words=load_templates(source.templates),
        top=source.top,
        inference=inference,
        show_progress=not output.quiet,
    )
    write_table(out / "quality.csv", result.quality)
    write_table(out / "bias.csv", result.bias)
    write_text(out / "mitigation.svg", to_svg(mitigation.figure(result)))
    if not output.quiet:
        print_sheets([mitigation.mitigation_sheet(result, how.level)])
        print(f"Results: {output.out}")


def _matching(folder: Path, reviews: Any, device: str | None) -> Any:
    """The model of a folder, if it was trained for the very venues of the reviews."""
    from tod_bias.recommenders.lmrec.model import LMRec

    model = LMRec.load(folder, device=device)
    if [venue.id for venue in model.venues] != [venue.id for venue in reviews.venues]:
        raise RecommenderError(
            f"{folder}: its {len(model.venues)} venues are not the {len(reviews.venues)} of the reviews of "
            f"{reviews.city}; give the reviews (and --min-reviews, --missing, --category) that it was trained on"
        )
    return model
