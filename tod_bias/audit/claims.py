"""Claims: intervals and p-values over everything that a run claims, and a verdict per axis and metric.

All gaps of groups and reference variants, of all axes and metrics, are one family: their intervals hold together, and a
p-value is below .05 exactly if its interval excludes 0 (:mod:`tod_bias.statistics.simultaneous`). If there is a
placebo, a claim also needs the gap beyond it, on the same side. These gaps are a separate family and need no further
correction, because both must differ from 0. Pairs of groups and effects of crossed axes are a third family. The placebo
claims nothing and belongs to none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from tod_bias.audit.row_sets import RowSet, blocks_of
from tod_bias.results import (
    DISPARITY,
    EQUIVALENT,
    INCONCLUSIVE,
    PLACEBO_VERDICT,
    THESE_TERMS,
    AxisResult,
    Estimate,
    Gap,
    Omnibus,
    Terms,
)
from tod_bias.statistics.intervals import finite
from tod_bias.statistics.simultaneous import Family

TESTS = "tests"
"""Nothing was tested: there are no permutations, or the metric needs a placebo and there is none."""
TERMS = "terms"
"""The gap holds for these terms, which are too few to generalise, or one of which carries most of it."""
OTHER_TERMS = "other terms"
"""The gap holds for these terms, but varies too much between them to generalise."""
PLACEBO = "placebo"
"""The gap is shown, but not beyond the placebo in the same dialogues; or nearly all dialogues are of one group, so that
a placebo is needed, and there is none."""
UNMEASURED = "nothing measured"
"""The run measures nothing here: :mod:`tod_bias.audit.measured`."""
OTHER_TESTS = "other tests"
"""The gap would be claimed if its axis and metric were the only ones."""
_Estimate = TypeVar("_Estimate", bound=Estimate)


@dataclass(frozen=True)
class AxisDraft:
    """Everything that was estimated of one axis and metric, and the rows that are still to be claimed."""

    result: AxisResult
    """Without gaps and verdict."""
    gaps: RowSet
    """Rows of groups, against the mean of groups."""
    references: RowSet
    """Rows of reference variants, against the mean of groups."""
    pairs: RowSet
    beyond: RowSet | None
    """The gaps of groups beyond the placebo's."""
    of_terms_only: RowSet
    """The gaps, with dialogues as the only sample."""
    beyond_of_terms_only: RowSet | None
    """The gaps beyond the placebo's, with dialogues as the only sample."""
    effects: RowSet
    """Rows of crossed axes, named ``factor/level``."""
    facts: Mapping[str, Terms]
    """Group to the terms behind its gap."""
    needs_placebo: bool = False
    """True if a gap cannot be separated from the effect of rewording without a placebo."""
    may_be_equal: bool = True
    """True if equivalence can be shown: some score is above 0."""
    is_tested: bool = True

    def may_speak(self, number: int) -> bool:
        """True if the terms behind a gap may represent its group."""
        return bool(self.gaps.over_terms[number]) and self.facts[self.gaps.names[number]].may_speak

    @property
    def distinct_pairs(self) -> RowSet | None:
        """The pairs if they are other hypotheses than the gaps: with two groups a pair is the gap, twice as large."""
        return self.pairs if len(self.gaps.names) > 2 else None

    @property
    def with_these_terms(self) -> AxisDraft:
        """The same with dialogues as the only sample."""
        return replace(self, gaps=self.of_terms_only, beyond=self.beyond_of_terms_only)

    def untested(self, *, unmeasured: str = "") -> AxisDraft:
        """Return the draft without tests; ``unmeasured`` is the reason if nothing is measured."""
        result = self.result.model_copy(update={"unmeasured": unmeasured or self.result.unmeasured})
        return replace(self, is_tested=False, result=result, may_be_equal=self.may_be_equal and not unmeasured)


@dataclass(frozen=True)
class Families:
    """Rows that are claimed together."""

    gaps: Family
    beyond: Family
    pairs: Family
    of_terms_only: Family
    beyond_of_terms_only: Family

    @classmethod
    def of(cls, drafts: Sequence[AxisDraft], alpha: float, seed: int) -> Families:
        """Make the families of all axes and metrics that are tested."""
        tested = [draft for draft in drafts if draft.is_tested]

        def family(sets: Sequence[RowSet | None]) -> Family:
            return Family(blocks_of(sets, seed), alpha)

        return cls(
            family([rows for draft in tested for rows in (draft.gaps, draft.references)]),
            family([draft.beyond for draft in tested]),
            family([rows for draft in tested for rows in (draft.distinct_pairs, draft.effects)]),
            family([draft.of_terms_only for draft in tested]),
            family([draft.beyond_of_terms_only for draft in tested]),
        )

    def of_pairs(self, draft: AxisDraft) -> Family:
        """Return the family of an axis's pairs: that of its gaps if a pair is the same hypothesis."""
        return self.gaps if draft.distinct_pairs is None else self.pairs

    @property
    def with_these_terms(self) -> Families:
        """The same with dialogues as the only sample."""
        return replace(self, gaps=self.of_terms_only, beyond=self.beyond_of_terms_only)


def judge(
    estimated: Sequence[AxisDraft],
    placebos: Sequence[AxisDraft],
    *,
    alpha: float,
    margin: float | None = None,
    seed: int = 0,
) -> list[AxisResult]:
    """Give every row its interval and p-value, and every axis and metric its verdict and what limits it.

    Args:
        estimated: all axes and metrics that may claim something.
        placebos: those of the placebo.
        alpha: the family-wise error rate of everything that is claimed.
        margin: differences up to this are called equivalent, on the scale of each metric's gaps.
        seed: of the draws under the null hypothesis.

    Returns:
        The results of ``estimated``, then those of ``placebos``.
    """
    families = Families.of(estimated, alpha, seed)
    results = [_judged(draft, families, alpha, margin) for draft in estimated]
    for draft in placebos:
        results.append(_with_rows(draft, None).model_copy(update={"verdict": PLACEBO_VERDICT}))
    return results


def _judged(draft: AxisDraft, families: Families, alpha: float, margin: float | None) -> AxisResult:
    result = _with_rows(draft, families if draft.is_tested else None)
    within = _within(draft, alpha)
    claims = _claims(draft, families)
    of_terms_only = _claims_of_terms_only(draft, families)
    verdict = INCONCLUSIVE
    omnibus = Omnibus(p=min(claims.values(), default=None))
    if margin is not None and within is not None and within <= margin:
        verdict = EQUIVALENT
    elif any(p < alpha for p in claims.values()):
        verdict = DISPARITY
    elif any(p < alpha for p in of_terms_only.values()):
        verdict, omnibus = THESE_TERMS, Omnibus(p=min(of_terms_only.values()), scope="terms")
    changed: dict[str, Any] = {
        "equivalent_within": within,
        "verdict": verdict,
        "omnibus": omnibus if claims or verdict == THESE_TERMS else None,
        **_detectable(draft, families),
    }
    if verdict in (THESE_TERMS, INCONCLUSIVE):
        changed["limiting_factors"] = _limiting_factors(draft, families, alpha)
    if verdict == THESE_TERMS and draft.beyond_of_terms_only is not None:  # beside the gap of these terms
        beyond = draft.beyond_of_terms_only.estimates(families.beyond_of_terms_only)
        changed["groups"] = {
            name: group.model_copy(update={"beyond_placebo": beyond.get(name)}) for name, group in result.groups.items()
        }
    return result.model_copy(update=changed)


def _with_rows(draft: AxisDraft, families: Families | None) -> AxisResult:
    """Return the result with the estimates of its rows; without intervals if nothing is claimed."""
    gaps = draft.gaps.estimates(None if families is None else families.gaps)
    beyond = {} if draft.beyond is None else draft.beyond.estimates(None if families is None else families.beyond)
    references = draft.references.estimates(None if families is None else families.gaps)
    pairs = draft.pairs.estimates(None if families is None else families.of_pairs(draft))
    effects = draft.effects.estimates(None if families is None else families.pairs)
    of_terms_only = draft.of_terms_only.estimates(None if families is None else families.of_terms_only)
    result = draft.result
    changed: dict[str, Any] = {
        "groups": {
            name: group.model_copy(
                update={
                    "gap": gaps[name],
                    "beyond_placebo": beyond.get(name),
                    "terms_only": of_terms_only[name],
                    "affected": draft.gaps.affected_in(name),
                }
            )
            for name, group in result.groups.items()
        },
        "references": {
            name: group.model_copy(update={"gap": references[name]}) for name, group in result.references.items()
        },
        "pairs": _both_ways({name: _gap_of(gap, pairs[name]) for name, gap in result.pairs.items()}, result.groups),
        "effects": {
            factor: {level: _gap_of(gap, effects[f"{factor}/{level}"]) for level, gap in levels.items()}
            for factor, levels in result.effects.items()
        },
    }
    if result.widest is not None:
        forward = f"{result.widest.better}>{result.widest.worse}"
        gap = pairs[forward] if forward in pairs else negated(pairs[f"{result.widest.worse}>{result.widest.better}"])
        changed["widest"] = result.widest.model_copy(update={"gap": gap})
    return result.model_copy(update=changed)


def _gap_of(gap: Gap, estimate: Estimate) -> Gap:
    return gap.model_copy(update=dict(estimate))


def _both_ways(pairs: Mapping[str, Gap], groups: Iterable[str]) -> dict[str, Gap]:
    """Pairs as seen from either group."""
    both: dict[str, Gap] = {}
    for first, second in combinations(groups, 2):
        gap = pairs[f"{first}>{second}"]
        both[f"{first}>{second}"], both[f"{second}>{first}"] = gap, negated(gap)
    return both


def _claims(draft: AxisDraft, families: Families) -> dict[str, float]:
    """Return the p-value of each group that may be claimed."""
    if not draft.is_tested:
        return {}
    return {
        name: _claim(draft, number, families.gaps.adjusted, families.beyond.adjusted)
        for number, name in enumerate(draft.gaps.names)
        if draft.may_speak(number)
    }


def _claim(
    draft: AxisDraft, number: int, adjusted: Callable[[float], float], beyond: Callable[[float], float] | None
) -> float:
    """Return the p-value of one group's claim: the larger one of its gap and of its gap beyond the placebo.

    Args:
        draft: of its axis and metric.
        number: of its row.
        adjusted: maps an unadjusted p-value to the one over everything that is claimed.
        beyond: the same for gaps beyond the placebo; None to ignore the placebo.
    """
    p = adjusted(float(draft.gaps.p[number]))
    name = draft.gaps.names[number]
    if beyond is not None:
        if draft.beyond is not None and name in draft.beyond.names:
            place = draft.beyond.names.index(name)
            same_side = draft.gaps.rows.values[number] * draft.beyond.rows.values[place] > 0
            p = max(p, beyond(float(draft.beyond.p[place])) if same_side else 1.0)
        elif draft.needs_placebo:
            p = 1.0
    return 1.0 if np.isnan(p) else p


def _claims_of_terms_only(draft: AxisDraft, families: Families) -> dict[str, float]:
    """The same with dialogues as the only sample, of all groups."""
    if not draft.is_tested:
        return {}
    only, alike = draft.with_these_terms, families.with_these_terms
    return {
        name: _claim(only, number, alike.gaps.adjusted, alike.beyond.adjusted)
        for number, name in enumerate(only.gaps.names)
    }


def _limiting_factors(draft: AxisDraft, families: Families, alpha: float) -> list[str]:
    """Return the conditions that each alone keep an axis from a disparity, everything else unchanged."""
    if draft.result.unmeasured:
        return [UNMEASURED]
    if not draft.is_tested or not any(np.isfinite(draft.gaps.p)):
        return [TESTS]
    only, alike = draft.with_these_terms, families.with_these_terms

    def any_row(rows: AxisDraft, over: Families, chosen: bool, *, bare: bool = False, alone: bool = False) -> bool:
        def beyond(p: float) -> float:
            return p if alone else over.beyond.adjusted(p)

        return any(
            _claim(rows, number, (lambda p: p) if alone else over.gaps.adjusted, None if bare else beyond) < alpha
            for number in range(len(rows.gaps.names))
            if draft.may_speak(number) is chosen
        )

    parts = {
        TERMS: any_row(only, alike, chosen=False),
        OTHER_TERMS: any_row(only, alike, chosen=True),
        PLACEBO: any_row(draft, families, chosen=True, bare=True),
        OTHER_TESTS: any_row(draft, families, chosen=True, alone=True),
    }
    if not any(parts.values()) and any_row(only, alike, chosen=False, bare=True):
        return [TERMS, PLACEBO]
    return [name for name, holds in parts.items() if holds]


def _within(draft: AxisDraft, alpha: float) -> float | None:
    """Return the smallest margin within which all gaps are shown to be; because all must be, none is adjusted.

    A gap that cannot be separated from the effect of rewording must be within it also beyond the placebo's.
    """
    if not draft.may_be_equal or len(draft.gaps.names) < 2 or (draft.needs_placebo and draft.beyond is None):
        return None
    every = [draft.gaps, draft.pairs, *([draft.beyond] if draft.needs_placebo and draft.beyond else [])]
    margins = [rows.within(alpha) for rows in every if rows.names]
    return None if any(np.isnan(margins)) else finite(max(margins))


def _detectable(draft: AxisDraft, families: Families) -> dict[str, float | None]:
    """Return the smallest difference between a group and all others that would be claimed in four of five such runs.

    The value is the median over groups with enough terms. With a placebo, the difference must also be found beyond it.
    """
    nothing: dict[str, float | None] = {"mde": None, "mde_se": None, "mde_se_terms_only": None}
    if not draft.is_tested:
        return nothing
    sizes = []
    for rows, family in ((draft.gaps, families.gaps), (draft.beyond, families.beyond)):
        if rows is None:
            continue
        chosen = np.flatnonzero(rows.over_terms)
        errors = rows.rows.errors[chosen]
        if not len(chosen) or np.isnan(errors).any():
            return nothing
        apart = len(draft.facts) / max(1, len(draft.facts) - 1)  # one group apart by 1 has a gap of 1 − 1/G
        of_dialogues = np.sqrt(draft.of_terms_only.rows.covariance.diagonal()[chosen])
        smallest = [rows.detectable(int(number), family.level) for number in chosen]
        sizes.append(tuple(float(np.median(some)) * apart for some in (smallest, errors, of_dialogues)))
    largest = max(sizes)
    return dict(zip(nothing, map(finite, largest), strict=True))


def negated(estimate: _Estimate) -> _Estimate:
    """The same estimate with the other sign, as a gap is seen from the other group."""
    changed: dict[str, Any] = {
        "value": None if estimate.value is None else -estimate.value,
        "ci": None if estimate.ci is None else (-estimate.ci[1], -estimate.ci[0]),
    }
    return estimate.model_copy(update=changed)
