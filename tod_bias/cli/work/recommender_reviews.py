"""Reviews that options name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tod_bias.cli.recommender_options import ReviewOptions, check_reviews
from tod_bias.recommenders.lmrec.reviews import Reviews, read_csv, read_yelp
from tod_bias.recommenders.lmrec.sample import CITY, sample


def read_reviews(options: ReviewOptions) -> list[Reviews]:
    """Return the reviews of every city that the options name.

    Raises:
        TodBiasError: a city or a file is given twice, or one cannot be read.
    """
    named = check_reviews(options)
    how: dict[str, Any] = {"fewest": options.min_reviews, "missing": options.missing}
    every = []
    for name, file in named:
        city = name if name != file else Path(file).stem
        if file == "sample":
            every.append(Reviews(sample(), city=CITY, **how))
        elif Path(file).is_dir():
            category = None if options.category == "any" else options.category
            every.append(Reviews(read_yelp(file, city), city=city, category=category, **how))
        else:
            every.append(Reviews(read_csv(file), city=city, **how))
    return every
