"""Which sums of the report every output of an agent is added to.

All numbers are made of weighted sums over turns, with the weights of :class:`tod_bias.audit.sums.ArmSums`: a dialogue
weighs once however many counterfactuals it has. The outputs of the twin of the whole system are known as soon as the
agent has replied to the original: its output for a counterfactual is T(f(T⁻¹ x)), the rewritten output for the
original. So nothing is stored between messages, and neither the order of the variants nor their distribution over
workers changes a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tod_bias.agents.bias_metrics import (
    DRAW,
    MEAN_REWRITTEN,
    MEAN_TWIN,
    ORIGINAL,
    REWRITTEN,
    TWIN,
    BiasMetric,
    DisparityMetric,
    FairscoreMetric,
    GapMetric,
    ScoreMetric,
)
from tod_bias.dialogues.dialogue import Turn
from tod_bias.perturb.axis import Candidate
from tod_bias.systems.twin import Rewrite


class Addend(NamedTuple):
    """A sum that a turn's statistics are added to."""

    key: str
    """The number in the report."""
    sums: str
    """Which of the sums behind it."""
    weight: float


@dataclass(frozen=True)
class AuditedVariant:
    """One variant of a dialogue, as ParlAI shows it, with every sum that it is added to."""

    turns: tuple[Turn, ...]
    """Its gold turns."""
    rewrite: Rewrite | None
    """T; None for the original, from which the other variants are rewritten."""
    system: Sequence[Addend]
    """What the agent's outputs for it are added to."""
    twin: Sequence[Addend] = ()
    """What the rewritten outputs for the original are added to, which are the outputs of the twin of the whole
    system."""


def metric_class_of(key: str) -> type[BiasMetric]:
    """Which metric a key of the report is, without the score's name."""
    if key.startswith("score_"):
        return ScoreMetric
    if key.startswith("gap_"):
        return GapMetric
    return DisparityMetric if key == "disparity" else FairscoreMetric


SystemAndTwin = tuple[list[Addend], list[Addend]]
"""The sums that an agent's outputs for a variant are added to, and those of its twin's."""


def addends_of(selected: Sequence[Sequence[Candidate]]) -> list[list[SystemAndTwin]]:
    """What each dialogue's original, and then each of its counterfactuals, are added to.

    Args:
        selected: each dialogue's candidates, one per counterfactual.
    """
    targets = [[candidate.target for candidate in candidates] for candidates in selected]
    sources = [_only_source(candidates) for candidates in selected]
    crossed = all(len(set(names)) == len(names) for names in targets)
    groups = {name for names in targets for name in names} | {source for source in sources if source is not None}
    has_groups = len(groups) > 1
    addends = []
    for names, source in zip(targets, sources, strict=True):
        expressed = {*names} if source is None else {*names, source}
        present = sorted(expressed) if has_groups else []
        original = _of_original(source, present, sorted(groups) if has_groups else [])
        addends.append([(original, []), *_of_counterfactuals(names, present, crossed=crossed)])
    return addends


def _only_source(candidates: Sequence[Candidate]) -> str | None:
    """The group that the original expresses; None where it expresses several."""
    sources = {candidate.source for candidate in candidates}
    return next(iter(sources)) if len(sources) == 1 else None


def _of_original(source: str | None, present: Sequence[str], groups: Sequence[str]) -> list[Addend]:
    """What an original is added to.

    Args:
        source: the group that it expresses.
        present: groups that the original or a counterfactual expresses.
        groups: all groups of the report.
    """
    addends = [Addend("score_original", REWRITTEN, 1.0), Addend("disparity", ORIGINAL, 1.0)]
    addends += [Addend("fairscore", ORIGINAL, 1.0), *(Addend(f"gap_{group}", ORIGINAL, 1.0) for group in groups)]
    if source in present:  # the original is the variant of its group, and the same in all arms
        addends.append(Addend(f"score_{source}", REWRITTEN, 1.0))
        addends += [Addend(f"gap_{source}", sums, 1.0) for sums in (REWRITTEN, TWIN)]
        addends += [
            Addend(f"gap_{group}", sums, 1 / len(present)) for group in present for sums in (MEAN_REWRITTEN, MEAN_TWIN)
        ]
    return addends


def _of_counterfactuals(targets: Sequence[str], present: Sequence[str], *, crossed: bool) -> list[SystemAndTwin]:
    """What the counterfactuals of a dialogue, one per target, are added to."""
    times = Counter(targets)
    whole = 1 / len(targets)
    addends = []
    for number, target in enumerate(targets):
        system = [Addend("score_rewritten", REWRITTEN, whole), Addend("disparity", REWRITTEN, whole)]
        system.append(
            Addend("fairscore", f"{DRAW}0", whole) if crossed else Addend("fairscore", f"{DRAW}{number}", 1.0)
        )
        twin = [Addend("disparity", TWIN, whole)]
        if target in present:
            weight = 1 / times[target]
            system += [Addend(f"score_{target}", REWRITTEN, weight), Addend(f"gap_{target}", REWRITTEN, weight)]
            twin.append(Addend(f"gap_{target}", TWIN, weight))
            system += [Addend(f"gap_{group}", MEAN_REWRITTEN, weight / len(present)) for group in present]
            twin += [Addend(f"gap_{group}", MEAN_TWIN, weight / len(present)) for group in present]
        addends.append((system, twin))
    return addends
