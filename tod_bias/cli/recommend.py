"""``tod-bias recommend`` and ``associate``: commands that read options, call the library and print."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import MinLen
from cyclopts import App
from pydantic import Field
from rich.text import Text

from tod_bias.cli.options import check_files, command, refuse
from tod_bias.config import (
    ADVANCED,
    IN_FILE,
    BootstrapOptions,
    DeviceOptions,
    InferenceOptions,
    Options,
    OutputOptions,
    Positive,
    ResumeOptions,
    Seeded,
)
from tod_bias.errors import EmbeddingsError, RecommenderError, repeated
from tod_bias.io.files import subfolder, write_json, write_table, write_text
from tod_bias.io.folder import check_no_other_run, claimed, writable
from tod_bias.recommenders.embeddings.settings import AssociationRequest, AssociationStatistics, AuditSettings
from tod_bias.recommenders.lmrec.settings import SCRATCH, RecommenderTrainConfig
from tod_bias.recommenders.lmrec.venue import VENUES
from tod_bias.report.console import Console
from tod_bias.report.notation import count
from tod_bias.report.sheets import column_of, print_sheets, print_statements

if TYPE_CHECKING:
    from tod_bias.recommenders.lmrec.results import Audit


_NO_MODEL = "no trained LMRec can be read; give a folder that tod-bias recommend train wrote"
"""Message for a missing model."""


class ReviewOptions(Options):
    """Reviews to read."""

    title = "Data"

    reviews: tuple[str, ...] = ("sample",)
    """[CITY=]FILE, a city's review CSV; CITY=FOLDER, that city of Yelp's dataset (business.json, review.json); or
    sample, the bundled sample; may be repeated."""
    min_reviews: Positive = 100
    """Leave out venues with fewer reviews."""
    missing: Annotated[Literal["keep", "drop"], IN_FILE] = "keep"
    """Venues without price or categories: keep or drop."""
    category: Annotated[str, IN_FILE] = "Restaurants"
    """Category of venues to read from Yelp's dataset, which lists every kind of business; any for all."""


class TemplateOptions(Options):
    """Words of templates and masks."""

    title = "Data"

    templates: Annotated[Path | None, ADVANCED] = None
    """Folder with your own templates.tsv, names.tsv, …"""


class NeutraliseOptions(Options):
    """Neutralisation of the texts that models read."""

    title = "System"

    neutralise: bool = False
    """Mask names, places and gendered relations in what a model reads."""


class TopOptions(Options):
    """Number of entries of a list that count."""

    title = "Data"

    top: Positive | None = None
    """Ranks that count; by default all of a file, 20 of a model."""


class LevelOptions(BootstrapOptions, Seeded):
    """Options of intervals."""

    title = "Statistics"

    level: Annotated[Annotated[float, Field(ge=0.5, le=0.999)], IN_FILE] = 0.90
    """Level of the intervals."""


def check_models(*folders: Path) -> None:
    """Raise if folders are no trained LMRecs, before the libraries that read them are loaded.

    Raises:
        TodBiasError: one does not.
    """
    check_files(*folders, otherwise=_NO_MODEL)
    for folder in folders:
        if not (folder / VENUES).is_file():
            raise RecommenderError(f"{folder}: {_NO_MODEL} (it has no {VENUES})")


def read_reviews(options: ReviewOptions) -> list[Any]:
    """Reviews of every city that the options name.

    Raises:
        TodBiasError: a city or a file is given twice, or one is not there.
    """
    named = [(text.partition("=")[0], text.partition("=")[2] or text) for text in options.reviews]
    if doubled := repeated(file for _, file in named if not Path(file).is_dir()):
        raise RecommenderError(f"--reviews {doubled}: is given twice, and a city is one only once")
    check_files(*(file for _, file in named if file != "sample"))
    from tod_bias.recommenders.lmrec import reviews as reading
    from tod_bias.recommenders.lmrec.sample import CITY, sample

    how: dict[str, Any] = {"fewest": options.min_reviews, "missing": options.missing}
    every = []
    for name, file in named:
        city = name if name != file else Path(file).stem
        if file == "sample":
            every.append(reading.Reviews(sample(), city=CITY, **how))
        elif Path(file).is_dir():
            category = None if options.category == "any" else options.category
            every.append(reading.Reviews(reading.read_yelp(file, city), city=city, category=category, **how))
        else:
            every.append(reading.Reviews(reading.read_csv(file), city=city, **how))
    return every


def pair(option: str, text: str) -> tuple[str, str]:
    """The two sides of ``NAME=VALUE``.

    Raises:
        RecommenderError: one is missing.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise RecommenderError(f"{option} {text}: expected NAME=VALUE")
    return name, value


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return names and values of comma-separated pairs.

    Raises:
        RecommenderError: a name is repeated.
    """
    result = [pair(option, part) for text in texts for part in text.split(",") if part.strip()]
    if doubled := repeated(name for name, _ in result):
        raise RecommenderError(f"{option}: {doubled!r} is named twice; expected one meaning")
    return dict(result)


recommend = App(
    name="recommend",
    version_flags=(),
    help="Trains, scores, audits and mitigates LMRec, or audits any recommender's saved lists (Shen 2022, 2023).",
    help_epilogue="Example: tod-bias recommend audit --recommendations lists.csv --out runs/lists",
)


class ListOptions(Options):
    """Saved recommendations."""

    title = "Saved recommendations"

    recommendations: tuple[Path, ...] = ()
    """CSV, TSV or Parquet; may be repeated. No model is needed then."""
    city: tuple[str, ...] = ()
    """NAME=FILE: saved recommendations of a city; may be repeated."""
    columns: tuple[str, ...] = ()
    """THEIRS=OURS,…: the file's names of our columns."""
    separators: Annotated[str, ADVANCED] = ","
    """Characters that separate categories."""
    price_levels: Annotated[str | None, ADVANCED] = None
    """Upper bounds of the first three of four price levels, if prices are amounts: 15,30,60, or quartiles."""
    dimension: tuple[str, ...] = ()
    """NAME=LABEL,LABEL: the dimension of labels that are not shipped; may be repeated."""


class ModelOptions(DeviceOptions, NeutraliseOptions):
    """A trained LMRec."""

    title = "System"

    model: tuple[Path, ...] = ()
    """Folder of a trained LMRec; several for several cities or trainings."""


class AuditInference(InferenceOptions, LevelOptions):
    """Options of intervals and p-values."""

    title = "Statistics"


class AuditedLists(TopOptions, TemplateOptions):
    """Options of both sources of lists."""

    title = "Data"


class AuditOutput(OutputOptions):
    """Folder for the results."""

    out: Path = Path("runs/recommend")
    """Folder for the results."""
    figures: Annotated[bool, ADVANCED] = True
    """Draw the figures and write the report."""


@recommend.command
@command("tod-bias recommend audit --city Leeds=leeds.csv --city York=york.csv --out runs/cities")
def audit(
    *files: str,
    lists: ListOptions,
    models: ModelOptions,
    data: AuditedLists,
    how: AuditInference,
    output: AuditOutput,
) -> None:
    """Audit a recommender: price percentage, associations, average prices, with intervals and tests.

    Audits a trained LMRec (--model) with Shen's templates, or any recommender's saved lists (--recommendations FILE, or
    --city NAME=FILE for each city). Writes report.html, CSV files, recommendations.parquet, audit.json and figures.
    Intervals are over the cities if there are several; several models of one city, trained with other seeds, count as
    cities.

    Args:
        files: NAME=FILE: further cities, as for --city.
    """
    saved: list[tuple[str | None, Path]] = [(None, path) for path in lists.recommendations]
    for text in (*lists.city, *files):
        name, file = pair("--city", text)
        saved.append((name, Path(file)))
    if bool(models.model) == bool(saved):
        raise RecommenderError("give either --model DIR, or --recommendations FILE or --city NAME=FILE")
    if saved:
        refuse(models, type(models).model_fields, "of a model; saved recommendations are read")
    else:
        refuse(lists, type(lists).model_fields, "of saved recommendations; a model has its own")
    bounds = _bounds(lists.price_levels)
    check_files(*(path for _, path in saved))
    check_models(*models.model)
    check_files(data.templates, otherwise="no such folder")
    check_no_other_run(output.out, "audit.json")
    claimed(output.out)
    from tod_bias.recommenders.lmrec.audit import audit as run_audit
    from tod_bias.recommenders.lmrec.audit import save
    from tod_bias.recommenders.lmrec.templates import load_templates
    from tod_bias.statistics.settings import Inference

    source: dict[str, Any]
    if models.model:
        from tod_bias.recommenders.lmrec.model import recommend_templates

        frame, source = recommend_templates(
            models.model,
            templates=data.templates,
            top=data.top or 20,
            device=models.device,
            neutralise=models.neutralise,
            show_progress=not output.quiet,
        )
    else:
        frame = _read_saved(saved, lists, bounds, data.top)
        source = {"recommendations": [str(path) for _, path in saved]}
    inference = Inference(
        level=how.level, resamples=how.bootstrap, permutations=how.permutations, correction="bh", seed=how.seed
    )
    result = run_audit(frame, inference, source=source, words=load_templates(data.templates))
    save(result, frame, output.out, figures=output.figures)
    if not output.quiet:
        _print(result)
        print(f"Report: {output.out / 'report.html'}" if output.figures else f"Results: {output.out}")


def _print(result: Audit) -> None:
    """Print the first finding of each dimension, and the notes; crossed dimensions are in the report."""
    from rich.text import Text

    from tod_bias.recommenders.lmrec.recommendations import CROSS

    record = result.record
    numbers = f"{count(record['recommendations'])} recommendations for {count(record['queries'])} queries"
    console = Console()
    console.print(Text(f"{numbers}; {', '.join(record['cities'])}\n", style="bold"))
    crossed = sum(said.is_difference for said in result.statements if CROSS in said.axis)
    print_statements([said for said in result.statements if CROSS not in said.axis], console, crossed)
    console.print()
    for note in record["notes"]:
        console.print(Text(f"Note: {note}.", style="dim"))


def _read_saved(
    saved: Sequence[tuple[str | None, Path]],
    lists: ListOptions,
    price_levels: Sequence[float] | None,
    top: int | None,
) -> Any:
    from tod_bias.recommenders.lmrec.recommendations import ListFormat, read_recommendations

    reading = ListFormat(
        columns=pairs("--columns", lists.columns),
        separators=lists.separators,
        dimensions=_dimensions(lists.dimension),
        top=top,
        price_levels=price_levels,
    )
    return read_recommendations(saved, reading)


def _dimensions(given: Sequence[str]) -> dict[str, list[str]]:
    """Dimension to its labels; a dimension may be given in several parts."""
    results: dict[str, list[str]] = {}
    for name, labels in (pair("--dimension", text) for text in given):
        results.setdefault(name, []).extend(filter(None, map(str.strip, labels.split(","))))
    if doubled := repeated(label for labels in results.values() for label in labels):
        raise RecommenderError(f"--dimension: {doubled!r} is named twice; expected one dimension")
    return results


def _bounds(text: str | None) -> tuple[float, ...] | None:
    """``quartiles``, which are none, or three ascending amounts."""
    if text is None:
        return None
    if text.strip() == "quartiles":
        return ()
    try:
        bounds = tuple(float(part) for part in text.split(","))
    except ValueError:
        bounds = ()
    if len(bounds) != 3 or not all(a < b for a, b in pairwise((0.0, *bounds, math.inf))):
        raise RecommenderError(f"--price-levels {text!r}: expected quartiles, or three ascending amounts like 15,30,60")
    return bounds


class TrainingReviews(ReviewOptions, TemplateOptions):
    """Reviews to train on."""


class ModelOutput(ResumeOptions, OutputOptions):
    """Folder for the models."""

    title = "Output"

    out: Path
    """Folder for the model; with several cities, a folder each in it."""


@recommend.command
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
    from tod_bias.recommenders.lmrec.templates import Neutraliser, load_templates

    hide = Neutraliser(load_templates(source.templates))
    every = read_reviews(source)
    names = [part.city for part in every]
    if doubled := repeated(names):
        raise RecommenderError(f"two cities are called {doubled!r}; name them apart with --reviews CITY=FILE")
    if len(every) > 1 and (odd := [name for name in names if Path(name).name != name]):
        raise RecommenderError(f"the city {odd[0]!r}: its model goes into a folder of this name; give it another one")

    from tod_bias.recommenders.lmrec import model, search  # heavy: after what may go wrong at once

    train_model = model.train if config.search == 1 else search.search
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
    """Folder for the scores."""

    out: Path = Path("runs/quality")
    """Folder for the results."""


@recommend.command
@command("tod-bias recommend evaluate --model models/leeds --reviews Leeds=leeds.csv")
def evaluate(*, models: EvaluatedModels, source: ReviewOptions, how: LevelOptions, output: QualityOutput) -> None:
    """Recommendation quality on the test split (Shen 2022, Table 3).

    Each model is scored on the reviews of its city. The mean is over the cities, each the mean of its models, with a t
    interval over the cities (with one city: over its models).
    """
    check_models(*models.model)
    from tod_bias.recommenders.lmrec.mitigation import quality_scores, quality_sheet, rank_held_out
    from tod_bias.recommenders.lmrec.templates import Neutraliser

    every = read_reviews(source)
    trained = _matched(models.model, every, models.device)
    claimed(output.out)
    hide = Neutraliser() if models.neutralise else None
    ranked, splits, cities = {}, {}, {}
    for name, (lmrec, part, seed) in trained.items():
        splits[name], cities[name] = seed, part.city  # other splits hold reviews it was trained on
        ranked[name] = rank_held_out(lmrec, part, seed, hide, show_progress=not output.quiet)
    frame = quality_scores(ranked, cities, level=how.level, resamples=how.bootstrap, seed=how.seed)
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


@recommend.command
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
    from tod_bias.report.canvas import to_svg
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
    from tod_bias.recommenders.lmrec.model import training_settings

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
    from tod_bias.recommenders.lmrec.model import LMRec, distinct_names, training_settings

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


class AssociationOutput(OutputOptions):
    """Folder for the results."""

    out: Path = Path("runs/association")
    """Folder for the results."""


@command("tod-bias associate --embeddings model.npz --users users.csv --attribute gender --out runs/embeddings")
def associate(*, request: AssociationRequest, how: AuditSettings, output: AssociationOutput) -> None:
    """Audit a recommender's embeddings for associations with an attribute of its users (Beattie).

    Give a file of embeddings and one of users' attributes: --embeddings model.npz --users users.csv --attribute gender.
    Writes associations.json, entities.parquet, directions.npz, tables, figures and report.html.
    """
    if request.embeddings is None:
        raise EmbeddingsError("no embeddings to audit; give --embeddings FILE")
    if request.sets is not None and request.test is not None:
        raise EmbeddingsError("--sets names E and P: leave out --test")
    from tod_bias.recommenders.embeddings.readers import check_file

    check_files(request.sets, request.users, request.items, request.interactions, request.pairs)
    check_file(request.embeddings)
    check_no_other_run(output.out, "associations.json")
    claimed(output.out)

    from tod_bias.recommenders.embeddings.study import audit_request, write_audit

    result = audit_request(request, how, show_progress=not output.quiet)
    write_audit(result, output.out)
    if not output.quiet:
        _print_associations(result.record)
        print(f"Results: {output.out / 'associations.json'}   Report: {output.out / 'report.html'}")


def _print_associations(run: Mapping[str, Any]) -> None:
    """Print the findings of an audit, R-RIPA by direction, and what limits them."""
    from tod_bias.recommenders.embeddings import tables
    from tod_bias.recommenders.embeddings.reading import remarks, statements

    console = Console()
    sets = ", ".join(f"{part['size']:,} {part['name']}" for part in run["sets"].values())
    console.print(Text(f"{run['name']}: {sets}\n", style="bold"))
    for said in statements(run):
        for line in said.lines(column_of([run["attribute"]]), min(80, console.width)):
            console.print(line, soft_wrap=True, highlight=False)
    console.print()
    print_sheets([tables.r_ripa(run, short=True)])
    for text in (*remarks(run), *(f"Note: {note}." for note in run["notes"])):
        console.print(Text(text, style="dim"))


def _print_changes(comparison: Mapping[str, Any]) -> None:
    from tod_bias.recommenders.embeddings import tables

    console = Console()
    for sentence in comparison["reading"]:
        console.print(Text(sentence))
    console.print()
    print_sheets([tables.changes(comparison, short=True)])


def compare_associations(
    before: Path, after: Path, how: AssociationStatistics, out: Path | None, *, quiet: bool
) -> None:
    """Compare two audits of the same sets, write comparison.json and print it.

    Args:
        before: folder of results that changes are relative to.
        after: folder of the results of the other training.
        how: permutations, resamples and seed.
        out: folder for comparison.json; None for ``after``.
        quiet: print nothing.
    """
    from tod_bias.recommenders.embeddings.comparison import NAME, compare, load_run

    runs = load_run(before), load_run(after)
    names = [str(run.record.get("name", folder)) for run, folder in zip(runs, (before, after), strict=True)]
    if names[0] == names[1]:
        names = [str(before), str(after)]
    comparison = compare(
        *runs,
        permutations=how.permutations,
        resamples=how.bootstrap,
        seed=how.seed,
        names=(names[0], names[1]),
    )
    path = writable(out or after) / NAME
    write_json(path, comparison)
    if not quiet:
        _print_changes(comparison)
        print(f"Results: {path}")
