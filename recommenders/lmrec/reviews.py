"""Reviews of venues: Yelp's own files, or the CSV of one city.

Files are streamed.

Two layouts:

* Yelp's dataset: a folder with ``business.json`` and ``review.json`` (or ``yelp_academic_dataset_…``), a JSON object a
  line; one city of it is read.
* One CSV a city, as LMRec's authors publish them, with at least the columns ``business_id``, ``review_text``, ``name``,
  ``price`` and ``categories``.

Only the facts of venues are kept in memory; reviews are read again in every pass.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from tod_bias.errors import RecommenderError
from tod_bias.recommenders.files import csv_rows, json_lines
from tod_bias.recommenders.lmrec.templates import MASK, TemplateSet, load_templates, name_masker
from tod_bias.recommenders.lmrec.venue import LEVELS, Venue, price_level, split_categories
from tod_bias.report.notation import count, fixed
from tod_bias.report.sheets import Sheet

log = logging.getLogger(__name__)

FEWEST = 100
"""Reviews that a venue must have (Shen §4.1)."""
CSV_COLUMNS = ("business_id", "review_text", "name", "price", "categories")
Missing = Literal["keep", "drop"]


@dataclass(frozen=True)
class ReviewRow:
    """One review as in a file."""

    place: str
    """File and line."""
    venue: str
    text: str
    name: str
    price: str
    categories: str | Sequence[str]


Source = Callable[[], Iterator[ReviewRow]]
"""Starts a new pass over the reviews."""


@dataclass(frozen=True)
class Review:
    """One review that is used."""

    venue: int
    """Index of the venue."""
    text: str
    """Text with names of venues masked."""


class Reviews:
    """The reviews of one city's venues that have enough of them, in passes.

    Args:
        source: starts a pass over the rows.
        city: its name.
        fewest: leave out venues with fewer reviews.
        missing: what to do with a venue without price or categories: ``keep`` recommends it without them, ``drop``
            leaves it and its reviews out.
        category: leave out venues that are not of it (in any case); None for all.

    Raises:
        RecommenderError: a broken line, a bad price, no venue with enough reviews.
    """

    def __init__(
        self,
        source: Source,
        *,
        city: str,
        fewest: int = FEWEST,
        missing: Missing = "keep",
        category: str | None = None,
    ) -> None:
        self.city = city
        self.fewest = fewest
        self._source = source
        counts, first = self._first_rows()
        of_category = {key: row for key, row in first.items() if category is None or _is_of(row, category)}
        self.others = len(first) - len(of_category)
        """Venues that were left out as they are not of the category."""
        self.dropped = 0
        """Venues that were left out for want of price or categories."""
        venues: list[Venue] = []
        for key, row in of_category.items():
            if counts[key] < fewest:
                continue
            venue = _venue(row)
            if missing == "drop" and (venue.price is None or not venue.categories):
                self.dropped += 1
            else:
                venues.append(venue)
        if first and not of_category:
            raise RecommenderError(
                f"{city}: none of {len(first)} venues is of the category {category!r}; name another with "
                "'category: …' in a file for --config"
            )
        if not venues:
            raise RecommenderError(
                f"{city}: no venue of {len(of_category)} has {fewest} reviews or more; lower --min-reviews?"
            )
        self.venues: tuple[Venue, ...] = tuple(venues)
        self.counts = np.array([counts[venue.id] for venue in venues])
        """Reviews a venue."""
        self.few = sum(counts[key] < fewest for key in of_category)
        """Venues that were left out for want of reviews."""
        self._index = {venue.id: number for number, venue in enumerate(venues)}
        self._masker = name_masker(venue.name for venue in venues)

    def _first_rows(self) -> tuple[Counter[str], dict[str, ReviewRow]]:
        """Count reviews per venue, and return the first row of each, which describes it."""
        counts: Counter[str] = Counter()
        first: dict[str, ReviewRow] = {}
        others: list[str] = []
        for row in self._source():
            counts[row.venue] += 1
            known = first.setdefault(row.venue, replace(row, text=""))
            if (known.name, known.price, known.categories) != (row.name, row.price, row.categories):
                others.append(row.place)
        if others:
            log.warning(
                "%s: %d rows have another name, price or categories than the first of their venue, which counts (%s)",
                self.city,
                len(others),
                others[0],
            )
        return counts, first

    def __len__(self) -> int:
        return int(self.counts.sum())

    def __iter__(self) -> Iterator[Review]:
        for row in self._source():
            number = self._index.get(row.venue)
            if number is not None:
                yield Review(number, self._masker.sub(MASK, row.text))

    def splits(self, seed: int) -> np.ndarray:
        """0 (train), 1 (valid) or 2 (test) a review, in shares of 0.8/0.1/0.1 (Shen §3.2)."""
        total = len(self)
        parts = np.zeros(total, dtype=np.int8)
        order = np.random.default_rng(seed).permutation(total)
        tenth = round(total / 10)
        parts[order[:tenth]] = 2
        parts[order[tenth : 2 * tenth]] = 1
        return parts

    def of_split(self, split: int, seed: int) -> Iterator[Review]:
        """The reviews of one split."""
        parts = self.splits(seed)
        return (review for review, part in zip(self, parts, strict=True) if part == split)

    def statistics(self) -> dict[str, Any]:
        """Shen Tables 2 and 6, and the shares of price levels among venues and among reviews."""
        categories = Counter(name for venue in self.venues for name in venue.categories)
        levels: list[int | None] = [*LEVELS, None]
        prices = [venue.price for venue in self.venues]
        return {
            "city": self.city,
            "reviews": len(self),
            "venues": len(self.venues),
            "venues_with_fewer_reviews": self.few,
            "venues_dropped": self.dropped,
            "venues_of_other_categories": self.others,
            "most_rated_venue": int(self.counts.max()),
            "categories": len(categories),
            "top_categories": [name for name, _ in categories.most_common(5)],
            "most_categories": max(len(venue.categories) for venue in self.venues),
            "venues_by_price": {"$" * (m or 0) or "missing": prices.count(m) / len(prices) for m in levels},
            "reviews_by_price": {
                "$" * (m or 0) or "missing": float(self.counts[[p == m for p in prices]].sum() / len(self))
                for m in levels
            },
        }


def _is_of(row: ReviewRow, category: str) -> bool:
    return category.casefold() in (name.casefold() for name in split_categories(row.categories))


def _venue(row: ReviewRow) -> Venue:
    try:
        return Venue(row.venue, row.name, price_level(row.price), split_categories(row.categories))
    except ValueError as error:
        raise RecommenderError(f"{row.place}: venue {row.venue!r}: {error}") from error


def read_csv(path: str | Path) -> Source:
    """The reviews of one city's CSV file.

    Raises:
        TodBiasError: in a pass, at a broken line or an unknown layout; file and line are named.
    """
    path = Path(path)

    def start() -> Iterator[ReviewRow]:
        rows = csv_rows(path)
        _, header = next(rows)
        if missing := [name for name in CSV_COLUMNS if name not in header]:
            raise RecommenderError(f"{path}, line 1: no column {missing[0]!r}; expected {', '.join(CSV_COLUMNS)}")
        where = [header.index(name) for name in CSV_COLUMNS]
        for line, cells in rows:
            venue, text, name, price, categories = (cells[index] for index in where)
            if not venue:
                raise RecommenderError(f"{path}, line {line}: no business_id")
            yield ReviewRow(f"{path}, line {line}", venue, text, name, price, categories)

    return start


def read_yelp(folder: str | Path, city: str) -> Source:
    """The reviews of one city of Yelp's own dataset.

    Raises:
        RecommenderError: a file is not there; in a pass, a broken line (file and line are named).
    """
    folder = Path(folder)
    business, review = (_yelp_file(folder, name) for name in ("business", "review"))
    venues: dict[str, ReviewRow] = {}
    for place, record in json_lines(business, ("business_id", "name", "city")):
        if str(record["city"]).strip().lower() == city.strip().lower():
            attributes, categories = record.get("attributes"), record.get("categories") or ""
            price = attributes.get("RestaurantsPriceRange2") if isinstance(attributes, dict) else None
            categories = ", ".join(map(str, categories)) if isinstance(categories, list) else str(categories)
            key = record["business_id"]
            venues[key] = ReviewRow(place, key, "", record["name"], str(price or "").strip("u'\""), categories)
    if not venues:
        raise RecommenderError(f"{business}: no business in the city {city!r}")

    def start() -> Iterator[ReviewRow]:
        for _, record in json_lines(review, ("business_id", "text")):
            venue = venues.get(record["business_id"])
            if venue is not None:
                yield ReviewRow(venue.place, venue.venue, record["text"], venue.name, venue.price, venue.categories)

    return start


def _yelp_file(folder: Path, name: str) -> Path:
    for file in (folder / f"{name}.json", folder / f"yelp_academic_dataset_{name}.json"):
        if file.is_file():
            return file
    raise RecommenderError(f"{folder}: holds no {name}.json; expected the folder of Yelp's dataset")


def name_statistics(reviews: Reviews, words: TemplateSet | None = None) -> pd.DataFrame:
    """Count names in the reviews by price level of the venue (Shen Table 7).

    Shen finds names with a tagger and guesses gender and race with online classifiers; here the words of ``names.tsv``
    are counted, with a capital and as whole words, so the table shows the distribution of these names only. ``value``
    is the share of a label among the mentions of its dimension at a price level.

    Returns:
        city, dimension, label, price, mentions, value.
    """
    labels = {entry.word: entry.labels for entry in (words or load_templates()).names}
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(labels, key=len, reverse=True)))})\b")
    counts: Counter[tuple[str, str, int]] = Counter()
    for review in reviews:
        for name in pattern.findall(review.text):
            counts.update((*group, reviews.venues[review.venue].price or 0) for group in labels[name].items())
    groups = dict.fromkeys(group for of_word in labels.values() for group in of_word.items())
    rows = [(reviews.city, *group, price, counts[*group, price]) for price in LEVELS for group in groups]
    frame = pd.DataFrame(rows, columns=["city", "dimension", "label", "price", "mentions"])
    return frame.assign(value=frame["mentions"] / frame.groupby(["dimension", "price"])["mentions"].transform("sum"))


def statistics_sheets(statistics: Sequence[Mapping[str, Any]], names: pd.DataFrame) -> list[Sheet]:
    """Sizes of the cities' data (Shen Tables 2 and 6), and where names are mentioned (Table 7)."""
    signs = ("$", "$$", "$$$", "$$$$")
    sizes, prices, mentions = [], [], []
    for city in statistics:
        left_out = sum(city[f"venues_{why}"] for why in ("with_fewer_reviews", "dropped", "of_other_categories"))
        numbers = (city["reviews"], city["venues"], left_out, city["most_rated_venue"], city["categories"])
        sizes.append((city["city"], *map(count, numbers)))
        prices.append((city["city"], *(fixed(city["venues_by_price"][level]) for level in (*signs, "missing"))))
    for group, rows in names.groupby(["dimension", "label"], sort=False):
        means = rows.groupby("price")["value"].mean().reindex(LEVELS)
        mentions.append((*group, *(fixed(mean) if mean == mean else "–" for mean in means)))
    sized = ("city", "reviews", "venues", "left out", "most rated", "categories")
    by_price = "Share of name mentions by price level, mean of the cities"
    return [
        Sheet("sizes", "Reviews and venues", sized, tuple(sizes)),
        Sheet("prices", "Share of venues by price level", ("city", *signs, "missing"), tuple(prices)),
        Sheet("mentions", by_price, ("dimension", "label", *signs), tuple(mentions)),
    ]
