"""Statistics of review data (Shen, Tables 2 and 6) and of the names in it by price level (Table 7)."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from tod_bias.io.files import write_json, write_table
from tod_bias.io.folder import writable
from tod_bias.recommenders.lmrec.reviews import Reviews, name_statistics, read_csv, statistics_sheets
from tod_bias.report.sheets import print_sheets


def main() -> None:
    """Write statistics.json and name_statistics.csv, and print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="review CSV of a city, called after it")
    parser.add_argument("--min-reviews", type=int, default=100, help="leave out venues with fewer reviews")
    parser.add_argument("--out", type=Path, default=Path("runs/statistics"))
    given = parser.parse_args()
    every = [Reviews(read_csv(file), city=file.stem, fewest=given.min_reviews) for file in given.files]
    found = [part.statistics() for part in every]
    names = pd.concat([name_statistics(part) for part in every], ignore_index=True)
    out = writable(given.out)
    write_json(out / "statistics.json", found)
    write_table(out / "name_statistics.csv", names)
    print_sheets(statistics_sheets(found, names))


if __name__ == "__main__":
    main()
