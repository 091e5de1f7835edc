"""What may be said of a change: smaller or larger harm, a better or worse score, the same within a margin, or nothing.

All changes of an axis and metric are tested jointly, Holm's procedure runs over axes and metrics, and over the quality
by each metric. A value of 0 is fair, so *better* is nearer to 0 whatever the sign: that needs two tests, that the value
has changed, and on which side of 0 it was on average. Equivalence is shown, never assumed: its p-values have a Holm
correction of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from tod_bias.audit.paired import ChangeEstimates, Tested
from tod_bias.metrics.metric import Better
from tod_bias.results import Change, TermsOnly
from tod_bias.statistics.adjustment import holm, over_families
from tod_bias.statistics.needed import ENOUGH_WORDS
from tod_bias.statistics.power import equivalence_p, equivalent_within
from tod_bias.statistics.record import finite

BETTER = "better"
"""A disparity, gap or part is nearer to 0; a score is better."""
WORSE = "worse"
"""The opposite."""
CHANGED = "changed"
"""A change is shown, but it is neither: on which side of 0 the value was is not shown, or no score is a better one."""
EQUIVALENT = "equivalent"
"""The change lies within the margin (two one-sided tests)."""
INCONCLUSIVE = "inconclusive"
"""None of these is shown."""


@dataclass(frozen=True)
class _Side:
    """What speaks for a change, with words as a sample or with words as they are."""

    changed: float
    """Joint p-value of no change."""
    nearer: float
    """Joint p-value of being neither nearer to 0 nor further from it; for scores that of no change."""
    equal: float
    """p-value of a change beyond the margin."""


@dataclass(frozen=True)
class ChangeClaim:
    """A change that may be claimed."""

    change: Change
    """Without adjusted p-values and verdict."""
    sample: _Side
    these: _Side
    towards: str
    """What it is called if it is shown."""
    words: float
    """Effective words that it rests on."""


def claim_of_value(
    estimates: ChangeEstimates,
    place: int,
    tests: tuple[Tested, Tested],
    words: float,
    margin: float | None,
    alpha: float,
) -> ChangeClaim:
    """Of a disparity, gap or contribution, which is fair at 0."""
    middle = place + estimates.count
    turn = estimates.estimates[place] * estimates.estimates[middle]
    towards = BETTER if turn < 0 else WORSE if turn > 0 else CHANGED
    return _claim(estimates, place, middle, tests, words, margin, alpha, towards)


def claim_of_score(
    estimates: ChangeEstimates,
    number: int,
    tests: tuple[Tested, Tested],
    words: float,
    margin: float | None,
    alpha: float,
    better: Better,
) -> ChangeClaim:
    """Of a score."""
    place = estimates.place_of_score(number)
    sign = {"higher": 1.0, "lower": -1.0, "neither": 0.0}[better] * estimates.estimates[place]
    towards = BETTER if sign > 0 else WORSE if sign < 0 else CHANGED
    return _claim(estimates, place, place, tests, words, margin, alpha, towards)


def _claim(
    estimates: ChangeEstimates,
    place: int,
    middle: int,
    tests: tuple[Tested, Tested],
    words: float,
    margin: float | None,
    alpha: float,
    towards: str,
) -> ChangeClaim:
    evidence = estimates.evidence(place), estimates.evidence_these_words(place)
    sample, these = (
        _Side(
            test.joint[place],
            max(test.joint[place], test.joint[middle]),
            1.0
            if margin is None
            else equivalence_p(estimates.estimates[place], *error_and_df, estimates.dialogues, margin),
        )
        for test, error_and_df in zip(tests, evidence, strict=True)
    )
    within = equivalent_within(estimates.estimates[place], *estimates.evidence(place), estimates.dialogues, alpha)
    change = estimates.estimate(place, tests[0].single[place]).model_copy(update={"equivalent_within": finite(within)})
    return ChangeClaim(change, sample, these, towards, words)


def judged(families: Sequence[Sequence[ChangeClaim]], alpha: float) -> list[list[Change]]:
    """All changes with adjusted p-values and verdicts.

    Args:
        families: claims that were tested jointly; none is empty.
        alpha: the family-wise error rate, of changes and of equivalences.
    """
    claims = [claim for family in families for claim in family]
    verdicts: dict[str, list[str]] = {}
    p_values: dict[str, list[float]] = {}
    for name in ("sample", "these"):
        side = attrgetter(name)
        changed = _over(families, lambda claim, side=side: side(claim).changed)  # type: ignore[misc]
        nearer = _over(families, lambda claim, side=side: side(claim).nearer)  # type: ignore[misc]
        equal = holm({str(number): side(claim).equal for number, claim in enumerate(claims)})
        p_values[name] = changed
        verdicts[name] = [
            _verdict(claim, changed[number], nearer[number], equal[str(number)], alpha)
            for number, claim in enumerate(claims)
        ]
    changes = iter(
        _with_verdict(claim, p, p_terms_only, verdict if claim.words >= ENOUGH_WORDS else INCONCLUSIVE, terms_only)
        for claim, p, p_terms_only, verdict, terms_only in zip(
            claims, p_values["sample"], p_values["these"], verdicts["sample"], verdicts["these"], strict=True
        )
    )
    return [[next(changes) for _ in family] for family in families]


def _with_verdict(claim: ChangeClaim, p: float, p_terms_only: float, verdict: str, terms_only: str) -> Change:
    estimate = claim.change.change
    these = (estimate.terms_only or TermsOnly()).model_copy(update={"p": p_terms_only})
    return claim.change.model_copy(
        update={
            "change": estimate.model_copy(update={"adjusted_p": p, "terms_only": these}),
            "verdict": verdict,
            "terms_only_verdict": terms_only,
            "effective_terms": None if math.isinf(claim.words) else round(claim.words, 3),
        }
    )


def _over(families: Sequence[Sequence[ChangeClaim]], p_of: Callable[[ChangeClaim], float]) -> list[float]:
    steps = over_families([min(map(p_of, family)) for family in families])
    return [
        min(1.0, max(floor, factor * p_of(claim)))
        for family, (floor, factor) in zip(families, steps, strict=True)
        for claim in family
    ]


def _verdict(claim: ChangeClaim, changed: float, nearer: float, equal: float, alpha: float) -> str:
    if equal < alpha:
        return EQUIVALENT
    if nearer < alpha:
        return claim.towards
    return CHANGED if changed < alpha else INCONCLUSIVE
