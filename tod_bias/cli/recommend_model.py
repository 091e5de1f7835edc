"""``tod-bias recommend train``, ``evaluate`` and ``mitigate``: LMRec itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen

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
from tod_bias.io.files import subfolder, write_json, write_table, write_text
from tod_bias.io.folder import claimed
from tod_bias.recommenders.lmrec.settings import SCRATCH, RecommenderTrainConfig
from tod_bias.report.sheets import print_sheets


class TrainingReviews(ReviewOptions, TemplateOptions):
    """Reviews to train on."""


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
    """Models to score."""

    title = "System"

    model: Annotated[tuple[Path, ...], MinLen(1)]
    """Folder of a trained LMRec; one or, with other seeds, several per city; may be repeated."""


class QualityOutput(OutputOptions):
    """Where scores go."""

    out: Path = Path("runs/quality")
    """Folder for the results."""


@command("tod-bias recommend evaluate --model models/leeds --reviews Leeds=leeds.csv")
def evaluate(*, models: EvaluatedModels, source: ReviewOptions, how: LevelOptions, output: QualityOutput) -> None:
    """Recommendation quality on the test split (Shen 2022, Table 3).

    Each model is scored on the reviews of its city. The mean is over the cities, each the mean of its models, with a t
    interval over the cities (with one city: over its models).
    """
    check_models(*models.model)
    from tod_bias.recommenders.lmrec.masking import Neutraliser
    from tod_bias.recommenders.lmrec.quality import quality, quality_sheet, rank_held_out

    every = read_reviews(source)
    trained = _matched(models.model, every, models.device)
    claimed(output.out)
    hide = Neutraliser() if models.neutralise else None
    ranked, splits, cities = {}, {}, {}
    for name, (lmrec, part, seed) in trained.items():
        splits[name], cities[name] = seed, part.city  # other splits hold reviews it was trained on
        ranked[name] = rank_held_out(lmrec, part, seed, hide, show_progress=not output.quiet)
    frame = quality(ranked, cities, level=how.level, resamples=how.bootstrap, seed=how.seed)
    record = {
        "schema": 1,
        "models": list(map(str, models.model)),
        "cities": cities,
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
    """Models to compare."""

    title = "System"

    model: Annotated[tuple[Path, ...], MinLen(1)]
    """LMRec trained on reviews as they are; several for several cities or seeds; may be repeated."""
    masked_model: tuple[Path, ...] = ()
    """LMRec trained with --mask, one for each --model, of its city and seed; may be repeated."""
    augmented_model: tuple[Path, ...] = ()
    """LMRec trained with --augment, one for each --model, of its city and seed; may be repeated."""


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
    """Quality and bias before and after mitigation, side by side (Shen 2023 §3.5 and Fig. 2, Shen 2022 §5).

    Before; with masks in requests, in training reviews and in both; trained on augmented reviews; and with lists
    re-ranked so that each has the venues' shares of price levels at every rank (Geyik et al. 2019). Means are over the
    cities, as in evaluate.
    """
    check_models(*models.model, *models.masked_model, *models.augmented_model)
    from tod_bias.recommenders.lmrec import mitigation
    from tod_bias.recommenders.lmrec.templates import load_templates
    from tod_bias.report.palette import to_svg
    from tod_bias.statistics.settings import Inference

    trainings = _trainings(models, read_reviews(source))
    out = claimed(output.out)
    inference = Inference(level=how.level, resamples=how.bootstrap, seed=how.seed)
    words = load_templates(source.templates)
    result = mitigation.compare(trainings, words=words, top=source.top, how=inference, show_progress=not output.quiet)
    write_table(out / "quality.csv", result.quality)
    write_table(out / "bias.csv", result.bias)
    write_text(out / "mitigation.svg", to_svg(mitigation.figure(result)))
    if not output.quiet:
        print_sheets([mitigation.mitigation_sheet(result, how.level)])
        print(f"Results: {output.out}")


def _trainings(models: ComparedModels, reviews: Sequence[Any]) -> list[Any]:
    """The models by city and seed.

    Raises:
        RecommenderError: a model was not trained so, or has no counterpart of its city and seed.
    """
    from tod_bias.recommenders.lmrec.mitigation import CityModels
    from tod_bias.recommenders.lmrec.training import training_settings

    kinds = {"plain": models.model, "masked": models.masked_model, "augmented": models.augmented_model}
    options = {"plain": "--model", "masked": "--masked-model", "augmented": "--augmented-model"}
    matched: dict[str, dict[tuple[str, int], Any]] = {}
    names: dict[tuple[str, int], str] = {}
    for kind, folders in kinds.items():
        for folder in folders:
            settings = training_settings(folder)
            if kind != "plain" and not settings.get("mask" if kind == "masked" else "augment"):
                raise RecommenderError(f"{folder}: was not trained with --{'mask' if kind == 'masked' else 'augment'}")
        for name, (lmrec, part, seed) in _matched(folders, reviews, models.device).items():
            key = (part.city, seed)
            if key in matched.setdefault(kind, {}):
                raise RecommenderError(f"{options[kind]}: two models of {part.city} with seed {seed}; give one")
            matched[kind][key] = (lmrec, part)
            names.setdefault(key, name)
    for kind in matched:
        for key in matched["plain"].keys() ^ matched[kind].keys():
            given, without = (kind, "plain") if key in matched[kind] else ("plain", kind)
            raise RecommenderError(
                f"{options[given]} has a model of {key[0]} with seed {key[1]}, and {options[without]} has none; test "
                "reviews differ by seed, so give models of one seed"
            )
    return [
        CityModels(names[key], part, key[1], {kind: matched[kind][key][0] for kind in matched})
        for key, (_, part) in matched["plain"].items()
    ]


def _matched(folders: Sequence[Path], reviews: Sequence[Any], device: str | None) -> dict[str, tuple[Any, Any, int]]:
    """Name of each model to the model, the reviews of the very venues that it was trained for, and its seed.

    Raises:
        RecommenderError: a model has no reviews, or reviews have no model.
    """
    from tod_bias.recommenders.lmrec.model import LMRec
    from tod_bias.recommenders.lmrec.queries import distinct_names
    from tod_bias.recommenders.lmrec.training import training_settings

    trained = []
    for folder in folders:
        model = LMRec.load(folder, device=device)
        ids = [venue.id for venue in model.venues]
        part = next((part for part in reviews if [venue.id for venue in part.venues] == ids), None)
        if part is None:
            given = ", ".join(f"{len(part.venues)} of {part.city}" for part in reviews)
            raise RecommenderError(
                f"{folder}: its {len(ids)} venues are not those of the reviews ({given}); give the reviews (and "
                "--min-reviews, --missing, --category) that it was trained on"
            )
        trained.append((model, part, int(training_settings(folder).get("seed", 0))))
    if folders and (left := [part.city for part in reviews if all(part is not mine for _, mine, _ in trained)]):
        raise RecommenderError(f"--reviews {left[0]}: no model was trained on them; give one, or leave them out")
    return dict(zip(distinct_names([part.city for _, part, _ in trained], folders), trained, strict=True))
