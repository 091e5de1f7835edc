"""Notation of numbers and gaps, the same in the terminal, the figures and the report.

Scores, gaps and contributions have three decimals, intervals are in brackets, and a
p-value below 0.001 is ``p<0.001``. An undefined number is ``n/a``. A gap is written with its side and its marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tod_bias.results import THESE_TERMS, AxisResult, Estimate, Group

NOT_AVAILABLE = "n/a"
FEW = 15
"""Dialogues below which bootstrap intervals of Su's numbers are too narrow (in simulations those of 10 cover 87%)."""
DAGGER = "†"
FEW_NOTE = f"fewer than {FEW} dialogues: the intervals of Su's numbers are too narrow"
DOSE = 0.75
"""Share of an axis's changed words that a matched placebo changes at least."""
NO_CLAIM = "-"


def fixed(value: float | None, decimals: int = 3, *, sign: bool = False) -> str:
    """A number with a fixed count of decimals; with ``sign``, a plus before positive ones. Never ``-0.000``."""
    if value is None:
        return NOT_AVAILABLE
    rounded = round(value, decimals) + 0.0  # -0.0 + 0.0 is 0.0
    return f"{rounded:+.{decimals}f}" if sign and rounded else f"{rounded:.{decimals}f}"


TERMS_ONLY = "‡"
"""Mark of an interval for these terms only: they are too few to be treated as a sample."""


def interval(estimate: Estimate, *, sign: bool = False) -> str:
    """Return the 95% interval in brackets, marked if it holds for these terms only; ``""`` without an interval."""
    bounds = estimate.ci
    if bounds is None:
        return ""
    mark = TERMS_ONLY if estimate.is_of_terms_only else ""
    return f"[{fixed(bounds[0], sign=sign)}, {fixed(bounds[1], sign=sign)}]{mark}"


def with_interval(estimate: Estimate, *, sign: bool = False, separator: str = " ") -> str:
    """A value and its interval."""
    return separator.join(filter(None, (fixed(estimate.value, sign=sign), interval(estimate, sign=sign))))


def p_cell(p_value: float | None) -> str:
    """Return a p-value for a column of p-values: ``<0.001`` or ``0.012``."""
    if p_value is None:
        return NOT_AVAILABLE
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def p_text(p_value: float | None) -> str:
    """A p-value in a sentence: ``p<0.001``, ``p=0.012`` or ``no p-value``."""
    if p_value is None:
        return "no p-value"
    cell = p_cell(p_value)
    return f"p{cell}" if cell.startswith("<") else f"p={cell}"


REFERENCES = {"neutral": "as the corpus has it", "neutral-introduction": "a neutral introduction"}
"""Reference variants by name, in words."""


def reference(name: str) -> str:
    """A reference variant in words."""
    return REFERENCES.get(name, name)


def percent(share: float | None) -> str:
    """A share of 1 as a percentage: one decimal below 10%, none above."""
    if share is None:
        return NOT_AVAILABLE
    decimals = 1 if abs(share) < 0.0995 else 0
    return f"{fixed(100 * share, decimals)}%"


def count(number: Any) -> str:
    """A count with separated thousands; anything else that a damaged record holds, as text."""
    if number is None:
        return NOT_AVAILABLE
    return f"{number:,.0f}" if isinstance(number, int | float) else str(number)[:40]


def mark(axis_result: AxisResult) -> str:
    """Return a dagger if Su's numbers have few dialogues."""
    return DAGGER if axis_result.su is not None and (axis_result.dialogues or FEW) < FEW else ""


def side(better: str, *, positive: bool = True, counterfactual: bool = False) -> str:
    """Return the meaning of a gap's side: ``served worse``, or ``lower`` for a metric without a better side.

    Args:
        better: side of better scores: ``higher``, ``lower`` or ``neither``.
        positive: the side.
        counterfactual: True if the metric compares with the original and so counts differences of outputs.
    """
    if counterfactual:
        return f"treated differently {'more' if positive else 'less'} often"
    if better == "neither":
        return "lower" if positive else "higher"
    return "served worse" if positive else "served better"


def side_of(axis_result: AxisResult, gap: Estimate) -> str:
    """Return the meaning of a gap by its metric."""
    metric = axis_result.metric
    return side(metric.better, positive=(gap.value or 0) > 0, counterfactual=metric.counterfactual)


def sides(better: str, *, counterfactual: bool = False) -> tuple[str, str]:
    """Return the meanings of gaps above and below 0 (:func:`side`)."""
    return side(better, counterfactual=counterfactual), side(better, positive=False, counterfactual=counterfactual)


def short(term: str) -> str:
    """A cluster of terms by its first two: "husband/wife …"."""
    parts = term.split("/")
    return term if len(parts) <= 2 else "/".join(parts[:2]) + " …"


def shown_gap(axis_result: AxisResult, group: Group) -> Estimate:
    """The gap of a group that its row shows: the one that is claimed, or else the simultaneous one."""
    return axis_result.claims.get(group.name, group.gap) if group.name in axis_result.groups else group.gap


def claim_of(axis_result: AxisResult, group: Group) -> str:
    """Return the claim about a group, or about a reference variant."""
    if group.name in axis_result.references:
        is_claim = axis_result.reference_is_claimed(group.name)
        return _side_in_short(axis_result, group.gap) if is_claim else NO_CLAIM
    gap = axis_result.claims.get(group.name)
    if gap is None:
        return NO_CLAIM
    how = _side_in_short(axis_result, gap)
    return f"these terms: {how.removeprefix('served ')}" if axis_result.verdict == THESE_TERMS else how


def _side_in_short(axis_result: AxisResult, gap: Estimate) -> str:
    """Return the meaning of a gap, for a cell: ``served worse``, ``differs more``."""
    if axis_result.metric.counterfactual:
        return f"differs {'more' if (gap.value or 0) > 0 else 'less'}"
    return side_of(axis_result, gap)


def is_matched(axis_result: AxisResult) -> bool:
    """True if the placebo changes about as many words as the axis, at least :data:`DOSE` of them."""
    edits: Mapping[str, float | None] = {} if axis_result.beyond_placebo is None else axis_result.beyond_placebo.edits
    changed, by_placebo = (edits.get(name) for name in ("axis", "placebo"))
    return not changed or by_placebo is None or by_placebo >= DOSE * changed
