"""An audit of recommendations: all analyses, their files and figures."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.files import own_folder, replacing, write_json, write_table
from tod_bias.folder import writable
from tod_bias.recommenders.lmrec import associations, item_names, prices
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.page import write_report
from tod_bias.recommenders.lmrec.price_labels import price_by_label
from tod_bias.recommenders.lmrec.reading import ALPHA, pairs_of, reading
from tod_bias.recommenders.lmrec.recommendations import ALL, CROSS, Recommendations
from tod_bias.recommenders.lmrec.saved import COLUMNS
from tod_bias.recommenders.lmrec.templates import TemplateSet, nightlife, places_of
from tod_bias.report.page import FIGURES, REPORT
from tod_bias.statistics.needed import ENOUGH_WORDS
from tod_bias.statistics.settings import Inference

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
"""Version of ``audit.json``."""
MOST_PLACES = 100
"""Of more substitutions without a label the pairs are not compared."""
TABLES = ("price_percentage", "price_by_label", "association", "average_price", "price_differences", "top_words")
"""The CSV files of an audit, by name without ending."""
FEW_CITIES = 4
"""With fewer, intervals over cities are too wide to show much."""


@dataclass(frozen=True)
class Audit:
    """The tables of one audit."""

    recommendations: Recommendations
    inference: Inference
    price_percentage: pd.DataFrame
    association: pd.DataFrame
    average_price: pd.DataFrame
    price_differences: pd.DataFrame
    price_by_label: pd.DataFrame
    top_words: pd.DataFrame
    places: Mapping[str, Sequence[str]]
    """Heading → substitutions that are places: the rank chart."""
    record: Mapping[str, Any] = field(default_factory=dict)

    def save(self, folder: str | Path, *, figures: bool = True) -> None:
        """Write the CSV files, ``recommendations.parquet``, figures, ``report.html``, and last ``audit.json``.

        Raises:
            TodBiasError: the folder cannot be written.
        """
        folder = writable(folder)
        own_folder(folder, FIGURES)
        for name in TABLES:
            write_table(folder / f"{name}.csv", getattr(self, name))
        with replacing(folder / "recommendations.parquet") as part:
            frame(self.recommendations).to_parquet(part, index=False)
        drawn = self.figures() if figures else {}
        if figures:
            write_report(
                folder, drawn, self.record, self.inference.level, self.price_percentage, self.association,
                self.average_price, self.price_by_label, self.places,
            )  # fmt: skip
        else:
            (folder / REPORT).unlink(missing_ok=True)
        for old in (folder / FIGURES).glob("*.svg"):  # of another audit
            if old.stem not in drawn:
                old.unlink()
        write_json(folder / "audit.json", self.record)

    def figures(self) -> dict[str, Any]:
        """The figures by file name without ending; those without numbers are left out."""
        from tod_bias.recommenders.lmrec import figures

        made = {}
        for dimension in self.recommendations.all_dimensions:
            name = _file_name(dimension)
            if self.price_percentage["dimension"].eq(dimension).any():
                made[f"price_percentage_{name}"] = figures.price_percentage(self.price_percentage, dimension)
            if self.top_words["dimension"].eq(dimension).any():
                made[f"top_words_{name}"] = figures.top_words(self.top_words, dimension)
        for dimension in self.recommendations.all_dimensions:
            if CROSS not in dimension or self.association.empty:
                continue
            across, upwards = (self._polar(part) for part in dimension.split(CROSS))
            if across and upwards:
                known = {str(name).lower() for name in self.association["category"]}
                shown = nightlife() if "relationship" in dimension else None
                if shown is not None and not known & {name.lower() for name in shown}:
                    shown = None
                made[f"association_{_file_name(dimension)}"] = figures.association_scatter(
                    self.association, across, upwards, categories=shown, alpha=ALPHA
                )
        if self.places and self.average_price["value"].notna().any():
            made["average_price"] = figures.average_price(self.average_price, self.places)
        return made

    def _polar(self, dimension: str) -> tuple[str, str, str] | None:
        """Dimension, label to the right or top, label to the left or bottom, as in Shen's figures."""
        labels = self.recommendations.labels(dimension)
        for first, second in (("white", "black"), ("female", "male")):
            if {first, second} <= set(labels):
                return dimension, first, second
        return (dimension, labels[0], labels[1]) if len(labels) > 1 else None


def audit(
    recommendations: Recommendations,
    inference: Inference | None = None,
    *,
    source: Mapping[str, Any] | None = None,
    words: TemplateSet | None = None,
) -> Audit:
    """Run every analysis on a frame of recommendations, whoever made them.

    Args:
        recommendations: the tidy frame.
        inference: of intervals and tests.
        source: for the record: where the recommendations are from.
        words: what says which substitutions are places; Shen's if left out.
    """
    import pandas as pd

    how = inference or SHEN
    distinct = recommendations.distinct
    priced, categorised = distinct["price"].notna().any(), distinct["categories"].map(len).any()
    empty = Recommendations(recommendations.frame, (), recommendations.neutral)
    notes = list(recommendations.notes)
    if not recommendations.dimensions:
        notes.append("no dimension has two labels: price percentage and association are empty")
    if not priced:
        notes.append("no recommendation has a price: price percentage and average price are empty")
    if not categorised:
        notes.append("no recommendation has a category: association is empty")
    cities = len(recommendations.cities)
    if cities == 1:
        notes.append(
            "one city: what is found is true of these lists; the same recommender, trained or asked again, may give "
            "others"
        )
    elif cities < FEW_CITIES:
        notes.append(f"{cities} cities: over so few only very even shifts are found; each city's own are in the files")
    places = places_of(distinct, words)
    if (many := sum(map(len, places.values()))) > MOST_PLACES:
        places = {}
        notes.append(f"{many} substitutions have no label, more than {MOST_PLACES}: they are not compared as places")
    average = prices.average_price(recommendations if priced else _nothing(recommendations), how)
    kinds = {word: kind for kind, words in places.items() for word in words} if priced else {}
    differences = prices.price_differences(recommendations, list(kinds), how, kinds=kinds)
    association = associations.association(recommendations if categorised else empty, how)
    percentage = prices.price_percentage(recommendations if priced else empty, how)
    by_label = price_by_label(recommendations if priced else empty, how)
    notes += _words_noted(pd.concat([part[["dimension", "words", "permuted"]] for part in (percentage, association)]))
    record = {
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
        "inference": dataclasses.asdict(how),
        "found": _found(association),
        "reading": reading(percentage, by_label, association, average, differences, places),
        "versions": {name: version(name) for name in ("numpy", "pandas", "scipy", "tod-bias")},
    }
    return Audit(
        recommendations, how, percentage, association, average, differences, by_label,
        item_names.top_words(recommendations, how), places, record,
    )  # fmt: skip


def _words_noted(rows: pd.DataFrame) -> list[str]:
    """What words do not allow: to speak of groups, to exchange whole words, to know them."""
    unknown, few = rows["words"].isna(), rows["words"] < ENOUGH_WORDS
    stuck = rows["permuted"].eq("queries") & ~unknown & ~few
    said = {
        "words too few (below six effective ones of a group), so what is found is said of these words, not of the "
        "groups; below five there are no intervals": few,
        "words not known, so queries are taken for independent; what is found may be too much, and is said of these "
        "queries": unknown,
        "words of several groups or too few to change places, so one of the two tests exchanges queries": stuck,
    }
    return [
        f"{', '.join(dict.fromkeys(rows.loc[mine, 'dimension']))}: {text}" for text, mine in said.items() if mine.any()
    ]


def _file_name(dimension: str) -> str:
    return re.sub(r"[^\w-]+", "_", dimension.replace(CROSS, "_x_"))


def _nothing(recommendations: Recommendations) -> Recommendations:
    return dataclasses.replace(recommendations, frame=recommendations.frame.iloc[:0])


def _found(association: pd.DataFrame) -> dict[str, Any]:
    """How many shifts of how many the test finds over all cities, a pair of labels."""
    rows = association[association["city"] == ALL]
    return {
        f"{dimension}: {label} / {other}": {"categories": len(own), "found": int((own["p_adjusted"] < ALPHA).sum())}
        for dimension, part in rows.groupby("dimension", sort=False)
        for (label, other), own in pairs_of(part)
    }


def frame(recommendations: Recommendations) -> pd.DataFrame:
    """The tidy frame of ``recommendations.parquet``, neutral rows included; it can be read and audited again."""
    import pandas as pd

    parts = []
    for rows, neutral in ((recommendations.frame, False), (recommendations.neutral, True)):
        own = rows.copy()
        names = [str(column) for column in own if str(column).startswith("label:")]
        own["label"] = "neutral" if neutral else _labels(own, names)
        parts.append(own[list(COLUMNS)])
    whole = pd.concat([part for part in parts if len(part)], ignore_index=True)
    lists = pd.Series([list(cell) for cell in whole["categories"]], index=whole.index, dtype=object)
    return whole.assign(categories=lists, rank=whole["rank"].astype(int))


def _labels(rows: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    import pandas as pd

    text = pd.Series("", index=rows.index)
    for name in names:
        part = name.removeprefix("label:") + "=" + rows[name]
        there = rows[name] != ""
        text = text.where(~there, text.where(text == "", text + "; ") + part)
    return text.where(text != "", "all")
