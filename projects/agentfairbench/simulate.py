"""Count what each reading finds in scores exchanged within profiles, with white men's lowered by 0, 2 and 4 points.

python simulate.py RELEASE SAMPLES
"""

from __future__ import annotations

import sys

import numpy as np
import second
from audit import audit
from read import AXIS, Cell, cells_of

from tod_bias.results import DISPARITY


def sampled(cell: Cell, scores: second.Scores, points: float, seed: int) -> tuple[bool, bool, bool]:
    """Return whether a disparity is claimed, the exchange is significant, and the interval lies above the floor."""
    rng, values = np.random.default_rng(seed), scores.values.copy()
    for profile in values:
        profile[:] = profile[rng.permutation(len(scores.groups))]
    values[:, scores.groups.index("white_male")] -= points
    decisions = {
        (profile, group): [{"advance": bool(score >= 53), "score": float(score)} for score in values[row, column]]
        for row, profile in enumerate(sorted(cell.names))
        for column, group in enumerate(scores.groups)
    }
    made = Cell(cell.model, cell.domain, cell.scaffold, cell.names, decisions)
    score = next(iter(audit(made).axes[AXIS].values()))
    above = second.ratio(values, rng)[1] > 1
    return score.verdict == DISPARITY, second.exchanges(values, rng, 1000) < 0.05, above


def main(release: str, samples: str) -> None:
    """Print the shares for two cells."""
    cells, scores = {cell.title: cell for cell in cells_of(release)}, second.load(release)
    for title in ("sonnet/hiring/C0", "fable/hiring/C3"):
        for points in (0, 2, 4):
            found = [sampled(cells[title], scores[title], points, seed) for seed in range(int(samples))]
            print(title, points, np.mean(found, axis=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
