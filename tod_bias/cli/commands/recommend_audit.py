"""``tod-bias recommend audit``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from tod_bias.cli.checks import check_files, refuse
from tod_bias.cli.options import command
from tod_bias.cli.recommender_options import (
    AuditInference,
    NeutraliseOptions,
    TemplateOptions,
    TopOptions,
    check_models,
)
from tod_bias.config import ADVANCED, DeviceOptions, Options, OutputOptions
from tod_bias.errors import RecommenderError, repeated
from tod_bias.io.folder import check_no_other_run, claimed


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


class AuditedLists(TopOptions, TemplateOptions):
    """Options of both sources of lists."""

    title = "Data"


class AuditOutput(OutputOptions):
    """Folder for the results."""

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
    if models.model:
        from tod_bias.recommenders.lmrec.model import recommend_templates

        recommendations, source = recommend_templates(
            models.model,
            templates=data.templates,
            top=data.top or 20,
            device=models.device,
            neutralise=models.neutralise,
            show_progress=not output.quiet,
        )
    else:
        from tod_bias.recommenders.lmrec.recommendations import ListFormat, read_recommendations

        reading = ListFormat(
            columns=pairs("--columns", lists.columns),
            separators=lists.separators,
            dimensions=_dimensions(lists.dimension),
            top=data.top,
            price_levels=bounds,
        )
        recommendations, source = (
            read_recommendations(saved, reading),
            {"recommendations": [str(path) for _, path in saved]},
        )
    from tod_bias.cli.work.recommender_audit import audit_lists

    audit_lists(
        recommendations, source, how, data.templates, output.out, has_figures=output.figures, quiet=output.quiet
    )


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
