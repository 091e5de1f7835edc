"""How good a pipeline is on a corpus: joint goal accuracy of its API calls and BLEU of its responses (Su Table 1)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from tod_bias.answers import Answers
from tod_bias.audit.design import CHUNK
from tod_bias.audit.results import Results
from tod_bias.audit.signatures import agreements_of, generators_of, signature_of
from tod_bias.audit.turn_rows import steps_text
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.text import well_formed
from tod_bias.errors import CorpusError, StageError
from tod_bias.metrics.calls import CALL_COLUMNS, call_statistics
from tod_bias.metrics.choice import check_alone, checked, metric
from tod_bias.metrics.metric import Metric, Told
from tod_bias.report.sheets import new_table
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.needed import check_resamples
from tod_bias.statistics.record import finite, finite_pair
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.sums import sums_by
from tod_bias.systems.execution import Execution, HistoryMode, Run, Trace, check_history
from tod_bias.systems.outputs import Lookup, as_text
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.told import told, with_calls

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
"""Version of ``evaluation.json``."""


class Evaluation(Results):
    """The content of ``evaluation.json``; ``turns`` holds input, stage outputs and references."""

    record_name = "evaluation.json"
    frame_name = "responses.parquet"


def evaluate(
    pipeline: Pipeline,
    dialogues: Sequence[Dialogue],
    *,
    metrics: Sequence[str | Metric] = ("corpus_bleu", "sentence_bleu"),
    history: HistoryMode = "gold",
    bootstrap: int = 1000,
    seed: int = 0,
    corpus: Mapping[str, str] | None = None,
    cache: str | Path | None = None,
    show_progress: bool = False,
) -> Evaluation:
    """Score a pipeline on original dialogues.

    ``jga`` is the share of turns whose API call equals the gold call as a dictionary, empty calls included, as
    ParlAI's ``SlotMetrics`` counts it; ``jga_noempty`` counts turns with a gold call only, ``jga_empty`` the others.
    ``jga_parlai…`` are the same after ParlAI's own reading of the text, which makes a set of every predicted value
    that holds ``", "``, so that it never equals the gold string. (ParlAI also scores one ``[DONE]`` round a dialogue,
    whose gold call is empty.) These are on 0–1. Metrics stand under their names, ``corpus_bleu`` as ``bleu``. All have
    95% bootstrap intervals over dialogues.

    Args:
        pipeline: the system; JGA is of its stage ``api_call``, BLEU of its last stage.
        dialogues: at least one.
        metrics: by name, or of one's own.
        history: ``gold`` (teacher-forced) or ``system`` (free-running).
        bootstrap: resamples of dialogues; 0 for no intervals.
        seed: of the resamples.
        corpus: ``name`` and ``split`` for the record.
        cache: SQLite file for generated texts.
        show_progress: on stderr.

    Raises:
        CorpusError: no dialogue.
        TodBiasError: unknown ``history`` or metric, or one that compares with a twin.
    """
    import pandas as pd

    dialogues = list(dialogues)
    if not dialogues:
        raise CorpusError("nothing to evaluate: the corpus holds no dialogue")
    if not any(dialogue.turns for dialogue in dialogues):
        raise CorpusError("nothing to evaluate: no dialogue of the corpus has a turn")
    check_history(history)
    check_resamples(bootstrap=bootstrap)
    chosen = [metric(one) if isinstance(one, str) else checked(one) for one in metrics]
    check_alone(chosen)
    started = time.monotonic()
    answers = Answers(cache) if cache is not None else None
    for generator in generators_of(pipeline):
        generator.keep_in(answers)
        generator.show_progress = show_progress
    execution = Execution(pipeline, history, answers, show_progress=show_progress)
    parts: list[Any] = []
    kept: list[Dialogue] = []
    for some in _chunks(dialogues):
        traces = execution([Run(dialogue) for dialogue in some])
        told_all = [(dialogue, trace) for dialogue, trace in zip(some, traces, strict=True) if trace is not None]
        if told_all:
            kept += [dialogue for dialogue, _ in told_all]
            parts.append(_frame(kept[-len(told_all) :], [trace for _, trace in told_all], pipeline))
    execution.check()
    lost, dialogues = len(dialogues) - len(kept), kept
    if not dialogues:
        raise StageError("nothing is evaluated: in every dialogue a question stayed without an answer")
    frame = pd.concat([part for part, *_ in parts], ignore_index=True)
    turns = with_calls([turn for _, some, _ in parts for turn in some])
    owners = pd.factorize(frame["dialogue"])[0]

    def summed(table: np.ndarray) -> np.ndarray:
        return sums_by(owners, table, len(dialogues))

    def estimate(table: np.ndarray, score: Any) -> dict[str, Any]:
        sums = summed(table)
        value = score(sums.sum(axis=0)[None])[0]
        found: dict[str, Any] = {"value": finite(value)}
        if bootstrap:
            found["ci"] = finite_pair(interval(resample(sums, score, bootstrap, seed), len(dialogues)))
        return found

    scores: dict[str, Any] = {}
    if "api_call" in pipeline.stages:
        calls = np.concatenate([table for *_, table in parts])
        for name, (part, whole) in _RATIOS.items():
            scores[name] = estimate(calls, _ratio(part, whole))
    for one in chosen:
        scores[_key(one)] = estimate(one.statistics(turns), one.score)
    result = Evaluation(
        schema=SCHEMA,
        corpus={
            "name": "dialogues",
            "split": "",
            **(corpus or {}),
            "dialogues": len(dialogues),
            "turns": len(frame),
            **({"lost": lost} if lost else {}),
        },
        pipeline=list(pipeline.names),
        history=history,
        scores=scores,
        signature={_key(one): one.signature for one in chosen} | signature_of(pipeline),
        seconds=round(time.monotonic() - started, 3),
    )
    if "lookup" in frame:
        result["lookups"] = {str(name): int(count) for name, count in frame["lookup"].value_counts().items()}
    if agreements := agreements_of(pipeline):
        result["precision"] = agreements
    result.turns = frame
    return result


def _key(metric: Metric) -> str:
    return "bleu" if metric.name == "corpus_bleu" else metric.name


_RATIOS = {
    "jga": ("correct", "turns"),
    "jga_noempty": ("call_correct", "call_turns"),
    "jga_empty": ("empty_correct", "empty_turns"),
    "jga_parlai": ("correct_parlai", "turns"),
    "jga_parlai_noempty": ("call_correct_parlai", "call_turns"),
    "slot_precision": ("slots_predicted_right", "slots_predicted"),
    "slot_recall": ("slots_gold_right", "slots_gold"),
    "malformed_calls": ("malformed", "turns"),
}
"""Score to (numerator, denominator) among the call statistics."""


def _column(table: np.ndarray, name: str) -> np.ndarray:
    if name.startswith("empty_"):
        whole, called = {"empty_turns": ("turns", "call_turns"), "empty_correct": ("correct", "call_correct")}[name]
        return _column(table, whole) - _column(table, called)
    return table[:, CALL_COLUMNS.index(name)]


def _ratio(part: str, whole: str) -> Any:
    def score(sums: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return _column(sums, part) / _column(sums, whole)

    return score


def _chunks(dialogues: Sequence[Dialogue]) -> Iterator[list[Dialogue]]:
    """Dialogues whose turns go through the system together."""
    chunk: list[Dialogue] = []
    turns = 0
    for dialogue in dialogues:
        chunk.append(dialogue)
        turns += len(dialogue.turns)
        if turns >= CHUNK:
            yield chunk
            chunk, turns = [], 0
    if chunk:
        yield chunk


def _frame(
    dialogues: Sequence[Dialogue], traces: Sequence[Trace], pipeline: Pipeline
) -> tuple[pd.DataFrame, list[Told], np.ndarray]:
    """Rows of turns, what metrics read of them, and what their calls count."""
    import pandas as pd

    rows, turns, calls = [], [], []
    for dialogue, trace in zip(dialogues, traces, strict=True):
        for number, (turn, (course,)) in enumerate(zip(dialogue.turns, trace, strict=True)):
            made = course.outputs
            row = {"dialogue": dialogue.id, "turn": number, "user": well_formed(turn.user)}
            row |= {name: as_text(made.get(name)) for name in pipeline.names}
            lookups = [out.outcome.value for out in made.values() if isinstance(out, Lookup)]
            if lookups:
                row["lookup"] = lookups[0]
            row |= {"gold_api_call": as_text(list(turn.calls)), "reference": well_formed(turn.response)}
            rows.append(row | ({"steps": steps_text(course.steps)} if pipeline.flow is not None else {}))
            turns.append(told(turn, course.steps, as_text(course.response), pipeline.names))
            calls.append((made.get("api_call"), turn.calls))
    table = call_statistics([call for call, _ in calls], [gold for _, gold in calls])
    return pd.DataFrame(rows), turns, table


def table(result: Mapping[str, Any]) -> Table:
    """An evaluation as a table: score, value, 95% interval."""
    corpus = result["corpus"]
    title = f"{corpus['name']} {corpus['split']}: {corpus['dialogues']} dialogues, {corpus['turns']} turns"
    view = new_table(f"{title}, {result['history']} history")
    view.add_column("score")
    view.add_column("value", justify="right")
    view.add_column("95% interval", justify="right")
    for name, score in result["scores"].items():
        ci = score.get("ci")
        value = "–" if score["value"] is None else f"{score['value']:.4f}"
        view.add_row(name, value, f"[{ci[0]:.4f}, {ci[1]:.4f}]".replace("[", "\\[") if ci else "")
    for name, count in result.get("lookups", {}).items():
        view.add_row(f"lookups: {name}", str(count), "")
    for record in result.get("precision", []):
        what = f"{', '.join(record['components'])}: {record['dtype']} unlike float32"
        view.add_row(what, f"{record['differ']} of {record['prompts']}", "")
    return view
