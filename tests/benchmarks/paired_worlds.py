"""Two runs on the same dialogues in worlds in which the truth is known: how often intervals of changes cover it.

    python tests/benchmarks/paired_worlds.py --runs 2000

The second run shares the dialogues, their lengths, and a part of what the first does to single words and
counterfactuals, as two systems of one family do; it may be better on average, and harm a group less. Everything is
drawn by ``--seed``.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from audited_worlds import METRIC, STAGES

from tod_bias.audit.arm_sums import ArmSums
from tod_bias.audit.comparison import AxisDifference, Matched, quality_of
from tod_bias.audit.tested_changes import tested_changes
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.changes import AxisChange, Change
from tod_bias.statistics.arms import ArmDesign, all_arms
from tod_bias.statistics.settings import Inference

RUNS = ("before", "after")


@dataclass(frozen=True)
class Pair:
    """What is true of two runs; effects are shares of precision, positive where it falls."""

    dialogues: int = 130
    words: int = 60
    zipf: float = 0.5
    effects: tuple[Mapping[str, float], Mapping[str, float]] = field(default_factory=lambda: ({}, {}))
    """Component to the effect of the group woman, by run."""
    quirks: float = 0.0
    """Standard deviation of mean-zero effects of words, in ``response``, of either run."""
    own: float = 0.15
    """Standard deviation of what ``response`` does to one counterfactual of one dialogue."""
    shared: float = 0.5
    """Correlation of quirks and counterfactuals between the runs."""
    quality: float = 0.0
    """How much more precise the second run is on average, on the scale of a logit."""
    both_ways: bool = True
    """Whether there are dialogues of both attributes; else all are a man's."""


def tables_of(pair: Pair, rng: np.random.Generator) -> tuple[ArmSums, ArmSums]:
    """Both runs' tables of one axis (man, woman)."""
    count = pair.dialogues
    source = rng.integers(0, 2, count) if pair.both_ways else np.zeros(count, dtype=int)
    frequency = 1 / np.arange(1, pair.words + 1) ** pair.zipf
    word = rng.choice(pair.words, count, p=frequency / frequency.sum())
    target = 1 - source
    tokens = rng.poisson(30, count) + 10.0
    base = rng.normal(0, 0.5, count)
    direction = np.where(target > source, 1.0, -1.0) if pair.both_ways else np.ones(count)
    common = math.sqrt(pair.shared), math.sqrt(1 - pair.shared)
    quirk_of_both, felt_by_both = rng.normal(0, pair.quirks, pair.words), rng.normal(0, pair.own, count)
    arms = all_arms(STAGES)
    open_stages = np.array([[stage not in arm for stage in STAGES] for arm in arms], dtype=float)
    labels = tuple(f"w{number}" for number in word)
    told = VariantIndex(
        groups=("man", "woman"), source=source, of=np.arange(count), target=target,
        draw=np.zeros(count, dtype=int), source_terms=tuple(frozenset([label]) for label in labels),
        terms=tuple(frozenset([label]) for label in labels),
        placebo=np.empty(0, dtype=int), placebo_terms=(),
    )  # fmt: skip
    tables = []
    for number in range(2):
        quirk = common[0] * quirk_of_both + common[1] * rng.normal(0, pair.quirks, pair.words)
        felt = common[0] * felt_by_both + common[1] * rng.normal(0, pair.own, count)
        logit = base + rng.normal(0, 0.3, count) + number * pair.quality
        precision = (1 / (1 + np.exp(-logit)))[:, None] ** np.array([0.6, 1.0, 1.3, 1.6])
        shift = np.zeros((len(STAGES), count))
        for place, stage in enumerate(STAGES):
            shift[place] = pair.effects[number].get(stage, 0.0) * (target - source)
        shift[STAGES.index("response")] += quirk[word] * direction + felt
        loss = (open_stages @ shift).T
        original = _statistics(tokens, precision, np.zeros((count, 1)))[:, 0]
        rewritten = _statistics(tokens, precision, loss)
        tables.append(
            ArmSums(told, ArmDesign(STAGES), original, rewritten, np.empty((0, len(arms), rewritten.shape[2])))
        )
    return tables[0], tables[1]


def _statistics(tokens: np.ndarray, precision: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """BLEU statistics (units, arms, 10) of responses whose precisions lose a share."""
    totals = np.maximum(tokens[:, None] - np.arange(4), 0)
    correct = np.clip(precision[:, None, :] * (1 - loss[:, :, None]), 0, 1) * totals[:, None]
    ones = np.ones((*loss.shape, 1))
    return np.concatenate(
        [correct, totals[:, None] * ones, tokens[:, None, None] * ones, tokens[:, None, None] * ones], -1
    )


def changes_of(
    tables: tuple[ArmSums, ArmSums],
    seed: int,
    *,
    resamples: int = 200,
    permutations: int = 500,
    margin: float | None = None,
) -> tuple[Change, AxisChange]:
    """What is said of the quality and of an axis."""
    inference = Inference(resamples=resamples, permutations=permutations, seed=seed)
    draft = AxisDifference("gender", METRIC, tables, STAGES, inference, (margin, margin))
    dialogues = tuple((str(number), "") for number in range(tables[0].variants.dialogues))
    pair = Matched({METRIC.name: tables[0]}, {METRIC.name: tables[1]}, dialogues, 0)
    quality = quality_of(METRIC, {"gender": pair}, margin, inference)
    assert quality is not None
    of_scores, *changes = tested_changes([quality, *draft.rows], 0.05, seed)
    return of_scores["quality"], draft.result(changes)


def entries(quality: Change, axis: AxisChange) -> Iterator[tuple[str, Change]]:
    """All changes by name."""
    yield "quality", quality
    yield "disparity", axis.disparity
    for name, part in axis.contributions.items():
        yield f"contribution {name}", part
    for name, group in axis.groups.items():
        yield f"gap {name}", group.gap
        yield f"score {name}", group.score


def truth(pair: Pair, seed: int, dialogues: int = 20_000) -> dict[str, float]:
    """The changes that estimates tend to: of very many dialogues and words."""
    large = replace(pair, dialogues=dialogues, words=3000 if pair.quirks else 200, zipf=0.0 if pair.quirks else 0.5)
    found = changes_of(tables_of(large, np.random.default_rng([seed, 99])), seed, resamples=0, permutations=20)
    return {name: part.change.value for name, part in entries(*found)}


@dataclass
class Seen:
    """What the runs of one case came to."""

    true: dict[str, float]
    covered: dict[str, list[bool]] = field(default_factory=dict)
    verdicts: dict[str, list[str]] = field(default_factory=dict)

    def share(self, name: str) -> float:
        """How often the intervals of what begins so cover the truth."""
        return float(np.mean([hit for own, hits in self.covered.items() if own.startswith(name) for hit in hits]))

    def said(self, name: str, verdict: str) -> float:
        """How often a verdict is given."""
        return float(np.mean([one == verdict for one in self.verdicts[name]]))


def run(
    pair: Pair, runs: int, seed: int, *, resamples: int = 200, margin: float | None = None, dialogues: int = 20_000
) -> Seen:
    """All runs of one case, and the truth, of so many dialogues."""
    seen = Seen(truth(pair, seed, dialogues))
    for number in range(runs):
        tables = tables_of(pair, np.random.default_rng([seed, number]))
        for name, part in entries(*changes_of(tables, number, resamples=resamples, margin=margin)):
            true = seen.true[name]
            bounds = part.change.ci
            if bounds is not None and bounds[0] < bounds[1]:
                seen.covered.setdefault(name, []).append(bounds[0] <= true <= bounds[1])
            if part.verdict:
                seen.verdicts.setdefault(name, []).append(part.verdict)
    return seen


def cases() -> dict[str, Pair]:
    """All cases by name."""
    mended = {"response": 0.15}, {"response": 0.02}
    return {
        "nothing changes, 130 dialogues": Pair(),
        "nothing changes, 500 dialogues": Pair(dialogues=500),
        "women .1 worse in both": Pair(effects=({"response": 0.1}, {"response": 0.1})),
        "mended, better on average": Pair(effects=mended, quality=0.3),
        "mended, all dialogues a man's": Pair(effects=mended, both_ways=False, dialogues=300),
        "quirks of 20 Zipf words, sd .1": Pair(
            effects=mended, quirks=0.1, words=20, zipf=1.0, both_ways=False, dialogues=300
        ),
        "quirks of 60 words, sd .1": Pair(effects=mended, quirks=0.1, both_ways=False, dialogues=300),
    }


KINDS = ("quality", "disparity", "contribution", "gap", "score")


def row(name: str, pair: Pair, runs: int, seed: int) -> str:
    """What the table says of a case."""
    seen = run(pair, runs, seed)
    cells = [f"{seen.share(kind):.3f}" for kind in KINDS]
    cells.append(f"{seen.true['gap woman']:+.3f}")
    cells += [f"{seen.said('gap woman', verdict):.3f}" for verdict in ("better", "worse")]
    return "| " + " | ".join([name, *cells]) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    header = ["world", *KINDS, "true change, woman's gap", "said better", "said worse"]
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for name, pair in cases().items():
        print(row(name, pair, options.runs, options.seed), flush=True)
    error = math.sqrt(0.05 * 0.95 / options.runs)
    print(f"\n{options.runs} runs a world; a share of .95 has a standard error of {error:.3f}; "
          f"{time.monotonic() - started:.0f} s.")  # fmt: skip


if __name__ == "__main__":
    main()
