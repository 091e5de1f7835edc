"""``tod-bias recommend sample`` and ``statistics``: review data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tod_bias.cli.options import Quiet, Seed
from tod_bias.cli.recommend_options import (
    AuditOut,
    CategorySeparators,
    Level,
    MinReviews,
    Missing,
    MissingOption,
    Resamples,
    ReviewFiles,
    Yelp,
    YelpCity,
    read_reviews,
)
from tod_bias.errors import RecommenderError
from tod_bias.files import write_json, write_table
from tod_bias.folder import writable
from tod_bias.report.console import Console


def sample(
    out: Annotated[Path, typer.Option(help="Folder for the CSV files.")] = Path("runs/sample"),
    city: Annotated[list[str] | None, typer.Option(help="Names of the cities; one file each.")] = None,
    venues: Annotated[int, typer.Option(min=1, max=240, help="Venues a city.")] = 240,
    reviews: Annotated[int, typer.Option(min=1, max=100_000, help="Reviews a venue.")] = 110,
    planted: Annotated[
        bool, typer.Option(help="Plant the associations; without, nobody is mentioned more anywhere.")
    ] = True,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Write the bundled sample, reviews with known associations planted in them, as CSV files."""
    from tod_bias.recommenders.lmrec import sample as generator

    cities = city or [generator.CITY]
    for name in cities:
        if Path(name).name != name or cities.count(name) > 1:
            raise RecommenderError(f"--city {name}: expected names of files, each once")
    for name in cities:
        path = out / f"{name}.csv"
        made = generator.sample(seed, venues=venues, reviews=reviews, city=name, planted=planted)
        count = generator.write_sample(path, made)
        if not quiet:
            typer.echo(f"{count:,} reviews: {path}")
    if not quiet and planted:
        for what, how in generator.PLANTED.items():
            typer.echo(f"planted, {what}: {how}")


def statistics(
    reviews: ReviewFiles = None,
    yelp: Yelp = None,
    city: YelpCity = None,
    min_reviews: MinReviews = 100,
    missing: Missing = MissingOption.keep,
    separators: CategorySeparators = ",",
    bootstrap: Resamples = 1000,
    level: Level = 0.90,
    seed: Seed = 0,
    out: AuditOut = Path("runs/statistics"),
    quiet: Quiet = False,
) -> None:
    """Statistics of review data (Shen Tables 2 and 6) and of the names in it by price level (Table 7)."""
    every = read_reviews(reviews, yelp, city, min_reviews, missing, separators)

    import pandas as pd

    from tod_bias.recommenders.lmrec.reviews import name_statistics

    writable(out)
    found = [own.statistics() for own in every]
    names = pd.concat(
        [name_statistics(own, level=level, resamples=bootstrap, seed=seed) for own in every], ignore_index=True
    )
    write_json(out / "statistics.json", found)
    write_table(out / "name_statistics.csv", names)
    if not quiet:
        from tod_bias.recommenders.lmrec.terminal import statistics_view

        Console().print(statistics_view(found, names))
        typer.echo(f"Results: {out}")
