"""``tod-bias recommend``: reads options, calls the library, prints."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tod_bias.cli.options import Device, Quiet, Seed
from tod_bias.errors import RecommenderError
from tod_bias.files import write_json, write_table, write_text
from tod_bias.folder import writable

if TYPE_CHECKING:
    from tod_bias.recommenders.lmrec.recommendations import Recommendations

app = typer.Typer(
    name="recommend",
    no_args_is_help=True,
    help="Trains, scores, audits and mitigates LMRec, or audits any recommender's saved lists (Shen 2022, 2023).",
)


class Correction(StrEnum):
    """Corrections for many categories."""

    bh = "bh"
    holm = "holm"


Level = Annotated[float, typer.Option(min=0.5, max=0.999, help="Level of the intervals.")]
Resamples = Annotated[int, typer.Option("--bootstrap", min=0, help="Resamples of queries for intervals; 0 for none.")]
Permutations = Annotated[int, typer.Option(min=0, help="Permutations of the tests; 0 for none.")]
CorrectionOption = Annotated[Correction, typer.Option(help="bh (Benjamini–Hochberg) or holm, over categories.")]
Figures = Annotated[bool, typer.Option(help="Draw the figures and write the report.")]
AuditOut = Annotated[Path, typer.Option(help="Folder for the results.")]


@app.command()
def audit(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=FILE…]", help="Further cities, as for --city.")
    ] = None,
    model: Annotated[
        list[Path] | None, typer.Option(help="Folder of a trained LMRec; several for several cities or trainings.")
    ] = None,
    recommendations: Annotated[
        list[Path] | None, typer.Option(help="Saved recommendations: CSV, TSV or Parquet. No model is needed then.")
    ] = None,
    city: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="Saved recommendations of a city.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(metavar="FILE'S=OURS,…", help="Names of the file's columns for ours.")
    ] = None,
    separators: Annotated[
        str,
        typer.Option(
            "--separators", "--separator", "--category-separators", help="Characters that separate categories."
        ),
    ] = ",",
    dimension: Annotated[
        list[str] | None, typer.Option(metavar="NAME=LABEL,LABEL", help="The dimension of labels that are not known.")
    ] = None,
    neutral: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]FILE", help="Saved recommendations for neutralised queries.")
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Ranks that count; all of a file, 20 of a model.")] = None,
    templates: Annotated[Path | None, typer.Option(help="Folder with your own templates.tsv, names.tsv, …")] = None,
    neutralise: Annotated[bool, typer.Option(help="With --model: mask names, places, relations in queries.")] = False,
    level: Level = 0.90,
    bootstrap: Resamples = 1000,
    permutations: Permutations = 10_000,
    correction: CorrectionOption = Correction.bh,
    figures: Figures = True,
    batch: Annotated[int, typer.Option(min=1, help="Queries in a batch.")] = 128,
    device: Device = None,
    seed: Seed = 0,
    out: AuditOut = Path("runs/recommend"),
    quiet: Quiet = False,
) -> None:
    """Audit a recommender: price percentage, associations, average prices, with intervals and tests.

    Of a trained LMRec (--model), by Shen's templates; or of any recommender's saved lists (--recommendations FILE, or
    --city NAME=FILE for each city). Writes report.html, CSV files, recommendations.parquet, audit.json and figures.
    Intervals are over the cities where there are several; several models of one city, trained with other seeds, count
    as cities.
    """
    saved = _files(recommendations, [*(city or []), *(files or [])])
    if bool(model) == bool(saved):
        raise RecommenderError("give either --model DIR, or --recommendations FILE or --city NAME=FILE")
    idle = (
        {"--columns": columns, "--neutral": neutral, "--dimension": dimension}
        if model
        else {"--neutralise": neutralise}
    )
    if given := [name for name, value in idle.items() if value]:
        raise RecommenderError(f"{given[0]} does not go with {'--model' if model else 'saved recommendations'}")
    writable(out)
    from tod_bias.recommenders.lmrec.audit import audit as run_audit
    from tod_bias.recommenders.lmrec.templates import load_templates
    from tod_bias.statistics.settings import Inference

    source: dict[str, Any]
    if model:
        from tod_bias.recommenders.lmrec.queries import recommend_templates

        frame, source = recommend_templates(
            model, templates=templates, top=top or 20, batch=batch, device=device, neutralise=neutralise,
            show_progress=not quiet,
        )  # fmt: skip
    else:
        frame = _read_saved(saved, columns, separators, dimension, neutral, top)
        source = {"recommendations": [str(path) for _, path in saved]}
    inference = Inference(
        level=level, resamples=bootstrap, permutations=permutations, correction=correction.value, seed=seed
    )
    result = run_audit(frame, inference, source=source, words=load_templates(templates))
    result.save(out, figures=figures)
    if not quiet:
        from tod_bias.recommenders.lmrec.terminal import audit_view

        Console().print(audit_view(result))
        typer.echo(f"Report: {out / 'report.html'}" if figures else f"Results: {out}")


def _read_saved(
    saved: Sequence[tuple[str | None, Path]],
    columns: Sequence[str] | None,
    separators: str,
    dimension: Sequence[str] | None,
    neutral: Sequence[str] | None,
    top: int | None,
) -> Recommendations:
    from tod_bias.recommenders.lmrec.recommendations import Reading, read_recommendations

    reading = Reading(
        columns=_pairs("--columns", ",".join(columns or [])),
        separators=separators,
        dimensions={
            name: [label.strip() for label in labels.split(",") if label.strip()]
            for name, labels in (_pair("--dimension", text) for text in dimension or [])
        },
        top=top,
    )
    neutral_files = [_pair("--neutral", text) if "=" in text else (None, text) for text in neutral or []]
    return read_recommendations(saved, reading, neutral=neutral_files)


def _files(plain: Sequence[Path] | None, named: Sequence[str]) -> list[tuple[str | None, Path]]:
    found: list[tuple[str | None, Path]] = [(None, path) for path in plain or []]
    for text in named:
        name, file = _pair("--city", text)
        found.append((name, Path(file)))
    return found


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise RecommenderError(f"{option} {text}: expected NAME=VALUE")
    return name, value


def _pairs(option: str, text: str) -> dict[str, str]:
    return dict(_pair(option, part) for part in text.split(",") if part.strip())


ReviewFiles = Annotated[
    list[str] | None,
    typer.Option(metavar="[CITY=]FILE", help="A city's review CSV; 'sample' (the default) for the bundled sample."),
]
Yelp = Annotated[Path | None, typer.Option(help="Folder of Yelp's dataset (business.json, review.json).")]
YelpCity = Annotated[list[str] | None, typer.Option("--city", help="With --yelp: the city to read.")]
MinReviews = Annotated[int, typer.Option(min=1, help="Leave out venues with fewer reviews.")]


class MissingOption(StrEnum):
    """What to do with venues without price or categories."""

    error = "error"
    keep = "keep"
    drop = "drop"


Missing = Annotated[MissingOption, typer.Option(help="Venues without price or categories: error, keep or drop.")]
CategorySeparators = Annotated[str, typer.Option(help="Characters that separate categories.")]
TrainingSeed = Annotated[int, typer.Option(min=0, help="Seeds the split, the model and whatever else is drawn.")]
SplitSeed = Annotated[
    int | None, typer.Option(min=0, help="Seed of the split and of what is drawn; by default the training's.")
]


@app.command()
def sample(
    out: Annotated[Path, typer.Option(help="Folder for the CSV files.")] = Path("runs/sample"),
    city: Annotated[list[str] | None, typer.Option(help="Names of the cities; one file each.")] = None,
    venues: Annotated[int, typer.Option(min=1, max=240, help="Venues a city.")] = 240,
    reviews: Annotated[int, typer.Option(min=1, help="Reviews a venue.")] = 110,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Write the bundled sample, reviews with known associations planted in them, as CSV files."""
    from tod_bias.recommenders.lmrec import sample as generator

    for name in city or [generator.CITY]:
        path = out / f"{name}.csv"
        count = generator.write_sample(path, generator.sample(seed, venues=venues, reviews=reviews, city=name))
        if not quiet:
            typer.echo(f"{count:,} reviews: {path}")
    if not quiet:
        for what, how in generator.PLANTED.items():
            typer.echo(f"planted, {what}: {how}")


@app.command()
def statistics(
    reviews: ReviewFiles = None,
    yelp: Yelp = None,
    city: YelpCity = None,
    min_reviews: MinReviews = 100,
    missing: Missing = MissingOption.keep,
    separators: CategorySeparators = ",",
    bootstrap: Resamples = 1000,
    level: Level = 0.90,
    seed: Seed = 0,
    out: AuditOut = Path("runs/statistics"),
    quiet: Quiet = False,
) -> None:
    """Statistics of review data (Shen Tables 2 and 6) and of the names in it by price level (Table 7)."""
    import pandas as pd

    from tod_bias.recommenders.lmrec.reviews import name_statistics

    every = _reviews(reviews, yelp, city, min_reviews, missing, separators)
    writable(out)
    found = [own.statistics() for own in every]
    names = pd.concat(
        [name_statistics(own, level=level, resamples=bootstrap, seed=seed) for own in every], ignore_index=True
    )
    write_json(out / "statistics.json", found)
    write_table(out / "name_statistics.csv", names)
    if not quiet:
        from tod_bias.recommenders.lmrec.terminal import statistics_view

        Console().print(statistics_view(found, names))
        typer.echo(f"Results: {out}")


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="Folder for the model; with several cities, a folder each in it.")],
    reviews: ReviewFiles = None,
    yelp: Yelp = None,
    city: YelpCity = None,
    min_reviews: MinReviews = 100,
    missing: Missing = MissingOption.error,
    separators: CategorySeparators = ",",
    init: Annotated[str, typer.Option(help="An encoder's name or folder to fine-tune, or 'scratch'.")] = "scratch",
    head_layers: Annotated[int, typer.Option(min=1, max=2, help="Layers of the recommendation head.")] = 2,
    hidden: Annotated[int, typer.Option(min=1, help="Width between the head's two layers.")] = 512,
    dropout: Annotated[float, typer.Option(min=0, max=0.9, help="Before the head.")] = 0.1,
    learning_rate: Annotated[float | None, typer.Option(help="Peak; 1e-3 from scratch, else 3e-5.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Reviews in a batch.")] = 128,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the reviews at the most.")] = 30,
    patience: Annotated[int, typer.Option(min=1, help="Stop after so many epochs without a lower loss.")] = 10,
    max_length: Annotated[int, typer.Option(min=8, help="Tokens of a review at the most.")] = 128,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Stop after so many steps of the schedule.")] = None,
    mask: Annotated[bool, typer.Option(help="Train-side masking of names, places and gendered relations.")] = False,
    grid: Annotated[
        Path | None, typer.Option(help="YAML of settings with lists of values: try all, keep the best.")
    ] = None,
    layers: Annotated[int, typer.Option(min=1, help="From scratch: layers of the encoder.")] = 1,
    width: Annotated[int, typer.Option(min=1, help="From scratch: hidden size of the encoder.")] = 64,
    heads: Annotated[int, typer.Option(min=1, help="From scratch: attention heads.")] = 2,
    vocabulary: Annotated[int, typer.Option(min=100, help="From scratch: tokens of the tokenizer.")] = 8000,
    bf16: Annotated[bool, typer.Option(help="Train in bfloat16.")] = False,
    templates: Annotated[Path | None, typer.Option(help="With --mask: folder with your own names.tsv, …")] = None,
    seed: TrainingSeed = 0,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted training in the same folder.")] = True,
    quiet: Quiet = False,
) -> None:
    """Train LMRec on reviews: which venue is this a review of? (Shen §3.2)."""
    every = _reviews(reviews, yelp, city, min_reviews, missing, separators)
    names = [own.city for own in every]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise RecommenderError(f"two cities are called {doubled[0]!r}; name them apart with --reviews CITY=FILE")

    from tod_bias.recommenders.lmrec.masking import Neutraliser
    from tod_bias.recommenders.lmrec.templates import load_templates
    from tod_bias.recommenders.lmrec.training import TrainingSettings, read_grid, search
    from tod_bias.recommenders.lmrec.training import train as train_model

    usual = 1e-3 if init == "scratch" else 3e-5
    settings = TrainingSettings(
        init=init, head_layers=head_layers, hidden=hidden, dropout=dropout, batch=batch, epochs=epochs,
        learning_rate=usual if learning_rate is None else learning_rate, patience=patience, max_length=max_length,
        max_steps=max_steps, mask=mask, bf16=bf16, seed=seed, vocabulary=vocabulary, layers=layers, width=width,
        heads=heads,
    )  # fmt: skip
    combinations = read_grid(grid) if grid is not None else None
    options: dict[str, Any] = {
        "neutraliser": Neutraliser(load_templates(templates)), "resume": resume, "show_progress": not quiet,
    }  # fmt: skip
    for own in every:
        folder = out / own.city if len(every) > 1 else out
        if combinations:
            record = search(own, folder, settings, combinations, **options)
        else:
            record = train_model(own, folder, settings, **options)
        if not quiet:
            typer.echo(
                f"{own.city}: {len(own.venues)} venues, {len(own):,} reviews, {record['steps']} steps; lowest "
                f"validation loss {record['validation_loss']:.4f} nats a review at step {record['best_step']}. "
                f"Model: {folder}"
            )


@app.command()
def evaluate(
    model: Annotated[list[Path], typer.Option(help="Folder of a trained LMRec; one a city.")],
    reviews: ReviewFiles = None,
    yelp: Yelp = None,
    city: YelpCity = None,
    min_reviews: MinReviews = 100,
    missing: Missing = MissingOption.keep,
    separators: CategorySeparators = ",",
    neutralise: Annotated[bool, typer.Option(help="Mask names, places and gendered relations in reviews.")] = False,
    max_reviews: Annotated[int | None, typer.Option(min=1, help="Test reviews of a city at the most.")] = None,
    level: Annotated[float, typer.Option(min=0.5, max=0.999, help="Level of the intervals.")] = 0.95,
    bootstrap: Resamples = 1000,
    device: Device = None,
    seed: SplitSeed = None,
    out: AuditOut = Path("runs/quality"),
    quiet: Quiet = False,
) -> None:
    """Recommendation quality on the test split (Shen 2022, Table 3)."""
    from itertools import islice

    from tod_bias.recommenders.lmrec import quality
    from tod_bias.recommenders.lmrec.masking import Neutraliser
    from tod_bias.recommenders.lmrec.model import LMRec
    from tod_bias.recommenders.lmrec.queries import told_apart
    from tod_bias.recommenders.lmrec.training import trained_seed

    every = _reviews(reviews, yelp, city, min_reviews, missing, separators)
    models = [_matching(LMRec.load(folder, device=device), own, folder) for folder, own in _paired(model, every)]
    writable(out)
    ranked = {}
    names = told_apart([own.city for own in every], model)
    splits = [(trained_seed(folder) or 0) if seed is None else seed for folder in model]
    for name, split, lmrec, own in zip(names, splits, models, every, strict=True):
        lmrec.neutraliser = Neutraliser() if neutralise else None
        held_out = list(islice(own.of_split(2, split), max_reviews))
        ranked[name] = quality.rank_reviews(
            lmrec, [review.text for review in held_out], [review.venue for review in held_out], show_progress=not quiet
        )
    frame = quality.quality(ranked, level=level, resamples=bootstrap, seed=seed or 0)
    record = {
        "schema": 1, "models": list(map(str, model)), "cities": list(ranked), "neutralised": neutralise, "level": level,
        "resamples": bootstrap, "seed": seed or 0, "split_seeds": dict(zip(names, splits, strict=True)),
        "test_reviews": {name: len(own) for name, own in ranked.items()},
    }  # fmt: skip
    quality.save(frame, out, record)
    if not quiet:
        from tod_bias.recommenders.lmrec.terminal import quality_view

        Console().print(quality_view(frame, level))
        typer.echo(f"Results: {out}")


@app.command()
def mitigate(
    model: Annotated[Path, typer.Option(help="LMRec trained on reviews as they are.")],
    masked_model: Annotated[Path, typer.Option(help="LMRec trained with --mask.")],
    reviews: ReviewFiles = None,
    yelp: Yelp = None,
    city: YelpCity = None,
    min_reviews: MinReviews = 100,
    missing: Missing = MissingOption.keep,
    separators: CategorySeparators = ",",
    templates: Annotated[Path | None, typer.Option(help="Folder with your own templates.tsv, names.tsv, …")] = None,
    top: Annotated[int, typer.Option(min=1, help="Items a list.")] = 20,
    level: Level = 0.90,
    bootstrap: Resamples = 1000,
    device: Device = None,
    seed: SplitSeed = None,
    out: AuditOut = Path("runs/mitigation"),
    quiet: Quiet = False,
) -> None:
    """Quality and bias before and after masking, side by side (Shen §3.5, Fig. 2)."""
    from tod_bias.recommenders.lmrec import mitigation
    from tod_bias.recommenders.lmrec.model import LMRec
    from tod_bias.recommenders.lmrec.templates import load_templates
    from tod_bias.recommenders.lmrec.training import trained_seed
    from tod_bias.report.palette import to_svg
    from tod_bias.statistics.settings import Inference

    (own,) = _one(_reviews(reviews, yelp, city, min_reviews, missing, separators))
    plain, trained_masked = (
        _matching(LMRec.load(folder, device=device), own, folder) for folder in (model, masked_model)
    )
    if not trained_masked.model.config.masked:
        raise RecommenderError(f"{masked_model}: was not trained with --mask")
    writable(out)
    seeds = [trained_seed(folder) for folder in (model, masked_model)]
    if seed is None and None not in seeds and len(set(seeds)) > 1:
        raise RecommenderError(
            f"{model} was trained with seed {seeds[0]}, {masked_model} with {seeds[1]}, so their test reviews differ; "
            "compare models of one seed"
        )
    split = (seeds[0] or 0) if seed is None else seed
    result = mitigation.compare(
        plain, trained_masked, own, split_seed=split, words=load_templates(templates), top=top,
        inference=Inference(level=level, resamples=bootstrap, seed=split), show_progress=not quiet,
    )  # fmt: skip
    write_table(out / "quality.csv", result.quality)
    write_table(out / "bias.csv", result.bias)
    write_text(out / "mitigation.svg", to_svg(mitigation.figure(result)))
    if not quiet:
        from tod_bias.recommenders.lmrec.terminal import mitigation_view

        Console().print(mitigation_view(result, level))
        typer.echo(f"Results: {out}")


def _reviews(
    files: Sequence[str] | None,
    yelp: Path | None,
    cities: Sequence[str] | None,
    min_reviews: int,
    missing: MissingOption,
    separators: str,
) -> list[Any]:
    from tod_bias.recommenders.lmrec import reviews as reading
    from tod_bias.recommenders.lmrec.sample import CITY
    from tod_bias.recommenders.lmrec.sample import sample as generate

    if yelp is not None:
        if files or not cities:
            raise RecommenderError("with --yelp give --city NAME (and no --reviews)")
        sources = [(name, reading.read_yelp(yelp, name)) for name in cities]
    elif cities:
        raise RecommenderError("--city goes with --yelp; a CSV file is named with --reviews CITY=FILE")
    else:
        sources = []
        for text in files or ["sample"]:
            name, equals, file = text.partition("=")
            if text == "sample":
                sources.append((CITY, generate()))
            else:
                path = Path(file if equals else text)
                sources.append((name if equals else path.stem, reading.read_csv(path)))
    return [
        reading.Reviews(source, city=name, fewest=min_reviews, missing=missing.value, separators=separators)
        for name, source in sources
    ]


def _paired(models: Sequence[Path], reviews: Sequence[Any]) -> list[tuple[Path, Any]]:
    if len(models) != len(reviews):
        raise RecommenderError(f"{len(models)} models, but reviews of {len(reviews)} cities; give one model a city")
    return list(zip(models, reviews, strict=True))


def _one(reviews: Sequence[Any]) -> Sequence[Any]:
    if len(reviews) != 1:
        raise RecommenderError(f"reviews of {len(reviews)} cities are given; expected one")
    return reviews


def _matching(model: Any, reviews: Any, folder: Path) -> Any:
    """The model, if it was trained for the very venues of the reviews."""
    if [venue.id for venue in model.venues] != [venue.id for venue in reviews.venues]:
        raise RecommenderError(
            f"{folder}: its {len(model.venues)} venues are not the {len(reviews.venues)} of the reviews of "
            f"{reviews.city}; give the reviews (and --min-reviews, --missing) that it was trained on"
        )
    return model
