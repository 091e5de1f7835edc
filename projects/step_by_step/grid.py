"""Su's grid: what is kept of each model's training, scores and audits, and the tables that are made of it.

A cell is a folder of grid/: ``results.json`` of the crossed design, ``evaluation.json``, and ``cell.json`` with
versions, hashes of lexicons, trainings, numbers of dialogues, Su's draws and examples.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from changed_turns import changed_turns

from tod_bias.audit.record import read_turns
from tod_bias.report.answer import what_happens
from tod_bias.report.excerpts import UNSWAPPED, Segments
from tod_bias.report.notation import with_interval
from tod_bias.results import AuditResult, AxisResult, Su
from tod_bias.statistics.arms import ORIGINAL_ARM

BLEU = "corpus_bleu"
PARTS = {"gpt2": ("gpt2",), "bart": ("bart",), "t5": ("t5",)}
"""Beginnings of the names of each model's trainings; SmolLM2's adapter comes with the study."""
VERSIONS = ("tod-bias", "transformers", "torch", "sacrebleu")
EXAMPLES = 1
"""Examples of an axis (Su Table 2)."""


def keep(name: str, run: Path, models: Path, kept: Path) -> None:
    """Copy what the tables need of a finished cell.

    Args:
        name: of the model.
        run: folder with the runs ``scores``, ``crossed`` and ``draws``.
        models: folder of the trained models.
        kept: folder of the grid.
    """
    folder = kept / name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / "scores" / "evaluation.json", folder / "evaluation.json")
    record = json.loads((run / "crossed" / "results.json").read_text(encoding="utf-8"))
    record["config"] = _without_places(record["config"])
    _write(folder / "results.json", record)
    crossed, draws = AuditResult.load(run / "crossed"), AuditResult.load(run / "draws")
    cell = {
        "versions": {key: crossed.signature[key] for key in VERSIONS},
        "lexicons": {key: text for key, text in crossed.signature.items() if key.startswith("axis ")},
        "trainings": dict(_trainings(name, models)),
        "dialogues": {"crossed": _audited(crossed), "draws": _audited(draws)},
        "draws": {axis: su.model_dump(mode="json") for axis, su in _su(draws)},
        "examples": _examples(run / "crossed", crossed),
    }
    _write(folder / "cell.json", cell)


def _write(path: Path, record: Any) -> None:
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _without_places(options: Any) -> Any:
    """Return options with the last name of each absolute path, because folders differ from machine to machine."""
    if isinstance(options, dict):
        return {name: _without_places(value) for name, value in options.items()}
    return Path(options).name if isinstance(options, str) and Path(options).is_absolute() else options


def _trainings(name: str, models: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each training that a model comes from: steps, texts that were read, and losses."""
    for file in sorted(models.glob("*/training.json")):
        if file.parent.name.startswith(PARTS.get(name, ("-",))):
            record = json.loads(file.read_text(encoding="utf-8"))
            settings = record["settings"]
            read = record["steps"] * settings["batch"] * settings["gradient_accumulation"]
            yield (
                file.parent.name,
                {
                    "dialogues": record["dialogues"],
                    "steps": record["steps"],
                    "passes": round(read / record["sequences"][0]["sequences"], 3),
                    "validation_loss": record["validation_loss"],
                    "exchanged": record.get("exchanged"),
                },
            )


def _audited(result: AuditResult) -> dict[str, int]:
    return {axis: found[BLEU].dialogues or 0 for axis, found in result.axes.items()}


def _su(result: AuditResult) -> Iterator[tuple[str, Su]]:
    for axis, found in result.axes.items():
        if (su := found[BLEU].su) is not None:
            yield axis, su


def _examples(folder: Path, result: AuditResult) -> list[dict[str, Any]]:
    turns = read_turns(folder, [ORIGINAL_ARM, UNSWAPPED], ["source"])
    if turns is None:
        raise FileNotFoundError(f"{folder}: holds no turns.parquet")
    return [
        {
            "axis": one.axis,
            "pair": f"{one.source} > {one.target}",
            "dialogue": one.dialogue,
            "turn": one.turn,
            "texts": {name: [marked(text) for text in pair] for name, pair in one.texts.items()},
        }
        for one in changed_turns(turns, result.stages, [BLEU], most=EXAMPLES)
    ]


def marked(text: Segments) -> str:
    """Write a text with its differences in bold."""
    return "".join(f"**{piece.strip()}**" if differs and piece.strip() else piece for piece, differs in text)


def draws_rows(name: str, crossed: Mapping[str, AxisResult], cell: Mapping[str, Any]) -> list[list[str]]:
    """A row per axis: fairscore (eq. 1) and its parts in Su's order, by Su's draws and by the crossed design."""
    rows = []
    for axis, content in cell["draws"].items():
        own = crossed[axis].su if axis in crossed else None
        for design, su in (("draws", Su.model_validate(content)), ("crossed", own)):
            if su is not None:
                shares = ", ".join(f"{stage} {part.value:+.3f}" for stage, part in su.contributions.items())
                count = cell["dialogues"][design][axis]
                rows.append([name, axis, design, str(count), with_interval(su.fairscore), shares])
    return rows


def example_rows(name: str, cell: Mapping[str, Any]) -> list[list[str]]:
    """A row per text of each example, of the original and of the counterfactual (Su Table 2)."""
    rows = []
    for one in cell["examples"]:
        about = [name, one["axis"], one["pair"], f"{one['dialogue']}, {one['turn']}"]
        for stage, (before, after) in one["texts"].items():
            rows.append([*about, stage, _cell(before), _cell(after)])
            about = [""] * 4
    return rows


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split()) or "–"


def event_rows(name: str, result: AuditResult) -> list[list[str]]:
    """A row per finding that is about an event: verdict, group, component, and what happens."""
    return [
        [name, one.axis, one.verdict, one.group or "–", one.stage or "–", what_happens(one, result)]
        for one in result.findings
        if one.metric and one.group
    ]


def training_rows(name: str, cell: Mapping[str, Any]) -> list[list[str]]:
    """A row per training: its dialogues, steps and passes, and the loss with its own prompts and with others."""
    rows = []
    for part, one in cell["trainings"].items():
        losses = ["–" if loss is None else f"{loss:.3f}" for loss in (one["validation_loss"], one["exchanged"])]
        rows.append([name, part, f"{one['dialogues']:,}", f"{one['steps']:,}", f"{one['passes']:.2f}", *losses])
    return rows
