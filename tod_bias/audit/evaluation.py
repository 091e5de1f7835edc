"""Scores of a pipeline on a corpus as it is: joint goal accuracy of API calls and BLEU of responses (Su Table 1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field, PrivateAttr

from tod_bias.audit.checks import metrics_of
from tod_bias.audit.design import design_originals
from tod_bias.audit.record import agreements_of, cost_of, signature_of
from tod_bias.audit.run import Measures, run
from tod_bias.config import Resamples, RunOptions
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import CorpusError
from tod_bias.io.files import replacing, write_json
from tod_bias.io.folder import held
from tod_bias.metrics.calls import CALL_COLUMNS, CallCounts
from tod_bias.metrics.choice import check_alone
from tod_bias.metrics.metric import Metric
from tod_bias.results import TURNS, Cost, Estimate, Precision, Record
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.resampling import resample
from tod_bias.systems.execution import HistoryMode
from tod_bias.systems.pipeline import Pipeline

EVALUATION_FILE = "evaluation.json"


class EvaluatedCorpus(Record):
    """The dialogues that were scored."""

    name: str = ""
    split: str = ""
    dialogues: int = 0
    turns: int = 0
    lost: int = 0
    """Dialogues that are left out because a call failed."""


class Evaluation(Record):
    """Content of ``evaluation.json``; the turns are in ``turns.parquet`` in the same folder."""

    version: Literal[2] = Field(2, alias="schema")
    corpus: EvaluatedCorpus
    stages: list[str]
    history: str
    scores: dict[str, Estimate]
    """Scores by metric; with a stage ``api_call`` also ``jga…``, ``slot_…`` and ``malformed_calls``."""
    signature: dict[str, str]
    precision: list[Precision]
    cost: Cost

    _table: Any = PrivateAttr(None)

    @property
    def turns(self) -> pd.DataFrame:
        """One row per turn."""
        frame: pd.DataFrame = self._table.frame()
        return frame

    @property
    def title(self) -> str:
        """Corpus, size and history in one line."""
        name = f"{self.corpus.name} {self.corpus.split}".strip()
        size = f"{self.corpus.dialogues} dialogues, {self.corpus.turns} turns, {self.history} history"
        return f"{name}: {size}" if name else size

    def of_turns(self, table: Any) -> Self:
        """The same with its turns."""
        self._table = table
        return self

    def _repr_html_(self) -> str:
        """Return the scores as a table for notebooks."""
        rows = [(name, *score_cells(score)) for name, score in self.scores.items()]
        frame = pd.DataFrame(rows, columns=["score", "value", "95% interval"])
        return f"<p>{escape(self.title)}</p>\n{frame.to_html(index=False, border=0)}"

    def save(self, folder: str | Path) -> None:
        """Write both files, the scores last.

        Raises:
            TodBiasError: the folder cannot be written to, or another run writes into it.
        """
        with held(folder) as place:
            with replacing(place / TURNS) as path:
                self._table.write(path)
            write_json(place / EVALUATION_FILE, self.model_dump(mode="json"))


def score_cells(score: Estimate) -> tuple[str, str]:
    """Return a score and its interval as texts."""
    value = "–" if score.value is None else f"{score.value:.4f}"
    return value, "" if score.ci is None else "[{:.4f}, {:.4f}]".format(*score.ci)


def evaluate(
    pipeline: Pipeline,
    dialogues: Sequence[Dialogue],
    *,
    metrics: Sequence[str | Metric] | str = ("corpus_bleu", "sentence_bleu"),
    history: HistoryMode = "gold",
    bootstrap: Resamples = 1000,
    seed: int = 0,
    cache: str | Path | None = None,
    show_progress: bool = False,
) -> Evaluation:
    """Score a pipeline on original dialogues: a run without axes.

    ``jga`` is the share of turns whose API calls equal the gold calls as dictionaries, empty calls included, as
    ParlAI's ``SlotMetrics`` counts it; ``jga_noempty`` counts turns with a gold call only, ``jga_empty`` the others.
    ``jga_parlai…`` are the same after ParlAI's own reading of the text, which makes a set of every predicted value
    that holds ``", "``, so that it never equals the gold string. (ParlAI also scores one ``[DONE]`` round per dialogue,
    whose gold call is empty.) These are on 0–1. All scores have 95% bootstrap intervals over dialogues.

    Args:
        pipeline: the system; JGA is of its stage ``api_call``, BLEU of its last stage.
        dialogues: at least one.
        metrics: by name, or of the user.
        history: ``gold`` (teacher-forced) or ``system`` (free-running).
        bootstrap: resamples of dialogues; 0 for no intervals.
        seed: of the resamples.
        cache: SQLite file for outputs.
        show_progress: on stderr.

    Raises:
        CorpusError: no dialogue.
        StageError: a stage broke its contract or left too many calls without an output.
        TodBiasError: unknown ``history`` or metric, or one that compares with a twin.
    """
    started = time.monotonic()
    dialogues = list(dialogues)
    if not any(dialogue.turns for dialogue in dialogues):
        raise CorpusError("nothing to evaluate: the corpus holds no dialogue with a turn")
    chosen = metrics_of(metrics)
    check_alone(chosen)
    counts = CallCounts()
    measured = [counts, *chosen] if "api_call" in pipeline.stages else chosen
    options = RunOptions.of({"history": history})
    outputs = run(
        pipeline, design_originals(dialogues), Measures(measured, ()), options, cache=cache, show_progress=show_progress
    )
    sums = outputs.axes[""]
    number = len(sums.dialogues)
    estimate = partial(_estimate, bootstrap=bootstrap, seed=seed)
    scores: dict[str, Estimate] = {}
    if counts.name in sums.tables:
        calls = sums.tables[counts.name].original
        scores = {name: estimate(calls, _ratio(part, whole)) for name, (part, whole) in _RATIOS.items()}
    scores |= {metric.name: estimate(sums.tables[metric.name].original, metric.score) for metric in chosen}
    return Evaluation(
        corpus=EvaluatedCorpus(
            dialogues=number,
            turns=sum(len(dialogue.turns) for dialogue in dialogues),
            lost=len(dialogues) - number,
        ),
        stages=list(pipeline.names),
        history=history,
        scores=scores,
        signature={metric.name: metric.signature for metric in chosen} | signature_of(pipeline.stages),
        precision=agreements_of(pipeline.stages),
        cost=cost_of(outputs.executor.costs, *outputs.tokens, seconds=time.monotonic() - started),
    ).of_turns(outputs.turns)


def _estimate(sums: np.ndarray, score: Callable[[np.ndarray], np.ndarray], *, bootstrap: int, seed: int) -> Estimate:
    """The score of (dialogues, statistics) sums."""
    value = float(score(sums.sum(axis=0)[None])[0])
    if not bootstrap:
        return Estimate(value=value)
    return Estimate(value=value, ci=tuple(interval(resample(sums, score, bootstrap, seed), len(sums))))


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


def _ratio(part: str, whole: str) -> Callable[[np.ndarray], np.ndarray]:
    def score(sums: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(_column(sums, part) / _column(sums, whole))

    return score
