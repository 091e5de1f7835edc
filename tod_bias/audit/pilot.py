"""From a finished run: the smallest gap that it could find, and the dialogues and terms that a given one takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.table import Table

from tod_bias.errors import TodBiasError
from tod_bias.report.sheets import new_table
from tod_bias.results import AuditResult, AxisResult
from tod_bias.statistics.needed import ENOUGH_TERMS
from tod_bias.statistics.power import POWER


class Power(NamedTuple):
    """The statistical power of one axis and metric of a run."""

    axis: str
    metric: str
    dialogues: int
    effective_terms: float
    detectable: float | None
    """The smallest difference between one group and all others that the run could have found, at 80% power."""
    dialogues_needed: float | None
    """Dialogues that the wanted difference takes with the same terms; infinity where no number is enough."""
    in_proportion: tuple[float, float] | None
    """Dialogues, and effective terms per group, that it takes if both grow in proportion."""
    why: str = ""
    """Why one of them is unknown."""


def power(result: AuditResult, wanted: float | None = None) -> list[Power]:
    """The statistical power of a run's axes and metrics.

    What the dialogues of one term have in common does not average out with more dialogues of the same terms: it falls
    with the number of terms alone.

    Args:
        result: of the run.
        wanted: the difference between one group and all others to be found, on the scale of the metric's gaps.

    Raises:
        TodBiasError: ``wanted`` is not above 0.
    """
    if wanted is not None and not wanted > 0:
        raise TodBiasError(f"the gap to be detected must be above 0, got {wanted!r}")
    return [_power_of(row, wanted) for row in result.rows if not row.is_placebo]


def _power_of(row: AxisResult, wanted: float | None) -> Power:
    dialogues, terms = row.dialogues or 0, row.effective_terms or 0.0
    same, both = None, None
    if wanted is not None and row.mde and row.mde_se and row.mde_se_terms_only is not None:
        allowed = wanted * row.mde_se / row.mde
        of_terms = max(0.0, row.mde_se**2 - row.mde_se_terms_only**2)
        room = allowed**2 - of_terms
        same = math.inf if room <= 0 else math.ceil(dialogues * row.mde_se_terms_only**2 / room)
        factor = (row.mde / wanted) ** 2
        both = math.ceil(dialogues * factor), terms * factor
    return Power(row.axis, row.metric.name, dialogues, terms, row.mde, same, both, _why(row))


def _why(row: AxisResult) -> str:
    if row.mde is not None:
        return ""
    if row.effective_terms is None or row.effective_terms < ENOUGH_TERMS:
        return f"a claim takes {ENOUGH_TERMS} effective terms per group"
    return "few dialogues differ between groups, so nothing is known of how much they vary"


def to_json(rows: Sequence[Power], wanted: float | None) -> dict[str, Any]:
    """For a file; ``dialogues_needed`` is ``"more terms"`` where no number of dialogues is enough."""
    records = [row._asdict() for row in rows]
    for record in records:
        if record["dialogues_needed"] is not None and math.isinf(record["dialogues_needed"]):
            record["dialogues_needed"] = "more terms"
    return {"schema": 2, "detect": wanted, "power": POWER, "axes": records}


def table(rows: Sequence[Power], wanted: float | None) -> Table:
    """For the terminal."""
    title = "The smallest gap between one group and all others that the run could find\n(80% power, over all it claims)"
    for why in dict.fromkeys(row.why for row in rows if row.why):
        title += f"\n– {why}"
    view = new_table(title)
    for column in ("axis", "metric", "dialogues", "terms per\ngroup", "smallest\ngap"):
        view.add_column(column, justify="left" if column in ("axis", "metric") else "right", overflow="fold")
    if wanted is not None:
        view.add_column(f"dialogues for {wanted:g}\nwith these terms", justify="right")
        view.add_column("or dialogues\nand terms", justify="right")
    for row in rows:
        shown = "–" if row.detectable is None else f"{row.detectable:.3f}"
        cells = [row.axis, row.metric, f"{row.dialogues:,}", f"{row.effective_terms:.1f}", shown]
        if wanted is not None:
            needed, both = row.dialogues_needed, row.in_proportion
            cells.append("–" if needed is None else "more terms" if math.isinf(needed) else f"{needed:,.0f}")
            cells.append("–" if both is None else f"{both[0]:,.0f} and {both[1]:.0f}")
        view.add_row(*cells)
    return view
