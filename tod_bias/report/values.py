"""Reading ``results.json``: single values and estimates, with the place of whatever is not as the contract says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tod_bias.errors import shortened
from tod_bias.report.record import RunError

_LARGEST = 1e100
"""Figures are drawn of what is smaller."""


@dataclass(frozen=True)
class Estimate:
    """A number with its intervals and p-values."""

    value: float | None = None
    """``None`` where it is undefined or was not computed."""
    low: float | None = None
    """Lower end of the 95% interval, words as a sample."""
    high: float | None = None
    """Upper end of the same."""
    p_value: float | None = None
    """As it came from the test."""
    p_holm: float | None = None
    """Adjusted for all that is claimed."""
    p_these_words: float | None = None
    """The same with words as they are."""
    these_low: float | None = None
    """Lower end of the 95% interval with words as they are."""
    these_high: float | None = None
    """Upper end of the same."""

    @property
    def p(self) -> float | None:
        """The adjusted p-value where there is one, else the plain one."""
        return self.p_value if self.p_holm is None else self.p_holm

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The interval; where words are too few for one, that of these words; ``None`` without either."""
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if self.these_low is not None and self.these_high is not None:
            return self.these_low, self.these_high
        return None

    @classmethod
    def read(cls, record: Any, where: str) -> Estimate:
        """Read ``{"value", "ci", "ci_these_words", "p_value", "p_holm", "p_these_words"}``, a number, or nothing.

        Raises:
            RunError: something else stands there; ``where`` names the place.
        """
        if not isinstance(record, Mapping):
            return cls(real(record, where))
        low, high = pair_of(record.get("ci"), f"{where}.ci")
        these_low, these_high = pair_of(record.get("ci_these_words"), f"{where}.ci_these_words")
        names = ("value", "p_value", "p_holm", "p_these_words")
        value, p_value, p_holm, p_these = (real(record.get(name), f"{where}.{name}") for name in names)
        return cls(value, low, high, p_value, p_holm, p_these, these_low, these_high)


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """A JSON object; nothing is an empty one.

    Raises:
        RunError: something else stands at ``where``.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RunError(f"results.json, {where}: expected an object, got {value!r:.40}")
    return value


def sequence(value: Any, where: str) -> Sequence[Any]:
    """A JSON list; nothing is an empty one. Raises RunError for anything else."""
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise RunError(f"results.json, {where}: expected a list, got {value!r:.40}")
    return value


def pair_of(value: Any, where: str) -> tuple[float | None, float | None]:
    """The ends of an interval; nothing is none. Raises RunError for anything else."""
    if value is None:
        return None, None
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise RunError(f"results.json, {where}: expected [low, high], got {value!r:.40}")
    return real(value[0], where), real(value[1], where)


def real(value: Any, where: str) -> float | None:
    """A finite number; None for nothing, or one that is not finite. Raises RunError for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RunError(f"results.json, {where}: expected a number, got {value!r:.40}")
    if math.inf > abs(value) > _LARGEST:
        raise RunError(f"results.json, {where}: expected a number that can be drawn, got {shortened(repr(value), 40)}")
    return float(value) if math.isfinite(value) else None


def whole(value: Any, where: str) -> int | None:
    """A whole number; None for nothing. Raises RunError for anything else."""
    found = real(value, where)
    return None if found is None else int(found)
