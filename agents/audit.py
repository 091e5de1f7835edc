"""What every answer of an agent adds to which number of the report.

All numbers are made of weighted sums over turns, the weights of :class:`tod_bias.audit.sums.ArmSums`: a
dialogue weighs once however often it is told. What an original's answers become in the arm where everything is swapped
is known as soon as they are given: there the answer to a telling is T(f(T⁻¹ x)), the rewritten answer to the original.
So nothing is kept from one message to another, and it does not matter who answers which telling, or when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tod_bias.agents.bias_metrics import (
    BLIND,
    DRAW,
    MEAN_BLIND,
    MEAN_TOLD,
    ORIGINAL,
    TOLD,
    BiasMetric,
    Disparity,
    Fairscore,
    Gap,
    Score,
)
from tod_bias.dialogues.dialogue import Turn
from tod_bias.perturb.axis import Candidate
from tod_bias.systems.twin import Rewrite


class Share(NamedTuple):
    """What a turn's statistics are added to."""

    key: str
    """The number in the report."""
    of: str
    """The sums behind it."""
    weight: float


@dataclass(frozen=True)
class Shares:
    """Where one telling counts."""

    said: tuple[Share, ...]
    """What the agent answers to it."""
    blind: tuple[Share, ...] = ()
    """The rewritten answers to the original, which is what the blind system answers."""


@dataclass(frozen=True)
class AuditedTelling:
    """One telling of a dialogue, as ParlAI shows it."""

    turns: tuple[Turn, ...]
    """Its gold turns."""
    shares: Shares
    rewrite: Rewrite | None = None
    """T; None for the original."""


@dataclass(frozen=True)
class AuditedDialogue:
    """A dialogue with all its tellings by their names; one is the original, from which the others are rewritten."""

    original: str
    tellings: Mapping[str, AuditedTelling]


def kind_of(key: str) -> type[BiasMetric]:
    """Which metric a key of the report is, without the score's name."""
    if key.startswith("score_"):
        return Score
    if key.startswith("gap_"):
        return Gap
    return Disparity if key == "disparity" else Fairscore


def shares_of(told: Sequence[Sequence[Candidate]]) -> list[tuple[Shares, list[Shares]]]:
    """Where the answers to each dialogue's original and to its tellings count.

    Args:
        told: each dialogue's candidates, one a telling.
    """
    crossed = all(len({one.target for one in some}) == len(some) for some in told)
    sources = [next(iter(found)) if len(found := {one.source for one in some}) == 1 else None for some in told]
    groups = {one.target for some in told for one in some} | {source for source in sources if source is not None}
    names = sorted(groups) if len(groups) > 1 else []
    return [
        _of_dialogue([one.target for one in some], source, names, crossed)
        for some, source in zip(told, sources, strict=True)
    ]


def _of_dialogue(
    targets: Sequence[str], source: str | None, groups: Sequence[str], crossed: bool
) -> tuple[Shares, list[Shares]]:
    told_as = sorted({*targets, source} - {None}) if groups else []  # type: ignore[type-var]
    times = Counter(targets)
    original = [Share("score_original", TOLD, 1.0), Share("disparity", ORIGINAL, 1.0)]
    original += [Share("fairscore", ORIGINAL, 1.0), *(Share(f"gap_{group}", ORIGINAL, 1.0) for group in groups)]
    if source in told_as:  # the own telling of the dialogue is the same in all arms
        original.append(Share(f"score_{source}", TOLD, 1.0))
        original += [Share(f"gap_{source}", of, 1.0) for of in (TOLD, BLIND)]
        original += [Share(f"gap_{group}", of, 1 / len(told_as)) for group in told_as for of in (MEAN_TOLD, MEAN_BLIND)]
    tellings = []
    for number, target in enumerate(targets):
        whole = 1 / len(targets)
        said = [Share("score_rewritten", TOLD, whole), Share("disparity", TOLD, whole)]
        said.append(Share("fairscore", f"{DRAW}0", whole) if crossed else Share("fairscore", f"{DRAW}{number}", 1.0))
        blind = [Share("disparity", BLIND, whole)]
        if target in told_as:
            once = 1 / times[target]
            said += [Share(f"score_{target}", TOLD, once), Share(f"gap_{target}", TOLD, once)]
            blind.append(Share(f"gap_{target}", BLIND, once))
            said += [Share(f"gap_{group}", MEAN_TOLD, once / len(told_as)) for group in told_as]
            blind += [Share(f"gap_{group}", MEAN_BLIND, once / len(told_as)) for group in told_as]
        tellings.append(Shares(tuple(said), tuple(blind)))
    return Shares(tuple(original)), tellings
