"""What may be claimed: one correction over all axes and metrics, and a verdict per axis and metric.

Every axis and metric is one family, in which the disparity and the gap of every group are tested jointly; Holm's
procedure runs over the families. Within a family a single gap is claimed only behind it, at the level that Holm's step
has left. The placebo claims nothing and is no member.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tod_bias.results import (
    DISPARITY,
    EQUIVALENT,
    INCONCLUSIVE,
    PLACEBO_VERDICT,
    THESE_TERMS,
    AxisResult,
    Estimate,
    Omnibus,
    TermsOnly,
)
from tod_bias.statistics.adjustment import over_families
from tod_bias.statistics.needed import ENOUGH_WORDS
from tod_bias.statistics.power import equivalent_within
from tod_bias.statistics.record import finite

TESTS = "tests"
"""Nothing was tested: there are no permutations, or the metric takes a placebo and there is none."""
TERMS = "terms"
"""It is true of these terms, which are too few to stand for a group."""
OTHER_TERMS = "other terms"
"""It is true of these terms, and differs too much between them to hold for others."""
PLACEBO = "placebo"
"""It is shown, and not shown to differ from what the placebo does in the same dialogues."""
UNMEASURED = "nothing measured"
"""The run measures nothing here: :mod:`tod_bias.audit.measured`."""
OTHER_TESTS = "other tests"
"""It would be claimed were it the only axis and metric."""

WHOLE = ("disparity",)
"""The claim of the disparity; the others are ``("groups", name)``, ``("pairs", name)`` and
``("effects", factor, level)``."""
Key = tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    """What speaks for something that may be claimed."""

    p: float = 1.0
    """With terms as a sample, for its family within the axis; beyond the placebo where there is one."""
    p_terms_only: float = 1.0
    """The same with terms as they are."""
    p_bare: float = 1.0
    """With terms as a sample, whatever the placebo does."""
    p_bare_terms_only: float = 1.0
    """The same with terms as they are."""
    terms: float = math.inf
    """Effective terms that it rests on."""
    tested: bool = True
    """Whether there are p-values at all."""

    @property
    def has_enough_terms(self) -> bool:
        """Whether it rests on terms enough to speak of a group."""
        return self.terms >= ENOUGH_WORDS


@dataclass(frozen=True)
class AxisDraft:
    """Everything that was estimated of one axis and metric, and the claims that are still to be adjusted."""

    result: AxisResult
    """Without verdict and adjusted p-values."""
    claims: Mapping[Key, Claim]
    bounds: Sequence[tuple[float, float, float, int]]
    """Disparity, gaps and pairs, each with standard error, degrees of freedom, dialogues: for tests of equivalence."""
    may_be_equal: bool = True
    """Whether equivalence can be shown at all: there are clusters enough, and a score above 0."""
    family: Sequence[Key] = field(init=False)
    """The disparity and every group's gap: one family, as any of them is a disparity of the axis."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", [key for key in self.claims if key == WHOLE or key[0] == "groups"])

    @property
    def smallest(self) -> Claim:
        """The claim of the family with the smallest p-value."""
        return min((self.claims[key] for key in self.family), key=lambda claim: claim.p)

    def untested(self, *, unmeasured: str = "") -> AxisDraft:
        """The same without any test; ``unmeasured`` says why nothing is measured, where that is why."""
        claims = {key: replace(claim, tested=False) for key, claim in self.claims.items()}
        if unmeasured:
            claims = {key: replace(claim, p=1.0, p_terms_only=1.0) for key, claim in claims.items()}
        result = self.result.model_copy(update={"unmeasured": unmeasured or self.result.unmeasured})
        return replace(self, claims=claims, result=result, may_be_equal=self.may_be_equal and not unmeasured)


def judge(
    estimated: Sequence[AxisDraft], placebos: Sequence[AxisDraft], *, alpha: float, margin: float | None = None
) -> list[AxisResult]:
    """Adjust p-values, and give every axis and metric its verdict and what limits it.

    Args:
        estimated: all axes and metrics that may claim something.
        placebos: those of the placebo.
        alpha: the family-wise error rate of everything that is claimed.
        margin: differences up to this are called equivalent, on the scale of each metric's disparity.

    Returns:
        The results of ``estimated``, then those of ``placebos``.
    """
    adjusted = _over(estimated, lambda claim: claim.p)
    terms_only = _over(estimated, lambda claim: claim.p_terms_only)
    results = []
    for number, axis in enumerate(estimated):
        within = _equivalent_within(axis, alpha)
        verdict = _verdict(axis, adjusted[number], terms_only[number], within, (alpha, margin))
        limits = _limiting_factors(estimated, number, alpha) if verdict in (THESE_TERMS, INCONCLUSIVE) else []
        result = _adjusted(axis, adjusted[number], terms_only[number])
        changed: dict[str, Any] = {"equivalent_within": within, "verdict": verdict, "limiting_factors": limits}
        if len(axis.family) > 1 and axis.claims[WHOLE].tested:
            smallest = min(axis.family, key=lambda key: axis.claims[key].p)
            changed["omnibus"] = Omnibus(p=axis.claims[smallest].p, adjusted_p=adjusted[number][smallest])
        results.append(result.model_copy(update=changed))
    for axis in placebos:
        changed = {"equivalent_within": _equivalent_within(axis, alpha), "verdict": PLACEBO_VERDICT}
        results.append(axis.result.model_copy(update=changed))
    return results


def _over(estimated: Sequence[AxisDraft], p_of: Callable[[Claim], float]) -> list[dict[Key, float]]:
    """Adjusted p-values of all claims of every axis and metric."""
    steps = over_families([min(p_of(axis.claims[key]) for key in axis.family) for axis in estimated])
    return [
        {key: min(1.0, max(lowest, factor * p_of(claim))) for key, claim in axis.claims.items()}
        for axis, (lowest, factor) in zip(estimated, steps, strict=True)
    ]


def _adjusted(axis: AxisDraft, adjusted: Mapping[Key, float], terms_only: Mapping[Key, float]) -> AxisResult:
    """The result with its p-values."""

    def with_p(estimate: Estimate, key: Key, name: str = "p") -> Estimate:
        claim = axis.claims.get(key)
        if claim is None or not claim.tested:
            return estimate
        these = (estimate.terms_only or TermsOnly()).model_copy(update={"p": terms_only[key]})
        return estimate.model_copy(update={name: adjusted[key], "terms_only": these})

    result = axis.result
    return result.model_copy(
        update={
            "disparity": with_p(result.disparity, WHOLE, "adjusted_p"),
            "groups": {
                name: group.model_copy(update={"gap": with_p(group.gap, ("groups", name))})
                for name, group in result.groups.items()
            },
            "pairs": {name: with_p(pair, ("pairs", name)) for name, pair in result.pairs.items()},
            "effects": {
                factor: {level: with_p(gap, ("effects", factor, level)) for level, gap in by_level.items()}
                for factor, by_level in result.effects.items()
            },
        }
    )


def _limiting_factors(estimated: Sequence[AxisDraft], number: int, alpha: float) -> list[str]:
    """What alone stands between an axis and a disparity; of the others everything stays as it is."""
    axis = estimated[number]
    if axis.result.unmeasured:
        return [UNMEASURED]
    tested = [key for key in axis.family if axis.claims[key].tested]
    if not tested:
        return [TESTS]

    def any_if(p_of: Callable[[Claim], float], *, enough: bool) -> bool:
        steps = over_families(
            [
                min(_p_if(other.claims[key], p_of if place == number else None) for key in other.family)
                for place, other in enumerate(estimated)
            ]
        )
        lowest, factor = steps[number]
        claims = [axis.claims[key] for key in tested]
        return any(
            min(1.0, max(lowest, factor * p_of(claim))) < alpha for claim in claims if claim.has_enough_terms is enough
        )

    claims: Iterable[Claim] = [axis.claims[key] for key in tested]
    parts = {
        TERMS: any_if(lambda claim: claim.p_terms_only, enough=False),
        OTHER_TERMS: any_if(lambda claim: claim.p_terms_only, enough=True),
        PLACEBO: any_if(lambda claim: claim.p_bare, enough=True),
        OTHER_TESTS: any(claim.p < alpha for claim in claims if claim.has_enough_terms),
    }
    if not any(parts.values()) and any_if(lambda claim: claim.p_bare_terms_only, enough=False):
        return [TERMS, PLACEBO]
    return [name for name, holds in parts.items() if holds]


def _p_if(claim: Claim, p_of: Callable[[Claim], float] | None) -> float:
    return claim.p if p_of is None or not claim.tested else p_of(claim)


def _equivalent_within(axis: AxisDraft, alpha: float) -> float | None:
    """The smallest margin within which the disparity and all gaps are shown to lie; all must, so none is adjusted."""
    margins = [equivalent_within(*bounds, alpha=alpha) for bounds in axis.bounds]
    if all(finite(margin) is not None for margin in margins) and axis.may_be_equal:
        return max(margins)
    return None


def _verdict(
    axis: AxisDraft,
    adjusted: Mapping[Key, float],
    terms_only: Mapping[Key, float],
    within: float | None,
    limits: tuple[float, float | None],
) -> str:
    alpha, margin = limits
    if margin is not None and within is not None and within <= margin:
        return EQUIVALENT
    tested = [key for key in axis.family if axis.claims[key].tested]
    if any(adjusted[key] < alpha and axis.claims[key].has_enough_terms for key in tested):
        return DISPARITY
    if any(min(adjusted[key], terms_only[key]) < alpha for key in tested):
        return THESE_TERMS
    return INCONCLUSIVE
