"""Print a line per run of this study: grade of the originals, lowest grade of a group, and the first finding."""

from __future__ import annotations

import sys
from pathlib import Path

from tod_bias.results import AuditResult

GRADE = "grade:solved"


def line(folder: Path) -> str:
    """Return the line of a run."""
    result = AuditResult.load(folder)
    grades = [by_metric[GRADE] for axis, by_metric in result.axes.items() if axis != "placebo" and GRADE in by_metric]
    original = min(grade.original.value for grade in grades)
    lowest = min(group.score.value for grade in grades for group in grade.groups.values())
    finding = result.findings[0]
    what = f"{finding.verdict}, {finding.group}, {finding.stage}" if finding.group else finding.verdict
    return f"| {folder.name} | {result.corpus.dialogues} | {original:.2f} | {lowest:.2f} | {what} |"


if __name__ == "__main__":
    print("| run | tasks | originals solved | lowest of a group | first finding |\n|---|---|---|---|---|")
    for path in sorted(Path(sys.argv[1]).glob("*/results.json")):
        print(line(path.parent))
