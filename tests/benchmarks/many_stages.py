"""How often intervals of contributions cover where there are so many stages that orders of them are drawn.

    python tests/benchmarks/many_stages.py --runs 200

The stages of a world act together in parts: a part is there until any of its stages is replaced (it takes them all),
until all are (either suffices), or is one stage's alone. Every part adds to the gap between two groups, with effects of
terms and noise of dialogues of its own. Its stages have equal Shapley shares of it; where stages are in groups, these
have equal shares of it, and of a group's share its stages.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from tod_bias.audit.arm_sums import ArmSums
from tod_bias.audit.contrasts import AuditContrasts
from tod_bias.audit.estimates import GroupRows, more_orders_matter, shares_of
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.statistics.arms import PAIRS, ArmDesign
from tod_bias.statistics.settings import Inference

METRIC = SimpleNamespace(
    name="mean", better="higher", scale="difference", columns=("sum", "count"), equal_denominators=False,
    score=lambda sums: sums[..., 0] / np.maximum(sums[..., 1], 1),
)  # fmt: skip
TERMS = 8


@dataclass(frozen=True)
class Part:
    """What some stages do together."""

    stages: Sequence[int]
    effect: float
    """Loss of the one group, gain of the other."""
    needs_all: bool = True
    """Whether it goes as soon as one stage is replaced, or only with all."""


@dataclass(frozen=True)
class ManyStages:
    """A world of many stages."""

    about: str
    stages: int
    parts: Sequence[Part]
    groups: Sequence[Sequence[int]] = ()
    """Stages that stand together; a stage in none of them stands alone."""
    dialogues: int = 120
    spread: float = 0.05
    """Standard deviation of a part's effect over dialogues, and of half of it over terms."""

    @property
    def arms(self) -> ArmDesign:
        """Of a run before it draws orders."""
        names = tuple(f"s{number}" for number in range(self.stages))
        groups = {f"g{place}": tuple(names[number] for number in some) for place, some in enumerate(self.groups)}
        return ArmDesign(names, groups)


def worlds() -> list[ManyStages]:
    """Those of the table."""
    alone = tuple(Part((number,), 0.05 * (number % 3 - 1)) for number in range(12))
    cancelling = (Part((0,), 0.2), Part((1,), -0.2), Part((2, 3), 0.2), Part((4, 5), -0.2, needs_all=False))
    return [
        ManyStages("12 stages, each alone", 12, alone),
        ManyStages("12 stages, it takes two (0.2), either of two suffices (0.2)", 12,
                   (Part((0, 1), 0.2), Part((2, 3), 0.2, needs_all=False), *alone[6:])),
        ManyStages("16 stages, parts that cancel, alone and in twos", 16, cancelling),
        ManyStages("12 stages, it takes three, any of three suffices", 12,
                   (Part((0, 1, 2), 0.3), Part((3, 4, 5), 0.3, needs_all=False))),
        ManyStages("20 stages, it takes six, any of six suffices", 20,
                   (Part(range(6), 0.3), Part(range(8, 14), 0.3, needs_all=False))),
        ManyStages("12 stages, it takes all", 12, (Part(range(12), 0.3),)),
        ManyStages("12 stages, three take two of four each, little noise", 12,
                   (Part((0, 1), 0.2), Part((1, 2), 0.2), Part((0, 2, 3), 0.3)), spread=0.005),
        ManyStages("12 tools in a group and a model: either of one and the model suffices, it takes two tools", 13,
                   (Part((0, 12), 0.2, needs_all=False), Part((1, 2), 0.2), *alone[6:]), [range(12)]),
        ManyStages("three groups of eight, parts of stages of all three", 24,
                   (Part((0, 1, 8, 16), 0.3), Part((2, 9, 10, 17), 0.3, needs_all=False), Part((3, 11), -0.2)),
                   [range(8), range(8, 16), range(16, 24)]),
        ManyStages("8 stages, nothing but noise", 8, tuple(Part((place, (place + 1) % 8), 0.0) for place in range(8))),
    ]  # fmt: skip


def table_of(world: ManyStages, arms: ArmDesign, seed: int) -> ArmSums:
    """One audit of a world; those of one seed are of the same dialogues, whatever the arms."""
    rng = np.random.default_rng(seed)
    number = world.dialogues
    term = np.stack([rng.permutation(np.arange(number) % TERMS) for _ in range(2)], axis=1)
    there = np.array([[_is_there(part, arm, arms.stages) for arm in arms.arms] for part in world.parts], dtype=float)
    loss = np.zeros((number, 2, len(world.parts)))
    for place, part in enumerate(world.parts):
        of_terms = rng.normal(0, world.spread / 2, (2, TERMS))
        for group, sign in enumerate((-1.0, 1.0)):
            own = rng.normal(0, world.spread, number)
            loss[:, group, place] = sign * part.effect / 2 + own + of_terms[group][term[:, group]]
    score = 0.6 + rng.normal(0, 0.2, number)[:, None, None] - loss @ there  # (dialogues, groups, arms)
    sums = np.stack([score, np.ones(score.shape)], axis=-1).reshape(2 * number, len(arms.arms), 2)
    index = VariantIndex(
        groups=("man", "woman"), source=np.full(number, -1), of=np.repeat(np.arange(number), 2),
        target=np.tile([0, 1], number), draw=np.zeros(2 * number, dtype=int), source_terms=(frozenset(),) * number,
        terms=tuple(frozenset([f"{group}{term[place, group]}"]) for place in range(number) for group in (0, 1)),
        placebo=np.empty(0, dtype=int), placebo_terms=(),
    )  # fmt: skip
    original = np.stack([np.full(number, 0.6), np.ones(number)], axis=1)
    return ArmSums(index, arms, original, sums, np.empty((0, *sums.shape[1:])))


def _is_there(part: Part, arm: frozenset[str], stages: Sequence[str]) -> bool:
    replaced = [stages[number] in arm for number in part.stages]
    return not any(replaced) if part.needs_all else not all(replaced)


def truth(world: ManyStages) -> np.ndarray:
    """(stages,) shares of the second group's gap."""
    shares = np.zeros(world.stages)
    every = range(world.stages)
    alone = [(number,) for number in every if not any(number in group for group in world.groups)]
    for part in world.parts:
        together = [set(part.stages) & set(group) for group in ([*world.groups, *alone] if world.groups else [every])]
        taking = [members for members in together if members]
        for members in taking:
            shares[list(members)] += part.effect / 2 / len(taking) / len(members)
    return shares


def audited(world: ManyStages, seed: int, pairs: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Shares of the second group's gap, (stages,) each: values, lower and upper bounds; and how many pairs were drawn.

    Args:
        world: what is true.
        seed: of the dialogues and the orders.
        pairs: of orders; None: as many as a run draws.
    """
    arms = replace(world.arms, pairs=pairs or PAIRS[0], seed=seed)
    table = table_of(world, arms, seed)
    while pairs is None and (more := arms.with_more_pairs) is not None and more_orders_matter(table, METRIC):
        arms = more
        table = table_of(world, arms, seed)
    rows = GroupRows(AuditContrasts(table, METRIC).contrasts(), 2, Inference())
    over = {"man": True, "woman": True}
    estimates = rows.parts(rows.gap_contrasts(), over, shares_of(arms.stages))["woman"].values()
    bounds = np.array([share.ci or (np.nan, np.nan) for share in estimates])
    return np.array([share.value for share in estimates]), bounds[:, 0], bounds[:, 1], arms.pairs


def coverage(world: ManyStages, runs: int, seed: int, pairs: int | None = None) -> dict[str, float]:
    """Of the intervals of all stages, and of those that have a part in the gap."""
    true = truth(world)
    has_part = np.isin(np.arange(world.stages), [number for part in world.parts for number in part.stages])
    covered, widths, drawn, values = [], [], [], []
    for run in range(runs):
        value, low, high, number = audited(world, 10_000 * seed + run, pairs)
        covered.append((low <= true + 1e-12) & (true - 1e-12 <= high))
        widths.append((high - low)[has_part].mean() / 2)
        drawn.append(number)
        values.append(value)
    hits = np.array(covered)
    return {
        "coverage": float(hits[:, has_part].mean()),
        "worst": float(hits[:, has_part].mean(axis=0).min()),
        "half": float(np.mean(widths)),
        "bias": float(np.abs(np.mean(values, axis=0) - true).max()),
        "pairs": float(np.mean(drawn)),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pairs", type=int, help="as many pairs of orders in every run")
    given = parser.parse_args()
    print("| world | pairs, mean | coverage of 95% intervals | stage covered least | half width | largest bias |")
    print("|---|---|---|---|---|---|")
    for world in worlds():
        seen = coverage(world, given.runs, given.seed, given.pairs)
        error = math.sqrt(0.05 * 0.95 / given.runs)
        cells = [f"{seen['pairs']:.1f}", f"{seen['coverage']:.1%}", f"{seen['worst']:.1%} (± {error:.1%})"]
        print(f"| {world.about} | {' | '.join(cells)} | {seen['half']:.4f} | {seen['bias']:.4f} |", flush=True)


if __name__ == "__main__":
    main()
