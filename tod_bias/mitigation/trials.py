"""Trials of fixes on the stages that findings name: a guard, and the rows that a lookup table lacks.

Every fix is measured alone, on the axis of its finding, as the run was: the same dialogues, counterfactuals and
options. It is judged by the finding's own event: the recorded replies of a system with a bias are no standard for its
repair. Outputs in the run's cache are not computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, Field, computed_field

from tod_bias.audit.analysis import attribute
from tod_bias.audit.comparison import MismatchError, compare
from tod_bias.audit.record import corpus_hash, read_turns, signature_of
from tod_bias.changes import Change
from tod_bias.config import AuditConfig
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError, MetricError
from tod_bias.io.cache import CACHE_FILE
from tod_bias.metrics.events import event_of
from tod_bias.metrics.metric import Metric
from tod_bias.mitigation.missing_rows import UNSWAPPED_ARMS, MissingRows, calls_made, check_database
from tod_bias.perturb.axis import PLACEBO, Axis
from tod_bias.perturb.guard import Guard, with_guards
from tod_bias.results import DIFFERENT, AuditResult, Finding, MetricInfo
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stages.database import LookupDb
from tod_bias.systems.twin import untwinned

ROWS = "rows"
"""The fix of a lookup table; every other fix is a guard of this mode."""
GONE, SMALLER, REMAINS = "gone", "smaller", "remains"
"""Results of a fix: what it does to the finding's event."""
_GONE = 0.25
"""Largest part of the difference that may be left if the finding is gone: less cannot be told from noise."""


class Trial(BaseModel):
    """A fix of one stage and its results."""

    finding: Finding
    """First of the findings that differ in their group alone."""
    stage: str
    fix: str
    """``rows``, or the mode of a guard."""
    result: Literal["gone", "smaller", "remains"] = "remains"
    before: float | None = None
    """Largest difference of a group of the finding by its event."""
    after: float | None = None
    """The same with the fix."""
    counts: dict[str, tuple[float, float]] = {}
    """Group to how often the event happens with the fix, and in how many turns it could."""
    new: list[str] = []
    """Findings that only the fixed system has, by group and event."""
    quality_metric: str = ""
    """The metric of quality (:func:`quality_metric`); empty if nothing judges quality."""
    quality: Change | None = None
    """Change of the originals' score by that metric."""
    refused: str = ""
    """Reason for which the fixed system could not be measured; empty if it was."""
    missing: tuple[MissingRows, ...] = Field((), exclude=True)
    """Rows that were added."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def costs(self) -> bool:
        """True if a loss of quality is shown."""
        return self.quality is not None and self.quality.verdict == "worse"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def helps(self) -> bool:
        """True if the finding is gone, no other one came, and no loss of quality is shown."""
        return self.result == GONE and not self.new and not self.costs and not self.refused


def quality_metric(metrics: Mapping[str, MetricInfo], *, has_references: bool) -> str:
    """Return the metric that judges quality: a grade, else solved tasks; empty for none.

    Args:
        metrics: of the run.
        has_references: True if the user vouches for the recorded replies: then any metric with a better side will do.
    """
    for name, info in metrics.items():
        if info.is_grade:
            return name
    if "success" in metrics:
        return "success"
    sided = [name for name, info in metrics.items() if info.better != "neither" and not info.counterfactual]
    return next((name for name in sided if event_of(name) is None), "") if has_references else ""


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
    """Axes of the findings, by name."""
    findings: Sequence[Finding]
    """Findings to try fixes for, of different axes, events or stages."""
    guards: Sequence[str]
    metrics: Sequence[Metric] | None = None
    """Metrics that the run was asked for; None for the default."""
    has_references: bool = False
    """True if the recorded replies judge quality."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of :func:`~tod_bias.attribute` that the run was made with, such as ``max_failures``."""

    def __post_init__(self) -> None:
        before = self.before
        if corpus_hash(self.dialogues) != before.corpus.hash:
            what = f"the run was on {before.corpus.dialogues} other dialogues"
            raise MismatchError(f"{what}; give --corpus and the other options that it was made with")
        given = signature_of(self.pipeline.stages) | {
            f"axis {name}": axis.signature for name, axis in self.axes.items()
        }
        for what, old in before.signature.items():
            if old and (what in given or what.startswith("stage ")) and (new := given.get(what, "none")) != old:
                raise MismatchError(f"{what} is not the run's: {old:.120} there, {new:.120} here; give the run's")

    def __iter__(self) -> Iterator[Trial]:
        """Yield a trial per finding, stage that it names, and fix."""
        for finding in self.findings:
            for stage in finding.stage.split(", "):
                if stage in self.pipeline.stages:  # empty if no stage accounts for the gap
                    yield from self._of(Trial(finding=finding, stage=stage, fix=ROWS))

    def _of(self, trial: Trial) -> Iterator[Trial]:
        old, table = self.pipeline, self.pipeline.stages[trial.stage]
        if isinstance(table, LookupDb) and (missing := self._missing_rows(trial, table)):
            fixed = table.with_rows((lack.call, lack.results) for lack in missing)
            system = replace(old, stages={**old.stages, trial.stage: fixed})
            yield self._measured(trial.model_copy(update={"missing": missing}), system)
        guard = untwinned(table)
        for mode in self.guards:
            if not isinstance(guard, Guard) or guard.mode == mode:  # a pipeline file has one mode per stage
                try:
                    system = with_guards(old, {trial.stage: (mode, [self.axes[trial.finding.axis]])})
                except AxisError:  # no guard rewrites such an axis
                    return
                yield self._measured(trial.model_copy(update={"fix": mode}), system)

    def _missing_rows(self, trial: Trial, table: LookupDb) -> tuple[MissingRows, ...]:
        """Return the rows that a table lacks for gold calls and, in a saved run, for the calls of the system."""
        before, call = self.before, table.api_call
        turns = None if before.folder is None else read_turns(before.folder, UNSWAPPED_ARMS)
        made = calls_made(turns, trial.finding.axis, trial.stage, call)
        how: dict[str, Any] = {"seed": before.config.seed, "variants": before.config.design.variants, "made": made}
        return check_database(table, self.dialogues, [self.axes[trial.finding.axis]], trial.stage, call, **how).missing

    def _measured(self, trial: Trial, system: Pipeline) -> Trial:
        """Measure the system of a trial by the event of its finding, and fill in the results."""
        finding, axis = trial.finding, trial.finding.axis
        name = quality_metric(self.before.metrics, has_references=self.has_references)
        try:
            after = self._audited(system, axis)
            quality = self._change(after, axis, name) if name else None
        except MetricError as error:  # no output is scored any more
            return trial.model_copy(update={"refused": str(error)})
        row = after.axes.get(axis, {}).get(finding.metric)
        before = abs(finding.effect.value or 0.0)
        # An event that differs in too few dialogues is not measured.
        left = 0.0 if row is None else max((abs(some.gap.value or 0.0) for some in row.groups.values()), default=0.0)
        is_claimed = row is not None and row.verdict in DIFFERENT
        is_gone = not is_claimed and left <= _GONE * before
        return trial.model_copy(
            update={
                "result": GONE if is_gone else SMALLER if left < before / 2 else REMAINS,
                "before": before,
                "after": left,
                "counts": {} if row is None else _counts(row.groups),
                "new": self._new(after),
                "quality_metric": name,
                "quality": quality,
            }
        )

    def _new(self, after: AuditResult) -> list[str]:
        """Return findings of groups of which the run has none."""
        known = {(some.axis, some.group) for some in self.before.findings if some.is_difference}
        new = [some for some in after.findings if some.is_difference and (some.axis, some.group) not in known]
        return [f"as {some.group}: {some.what}" for some in new]

    def _change(self, after: AuditResult, axis: str, metric: str) -> Change | None:
        """Return the change of the originals' score."""
        named = {some.name: some for some in (*self.pipeline.grades, *(self.metrics or ()))}
        return compare(self.before, after, axes=[axis], metrics=[named.get(metric, metric)]).quality.get(metric)

    def _audited(self, system: Pipeline, axis: str) -> AuditResult:
        """Return the results of a system under the run's options, on one axis and the run's placebo."""
        before, config = self.before, self.before.config
        axes: list[str | Axis] = [self.axes[axis], *([PLACEBO] if PLACEBO in before.axes else [])]
        how = AuditConfig(corpus=config.corpus, design=config.design, seed=config.seed)
        cache = None if before.folder is None else before.folder / CACHE_FILE
        options = {"samples": before.samples or 1, "history": config.run.history, "cache": cache, **self.options}
        if self.metrics is not None:
            options["metrics"] = self.metrics
        return attribute(system, self.dialogues, axes=axes, config=how, **options)


def _counts(groups: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    return {name: group.counts for name, group in groups.items() if group.counts is not None}
