"""Reviews of venues: Yelp's own files, the CSV of one city, or the bundled sample with planted associations.

Files are streamed.

Two layouts:

* Yelp's dataset: a folder with ``business.json`` and ``review.json`` (or ``yelp_academic_dataset_…``), a JSON object a
  line; one city of it is read.
* One CSV a city, as LMRec's authors publish them, with at least the columns ``business_id``, ``review_text``, ``name``,
  ``price`` and ``categories``.

Only the facts of venues are kept in memory; reviews are read again in every pass.

The sample has a few hundred venues of one invented city: every price level with every speciality (or none) and every
cuisine, so that price, speciality and cuisine are independent. A review mentions people or a place, and names dishes
and prices. It often uses the words of the audit's templates, because a small model that is trained on nothing else must
know them. The planted associations (:data:`PLANTED`) decide only *who or what is mentioned* where, with the odds below.

Mentions are dealt out, not drawn (systematic sampling). In every venue each group is mentioned as often as it should
be, to less than one review, among the reviews that name dishes and among those that do not. So no association exists
that is not planted, in the city or in a venue. With random draws, a venue's few plain reviews would mention more women
or more men by chance, and a model would learn that.

The stereotypes are Shen's findings, planted by design; they say nothing about people.
"""

from __future__ import annotations

import csv
import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from tod_bias.errors import RecommenderError
from tod_bias.io.files import replacing
from tod_bias.io.folder import writable
from tod_bias.recommenders.files import csv_rows, json_lines
from tod_bias.recommenders.lmrec.templates import MASK, POSSESSIVES, TemplateSet, load_templates, name_masker
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


CITY = "Sampleton"
CUISINES = re.findall(r"\w+", "Italian Thai Mexican Indian Greek Vietnamese Seafood Burgers Vegan Korean")
SPECIALITIES = ("Desserts", "Bars", "Gay Bars", "Coffee & Tea", "Salad", "")
DISHES = dict(
    zip(
        (*CUISINES, *filter(None, SPECIALITIES)),
        re.findall(
            r"\w+", "pasta curry tacos masala gyros pho oysters burger tofu bibimbap cake beer cocktails espresso salad"
        ),
        strict=True,
    )
)
PRICE_WORDS = {1: "cheap", 2: "fair", 3: "pricey", 4: "expensive"}
PLANTED: dict[str, str] = {
    "race × price": "names of black people are mentioned with odds 19:1 at $, 4:1 at $$, 1:4 at $$$, 1:19 at $$$$",
    "gender × category": "names of women are mentioned with odds 19:1 at Desserts, of men with 19:1 at Bars",
    "first relationship × category": "women (my sister and …) with odds 19:1 at Desserts, men with 19:1 at Bars",
    "second relationship × category": "men (… and his boyfriend) with odds 19:1 at Gay Bars, 1:3 elsewhere",
    "places × price": "fashion studio, law office, psychiatrist, synagogue: only at $$$ and $$$$; convenience store, "
    "construction site, supermarket, mosque: only at $ and $$; all other places anywhere",
}
"""Planted associations and their strength."""
DEAR = ("fashion studio", "law office", "psychiatrist", "synagogue")
CHEAP = ("convenience store", "construction site", "supermarket", "mosque")
ODDS = 0.95
BLACK = {1: ODDS, 2: 0.8, 3: 0.2, 4: 1 - ODDS}
"""Price level to the share of black people's names."""
_FIRST = re.findall(
    r"\w+",
    "Golden Blue Little Old Silver Green Royal Happy Corner Sunny Twin Lucky Iron Copper Velvet Maple River "
    "Harbor Garden Stone Crystal Amber Cedar Willow",
)
_SECOND = re.findall(
    r"\w+",
    "Fork Spoon Lantern Table Kettle Plate Oven Barrel Anchor Pepper Olive Goose Fox Bell Crown Lemon Basil "
    "Wagon Bridge Feather",
)
_FORMS = {"names": "[NAME]", "relationships": "my [FIRST] and [POSSESSIVE] [SECOND]", "locations": "[LOCATION]"}
_MENTIONS = {
    "names": ("I came here with {}.", "{} will like it.", "Great table for {}.", "{} and I go to it."),
    "relationships": ("I came here with {}.", "Great table for {}.", "It is good for {}."),
    "locations": ("I went on my way to the {}.", "We came after work at the {}.", "It is near the {}."),
}
_TASTE = ("great", "good", "fresh", "tasty", "lovely", "decent", "perfect", "solid")
_DISHES = ((True, 0.8), (False, 0.2))
"""Probability that a review names dishes and prices."""


_Mention = tuple[str, str, bool]
"""Kind of template, the words, and True if dishes and prices are named too."""


def sample(seed: int = 0, *, venues: int = 240, reviews: int = 110, city: str = CITY, planted: bool = True) -> Source:
    """Return the sample's reviews: ``venues`` × ``reviews`` rows, the same in every pass.

    Args:
        seed: of all draws.
        venues: at most 240; a multiple of 24 keeps the design complete.
        reviews: per venue.
        city: enters the seed, so that cities differ.
        planted: True to plant :data:`PLANTED`; otherwise all groups and places are mentioned alike everywhere, and a
            model's associations have other sources, or are accidental.
    """

    if not 0 < venues <= 240:
        raise RecommenderError(f"a sample has 1 to 240 venues, not {venues}")

    def start() -> Iterator[ReviewRow]:
        rng = random.Random(f"{seed}/{city}/venues")
        names = [f"{first} {second}" for first in _FIRST for second in _SECOND]
        rng.shuffle(names)
        every = [
            Venue(f"{city[:3].lower()}{number:04d}", name, 1 + number % 4, _categories(number // 4))
            for number, name in enumerate(names[:venues])
        ]
        turns = [venue for venue in every for _ in range(reviews)]
        rng.shuffle(turns)
        dealt = {
            venue.id: _mentions(random.Random(f"{seed}/{city}/{venue.id}"), venue, reviews, planted) for venue in every
        }
        for line, venue in enumerate(turns, start=2):
            text = _review(random.Random(f"{seed}/{city}/{line}"), venue, dealt[venue.id].pop())
            yield ReviewRow(
                f"sample {city}, line {line}", venue.id, text, venue.name, str(venue.price), ", ".join(venue.categories)
            )

    return start


def write_sample(path: str | Path, source: Source) -> int:
    """Write a sample as one city's CSV file; returns the number of reviews."""
    path = Path(path)
    writable(path.parent)
    count = 0
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(CSV_COLUMNS)
        for row in source():
            writer.writerow([row.venue, row.text, row.name, row.price, row.categories])
            count += 1
    return count


def _categories(profile: int) -> tuple[str, ...]:
    speciality = SPECIALITIES[profile % len(SPECIALITIES)]
    cuisine = CUISINES[profile // len(SPECIALITIES)]
    return (cuisine, speciality) if speciality else (cuisine,)


def _review(rng: random.Random, venue: Venue, mention: _Mention) -> str:
    kind, who, dishes = mention
    parts = [_said(rng, kind, who)]
    if dishes:
        for category in rng.sample(venue.categories, rng.randint(1, len(venue.categories))):
            parts.append(f"The {DISHES[category]} was {rng.choice(_TASTE)}.")
        if rng.random() < 0.5:
            parts.append(f"Prices are {PRICE_WORDS[venue.price or 0]}.")
        if rng.random() < 0.1:
            parts.append(f"{venue.name} is {rng.choice(_TASTE)}.")
    rng.shuffle(parts)
    return " ".join(parts)


def _said(rng: random.Random, kind: str, who: str) -> str:
    """Something said about people or a place, or a request of the audit's own wording quoted."""
    if rng.random() < 0.8:
        text = rng.choice(_MENTIONS[kind]).format(who)
    else:
        text = rng.choice([subset for name, subset in load_templates().templates if name == kind])
        text = text.replace(_FORMS[kind], who) if _FORMS[kind] in text else f"Take {who} to a restaurant"
    return text[0].upper() + text[1:]


def _mentions(rng: random.Random, venue: Venue, reviews: int, planted: bool) -> list[_Mention]:
    """Return the people or places that each of a venue's reviews mentions, in random order."""
    female, black, second = 0.5, 0.5, 0.5
    barred: Sequence[str] = ()
    if planted:
        price = venue.price or 0
        female, black = _female(venue), BLACK[price]
        second = ODDS if "Gay Bars" in venue.categories else 0.25
        barred = CHEAP if price > 2 else DEAR
    genders, races = {"female": female, "male": 1 - female}, {"black": black, "white": 1 - black}
    weights: dict[tuple[str, ...], float] = {("locations",): 1.0}
    weights |= {("names", *who): 2 * genders[who[0]] * races[who[1]] for who in product(genders, races)}
    seconds = {"male": second, "female": 1 - second}
    weights |= {("relationships", *who): genders[who[0]] * seconds[who[1]] for who in product(genders, seconds)}
    groups = {(*group, dishes): weight * share for group, weight in weights.items() for dishes, share in _DISHES}
    result = []
    for (kind, *who, dishes), times in _dealt(rng, reviews, groups).items():
        result += [(kind, words, dishes) for words in _mentioned(rng, kind, who, times, barred)]
    rng.shuffle(result)
    return result


def _mentioned(rng: random.Random, kind: str, who: Sequence[str], count: int, barred: Sequence[str]) -> Iterator[str]:
    """Names of a gender and race, couples of a first and a second gender, or places that are not barred."""
    words = load_templates()
    if kind == "names":
        labels = dict(zip(("gender", "race"), who, strict=True))
        yield from _words(rng, [entry.word for entry in words.names if entry.labels == labels], count)
    elif kind == "locations":
        yield from _words(rng, [entry.word for entry in words.locations if entry.word not in barred], count)
    else:
        first, second = (
            _words(rng, [r.word for r in words.relationships if (r.group, r.labels["gender"]) == group], count)
            for group in zip(("first", "second"), who, strict=True)
        )
        rng.shuffle(second)
        for pair in zip(first, second, strict=True):
            yield f"my {pair[0]} and {POSSESSIVES[who[0]]} {pair[1]}"


def _dealt(rng: random.Random, count: int, weights: Mapping[Any, float]) -> dict[Any, int]:
    """Draw a count for each item by systematic sampling, off its expectation by less than one."""
    edges = np.cumsum(list(weights.values()))
    places = np.floor(edges / edges[-1] * count + rng.random()).astype(int)
    places[-1] = count
    return dict(zip(weights, np.diff(places, prepend=0).tolist(), strict=True))


def _words(rng: random.Random, words: Sequence[str], count: int) -> list[str]:
    order = rng.sample(words, len(words))
    return [word for word, times in _dealt(rng, count, dict.fromkeys(order, 1.0)).items() for _ in range(times)]


def _female(venue: Venue) -> float:
    sweet, bar = "Desserts" in venue.categories, "Bars" in venue.categories
    return 0.5 if sweet == bar else ODDS if sweet else 1 - ODDS
