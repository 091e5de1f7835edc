"""The main job: say which components of a system serve people differently.

Every dialogue that can be told otherwise along an axis is run as it is and in all its tellings, with every set of
components swapped for their equivariant twins. What the system loses against itself made blind to the rewrite is the
disparity; its Shapley shares say where it enters (Su for the swaps, Shapley for the shares).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from math import comb
from operator import or_
from pathlib import Path

import numpy as np

from tod_bias.answers import Answers
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import (
    CorpusError,
    IncompleteError,
    MetricError,
    NothingToPerturbError,
    StageError,
    TodBiasError,
)
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.algorithm import PLACEBO
from tod_bias.perturb.candidates import Perturber
from tod_bias.progress import Bar, progress_bar
from tod_bias.statistics.settings import Inference
from tod_bias.studies.axis_table import AxisTable
from tod_bias.studies.batches import read_batches, write_batches
from tod_bias.studies.choices import check_asking, check_numbers, checked_order, clusters_of, metrics_of
from tod_bias.studies.claims import AxisReport, judge
from tod_bias.studies.cluster import RayExecutor, check_executor, check_shareable
from tod_bias.studies.estimates import AxisEstimate
from tod_bias.studies.gathering import Gathered, floor_tables
from tod_bias.studies.measured import why_no_tool_ran, why_unmeasured
from tod_bias.studies.recorded import WHY, RecordedExecution, recorded_answers, without_parts
from tod_bias.studies.results import Results
from tod_bias.studies.running import Lost
from tod_bias.studies.signatures import (
    agreements_of,
    corpus_hash,
    costs_of,
    generators_of,
    perturber_signature,
    signature_of,
    total_cost,
)
from tod_bias.studies.tellings import (
    Design,
    Drawn,
    Retelling,
    chunks,
    models_of,
    resting_collector,
    rewritten_by_model,
)
from tod_bias.studies.turn_rows import schema_of
from tod_bias.studies.turn_table import TurnTable
from tod_bias.studies.workshop import ClusterOf, Executor, Work, here
from tod_bias.systems.component import MAX_FAILURES
from tod_bias.systems.execution import Execution, HistoryMode, check_history
from tod_bias.systems.pipeline import Pipeline

log = logging.getLogger(__name__)

SCHEMA = 2
"""Version of ``results.json``."""
_PATIENCE = 3.0
"""Seconds after which estimates show how far they are: gaps of few attributes take less."""


class Attribution(Results):
    """The content of ``results.json``; ``turns`` holds input, stage outputs, reference and metric statistics."""

    record_name = "results.json"
    frame_name = "turns.parquet"


def attribute(
    pipeline: Pipeline,
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Perturber] = ("gender",),
    design: Design = "crossed",
    draws: int = 3,
    seed: int = 0,
    bootstrap: int = 1000,
    metrics: Sequence[str | Metric] | str | Metric = ("corpus_bleu",),
    *,
    order: Sequence[str] | str | None = None,
    history: HistoryMode = "gold",
    permutations: int = 10_000,
    margin: float | None = None,
    cluster: Sequence[str | tuple[str, ClusterOf]] | str = (),
    tellings: int | None = None,
    max_per_axis: int | None = None,
    samples: int = 1,
    max_failures: float = MAX_FAILURES,
    batch_out: str | Path | None = None,
    batch_in: Sequence[str | Path] = (),
    corpus: Mapping[str, str] | None = None,
    cache: str | Path | None = None,
    executor: str = "local",
    workers: int | None = None,
    show_progress: bool = False,
) -> Attribution:
    """Measure how differently a pipeline serves original and rewritten dialogues, and split that over its components.

    Args:
        pipeline: the system; its last component's output is the response.
        dialogues: those without a word to rewrite are counted and left out.
        axes: names (``gender``, ``age``, ``race``, ``placebo``) or perturbers of one's own. With ``placebo`` among
            them every other axis gets a placebo of the same dose in the same dialogues, and claims what is above it.
        design: ``crossed`` tells every dialogue once as every attribute; ``draws`` is Su's Algorithm 1.
        draws: rewrites drawn a dialogue, for ``draws`` only.
        seed: of tellings, bootstrap and permutations.
        bootstrap: resamples of dialogues for the intervals; 0 for none.
        metrics: names, ``module:Class``, or metrics of one's own; everything is reported for each.
        order: the components (a list, or joined by commas) in the order in which Su's attribution swaps them; by
            default ``db, api_call, response`` where these are the components, else the pipeline's own order.
        history: ``gold`` (teacher-forced) or ``system`` (free-running).
        permutations: sign flips of the tests; 0 for none, and then nothing is claimed.
        margin: differences up to it are called equivalent where that is shown, on the scale of a metric's disparity.
        cluster: what else dialogues share that errs together: ``domain``, ``module:function`` of a dialogue, or a pair
            of a name and such a function. A claim must survive every kind.
        tellings: rewritten tellings a dialogue and axis, for ``crossed`` only, dealt out over the attributes; by
            default one for every other attribute. More of them meet more names, fewer cost less.
        max_per_axis: keep so many dialogues an axis, drawn by ``seed``.
        samples: answers drawn to each question, where components draw them (``temperature`` above 0); they are
            repeated measurements within a dialogue, and the result says how much of an interval is theirs.
        max_failures: share of a component's questions that may stay without an answer. Their dialogues are left out of
            all arms, and counted; with more of them the run stops.
        batch_out: ask no server; write what must still be asked to this folder, as OpenAI batch files.
        batch_in: batch output files, or folders of them: answers to what such files asked.
        corpus: ``name`` and ``split`` for the record.
        cache: SQLite file in which answers are kept, so that a killed run goes on where it stopped.
        executor: ``local``, or ``ray``: the workers of a Ray cluster tell, ask components in Python, and score
            (:mod:`tod_bias.studies.cluster`). The result is the same.
        workers: of the cluster; by default one for each of its processors.
        show_progress: on stderr.

    Returns:
        The content of ``results.json`` (see CONTRIBUTING.md), with the frame of turns as ``.turns``.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        IncompleteError: that holds for some of the axes, or a metric has no value on the originals of one; it carries
            the result of the others, which names what it lacks under ``left_out``.
        PendingError: with ``batch_out``, questions wait in the files that it names.
        StageError: a component broke its contract or left too many questions without an answer, or ``order`` does not
            name every component once.
        AxisError: unknown axis, or one given twice.
        TodBiasError: an unknown metric, design, history or cluster, or a number that makes no sense.
    """
    started = time.monotonic()
    if not isinstance(pipeline, Pipeline):
        raise TodBiasError(
            f"the system must be a Pipeline, got {type(pipeline).__name__}: Pipeline({{name: component}})"
        )
    order = checked_order(pipeline.names, order)
    scored = metrics_of(metrics)
    check_history(history)
    check_numbers(draws, bootstrap, permutations, seed, max_per_axis, margin)
    check_asking(samples, max_failures)
    check_executor(executor, workers)
    dialogues = list(dialogues)
    _check_ids(dialogues)
    kinds = clusters_of(cluster)
    retelling = Retelling(
        dialogues, axes, design=design, draws=draws, seed=seed, tellings=tellings, max_per_axis=max_per_axis
    )
    answers = Answers(cache) if cache is not None else None
    if batch_in and answers is None:
        answers = Answers()
    refused = read_batches(batch_in, answers) if batch_in and answers is not None else {}
    for generator in models_of(retelling.all.values()):
        generator.keep_in(answers)
        generator.show_progress = show_progress
    failures: dict[str, TodBiasError] = dict(retelling.failures)
    found, drawn, teller = retelling.found, retelling.drawn, retelling.teller
    generators = generators_of(pipeline)
    for generator in generators:
        generator.keep_in(answers)
        generator.show_progress = show_progress
    before = total_cost(generators)
    recorded = recorded_answers(pipeline)
    execution: Execution | RecordedExecution = Execution(
        pipeline, history, answers, max_failures=max_failures, collect=batch_out is not None,
        refused=refused, show_progress=show_progress,
    )  # fmt: skip
    if recorded is not None:
        execution = RecordedExecution(recorded, max_failures)
    if samples > 1 and not execution.is_sampled:
        raise TodBiasError(f"{samples} samples: no component draws its answers, so all would be equal; leave it out")
    lost = Lost()
    flow = pipeline.flow is not None or recorded is not None
    table = TurnTable(schema_of(pipeline.names, scored, flow=flow))
    told = {axis: Gathered(teller.perturbers[axis], pipeline.names, kinds) for axis in drawn}
    work = Work(
        teller, pipeline, history, scored, kinds, samples, max_failures, None if cache is None else str(cache), flow
    )
    if executor == "ray":
        check_shareable(work, collects=batch_out is not None or bool(batch_in), recorded=recorded is not None)
    execute: Executor = here if executor == "local" else RayExecutor(workers)
    total = sum(map(len, drawn.values()))
    progress = progress_bar(total, "telling dialogues", show=show_progress and executor != "local")
    with resting_collector() as collect, progress as bar:
        for chunk, done in execute(work, execution, partial(chunks, dialogues, drawn, samples)):
            lost.merge(done.lost)
            for axis, part in done.parts.items():
                table.add(axis, part.rows)
                told[axis].add(part, chunk[axis])
            bar.advance(sum(map(len, chunk.values())))
            collect()
    if batch_out is not None and execution.pending:
        raise write_batches(batch_out, execution.pending)
    execution.check()
    if lost.reasons:
        failures |= {axis: StageError(f"axis {axis}: every dialogue lacks an answer") for axis in drawn}
        drawn, told = _without(lost, drawn, told)
        failures = {axis: error for axis, error in failures.items() if axis not in drawn}
    if not any(part.answered for one in told.values() for part in one.parts):
        last = f"stage {pipeline.names[-1]!r}" if pipeline.flow is None else "the last component asked"
        raise StageError(f"{last}: returned None every time; expected texts, which are scored")

    inference = Inference(resamples=bootstrap, permutations=permutations, seed=seed)
    tables = {axis: told[axis].tables(scored) for axis in drawn}
    if teller.has_placebo:
        floor = floor_tables(tables, drawn, scored, kinds)
        if floor:
            tables[PLACEBO] = floor
        else:
            failures[PLACEBO] = NothingToPerturbError(f"axis {PLACEBO}: no dialogue holds a neutral word to exchange")
    pairs = sum(comb(len(one.tellings.attributes), 2) for by_metric in tables.values() for one in by_metric.values())
    with progress_bar(pairs, "estimating gaps", show=show_progress, after=_PATIENCE) as bar:
        reports, undefined = _reports(tables, scored, order, inference, bar)
    failures |= undefined
    if not reports:
        raise next(iter(failures.values()))
    no_tool_ran = why_no_tool_ran(execution.components, max_failures)
    for axis, by_metric in reports.items():
        seen = reduce(or_, (part.seen for part in told[axis].parts)) if axis in told else None
        for one in scored:
            if seen is not None and one.name in by_metric:
                original = float(one.score(tables[axis][one.name].original.sum(axis=0)))
                by_metric[one.name].unmeasured = no_tool_ran or why_unmeasured(one, seen, original)
    _judge(reports, scored, inference, margin)
    if recorded is not None:
        for report in (report for by_metric in reports.values() for report in by_metric.values()):
            without_parts(report.record)
    table.keep(list(drawn))
    after = total_cost(generators)
    agreements = agreements_of(pipeline)
    audited = {axis: next(iter(by_metric.values())).tellings.dialogues for axis, by_metric in tables.items()}
    result = Attribution(
        schema=SCHEMA,
        corpus={
            "name": "dialogues", "split": "", **(corpus or {}), "dialogues": len(dialogues),
            "hash": corpus_hash(dialogues), "perturbable": {axis: len(runs) for axis, runs in found.items()},
            "audited": audited, "left_out": {axis: len(dialogues) - len(runs) for axis, runs in found.items()},
        },
        pipeline=list(pipeline.names),
        design=design,
        draws=draws if design == "draws" else None,
        seed=seed,
        history=history if recorded is None else "recorded",
        margin=margin,
        metrics={
            one.name: {
                "label": one.label, "better": one.better, "scale": one.scale, "signature": one.signature,
                **({"counterfactual": True} if getattr(one, "counterfactual", False) else {}),
            }
            for one in scored
        },
        signature={
            "max_per_axis": "all" if max_per_axis is None else str(max_per_axis),
            **({} if tellings is None else {"tellings": str(tellings)}),
            "intervals": "95%, t with a word (or other cluster) left out at a time; of these words: expanded "
            f"percentile, {bootstrap} resamples of dialogues",
            "p_values": f"sign flips by word, {permutations} at the most; maxT within an axis and metric, then Holm",
            **{f"axis {axis}": perturber_signature(perturber) for axis, perturber in teller.perturbers.items()},
            **({f"axis {PLACEBO}": teller.matched.signature} if teller.matched is not None else {}),
            **signature_of(pipeline),
            **_not_kept(execution),
        },
        axes={
            axis: {name: report.record for name, report in by_metric.items()} for axis, by_metric in reports.items()
        },
        **rewritten_by_model(retelling.all),
        cost={
            **costs_of(execution.components, after.read - before.read, after.written - before.written),
            "seconds": round(time.monotonic() - started, 3),
        },
    )  # fmt: skip
    if isinstance(execution, RecordedExecution):
        result["attribution"] = WHY
        result["answers"] = execution.used()
    if agreements:
        result["precision"] = agreements
    if execution.is_sampled:
        result["samples"] = samples
    if lost.reasons:
        result["corpus"]["lost"] = lost.record
    result.table = table
    if failures:
        result["left_out"] = {axis: str(error) for axis, error in failures.items()}
        raise IncompleteError("; ".join(map(str, failures.values())), result)
    return result


def _reports(
    tables: Mapping[str, Mapping[str, AxisTable]], scored: Sequence[Metric], order: Sequence[str],
    inference: Inference, bar: Bar,
) -> tuple[dict[str, dict[str, AxisReport]], dict[str, TodBiasError]]:  # fmt: skip
    """Axis and metric to report; and, by axis, metrics that have no value there."""
    tests = max(1, sum(axis != PLACEBO for axis in tables) * len(scored))
    reports: dict[str, dict[str, AxisReport]] = {}
    failures: dict[str, TodBiasError] = {}
    for axis, by_metric in tables.items():
        for one in scored:
            table = by_metric[one.name]
            original = float(one.score(table.original.sum(axis=0)))
            count = f"{len(table.original)} original dialogue{'s' * (len(table.original) != 1)}"
            if np.isnan(original):
                failures[f"{axis}, {one.name}"] = MetricError(
                    f"axis {axis}: {one.label} of {count} is undefined: no turn of them is scored by it"
                )
            else:
                reports.setdefault(axis, {})[one.name] = AxisEstimate(table, one, order, inference, tests).report(
                    bar.advance
                )
    return reports, failures


def _judge(
    reports: Mapping[str, Mapping[str, AxisReport]],
    scored: Sequence[Metric],
    inference: Inference,
    margin: float | None,
) -> None:
    """Adjust what is claimed; without a placebo disagreement with the twin claims nothing: any rewording causes it."""
    bare = {one.name for one in scored if getattr(one, "counterfactual", False)} if PLACEBO not in reports else set()
    claimable = [
        report
        for axis, by_metric in reports.items()
        for name, report in by_metric.items()
        if axis != PLACEBO and name not in bare
    ]
    for axis, by_metric in reports.items():
        for name, report in by_metric.items():
            if axis != PLACEBO and name in bare:
                for claim in (*report.family, *report.behind):
                    claim.tested = False
                claimable.append(report)
    floors = [report for axis, by_metric in reports.items() if axis == PLACEBO for report in by_metric.values()]
    judge(claimable, floors, alpha=1 - inference.level, margin=margin)


def _check_ids(dialogues: Sequence[Dialogue]) -> None:
    seen: set[str] = set()
    for dialogue in dialogues:
        if dialogue.id in seen:
            raise CorpusError(f"dialogue id {dialogue.id!r} stands twice in the corpus; ids must be unique")
        seen.add(dialogue.id)


def _without(
    lost: Lost, drawn: Mapping[str, list[Drawn]], told: Mapping[str, Gathered]
) -> tuple[dict[str, list[Drawn]], dict[str, Gathered]]:
    """The axes that still have dialogues, without those that were lost."""
    kept = {axis: [entry for entry in some if entry[0].id not in lost.reasons] for axis, some in drawn.items()}
    kept = {axis: some for axis, some in kept.items() if some}
    if not kept:
        reason = next(iter(lost.reasons.values()))
        raise StageError(f"no dialogue has answers to all its questions ({reason})")
    return kept, {axis: told[axis] for axis in kept}


def _not_kept(execution: Execution | RecordedExecution) -> dict[str, str]:
    """Components that are asked anew by every run, and why."""
    return {f"not kept {name}": part.not_kept for name, part in execution.components.items() if part.not_kept}
