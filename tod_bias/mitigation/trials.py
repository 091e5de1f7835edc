"""Trials of fixes on the stages that findings name: a guard, and the rows that a lookup table lacks.

Every fix is measured alone, on the axis of its gap, as the run was: the same dialogues, counterfactuals and options.
Outputs in the run's cache are not computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, Field, computed_field

from tod_bias.audit.analysis import attribute
from tod_bias.audit.comparison import MismatchError, compare
from tod_bias.audit.record import corpus_hash, read_turns, signature_of
from tod_bias.config import AuditConfig
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import MetricError
from tod_bias.io.cache import FILE
from tod_bias.metrics.events import event_of
from tod_bias.metrics.metric import Metric
from tod_bias.mitigation.missing_rows import UNSWAPPED_ARMS, MissingRows, calls_made, check_database
from tod_bias.perturb.axis import PLACEBO, Axis
from tod_bias.perturb.guard import Guard, with_guards
from tod_bias.results import AuditResult, Change, MetricInfo
from tod_bias.statistics.distributions import t_quantile
from tod_bias.statistics.intervals import LEVEL
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stages.database import LookupDb
from tod_bias.systems.twin import untwinned
from tod_bias.testing.gate import WITHIN, Limits, gate

ROWS = "rows"
"""The fix of a lookup table; every other fix is a guard of this mode."""


class Trial(BaseModel):
    """A fix of one stage and its results."""

    axis: str
    metric: str
    """The metric that decides on the axis."""
    stage: str
    fix: str
    """``rows``, or the mode of a guard."""
    closes: Literal["yes", "seen", "no"] = "no"
    """``yes``: every gap is shown to be within the margin; ``seen``: every gap was seen there."""
    gaps: dict[str, Change] = {}
    """Group to its gap before and after."""
    quality_metric: str = ""
    """The metric of quality (:func:`quality_metric`); empty if the run has measured none."""
    quality: Change | None = None
    """Change of the originals' score by that metric."""
    may_cost_quality: bool = False
    """True if the interval of this change contains a loss larger than the margin."""
    refused: str = ""
    """Reason for which the fixed system could not be scored; empty if it was."""
    missing: tuple[MissingRows, ...] = Field((), exclude=True)
    """Rows that were added."""

    @computed_field
    def helps(self) -> bool:
        """True if the gaps close and a loss of quality beyond the margin is ruled out."""
        return self.closes != "no" and not self.may_cost_quality


def quality_metric(metrics: Mapping[str, MetricInfo], deciding: str) -> str:
    """Return the metric of quality: the deciding one, or the first of the run if that is an event; empty for none."""
    sided = [name for name in (deciding, *metrics) if metrics[name].better != "neither"]
    sided = [name for name in sided if not metrics[name].counterfactual]
    return min(sided, key=lambda name: event_of(name) is not None, default="")


@dataclass(frozen=True)
class Trials:
    """The fixes of a finished run.

    Raises:
        MismatchError: dialogues, system or axes are not those of the run.
    """

    before: AuditResult
    pipeline: Pipeline
    dialogues: Sequence[Dialogue]
    axes: Mapping[str, Axis]
    deciding: Mapping[str, str]
    """Axis to the metric that decides (:func:`~tod_bias.results.deciding_metrics`)."""
    guards: Sequence[str]
    limits: Limits
    """Its margin is the largest gap, and the largest loss of quality, that may remain, each in its metric's units."""
    metrics: Sequence[Metric]
    """Metrics of the run (:func:`~tod_bias.audit.checks.all_metrics`)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of :func:`~tod_bias.attribute` that the run was made with, such as ``max_failures``."""

    def __post_init__(self) -> None:
        before = self.before
        if corpus_hash(self.dialogues) != before.corpus.hash:
            what = f"the run was on {before.corpus.dialogues} other dialogues"
            raise MismatchError(f"{what}; give --corpus and the other options that it was made with")
        given = signature_of(self.pipeline) | {f"axis {name}": axis.signature for name, axis in self.axes.items()}
        for what, old in before.signature.items():
            if old and (what in given or what.startswith("stage ")) and (new := given.get(what, "none")) != old:
                raise MismatchError(f"{what} is not the run's: {old:.120} there, {new:.120} here; give the run's")

    def __iter__(self) -> Iterator[Trial]:
        """Yield a trial per axis, stage that its findings name, and fix."""
        for axis, metric in self.deciding.items():
            named = ", ".join(finding.stage for finding in self.before.findings if finding.axis == axis)
            for stage in dict.fromkeys(named.split(", ")):
                if stage in self.pipeline.stages:  # empty if no stage accounts for the gap
                    yield from self._of(Trial(axis=axis, metric=metric, stage=stage, fix=ROWS))

    def _of(self, trial: Trial) -> Iterator[Trial]:
        old, table = self.pipeline, self.pipeline.stages[trial.stage]
        if isinstance(table, LookupDb) and (missing := self._missing_rows(trial, table)):
            fixed = table.with_rows((lack.call, lack.results) for lack in missing)
            system = Pipeline({**old.stages, trial.stage: fixed}, old.flow, old.concurrency, old.groups)
            yield self._measured(trial.model_copy(update={"missing": missing}), system)
        guard = untwinned(table)
        for mode in self.guards:
            if not isinstance(guard, Guard) or guard.mode == mode:  # a pipeline file has one mode per stage
                system = with_guards(old, {trial.stage: (mode, [self.axes[trial.axis]])})
                yield self._measured(trial.model_copy(update={"fix": mode}), system)

    def _missing_rows(self, trial: Trial, table: LookupDb) -> tuple[MissingRows, ...]:
        """Return the rows that a table lacks for gold calls and, in a saved run, for the calls of the system."""
        before, call = self.before, table.api_call
        turns = None if before.folder is None else read_turns(before.folder, UNSWAPPED_ARMS)
        made = calls_made(turns, trial.axis, trial.stage, call)
        how: dict[str, Any] = {"seed": before.config.seed, "variants": before.config.design.variants, "made": made}
        return check_database(table, self.dialogues, [self.axes[trial.axis]], trial.stage, call, **how).missing

    def _measured(self, trial: Trial, system: Pipeline) -> Trial:
        """Measure the system of a trial, compare it with the run, and fill in the results."""
        axis, metric = trial.axis, trial.metric
        try:
            after = self._audited(system, axis)
            changes = compare(self.before, after, axes=[axis], metrics=self.metrics)
        except MetricError as error:  # no output is scored any more
            return trial.model_copy(update={"refused": str(error)})
        verdicts = gate(after, self.limits, axes=[axis], metrics=[metric]).verdicts
        if all(verdict.state == WITHIN or verdict.checked.no_dialogue_differs for verdict in verdicts):
            trial.closes = "yes"
        elif all(verdict.checked.size <= self.limits.within for verdict in verdicts):
            trial.closes = "seen"
        trial.gaps = {name: group.gap for name, group in changes.axes[axis][metric].groups.items()}
        trial.quality_metric = name = quality_metric(changes.metrics, metric)
        if name in changes.quality:
            trial.quality = changes.quality[name]
            change = trial.quality.change
            loss = (change.value or 0.0) * (1 if changes.metrics[name].better == "lower" else -1)
            half = float(t_quantile((1 + LEVEL) / 2, change.df or 1.0)) * (change.se or 0.0)
            trial.may_cost_quality = loss + half > self.limits.within
        return trial

    def _audited(self, system: Pipeline, axis: str) -> AuditResult:
        """Return the results of a system under the run's options, on one axis and the run's placebo."""
        before, config = self.before, self.before.config
        axes: list[str | Axis] = [self.axes[axis], *([PLACEBO] if PLACEBO in before.axes else [])]
        how = AuditConfig(corpus=config.corpus, design=config.design, seed=config.seed)
        cache = None if before.folder is None else before.folder / FILE
        options = {"samples": before.samples or 1, "history": config.run.history, "cache": cache, **self.options}
        return attribute(system, self.dialogues, axes=axes, config=how, metrics=self.metrics, **options)
