"""Asking a system the marked turns of cases: what it answers to both tellings, and how much worse one is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tod_bias.audit.contrasts import share_of
from tod_bias.cache import Cache
from tod_bias.errors import MetricError
from tod_bias.metrics.metric import Metric, turn_scores
from tod_bias.perturb.records import CounterfactualRecord
from tod_bias.systems.caller import CallOptions
from tod_bias.systems.execution import Execution, HistoryMode, Run, TurnTrace, all_arms
from tod_bias.systems.outputs import as_text
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.turns import scored_turn, with_calls
from tod_bias.systems.twin import Rewrite
from tod_bias.testing.cases import EXPECTED, ORIGINAL, TOLD

_CHUNK = 2000
"""Tellings that are run together."""


def harm_of(metric: Metric, scores: np.ndarray, stages: Sequence[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Harm, and each component's share of it.

    Args:
        metric: says which scores are good ones.
        scores: (…, arms), as :func:`tod_bias.systems.execution.all_arms` orders them.
        stages: the components.

    Raises:
        MetricError: the metric has no better side, so nothing by it is harm.
    """
    sign = sign_of(metric)
    shares = {
        stage: sign
        * sum(
            (weight * (scores[..., second] - scores[..., first]) for weight, first, second in share_of(stage, stages)),
            np.zeros(scores.shape[:-1]),
        )
        for stage in stages
    }
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
class Measured:
    """One telling's last turn, as a system serves it."""

    harm: float
    """NaN where the turn has no score."""
    by_component: Mapping[str, float]
    scores: Mapping[str, float]
    """Original, expected, told."""
    outputs: Mapping[str, Mapping[str, str]]
    """Component to what it put out: original, expected, told."""


class Questioning:
    """Asks one system the last turns of tellings.

    Args:
        pipeline: the system.
        metric: scores its turns.
        history: ``gold`` or ``system``.
        answers: where answers are kept; None for nowhere.
        show_progress: on stderr.

    Raises:
        MetricError: the metric has no better side.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        metric: Metric,
        history: HistoryMode = "gold",
        answers: Cache | None = None,
        *,
        show_progress: bool = False,
    ) -> None:
        sign_of(metric)
        self.stages = tuple(pipeline.names)
        self._metric = metric
        self._execution = Execution(
            pipeline, history, answers, CallOptions(max_failures=1.0, show_progress=show_progress)
        )

    def __call__(self, tellings: Sequence[tuple[CounterfactualRecord, Rewrite]]) -> list[Measured | str]:
        """What comes of each; the reason, where a question has no answer."""
        found: list[Measured | str] = []
        for start in range(0, len(tellings), _CHUNK):
            found += self._measured(tellings[start : start + _CHUNK])
        return found

    def _measured(self, tellings: Sequence[tuple[CounterfactualRecord, Rewrite]]) -> list[Measured | str]:
        runs = []
        for telling, rewrite in tellings:
            last = len(telling.dialogue.turns) - 1
            original = Run(telling.dialogue, only=last)
            runs += [original, replace(original, rewrite=rewrite, variant=f"{rewrite.axis}:{rewrite.target}")]
        traces = self._execution(runs)
        lost = dict(self._execution.lost)
        courses: list[tuple[int, bool, TurnTrace]] = []
        turns: list[Any] = []
        for number, (run, trace) in enumerate(zip(runs, traces, strict=True)):
            if trace is None or lost.keys() & {number - number % 2, number - number % 2 + 1}:
                continue
            gold = run.rewritten.turns[-1]
            every = [
                (course, scored_turn(gold, course.calls, as_text(course.response), self.stages)) for course in trace[-1]
            ]
            blind = every[0][1] if run.rewrite is None else max(every, key=lambda one: one[0].arms[-1])[1]
            for course, one in every:
                courses.append((number // 2, run.rewrite is None, course))
                turns.append(one if one is blind else replace(one, twin=blind))
        arms = len(all_arms(self.stages))
        by_arm = np.full((len(tellings), arms), np.nan)
        originals = np.full(len(tellings), np.nan)
        outputs: list[dict[str, dict[str, str]]] = [{} for _ in tellings]
        if turns:
            statistics = np.asarray(self._metric.statistics(with_calls(turns)), dtype=float)
            for (number, is_original, course), score in zip(
                courses, turn_scores(self._metric, statistics), strict=True
            ):
                if is_original:
                    originals[number] = score
                    _put(outputs[number], ORIGINAL, course)
                    continue
                by_arm[number, list(course.arms)] = score
                for arm, name in ((arms - 1, EXPECTED), (0, TOLD)):
                    if arm in course.arms:
                        _put(outputs[number], name, course)
        harm, shares = harm_of(self._metric, by_arm, self.stages)
        found: list[Measured | str] = []
        for number in range(len(tellings)):
            reason = lost.get(2 * number, lost.get(2 * number + 1))
            if reason is not None:
                found.append(reason)
                continue
            scores = {ORIGINAL: originals[number], EXPECTED: by_arm[number, -1], TOLD: by_arm[number, 0]}
            found.append(
                Measured(
                    float(harm[number]),
                    {name: float(share[number]) for name, share in shares.items()},
                    {name: float(score) for name, score in scores.items()},
                    {name: outputs[number].get(name, {}) for name in self.stages},
                )
            )
        return found


def _put(outputs: dict[str, dict[str, str]], which: str, course: TurnTrace) -> None:
    for name, output in course.outputs.items():
        outputs.setdefault(name, {})[which] = as_text(output)
