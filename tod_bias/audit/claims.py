"""What may be claimed: one correction over all axes and metrics, and a verdict an axis and metric.

Every axis and metric is one family, in which the disparity and the gap of every group are tested jointly; Holm's
procedure runs over the families. Within a family a single gap is claimed only behind it, at the level that Holm's step
has left. The placebo claims nothing and is no member.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tod_bias.statistics.adjustment import over_families
from tod_bias.statistics.needed import ENOUGH_WORDS
from tod_bias.statistics.power import equivalent_within
from tod_bias.statistics.record import finite

DISPARITY = "disparity"
"""A group is served differently: the finding survives other words, and is above the placebo where there is one."""
THESE_WORDS = "these words only"
"""A difference, of these words; too few stand for a group, or others might not show it."""
EQUIVALENT = "equivalent"
"""The disparity and every gap, of groups and of pairs, lie within the margin (two one-sided tests)."""
INCONCLUSIVE = "inconclusive"
"""Neither a difference nor its absence is shown."""
FLOOR = "floor"
"""The placebo: what any rewording does."""

TESTS = "tests"
"""Nothing was tested: there are no permutations, or the metric takes a placebo and there is none."""
WORDS = "words"
"""It is true of these words, which are too few to stand for a group."""
OTHER_WORDS = "other words"
"""It is true of these words, and differs too much between them to hold for others."""
PLACEBO = "placebo"
"""It is there, and is not told from what the placebo does in the same dialogues."""
UNMEASURED = "nothing measured"
"""The run measures nothing here: :mod:`tod_bias.audit.measured`."""
OTHER_TESTS = "other tests"
"""It would be claimed were it the only axis and metric."""


@dataclass
class Claim:
    """Something that may be claimed: where it is written, and what speaks for it."""

    record: dict[str, Any]
    """Where its ``p_holm`` goes."""
    p: float = 1.0
    """With words as a sample, for its family within the axis; above the placebo where there is one."""
    p_these_words: float = 1.0
    """The same with words as they are."""
    p_bare: float = 1.0
    """With words as a sample, whatever the placebo does."""
    p_bare_these_words: float = 1.0
    """The same with words as they are."""
    words: float = math.inf
    """Effective words that it rests on."""
    tested: bool = True
    """Whether there are p-values at all."""


@dataclass
class AxisReport:
    """What ``results.json`` says of an axis and metric, and the claims in it that are still to be adjusted."""

    record: dict[str, Any]
    disparity: Claim
    groups: dict[str, Claim] = field(default_factory=dict)
    pairs: dict[str, Claim] = field(default_factory=dict)
    effects: dict[str, Claim] = field(default_factory=dict)
    """Main effects of crossed attributes, and interactions."""
    bounds: dict[str, tuple[float, float, float, int]] = field(default_factory=dict)
    """Disparity, gaps and pairs, each with standard error, degrees of freedom, dialogues: for tests of equivalence."""

    unmeasured: str = ""
    """Why nothing is measured here; empty where something is."""
    may_be_equal: bool = True
    """Whether equivalence can be shown at all: there are clusters enough, and a score above 0."""

    @property
    def behind(self) -> list[Claim]:
        """What is claimed only where the family is."""
        return [*self.pairs.values(), *self.effects.values()]

    @property
    def family(self) -> list[Claim]:
        """The disparity and every group's gap: one family, as any of them is a disparity of the axis."""
        return [self.disparity, *self.groups.values()]


def judge(
    reports: Sequence[AxisReport], floors: Sequence[AxisReport], *, alpha: float, margin: float | None = None
) -> None:
    """Write ``p_holm``, ``p_these_words`` (the same with words as they are), ``equivalent_within``, ``verdict`` and
    ``short_of``: what a disparity of a group would take that is not there.

    Args:
        reports: all axes and metrics that may claim something.
        floors: those of the placebo.
        alpha: the family-wise error rate of everything that is claimed.
        margin: differences up to this are called equivalent, on the scale of each metric's disparity.
    """
    for report in reports:
        if report.unmeasured:
            report.record["unmeasured"] = report.unmeasured
            report.may_be_equal = False
            for claim in (*report.family, *report.behind):
                claim.tested, claim.p, claim.p_these_words = False, 1.0, 1.0
    adjusted = _over(reports, lambda claim: claim.p)
    these_words = _over(reports, lambda claim: claim.p_these_words)
    for number, report in enumerate(reports):
        found = adjusted[number]
        for claim in (*report.family, *report.behind):
            if claim.tested:
                claim.record["p_holm"] = found[id(claim)]
                claim.record["p_these_words"] = these_words[number][id(claim)]
        if report.groups and report.disparity.tested:
            smallest = min(report.family, key=lambda claim: claim.p)
            report.record["omnibus"] = {"p_value": smallest.p, "p_holm": found[id(smallest)]}
        _equivalence(report, alpha)
        verdict = report.record["verdict"] = _verdict(report, found, these_words[number], alpha, margin)
        if verdict in (THESE_WORDS, INCONCLUSIVE):
            report.record["short_of"] = _short_of(reports, number, alpha)
    for report in floors:
        _equivalence(report, alpha)
        report.record["verdict"] = FLOOR


def _over(reports: Sequence[AxisReport], p_of: Callable[[Claim], float]) -> list[dict[int, float]]:
    """Adjusted p-values of all claims of every report, by the claim's identity."""
    steps = over_families([min(p_of(claim) for claim in report.family) for report in reports])
    return [
        {id(claim): min(1.0, max(floor, factor * p_of(claim))) for claim in (*report.family, *report.behind)}
        for report, (floor, factor) in zip(reports, steps, strict=True)
    ]


def _short_of(reports: Sequence[AxisReport], number: int, alpha: float) -> list[str]:
    """What alone stands between a report and a disparity; of the others everything stays as it is."""
    report = reports[number]
    if report.unmeasured:
        return [UNMEASURED]
    tested = [claim for claim in report.family if claim.tested]
    if not tested:
        return [TESTS]

    ours = {id(claim) for claim in tested}

    def any_if(p_of: Callable[[Claim], float], *, enough: bool) -> bool:
        changed = _over(reports, lambda claim: p_of(claim) if id(claim) in ours else claim.p)[number]
        return any(changed[id(claim)] < alpha for claim in tested if (claim.words >= ENOUGH_WORDS) is enough)

    parts = {
        WORDS: any_if(lambda claim: claim.p_these_words, enough=False),
        OTHER_WORDS: any_if(lambda claim: claim.p_these_words, enough=True),
        PLACEBO: any_if(lambda claim: claim.p_bare, enough=True),
        OTHER_TESTS: any(claim.p < alpha for claim in tested if claim.words >= ENOUGH_WORDS),
    }
    if not any(parts.values()) and any_if(lambda claim: claim.p_bare_these_words, enough=False):
        return [WORDS, PLACEBO]
    return [name for name, holds in parts.items() if holds]


def _equivalence(report: AxisReport, alpha: float) -> None:
    """The smallest margin within which the disparity and all gaps are shown to lie; all must, so none is adjusted."""
    margins = [equivalent_within(*bounds, alpha=alpha) for bounds in report.bounds.values()]
    report.record["disparity"]["equivalent_within"] = None
    if all(finite(one) is not None for one in margins) and report.may_be_equal:
        report.record["disparity"]["equivalent_within"] = max(margins)


def _verdict(
    report: AxisReport,
    found: Mapping[int, float],
    these_words: Mapping[int, float],
    alpha: float,
    margin: float | None,
) -> str:
    within = report.record["disparity"]["equivalent_within"]
    if margin is not None and within is not None and within <= margin:
        return EQUIVALENT

    def claimed(claim: Claim) -> bool:
        return claim.tested and found[id(claim)] < alpha

    if any(claimed(claim) and claim.words >= ENOUGH_WORDS for claim in report.family):
        return DISPARITY
    if any(claimed(claim) or (claim.tested and these_words[id(claim)] < alpha) for claim in report.family):
        return THESE_WORDS
    return INCONCLUSIVE
