"""``tod-bias recommend audit``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tod_bias.cli.arguments import check_files, unused
from tod_bias.cli.options import Device, Quiet, Seed
from tod_bias.cli.recommend_options import (
    AuditOut,
    Correction,
    CorrectionOption,
    Figures,
    Level,
    Permutations,
    Resamples,
    check_models,
)
from tod_bias.errors import RecommenderError, repeated
from tod_bias.folder import check_own, claimed
from tod_bias.report.console import Console

if TYPE_CHECKING:
    from tod_bias.recommenders.lmrec.recommendations import Recommendations


def audit(
    context: typer.Context,
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
    price_levels: Annotated[
        str | None,
        typer.Option(
            metavar="15,30,60", help="Prices are amounts: the dearest of the first three of four levels, or quartiles."
        ),
    ] = None,
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
        {"--columns": columns, "--price-levels": price_levels, "--neutral": neutral, "--dimension": dimension}
        if model
        else {"--neutralise": neutralise}
    )
    if given := [name for name, value in idle.items() if value]:
        raise RecommenderError(f"{given[0]} does not go with {'--model' if model else 'saved recommendations'}")
    if saved:
        unused(context, "of a model; saved recommendations are read", "device", "batch")
    else:
        unused(context, "of saved recommendations; a model has its own", "separators")
    bounds = _bounds(price_levels)
    if doubled := repeated(one for one in saved if one[0] is not None):
        raise RecommenderError(f"{doubled[1]}: is given twice")
    check_files(*(path for _, path in saved))
    check_models(*(model or ()))
    check_files(templates, otherwise="no such folder")
    check_own(out, "audit.json")
    claimed(out)
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
        frame = _read_saved(saved, columns, separators, bounds, dimension, neutral, top)
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
    price_levels: Sequence[float] | None,
    dimension: Sequence[str] | None,
    neutral: Sequence[str] | None,
    top: int | None,
) -> Recommendations:
    from tod_bias.recommenders.lmrec.recommendations import read_recommendations
    from tod_bias.recommenders.lmrec.saved import Reading

    reading = Reading(
        columns=_pairs("--columns", ",".join(columns or [])),
        separators=separators,
        dimensions=_dimensions(dimension or []),
        top=top,
        price_levels=price_levels,
    )
    neutral_files = [_pair("--neutral", text) if "=" in text else (None, text) for text in neutral or []]
    return read_recommendations(saved, reading, neutral=neutral_files)


def _dimensions(given: Sequence[str]) -> dict[str, list[str]]:
    """Dimension to its labels; a dimension may be given in several parts.

    Raises:
        RecommenderError: a label is in two dimensions.
    """
    found: dict[str, list[str]] = {}
    for name, labels in (_pair("--dimension", text) for text in given):
        for label in filter(None, map(str.strip, labels.split(","))):
            if other := next((other for other, known in found.items() if label in known and other != name), None):
                raise RecommenderError(f"--dimension {name}: {label!r} is of the dimension {other!r} already")
            found.setdefault(name, []).append(label)
    return found


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
    pairs = [_pair(option, part) for part in text.split(",") if part.strip()]
    if doubled := repeated(name for name, _ in pairs):
        raise RecommenderError(f"{option}: {doubled!r} is named twice; expected one meaning")
    return dict(pairs)
