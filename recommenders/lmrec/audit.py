"""An audit of recommendations: all analyses, their files and the report."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tod_bias.io.files import check_plain_file, replacing, subfolder, write_json, write_table
from tod_bias.io.folder import writable
from tod_bias.recommenders.lmrec import figures, scores
from tod_bias.recommenders.lmrec.inference import SHEN, templates_of
from tod_bias.recommenders.lmrec.reading import ALPHA, LIMITS, claimed, pairs_of, sheets, statements
from tod_bias.recommenders.lmrec.recommendations import ALL, CROSS, Recommendations
from tod_bias.recommenders.lmrec.results import RECORD, TABLES, Audit, readable
from tod_bias.recommenders.lmrec.similarity import similarity, similarity_ranges
from tod_bias.recommenders.lmrec.templates import TemplateSet, places_of, word_list
from tod_bias.report.canvas import draw
from tod_bias.report.rendering import FIGURES, REPORT, write_page
from tod_bias.statistics.needed import ENOUGH_WORDS
from tod_bias.statistics.settings import Inference

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SCHEMA = 1
"""Version of ``audit.json``."""
MOST_PLACES = 100
"""Maximum number of substitutions without a label for which pairs are compared."""
FEW_CITIES = 4
"""Minimum cities for useful intervals over cities."""
_TEMPLATE = Path(__file__).parent / "templates" / "audit.html.j2"


def audit(
    recommendations: Recommendations,
    how: Inference = SHEN,
    *,
    source: Mapping[str, Any] | None = None,
    words: TemplateSet | None = None,
) -> Audit:
    """Run every analysis on a frame of recommendations from any recommender.

    Args:
        recommendations: the tidy frame.
        how: settings of intervals and tests.
        source: of the recommendations, for the record.
        words: determine which substitutions are places; Shen's by default.
    """
    distinct = recommendations.distinct
    places = places_of(distinct, words)
    notes = [*recommendations.notes, *_missing(recommendations)]
    if (many := sum(map(len, places.values()))) > MOST_PLACES:
        places = {}
        notes.append(f"{many} substitutions have no label, more than {MOST_PLACES}: they are not compared as places")
    priced = distinct["price"].notna().any()
    empty = replace(recommendations, frame=recommendations.frame.iloc[:0], dimensions=())
    of_prices = recommendations if priced else empty
    of_categories = recommendations if distinct["categories"].map(len).any() else empty
    kinds = {word: kind for kind, group in places.items() for word in group} if priced else {}
    differences = scores.price_differences(recommendations, kinds, how)
    if len(kinds) > 1 and differences.empty:
        notes.append(f"no two places share {scores.FEWEST_TEMPLATES} templates: they are not compared")
    percentage, by_label = scores.price_percentage(of_prices, how), scores.price_by_label(of_prices, how)
    association = scores.association(of_categories, how)
    alike = similarity(recommendations, how)
    notes += _words_noted(pd.concat([part[["dimension", "words", "permuted"]] for part in (percentage, association)]))
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "source": dict(source or {}),
        "cities": recommendations.cities,
        "queries": int(distinct["unit"].nunique()),
        "recommendations": len(distinct),
        "without_price": int(distinct["price"].isna().sum()),
        "without_category": int(distinct["categories"].map(len).eq(0).sum()),
        "neutral_recommendations": len(recommendations.neutral),
        "dimensions": {name: recommendations.labels(name) for name in recommendations.all_dimensions},
        "places": {name: list(group) for name, group in places.items()},
        "notes": notes,
        "inference": asdict(how),
        "found": _shifts(association),
        "examples": _examples(recommendations, places),
        "versions": {name: version(name) for name in ("numpy", "pandas", "scipy", "tod-bias")},
    }
    result = Audit(
        price_percentage=percentage,
        price_by_label=by_label,
        association=association,
        average_price=scores.average_price(of_prices, how),
        price_differences=differences,
        top_words=scores.top_words(recommendations, how),
        similarity=alike,
        similarity_ranges=similarity_ranges(recommendations, alike, how),
        record=record,
    )
    record["findings"] = [asdict(statement) for statement in statements(result)]
    return result


def _missing(recommendations: Recommendations) -> Iterator[str]:
    """Yield notes on missing or scarce data."""
    if not recommendations.dimensions:
        yield "no dimension has two labels: price percentage and association are empty"
    if recommendations.distinct["price"].isna().all():
        yield "no recommendation has a price: price percentage and average price are empty"
    if not recommendations.distinct["categories"].map(len).any():
        yield "no recommendation has a category: association is empty"
    cities = len(recommendations.cities)
    if cities == 1:
        yield (
            "one city: findings hold for these lists; the same recommender, trained or queried again, may give "
            "other lists"
        )
    elif cities < FEW_CITIES:
        yield f"{cities} cities: with so few, only very even shifts are found; the shifts of each city are in the files"


def save(audited: Audit, recommendations: Recommendations, folder: str | Path, *, figures: bool = True) -> None:
    """Write the CSV files, ``recommendations.parquet``, figures, ``report.html``, and last ``audit.json``.

    Raises:
        TodBiasError: the folder cannot be written.
    """
    folder = writable(folder)
    for name in TABLES:
        write_table(folder / f"{name}.csv", getattr(audited, name))
    with replacing(folder / "recommendations.parquet") as part:
        recommendations.saved().to_parquet(part, index=False)
    if figures:
        write_report(audited, folder)
    else:
        (folder / REPORT).unlink(missing_ok=True)  # it would be of another audit
        _clean(folder, ())
    write_json(folder / RECORD, audited.record)


def write_report(audited: Audit, folder: Path) -> Path:
    """Write ``report.html`` and ``figures/*.svg``."""
    check_plain_file(folder / REPORT)
    made = list(_figures(audited))
    _clean(folder, [name for name, _, _ in made])
    return write_page(
        folder / REPORT,
        _TEMPLATE,
        record=audited.record,
        level=f"{audited.level:.0%}",
        figures=[(caption, draw(figure, folder / FIGURES / f"{name}.svg", caption)) for name, caption, figure in made],
        sheets=sheets(audited),
        cards=audited.statements,
        limits=LIMITS,
    )


def _figures(audited: Audit) -> Iterator[tuple[str, str, Figure]]:
    """File name without ending, caption and figure; those without numbers are left out."""
    shares, words = audited.price_percentage, audited.top_words
    for dimension in audited.record["dimensions"]:
        name, shown = _file_name(dimension), dimension.replace(CROSS, f" {CROSS} ")
        if shares["dimension"].eq(dimension).any():
            caption = f"Price percentage by {shown} (Shen eq. 1, Figs. 3 and 4); dashed: the neutral reference"
            yield f"price_percentage_{name}", caption, figures.price_percentage(shares, dimension)
        if words["dimension"].eq(dimension).any():
            caption = (
                f"Top words of recommended items' names by {shown} (Shen Fig. 6); ticks are the mean over the groups"
            )
            yield f"top_words_{name}", caption, figures.top_words(words, dimension)
        axes = [_polar(audited, part) for part in dimension.split(CROSS)]
        if len(axes) == 2 and axes[0] and axes[1] and not audited.association.empty:
            caption = f"Association of categories with {shown} (Shen eq. 2, Figs. 5 and 7); oval: the neutral reference"
            scatter = figures.association_scatter(
                audited.association, axes[0], axes[1], categories=_categories(audited, dimension), alpha=ALPHA
            )
            yield f"association_{name}", caption, scatter
    if audited.places and audited.average_price["value"].notna().any():
        caption = "Average price level by place (Shen Fig. 8); ticks are neutralised queries, if there are any"
        yield "average_price", caption, figures.average_price(audited.average_price, audited.places)


def _categories(audited: Audit, dimension: str) -> Collection[str] | None:
    """The categories that a scatter plot shows; None for all."""
    if "relationship" not in dimension:
        return None
    shown = {name.lower() for name in word_list("nightlife.txt")}
    return shown if shown & {str(name).lower() for name in audited.association["category"]} else None


def _polar(audited: Audit, dimension: str) -> tuple[str, str, str] | None:
    """Dimension, label to the right or top, label to the left or bottom, as in Shen's figures."""
    labels = list(audited.record["dimensions"][dimension])
    for first, second in (("white", "black"), ("female", "male")):
        if {first, second} <= set(labels):
            return dimension, first, second
    return (dimension, labels[0], labels[1]) if len(labels) > 1 else None


def report_again(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write ``report.html`` and ``figures/*.svg`` of an audit from its ``audit.json`` and CSV files.

    Args:
        folder: what :func:`save` wrote.
        out: folder for the page; the audit's own if left out.

    Raises:
        RecommenderError: a file is not there, or is not what an audit writes.
    """
    folder = Path(folder)
    audited = Audit.read(folder)
    with readable(folder):
        return write_report(audited, writable(folder if out is None else out))


def _clean(folder: Path, drawn: Collection[str]) -> None:
    """Take away the figures of another audit."""
    for old in subfolder(folder, FIGURES).glob("*.svg"):
        if old.stem not in drawn:
            old.unlink()


def _words_noted(rows: pd.DataFrame) -> list[str]:
    """Return notes on the limits of the words: to speak of groups, to exchange whole words, to know them."""
    unknown, few = rows["words"].isna(), rows["words"] < ENOUGH_WORDS
    stuck = rows["permuted"].eq("queries") & ~unknown & ~few
    said = {
        "too few words (fewer than six effective ones of a group), so findings hold for these words, not for the "
        "groups; with fewer than five there are no intervals": few,
        "words not known, so queries are taken for independent; what is found may be too much, and is said of these "
        "queries": unknown,
        "words of several groups or too few to change places, so one of the two tests exchanges queries": stuck,
    }
    return [
        f"{', '.join(dict.fromkeys(rows.loc[mine, 'dimension']))}: {text}" for text, mine in said.items() if mine.any()
    ]


def _examples(recommendations: Recommendations, places: Mapping[str, Collection[str]]) -> list[dict[str, Any]]:
    """One request of each dimension, filled once for each group, and once for each kind of place, with the first item
    of its list (Shen 2023, Table 1): the first template and words of the files."""
    result = []
    for dimension in (*recommendations.dimensions, "place"):
        if dimension == "place":
            kinds = {word: kind for kind, words in places.items() for word in words}
            rows = recommendations.distinct
            rows = rows.assign(group=rows["substitution"].map(kinds)).dropna(subset="group")
        else:
            rows = recommendations.rows(dimension)
        rows = rows[rows["rank"] == 1]
        if rows.empty:
            continue
        same = templates_of(rows)
        for _, row in rows[same == same[0]].drop_duplicates("group").iterrows():
            known = {name: row[name] for name in ("city", "query", "item")}
            price = None if math.isnan(row["price"]) else int(row["price"])
            words = ", ".join(filter(None, (row["substitution"], row["second"])))
            label = f"{words} ({row['group']})" if words else row["group"]
            categories = ", ".join(row["categories"])
            result.append(
                {"dimension": dimension, "substitution": label, **known, "price": price, "categories": categories}
            )
    return result


def _file_name(dimension: str) -> str:
    return re.sub(r"[^\w-]+", "_", dimension.replace(CROSS, "_x_"))


def _shifts(association: pd.DataFrame) -> dict[str, Any]:
    """Count the shifts that the test finds over all cities, out of all, by pair of labels."""
    rows = association[association["city"] == ALL]
    return {
        f"{dimension}: {label} / {other}": {
            "categories": len(subset),
            "found": int(claimed(subset).sum()),
        }
        for dimension, part in rows.groupby("dimension", sort=False)
        for (label, other), subset in pairs_of(part)
    }
