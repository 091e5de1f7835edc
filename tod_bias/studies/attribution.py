"""The main job: attribute a system's bias to its stages (Su).

Every dialogue that can be rewritten along an axis is run as it is and under several drawn rewrites, with every set of
stages swapped for their equivariant twins. The fairscore (Su eq. 1) of each set makes a table v(S); Su's attribution
is its drops along one order, Shapley's their mean over all orders.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from itertools import permutations as all_permutations
from pathlib import Path
from typing import Any

import numpy as np

from tod_bias.answers import Answers
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import (
    CorpusError,
    IncompleteError,
    NothingToPerturbError,
    StageError,
    TodBiasError,
    UndefinedFairscoreError,
)
from tod_bias.metrics.text import TextMetric, text_metric
from tod_bias.perturb.candidates import Perturber
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.record import finite_pair
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.settings import Inference
from tod_bias.studies.estimates import AxisEstimate, AxisStatistics
from tod_bias.studies.results import Results
from tod_bias.studies.signatures import (
    corpus_hash,
    costs_of,
    generator_of,
    generators_of,
    perturber_signature,
    signature_of,
    total_cost,
)
from tod_bias.studies.tellings import (
    Drawn,
    chosen_from,
    chunks,
    drawn_for,
    models_of,
    perturbers_of,
    resting_collector,
    rewritten_by_model,
    runs_of,
)
from tod_bias.studies.turn_table import Sums, TurnTable
from tod_bias.systems.execution import Execution, HistoryMode, check_history
from tod_bias.systems.pipeline import Pipeline

log = logging.getLogger(__name__)

SCHEMA = 1
"""Version of ``results.json``."""
SU_ORDER = ("db", "api_call", "response")
"""Su's steps: first the database mismatch is resolved, then the API call adjusted; the rest is the response model's."""
_MOST_STAGES = 7
"""2**7 arms and 7! orders; more would be neither quick nor readable."""


class Attribution(Results):
    """The content of ``results.json``; ``turns`` holds input, stage outputs, reference and metric statistics."""

    record_name = "results.json"
    frame_name = "turns.parquet"


def attribute(
    pipeline: Pipeline,
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Perturber] = ("gender",),
    draws: int = 3,
    seed: int = 0,
    bootstrap: int = 1000,
    *,
    order: Sequence[str] | str | None = None,
    history: HistoryMode = "gold",
    metric: str | TextMetric = "corpus_bleu",
    permutations: int = 10_000,
    max_per_axis: int | None = None,
    corpus: Mapping[str, str] | None = None,
    cache: str | Path | None = None,
    show_progress: bool = False,
) -> Attribution:
    """Measure how differently a pipeline serves original and rewritten dialogues, and split that over its stages.

    Args:
        pipeline: the system; its last stage's output is scored against the gold response.
        dialogues: those without a word to rewrite are counted and left out.
        axes: names (``gender``, ``age``, ``race``, ``placebo``) or perturbers of one's own.
        draws: rewrites drawn a dialogue (Algorithm 1); the fairscore is the mean over draws.
        seed: of draws, bootstrap and permutations.
        bootstrap: resamples of dialogues for the intervals; 0 for none.
        order: the stages (a list, or joined by commas) in the order in which Su's attribution swaps them; by default
            ``db, api_call, response`` where these are the stages, else the pipeline's own order.
        history: ``gold`` (teacher-forced) or ``system`` (free-running).
        metric: ``corpus_bleu``, ``sentence_bleu`` (ParlAI's) or a metric of one's own.
        permutations: of the test of the fairscore; 0 for none.
        max_per_axis: keep so many dialogues an axis, drawn by ``seed``.
        corpus: ``name`` and ``split`` for the record.
        cache: SQLite file in which generated texts are kept, so that a killed run goes on where it stopped.
        show_progress: on stderr.

    Returns:
        The content of ``results.json`` (see CONTRIBUTING.md), with the frame of turns as ``.turns``.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        UndefinedFairscoreError: the original dialogues of all axes have BLEU 0.
        IncompleteError: one of these holds for some of the axes; it carries the result of the others, which names
            those that it lacks under ``left_out``.
        StageError: a stage broke its contract, or ``order`` does not name every stage once.
        AxisError: unknown axis, or one given twice.
    """
    started = time.monotonic()
    order = _checked_order(pipeline, order)
    metric = text_metric(metric) if isinstance(metric, str) else metric
    check_history(history)
    for name, number in (("draws", draws), ("bootstrap", bootstrap), ("permutations", permutations), ("seed", seed)):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise TodBiasError(f"{name} must be a whole number, got {number!r}")
    if max_per_axis is not None and max_per_axis < 1:
        raise TodBiasError(f"max_per_axis must be at least 1, got {max_per_axis}")
    if draws < 1 or bootstrap < 0 or permutations < 0:
        raise TodBiasError(
            f"draws must be at least 1, bootstrap and permutations at least 0, got {draws}, {bootstrap}, {permutations}"
        )
    dialogues = list(dialogues)
    _check_ids(dialogues)
    perturbers = perturbers_of(axes)
    answers = Answers(cache) if cache is not None else None
    for generator in models_of(perturbers.values()):
        generator.keep_in(answers)
        generator.show_progress = show_progress
    failures: dict[str, TodBiasError] = {}
    found: dict[str, list[Drawn]] = {}
    for axis, perturber in perturbers.items():
        try:
            found[axis] = drawn_for(perturber, dialogues, draws, seed)
        except NothingToPerturbError as error:
            failures[axis] = error
    if not found:
        raise next(iter(failures.values()))
    drawn = {axis: chosen_from(some, max_per_axis, seed) for axis, some in found.items()}

    generators = generators_of(pipeline)
    for generator in generators:
        generator.keep_in(answers)
        generator.show_progress = show_progress
    before = total_cost(generators)
    execution = Execution(pipeline, history, answers, show_progress=show_progress)
    table = TurnTable(pipeline.names, metric, flow=pipeline.flow is not None)
    parts: dict[str, list[Sums]] = {axis: [] for axis in drawn}
    with resting_collector() as collect:
        for chunk in chunks(dialogues, drawn, draws):
            _run(execution, perturbers, chunk, table, draws, parts)
            collect()

    if not any(part.answered for some in parts.values() for part in some):
        last = f"stage {pipeline.names[-1]!r}" if pipeline.flow is None else "the last component asked"
        raise StageError(f"{last}: returned None every time; expected texts, which are scored")
    reports = {}
    inference = Inference(resamples=bootstrap, permutations=permutations, seed=seed)
    for axis, runs in drawn.items():
        statistics = _axis_statistics(parts[axis], runs, pipeline.names)
        estimate = AxisEstimate(statistics, metric, order, _all_orders(pipeline.names), inference)
        if not estimate.defined:
            failures[axis] = UndefinedFairscoreError(
                f"axis {axis}: BLEU of {_counted(len(runs), 'original dialogue')} is 0, so the fairscore (Su eq. 1) is "
                "undefined; check the pipeline with 'tod-bias evaluate', or take more dialogues"
                + (f" (what was answered is kept in {cache})" if cache is not None and generators else "")
            )
            continue
        reports[axis] = estimate.report() | _goals(parts[axis], inference)
    if not reports:
        raise next(iter(failures.values()))
    _adjust(reports)
    table.keep(list(reports))
    after = total_cost(generators)
    costs = {name: component.cost for name, component in execution.components.items()}
    asked = sum(cost.asked for name, cost in costs.items() if generator_of(pipeline.stages[name]))
    result = Attribution(
        schema=SCHEMA,
        corpus={
            "name": "dialogues", "split": "", **(corpus or {}), "dialogues": len(dialogues),
            "hash": corpus_hash(dialogues), "perturbable": {axis: len(runs) for axis, runs in found.items()},
            "audited": {axis: len(runs) for axis, runs in drawn.items()},
        },
        pipeline=list(pipeline.names),
        draws=draws,
        seed=seed,
        history=history,
        metric=metric.name,
        signature={
            "bleu": metric.signature,
            "draws": str(draws),
            "max_per_axis": "all" if max_per_axis is None else str(max_per_axis),
            "seed": str(seed),
            "history": history,
            "intervals": f"95%, expanded percentile, {bootstrap} resamples of dialogues",
            "p_values": f"paired permutation of dialogues, {permutations} permutations, Holm over axes",
            **{f"axis {axis}": perturber_signature(perturber) for axis, perturber in perturbers.items()},
            **signature_of(pipeline),
            **_not_kept(execution),
        },
        axes=reports,
        **rewritten_by_model(perturbers),
        cost={
            "prompts": asked,
            "distinct_prompts": after.distinct_prompts - before.distinct_prompts,
            "cached": after.cached - before.cached,
            "tokens": {"read": after.read - before.read, "written": after.written - before.written},
            **costs_of(execution),
            "seconds": round(time.monotonic() - started, 3),
        },
    )  # fmt: skip
    result.table = table
    if failures:
        result["left_out"] = {axis: str(error) for axis, error in failures.items()}
        raise IncompleteError("; ".join(map(str, failures.values())), result)
    return result


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _checked_order(pipeline: Pipeline, order: Sequence[str] | str | None) -> tuple[str, ...]:
    names = pipeline.names
    if len(names) > _MOST_STAGES:
        raise StageError(f"the pipeline has {len(names)} stages; attribution takes {_MOST_STAGES} at the most")
    if order is None:
        return SU_ORDER if set(names) == set(SU_ORDER) else names
    if isinstance(order, str):
        order = [name.strip() for name in order.split(",")]
    if sorted(order) != sorted(names):
        raise StageError(f"order {','.join(order)!r} must name every stage once; the stages are {', '.join(names)}")
    return tuple(order)


def _all_orders(names: Sequence[str]) -> list[tuple[str, ...]]:
    return list(all_permutations(names))


def _check_ids(dialogues: Sequence[Dialogue]) -> None:
    seen: set[str] = set()
    for dialogue in dialogues:
        if dialogue.id in seen:
            raise CorpusError(f"dialogue id {dialogue.id!r} stands twice in the corpus; ids must be unique")
        seen.add(dialogue.id)


def _run(
    execution: Execution,
    perturbers: Mapping[str, Perturber],
    chunk: Mapping[str, Sequence[Drawn]],
    table: TurnTable,
    draws: int,
    parts: Mapping[str, list[Sums]],
) -> None:
    """Run one chunk of dialogues in all their tellings, write its turns, and add to the sums of every axis."""
    runs = {axis: runs_of(perturbers[axis], some) for axis, some in chunk.items()}
    originals = {run.dialogue.id: run for some in runs.values() for run, _ in some}
    rewritten = [run for some in runs.values() for _, copies in some for run in copies]
    traces = execution([*originals.values(), *rewritten])
    of_original = dict(zip(originals, traces, strict=False))
    rest = iter(traces[len(originals) :])
    for axis, some in runs.items():
        records = [(run, copies, of_original[run.dialogue.id], [next(rest) for _ in copies]) for run, copies in some]
        parts[axis].append(table.add(axis, records, draws))


def _axis_statistics(parts: Sequence[Sums], runs: Sequence[Drawn], names: Sequence[str]) -> AxisStatistics:
    """Statistics of all chunks of one axis, and which draw of which dialogue was of which pair."""
    kinds = np.array([[f"{one.source}>{one.target}" for one in candidates] for _, candidates in runs]).T
    pairs = {str(pair): kinds == pair for pair in sorted(set(kinds.ravel().tolist()))}  # (draws, dialogues)
    original = np.concatenate([part.original for part in parts])
    return AxisStatistics(tuple(names), original, np.concatenate([part.arms for part in parts], axis=2), pairs)


def _goals(parts: Sequence[Sums], inference: Inference) -> dict[str, Any]:
    """Joint goal accuracy on original and rewritten dialogues, where the pipeline makes API calls."""
    tables = [part.goals for part in parts if part.goals is not None]
    if not tables:
        return {}
    report: dict[str, Any] = {}
    for sums, name in zip(np.concatenate(tables, axis=1), ("jga_original", "jga_perturbed"), strict=True):
        report[name] = float(_share(sums.sum(axis=0)))
        bounds = np.full(2, np.nan)
        if inference.resamples:
            bounds = interval(resample(sums, _share, inference.resamples, inference.seed), len(sums))
        report[f"{name}_ci"] = finite_pair(bounds)
    return report


def _share(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


def _not_kept(execution: Execution) -> dict[str, str]:
    """Components that are asked anew by every run, and why."""
    return {f"not kept {name}": part.not_kept for name, part in execution.components.items() if part.not_kept}


def _adjust(reports: Mapping[str, dict[str, Any]]) -> None:
    """Add Holm-adjusted p-values: several axes are several tests."""
    p_values = {axis: report["fairscore"]["p_value"] for axis, report in reports.items()}
    if all(p is not None for p in p_values.values()):
        for axis, p in holm(p_values).items():
            reports[axis]["fairscore"]["p_holm"] = p
