"""The study's tables: Table 1 and Su's findings, from the files that study.yaml names.

python study.py                 # Markdown on the terminal
python study.py examples RUN    # Table 2: of every axis the turns whose score changes most, from RUN's turns.parquet
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from changed_turns import changed_turns
from findings import FEW, StudyRun, findings, number, too_few
from verdicts import Case, Number

from tod_bias.audit.record import ORIGINAL, read_turns
from tod_bias.report.excerpts import UNSWAPPED, Segments
from tod_bias.report.notation import with_interval
from tod_bias.results import AuditResult, AxisResult, Comparison

HERE = Path(__file__).parent
BLEU = "corpus_bleu"
SU = {
    ("GPT-2", "google_sgd"): (0.7920, 0.1604), ("GPT-2", "taskmaster2"): (0.5890, 0.2188),
    ("BART", "google_sgd"): (0.8219, 0.1880), ("BART", "taskmaster2"): (0.6212, 0.2338),
    ("T5", "google_sgd"): (0.8058, 0.1672), ("T5", "taskmaster2"): (0.5948, 0.2390),
}  # fmt: skip
"""Su Table 1: JGA and BLEU."""
SCORES = {
    "JGA": "jga_parlai", "JGA, turns that call": "jga_parlai_noempty", "slot precision": "slot_precision",
    "slot recall": "slot_recall", "BLEU": "corpus_bleu",
}  # fmt: skip


def read(path: Path) -> dict[str, Any]:
    """A JSON file of the study."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def table(head: list[str], rows: list[list[str]]) -> str:
    """In Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def table_one(runs: list[dict[str, Any]]) -> str:
    """Su Table 1 with intervals, the paper's own beside."""
    rows = []
    for run in runs:
        evaluated = read(HERE / run["evaluation"])
        found = [evaluated["scores"].get(name) for name in SCORES.values()]
        cells = ["–" if one is None else _bounded(one) for one in found]
        counts = (f"{one:,}" for one in (run["training"], evaluated["corpus"]["dialogues"]))
        rows.append([run["model"], run["beginning"], run["corpus"], *counts, *cells])
    for (model, corpus), (jga, bleu) in SU.items():
        rows.append([f"Su: {model}", "plain", corpus, "", "", f"{jga:.3f}", "", "", "", f"{bleu:.3f}"])
    return table(["model", "beginning", "corpus", "trained on", "evaluated on", *SCORES], rows)


def _bounded(score: dict[str, Any]) -> str:
    low, high = score["ci"]
    return f"{score['value']:.3f} [{low:.3f}, {high:.3f}]"


def table_of_audits(runs: list[StudyRun]) -> str:
    """A row for each axis of each audit, by BLEU."""
    head = ["model", "axis", "dialogues", "widest gap: worse − better", "verdict"]
    head += ["ruled out beyond", "found in four of five", "pooled difference", "of it most in"]
    return table(head, [_audited(run, axis, found) for run in runs for axis, found in run.axes.items()])


def _audited(run: StudyRun, axis: str, result: AxisResult) -> list[str]:
    widest = ""
    if result.widest is not None and result.widest.gap.ci is not None:
        widest = f"{result.widest.worse} − {result.widest.better} {with_interval(result.widest.gap, sign=True)}"
    parts = {stage: one.shapley for stage, one in result.contributions.items() if one.shapley.value is not None}
    most = max(parts, key=lambda stage: abs(parts[stage].value or 0), default="")
    ruled_out = "–" if result.equivalent_within is None else f"±{result.equivalent_within:.2f}"
    detectable = "–" if result.mde is None else f"{result.mde:.2f}"
    where = f"`{most}` {with_interval(parts[most], sign=True)}" if most else "–"
    about = [run.name, axis, f"{result.dialogues:,}", widest or "–", result.verdict]
    return [*about, ruled_out, detectable, with_interval(result.disparity, sign=True), where]


def changes_of(path: Path) -> dict[str, Number]:
    """Axis to how much larger the disparity of the second run is, from ``compare.json``."""
    return {
        axis: number(found[BLEU].disparity.change, found[BLEU].dialogues)
        for axis, found in Comparison.load(path).axes.items()
        if found[BLEU].dialogues >= FEW
    }


def main() -> None:
    """Print all tables."""
    study = yaml.safe_load((HERE / "study.yaml").read_text(encoding="utf-8"))
    words = {name: read(HERE / path) for name, path in study["words"].items()}
    runs = []
    for run in study["models"]:
        if folder := run.get("audit"):
            axes = {axis: found[BLEU] for axis, found in AuditResult.load(HERE / folder).axes.items()}
            runs.append(StudyRun(run["model"], run["beginning"], run["corpus"], axes, run["training"], folder))
    print(f"## Table 1\n\n{table_one(study['models'])}\n\n## The audits\n\n{table_of_audits(runs)}\n")
    print("## Su's findings\n")
    rows = []
    changes = {tuple(one["runs"]): changes_of(HERE / one["changes"]) for one in study["compared"]}
    for found in findings(runs, words, study["margin"], changes):
        shown = "; ".join(f"{case.name} {_contrasts(case)}" for case in found.cases[:3])
        more = f"; {len(found.cases) - 3} more" if len(found.cases) > 3 else ""
        rows.append([found.claim, f"**{found.verdict}**", found.seen, shown + more])
    print(table(["Su", "here", "", "contrasts (95%)"], rows))
    for run in runs:
        for axis, count in too_few(run).items():
            print(f"\n{run.name}: {axis} has {count} dialogues, too few for a test.")


def _contrasts(case: Case) -> str:
    numbers = [contrast.number for contrast in case.contrasts]
    return " and ".join(f"{one.value:+.3f} ± {1.96 * one.error:.3f}" for one in numbers)


def examples(folder: Path) -> None:
    """Print the turns of each axis whose score changes most (Su Table 2)."""
    result = AuditResult.load(folder)
    turns = read_turns(folder, [ORIGINAL, UNSWAPPED])
    if turns is None:
        sys.exit(f"{folder}: holds no turns.parquet; it is written by the run, and not kept with the study")
    for one in changed_turns(turns, result.stages, list(result.metrics), most=2):
        print(f"\n{one.axis}: {one.source} > {one.target}; dialogue {one.dialogue}, turn {one.turn}")
        for name, (before, after) in one.texts.items():
            print(f"  {name} before: {_marked(before)}\n  {name} after:  {_marked(after)}")


def _marked(text: Segments) -> str:
    return "".join(f"**{piece}**" if differs else piece for piece, differs in text)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "examples":
        examples(Path(sys.argv[2]))
    elif len(sys.argv) == 1:
        main()
    else:
        sys.exit("usage: python study.py [examples RUN]")
