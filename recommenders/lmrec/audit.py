"""An audit of recommendations: all analyses, their files and figures."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.documents import check_plain, read_json
from tod_bias.errors import RecommenderError, shortened
from tod_bias.files import check_plain_file, replacing, subfolder, write_json, write_table
from tod_bias.folder import writable
from tod_bias.recommenders.lmrec import associations, item_names, prices, tables
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.reading import ALPHA, LIMITS, captions, pairs_of, reading
from tod_bias.recommenders.lmrec.recommendations import ALL, CROSS, Recommendations
from tod_bias.recommenders.lmrec.templates import TemplateSet, places_of, word_list
from tod_bias.report.page import FIGURES, REPORT, draw, write_page
from tod_bias.statistics.needed import ENOUGH_WORDS
from tod_bias.statistics.settings import Inference

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SCHEMA = 1
"""Version of ``audit.json``."""
MOST_PLACES = 100
"""Of more substitutions without a label the pairs are not compared."""
TABLES = ("price_percentage", "price_by_label", "association", "average_price", "price_differences", "top_words")
"""The CSV files of an audit, by name without ending."""
FEW_CITIES = 4
"""With fewer, intervals over cities are too wide to show much."""
_TEMPLATE = Path(__file__).parent / "templates" / "audit.html.j2"
RECORD = "audit.json"
"""The file that tells the folder of an audit."""


@dataclass(frozen=True)
class Audit:
    """The tables of one audit and its record."""

    price_percentage: pd.DataFrame
    association: pd.DataFrame
    average_price: pd.DataFrame
    price_differences: pd.DataFrame
    price_by_label: pd.DataFrame
    top_words: pd.DataFrame
    record: dict[str, Any]
    """The content of ``audit.json``."""
    recommendations: Recommendations | None = None
    """What was audited; None of an audit that was read from its folder."""

    @property
    def level(self) -> float:
        """Of the intervals."""
        return float(self.record["inference"]["level"])

    @property
    def places(self) -> Mapping[str, Sequence[str]]:
        """Kind to substitutions that are places: the rank chart."""
        return dict(self.record["places"])

    @classmethod
    def read(cls, folder: str | Path) -> Audit:
        """What :meth:`save` wrote, without the recommendations.

        Raises:
            RecommenderError: a file is not there, or is not what an audit writes.
        """
        folder = Path(folder)
        with _readable(folder):
            frames: dict[str, Any] = {name: _table(folder / f"{name}.csv") for name in TABLES}
            return cls(**frames, record=dict(read_json(folder / RECORD)))

    def save(self, folder: str | Path, *, figures: bool = True) -> None:
        """Write the CSV files, ``recommendations.parquet``, figures, ``report.html``, and last ``audit.json``.

        Raises:
            TodBiasError: the folder cannot be written.
        """
        folder = writable(folder)
        for name in TABLES:
            write_table(folder / f"{name}.csv", getattr(self, name))
        if self.recommendations is not None:
            with replacing(folder / "recommendations.parquet") as part:
                self.recommendations.saved().to_parquet(part, index=False)
        if figures:
            self.write_report(folder)
        else:
            (folder / REPORT).unlink(missing_ok=True)  # it would be of another audit
            _clean(folder, ())
        write_json(folder / RECORD, self.record)

    def write_report(self, folder: Path) -> Path:
        """Write ``report.html`` and ``figures/*.svg``."""
        check_plain_file(folder / REPORT)
        made = self.figures()
        _clean(folder, made)
        return write_page(
            folder / REPORT,
            _TEMPLATE,
            record=self.record,
            level=f"{self.level:.0%}",
            figures=[
                (captions(name), draw(figure, folder / FIGURES / f"{name}.svg", captions(name)))
                for name, figure in made.items()
            ],
            sheets=tables.sheets(self),
            limits=LIMITS,
        )

    def figures(self) -> dict[str, Figure]:
        """The figures by file name without ending; those without numbers are left out."""
        from tod_bias.recommenders.lmrec import figures

        made = {}
        for dimension in self.record["dimensions"]:
            name = _file_name(dimension)
            if self.price_percentage["dimension"].eq(dimension).any():
                made[f"price_percentage_{name}"] = figures.price_percentage(self.price_percentage, dimension)
            if self.top_words["dimension"].eq(dimension).any():
                made[f"top_words_{name}"] = figures.top_words(self.top_words, dimension)
        crosses = [name for name in self.record["dimensions"] if CROSS in name and not self.association.empty]
        for dimension in crosses:
            across, upwards = (self._polar(part) for part in dimension.split(CROSS))
            if across and upwards:
                made[f"association_{_file_name(dimension)}"] = figures.association_scatter(
                    self.association, across, upwards, categories=self._categories(dimension), alpha=ALPHA
                )
        if self.places and self.average_price["value"].notna().any():
            made["average_price"] = figures.average_price(self.average_price, self.places)
        return made

    def _categories(self, dimension: str) -> Collection[str] | None:
        """The categories that a scatter plot shows; None for all."""
        if "relationship" not in dimension:
            return None
        shown = {name.lower() for name in word_list("nightlife.txt")}
        return shown if shown & {str(name).lower() for name in self.association["category"]} else None

    def _polar(self, dimension: str) -> tuple[str, str, str] | None:
        """Dimension, label to the right or top, label to the left or bottom, as in Shen's figures."""
        labels = list(self.record["dimensions"][dimension])
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
    notes = [*recommendations.notes, *_missing(recommendations)]
    places = places_of(distinct, words)
    if (many := sum(map(len, places.values()))) > MOST_PLACES:
        places = {}
        notes.append(f"{many} substitutions have no label, more than {MOST_PLACES}: they are not compared as places")
    priceless = replace(recommendations, frame=recommendations.frame.iloc[:0])
    average = prices.average_price(recommendations if priced else priceless, how)
    kinds = {word: kind for kind, words in places.items() for word in words} if priced else {}
    differences = prices.price_differences(recommendations, kinds, how)
    if len(kinds) > 1 and differences.empty:
        notes.append(f"no two places share {prices.FEWEST_TEMPLATES} templates: they are not compared")
    association = associations.association(recommendations if categorised else empty, how)
    percentage = prices.price_percentage(recommendations if priced else empty, how)
    by_label = prices.price_by_label(recommendations if priced else empty, how)
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
        "inference": asdict(how),
        "found": _shifts(association),
        "versions": {name: version(name) for name in ("numpy", "pandas", "scipy", "tod-bias")},
    }
    words_of_names = item_names.top_words(recommendations, how)
    result = Audit(percentage, association, average, differences, by_label, words_of_names, record, recommendations)
    record["reading"] = reading(result)
    return result


def _missing(recommendations: Recommendations) -> Iterator[str]:
    """Notes on what there is too little of."""
    if not recommendations.dimensions:
        yield "no dimension has two labels: price percentage and association are empty"
    if recommendations.distinct["price"].isna().all():
        yield "no recommendation has a price: price percentage and average price are empty"
    if not recommendations.distinct["categories"].map(len).any():
        yield "no recommendation has a category: association is empty"
    cities = len(recommendations.cities)
    if cities == 1:
        yield (
            "one city: what is found is true of these lists; the same recommender, trained or asked again, may give "
            "others"
        )
    elif cities < FEW_CITIES:
        yield f"{cities} cities: over so few only very even shifts are found; each city's own are in the files"


def report_again(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write ``report.html`` and ``figures/*.svg`` of an audit from its ``audit.json`` and CSV files.

    Args:
        folder: what :meth:`Audit.save` wrote.
        out: folder for the page; the audit's own if left out.

    Raises:
        RecommenderError: a file is not there, or is not what an audit writes.
    """
    folder = Path(folder)
    audited = Audit.read(folder)
    with _readable(folder):
        return audited.write_report(writable(folder if out is None else out))


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Raises RecommenderError for what a damaged file of an audit leads to."""
    try:
        yield
    except (OSError, json.JSONDecodeError) as error:
        raise RecommenderError(f"{folder}: cannot be read ({shortened(str(error), 200)}); repeat the audit") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        reason = shortened(f"{type(error).__name__}: {error}", 200)
        raise RecommenderError(f"{folder}: not what recommend audit writes ({reason}); repeat it") from error


_TEXTS = ("city", "dimension", "label", "other", "category", "substitution", "word", "kind", "permuted")


def _table(path: Path) -> pd.DataFrame:
    import pandas as pd

    check_plain(path)
    texts = dict.fromkeys(_TEXTS, str)  # "NA" and "007" are names
    return pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=[""])


def _clean(folder: Path, drawn: Collection[str]) -> None:
    """Take away the figures of another audit."""
    for old in subfolder(folder, FIGURES).glob("*.svg"):
        if old.stem not in drawn:
            old.unlink()


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


def _shifts(association: pd.DataFrame) -> dict[str, Any]:
    """How many shifts of how many the test finds over all cities, a pair of labels."""
    rows = association[association["city"] == ALL]
    return {
        f"{dimension}: {label} / {other}": {
            "categories": len(subset),
            "found": int((subset["p_adjusted"] < ALPHA).sum()),
        }
        for dimension, part in rows.groupby("dimension", sort=False)
        for (label, other), subset in pairs_of(part)
    }
