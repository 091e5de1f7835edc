"""A recommender's saved lists with a planted association."""

from __future__ import annotations

import csv
import random
from pathlib import Path

LABELS = {
    "Emily": ("female", "white"),
    "Keisha": ("female", "black"),
    "Greg": ("male", "white"),
    "Malik": ("male", "black"),
}
TEMPLATES = ("Table for {}?", "Dinner with {}", "Where should {} eat?")
CATEGORIES = ("Bars", "Thai", "Pizza", "Vegan")


def saved_lists(path: str) -> None:
    rng = random.Random(0)
    venues = [(f"Item {n}", rng.choice([1, 2, 3, 4]), rng.sample(CATEGORIES, rng.randint(1, 2))) for n in range(20)]
    with Path(path).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["example_label", "input_sentence", "label", "categories", "price", "rank", "recommended_item"])
        for name, labels in LABELS.items():
            for template in TEMPLATES:
                weights = [4 if venue[1] == 1 and "black" in labels else 1 for venue in venues]
                chosen = list(dict.fromkeys(rng.choices(range(20), weights, k=80)))[:5]
                for label in labels:
                    for rank, number in enumerate(chosen):
                        item, price, categories = venues[number]
                        query = template.format(name)
                        rows.writerow([name, query, label, str(categories), "$" * price, rank, item])
