"""Options and review files that the commands of ``tod-bias recommend`` share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from tod_bias.cli.arguments import check_files
from tod_bias.config import ADVANCED, BootstrapOptions, Options, Positive, Seeded
from tod_bias.errors import RecommenderError, repeated
from tod_bias.recommenders.lmrec.venue import VENUES

_NO_MODEL = "no trained LMRec can be read; give a folder that tod-bias recommend train wrote"
"""Message for a missing model."""


class ReviewOptions(Options):
    """Reviews to read."""

    title = "Data"

    reviews: tuple[str, ...] = ("sample",)
    """[CITY=]FILE, a city's review CSV; CITY=FOLDER, that city of Yelp's dataset (business.json, review.json); or
    sample, the bundled sample; may be repeated."""
    min_reviews: Positive = 100
    """Leave out venues with fewer reviews."""
    missing: Annotated[Literal["keep", "drop"], ADVANCED] = "keep"
    """Venues without price or categories: keep or drop."""
    category: Annotated[str, ADVANCED] = "Restaurants"
    """Category of venues to read from Yelp's dataset, which lists every kind of business; any for all."""


class TemplateOptions(Options):
    """Words of templates and masks."""

    title = "Data"

    templates: Annotated[Path | None, ADVANCED] = None
    """Folder with your own templates.tsv, names.tsv, …"""


class NeutraliseOptions(Options):
    """What models read."""

    title = "System"

    neutralise: bool = False
    """Mask names, places and gendered relations in what a model reads."""


class TopOptions(Options):
    """How much of a list counts."""

    title = "Data"

    top: Positive | None = None
    """Ranks that count; by default all of a file, 20 of a model."""


class LevelOptions(BootstrapOptions, Seeded):
    """How intervals are estimated."""

    title = "Statistics"

    level: Annotated[Annotated[float, Field(ge=0.5, le=0.999)], ADVANCED] = 0.90
    """Level of the intervals."""


def check_models(*folders: Path) -> None:
    """See to it that folders look like trained LMRecs, before what loads them is loaded.

    Raises:
        TodBiasError: one does not.
    """
    check_files(*folders, otherwise=_NO_MODEL)
    for folder in folders:
        if not (folder / VENUES).is_file():
            raise RecommenderError(f"{folder}: {_NO_MODEL} (it has no {VENUES})")


def read_reviews(options: ReviewOptions) -> list[Any]:
    """Reviews of every city that the options name.

    Raises:
        TodBiasError: a city or a file is given twice, or one is not there.
    """
    named = [(text.partition("=")[0], text.partition("=")[2] or text) for text in options.reviews]
    if doubled := repeated(file for _, file in named if not Path(file).is_dir()):
        raise RecommenderError(f"--reviews {doubled}: is given twice, and a city is one only once")
    check_files(*(file for _, file in named if file != "sample"))
    from tod_bias.recommenders.lmrec import reviews as reading
    from tod_bias.recommenders.lmrec.sample import CITY, sample

    how: dict[str, Any] = {"fewest": options.min_reviews, "missing": options.missing}
    every = []
    for name, file in named:
        city = name if name != file else Path(file).stem
        if file == "sample":
            every.append(reading.Reviews(sample(), city=CITY, **how))
        elif Path(file).is_dir():
            category = None if options.category == "any" else options.category
            every.append(reading.Reviews(reading.read_yelp(file, city), city=city, category=category, **how))
        else:
            every.append(reading.Reviews(reading.read_csv(file), city=city, **how))
    return every


def pair(option: str, text: str) -> tuple[str, str]:
    """The two sides of ``NAME=VALUE``.

    Raises:
        RecommenderError: one is missing.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise RecommenderError(f"{option} {text}: expected NAME=VALUE")
    return name, value


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return names and values of comma-separated pairs.

    Raises:
        RecommenderError: a name is repeated.
    """
    result = [pair(option, part) for text in texts for part in text.split(",") if part.strip()]
    if doubled := repeated(name for name, _ in result):
        raise RecommenderError(f"{option}: {doubled!r} is named twice; expected one meaning")
    return dict(result)
