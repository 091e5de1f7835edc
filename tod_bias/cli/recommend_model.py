"""``tod-bias recommend train``, ``evaluate`` and ``mitigate``: LMRec itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import MinLen
from pydantic import Field

from tod_bias.cli.arguments import check_files, refuse
from tod_bias.cli.options import command
from tod_bias.cli.recommend_options import (
    LevelOptions,
    NeutraliseOptions,
    ReviewOptions,
    SplitSeed,
    TemplateOptions,
    TopOptions,
    check_masked,
    check_models,
    check_reviews,
    read_reviews,
)
from tod_bias.config import DeviceOptions, OutputOptions, Positive, ResumeOptions
from tod_bias.errors import RecommenderError
from tod_bias.files import subfolder, write_table, write_text
from tod_bias.folder import claimed
from tod_bias.recommenders.lmrec.settings import SCRATCH, RecommenderTrainConfig, read_grid
from tod_bias.report.sheets import print_sheets


class TrainingReviews(ReviewOptions, TemplateOptions):
    """What is learned from."""

    missing: Literal["error", "keep", "drop"] = "error"
    """Venues without price or categories: error, keep or drop."""


class ModelOutput(ResumeOptions, OutputOptions):
    """Where models go."""

    title = "Output"

    out: Path
    """Folder for the model; with several cities, a folder each in it."""
    grid: Path | None = None
    """YAML of settings with lists of values: try all, keep the best."""


@command("tod-bias recommend train --reviews Leeds=leeds.csv --out models/leeds")
def train(*, source: TrainingReviews, config: RecommenderTrainConfig, output: ModelOutput) -> None:
    """Train LMRec on reviews: which venue is this a review of? (Shen §3.2)."""
    _check(source, config, output)
    check_files(output.grid)
    check_files(source.templates, otherwise="no such folder")
    from tod_bias.recommenders.lmrec.masking import Neutraliser
    from tod_bias.recommenders.lmrec.templates import load_templates

    combinations = read_grid(output.grid, config) if output.grid is not None else None
    options: dict[str, Any] = {
        "neutraliser": Neutraliser(load_templates(source.templates)),
        "resume": output.resume,
        "show_progress": not output.quiet,
    }
    every = read_reviews(source)
    names = [part.city for part in every]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise RecommenderError(f"two cities are called {doubled[0]!r}; name them apart with --reviews CITY=FILE")

    from tod_bias.recommenders.lmrec.training import search  # heavy imports come after what may go wrong at once
    from tod_bias.recommenders.lmrec.training import train as train_model

    for part in every:
        folder = subfolder(output.out, part.city) if len(every) > 1 else output.out
        if combinations:
            record = search(part, folder, config, combinations, **options)
        else:
            record = train_model(part, folder, config, **options)
        if not output.quiet:
            print(
                f"{part.city}: {len(part.venues)} venues, {len(part):,} reviews, {record['steps']} steps; lowest "
                f"validation loss {record['validation_loss']:.4f} nats per review at step {record['best_step']}. "
                f"Model: {folder}"
            )


def _check(source: TrainingReviews, config: RecommenderTrainConfig, output: ModelOutput) -> None:
    """See to it that no option is passed over, and that every city can name a folder."""
    if config.init != "scratch":
        refuse(config, SCRATCH, f"for encoders from scratch; {config.init} has its own")
    if not config.mask:
        refuse(source, ("templates",), "what --mask takes out; give that, or leave it out")
    if config.head_layers == 1 and output.grid is None:
        refuse(config, ("hidden",), "between the head's two layers, and --head-layers is 1; leave it out")
    named = [text.partition("=")[0] for text in source.reviews if "=" in text]
    if len(source.reviews) > 1 and (odd := [name for name in named if Path(name).name != name]):
        raise RecommenderError(f"the city {odd[0]!r}: its model goes into a folder of this name; give it another one")


class EvaluatedModels(DeviceOptions, NeutraliseOptions):
    """Which models are scored."""

    title = "System"

    model: Annotated[tuple[Path, ...], MinLen(1)]
    """Folder of a trained LMRec; one per city."""


class EvaluatedReviews(ReviewOptions):
    """On which reviews."""

    max_reviews: Positive | None = None
    """Test reviews of a city at most."""


class QualityOptions(LevelOptions, SplitSeed):
    """How intervals are estimated."""

    title = "Statistics"

    level: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95
    """Level of the intervals."""


class QualityOutput(OutputOptions):
    """Where scores go."""

    out: Path = Path("runs/quality")
    """Folder for the results."""


@command("tod-bias recommend evaluate --model models/leeds --reviews Leeds=leeds.csv")
def evaluate(*, models: EvaluatedModels, source: EvaluatedReviews, how: QualityOptions, output: QualityOutput) -> None:
    """Recommendation quality on the test split (Shen 2022, Table 3)."""
    check_models(*models.model)
    if len(models.model) != (cities := check_reviews(source)):
        raise RecommenderError(f"{len(models.model)} models, but reviews of {cities} cities; give one model a city")
    from tod_bias.recommenders.lmrec import quality
    from tod_bias.recommenders.lmrec.queries import distinct_names
    from tod_bias.recommenders.lmrec.training import trained_seed

    every = read_reviews(source)
    folders = models.model
    loaded = [_matching(folder, part, models.device) for folder, part in zip(folders, every, strict=True)]
    claimed(output.out)
    names = distinct_names([part.city for part in every], folders)
    known = map(trained_seed, folders)
    seed = how.seed or 0
    splits = [seed if part is None else part for part in known]  # another split holds reviews that were trained on
    ranked = _ranked(loaded, every, dict(zip(names, splits, strict=True)), models, source, not output.quiet)
    frame = quality.quality(ranked, level=how.level, resamples=how.bootstrap, seed=seed)
    record = {
        "schema": 1,
        "models": list(map(str, folders)),
        "cities": list(ranked),
        "neutralised": models.neutralise,
        "level": how.level,
        "resamples": how.bootstrap,
        "seed": seed,
        "split_seeds": dict(zip(names, splits, strict=True)),
        "test_reviews": {name: len(part) for name, part in ranked.items()},
    }
    quality.save(frame, output.out, record)
    if not output.quiet:
        from tod_bias.recommenders.lmrec.tables import quality_sheet

        print_sheets([quality_sheet(frame, how.level)])
        print(f"Results: {output.out}")


def _ranked(
    models: Sequence[Any],
    every: Sequence[Any],
    splits: dict[str, int],
    how: EvaluatedModels,
    source: EvaluatedReviews,
    show_progress: bool,
) -> dict[str, Any]:
    """City to the ranks of its test reviews' venues."""
    from itertools import islice

    from tod_bias.recommenders.lmrec.masking import Neutraliser
    from tod_bias.recommenders.lmrec.quality import rank_reviews

    ranked = {}
    for (name, split), lmrec, part in zip(splits.items(), models, every, strict=True):
        lmrec.neutraliser = Neutraliser() if how.neutralise else None
        held_out = list(islice(part.of_split(2, split), source.max_reviews))
        texts, venues = [review.text for review in held_out], [review.venue for review in held_out]
        ranked[name] = rank_reviews(lmrec, texts, venues, show_progress=show_progress)
    return ranked


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


class MaskingStatistics(LevelOptions, SplitSeed):
    """How intervals are estimated."""

    title = "Statistics"


class MaskingOutput(OutputOptions):
    """Where the comparison goes."""

    out: Path = Path("runs/mitigation")
    """Folder for the results."""


@command("tod-bias recommend mitigate --model models/leeds --masked-model models/masked --reviews Leeds=leeds.csv")
def mitigate(*, models: ComparedModels, source: ComparedReviews, how: MaskingStatistics, output: MaskingOutput) -> None:
    """Quality and bias before and after masking, side by side (Shen §3.5, Fig. 2)."""
    check_models(models.model, models.masked_model)
    if (cities := check_reviews(source)) != 1:
        raise RecommenderError(f"reviews of {cities} cities are given; expected one")
    check_masked(models.masked_model)
    from tod_bias.recommenders.lmrec import mitigation
    from tod_bias.recommenders.lmrec.templates import load_templates
    from tod_bias.recommenders.lmrec.training import trained_seed
    from tod_bias.report.palette import to_svg
    from tod_bias.statistics.settings import Inference

    (part,) = read_reviews(source)
    folders = (models.model, models.masked_model)
    plain, masked = (_matching(folder, part, models.device) for folder in folders)
    out = claimed(output.out)
    seeds = [trained_seed(folder) for folder in folders]
    if None not in seeds and len(set(seeds)) > 1:
        raise RecommenderError(
            f"{folders[0]} was trained with seed {seeds[0]}, {folders[1]} with {seeds[1]}, so their test reviews "
            "differ; compare models of one seed"
        )
    split = next((seed for seed in seeds if seed is not None), how.seed or 0)
    inference = Inference(level=how.level, resamples=how.bootstrap, seed=split if how.seed is None else how.seed)
    result = mitigation.compare(
        plain,
        masked,
        part,
        split_seed=split,
        words=load_templates(source.templates),
        top=source.top,
        inference=inference,
        show_progress=not output.quiet,
    )
    write_table(out / "quality.csv", result.quality)
    write_table(out / "bias.csv", result.bias)
    write_text(out / "mitigation.svg", to_svg(mitigation.figure(result)))
    if not output.quiet:
        from tod_bias.recommenders.lmrec.tables import mitigation_sheet

        print_sheets([mitigation_sheet(result, how.level)])
        print(f"Results: {output.out}")


def _matching(folder: Path, reviews: Any, device: str | None) -> Any:
    """The model of a folder, if it was trained for the very venues of the reviews."""
    from tod_bias.recommenders.lmrec.model import LMRec

    model = LMRec.load(folder, device=device)
    if [venue.id for venue in model.venues] != [venue.id for venue in reviews.venues]:
        raise RecommenderError(
            f"{folder}: its {len(model.venues)} venues are not the {len(reviews.venues)} of the reviews of "
            f"{reviews.city}; give the reviews (and --min-reviews, --missing) that it was trained on"
        )
    return model
