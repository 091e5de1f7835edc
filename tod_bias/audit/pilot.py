"""From a finished run: the smallest disparity that it could have found, and the dialogues that a given one takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.table import Table

from tod_bias.errors import TodBiasError
from tod_bias.report.sheets import new_table
from tod_bias.results import AuditResult, AxisResult
from tod_bias.statistics.intervals import LEVEL
from tod_bias.statistics.needed import ENOUGH_WORDS
from tod_bias.statistics.power import POWER, units_needed


class Power(NamedTuple):
    """The statistical power of one axis and metric of a run."""

    axis: str
    metric: str
    dialogues: int
    effective_terms: float
    detectable: float | None
    """The minimum detectable disparity of the run, at 80% power."""
    needed: float | None
    """Dialogues that the wanted disparity takes; infinity where no number is enough with these terms."""
    why: str = ""
    """Why one of the two is unknown, other than for too few terms."""


def power(result: AuditResult, wanted: float | None = None) -> list[Power]:
    """The statistical power of a run's axes and metrics.

    What the dialogues of one term have in common does not average out with more dialogues of the same terms: the
    standard error over terms, less that over dialogues, stays.

    Args:
        result: of the run.
        wanted: the disparity to be found, on the metric's scale.

    Raises:
        TodBiasError: ``wanted`` is not above 0.
    """
    if wanted is not None and not wanted > 0:
        raise TodBiasError(f"the disparity to be detected must be above 0, got {wanted!r}")
    rows = [row for row in result.rows if not row.is_placebo]
    return [_power_of(row, wanted, max(1, len(rows))) for row in rows]


def _power_of(row: AxisResult, wanted: float | None, tests: int) -> Power:
    dialogues, terms = row.dialogues or 0, row.effective_terms or 0.0
    needed = _needed(row, wanted, dialogues, tests)
    is_unknown = row.mde is None or (wanted is not None and needed is None)
    why = _why(row) if is_unknown and terms >= ENOUGH_WORDS else ""
    return Power(row.axis, row.metric.name, dialogues, terms, row.mde, needed, why)


def _why(row: AxisResult) -> str:
    if 0 in (row.mde_se, row.mde_se_terms_only):
        return "no counterfactual differs from another, so nothing varies"
    if row.disparity.terms_only is None or row.disparity.terms_only.ci is None:
        return "the run has no resamples of dialogues (--bootstrap 0)"
    return "no interval shows how much the dialogues vary"


def _needed(row: AxisResult, wanted: float | None, dialogues: int, tests: int) -> float | None:
    whole, terms_only = row.mde_se, row.mde_se_terms_only
    if wanted is None or not whole or not terms_only or row.mde is None or row.disparity.ci is None:
        return None
    fixed = math.sqrt(max(0.0, whole**2 - terms_only**2))
    return units_needed(wanted, dialogues, terms_only, fixed, (1 - LEVEL) / tests)


def to_json(rows: Sequence[Power], wanted: float | None) -> dict[str, Any]:
    """For a file; ``needed`` is ``"more terms"`` where no number of dialogues is enough."""
    records = [row._asdict() for row in rows]
    for record in records:
        if record["needed"] is not None and math.isinf(record["needed"]):
            record["needed"] = "more terms"
    return {"schema": 1, "detect": wanted, "power": POWER, "axes": records}


def table(rows: Sequence[Power], wanted: float | None) -> Table:
    """For the terminal."""
    title = "What the run could find (80% power, after adjustment for all axes and metrics)"
    if any(row.effective_terms < ENOUGH_WORDS for row in rows):
        title += f"\n* fewer than {ENOUGH_WORDS} effective terms: a difference is one of these terms only"
    for why in dict.fromkeys(row.why for row in rows if row.why):
        title += f"\n– {why}"
    view = new_table(title)
    for column in ("axis", "metric", "dialogues", "effective terms", "smallest disparity"):
        view.add_column(column, justify="left" if column in ("axis", "metric") else "right")
    if wanted is not None:
        view.add_column(f"dialogues for {wanted:g}", justify="right")
    for row in rows:
        few = "*" if row.effective_terms < ENOUGH_WORDS else ""
        shown = "–" if row.detectable is None else f"{row.detectable:.3f}"
        cells = [row.axis, row.metric, f"{row.dialogues:,}", f"{row.effective_terms:.1f}{few}", shown]
        if wanted is not None:
            if row.needed is None:
                cells.append("–")
            else:
                cells.append("none: more terms" if math.isinf(row.needed) else f"{row.needed:,.0f}")
        view.add_row(*cells)
    return view
