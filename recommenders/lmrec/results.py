"""Tables of an audit of recommendations, and the folder of its results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tod_bias.errors import RecommenderError, shortened
from tod_bias.io.documents import check_plain, read_json
from tod_bias.report.sheets import Statement

TABLES = (
    *("price_percentage", "price_by_label", "association", "average_price", "price_differences", "top_words"),
    *("similarity", "similarity_ranges"),
)
"""The CSV files of an audit, by name without ending."""
RECORD = "audit.json"
"""File that identifies the folder of an audit."""
_TEXTS = (
    "city",
    "dimension",
    "label",
    "other",
    "category",
    "substitution",
    "word",
    "kind",
    "permuted",
    "largest_word",
    "family",
)


@dataclass(frozen=True)
class Audit:
    """The tables of one audit and its record."""

    price_percentage: pd.DataFrame
    price_by_label: pd.DataFrame
    association: pd.DataFrame
    average_price: pd.DataFrame
    price_differences: pd.DataFrame
    top_words: pd.DataFrame
    similarity: pd.DataFrame
    similarity_ranges: pd.DataFrame
    record: dict[str, Any]
    """The content of ``audit.json``."""

    @property
    def level(self) -> float:
        """Confidence level of the intervals."""
        return float(self.record["inference"]["level"])

    @property
    def statements(self) -> list[Statement]:
        """The findings of ``audit.json``, differences first."""
        return [Statement(**statement) for statement in self.record["findings"]]

    @property
    def places(self) -> Mapping[str, Sequence[str]]:
        """Kind to substitutions that are places: the rank chart."""
        return dict(self.record["places"])

    @classmethod
    def read(cls, folder: Path) -> Audit:
        """An audit from its folder.

        Raises:
            RecommenderError: a file is not there, or is not what an audit writes.
        """
        with readable(folder):
            return cls(
                **{name: _table(folder / f"{name}.csv") for name in TABLES}, record=dict(read_json(folder / RECORD))
            )


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Raises RecommenderError for what a damaged file of an audit leads to."""
    try:
        yield
    except (OSError, json.JSONDecodeError) as error:
        raise RecommenderError(f"{folder}: cannot be read ({shortened(str(error), 200)}); repeat the audit") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        reason = shortened(f"{type(error).__name__}: {error}", 200)
        raise RecommenderError(f"{folder}: not what recommend audit writes ({reason}); repeat it") from error


def _table(path: Path) -> pd.DataFrame:
    check_plain(path)
    texts = dict.fromkeys(_TEXTS, str)  # "NA" and "007" are names
    return pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=[""])
