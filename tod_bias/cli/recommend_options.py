"""Options and review files that the commands of ``tod-bias recommend`` share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.cli.arguments import check_files
from tod_bias.documents import read_json
from tod_bias.errors import RecommenderError, repeated
from tod_bias.recommenders.lmrec.venue import VENUES
from tod_bias.statistics.needed import MOST_RESAMPLES

_NO_MODEL = "no trained LMRec can be read; give a folder that tod-bias recommend train wrote"
"""What is said of a model that is not there."""


class Correction(StrEnum):
    """Corrections for many categories."""

    bh = "bh"
    holm = "holm"


Level = Annotated[float, typer.Option(min=0.5, max=0.999, help="Level of the intervals.")]
Resamples = Annotated[
    int, typer.Option("--bootstrap", min=0, max=MOST_RESAMPLES, help="Resamples of queries for intervals; 0 for none.")
]
Permutations = Annotated[int, typer.Option(min=0, max=MOST_RESAMPLES, help="Permutations of the tests; 0 for none.")]
CorrectionOption = Annotated[Correction, typer.Option(help="bh (Benjamini–Hochberg) or holm, over categories.")]
Figures = Annotated[bool, typer.Option(help="Draw the figures and write the report.")]
AuditOut = Annotated[Path, typer.Option(help="Folder for the results.")]
ReviewFiles = Annotated[
    list[str] | None,
    typer.Option(metavar="[CITY=]FILE", help="A city's review CSV; 'sample' (the default) for the bundled sample."),
]
Yelp = Annotated[Path | None, typer.Option(help="Folder of Yelp's dataset (business.json, review.json).")]
YelpCity = Annotated[list[str] | None, typer.Option("--city", help="With --yelp: the city to read.")]
MinReviews = Annotated[int, typer.Option(min=1, help="Leave out venues with fewer reviews.")]


class MissingOption(StrEnum):
    """What to do with venues without price or categories."""

    error = "error"
    keep = "keep"
    drop = "drop"


Missing = Annotated[MissingOption, typer.Option(help="Venues without price or categories: error, keep or drop.")]
CategorySeparators = Annotated[str, typer.Option(help="Characters that separate categories.")]
TrainingSeed = Annotated[int, typer.Option(min=0, help="Seeds the split, the model and whatever else is drawn.")]
SplitSeed = Annotated[
    int | None, typer.Option(min=0, help="Seed of what is drawn; and of the split, where a model does not say its own.")
]


def check_models(*folders: Path) -> None:
    """See to it that folders look like trained LMRecs, before what loads them is loaded.

    Raises:
        TodBiasError: one does not.
    """
    check_files(*folders, otherwise=_NO_MODEL)
    for folder in folders:
        if not (folder / VENUES).is_file():
            raise RecommenderError(f"{folder}: {_NO_MODEL} (it has no {VENUES})")


def check_masked(folder: Path) -> None:
    """Raises RecommenderError where a trained LMRec says that it was not trained with ``--mask``."""
    try:
        masked = read_json(folder / "config.json").get("masked")
    except (OSError, ValueError, AttributeError):
        return  # said by what loads it
    if masked is not True:
        raise RecommenderError(f"{folder}: was not trained with --mask")


def check_reviews(files: Sequence[str] | None, yelp: Path | None, cities: Sequence[str] | None) -> int:
    """See to it that options name reviews, before anything is loaded; returns of how many cities.

    Raises:
        RecommenderError: they do not go together, or a file is given twice.
        TodBiasError: one is not there.
    """
    if yelp is not None and (files or not cities):
        raise RecommenderError("with --yelp give --city NAME (and no --reviews)")
    if yelp is None and cities:
        raise RecommenderError("--city goes with --yelp; a CSV file is named with --reviews CITY=FILE")
    paths = [text.partition("=")[2] or text for text in files or ()]
    if doubled := repeated(paths):
        raise RecommenderError(f"--reviews {doubled}: is given twice, and a city is one only once")
    check_files(yelp, *(path for path in paths if path != "sample"))
    return len(cities or ()) if yelp is not None else max(1, len(paths))


def read_reviews(
    files: Sequence[str] | None,
    yelp: Path | None,
    cities: Sequence[str] | None,
    min_reviews: int,
    missing: MissingOption,
    separators: str,
) -> list[Any]:
    """Reviews of every city that the options name: the bundled sample, CSV files or Yelp's dataset."""
    check_reviews(files, yelp, cities)
    from tod_bias.recommenders.lmrec import reviews as reading
    from tod_bias.recommenders.lmrec.sample import CITY
    from tod_bias.recommenders.lmrec.sample import sample as generate

    if yelp is not None:
        sources = [(name, reading.read_yelp(yelp, name)) for name in cities or ()]
    else:
        sources = []
        for text in files or ["sample"]:
            name, equals, file = text.partition("=")
            if text == "sample":
                sources.append((CITY, generate()))
            else:
                path = Path(file if equals else text)
                sources.append((name if equals else path.stem, reading.read_csv(path)))
    return [
        reading.Reviews(source, city=name, fewest=min_reviews, missing=missing.value, separators=separators)
        for name, source in sources
    ]
