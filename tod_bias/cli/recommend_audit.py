"""``tod-bias recommend audit``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tod_bias.cli.arguments import check_files, refuse
from tod_bias.cli.options import command
from tod_bias.cli.recommend_options import (
    LevelOptions,
    NeutraliseOptions,
    TemplateOptions,
    TopOptions,
    check_models,
    pair,
    pairs,
)
from tod_bias.config import ADVANCED, DeviceOptions, InferenceOptions, Options, OutputOptions
from tod_bias.errors import RecommenderError, repeated
from tod_bias.io.folder import check_no_other_run, claimed
from tod_bias.report.console import Console
from tod_bias.report.notation import count
from tod_bias.report.statements import print_statements

if TYPE_CHECKING:
    from tod_bias.recommenders.lmrec.results import Audit


class ListOptions(Options):
    """Saved recommendations."""

    title = "Saved recommendations"

    recommendations: tuple[Path, ...] = ()
    """CSV, TSV or Parquet; may be repeated. No model is needed then."""
    city: tuple[str, ...] = ()
    """NAME=FILE: saved recommendations of a city; may be repeated."""
    columns: tuple[str, ...] = ()
    """FILE'S=OURS,…: names of the file's columns for ours."""
    separators: Annotated[str, ADVANCED] = ","
    """Characters that separate categories."""
    price_levels: Annotated[str | None, ADVANCED] = None
    """15,30,60: prices are amounts: the dearest of the first three of four levels, or quartiles."""
    dimension: tuple[str, ...] = ()
    """NAME=LABEL,LABEL: the dimension of labels that are not known; may be repeated."""


class ModelOptions(DeviceOptions, NeutraliseOptions):
    """A trained LMRec."""

    title = "System"

    model: tuple[Path, ...] = ()
    """Folder of a trained LMRec; several for several cities or trainings."""


class AuditInference(InferenceOptions, LevelOptions):
    """How intervals and p-values are estimated."""

    title = "Statistics"


class AuditedLists(TopOptions, TemplateOptions):
    """Options of both sources of lists."""

    title = "Data"


class AuditOutput(OutputOptions):
    """Where results go."""

    out: Path = Path("runs/recommend")
    """Folder for the results."""
    figures: Annotated[bool, ADVANCED] = True
    """Draw the figures and write the report."""


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
        from tod_bias.recommenders.lmrec.queries import recommend_templates

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
    from tod_bias.recommenders.lmrec.recommendations import read_recommendations
    from tod_bias.recommenders.lmrec.saved import ListFormat

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
