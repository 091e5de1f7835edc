"""Su's tables and figures, from the files that study.yaml names.

python study.py                 # the tables of README.md, as Markdown
python study.py write           # audits.md, grid.md, figure4.svg and figure5.svg
python study.py examples RUN    # Table 2: the turns of each axis whose score changes most, from RUN's turns.parquet
python study.py keep NAME RUN MODELS GRID   # copies a finished cell of run.sh into grid/
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from changed_turns import changed_turns
from findings import FEW, StudyRun, findings, number, too_few
from grid import draws_rows, event_rows, example_rows, keep, marked, training_rows
from pictures import fairscores, pairs
from verdicts import Case, Finding, Number

from tod_bias.audit.record import read_turns
from tod_bias.changes import Comparison
from tod_bias.report.canvas import to_svg
from tod_bias.report.excerpts import UNSWAPPED
from tod_bias.report.notation import with_interval
from tod_bias.results import AuditResult, AxisResult
from tod_bias.statistics.arms import ORIGINAL_ARM

HERE = Path(__file__).parent
BLEU = "corpus_bleu"
SU = {
    ("GPT-2", "google_sgd"): (0.7920, 0.1604), ("GPT-2", "taskmaster2"): (0.5890, 0.2188),
    ("BART", "google_sgd"): (0.8219, 0.1880), ("BART", "taskmaster2"): (0.6212, 0.2338),
    ("T5", "google_sgd"): (0.8058, 0.1672), ("T5", "taskmaster2"): (0.5948, 0.2390),
}  # fmt: skip
"""Su Table 1: JGA and BLEU."""
ABOUT_AUDITS = """Gaps and pooled differences are shares of the originals' score; positive is harm. The widest gap is
the largest difference between two groups on the same dialogues; its interval is simultaneous over all claims of the
run. The pooled difference compares the system with its twin, and the last column names the stage with the largest share
of it. Intervals are 95%. ‡: for the terms of this run only."""
ABOUT_CONTRASTS = """A contrast is the difference of two sizes that a claim says is above 0, with half the width of its
95% interval. A claim holds in a case if each of its contrasts is above 0."""
ABOUT_MODELS = ("model", "beginning", "corpus", "split", "trained on", "evaluated on")
GRID = {
    "gpt2": "GPT-2 4×256", "bart": "BART 4+4×256", "t5": "T5 4+4×256", "smollm2": "SmolLM2-135M, reads descriptions",
}  # fmt: skip
"""Cells of Su's grid, on the test split."""
EXAMPLE = ("model", "axis", "pair", "dialogue, turn", "text", "original", "counterfactual")
ABOUT_GRID = """`bash run.sh` makes every cell: training, scores and audits on the test split. `python study.py write`
makes this file from what is kept in grid/."""
ABOUT_EVENTS = """Further evidence beside BLEU: fields, calls and phrases that depend on the group. A finding with the
verdict *inconclusive* was seen and is not proven."""
ABOUT_TRAININGS = """A pass is one reading of all dialogues of the train split. The loss is in nats per token on
held-out dialogues. A model whose loss hardly rises with the prompts of other dialogues does not read its input."""
SCORES = {"JGA": "jga_parlai", "BLEU": "corpus_bleu"}
MORE_SCORES = {
    "JGA, turns that call": "jga_parlai_noempty", "slot precision": "slot_precision", "slot recall": "slot_recall",
}  # fmt: skip
COLUMNS = {
    "gender": ("gender",), "age": ("age", "persona_age"), "race": ("race", "persona_race"), "names": ("names_gender",),
    "placebo": ("placebo",),
}  # fmt: skip
"""Columns of the table of fairscores; the second axis stands for the first on a corpus that hardly mentions it."""


def read(path: Path) -> dict[str, Any]:
    """A JSON file of the study."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def table(head: Sequence[str], rows: list[list[str]]) -> str:
    """Format a table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def table_one(runs: list[dict[str, Any]]) -> str:
    """Scores of each model with 95% intervals, and those of the paper (Su Table 1)."""
    rows = [[*_model(run), *_scores(run, SCORES)] for run in runs]
    for (model, corpus), (jga, bleu) in SU.items():
        rows.append([f"Su: {model}", "plain", corpus, "test", "", "", f"{jga:.3f}", f"{bleu:.3f}"])
    return table([*ABOUT_MODELS, *SCORES], rows)


def more_scores(runs: list[dict[str, Any]]) -> str:
    """Further scores of each model."""
    return table(
        [*ABOUT_MODELS, *MORE_SCORES],
        [[*_model(run), *_scores(run, MORE_SCORES)] for run in runs],
    )


def _model(run: dict[str, Any]) -> list[str]:
    corpus = read(HERE / run["evaluation"])["corpus"]
    split = {"valid": "dev"}.get(corpus["split"], corpus["split"])
    return [run["model"], run["beginning"], run["corpus"], split, f"{run['training']:,}", f"{corpus['dialogues']:,}"]


def _scores(run: dict[str, Any], names: dict[str, str]) -> list[str]:
    found = [read(HERE / run["evaluation"])["scores"].get(name) for name in names.values()]
    return ["–" if one is None else _bounded(one) for one in found]


def _bounded(score: dict[str, Any]) -> str:
    low, high = score["ci"]
    return f"{score['value']:.3f} [{low:.3f}, {high:.3f}]"


def table_of_fairscores(runs: list[StudyRun]) -> str:
    """The fairscore (BLEU) of each audit by axis, the placebo last."""
    rows = []
    for run in runs:
        cells = []
        for axes in COLUMNS.values():
            found = next((run.axes[axis] for axis in axes if axis in run.axes), None)
            cells.append("–" if found is None or found.su is None else _fairscore(found))
        rows.append([run.name, *cells])
    return table(["model", *COLUMNS], rows)


def _fairscore(result: AxisResult) -> str:
    assert result.su is not None
    return f"{with_interval(result.su.fairscore)} ({result.dialogues})"


def placebo_exceeds(runs: list[StudyRun]) -> str:
    """Count the audits in which the placebo has a larger fairscore than two axes or more."""
    count = 0
    for run in runs:
        sizes = {axis: one.su.fairscore.value or 0.0 for axis, one in run.axes.items() if one.su is not None}
        placebo = sizes.pop("placebo", 0.0)
        count += sum(size < placebo for size in sizes.values()) >= 2
    return f"In {count} of {len(runs)} audits the placebo has a larger fairscore than two axes or more."


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


def evaluated(study: dict[str, Any]) -> list[dict[str, Any]]:
    """The models of a study, each once; a model may have several audits."""
    return list({run["evaluation"]: run for run in reversed(study["models"])}.values())[::-1]


def load() -> tuple[dict[str, Any], list[StudyRun]]:
    """Read study.yaml and the audits that it names."""
    study = yaml.safe_load((HERE / "study.yaml").read_text(encoding="utf-8"))
    runs = []
    for run in study["models"]:
        if folder := run.get("audit"):
            axes = {axis: found[BLEU] for axis, found in AuditResult.load(HERE / folder).axes.items()}
            runs.append(StudyRun(run["model"], run["beginning"], run["corpus"], axes, run["training"], folder))
    return study, runs


def judged(study: dict[str, Any], runs: list[StudyRun]) -> list[Finding]:
    """Su's findings on the audits."""
    words = {name: read(HERE / path) for name, path in study["words"].items()}
    changes = {tuple(one["runs"]): changes_of(HERE / one["changes"]) for one in study["compared"]}
    return findings(runs, words, study["margin"], changes)


def cells() -> list[tuple[str, Path, dict[str, Any]]]:
    """Su's grid on the test split: name of the model, folder, and content of cell.json."""
    folders = [(name, HERE / "grid" / folder) for folder, name in GRID.items()]
    return [(name, folder, read(folder / "cell.json")) for name, folder in folders if folder.is_dir()]


def table_two() -> str:
    """An example of each model: a turn of a rewritten dialogue beside the original (Su Table 2)."""
    rows = []
    for name, _, cell in cells():
        rows += example_rows(name, {"examples": cell["examples"][:1]})
    return table(EXAMPLE, rows)


def grid_page() -> str:
    """The content of grid.md: draws beside the crossed design, events, examples, trainings and versions."""
    drawn, events, examples, trainings, versions = [], [], [], [], []
    for name, folder, cell in cells():
        result = AuditResult.load(folder)
        drawn += draws_rows(name, {axis: found[BLEU] for axis, found in result.axes.items()}, cell)
        events += event_rows(name, result)
        examples += example_rows(name, cell)
        trainings += training_rows(name, cell)
        made = [f"{key} {text}" for key, text in cell["versions"].items()]
        versions.append([name, "; ".join(made), "; ".join(cell["lexicons"].values())])
    parts = ["# Su's grid on the test split", ABOUT_GRID]
    parts += [
        "## Su's draws beside the crossed design",
        table(["model", "axis", "design", "dialogues", "fairscore", "parts, in Su's order"], drawn),
    ]
    parts += [
        "## What the events say",
        ABOUT_EVENTS,
        table(["model", "axis", "verdict", "group", "stage", "what happens"], events),
    ]
    parts += ["## Examples (Su Table 2)", table(EXAMPLE, examples)]
    parts += [
        "## Trainings",
        ABOUT_TRAININGS,
        table(["model", "training", "dialogues", "steps", "passes", "loss", "loss with other prompts"], trainings),
    ]
    return "\n\n".join([*parts, "## Versions", table(["model", "versions", "lexicons"], versions)]) + "\n"


def main() -> None:
    """Print the tables of README.md."""
    study, runs = load()
    rows = [[one.claim, f"**{one.verdict}**", one.seen, one.needed] for one in judged(study, runs)]
    parts = [
        table_one(evaluated(study)),
        table_of_fairscores(runs),
        placebo_exceeds(runs),
        table(["Su", "here", "what the audits show", "what would tell"], rows),
    ]
    if cells():
        parts.append(table_two())
    print("\n\n".join(parts))


def details() -> str:
    """The content of audits.md: further scores, every axis of every audit, and the contrasts behind each verdict."""
    study, runs = load()
    rows = [[one.claim, case.name, _contrasts(case)] for one in judged(study, runs) for case in one.cases]
    few = [
        f"{run.name}: {axis} has {count} dialogues, too few for a test."
        for run in runs
        for axis, count in too_few(run).items()
    ]
    heading = "# The audits in detail\n\n`python study.py write` makes this file from the results of each audit."
    parts = [heading, "## Further scores", more_scores(evaluated(study)), "## Every axis, by BLEU", ABOUT_AUDITS]
    parts += [table_of_audits(runs), *few, "## Contrasts behind the verdicts", ABOUT_CONTRASTS]
    return "\n\n".join([*parts, table(["Su", "case", "contrasts (95%)"], rows)]) + "\n"


def write() -> None:
    """Write audits.md, grid.md and the figures."""
    _, runs = load()
    (HERE / "audits.md").write_text(details(), encoding="utf-8")
    if cells():
        (HERE / "grid.md").write_text(grid_page(), encoding="utf-8")
    (HERE / "figure4.svg").write_text(to_svg(fairscores(runs)), encoding="utf-8")
    (HERE / "figure5.svg").write_text(to_svg(pairs(runs)), encoding="utf-8")


def _contrasts(case: Case) -> str:
    numbers = [contrast.number for contrast in case.contrasts]
    return " and ".join(f"{one.value:+.3f} ± {1.96 * one.error:.3f}" for one in numbers)


def examples(folder: Path) -> None:
    """Print the turns of each axis whose score changes most (Su Table 2)."""
    result = AuditResult.load(folder)
    turns = read_turns(folder, [ORIGINAL_ARM, UNSWAPPED], ["source"])
    if turns is None:
        sys.exit(f"{folder}: holds no turns.parquet; it is written by the run, and not kept with the study")
    for one in changed_turns(turns, result.stages, list(result.metrics), most=2):
        print(f"\n{one.axis}: {one.source} > {one.target}; dialogue {one.dialogue}, turn {one.turn}")
        for name, (before, after) in one.texts.items():
            print(f"  {name} before: {marked(before)}\n  {name} after:  {marked(after)}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "examples":
        examples(Path(sys.argv[2]))
    elif len(sys.argv) == 6 and sys.argv[1] == "keep":
        keep(sys.argv[2], *map(Path, sys.argv[3:]))
    elif sys.argv[1:] == ["write"]:
        write()
    elif len(sys.argv) == 1:
        main()
    else:
        sys.exit("usage: python study.py [write | examples RUN | keep NAME RUN MODELS GRID]")
