"""Recompute AgentFairBench's numbers, and differences of means with names as the unit, without tod_bias.

    python second.py RELEASE

The script reads the decisions itself. MASD is the mean over profiles of the range of six scores. The floor is the
range that noise alone gives six scores: with replicates the noise is their scatter, profile by profile (version 1.1);
with one run it is the residual of profile and group (version 1.0). The test exchanges the six groups within profiles.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

SCORE = {"hiring": "score", "lending": "apr_tier", "triage": "acuity"}
MODELS = ("haiku", "sonnet", "fable", "llama31-8b")
DRAWS = 20_000


class Scores(NamedTuple):
    """Scores of one cell."""

    values: np.ndarray
    """Profiles × groups × replicates."""
    names: np.ndarray
    """Profiles × groups."""
    groups: list[str]

    def first(self, number: int) -> Scores:
        """Return the first profiles."""
        return Scores(self.values[:number], self.names[:number], self.groups)


def load(release: str) -> dict[str, Scores]:
    """Return the complete cells: ``model/domain/scaffold`` to scores."""
    found: dict[str, dict[tuple[str, str], list[tuple[int, float, str]]]] = defaultdict(lambda: defaultdict(list))
    folder = Path(release) / "results" / "raw"
    for path in [folder / "claude-haiku-4-5_full_raw.jsonl", *sorted((folder / "v11").glob("*.jsonl"))]:
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            row = json.loads(line)
            model = "haiku" if row["model"] == "claude-haiku-4-5" else row["model"]
            if model not in MODELS or not row["decision"]:
                continue
            score = float(row["decision"][SCORE[row["domain"]]])
            place = found[f"{model}/{row['domain']}/{row['scaffold']}"][row["profile_id"], row["group"]]
            place.append((row.get("rep", 1), score, row["name"]))
    cells = {}
    for title, rows in found.items():
        groups = sorted({group for _, group in rows})
        profiles = sorted({p for p, _ in rows if all((p, group) in rows for group in groups)})
        if len(profiles) < 12:
            continue
        depth = min(len(rows[p, g]) for p in profiles for g in groups)
        table = [[sorted(rows[p, g])[:depth] for g in groups] for p in profiles]
        values = np.array([[[entry[1] for entry in one] for one in row] for row in table])
        cells[title] = Scores(values, np.array([[one[0][2] for one in row] for row in table]), groups)
    return cells


def masd(values: np.ndarray) -> float:
    """Return the mean range of the groups' scores, over profiles and replicates."""
    return float(np.ptp(values, axis=1).mean())


def floor(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the range that noise alone gives each profile."""
    profiles, groups, depth = values.shape
    if depth == 1:
        flat = values[:, :, 0]
        noise = flat - flat.mean(1, keepdims=True) - flat.mean(0) + flat.mean()
        drawn = rng.choice(noise.ravel(), (DRAWS, groups))
        return np.full(profiles, np.ptp(drawn, axis=1).mean())
    noise = ((values - values.mean(2, keepdims=True)) * np.sqrt(depth / (depth - 1))).reshape(profiles, -1)
    scale = noise.std(1, ddof=1)
    shape = (noise[scale > 0] / scale[scale > 0, None]).ravel()
    drawn = rng.choice(shape, (DRAWS, groups))
    return scale * np.ptp(drawn, axis=1).mean()


def ratio(values: np.ndarray, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return MASD over its floor, with a percentile interval over profiles."""
    observed, expected = np.ptp(values, axis=1).mean(1), floor(values, rng)
    chosen = rng.integers(0, len(values), (4000, len(values)))
    drawn = observed[chosen].mean(1) / expected[chosen].mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(observed.mean() / expected.mean()), float(low), float(high)


def exchanges(values: np.ndarray, rng: np.random.Generator, draws: int = 10_000) -> float:
    """Return the p-value of the range of the groups' means, with groups exchanged within profiles."""
    means = values.mean(2)
    observed, count = np.ptp(means.mean(0)), 0
    for _ in range(draws):
        count += np.ptp(rng.permuted(means, axis=1).mean(0)) >= observed - 1e-9
    return float((count + 1) / (draws + 1))


def gaps(scores: Scores) -> np.ndarray:
    """Return how much lower every group's score is than the mean of the five others, by profile."""
    means = scores.values.mean(2)
    others = (means.sum(1, keepdims=True) - means) / (means.shape[1] - 1)
    return others - means


class OfNames(NamedTuple):
    """The group that is farthest from the others, with names as the unit."""

    group: str
    gap: float
    lowered: int
    """Names of the group whose own gap is on the same side."""
    names: int
    p_welch: float
    """Welch's t test of the means of its names against those of all other names, times the number of groups."""
    p_exchange: float
    """Exchange of whole names between groups; the statistic is the range of the groups' means."""


def of_names(scores: Scores, rng: np.random.Generator, draws: int = 10_000) -> OfNames:
    """Test the groups with names as the unit."""
    by_profile = gaps(scores)
    mean = by_profile.mean(0)
    worst = int(np.abs(mean).argmax())
    means, sizes, groups = [], [], []
    for column in range(len(scores.groups)):
        for name in np.unique(scores.names[:, column]):
            own = by_profile[scores.names[:, column] == name, column]
            means.append(own.mean())
            sizes.append(len(own))
            groups.append(column)
    value, size, label = np.array(means), np.array(sizes), np.array(groups)
    own = value[label == worst]
    welch = stats.ttest_ind(own, value[label != worst], equal_var=False).pvalue * len(scores.groups)

    def spread(labels: np.ndarray) -> float:
        total = np.bincount(labels, value * size) / np.bincount(labels, size)
        return float(np.ptp(total))

    count = sum(spread(rng.permutation(label)) >= spread(label) - 1e-9 for _ in range(draws))
    return OfNames(
        scores.groups[worst],
        float(mean[worst]),
        int((own * mean[worst] > 0).sum()),
        len(own),
        min(1.0, float(welch)),
        (count + 1) / (draws + 1),
    )


def adjusted(p_values: list[float]) -> list[float]:
    """Return Benjamini and Hochberg's adjusted p-values."""
    return [float(p) for p in stats.false_discovery_control(p_values)]


def rows_of(cells: dict[str, Scores]) -> dict[str, Scores]:
    """Return the rows of the published table: cells of more than 12 profiles also with the first 12."""
    rows = {}
    for title, scores in cells.items():
        if len(scores.values) > 12:
            rows[title] = scores.first(12)
            title += "+expanded"
        rows[title] = scores
    return rows


def main(release: str) -> None:
    """Print the numbers of all rows."""
    rng = np.random.default_rng(1)
    print("| cell | sets × k | MASD | floor | ratio | interval | p | group | gap | names | p of t | p of exchange |")
    print("|" + "---|" * 12)
    for title, scores in rows_of(load(release)).items():
        value, low, high = ratio(scores.values, rng)
        spread, p = masd(scores.values), exchanges(scores.values, rng)
        one = of_names(scores, rng)
        print(
            f"| {title} | {len(scores.values)} × {scores.values.shape[2]} | {spread:.2f} | {spread / value:.2f} "
            f"| {value:.2f} | {low:.2f} to {high:.2f} | {p:.4f} | {one.group} | {one.gap:.2f} "
            f"| {one.lowered} of {one.names} | {one.p_welch:.3f} | {one.p_exchange:.4f} |"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
