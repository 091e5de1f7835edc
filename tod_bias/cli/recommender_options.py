"""Options and checks that the commands for recommenders share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tod_bias.cli.checks import check_files
from tod_bias.config import ADVANCED, IN_FILE, BootstrapOptions, InferenceOptions, Options, Positive, Seeded
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
    missing: Annotated[Literal["keep", "drop"], IN_FILE] = "keep"
    """Venues without price or categories: keep or drop."""
    category: Annotated[str, IN_FILE] = "Restaurants"
    """Category of venues to read from Yelp's dataset, which lists every kind of business; any for all."""


class TemplateOptions(Options):
    """Words of templates and masks."""

    title = "Data"

    templates: Annotated[Path | None, ADVANCED] = None
    """Folder with your own templates.tsv, names.tsv, …"""


class NeutraliseOptions(Options):
    """Neutralisation of the texts that models read."""

    title = "System"

    neutralise: bool = False
    """Mask names, places and gendered relations in what a model reads."""


class TopOptions(Options):
    """Number of entries of a list that count."""

    title = "Data"

    top: Positive | None = None
    """Ranks that count; by default all of a file, 20 of a model."""


class LevelOptions(BootstrapOptions, Seeded):
    """Options of intervals."""

    title = "Statistics"

    level: Annotated[Annotated[float, Field(ge=0.5, le=0.999)], IN_FILE] = 0.90
    """Level of the intervals."""


class AuditInference(InferenceOptions, LevelOptions):
    """Options of intervals and p-values."""

    title = "Statistics"


def check_models(*folders: Path) -> None:
    """Raise if folders are no trained LMRecs, before the libraries that read them are loaded.

    Raises:
        TodBiasError: one does not.
    """
    check_files(*folders, otherwise=_NO_MODEL)
    for folder in folders:
        if not (folder / VENUES).is_file():
            raise RecommenderError(f"{folder}: {_NO_MODEL} (it has no {VENUES})")


def check_reviews(options: ReviewOptions) -> list[tuple[str, str]]:
    """Return the city and the file of each reviews; the city is empty where it has the name of the file.

    Raises:
        TodBiasError: a file is given twice, or is not there.
    """
    named = [(text.partition("=")[0], text.partition("=")[2] or text) for text in options.reviews]
    if doubled := repeated(file for _, file in named if not Path(file).is_dir()):
        raise RecommenderError(f"--reviews {doubled}: is given twice, and a city is one only once")
    check_files(*(file for _, file in named if file != "sample"))
    return named
