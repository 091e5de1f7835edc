"""Results of the turns of a run: the third step of an audit, and ``attribute``, which calls all three."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from tod_bias.audit.checks import checked_order, why_all_fail, why_lacking, why_unmeasured
from tod_bias.audit.claims import Claims, Further, judge
from tod_bias.audit.design import CounterfactualDesign, design_counterfactuals
from tod_bias.audit.estimates import AxisEstimates
from tod_bias.audit.findings import findings_of
from tod_bias.audit.measuring import MeasuredAxes, counts_of, measured_axes
from tod_bias.audit.record import corpus_hash, cost_of
from tod_bias.audit.run import Measures, Outputs, run
from tod_bias.audit.saved import unattributed
from tod_bias.audit.templates import with_templates
from tod_bias.config import AuditConfig
from tod_bias.dialogues.corpora import split_of
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import IncompleteError, MetricError, TodBiasError
from tod_bias.io.cache import CACHE_FILE
from tod_bias.io.folder import claimed
from tod_bias.io.progress import Bar, progress_bar
from tod_bias.metrics.events import Event
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import PLACEBO, Axis
from tod_bias.results import AttributionInfo, AuditResult, AxisResult, CorpusInfo, FailedTurns, MetricInfo
from tod_bias.statistics.arms import ArmDesign
from tod_bias.statistics.settings import Inference
from tod_bias.systems.caller import MAX_FAILURES
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.saved_responses import SavedResponses

_PATIENCE = 3.0
"""Seconds after which estimates show how far they are: gaps of few groups take less."""
ClaimsByAxis = dict[str, dict[str, Claims]]
"""Axis to metric to estimates."""


def analyse(
    outputs: Outputs,
    design: CounterfactualDesign,
    measures: Measures,
    config: AuditConfig,
    *,
    order: Sequence[str],
    show_progress: bool = False,
) -> AuditResult:
    """Estimate, test and judge everything that a run can say.

    Args:
        outputs: what the system put out.
        design: the counterfactuals that it was run on.
        measures: the metrics.
        config: everything that was asked for.
        order: the stages in the order in which Su's attribution swaps them.
        show_progress: on stderr.

    Raises:
        IncompleteError: axes or metrics have no result; it carries the result of the others.
    """
    options = config.analysis
    inference = Inference(resamples=options.bootstrap, permutations=options.permutations, seed=config.seed)
    measured = measured_axes(outputs, measures, inference, has_placebo=design.counterfactuals.has_placebo)
    pairs = sum(
        comb(len(axis_turns.variants.groups), 2) * len(axis_turns.tables) for axis_turns in measured.axes.values()
    )
    failed = {axis: outputs.turns.failures(axis) for axis in outputs.axes}
    with progress_bar(pairs, "estimating gaps", show=show_progress, after=_PATIENCE) as bar:
        metrics, claims, undefined = _measured(outputs, measured, measures, config, failed, order, inference, bar)
    failures = {**outputs.failures, **measured.failures, **undefined}
    axes = _with_verdicts(claims, inference, options.margin, measured.further)
    is_recorded = outputs.executor.responses is not None
    result = AuditResult(
        config=config,
        corpus=_corpus(outputs, measured, design, config),
        stages=list(outputs.executor.names),
        attribution=_attribution_info(outputs.turns.arms),
        metrics={metric.name: _metric_info(metric, measured) for metric in metrics},
        signature=_signature(outputs, measured, design, config),
        axes={
            axis: {name: unattributed(row) if is_recorded else row for name, row in by_metric.items()}
            for axis, by_metric in axes.items()
        },
        first_differences={
            axis: differences
            for axis in axes
            if axis != PLACEBO and (differences := outputs.turns.first_differences(axis))
        },
        reworded=outputs.turns.reworded(outputs.axes, reads_replies=config.run.history == "gold"),
        passes=_passes(outputs, axes, config.run.samples),
        failed={axis: some for axis, some in failed.items() if any(group.turns for group in some.values())},
        left_out={axis: str(error) for axis, error in failures.items()},
        responses=outputs.executor.responses,
        samples=config.run.samples if outputs.executor.is_sampled else None,
        precision=outputs.executor.precision(),
        cost=cost_of(outputs.executor.costs, *outputs.tokens, seconds=time.monotonic() - outputs.started),
    ).of_turns(outputs.turns)
    counts = partial(counts_of, outputs.turns, measured)
    result = result.model_copy(update={"findings": findings_of(result, outputs.turns, counts)})
    if fatal := _fatal(failures, config):
        raise IncompleteError("; ".join(fatal), result)
    return result


def _passes(outputs: Outputs, axes: Iterable[str], samples: int) -> dict[str, dict[str, list[float]]]:
    """Return pass^k by the first grade of a system whose outputs are drawn more than once."""
    if samples < 2 or not outputs.executor.is_sampled or not outputs.executor.grades:
        return {}
    grade = outputs.executor.grades[0].name
    return {axis: outputs.turns.passes(axis, grade, samples) for axis in axes if axis != PLACEBO}


def _fatal(failures: Mapping[str, TodBiasError], config: AuditConfig) -> list[str]:
    """Return the failures that a run reports as an error: all but those of a placebo that a command added."""
    forgiven = {PLACEBO} if config.axes.is_placebo_implied else set()
    return [str(error) for name, error in failures.items() if name.partition(",")[0] not in forgiven]


def _measured(
    outputs: Outputs,
    measured: MeasuredAxes,
    measures: Measures,
    config: AuditConfig,
    failed: Mapping[str, Mapping[str, FailedTurns]],
    order: Sequence[str],
    inference: Inference,
    bar: Bar,
) -> tuple[list[Metric], ClaimsByAxis, dict[str, TodBiasError]]:
    """Return the metrics that measure something, their estimates, and the metrics without a value, by axis.

    Raises:
        TodBiasError: no metric has a value on any axis.
    """
    metrics = [*measures.metrics, *measured.events]
    claims, undefined = _estimated(outputs, measured, metrics, order, inference, bar)
    if not claims:
        names = ", ".join(metric.name for metric in metrics)
        unseen = MetricError(f"{names}: no turn of the run shows it, so there is nothing to compare; leave it out")
        raise next(iter({**outputs.failures, **undefined}.values()), unseen)
    claims = _untested(claims, outputs, metrics, failed, config, is_default=measures.is_default)
    if not measures.is_default:
        return metrics, claims, undefined
    metrics = _fitting(metrics, claims)
    return metrics, _of_metrics(metrics, claims), {}


def _estimated(
    outputs: Outputs,
    measured: MeasuredAxes,
    metrics: Sequence[Metric],
    order: Sequence[str],
    inference: Inference,
    bar: Bar,
) -> tuple[ClaimsByAxis, dict[str, TodBiasError]]:
    """Axis to metric to estimates; and, by axis, metrics that have no value there."""
    claims: ClaimsByAxis = {}
    failures: dict[str, TodBiasError] = {}
    for axis, turns in measured.axes.items():
        axis_inference = replace(inference, seed=inference.seed_of(axis))
        for metric in metrics:
            table = turns.tables[metric.name]
            if measured.chose and isinstance(metric, Event) and table.is_alike:
                continue
            if np.isnan(float(metric.score(table.original.sum(axis=0)))):
                if metric.equal_denominators:  # no turn of this axis could show the event
                    continue
                count = f"{len(table.original)} original dialogue{'s' * (len(table.original) != 1)}"
                why = f"{metric.label} of {count} is undefined: no turn of them is scored by it, or one has no number"
                lacking = why_lacking(metric, outputs.seen[axis]) if axis in outputs.seen else ""
                failures[f"{axis}, {metric.name}"] = MetricError(f"axis {axis}: {lacking or why}")
            else:
                estimates = AxisEstimates(table, metric, order, axis_inference)
                claims.setdefault(axis, {})[metric.name] = estimates.claims(bar.advance)
    return claims, failures


def _untested(
    claims: ClaimsByAxis,
    outputs: Outputs,
    metrics: Sequence[Metric],
    failed: Mapping[str, Mapping[str, FailedTurns]],
    config: AuditConfig,
    *,
    is_default: bool,
) -> ClaimsByAxis:
    """Remove the tests of metrics that may claim nothing.

    This removes metrics that measure nothing, and disagreement with the twin: the original's own group cannot disagree,
    so groups that are served alike have unequal gaps. Disagreement is tested only if it was requested and there is a
    placebo, because any rewording causes some.
    """
    is_without = is_default or PLACEBO not in claims
    bare = {metric.name for metric in metrics if metric.counterfactual} if is_without else set()
    allowed = MAX_FAILURES if config.run.max_failures is None else config.run.max_failures
    by_name = {metric.name: metric for metric in metrics}
    changed: ClaimsByAxis = {}
    for axis, by_metric in claims.items():
        changed[axis] = {}
        all_fail = why_all_fail(failed.get(axis, {}), allowed)
        for name, of_metric in by_metric.items():
            if seen := outputs.seen.get(axis):
                original = of_metric.result.original.value
                if why := all_fail or why_unmeasured(by_name[name], seen, original):
                    of_metric = of_metric.untested(unmeasured=why)
            is_bare = name in bare or (by_name[name].takes_majority and of_metric.needs_placebo)
            changed[axis][name] = of_metric.untested() if is_bare and axis != PLACEBO else of_metric
    return changed


def _fitting(metrics: Sequence[Metric], claims: ClaimsByAxis) -> list[Metric]:
    """Return the default metrics that measure something: on every axis, and events on any axis.

    If none does, those with a value are returned, because their reasons explain why nothing is measured.
    """

    def fits(metric: Metric, *, measuring: bool = True) -> bool:
        known = [some[metric.name].result if metric.name in some else None for some in claims.values()]
        fit = [result is not None and not (measuring and result.unmeasured) for result in known]
        return any(fit) if metric.equal_denominators else all(fit)

    measured = [metric for metric in metrics if fits(metric)]
    return measured or [metric for metric in metrics if fits(metric, measuring=False)]


def _of_metrics(metrics: Sequence[Metric], claims: ClaimsByAxis) -> ClaimsByAxis:
    return {
        axis: {metric.name: by_name[metric.name] for metric in metrics if metric.name in by_name}
        for axis, by_name in claims.items()
    }


def _with_verdicts(
    claims: ClaimsByAxis, inference: Inference, margin: float | None, further: Further
) -> dict[str, dict[str, AxisResult]]:
    """Axis to metric to result, with verdicts."""
    names = [(axis, name) for axis, by_metric in claims.items() for name in by_metric]
    claiming = [key for key in names if key[0] != PLACEBO]
    placebos = [key for key in names if key[0] == PLACEBO]
    results = judge(
        [claims[axis][name] for axis, name in claiming],
        [claims[axis][name] for axis, name in placebos],
        alpha=1 - inference.level,
        margin=margin,
        seed=inference.seed,
        further=further,
    )
    by_key = dict(zip([*claiming, *placebos], results, strict=True))
    return {axis: {name: by_key[axis, name] for name in by_metric} for axis, by_metric in claims.items()}


def _corpus(outputs: Outputs, measured: MeasuredAxes, design: CounterfactualDesign, config: AuditConfig) -> CorpusInfo:
    dialogues, corpus = design.dialogues, config.corpus
    is_named = "corpus" in corpus.model_fields_set
    return CorpusInfo(
        name=corpus.corpus if is_named else "dialogues",
        split=split_of(corpus.corpus, corpus.split) if is_named else "",
        dialogues=len(dialogues),
        hash=corpus_hash(dialogues),
        rewritable={axis: len(runs) for axis, runs in design.admitted.items()},
        audited={axis: turns.variants.dialogues for axis, turns in measured.axes.items()},
        left_out={axis: len(dialogues) - len(runs) for axis, runs in design.admitted.items()},
        lost=outputs.executor.lost,
    )


def _attribution_info(arms: ArmDesign) -> AttributionInfo:
    return AttributionInfo(
        groups={name: list(members) for name, members in arms.groups.items()},
        changing=None if arms.changing is None else list(arms.changing),
        permutations=2 * arms.pairs,
    )


def _metric_info(metric: Metric, measured: MeasuredAxes) -> MetricInfo:
    others = [event for event in measured.merged.get(metric.name, ()) if event.stage != metric.stage]
    of_stage: dict[str, str] = {}
    for event in others:
        of_stage.setdefault(event.stage, event.name)
    return MetricInfo(
        label=metric.label,
        better=metric.better,
        scale=metric.scale,
        signature=metric.signature,
        counterfactual=metric.counterfactual,
        unit=metric.unit,
        range=metric.range,
        is_grade=metric.is_grade,
        stage=metric.stage,
        also=of_stage,
    )


def _signature(
    outputs: Outputs, measured: MeasuredAxes, design: CounterfactualDesign, config: AuditConfig
) -> dict[str, str]:
    """Return everything that determines the results: options, axes, stages, versions."""
    options, counterfactuals = config.analysis, design.counterfactuals
    matched = counterfactuals.matched
    return {
        "intervals": "95%, t, terms (and other clusters) as the sample; of gaps simultaneous over all that is claimed",
        "p_values": "of the same contrasts and families as the intervals; where few dialogues differ those of at most "
        f"{options.permutations} sign flips by term too",
        **{f"axis {axis}": loaded.signature for axis, loaded in counterfactuals.axes.items()},
        **({f"axis {PLACEBO}": matched.signature} if matched is not None and PLACEBO in measured.axes else {}),
        **outputs.executor.signature(),
        **{f"group {name}": ", ".join(members) for name, members in outputs.executor.groups.items()},
        **{f"not cached {name}": reason for name, reason in outputs.executor.not_cached.items()},
    }


def _over_templates(measures: Measures, config: AuditConfig, design: CounterfactualDesign) -> Measures:
    """Return the measures with templates of dialogues as clusters, unless no clusters are wanted."""
    if not set(config.analysis.cluster) - {"none"}:
        return measures
    chosen = [selection for some in design.selected.values() for selection in some]
    return replace(measures, clusters=with_templates(measures.clusters, design.dialogues, chosen))


def _with_placebo(axes: Sequence[str | Axis] | str) -> list[str | Axis]:
    """Return the axes with the placebo as the last one, if it is not among them."""
    every: list[str | Axis] = [axes] if isinstance(axes, str) else [*axes]
    names = {axis if isinstance(axis, str) else axis.name for axis in every}
    return every if PLACEBO in names else [*every, PLACEBO]


def attribute(
    pipeline: Pipeline | SavedResponses,
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis] | str = ("gender",),
    *,
    config: AuditConfig | None = None,
    out: str | Path | None = None,
    cache: str | Path | None = None,
    show_progress: bool = False,
    **settings: Any,
) -> AuditResult:
    """Measure how differently a system serves original and rewritten dialogues, and split that over its stages.

    Args:
        pipeline: the stages, of which the output of the last one called is the response; or saved responses.
        dialogues: those without a term to rewrite are counted and left out.
        axes: names (``gender``, ``age``, ``race``, ``placebo``) or axis objects. With ``placebo`` among them every
            other axis gets a placebo with as many edits in the same dialogues, and claims what is above it.
        config: every option; by default all at their defaults (:class:`~tod_bias.config.AuditConfig`).
        out: the run's folder: outputs are cached there as they come, results are written there at the end.
        cache: SQLite file for outputs, where they shall lie elsewhere than in ``out``.
        show_progress: on stderr.
        settings: single options by name, over those of ``config``: ``metrics="jga"``, ``design="draws"``, ``seed=1``.
            ``metrics`` takes objects as well as names, ``cluster`` pairs of a name and a function of a dialogue.

    Returns:
        The content of ``results.json``, with the frame of turns as ``.turns``.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        IncompleteError: that holds for some of the axes, or a metric has no value on the originals of one; it carries
            the result of the others, which names what it lacks under ``left_out``.
        StageError: a stage broke its contract or left too many calls without an output, or ``order`` does not name
            every stage once.
        AxisError: an unknown axis, or one given twice.
        TodBiasError: an unknown option, metric or cluster, or a value that an option cannot have.
    """
    if not isinstance(pipeline, Pipeline | SavedResponses):
        raise TodBiasError(f"the system must be a Pipeline, got {type(pipeline).__name__}: Pipeline({{name: stage}})")
    if isinstance(dialogues, str | Path):
        raise TodBiasError(f"expected dialogues, got {str(dialogues)!r}: load_corpus({str(dialogues)!r}) reads them")
    dialogues = list(dialogues)
    measures, settings = Measures.of(config, settings, dialogues, pipeline.grades)
    if settings.get("placebo"):
        axes = _with_placebo(axes)
    names = [axes] if isinstance(axes, str) else [axis for axis in axes if isinstance(axis, str)]
    if names and (isinstance(axes, str) or len(names) == len(axes)):
        settings = {"axes": names, **settings}
    config = AuditConfig.with_settings(config, settings)
    order = checked_order(pipeline.names, config.analysis.order)
    folder = None if out is None else claimed(out)
    if folder is not None and cache is None:
        cache = folder / CACHE_FILE
    design = design_counterfactuals(dialogues, axes, config.design, seed=config.seed)
    measures = _over_templates(measures, config, design)
    outputs = run(pipeline, design, measures, config.run, cache=cache, show_progress=show_progress)
    try:
        result = analyse(outputs, design, measures, config, order=order, show_progress=show_progress)
    except IncompleteError as error:
        if folder is not None:
            error.result.save(folder)
        raise
    if folder is not None:
        result.save(folder)
    return result
