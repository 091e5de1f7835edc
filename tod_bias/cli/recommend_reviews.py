"""``tod-bias recommend sample`` and ``statistics``: review data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from tod_bias.cli.options import command
from tod_bias.cli.recommend_options import ReviewOptions, read_reviews
from tod_bias.config import ADVANCED, OutputOptions, Positive, Seeded
from tod_bias.errors import RecommenderError
from tod_bias.io.files import write_json, write_table
from tod_bias.io.folder import writable
from tod_bias.report.sheets import print_sheets


class SampleConfig(Seeded):
    """What is made."""

    city: tuple[str, ...] = ()
    """Names of the cities; one file each; may be repeated."""
    venues: Annotated[Annotated[Positive, Field(le=240)], ADVANCED] = 240
    """Venues of a city."""
    reviews: Annotated[Annotated[Positive, Field(le=100_000)], ADVANCED] = 110
    """Reviews of a venue."""
    planted: Annotated[bool, ADVANCED] = True
    """Plant the associations; without, no group is mentioned more anywhere."""


class SampleOutput(OutputOptions):
    """Where reviews go."""

    out: Path = Path("runs/sample")
    """Folder for the CSV files."""


@command("tod-bias recommend sample --city Leeds --out runs/reviews")
def sample(*, config: SampleConfig, output: SampleOutput) -> None:
    """Write the bundled sample, reviews with known associations planted in them, as CSV files."""
    from tod_bias.recommenders.lmrec import sample as generator

    cities = config.city or (generator.CITY,)
    for name in cities:
        if Path(name).name != name or cities.count(name) > 1:
            raise RecommenderError(f"--city {name}: expected names of files, each once")
    for name in cities:
        path = output.out / f"{name}.csv"
        made = generator.sample(
            config.seed, venues=config.venues, reviews=config.reviews, city=name, planted=config.planted
        )
        count = generator.write_sample(path, made)
        if not output.quiet:
            print(f"{count:,} reviews: {path}")
    if not output.quiet and config.planted:
        for what, how in generator.PLANTED.items():
            print(f"planted, {what}: {how}")


class StatisticsOutput(OutputOptions):
    """Where statistics go."""

    out: Path = Path("runs/statistics")
    """Folder for the results."""


@command("tod-bias recommend statistics --reviews Leeds=leeds.csv --out runs/statistics")
def statistics(*, source: ReviewOptions, output: StatisticsOutput) -> None:
    """Statistics of review data (Shen Tables 2 and 6) and of the names in it by price level (Table 7)."""
    every = read_reviews(source)

    import pandas as pd

    from tod_bias.recommenders.lmrec.reviews import name_statistics

    out = writable(output.out)
    result = [part.statistics() for part in every]
    names = pd.concat([name_statistics(part) for part in every], ignore_index=True)
    write_json(out / "statistics.json", result)
    write_table(out / "name_statistics.csv", names)
    if not output.quiet:
        from tod_bias.recommenders.lmrec.reviews import statistics_sheets

        print_sheets(statistics_sheets(result, names))
        print(f"Results: {output.out}")
