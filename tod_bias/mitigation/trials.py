"""Fixes tried on the stages that a run names for a gap: a guard, and the rows that a lookup table lacks.

Every fix is measured alone, on the axis of its gap, as the run was: the same dialogues, counterfactuals and options.
Outputs in the run's cache are not computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, Field, computed_field

from tod_bias.audit.attribute import attribute
from tod_bias.audit.choices import all_metrics
from tod_bias.audit.comparison import compare
from tod_bias.audit.matching import MismatchError
from tod_bias.audit.signatures import corpus_hash, signature_of
from tod_bias.config import AuditConfig
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import MetricError, TodBiasError
from tod_bias.metrics.metric import Metric
from tod_bias.mitigation.missing_rows import UNSWAPPED_ARMS, MissingRows, calls_made, check_database
from tod_bias.perturb.axis import PLACEBO, Axis
from tod_bias.perturb.guard import MODES, Guard, with_guards
from tod_bias.report.record import read_turns
from tod_bias.results import AuditResult, Change
from tod_bias.statistics.distributions import t_quantile
from tod_bias.statistics.intervals import LEVEL
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stages.database import LookupDb
from tod_bias.systems.twin import untwinned
from tod_bias.testing.gate import WITHIN, Limits, gate

ROWS = "rows"
"""The fix of a lookup table; every other fix is a guard of this mode."""
MOST_STAGES = 3
"""Stages per axis on which fixes are tried."""


class Trial(BaseModel):
    """A fix of one stage, and what came of it."""

    axis: str
    stage: str
    fix: str
    """``rows``, or the mode of a guard."""
    closes: Literal["yes", "seen", "no"] = "no"
    """``yes``: every gap is shown to lie within the margin; ``seen``: every gap was seen there."""
    gaps: dict[str, Change] = {}
    """Group to its gap before and after."""
    quality: Change | None = None
    """Change of the originals' score; None if the metric has no better side."""
    may_cost_quality: bool = False
    """Whether the interval of the score's change holds a loss beyond the margin."""
    refused: str = ""
    """Why the fixed system could not be scored; empty if it was."""
    missing: tuple[MissingRows, ...] = Field((), exclude=True)
    """Rows that were added."""

    @computed_field
    def helps(self) -> bool:
        """Whether the gaps close and no loss of quality beyond the margin is left open."""
        return self.closes != "no" and not self.may_cost_quality


def stages_to_fix(result: AuditResult, axis: str, metric: str) -> list[str]:
    """Return the stages that a run names for the gaps of an axis, the largest contribution first."""
    row = result.axes[axis][metric]
    shares = [
        share for shares in (row.shares, *(group.shares for group in row.groups.values())) for share in shares.items()
    ]
    sizes: dict[str, float] = {}
    for stage, share in shares:
        sizes[stage] = max(sizes.get(stage, 0.0), abs(share.value or 0.0))
    certain = {stage for stage, share in shares if share.excludes_zero}
    ranked = sorted((stage for stage, size in sizes.items() if size > 0), key=lambda stage: (-sizes[stage], stage))
    return [stage for stage in ranked[:MOST_STAGES] if stage == ranked[0] or stage in certain]


@dataclass(frozen=True)
class Trials:
    """The fixes of a finished run.

    Raises:
        MismatchError: dialogues, system or axes are not those of the run.
        TodBiasError: an unknown guard.
    """

    before: AuditResult
    pipeline: Pipeline
    dialogues: Sequence[Dialogue]
    axes: Mapping[str, Axis]
    metric: str
    guards: Sequence[str] = ("canonical",)
    margin: float = 0.02
    """Largest gap, on the metric's scale, and largest loss of the score, in its units, that may remain."""
    terms_only: bool = False
    """Whether terms are taken as they are if the run has too few for a claim about groups."""
    metrics: Sequence[str | Metric] = ()
    """The user's own metrics that the run measured."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of :func:`~tod_bias.attribute` that the run was made with, such as ``cache``."""

    def __post_init__(self) -> None:
        if unknown := [mode for mode in self.guards if mode not in MODES]:
            raise TodBiasError(f"--guards: unknown guard {unknown[0]!r}; expected some of {', '.join(MODES)}")
        before = self.before
        if corpus_hash(self.dialogues) != before.corpus.hash:
            what = f"the run was on {before.corpus.dialogues} other dialogues"
            raise MismatchError(f"{what}; give --corpus and the other options that it was made with")
        given = signature_of(self.pipeline) | {f"axis {name}": axis.signature for name, axis in self.axes.items()}
        for what, old in before.signature.items():
            if old and (what in given or what.startswith("stage ")) and (new := given.get(what, "none")) != old:
                raise MismatchError(f"{what} is not the run's: {old:.120} there, {new:.120} here; give the run's")

    def __iter__(self) -> Iterator[Trial]:
        """Yield a trial per axis, stage and fix."""
        for axis in self.axes:
            if self.metric in self.before.claimed_metrics(axis):
                for stage in stages_to_fix(self.before, axis, self.metric):
                    yield from self._of(axis, stage)

    def _of(self, axis: str, stage: str) -> Iterator[Trial]:
        table = self.pipeline.stages[stage]
        if isinstance(table, LookupDb) and (missing := self._missing_rows(axis, stage, table)):
            fixed = table.with_rows((lack.call, lack.results) for lack in missing)
            old = self.pipeline
            system = Pipeline({**old.stages, stage: fixed}, old.flow, old.concurrency, old.groups)
            yield self.measured(Trial(axis=axis, stage=stage, fix=ROWS, missing=missing), system)
        guard = untwinned(table)
        for mode in self.guards:
            if not isinstance(guard, Guard) or guard.mode == mode:  # a pipeline file has one mode per stage
                system = with_guards(self.pipeline, {stage: (mode, [self.axes[axis]])})
                yield self.measured(Trial(axis=axis, stage=stage, fix=mode), system)

    def _missing_rows(self, axis: str, stage: str, table: LookupDb) -> tuple[MissingRows, ...]:
        before, call = self.before, table.api_call
        turns = before.turns if before.folder is None else read_turns(before.folder, UNSWAPPED_ARMS)
        made = calls_made(turns, axis, stage, call)
        how: dict[str, Any] = {"seed": before.config.seed, "variants": before.config.design.variants}
        return check_database(table, self.dialogues, [self.axes[axis]], name=stage, call=call, made=made, **how).missing

    def measured(self, trial: Trial, system: Pipeline) -> Trial:
        """Measure the system of a trial, compare it with the run, and write down what remains."""
        axis = trial.axis
        try:
            after = self._audited(system, axis)
            changes = compare(self.before, after, axes=[axis], metrics=all_metrics(self.before, self.metrics))
        except MetricError as error:  # no output is scored any more
            return trial.model_copy(update={"refused": str(error)})
        limits = Limits(self.margin, both_sides=True, terms_only=self.terms_only)
        verdicts = gate(after, limits, axes=[axis], metrics=[self.metric]).verdicts
        if all(verdict.state == WITHIN or verdict.checked.no_dialogue_differs for verdict in verdicts):
            trial.closes = "yes"
        elif all(verdict.checked.value is not None and verdict.checked.size <= self.margin for verdict in verdicts):
            trial.closes = "seen"
        trial.gaps = {name: group.gap for name, group in changes.axes[axis][self.metric].groups.items()}
        info = changes.metrics[self.metric]
        if info.better != "neither" and not info.counterfactual:
            trial.quality = changes.quality[self.metric]
            change = trial.quality.change
            half = float(t_quantile((1 + LEVEL) / 2, change.df or 1.0)) * (change.se or 0.0)
            loss = (change.value or 0.0) * (1 if info.better == "lower" else -1)
            trial.may_cost_quality = loss + half > self.margin
        return trial

    def _audited(self, system: Pipeline, axis: str) -> AuditResult:
        """Return the results of a system under the run's options, on one axis and the run's placebo."""
        before, config = self.before, self.before.config
        axes: list[str | Axis] = [
            self.axes[axis],
            *([PLACEBO] if PLACEBO in before.axes and len(before.axes) > 1 else []),
        ]
        options = {"samples": before.samples or 1, "history": config.run.history, **self.options}
        if "corpus" in config.corpus.model_fields_set:
            options |= {"corpus": before.corpus.name} | ({"split": split} if (split := before.corpus.split) else {})
        how = AuditConfig(design=config.design, seed=config.seed)
        return attribute(
            system, self.dialogues, axes=axes, config=how, metrics=all_metrics(before, self.metrics), **options
        )
