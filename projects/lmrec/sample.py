"""The bundled sample of reviews, with known associations planted in it, as a CSV file per city."""

from __future__ import annotations

import argparse
from pathlib import Path

from tod_bias.recommenders.lmrec.sample import CITY, PLANTED, sample, write_sample


def main() -> None:
    """Write the files and print what is planted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--city", action="append", help="name of a city and its file; may be repeated")
    parser.add_argument("--venues", type=int, default=240, help="venues of a city, 240 at the most")
    parser.add_argument("--reviews", type=int, default=110, help="reviews of a venue")
    parser.add_argument("--no-planted", dest="planted", action="store_false", help="mention every group equally often")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/sample"))
    given = parser.parse_args()
    for city in given.city or (CITY,):
        made = sample(given.seed, venues=given.venues, reviews=given.reviews, city=city, planted=given.planted)
        path = given.out / f"{city}.csv"
        print(f"{write_sample(path, made):,} reviews: {path}")
    if given.planted:
        for what, how in PLANTED.items():
            print(f"planted, {what}: {how}")


if __name__ == "__main__":
    main()
