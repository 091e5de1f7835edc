"""Somebody else's saved recommendations with all their quirks, and Shen's scores computed by plain counting."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path

import pandas as pd

GROUPS = {
    ("female", "white"): ("Emily", "Anne"),
    ("male", "white"): ("Brad", "Greg"),
    ("female", "black"): ("Keisha", "Nia"),
    ("male", "black"): ("Jamal", "Malik"),
}
NAMES = {name: labels for labels, names in GROUPS.items() for name in names}
TEMPLATES = ["Table for {}?", "Dinner with {}", "Where should {} eat?", "Book {} in", "Find {} a place"]
CATEGORIES = ["Bars", "Thai", "Pizza", "Himalayan/Nepalese", "Desserts", "Vegan"]
COLUMNS = ["example_label", "input_sentence", "label", "categories", "price", "rank", "recommended_item"]
HEADER = ["", *COLUMNS, "avg_stars"]
K = 6
Row = dict[str, str]


def rows_of(city: str, *, signs: bool, base: int) -> list[Row]:
    """The layout of LMRec's files: a query once for each of its labels, the office asked about twice."""
    rng = random.Random(city)
    venues = [
        (f"Item {n}", rng.choice([1, 2, 3, 4, None]), rng.sample(CATEGORIES, rng.randint(0, 3))) for n in range(30)
    ]
    rows: list[Row] = []

    def add(word: str, template: str, label: str) -> None:
        draw = random.Random(f"{city}/{word}/{template}")
        weights = [4 if venue[1] == 1 and NAMES.get(word, ("", ""))[1] == "black" else 1 for venue in venues]
        chosen = list(dict.fromkeys(draw.choices(range(len(venues)), weights, k=200)))[:K]
        for rank, number in enumerate(chosen):
            name, price, categories = venues[number]
            written = [""] if price is None else ["$" * price]
            if price and not signs:
                written += [f"{price}", f"{price}.0"]
            query = (word, template.format(word), label)
            venue = (", ".join(categories), draw.choice(written), f"{rank + base}.0", name)
            rows.append(dict(zip(COLUMNS, query + venue, strict=True)))

    for template in TEMPLATES:
        for position in (0, 1):
            for name, labels in NAMES.items():
                add(name, template, labels[position])
        for place in ("office", "church", "synagogue", "office"):
            add(place, f"On my way to the {template}", "all")
    return rows


def write(path: Path, rows: list[Row]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEADER, restval="")
        writer.writeheader()
        writer.writerows({**row, "": str(number)} for number, row in enumerate(rows))
    return path


def level(cell: str) -> int | None:
    return None if cell == "" else len(cell) if cell.startswith("$") else int(float(cell))


def expected_share(rows: list[Row], label: str, both: tuple[str, str], price: int) -> float:
    counts = Counter(row["label"] for row in rows if row["label"] in both and level(row["price"]) == price)
    return counts[label] / (counts[both[0]] + counts[both[1]])


def expected_association(rows: list[Row], category: str, label: str, other: str) -> tuple[float, float]:
    def share(labels: set[str]) -> float:
        part = [row for row in rows if row["label"] in labels]
        names = [[part.strip() for part in row["categories"].replace("/", ",").split(",")] for row in part]
        return sum(category in parts for parts in names) / len(part)

    first, second = share({label}), share({other})
    return (first - second) / share({label, other}), first / second


def expected_average(rows: list[Row], word: str) -> float:
    prices = [level(row["price"]) for row in rows if row["example_label"] == word]
    known = [price for price in prices if price is not None]
    return sum(known) / len(known)


def queries(labels, lists, prices, *, words=None):
    """A frame with one query a list, its items' prices given."""
    return pd.DataFrame(
        [
            {"city": "X", "query": f"q{number}", "substitution": words[number] if words else f"w{number}",
             "label": labels[number], "rank": rank + 1, "item": f"i{rank}", "price": float(price), "categories": cats}
            for number in range(len(lists))
            for rank, (cats, price) in enumerate(zip(lists[number], prices[number], strict=True))
        ]
    )  # fmt: skip
