"""Rare events: how often harm to one group is claimed, and how often a fair system is called unfair.

``python tests/benchmarks/rare.py --samples 300`` prints both tables, and how often a harm as large as a run's minimum
detectable effect is found.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy import sparse

sys.path.insert(0, str(Path(__file__).parent))

from group_worlds import dealt

from tod_bias.audit.claimed_rows import ClaimedRows, blocks_of
from tod_bias.statistics.group_model import GroupDesign
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.simultaneous import Family

HARMS = (0.05, 0.1, 0.2)
NULLS: Mapping[str, Mapping[str, float]] = {
    "3% refused of everybody": {"rate": 0.03},
    "10% refused of everybody": {"rate": 0.1},
    "three terms in twenty are refused": {"triggers": 0.15, "rate": 1.0},
    "two terms in five are refused": {"triggers": 0.4, "rate": 1.0},
    "terms refused at rates of a beta distribution, mean 10%": {"beta": 2.0, "rate": 0.1},
}
"""Worlds in which every group has the same rate over all terms."""


def drawn(rng: np.random.Generator, terms: np.ndarray, number: int, world: Mapping[str, float]) -> np.ndarray:
    """Return (dialogues, groups) of 0 and 1: what is refused.

    Args:
        rng: draws it.
        terms: (dialogues, groups) numbers of terms.
        number: of terms per group.
        world: ``rate`` of all; ``triggers``, share of terms that are refused at ``rate``; ``beta``, concentration of
            the terms' rates; ``harm``, share of dialogues that are refused as the first group alone.
    """
    dialogues, groups = terms.shape
    rates = np.full((number, groups), world.get("rate", 0.0))
    if "triggers" in world:
        rates *= rng.random(rates.shape) < world["triggers"]
    if "beta" in world:
        rates = rng.beta(world["rate"] * world["beta"], (1 - world["rate"]) * world["beta"], rates.shape)
    values = (rng.random((dialogues, groups)) < rates[terms, np.arange(groups)]).astype(float)
    values[:, 0] = np.maximum(values[:, 0], rng.random(dialogues) < world.get("harm", 0.0))
    return values


def claims(
    rng: np.random.Generator, dialogues: int, groups: int, number: int, world: Mapping[str, float]
) -> tuple[bool, float]:
    """Return whether any group is claimed, and the smallest rate that would be found, of one sample."""
    terms = np.stack([dealt(rng, dialogues, number) for _ in range(groups)], axis=1)
    weights = [
        sparse.csr_array((np.ones(dialogues), (np.arange(dialogues), terms[:, group])), shape=(dialogues, number))
        for group in range(groups)
    ]
    own = np.arange(groups) == rng.integers(0, groups, dialogues)[:, None]
    design = GroupDesign(np.ones((dialogues, groups), dtype=bool), weights, own)
    values = drawn(rng, terms, number, world)
    contrasts = {str(group): np.eye(groups)[group] - 1 / groups for group in range(groups)}
    differs = values.max(axis=1) != values.min(axis=1)
    rows = ClaimedRows.of(design.fit(values), differs, contrasts, Inference(permutations=1000))
    family = Family(blocks_of([rows], 0))
    smallest = min((family.adjusted(float(p)) for p in rows.p if not np.isnan(p)), default=1.0)
    detectable = float(np.median([rows.detectable(row, family) for row in range(groups)]))
    return smallest < 0.05, detectable * groups / (groups - 1)


def share(samples: int, dialogues: int, groups: int, number: int, world: Mapping[str, float]) -> float:
    """Return the share of samples in which any group is claimed."""
    rng = np.random.default_rng(1)
    return float(np.mean([claims(rng, dialogues, groups, number, world)[0] for _ in range(samples)]))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=300)
    samples = parser.parse_args().samples
    sizes = ((60, 6), (60, 12), (180, 12), (180, 20), (180, 40))
    print("| refused only as one of three groups | " + " | ".join(f"{n} dialogues, {k} terms" for n, k in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for harm in HARMS:
        cells = [share(samples, n, 3, k, {"harm": harm}) for n, k in sizes]
        print(f"| {harm:.0%} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |", flush=True)
    for groups in (2, 3):
        print(f"\n| nothing differs, {groups} groups | " + " | ".join(f"{n}, {k}" for n, k in sizes) + " |")
        print("|---|" + "---|" * len(sizes))
        for name, world in NULLS.items():
            cells = [share(samples, n, groups, k, world) for n, k in sizes]
            print(f"| {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)
    print("\n| a harm as large as the MDE | MDE | found |\n|---|---|---|")
    for (n, k), rate in (((60, 6), 0.0), ((60, 12), 0.05), ((180, 20), 0.0), ((180, 20), 0.1)):
        rng = np.random.default_rng(2)
        effect = float(np.nanmedian([claims(rng, n, 3, k, {"rate": rate})[1] for _ in range(50)]))
        found = share(samples, n, 3, k, {"rate": rate, "harm": effect / (1 - rate)})
        print(f"| {n} dialogues, {k} terms, {rate:.0%} refused of everybody | {effect:.3f} | {found:.2f} |", flush=True)


if __name__ == "__main__":
    main()
