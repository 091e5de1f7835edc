"""A system on the marked turns of cases: what it puts out for both variants, and how much worse one is served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tod_bias.audit.contrasts import shapley_weights
from tod_bias.audit.running import first_difference
from tod_bias.errors import MetricError
from tod_bias.io.cache import Cache
from tod_bias.metrics.metric import Metric, ScoredTurn
from tod_bias.perturb.records import CounterfactualRecord
from tod_bias.statistics.arms import ArmDesign
from tod_bias.systems.caller import CallOptions
from tod_bias.systems.execution import Execution, HistoryMode, Run, TurnTrace
from tod_bias.systems.outputs import as_text
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import StageCall
from tod_bias.systems.turns import scored_turn, with_calls
from tod_bias.systems.twin import Rewrite
from tod_bias.testing.cases import EXPECTED, ORIGINAL, REWRITTEN

_CHUNK = 2000
"""Counterfactuals that are run together."""
Pair = tuple[CounterfactualRecord, Rewrite]


def harm_of(metric: Metric, scores: np.ndarray, arms: ArmDesign) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the harm, and each stage's share of it.

    Args:
        metric: with a better side.
        scores: (…, arms).
        arms: of the scores.

    Raises:
        MetricError: the metric has no better side, so nothing by it is harm.
    """
    sign = sign_of(metric)
    shares = {stage: sign * (scores @ shapley_weights(stage, arms)) for stage in arms.stages}
    return sign * (scores[..., -1] - scores[..., 0]), shares


def sign_of(metric: Metric) -> float:
    """1 where a higher score is better, -1 where a lower one is.

    Raises:
        MetricError: neither is.
    """
    if metric.better == "neither":
        raise MetricError(f"metric {metric.name}: no side of it is the better one, so nothing is harm; take another")
    return 1.0 if metric.better == "higher" else -1.0


@dataclass(frozen=True)
class MeasuredCase:
    """The last turn of a counterfactual, as a system serves it."""

    harm: float
    """NaN where the turn has no score."""
    contributions: Mapping[str, float]
    scores: Mapping[str, float]
    """Original, expected, rewritten."""
    outputs: Mapping[str, Mapping[str, str]]
    """Stage to what it put out: original, expected, rewritten."""
    first_difference: Mapping[str, Any] | None = None
    """The first step that differs from T of the original's (:mod:`tod_bias.audit.running`)."""


class CaseRunner:
    """Runs one system on the last turns of counterfactuals and of their originals.

    Args:
        pipeline: the system.
        metric: scores its turns.
        history: ``gold`` or ``system``.
        cache: of outputs; None for none.
        show_progress: on stderr.

    Raises:
        MetricError: the metric has no better side.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        metric: Metric,
        history: HistoryMode = "gold",
        cache: Cache | None = None,
        *,
        show_progress: bool = False,
    ) -> None:
        sign_of(metric)
        self.stages = tuple(pipeline.names)
        self._metric = metric
        options = CallOptions(max_failures=1.0, show_progress=show_progress)
        self._execution = Execution(pipeline, history, cache, options)

    def __call__(self, pairs: Sequence[Pair]) -> list[MeasuredCase | str]:
        """Return the outcome of each counterfactual and its rewrite, or why a call had no output."""
        measured: list[MeasuredCase | str] = []
        for start in range(0, len(pairs), _CHUNK):
            measured += self._measured(pairs[start : start + _CHUNK])
        return measured

    def _measured(self, pairs: Sequence[Pair]) -> list[MeasuredCase | str]:
        runs = []
        for counterfactual, rewrite in pairs:
            original = Run(counterfactual.dialogue, only=len(counterfactual.dialogue.turns) - 1)
            runs += [original, replace(original, rewrite=rewrite, variant=f"{rewrite.axis}:{rewrite.target}")]
        traces = self._execution.settled(runs)
        failures = {
            number: way.failure
            for number, trace in enumerate(traces)
            for turn in trace
            for way in turn
            if 0 in way.arms and way.failure
        }
        table = _CaseTable(len(pairs), self._execution.arms)
        table.fill(self._metric, list(self._turns(runs, traces, failures)))
        harm, shares = harm_of(self._metric, table.by_arm, self._execution.arms)
        measured: list[MeasuredCase | str] = []
        for number in range(len(pairs)):
            reason = failures.get(2 * number, failures.get(2 * number + 1))
            if reason is not None:
                measured.append(reason)
                continue
            contributions = {name: float(share[number]) for name, share in shares.items()}
            measured.append(
                MeasuredCase(
                    float(harm[number]),
                    contributions,
                    table.scores(number),
                    table.outputs_of(number),
                    table.first_difference(number),
                )
            )
        return measured

    def _turns(
        self, runs: Sequence[Run], traces: Sequence[Any], failures: Mapping[int, str]
    ) -> Iterator[tuple[int, bool, TurnTrace, ScoredTurn]]:
        """Number of the pair, whether it is its original, what the system did in the last turn, and what is scored."""
        for number, (run, trace) in enumerate(zip(runs, traces, strict=True)):
            if trace is None or failures.keys() & {number - number % 2, number - number % 2 + 1}:
                continue
            *before, gold = run.rewritten.turns
            last, is_after_service = trace[-1], any(turn.calls for turn in before)
            turns = [
                scored_turn(gold, way.calls, as_text(way.response), self.stages, is_after_service=is_after_service)
                for way in last
            ]
            is_original = run.rewrite is None
            blind = turns[0] if is_original else turns[max(range(len(last)), key=lambda place: last[place].arms[-1])]
            for way, turn in zip(last, turns, strict=True):
                yield number // 2, is_original, way, turn if turn is blind else replace(turn, twin=blind)


class _CaseTable:
    """Scores and outputs of some pairs of an original and a counterfactual."""

    def __init__(self, pairs: int, arms: ArmDesign) -> None:
        self._stages = arms.stages
        self.by_arm = np.full((pairs, len(arms.arms)), np.nan)
        """(pairs, arms)."""
        self._originals = np.full(pairs, np.nan)
        self._outputs: list[dict[str, dict[str, str]]] = [{} for _ in range(pairs)]
        self._calls: dict[tuple[int, str], Sequence[StageCall]] = {}

    def fill(self, metric: Metric, turns: Sequence[tuple[int, bool, TurnTrace, ScoredTurn]]) -> None:
        """Score the turns, and keep what the stages put out."""
        if not turns:
            return
        statistics = np.asarray(metric.statistics(with_calls([turn for *_, turn in turns])), dtype=float)
        for (number, is_original, trace, _), score in zip(turns, metric.turn_scores(statistics), strict=True):
            if is_original:
                self._originals[number] = score
                self._put(number, ORIGINAL, trace)
                continue
            self.by_arm[number, list(trace.arms)] = score
            for arm, name in ((self.by_arm.shape[1] - 1, EXPECTED), (0, REWRITTEN)):
                if arm in trace.arms:
                    self._put(number, name, trace)

    def _put(self, number: int, which: str, trace: TurnTrace) -> None:
        self._calls[number, which] = trace.calls
        for stage, output in trace.outputs.items():
            self._outputs[number].setdefault(stage, {})[which] = as_text(output)

    def scores(self, number: int) -> dict[str, float]:
        """Return the scores of a pair's last turn: original, expected, rewritten."""
        by_arm = self.by_arm[number]
        values = {ORIGINAL: self._originals[number], EXPECTED: by_arm[-1], REWRITTEN: by_arm[0]}
        return {name: float(score) for name, score in values.items()}

    def first_difference(self, number: int) -> dict[str, Any] | None:
        """Return the first difference in a pair's last turn."""
        expected, calls = (self._calls.get((number, which)) for which in (EXPECTED, REWRITTEN))
        return None if expected is None or calls is None else first_difference(expected, calls)

    def outputs_of(self, number: int) -> dict[str, dict[str, str]]:
        """Return the outputs of a pair's last turn, by stage."""
        return {stage: self._outputs[number].get(stage, {}) for stage in self._stages}
