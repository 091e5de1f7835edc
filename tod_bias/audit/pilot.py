"""From a finished run: the smallest disparity that it could have shown, and how many dialogues show a given one."""

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
    """What one axis and metric of a run can show."""

    axis: str
    metric: str
    dialogues: int
    words: float
    """Effective words."""
    detectable: float | None
    """The minimum detectable disparity of the run, at 80% power."""
    needed: float | None
    """Dialogues that show the wanted disparity; infinity: none do with these words."""
    why: str = ""
    """Why one of them is not told, where that is not for want of words."""


def power(result: AuditResult, wanted: float | None = None) -> list[Power]:
    """What a run's axes and metrics can show.

    What dialogues of one word have in common does not average out with more dialogues of the same words: the standard
    error over words, less that over dialogues, stays.

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
    dialogues, words = row.dialogues or 0, row.effective_terms or 0.0
    needed = _needed(row, wanted, dialogues, tests)
    is_unknown = row.mde is None or (wanted is not None and needed is None)
    why = _why(row) if is_unknown and words >= ENOUGH_WORDS else ""
    return Power(row.axis, row.metric.name, dialogues, words, row.mde, needed, why)


def _why(row: AxisResult) -> str:
    if 0 in (row.mde_se, row.mde_se_terms_only):
        return "no counterfactual differs from another, so nothing spreads"
    if row.disparity.terms_only is None or row.disparity.terms_only.ci is None:
        return "the run has no resamples of dialogues (--bootstrap 0)"
    return "no interval tells how far the dialogues spread"


def _needed(row: AxisResult, wanted: float | None, dialogues: int, tests: int) -> float | None:
    whole, these = row.mde_se, row.mde_se_terms_only
    if wanted is None or not whole or not these or row.mde is None or row.disparity.ci is None:
        return None
    fixed = math.sqrt(max(0.0, whole**2 - these**2))
    return units_needed(wanted, dialogues, these, fixed, (1 - LEVEL) / tests)


def to_json(rows: Sequence[Power], wanted: float | None) -> dict[str, Any]:
    """For a file; ``"more words"`` where no number of dialogues is enough."""
    records = [row._asdict() for row in rows]
    for record in records:
        if record["needed"] is not None and math.isinf(record["needed"]):
            record["needed"] = "more words"
    return {"schema": 1, "detect": wanted, "power": POWER, "axes": records}


def table(rows: Sequence[Power], wanted: float | None) -> Table:
    """For the terminal."""
    title = "What the run could show (80% power, after adjustment for all axes and metrics)"
    if any(row.words < ENOUGH_WORDS for row in rows):
        title += f"\n* fewer than {ENOUGH_WORDS} effective words: whatever is found is of these words only"
    for why in dict.fromkeys(row.why for row in rows if row.why):
        title += f"\n– {why}"
    view = new_table(title)
    for column in ("axis", "metric", "dialogues", "effective words", "smallest disparity"):
        view.add_column(column, justify="left" if column in ("axis", "metric") else "right")
    if wanted is not None:
        view.add_column(f"dialogues for {wanted:g}", justify="right")
    for row in rows:
        few = "*" if row.words < ENOUGH_WORDS else ""
        shown = "–" if row.detectable is None else f"{row.detectable:.3f}"
        cells = [row.axis, row.metric, f"{row.dialogues:,}", f"{row.words:.1f}{few}", shown]
        if wanted is not None:
            if row.needed is None:
                cells.append("–")
            else:
                cells.append("none: more words" if math.isinf(row.needed) else f"{row.needed:,.0f}")
        view.add_row(*cells)
    return view
