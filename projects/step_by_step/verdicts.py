"""Verdicts on a paper's claims from finished runs: a claim holds, does not hold, or cannot be told here.

A claim that |a| exceeds |b| is tested on a - b and a + b, which have the same sign if and only if it is true (a test
for qualitative interactions, Gail and Simon 1985). The absolute value of an estimate is never taken, because noise
makes it larger. A claim about "most cases" is tested as a partial conjunction (Benjamini and Heller 2008), which is
valid for dependent cases.

Standard errors come from the runs' intervals. If a run has too few words for an interval over words, the verdict holds
for these words only, and more dialogues do not change that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.distributions import normal_quantile, normal_share, normal_tail, t_tail
from tod_bias.statistics.power import POWER

HOLDS, DOES_NOT, UNTOLD = "holds", "does not", "cannot be told here"
LEVEL = 0.05
MOST_DIALOGUES = 1e9
NO_RUN, NEW_RUN = "no run is about this", "runs of these models"


@dataclass(frozen=True)
class Number:
    """An estimate with its standard error."""

    value: float
    error: float
    dialogues: int
    of_these_words: bool
    """True if there are too few words for an error over words."""
    freedom: float = math.inf
    """Degrees of freedom of the error."""

    def error_of(self, dialogues: float) -> float:
        """Return the error with this many dialogues."""
        return self.error * math.sqrt(self.dialogues / dialogues)


class Contrast(Protocol):
    """Something that is above 0 in a case, or is not."""

    @property
    def number(self) -> Number:
        """The estimate, to be shown."""

    def above(self) -> float:
        """The p-value of its not being above 0, both signs of an estimate looked at."""

    def not_above(self, margin: float) -> float:
        """The p-value of its being the margin or more."""

    def power(self, margin: float, level: float, dialogues: float) -> float:
        """Return the probability of a significant result with this many dialogues, if the number is the margin."""


@dataclass(frozen=True)
class Above:
    """A number that should be above 0."""

    number: Number

    def above(self) -> float:
        return min(1.0, 2 * _tail(self.number, 0.0))

    def not_above(self, margin: float) -> float:
        return _head(self.number, margin)

    def power(self, margin: float, level: float, dialogues: float) -> float:
        return _power(self.number, margin, level, dialogues)


@dataclass(frozen=True)
class Larger:
    """Test if one number is larger than another in size, by their difference and their sum."""

    difference: Number
    total: Number

    @property
    def number(self) -> Number:
        """|a| - |b|, which is the smaller of difference and sum in size."""
        smaller = min(self.difference, self.total, key=lambda one: abs(one.value))
        same = self.difference.value * self.total.value > 0
        return Number(
            abs(smaller.value) if same else -abs(smaller.value), smaller.error,
            min(one.dialogues for one in self._both), any(one.of_these_words for one in self._both),
            min(one.freedom for one in self._both),
        )  # fmt: skip

    def above(self) -> float:
        """Return the p-value over the two quadrants, each an intersection-union test (Berger 1982)."""
        return min(1.0, 2 * min(max(_tail(one, 0.0, sign) for one in self._both) for sign in (1, -1)))

    def not_above(self, margin: float) -> float:
        """Return the p-value against both quadrants: each by either coordinate, adjusted for the two."""
        return max(min(1.0, 2 * min(_head(one, margin, sign) for one in self._both)) for sign in (1, -1))

    def power(self, margin: float, level: float, dialogues: float) -> float:
        return math.prod(_power(one, margin, level, dialogues) for one in self._both)

    @property
    def _both(self) -> tuple[Number, Number]:
        return self.difference, self.total


def apart(one: Number, other: Number, *, difference: float | None = None, total: float | None = None) -> Larger:
    """Test if the first number is larger than the other in size.

    Args:
        difference: the standard error of their difference, if known;
        total: that of their sum. If one of the two is known the other follows (parallelogram law: they add in squares
            to twice the squares of both); if neither, both numbers are taken as independent.
    """
    squares = one.error**2 + other.error**2
    independent = difference is None and total is None
    if difference is None:
        difference = math.sqrt(squares if total is None else max(2 * squares - total**2, 0.0))
    if total is None:
        total = math.sqrt(max(2 * squares - difference**2, 0.0))
    dialogues = float(min(one.dialogues, other.dialogues))
    if independent and squares > 0:  # with as many of each as these, the errors would be what they are
        dialogues = (one.error**2 * one.dialogues + other.error**2 * other.dialogues) / squares
    rest = dialogues, one.of_these_words or other.of_these_words, min(one.freedom, other.freedom)
    return Larger(
        Number(one.value - other.value, difference, *rest),
        Number(one.value + other.value, total, *rest),
    )


@dataclass(frozen=True)
class Case:
    """Case in which a claim can show: it holds if each of the contrasts is above 0."""

    name: str
    contrasts: tuple[Contrast, ...]

    @property
    def varies(self) -> bool:
        """True if each contrast varies; a case without variation decides nothing."""
        return all(one.number.error > 0 for one in self.contrasts)

    @property
    def leans(self) -> bool:
        """True if the estimate of each contrast is above 0, as claimed."""
        return all(one.number.value > 0 for one in self.contrasts)

    def above(self) -> float:
        """An intersection-union test."""
        return max(one.above() for one in self.contrasts) if self.varies else 1.0

    def not_above(self, margin: float) -> float:
        """One of them is not: Bonferroni's."""
        if not self.varies:
            return 1.0
        return min(1.0, len(self.contrasts) * min(one.not_above(margin) for one in self.contrasts))

    def power(self, margin: float, level: float, dialogues: float) -> float:
        """Return the power if each contrast equals the margin."""
        return math.prod(one.power(margin, level, dialogues) for one in self.contrasts) if self.varies else 0.0


@dataclass(frozen=True)
class Finding:
    """A claim of the paper and what is seen of it here."""

    claim: str
    verdict: str
    seen: str
    """Counts of cases, or why there are none."""
    cases: tuple[Case, ...]
    needed: str = ""
    """What would tell, as "570 dialogues per axis"; empty if the verdict is known. ``‡`` here or in ``seen``: for the
    words of these runs only."""


def mostly(claim: str, cases: Sequence[Case], margin: float, *, usual: Number | None = None) -> Finding:
    """Test if a claim shows in more than half of the cases.

    The claim is refuted if at least half of them are shown to fall short of the margin. If neither is shown, the number
    of dialogues is the one that would decide in four of five studies if the one size were the margin and the other 0 in
    every case, for independent and for identical cases.

    Args:
        usual: the least certain contrast of two disparities, to estimate the effort for a claim without cases.
    """
    if not cases:
        return _without_runs(claim, usual, margin)
    count = len(cases)
    most = count // 2 + 1
    above, short = [one.above() for one in cases], [one.not_above(margin) for one in cases]
    level = LEVEL / (count - most + 1)
    verdict = UNTOLD
    if sorted(above)[most - 1] <= level:
        verdict = HOLDS
    elif sorted(short)[count - most] <= LEVEL / most:
        verdict = DOES_NOT
    seen = f"estimates agree in {sum(one.leans for one in cases)} of {count} {'case' if count == 1 else 'cases'}"
    seen += f"; significant in {sum(rejected(above))}, refuted in {sum(rejected(short))}"

    def power(size: float) -> float:
        each = sorted((one.power(margin, level, size) for one in cases), reverse=True)
        return min(at_least(most, each), each[most - 1])

    return _found(claim, verdict, seen, cases, power)


def equal(claim: str, cases: Sequence[Case], margin: float, *, usual: Number | None = None) -> Finding:
    """Test if all are within the margin of 0 (two one-sided tests each, Schuirmann 1987, and an intersection-union
    test), or one is not 0 (Holm)."""
    if not cases:
        return _without_runs(claim, usual, margin)
    numbers = [contrast.number for case in cases for contrast in case.contrasts]
    if any(one.error == 0 for one in numbers):
        return Finding(claim, UNTOLD, "nothing varies in one of the runs", tuple(cases), "runs in which more varies")
    differs = rejected([2 * _tail(one, 0.0, 1 if one.value > 0 else -1) for one in numbers])
    within = [max(_head(one, margin), _head(one, margin, -1)) <= LEVEL for one in numbers]
    verdict = HOLDS if all(within) else DOES_NOT if any(differs) else UNTOLD
    seen = f"{sum(within)} of {len(numbers)} differences are within the margin; {sum(differs)} are significant"
    z = _quantile(2 * LEVEL)

    def power(size: float) -> float:
        each = (2 * float(normal_share(margin / one.error_of(size) - z)) - 1 for one in numbers)
        return math.prod(max(0.0, one) for one in each)

    return _found(claim, verdict, seen, cases, power)


def some_below(claim: str, cases: Sequence[Case], margin: float) -> Finding:
    """Test if a number is below 0 in a case (Holm), or return how many dialogues the least certain one needs."""
    varied = [one for one in cases if one.varies]
    numbers = [contrast.number for case in varied for contrast in case.contrasts]
    if not numbers:
        return Finding(claim, UNTOLD, NO_RUN, tuple(cases), NEW_RUN)
    below = rejected([_head(one, 0.0) for one in numbers])
    seen = f"{sum(one.value < 0 for one in numbers)} of {len(numbers)} parts are below 0; {sum(below)} are significant"
    told = [one for one, is_below in zip(varied, below, strict=True) if is_below]
    z = _quantile(2 * LEVEL / len(numbers))

    def power(size: float) -> float:
        return min(float(normal_tail(z - margin / one.error_of(size))) for one in numbers)

    found = _found(claim, HOLDS if told else UNTOLD, seen, told or varied, power)
    return replace(found, cases=tuple(cases), needed=found.needed and f"{found.needed}, to find one of −{margin:g}")


def _found(claim: str, verdict: str, seen: str, cases: Sequence[Case], power: Callable[[float], float]) -> Finding:
    """Add the number of dialogues that an undecided claim needs, and mark what holds for these words only."""
    marked = "‡" if any(contrast.number.of_these_words for case in cases for contrast in case.contrasts) else ""
    if verdict == UNTOLD:
        return Finding(claim, verdict, seen, tuple(cases), _so_many(power) + marked)
    return Finding(claim, verdict, seen + marked, tuple(cases))


def _without_runs(claim: str, usual: Number | None, margin: float) -> Finding:
    """Return the effort for a claim without runs: that one size of two is larger, if they spread as usual."""
    if usual is None or usual.error == 0:
        return Finding(claim, UNTOLD, NO_RUN, (), NEW_RUN)
    wanted = _so_many(lambda size: _power(usual, margin, LEVEL, size) ** 2)
    return Finding(claim, UNTOLD, NO_RUN, (), f"{NEW_RUN}, with {wanted} if they vary as those here do")


def at_least(wanted: int, chances: Sequence[float]) -> float:
    """Return the probability of at least this many successes of independent trials (Poisson's binomial)."""
    successes = [1.0]
    for chance in chances:
        stays = [one * (1 - chance) for one in successes] + [0.0]
        successes = [a + b for a, b in zip(stays, [0.0] + [one * chance for one in successes], strict=True)]
    return sum(successes[wanted:])


def rejected(p_values: Sequence[float]) -> list[bool]:
    """Return which tests reject after Holm's correction for their number."""
    adjusted = holm({str(number): p for number, p in enumerate(p_values)})
    return [p <= LEVEL for p in adjusted.values()]


def dialogues_for(power: Callable[[float], float]) -> float:
    """Return the number of dialogues for a power, rounded up to two digits; infinite if no number suffices."""
    low, high = 1.0, MOST_DIALOGUES
    if power(high) < POWER:
        return math.inf
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    step = 10 ** max(0, math.floor(math.log10(high)) - 1)
    return math.ceil(high / step) * step


def _so_many(power: Callable[[float], float]) -> str:
    wanted = dialogues_for(power)
    return f"{wanted:,.0f} dialogues per axis" if math.isfinite(wanted) else "runs in which more varies"


def _tail(one: Number, bound: float, sign: int = 1) -> float:
    """Return the p-value of a number (or its opposite) not being above a bound; 1 without variance."""
    return t_tail((sign * one.value - bound) / one.error, one.freedom) if one.error > 0 else 1.0


def _head(one: Number, bound: float, sign: int = 1) -> float:
    """The p-value of its being the bound or more."""
    return t_tail((bound - sign * one.value) / one.error, one.freedom) if one.error > 0 else 1.0


def _power(one: Number, effect: float, level: float, dialogues: float) -> float:
    return float(normal_tail(_quantile(level) - effect / one.error_of(dialogues))) if one.error > 0 else 0.0


def _quantile(level: float) -> float:
    """Return the quantile of a two-sided test."""
    return float(normal_quantile(1 - level / 2))
