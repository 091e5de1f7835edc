"""How numbers are written, the same in the terminal, the figures and the report.

Scores, gaps and contributions have three decimals, intervals are in brackets, and a
p-value below 0.001 is ``p<0.001``. What is undefined is ``n/a``.
"""

from __future__ import annotations

from typing import Any

from tod_bias.results import Estimate

MISSING = "n/a"


def fixed(value: float | None, decimals: int = 3, *, sign: bool = False) -> str:
    """A number with a fixed count of decimals; with ``sign``, a plus before positive ones. Never ``-0.000``."""
    if value is None:
        return MISSING
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
        return MISSING
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
        return MISSING
    decimals = 1 if abs(share) < 0.0995 else 0
    return f"{fixed(100 * share, decimals)}%"


def count(number: Any) -> str:
    """A count with separated thousands; anything else that a damaged record holds, as text."""
    if number is None:
        return MISSING
    return f"{number:,.0f}" if isinstance(number, int | float) else str(number)[:40]
