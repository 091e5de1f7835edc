"""Audit every cell of AgentFairBench with names as a sample, beside what the benchmark says of it.

    python audit.py RELEASE

One audit per row: the axis is race × gender, with six groups and their main effects; the metrics are the score and the
decision. All gaps of a row are one family. Benjamini and Hochberg's procedure over rows is applied to both p-values.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import second
from read import AXIS, TOOL, Cell, GivenNames, cells_of, dialogues_of, write_responses

from tod_bias import AuditResult, attribute
from tod_bias.results import DIFFERENT, AxisResult
from tod_bias.systems.saved_responses import SavedResponses

ACTION = {"hiring": "advance", "lending": "approve", "triage": "escalate"}
CORE = 12
"""Profiles per domain before version 1.1 added some."""


@dataclass
class Row:
    """One row of the table."""

    title: str
    profiles: int
    replicates: int
    ratio: float
    low: float
    """MASD over the floor, and the lower end of its interval."""
    their_p: float
    verdict: str
    groups: str
    """The smallest set of groups that the finding names."""
    largest: str
    """Group whose mean score is farthest from that of the five others, and how much lower it is."""
    our_p: float
    given_p: float
    """The smallest p-value of a group with the names taken as they are."""
    factors: str
    """Main effects that are shown."""
    of_action: str
    """Verdict of the decisions."""

    @property
    def is_above(self) -> bool:
        """True if the whole interval of the ratio is above 1."""
        return self.low > 1

    @property
    def is_primary(self) -> bool:
        """True unless the row is a part of another one."""
        return self.profiles > CORE or not self.title.endswith("(12)")


def audit(cell: Cell) -> AuditResult:
    """Audit one cell through its saved responses."""
    metrics = f"number:{TOOL}.{second.SCORE[cell.domain]}", f"value:{TOOL}.{ACTION[cell.domain]}=true"
    with tempfile.TemporaryDirectory() as folder:
        write_responses(Path(folder) / "responses.jsonl", cell)
        system = SavedResponses(Path(folder) / "responses.jsonl")
        axes = [GivenNames(cell.names)]
        return attribute(system, dialogues_of(cell), axes, metrics=metrics, cluster=("none",), bootstrap=0)


def row_of(cell: Cell, title: str, scores: second.Scores, rng: np.random.Generator) -> Row:
    """Return both readings of a cell."""
    score, action = audit(cell).axes[AXIS].values()
    ratio, low, _ = second.ratio(scores.values, rng)
    given = [group.terms_only.p for group in score.groups.values() if group.terms_only is not None]
    return Row(
        title,
        len(cell.names),
        cell.replicates,
        ratio,
        low,
        second.exchanges(scores.values, rng),
        score.verdict,
        ", ".join(score.smallest) if score.verdict in DIFFERENT else "",
        _largest(score),
        1.0 if score.omnibus is None or score.omnibus.p is None else score.omnibus.p,
        min((p for p in given if p is not None), default=1.0),
        _factors(score),
        action.verdict,
    )


def _largest(score: AxisResult) -> str:
    means = {name: group.score.value or 0.0 for name, group in score.groups.items()}
    total, number = sum(means.values()), len(means)
    gaps = {name: (total - mean) / (number - 1) - mean for name, mean in means.items()}
    name = max(gaps, key=lambda group: abs(gaps[group]))
    return f"{name} {gaps[name]:+.2f}"


def _factors(score: AxisResult) -> str:
    shown = [
        f"{level} {gap.value:+.2f}{' (these names)' if gap.scope else ''}"
        for factor, levels in score.effects.items()
        if factor != "interaction"
        for level, gap in levels.items()
        if gap.is_shown and gap.value is not None
    ]
    return ", ".join(shown)


def first(cell: Cell, number: int) -> Cell:
    """Return the cell with its first profiles."""
    kept = sorted(cell.names)[:number]
    decisions = {pair: some for pair, some in cell.decisions.items() if pair[0] in kept}
    return replace(cell, names={profile: cell.names[profile] for profile in kept}, decisions=decisions)


def rows_of(release: str) -> list[Row]:
    """Return the rows of all complete cells; one of more than 12 profiles is also read with the first 12."""
    rng = np.random.default_rng(1)
    scores, rows = second.load(release), []
    for cell in cells_of(release):
        if len(cell.names) > CORE:
            part = scores[cell.title].first(CORE)
            rows.append(row_of(first(cell, CORE), f"{cell.title} (12)", part, rng))
        rows.append(row_of(cell, cell.title, scores[cell.title], rng))
    return rows


def main(release: str) -> None:
    """Print the table."""
    rows = rows_of(release)
    primary = [row for row in rows if row.is_primary]
    theirs = dict(zip(map(id, primary), second.adjusted([row.their_p for row in primary]), strict=True))
    ours = dict(zip(map(id, primary), second.adjusted([row.our_p for row in primary]), strict=True))
    print(
        "| cell | sets × k | ratio (low end) | above floor | p, BH | verdict | p, BH | p of these names | largest gap "
        "| factors | decisions |"
    )
    print("|" + "---|" * 11)
    for row in rows:
        print(
            f"| {row.title} | {row.profiles} × {row.replicates} | {row.ratio:.2f} ({row.low:.2f}) "
            f"| {'yes' if row.is_above else 'no'} | {row.their_p:.4f}, {_shown(theirs.get(id(row)))} "
            f"| {row.verdict}{': ' * bool(row.groups)}{row.groups} | {row.our_p:.4f}, {_shown(ours.get(id(row)))} "
            f"| {row.given_p:.4f} | {row.largest} | {row.factors or '–'} | {row.of_action} |"
        )


def _shown(p: float | None) -> str:
    return "–" if p is None else f"{p:.3f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
