"""``tod-bias recommend train``, ``evaluate`` and ``mitigate``: LMRec itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.cli.arguments import check_files, unused
from tod_bias.cli.options import Device, Quiet
from tod_bias.cli.recommend_options import (
    AuditOut,
    CategorySeparators,
    Level,
    MinReviews,
    Missing,
    MissingOption,
    Resamples,
    ReviewFiles,
    SplitSeed,
    TrainingSeed,
    Yelp,
    YelpCity,
    check_masked,
    check_models,
    check_reviews,
    read_reviews,
)
from tod_bias.errors import RecommenderError
from tod_bias.files import own_folder, write_table, write_text
from tod_bias.folder import claimed
from tod_bias.report.console import Console


def train(
    context: typer.Context,
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
    if init != "scratch":
        unused(context, f"for encoders from scratch; {init} has its own", "layers", "width", "heads", "vocabulary")
    if not mask:
        unused(context, "what --mask takes out; give that, or leave it out", "templates")
    if head_layers == 1 and grid is None:
        unused(context, "between the head's two layers, and --head-layers is 1; leave it out", "hidden")
    named = [text.partition("=")[0] for text in reviews or () if "=" in text]
    if len(reviews or ()) > 1 and (odd := [name for name in named if Path(name).name != name]):
        raise RecommenderError(f"the city {odd[0]!r}: its model goes into a folder of this name; give it another one")
    check_files(grid)
    check_files(templates, otherwise="no such folder")
    from tod_bias.recommenders.lmrec.masking import Neutraliser
    from tod_bias.recommenders.lmrec.settings import TrainingSettings, check_settings, read_grid
    from tod_bias.recommenders.lmrec.templates import load_templates

    usual = 1e-3 if init == "scratch" else 3e-5
    settings = TrainingSettings(
        init=init, head_layers=head_layers, hidden=hidden, dropout=dropout, batch=batch, epochs=epochs,
        learning_rate=usual if learning_rate is None else learning_rate, patience=patience, max_length=max_length,
        max_steps=max_steps, mask=mask, bf16=bf16, seed=seed, vocabulary=vocabulary, layers=layers, width=width,
        heads=heads,
    )  # fmt: skip
    check_settings(settings)
    combinations = read_grid(grid, settings) if grid is not None else None
    options: dict[str, Any] = {
        "neutraliser": Neutraliser(load_templates(templates)), "resume": resume, "show_progress": not quiet,
    }  # fmt: skip
    every = read_reviews(reviews, yelp, city, min_reviews, missing, separators)
    names = [own.city for own in every]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise RecommenderError(f"two cities are called {doubled[0]!r}; name them apart with --reviews CITY=FILE")

    from tod_bias.recommenders.lmrec.training import search  # heavy imports come after what may go wrong at once
    from tod_bias.recommenders.lmrec.training import train as train_model

    for own in every:
        folder = own_folder(out, own.city) if len(every) > 1 else out
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
    check_models(*model)
    if len(model) != (cities := check_reviews(reviews, yelp, city)):
        raise RecommenderError(f"{len(model)} models, but reviews of {cities} cities; give one model a city")
    from itertools import islice

    from tod_bias.recommenders.lmrec import quality
    from tod_bias.recommenders.lmrec.masking import Neutraliser
    from tod_bias.recommenders.lmrec.model import LMRec
    from tod_bias.recommenders.lmrec.queries import told_apart
    from tod_bias.recommenders.lmrec.training import trained_seed

    every = read_reviews(reviews, yelp, city, min_reviews, missing, separators)
    paired = zip(model, every, strict=True)
    models = [_matching(LMRec.load(folder, device=device), own, folder) for folder, own in paired]
    claimed(out)
    ranked = {}
    names = told_apart([own.city for own in every], model)
    known = map(trained_seed, model)
    splits = [(seed or 0) if own is None else own for own in known]  # another split holds reviews that were trained on
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
    check_models(model, masked_model)
    if (cities := check_reviews(reviews, yelp, city)) != 1:
        raise RecommenderError(f"reviews of {cities} cities are given; expected one")
    check_masked(masked_model)
    from tod_bias.recommenders.lmrec import mitigation
    from tod_bias.recommenders.lmrec.model import LMRec
    from tod_bias.recommenders.lmrec.templates import load_templates
    from tod_bias.recommenders.lmrec.training import trained_seed
    from tod_bias.report.palette import to_svg
    from tod_bias.statistics.settings import Inference

    (own,) = read_reviews(reviews, yelp, city, min_reviews, missing, separators)
    plain, trained_masked = (
        _matching(LMRec.load(folder, device=device), own, folder) for folder in (model, masked_model)
    )
    claimed(out)
    seeds = [trained_seed(folder) for folder in (model, masked_model)]
    if None not in seeds and len(set(seeds)) > 1:
        raise RecommenderError(
            f"{model} was trained with seed {seeds[0]}, {masked_model} with {seeds[1]}, so their test reviews differ; "
            "compare models of one seed"
        )
    split = next((own for own in seeds if own is not None), seed or 0)
    drawn = split if seed is None else seed
    result = mitigation.compare(
        plain, trained_masked, own, split_seed=split, words=load_templates(templates), top=top,
        inference=Inference(level=level, resamples=bootstrap, seed=drawn), show_progress=not quiet,
    )  # fmt: skip
    write_table(out / "quality.csv", result.quality)
    write_table(out / "bias.csv", result.bias)
    write_text(out / "mitigation.svg", to_svg(mitigation.figure(result)))
    if not quiet:
        from tod_bias.recommenders.lmrec.terminal import mitigation_view

        Console().print(mitigation_view(result, level))
        typer.echo(f"Results: {out}")


def _matching(model: Any, reviews: Any, folder: Path) -> Any:
    """The model, if it was trained for the very venues of the reviews."""
    if [venue.id for venue in model.venues] != [venue.id for venue in reviews.venues]:
        raise RecommenderError(
            f"{folder}: its {len(model.venues)} venues are not the {len(reviews.venues)} of the reviews of "
            f"{reviews.city}; give the reviews (and --min-reviews, --missing) that it was trained on"
        )
    return model
