"""Claims: intervals and p-values over everything that a run or a comparison claims, and a verdict per axis and metric.

All gaps of groups and reference variants, of all axes and metrics, are one family: their intervals hold together, and a
p-value is below .05 exactly if its interval excludes 0 (:mod:`tod_bias.statistics.simultaneous`). If there is a
placebo, a claim also needs a gap beyond the placebo's effect, on the same side. These gaps beyond the placebo are a
second family. No correction over the two families is needed, because a claim needs both gaps to differ from 0. Pairs of
groups and effects of crossed axes are a third family. The placebo itself is in no family, because nothing is claimed of
it.

All changes between two runs are one family as well. A gap of 0 is fair, so *better* means nearer to 0, whatever the
sign. A claim of better needs two tests: one that the value changed, and one for the side of 0 on which its mean over
both runs is. Equivalence needs a test of its own, whose p-values have Holm's correction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from tod_bias.audit.claimed_rows import ClaimedRows, blocks_of
from tod_bias.metrics.metric import Better
from tod_bias.results import (
    ALPHA,
    DIFFERENT,
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
    Verdict,
)
from tod_bias.statistics.exchanges import ExchangedRows
from tod_bias.statistics.flips import FlippedRows
from tod_bias.statistics.intervals import finite
from tod_bias.statistics.simultaneous import Family

SUGGESTIVE = 0.15
"""p-value, over everything that is claimed, below which a number of dialogues that would prove an effect is given. In
simulations 82 of 100 audits of that many dialogues claim a planted effect, and none of 80 fair systems has a number."""
MOST_NEEDED = 1e6
"""Number of dialogues from which nobody would collect them."""


TESTS = "tests"
"""Nothing was tested: there are no permutations, or the metric needs a placebo and there is none."""
TERMS = "terms"
"""The gap holds for these terms, which are too few to generalise, or one of which carries most of it."""
OTHER_TERMS = "other terms"
"""The gap holds for these terms, but varies too much between them to generalise."""
NOT_BEYOND_PLACEBO = "placebo"
"""The gap is shown, but not beyond the placebo in the same dialogues; or nearly all dialogues are of one group, so that
a placebo is needed, and there is none."""
UNMEASURED = "nothing measured"
"""The run measures nothing here: :mod:`tod_bias.audit.checks`."""
OTHER_TESTS = "other tests"
"""The gap would be claimed if its axis and metric were the only ones."""
GAPS = "gaps"
"""Rows of groups, against the mean of groups."""
REFERENCES = "references"
"""Rows of reference variants, against the mean of groups."""
PAIRS = "pairs"
"""Rows of pairs of groups."""
BEYOND = "beyond"
"""The gaps of groups beyond the placebo's."""
APART = "apart"
"""Rows of the smallest set of groups that explains a difference, each against the groups that do not differ."""
EFFECTS = "effects"
"""Rows of crossed axes, named ``factor/level``."""
OF_THESE_TERMS = " of these terms"
"""Ending of the kinds of rows in which dialogues are the only sample: of gaps, gaps beyond the placebo, and groups
apart."""
_Estimate = TypeVar("_Estimate", bound=Estimate)


@dataclass(frozen=True)
class Claims:
    """Estimates of one axis and metric, by kind of rows; :func:`judge` decides which of them are claimed."""

    result: AxisResult
    """Without gaps and verdict."""
    rows: Mapping[str, ClaimedRows]
    """Kind of rows, such as :data:`GAPS`, to the rows; without a placebo, there are none beyond it."""
    facts: Mapping[str, Terms]
    """Group to the terms behind its gap."""
    needs_placebo: bool = False
    """True if a gap cannot be separated from the effect of rewording without a placebo."""
    may_be_equal: bool = True
    """True if equivalence can be shown: some score is above 0."""
    better: Better = "higher"
    """Better side of the metric."""
    is_tested: bool = True
    in_these_clusters: Claims | None = None
    """The same with the clusters of dialogues as they are, not as a sample; None if no kind of clusters is a sample."""

    @property
    def gaps(self) -> ClaimedRows:
        """Rows of groups, against the mean of groups."""
        return self.rows[GAPS]

    def generalizes(self, number: int) -> bool:
        """True if the terms behind a gap may represent its group."""
        return bool(self.gaps.over_terms[number]) and self.facts[self.gaps.names[number]].generalizes

    @property
    def distinct_pairs(self) -> ClaimedRows | None:
        """The pairs if they are other hypotheses than the gaps: with two groups a pair is the gap, twice as large."""
        return self.rows[PAIRS] if len(self.gaps.names) > 2 else None

    def untested(self, *, unmeasured: str = "") -> Claims:
        """Return the claims without tests; ``unmeasured`` is the reason if nothing is measured."""
        result = self.result.model_copy(update={"unmeasured": unmeasured or self.result.unmeasured})
        alike = self.in_these_clusters and self.in_these_clusters.untested(unmeasured=unmeasured)
        may_be_equal = self.may_be_equal and not unmeasured
        return replace(self, is_tested=False, result=result, may_be_equal=may_be_equal, in_these_clusters=alike)


@dataclass(frozen=True)
class Further:
    """Hypotheses that are tested and not estimated in full, under sign flips."""

    gaps: Sequence[FlippedRows] = ()
    beyond: Sequence[FlippedRows] = ()
    """The same beyond the placebo's effect."""
    group_exchanges: Sequence[ExchangedRows] = ()
    """The gaps under exchanges of groups."""
    term_exchanges: Sequence[ExchangedRows] = ()
    """The gaps under exchanges of terms."""
    in_these_clusters: Further | None = None
    """The same with the clusters of dialogues as they are; None if no kind of clusters is a sample anyway."""


def families_of(claims: Sequence[Claims], further: Further, alpha: float, seed: int) -> dict[str, Family]:
    """Return the families of all axes and metrics that are tested, by kind of rows.

    Reference variants are in the family of the gaps, and effects of crossed axes in that of pairs.

    Args:
        claims: of all axes and metrics.
        further: hypotheses that were screened out.
        alpha: the family-wise error rate of each family.
        seed: of the draws under the null hypothesis.
    """
    tested = [some for some in claims if some.is_tested]

    def family(
        sets: Sequence[ClaimedRows | None], more: Sequence[FlippedRows] = (), *group_exchanges: Sequence[ExchangedRows]
    ) -> Family:
        return Family(blocks_of(sets, seed, more), alpha, *group_exchanges)

    def of_kinds(*kinds: str) -> list[ClaimedRows | None]:
        return [some.rows.get(kind) for some in tested for kind in kinds]

    group_exchanges = [some.gaps.group_exchanges for some in tested if some.gaps.group_exchanges is not None]
    group_exchanges += further.group_exchanges
    term_exchanges = [some.gaps.term_exchanges for some in tested if some.gaps.term_exchanges is not None]
    term_exchanges += further.term_exchanges
    pairs = [rows for some in tested for rows in (some.distinct_pairs, some.rows[EFFECTS])]
    return {
        GAPS: family(of_kinds(GAPS, REFERENCES), further.gaps, group_exchanges, term_exchanges),
        BEYOND: family(of_kinds(BEYOND), further.beyond),
        PAIRS: family(pairs),
        GAPS + OF_THESE_TERMS: family(of_kinds(GAPS + OF_THESE_TERMS), further.gaps, group_exchanges),
        BEYOND + OF_THESE_TERMS: family(of_kinds(BEYOND + OF_THESE_TERMS), further.beyond),
    }


Families = Mapping[str, Family]
"""Kind of rows to their family (:func:`families_of`)."""


def judge(
    estimated: Sequence[Claims],
    placebos: Sequence[Claims],
    *,
    alpha: float,
    margin: float | None = None,
    seed: int = 0,
    further: Further = Further(),
) -> list[AxisResult]:
    """Give every row its interval and p-value, and every axis and metric its verdict and what limits it.

    Args:
        estimated: all axes and metrics that may claim something.
        placebos: those of the placebo.
        alpha: the family-wise error rate of everything that is claimed.
        margin: differences up to this are called equivalent, on the scale of each metric's gaps.
        seed: of the draws under the null hypothesis.
        further: hypotheses of the same families that are not estimated in full.

    Returns:
        The results of ``estimated``, then those of ``placebos``.
    """
    families = families_of(estimated, further, alpha, seed)
    results = [_with_verdict(claims, families, alpha, margin) for claims in estimated]
    if any(claims.in_these_clusters for claims in estimated):
        in_these_clusters = [claims.in_these_clusters or claims for claims in estimated]
        families = families_of(in_these_clusters, further.in_these_clusters or further, alpha, seed)
        results = [
            _of_clusters(result, _with_verdict(claims, families, alpha, margin)) if claims is not first else result
            for result, first, claims in zip(results, estimated, in_these_clusters, strict=True)
        ]
    results = [_with_seen_side(result, claims.better) for result, claims in zip(results, estimated, strict=True)]
    for claims in placebos:
        results.append(_with_rows(claims, None).model_copy(update={"verdict": PLACEBO_VERDICT}))
    return results


def _with_verdict(claims: Claims, families: Families, alpha: float, margin: float | None) -> AxisResult:
    result = _with_rows(claims, families if claims.is_tested else None)
    within = _within(claims, alpha)
    p_values = _p_values(claims, families)
    p_of_these_terms = _p_values_of_these_terms(claims, families)
    verdict = _verdict_of(
        p_values, p_of_these_terms, alpha, is_within=margin is not None and _is_within(within, margin)
    )
    apart = _apart(claims, families, verdict, p_values, p_of_these_terms)
    while _names_others(apart, claims, verdict):
        explaining = claims.rows[APART].names
        p_values = {name: p for name, p in p_values.items() if name in explaining}
        if verdict == THESE_TERMS:
            p_of_these_terms = {}
        verdict = _verdict_of({}, p_of_these_terms, alpha, is_within=False)
        apart = _apart(claims, families, verdict, p_values, p_of_these_terms)
    omnibus = Omnibus(p=min(p_values.values(), default=None))
    if verdict == THESE_TERMS:
        omnibus = Omnibus(p=min(p_of_these_terms.values()), scope="terms")
    changed: dict[str, Any] = {
        "equivalent_within": within,
        "verdict": verdict,
        "omnibus": omnibus if p_values or verdict == THESE_TERMS else None,
        **_detectable(claims, families),
    }
    if verdict == INCONCLUSIVE:
        changed["needed"] = _needed(claims, families, p_values)
    changed |= apart
    if verdict in (THESE_TERMS, INCONCLUSIVE):
        changed["limiting_factors"] = _limiting_factors(claims, families, alpha)
    if verdict == THESE_TERMS and BEYOND + OF_THESE_TERMS in claims.rows:  # beside the gap of these terms
        kind = BEYOND + OF_THESE_TERMS
        beyond = claims.rows[kind].estimates(families[kind])
        changed["groups"] = {
            name: group.model_copy(update={"beyond_placebo": beyond.get(name)}) for name, group in result.groups.items()
        }
    return result.model_copy(update=changed)


def _with_seen_side(result: AxisResult, better: Better) -> AxisResult:
    """Return a result without its claim if the scores show the side of no group's difference (:func:`is_seen`).

    Args:
        result: of an axis and metric.
        better: side of the metric.
    """
    names = result.apart if result.verdict in DIFFERENT else ()
    if not names or any(is_seen(result, name, better) for name in names):
        return result
    return result.model_copy(update={"verdict": INCONCLUSIVE})


def _of_clusters(over: AxisResult, here: AxisResult) -> AxisResult:
    """Return what is claimed where clusters of dialogues are enough to be a sample.

    A difference that is shown in these clusters, but not over further ones, stays a claim about these clusters, and is
    marked so: few clusters would need a large effect. A difference over further clusters must hold in these as well, so
    that the errors of both families together are no more than those of one.

    Args:
        over: the result with the clusters as a sample.
        here: the result with the clusters as they are.
    """
    differences = (DISPARITY, THESE_TERMS)
    if here.verdict in differences and over.verdict != here.verdict:
        kinds = [name for name, number in here.clusters.items() if number > 1]
        return here.model_copy(update={"only_these_clusters": kinds})
    return here if over.verdict in differences and here.verdict not in differences else over


def _with_rows(claims: Claims, families: Families | None) -> AxisResult:
    """Return the result with the estimates of its rows; without intervals if nothing is claimed."""
    families_by_kind = {**families, REFERENCES: families[GAPS], EFFECTS: families[PAIRS]} if families else {}
    if families and claims.distinct_pairs is None:
        families_by_kind[PAIRS] = families[GAPS]

    def estimates(kind: str) -> dict[str, Estimate]:
        return claims.rows[kind].estimates(families_by_kind.get(kind)) if kind in claims.rows else {}

    gaps, beyond, references = map(estimates, (GAPS, BEYOND, REFERENCES))
    pairs, effects, of_these_terms = map(estimates, (PAIRS, EFFECTS, GAPS + OF_THESE_TERMS))
    result = claims.result
    changed: dict[str, Any] = {
        "groups": {
            name: group.model_copy(
                update={
                    "gap": gaps[name],
                    "beyond_placebo": beyond.get(name),
                    "terms_only": of_these_terms[name],
                    "affected": claims.gaps.affected_in(name),
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


def _p_values(claims: Claims, families: Families) -> dict[str, float]:
    """Return the p-value of each group that may be claimed."""
    if not claims.is_tested:
        return {}
    return {
        name: _p_value(claims, number, families)
        for number, name in enumerate(claims.gaps.names)
        if claims.generalizes(number)
    }


def _p_values_of_these_terms(claims: Claims, families: Families) -> dict[str, float]:
    """The same with dialogues as the only sample, of all groups."""
    if not claims.is_tested:
        return {}
    names = claims.rows[GAPS + OF_THESE_TERMS].names
    return {name: _p_value(claims, number, families, OF_THESE_TERMS) for number, name in enumerate(names)}


def _p_value(
    claims: Claims, number: int, families: Families | None, sample: str = "", *, beyond_placebo: bool = True
) -> float:
    """Return the p-value of one group's claim: the larger one of its gap and of its gap beyond the placebo.

    A gap between three groups or more needs no placebo, unless nearly all originals are of one group: the other groups
    are rewritten as well.

    Args:
        claims: of its axis and metric.
        number: of its row.
        families: in which the rows are claimed; None for the p-values of single rows.
        sample: :data:`OF_THESE_TERMS` if dialogues are the only sample.
        beyond_placebo: False to ignore the placebo.
    """

    def adjusted(kind: str, place: int) -> float:
        rows = claims.rows[kind]
        return float(rows.p[place]) if families is None else rows.adjusted(place, families[kind])

    gaps, beyond = GAPS + sample, BEYOND + sample
    p = adjusted(gaps, number)
    name = claims.rows[gaps].names[number]
    if beyond_placebo and not claims.result.is_controlled:
        if beyond in claims.rows and name in claims.rows[beyond].names:
            place = claims.rows[beyond].names.index(name)
            same_side = claims.rows[gaps].rows.values[number] * claims.rows[beyond].rows.values[place] > 0
            p = max(p, adjusted(beyond, place) if same_side else 1.0)
        elif claims.needs_placebo:
            p = 1.0
    return 1.0 if np.isnan(p) else p


def _is_within(within: float | None, margin: float) -> bool:
    return within is not None and within <= margin


def _verdict_of(
    p_values: Mapping[str, float], p_of_these_terms: Mapping[str, float], alpha: float, *, is_within: bool
) -> Verdict:
    """Return the verdict of an axis and metric.

    Args:
        p_values: group to the p-value of its claim.
        p_of_these_terms: the same with dialogues as the only sample.
        alpha: level of a claim.
        is_within: True if all gaps are shown to be within the margin that was asked for.
    """
    if is_within:
        return EQUIVALENT
    if any(p < alpha for p in p_values.values()):
        return DISPARITY
    return THESE_TERMS if any(p < alpha for p in p_of_these_terms.values()) else INCONCLUSIVE


def _apart(
    claims: Claims,
    families: Families,
    verdict: Verdict,
    p_values: Mapping[str, float],
    p_of_these_terms: Mapping[str, float],
) -> dict[str, Any]:
    """Return the groups that a finding names, each against those that do not differ, with the p-value of its claim.

    A difference names at least one group whose claim is shown. If the smallest set has none, which can happen with rare
    events, it is the group whose own gap is claimed with the smallest p-value, of this set if there is one.

    Returns:
        The fields ``apart`` and, if it is not that of the claims, ``smallest``.
    """
    sample, known = "", {**p_of_these_terms, **p_values}
    if verdict == THESE_TERMS:
        sample, known = OF_THESE_TERMS, {**p_of_these_terms}
    gaps, family = claims.rows[GAPS + sample], families[GAPS + sample]
    estimates = claims.rows[APART + sample].estimates(family if claims.is_tested else None)
    apart = {name: _with_claim(some, known.get(name, 1.0)) for name, some in estimates.items()}
    if verdict not in DIFFERENT or not apart or any(some.is_shown for some in apart.values()):
        return {"apart": apart}
    p_of = p_of_these_terms if verdict == THESE_TERMS else p_values
    explaining = [name for name in estimates if p_of.get(name, 1.0) < ALPHA]
    name = min(explaining or p_of, key=lambda name: p_of[name])
    of_group = _with_claim(_from_others(gaps.estimates(family)[name], name, claims.gaps), p_of[name])
    return {"apart": {name: of_group}, "smallest": [name]}


def _names_others(apart: Mapping[str, Any], claims: Claims, verdict: Verdict) -> bool:
    """Return whether a finding would name a group that is far from the mean because of another one."""
    if verdict not in DIFFERENT:
        return False
    explaining = claims.rows[APART + (OF_THESE_TERMS if verdict == THESE_TERMS else "")].names
    return bool(explaining) and set(explaining).isdisjoint(apart["apart"])


def _from_others(gap: Estimate, name: str, gaps: ClaimedRows) -> Estimate:
    """Return a group's difference from the mean of the other groups, which its gap from the mean of all is a part of.

    Args:
        gap: from the mean of the groups that are compared: those with enough terms, or all of them.
        name: of the group.
        gaps: of all groups.
    """
    enough = [other for other, is_enough in zip(gaps.names, gaps.over_terms, strict=True) if is_enough]
    compared = enough if len(enough) > 1 else [*gaps.names]
    factor = len(compared) / (len(compared) - 1) if name in compared else 1.0
    changed: dict[str, Any] = {
        "value": None if gap.value is None else gap.value * factor,
        "se": None if gap.se is None else gap.se * factor,
        "ci": None if gap.ci is None else (gap.ci[0] * factor, gap.ci[1] * factor),
    }
    return gap.model_copy(update=changed)


def _with_claim(estimate: Estimate, p: float) -> Estimate:
    """Return an estimate with the p-value of its claim, if that is larger; the interval reaches 0 where it is not."""
    if estimate.p is None or estimate.ci is None or estimate.value is None or p <= estimate.p:
        return estimate
    least = abs(estimate.value) if p >= ALPHA else 0.0
    low, high = max(estimate.value - estimate.ci[0], least), max(estimate.ci[1] - estimate.value, least)
    return estimate.model_copy(update={"p": p, "ci": (estimate.value - low, estimate.value + high)})


def is_seen(row: AxisResult, group: str, better: Better) -> bool:
    """Return whether the scores show the side of a group's difference, without the model's effect of originals.

    If a harm goes with the group of the originals, the model may take it for an effect of being the original.
    """
    others = [some.score.value for name, some in row.groups.items() if name not in row.apart]
    known = [score for score in others if score is not None]
    score, effect = row.groups[group].score.value, row.apart[group].value
    if score is None or effect is None or not known:
        return True
    worse = score - sum(known) / len(known)
    return (worse if better == "lower" else -worse) * effect > 0


def _limiting_factors(claims: Claims, families: Families, alpha: float) -> list[str]:
    """Return the conditions that each alone keep an axis from a disparity, everything else unchanged."""
    if claims.result.unmeasured:
        return [UNMEASURED]
    if not claims.is_tested or not any(np.isfinite(claims.gaps.p)):
        return [TESTS]

    def any_row(over: Families | None, sample: str = "", *, generalizes: bool, beyond_placebo: bool = True) -> bool:
        return any(
            _p_value(claims, number, over, sample, beyond_placebo=beyond_placebo) < alpha
            for number in range(len(claims.gaps.names))
            if claims.generalizes(number) is generalizes
        )

    parts = {
        TERMS: any_row(families, OF_THESE_TERMS, generalizes=False),
        OTHER_TERMS: any_row(families, OF_THESE_TERMS, generalizes=True),
        NOT_BEYOND_PLACEBO: any_row(families, generalizes=True, beyond_placebo=False),
        OTHER_TESTS: any_row(None, generalizes=True),
    }
    if not any(parts.values()) and any_row(families, OF_THESE_TERMS, generalizes=False, beyond_placebo=False):
        return [TERMS, NOT_BEYOND_PLACEBO]
    return [name for name, holds in parts.items() if holds]


def _within(claims: Claims, alpha: float) -> float | None:
    """Return the smallest margin within which all gaps are shown to be; because all must be, none is adjusted.

    A gap that cannot be separated from the effect of rewording must be within it also beyond the placebo's.
    """
    if not claims.may_be_equal or len(claims.gaps.names) < 2 or (claims.needs_placebo and BEYOND not in claims.rows):
        return None
    kinds = (GAPS, PAIRS, BEYOND) if claims.needs_placebo else (GAPS, PAIRS)
    margins = [claims.rows[kind].within(alpha) for kind in kinds if claims.rows[kind].names]
    return None if any(np.isnan(margins)) else finite(max(margins))


def _deciding(claims: Claims) -> list[str]:
    """Return the kinds of rows that decide a claim: the gaps, and those beyond the placebo if a claim takes it."""
    return [GAPS, *([BEYOND] if BEYOND in claims.rows and not claims.result.is_controlled else [])]


def _detectable(claims: Claims, families: Families) -> dict[str, float | None]:
    """Return the smallest difference between a group and all others that would be claimed in four of five such runs.

    The value is the median over groups with enough terms. If a claim takes the placebo, the difference must be found
    beyond it as well.
    """
    nothing: dict[str, float | None] = {"mde": None, "mde_se": None, "mde_se_terms_only": None}
    if not claims.is_tested:
        return nothing
    sizes = []
    for kind in _deciding(claims):
        rows, family = claims.rows[kind], families[kind]
        chosen = np.flatnonzero(rows.over_terms)
        errors = rows.rows.errors[chosen]
        if not len(chosen) or np.isnan(errors).any():
            return nothing
        apart = len(claims.facts) / max(1, len(claims.facts) - 1)  # one group apart by 1 has a gap of 1 − 1/G
        of_dialogues = np.sqrt(claims.rows[GAPS + OF_THESE_TERMS].rows.covariance.diagonal()[chosen])
        smallest = [rows.detectable(int(number), family) for number in chosen]
        sizes.append(tuple(float(np.median(some)) * apart for some in (smallest, errors, of_dialogues)))
    largest = max(sizes)
    return dict(zip(nothing, map(finite, largest), strict=True))


def _needed(claims: Claims, families: Families, p_values: Mapping[str, float]) -> dict[str, int]:
    """Return how many dialogues would claim the gap of each group that is suggestive, if it is as it was seen.

    Args:
        claims: of its axis and metric.
        families: in which it is claimed.
        p_values: group to the p-value of its claim.
    """
    needed = {}
    for number, name in enumerate(claims.gaps.names):
        if p_values.get(name, 1.0) >= SUGGESTIVE:
            continue
        growths = []
        for kind in _deciding(claims):
            rows, of_dialogues = claims.rows[kind], claims.rows[kind + OF_THESE_TERMS].rows.errors
            if name in rows.names:
                place = rows.names.index(name)
                growths.append(rows.growth(place, families[kind], float(of_dialogues[place])))
        dialogues = claims.gaps.affected[number][0].total
        if math.isfinite(growth := max(growths)) and growth * dialogues < MOST_NEEDED:
            needed[name] = math.ceil(growth * dialogues)
    return needed


def smallest_set(names: Sequence[str], gaps: Sequence[float], differ: Callable[[Sequence[str]], bool]) -> list[str]:
    """Return the smallest set of groups without which no difference is left among the others.

    This is closed testing over subsets of groups (Marcus, Peritz and Gabriel 1976). Of several sets of a size, the one
    that is farthest from the others is returned.

    Args:
        names: of the groups.
        gaps: of each, from the mean of groups.
        differ: returns whether some groups, two or more, are shown to differ among themselves.
    """
    size_of = dict(zip(names, gaps, strict=True))

    def distance(chosen: Sequence[str]) -> float:
        rest = [size_of[name] for name in names if name not in chosen]
        return abs(sum(size_of[name] for name in chosen) / len(chosen) - sum(rest) / len(rest))

    for size in range(1, len(names)):
        sets = [list(some) for some in combinations(names, size)]
        left = [some for some in sets if not differ([name for name in names if name not in some])]
        if left:
            return max(left, key=lambda some: (round(distance(some), 9), sum(size_of[name] for name in some)))
    return []


def negated(estimate: _Estimate) -> _Estimate:
    """The same estimate with the other sign, as a gap is seen from the other group."""
    changed: dict[str, Any] = {
        "value": None if estimate.value is None else -estimate.value,
        "ci": None if estimate.ci is None else (-estimate.ci[1], -estimate.ci[0]),
    }
    return estimate.model_copy(update=changed)
