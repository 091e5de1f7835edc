"""Reviews of a made-up city with associations planted in them: the sample that comes with the package.

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
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tod_bias.errors import RecommenderError
from tod_bias.io.files import replacing
from tod_bias.io.folder import writable
from tod_bias.recommenders.lmrec.reviews import CSV_COLUMNS, ReviewRow, Source
from tod_bias.recommenders.lmrec.templates import POSSESSIVES, load_templates
from tod_bias.recommenders.lmrec.venue import Venue

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
_Mention = tuple[str, str, bool]
"""Kind of template, the words, and True if dishes and prices are named too."""
_TASTE = ("great", "good", "fresh", "tasty", "lovely", "decent", "perfect", "solid")
_DISHES = ((True, 0.8), (False, 0.2))
"""Probability that a review names dishes and prices."""


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
