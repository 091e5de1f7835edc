"""The report of an audit that is in its folder: made again from its files, and nothing is computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tod_bias.documents import check_plain, read_json
from tod_bias.errors import RecommenderError, shortened
from tod_bias.files import own_folder
from tod_bias.folder import writable
from tod_bias.recommenders.lmrec.audit import TABLES, Audit
from tod_bias.recommenders.lmrec.page import write_report
from tod_bias.recommenders.lmrec.recommendations import Recommendations
from tod_bias.report.page import FIGURES
from tod_bias.statistics.settings import Inference

if TYPE_CHECKING:
    import pandas as pd

RECORD = "audit.json"
"""What tells the folder of an audit."""
_TEXTS = ("city", "dimension", "label", "other", "category", "substitution", "word", "kind", "permuted")


@dataclass(frozen=True)
class _Dimensions:
    """What figures ask of the recommendations, as the record has it."""

    own: Mapping[str, Any]

    @property
    def all_dimensions(self) -> tuple[str, ...]:
        return tuple(self.own)

    def labels(self, dimension: str) -> list[str]:
        return list(self.own[dimension])


def report_again(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write ``report.html`` and ``figures/*.svg`` of an audit from its ``audit.json`` and CSV files.

    Args:
        folder: what :meth:`~tod_bias.recommenders.lmrec.audit.Audit.save` wrote.
        out: folder for the page; the audit's own if left out.

    Raises:
        RecommenderError: a file is not there, or is not what an audit writes.
    """
    folder = Path(folder)
    try:
        audit = _read(folder)
        drawn = audit.figures()
        place = writable(folder if out is None else out)
        own_folder(place, FIGURES)
        return write_report(
            place, drawn, audit.record, audit.inference.level, audit.price_percentage, audit.association,
            audit.average_price, audit.price_by_label, audit.places,
        )  # fmt: skip
    except (OSError, json.JSONDecodeError) as error:
        raise RecommenderError(f"{folder}: cannot be read ({shortened(str(error), 200)}); repeat the audit") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        reason = shortened(f"{type(error).__name__}: {error}", 200)
        raise RecommenderError(f"{folder}: not what recommend audit writes ({reason}); repeat it") from error


def _read(folder: Path) -> Audit:
    record = read_json(folder / RECORD)
    tables = {name: _table(folder / f"{name}.csv") for name in TABLES}
    dimensions = cast(Recommendations, _Dimensions(dict(record["dimensions"])))
    return Audit(dimensions, Inference(**record["inference"]), **tables, places=dict(record["places"]), record=record)


def _table(path: Path) -> pd.DataFrame:
    import pandas as pd

    check_plain(path)
    texts = dict.fromkeys(_TEXTS, str)  # "NA" and "007" are names
    return pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=[""])
