"""Worlds in which the truth is known: crossed tables as an audit would sum them up, with effects that are planted.

A dialogue's responses match their references more or less well (dialogue effects). When it is told otherwise, every
component that is not swapped changes the precision of its n-grams by a group's effect, by a quirk about the word, and
by something of the dialogue's own; rewriting as such changes it in every arm alike (the artefact).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tod_bias.audit.arm_sums import ArmSums
from tod_bias.audit.claims import judge
from tod_bias.audit.estimates import AxisEstimates
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.results import AxisResult
from tod_bias.statistics.arms import ArmDesign, all_arms
from tod_bias.statistics.settings import Inference

STAGES = ("api_call", "db", "response")
METRIC = CorpusBleu()


@dataclass(frozen=True)
class World:
    """What is true, and how noisy it is; effects are shares of precision, positive where it falls."""

    dialogues: int = 130
    words: int = 60
    zipf: float = 0.5
    """Exponent of the frequencies of words."""
    groups: tuple[str, ...] = ("man", "woman")
    shares: tuple[float, ...] = ()
    """How often a dialogue is of each group; equally often if left out."""
    effects: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Stage to group to the effect of being rewritten for it."""
    every: Mapping[str, float] = field(default_factory=dict)
    """Component to the effect of any rewrite."""
    quirks: float = 0.0
    """Standard deviation of mean-zero effects of words, in the component ``response``."""
    also: int = 0
    """Further words that a dialogue mentions."""
    common: bool = False
    """Whether one more word stands in every dialogue."""
    own: float = 0.15
    """Standard deviation of what a component does to one counterfactual of one dialogue, in ``response``."""
    sparse: float = 1.0
    """Share of counterfactuals that react at all; effects are as much larger."""
    artefact: float = 0.0
    """Effect of rewriting as such, in every arm."""
    placebo: float | None = None
    """Standard deviation of what a placebo rewrite does to a dialogue; None: no placebo."""
    placebo_effect: float = 0.0
    """Mean of the same."""
    undeclared: Mapping[str, float] | None = None
    """Group to the effect of a component that is no stage: in every arm but that of the whole system's twin."""


def table_of(world: World, rng: np.random.Generator) -> ArmSums:
    """One audit of a world."""
    count, kinds = world.dialogues, len(world.groups)
    shares = np.array(world.shares or [1 / kinds] * kinds)
    source = rng.choice(kinds, count, p=shares / shares.sum())
    frequency = 1 / np.arange(1, world.words + 1) ** world.zipf
    frequency /= frequency.sum()
    word = rng.choice(world.words, count, p=frequency)
    of = np.repeat(np.arange(count), kinds)
    target = np.tile(np.arange(kinds), count)
    keep = target != source[of]
    of, target = of[keep], target[keep]
    tokens = rng.poisson(30, count) + 10.0
    precision = rng.beta(8, 8, count)[:, None] ** np.array([0.6, 1.0, 1.3, 1.6])  # of orders 1 to 4
    # a quirk belongs to the pair of words that a row holds: what one direction loses, the other gains
    quirk = rng.normal(0, world.quirks, world.words + 1)
    said = np.concatenate([word[:, None], rng.choice(world.words, (count, world.also), p=frequency)], axis=1)
    felt_of_words = quirk[said].mean(axis=1) + (quirk[world.words] if world.common else 0.0)
    direction = np.where(target > source[of], 1.0, -1.0) if kinds == 2 else np.ones(len(of))
    reacts = rng.random(len(of)) < world.sparse
    shift = np.zeros((len(STAGES), len(of)))
    for number, stage in enumerate(STAGES):
        effects = np.array([world.effects.get(stage, {}).get(name, 0.0) for name in world.groups])
        shift[number] = effects[target] - effects[source[of]] + world.every.get(stage, 0.0)
    place = STAGES.index("response")
    shift[place] += felt_of_words[of] * direction
    moved = [number == place or bool(shift[number].any()) for number in range(len(STAGES))]
    shift += rng.normal(0, world.own, shift.shape) * np.array(moved)[:, None]
    shift *= reacts / world.sparse
    arms = all_arms(STAGES)
    open_stages = np.array([[stage not in arm for stage in STAGES] for arm in arms], dtype=float)
    total = open_stages @ shift  # (arms, counterfactuals)
    if world.undeclared is not None:
        effect = np.array([world.undeclared.get(name, 0.0) for name in world.groups])
        hidden = effect[target] - effect[source[of]] + rng.normal(0, world.own, len(of))
        total = np.concatenate([total + hidden, np.zeros((1, len(of)))])
    told = _statistics(tokens[of], precision[of], total.T + world.artefact)
    original = _statistics(tokens, precision, np.zeros((count, 1)))[:, 0]
    placebo_of = np.arange(count) if world.placebo is not None else np.empty(0, dtype=int)
    felt = rng.normal(world.placebo_effect, world.placebo or 0.0, len(placebo_of))
    swapped = np.array(["response" in arm for arm in arms] + [True] * (world.undeclared is not None))
    placebo = _statistics(tokens[placebo_of], precision[placebo_of], np.where(swapped, 0.0, felt[:, None]))
    names = [frozenset(f"w{number}" for number in (*row, *([world.words] if world.common else []))) for row in said]
    return ArmSums(
        VariantIndex(
            groups=world.groups, source=source, of=of, target=target, draw=np.zeros(len(of), dtype=int),
            source_terms=tuple(names), terms=tuple(names[number] for number in of), placebo=placebo_of,
            placebo_terms=tuple(f"p{number % 40}" for number in placebo_of),
        ),
        ArmDesign(STAGES), original, told, placebo,
    )  # fmt: skip


def _statistics(tokens: np.ndarray, precision: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """BLEU statistics (units, arms, 10) of responses whose precisions lose a share."""
    totals = np.maximum(tokens[:, None] - np.arange(4), 0)  # (units, 4)
    kept = np.clip(precision[:, None, :] * (1 - loss[:, :, None]), 0, 1)
    correct = kept * totals[:, None]
    ones = np.ones((*loss.shape, 1))
    return np.concatenate(
        [correct, totals[:, None] * ones, tokens[:, None, None] * ones, tokens[:, None, None] * ones], -1
    )


def audit(
    tables: Sequence[ArmSums],
    seed: int,
    *,
    resamples: int = 200,
    permutations: int = 2000,
    margin: float | None = None,
) -> list[AxisResult]:
    """What is said of several axes in one run."""
    inference = Inference(resamples=resamples, permutations=permutations, seed=seed)
    drafts = [AxisEstimates(table, METRIC, STAGES, inference).claims() for table in tables]
    return judge(drafts, [], alpha=0.05, margin=margin, seed=seed)
