"""What the turns of a run come to: estimates, tests, verdicts, and the record of it all; the third step of an audit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import comb
from typing import Any

import numpy as np

from tod_bias.audit.axis_table import AxisTable
from tod_bias.audit.claims import AxisReport, judge
from tod_bias.audit.design import CounterfactualDesign, rewritten_by_model
from tod_bias.audit.estimates import AxisEstimate
from tod_bias.audit.measured import why_no_tool_ran, why_unmeasured
from tod_bias.audit.recorded import WHY, RecordedExecution, without_parts
from tod_bias.audit.results import Results
from tod_bias.audit.run import Measures, Turns
from tod_bias.audit.signatures import agreements_of, corpus_hash, costs_of, perturber_signature, signature_of
from tod_bias.config import FILE, AuditConfig
from tod_bias.errors import IncompleteError, MetricError, TodBiasError
from tod_bias.files import write_text
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import PLACEBO
from tod_bias.progress import Bar, progress_bar
from tod_bias.statistics.settings import Inference

SCHEMA = 2
"""Version of ``results.json``."""
_PATIENCE = 3.0
"""Seconds after which estimates show how far they are: gaps of few groups take less."""
Reports = dict[str, dict[str, AxisReport]]
"""Axis to metric to what is said of both."""


class Attribution(Results):
    """The content of ``results.json``; ``turns`` holds input, stage outputs, reference and metric statistics."""

    record_name = "results.json"
    frame_name = "turns.parquet"
    config: AuditConfig | None = None
    """Everything that was asked for; written beside the results as ``config.json``."""

    def save_record(self, folder: Any) -> None:
        """Write the JSON files; the results last, so that they stand for a complete run."""
        if self.config is not None:
            write_text(folder / FILE, self.config.text())
        super().save_record(folder)


def analyse(
    turns: Turns,
    design: CounterfactualDesign,
    measures: Measures,
    config: AuditConfig,
    *,
    order: Sequence[str],
    show_progress: bool = False,
) -> Attribution:
    """Estimate, test and judge everything that a run can say.

    Args:
        turns: what the system put out.
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
    pairs = sum(
        comb(len(one.tellings.attributes), 2) for by_metric in turns.sums.values() for one in by_metric.values()
    )
    with progress_bar(pairs, "estimating gaps", show=show_progress, after=_PATIENCE) as bar:
        reports, undefined = _reports(turns.sums, measures.metrics, order, inference, bar)
    failures = turns.failures | undefined
    if not reports:
        raise next(iter(failures.values()))
    _mark_unmeasured(reports, turns, measures.metrics, config.run.max_failures)
    _judge(reports, measures.metrics, inference, options.margin)
    if isinstance(turns.execution, RecordedExecution):
        for report in (report for by_metric in reports.values() for report in by_metric.values()):
            without_parts(report.record)
    result = _record(reports, turns, design, measures.metrics, config)
    result.table = turns.rows
    result.config = config
    if failures:
        result["left_out"] = {axis: str(error) for axis, error in failures.items()}
        raise IncompleteError("; ".join(map(str, failures.values())), result)
    return result


def _reports(
    sums: Mapping[str, Mapping[str, AxisTable]],
    metrics: Sequence[Metric],
    order: Sequence[str],
    inference: Inference,
    bar: Bar,
) -> tuple[Reports, dict[str, TodBiasError]]:
    """Axis and metric to report; and, by axis, metrics that have no value there."""
    tests = max(1, sum(axis != PLACEBO for axis in sums) * len(metrics))
    reports: Reports = {}
    failures: dict[str, TodBiasError] = {}
    for axis, by_metric in sums.items():
        for one in metrics:
            table = by_metric[one.name]
            if np.isnan(float(one.score(table.original.sum(axis=0)))):
                count = f"{len(table.original)} original dialogue{'s' * (len(table.original) != 1)}"
                failures[f"{axis}, {one.name}"] = MetricError(
                    f"axis {axis}: {one.label} of {count} is undefined: no turn of them is scored by it"
                )
            else:
                estimate = AxisEstimate(table, one, order, inference, tests)
                reports.setdefault(axis, {})[one.name] = estimate.report(bar.advance)
    return reports, failures


def _mark_unmeasured(reports: Reports, turns: Turns, metrics: Sequence[Metric], max_failures: float) -> None:
    """Note why nothing is measured, where that is so."""
    no_tool_ran = why_no_tool_ran(turns.execution.components, max_failures)
    for axis, seen in turns.seen.items():
        for one in metrics:
            if report := reports.get(axis, {}).get(one.name):
                report.unmeasured = no_tool_ran or why_unmeasured(one, seen, report.record["original"]["value"])


def _judge(reports: Reports, metrics: Sequence[Metric], inference: Inference, margin: float | None) -> None:
    """Adjust what is claimed; without a placebo disagreement with the twin claims nothing: any rewording causes it."""
    bare = {one.name for one in metrics if getattr(one, "counterfactual", False)} if PLACEBO not in reports else set()
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
    placebos = list(reports.get(PLACEBO, {}).values())
    judge(claimable, placebos, alpha=1 - inference.level, margin=margin)


def _record(
    reports: Reports, turns: Turns, design: CounterfactualDesign, metrics: Sequence[Metric], config: AuditConfig
) -> Attribution:
    """The content of ``results.json``."""
    pipeline, execution, options = turns.pipeline, turns.execution, config.design
    is_recorded = isinstance(execution, RecordedExecution)
    result = Attribution(
        schema=SCHEMA,
        corpus=_corpus_record(turns, design, config),
        pipeline=list(pipeline.names),
        design=options.design,
        draws=options.draws if options.design == "draws" else None,
        seed=config.seed,
        history="recorded" if is_recorded else config.run.history,
        margin=config.analysis.margin,
        metrics={one.name: _metric_record(one) for one in metrics},
        signature=_signature(turns, design, config),
        axes={axis: {name: one.record for name, one in by_metric.items()} for axis, by_metric in reports.items()},
        **rewritten_by_model(design.axes),
        cost={
            **costs_of(execution.components, *turns.tokens),
            "seconds": round(time.monotonic() - turns.started, 3),
        },
    )
    if isinstance(execution, RecordedExecution):
        result["attribution"] = WHY
        result["answers"] = execution.used()
    if agreements := agreements_of(pipeline):
        result["precision"] = agreements
    if execution.is_sampled:
        result["samples"] = config.run.samples
    return result


def _corpus_record(turns: Turns, design: CounterfactualDesign, config: AuditConfig) -> dict[str, Any]:
    dialogues, corpus = design.dialogues, config.corpus
    is_named = "corpus" in corpus.model_fields_set
    record: dict[str, Any] = {
        "name": corpus.corpus if is_named else "dialogues",
        "split": corpus.split if is_named else "",
        "dialogues": len(dialogues),
        "hash": corpus_hash(dialogues),
        "perturbable": {axis: len(runs) for axis, runs in design.admitted.items()},
        "audited": {axis: next(iter(by_metric.values())).tellings.dialogues for axis, by_metric in turns.sums.items()},
        "left_out": {axis: len(dialogues) - len(runs) for axis, runs in design.admitted.items()},
    }
    return record | ({"lost": turns.lost.record} if turns.lost.reasons else {})


def _metric_record(metric: Metric) -> dict[str, Any]:
    names = ("label", "better", "scale", "signature")
    record: dict[str, Any] = {name: getattr(metric, name) for name in names}
    return record | ({"counterfactual": True} if getattr(metric, "counterfactual", False) else {})


def _signature(turns: Turns, design: CounterfactualDesign, config: AuditConfig) -> dict[str, str]:
    """What decides the results: options, axes, stages, versions."""
    options, most, teller = config.analysis, config.design.max_per_axis, design.counterfactuals
    variants = config.design.variants
    not_kept = {name: part.not_kept for name, part in turns.execution.components.items() if part.not_kept}
    return {
        "max_per_axis": "all" if most is None else str(most),
        **({} if variants is None else {"tellings": str(variants)}),
        "intervals": "95%, t with a word (or other cluster) left out at a time; of these words: expanded "
        f"percentile, {options.bootstrap} resamples of dialogues",
        "p_values": f"sign flips by word, {options.permutations} at the most; maxT within an axis and metric, then "
        "Holm",
        **{f"axis {axis}": perturber_signature(perturber) for axis, perturber in teller.axes.items()},
        **({f"axis {PLACEBO}": teller.matched.signature} if teller.matched is not None else {}),
        **signature_of(turns.pipeline),
        **{f"not kept {name}": reason for name, reason in not_kept.items()},
    }
