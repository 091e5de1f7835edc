"""From a finding to the smallest fix: guards and missing rows, tried on the stages that the attribution names.

Fixes are sufficient when every disparity and gap of the axis is shown to lie within a margin (or no dialogue shows any
difference), no metric of the run claims a disparity any more, and the quality is shown not to fall by more than another
margin. As one of several is chosen on the same dialogues, the chosen one is judged once more at a level divided by how
many were tried (Bonferroni), and what that does not show is said. Runs are paired with the finished one
(:mod:`tod_bias.audit.comparison`), and answers in the cache are not asked for again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.audit.attribute import attribute
from tod_bias.audit.choices import all_metrics
from tod_bias.audit.comparison import compare
from tod_bias.audit.matching import MismatchError
from tod_bias.audit.signatures import corpus_hash, signature_of
from tod_bias.config import AuditConfig
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import MetricError, TodBiasError
from tod_bias.metrics.metric import Metric
from tod_bias.mitigation.fixes import ROWS, Attempt, Fix, Goal, Mitigation, merged
from tod_bias.mitigation.missing_rows import UNSWAPPED_ARMS, MissingRows, calls_made, check_database
from tod_bias.mitigation.sufficiency import quality_metrics, why_insufficient
from tod_bias.perturb.axis import PLACEBO, Axis
from tod_bias.perturb.guards.guard import GUARDS, Guard, with_guards
from tod_bias.report.record import read_turns
from tod_bias.results import AuditResult, check_claims
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stages.database import LookupDb
from tod_bias.systems.twin import untwinned
from tod_bias.testing.gate import Limits, Verdict, gate

if TYPE_CHECKING:
    import pandas as pd

MOST_STAGES = 3
"""Stages of an axis that are fixed together."""


class MitigationSearch:
    """Tries fixes on one system.

    Args:
        before: the finished run.
        pipeline: the system that it was of.
        dialogues: the corpus that it was on.
        axes: of the run, on which gaps are to be closed.
        goal: what must be reached.
        cache: file of the answers that are kept.
        metrics: of one's own that the run has measured, as objects or ``module:Class``; shipped ones need not be given.
        options: further ones of :func:`~tod_bias.attribute` that the run was made with (``variants``, ``cluster`` …).

    Raises:
        MismatchError: the dialogues, the system or the axes are not those of the run.
        TodBiasError: the run lacks an axis or the metric.
    """

    def __init__(
        self,
        before: AuditResult,
        pipeline: Pipeline,
        dialogues: Sequence[Dialogue],
        axes: Sequence[Axis],
        *,
        goal: Goal | None = None,
        cache: str | Path | None = None,
        metrics: Sequence[str | Metric] = (),
        **options: Any,
    ) -> None:
        self._before, self._pipeline, self._dialogues = before, pipeline, list(dialogues)
        self._axes = {axis.name: axis for axis in axes if axis.name != PLACEBO}
        self._goal = goal or Goal()
        self.metric = self._goal.metric_of(before)
        self._cache, self._metrics, self._options = cache, all_metrics(before, metrics), options
        self._missing: dict[str, list[MissingRows]] = {}
        self.refused: dict[tuple[Fix, ...], str] = {}
        """Fixes under which the metric has no value, and why."""
        _check_dialogues(before, self._dialogues)
        _check_system(before, pipeline)
        _check_axes(before, self._axes)
        if self.metric not in before.metrics:
            known = ", ".join(before.metrics)
            raise TodBiasError(f"metric {self.metric}: the run has none of this name; it has {known}")

    @property
    def claimed(self) -> list[str]:
        """Axes on which the run claims something by the metric that decides."""
        return [axis for axis in self._axes if self.metric in self._before.claimed_metrics(axis)]

    @property
    def claimed_by_others(self) -> dict[str, list[str]]:
        """Axes on which only other metrics claim something, and these."""
        claims = {axis: self._before.claimed_metrics(axis) for axis in self._axes if axis not in self.claimed}
        return {axis: metrics for axis, metrics in claims.items() if metrics}

    def stages(self, axis: str) -> dict[str, float]:
        """The stages in which the axis' disparity, or the gap of a group, enters: the one with the largest
        contribution, and those whose intervals leave out 0; the largest first."""
        row = self._before.axes[axis][self.metric]
        sizes: dict[str, float] = {}
        certain: set[str] = set()
        for shares in (row.shares, *(group.shares for group in row.groups.values())):
            for stage, share in shares.items():
                if share.value is None:
                    continue
                sizes[stage] = max(sizes.get(stage, 0.0), abs(share.value), key=abs)
                if share.excludes_zero:
                    certain.add(stage)
        ranked = sorted((stage for stage in sizes if sizes[stage] > 0), key=lambda stage: (-sizes[stage], stage))
        return {stage: sizes[stage] for stage in ranked[:MOST_STAGES] if stage == ranked[0] or stage in certain}

    def fixes(self, axis: str, guards: Sequence[str]) -> Iterator[tuple[Fix, ...]]:
        """What may close an axis' gaps: of the stages that are named all subsets, the smallest first."""
        kinds: dict[str, list[str]] = {}
        for stage in self.stages(axis):
            rows = [ROWS] if self._missing_of(axis, stage) else []
            kinds[stage] = [*rows, *self._fitting(stage, guards)]
        for size in range(1, 1 + len(kinds)):
            for stages in combinations(kinds, size):
                for chosen in product(*(kinds[stage] for stage in stages)):
                    yield tuple(Fix(stage, kind, (axis,)) for stage, kind in zip(stages, chosen, strict=True))

    def _fitting(self, stage: str, guards: Sequence[str]) -> list[str]:
        """Guards that a stage may get: where it has one already, only that kind, as a pipeline's file has one."""
        present = untwinned(self._pipeline.stages[stage])
        return [kind for kind in guards if not isinstance(present, Guard) or present.kind == kind]

    def _missing_of(self, axis: str, stage: str) -> list[MissingRows]:
        """The rows that a lookup table lacks for groups of an axis."""
        table = self._pipeline.stages[stage]
        if not isinstance(table, LookupDb):
            return []
        if axis not in self._missing:
            checked = check_database(
                table,
                self._dialogues,
                [self._axes[axis]],
                name=stage,
                call=table.api_call,
                seed=self._before.config.seed,
                variants=self._options.get("variants"),
                made=calls_made(self._turns, axis, stage, table.api_call),
            )
            self._missing[axis] = [missing for missing in checked.missing if missing.is_too_few]
        return self._missing[axis]

    @cached_property
    def _turns(self) -> pd.DataFrame | None:
        folder = self._before.folder
        return self._before.turns if folder is None else read_turns(folder, UNSWAPPED_ARMS)

    def missing_rows(self, fixes: Sequence[Fix]) -> tuple[MissingRows, ...]:
        """The rows that fixes bring."""
        pairs = [(axis, fix.stage) for fix in fixes if fix.kind == ROWS for axis in fix.axes]
        return tuple(missing for axis, stage in pairs for missing in self._missing_of(axis, stage))

    def fixed(self, fixes: Sequence[Fix]) -> Pipeline:
        """The system with fixes."""
        stages = dict(self._pipeline.stages)
        for fix in fixes:
            if fix.kind == ROWS:
                table = stages[fix.stage]
                assert isinstance(table, LookupDb)
                stages[fix.stage] = table.with_rows((lack.call, lack.results) for lack in self.missing_rows([fix]))
        system = Pipeline(stages, self._pipeline.flow, self._pipeline.concurrency, self._pipeline.groups)
        guards = {fix.stage: (fix.kind, [self._axes[axis] for axis in fix.axes]) for fix in fixes if fix.kind != ROWS}
        return with_guards(system, guards)

    def attempt(self, fixes: Sequence[Fix], axes: Sequence[str]) -> Attempt:
        """Measure the system with fixes on some axes, and hold it against the finished run."""
        started = time.monotonic()
        result = self._audited(self.fixed(fixes), axes)
        comparison = compare(
            self._before,
            result,
            axes=list(axes),
            metrics=self._metrics,
            margin=self._goal.margin,
            quality_margin=self._goal.quality_margin,
            seed=self._before.config.seed,
        )
        verdicts = self._verdicts(result, axes)
        return Attempt(
            fixes=tuple(fixes),
            axes=tuple(axes),
            result=result,
            comparison=comparison,
            verdicts=verdicts,
            reason=why_insufficient(self._before, result, verdicts, comparison, self._goal),
            seconds=time.monotonic() - started,
            quality_metrics=tuple(quality_metrics(comparison, self.metric)),
        )

    def _audited(self, system: Pipeline, axes: Sequence[str]) -> AuditResult:
        """A run of a system with the finished run's options."""
        before, config = self._before, self._before.config
        corpus: dict[str, Any] = {}
        if "corpus" in config.corpus.model_fields_set:
            corpus = {"corpus": before.corpus.name} | ({"split": split} if (split := before.corpus.split) else {})
        placebo = [PLACEBO] if PLACEBO in before.axes and len(before.axes) > 1 else []
        return attribute(
            system,
            self._dialogues,
            axes=[*(self._axes[axis] for axis in axes), *placebo],
            config=AuditConfig(design=config.design, seed=config.seed),
            history=config.run.history,
            samples=before.samples or 1,
            metrics=self._metrics,
            cache=self._cache,
            **corpus,
            **self._options,
        )

    def _verdicts(self, result: AuditResult, axes: Sequence[str], tried: int = 1) -> tuple[Verdict, ...]:
        """The gate's verdicts on the axes whose gaps are to be closed."""
        claimed = [axis for axis in axes if axis in self.claimed] or list(axes)
        limits = Limits(self._goal.margin, both_sides=True, terms_only=self._goal.terms_only, tried=tried)
        return gate(result, limits, axes=claimed, metrics=[self.metric]).verdicts

    def search(self, guards: Sequence[str] = tuple(GUARDS), budget: int = 12) -> Mitigation:
        """Try fixes axis by axis, put the smallest sufficient ones together, and measure them on all axes.

        Args:
            guards: kinds that may be tried, the preferred first.
            budget: attempts for an axis at the most.

        Raises:
            TodBiasError: the run claims nothing on these axes, or a guard is unknown or none is named.
        """
        _check_choices(guards, budget)
        check_claims(self._before, list(self._axes), self.metric)
        if bare := [axis for axis in self.claimed if next(self.fixes(axis, guards), None) is None]:
            raise TodBiasError(
                f"axis {bare[0]}: no share of the gap is any stage's, so there is no stage to fix; declare what the "
                "gap arises in as a stage, and audit it again"
            )
        by_axis = {axis: self._attempts(axis, guards, budget) for axis in self.claimed}
        attempts = [attempt for attempts_here in by_axis.values() for attempt in attempts_here]
        chosen = self._together(by_axis)
        if chosen is not None and chosen not in attempts:
            attempts.append(chosen)
        tried = max(1, len(attempts) + len(self.refused))
        is_sufficient = chosen is not None and chosen.is_sufficient
        return Mitigation(
            before=self._before,
            goal=self._goal,
            stages={axis: self.stages(axis) for axis in self.claimed},
            attempts=tuple(attempts),
            chosen=chosen if is_sufficient else None,
            missing_rows=() if chosen is None else self.missing_rows(chosen.fixes),
            pipeline=None if chosen is None else self.fixed(chosen.fixes),
            tried=tried,
            unconfirmed=self._unconfirmed(chosen, tried) if chosen is not None and is_sufficient else "",
            other_metrics=self.claimed_by_others,
        )

    def _together(self, by_axis: dict[str, list[Attempt]]) -> Attempt | None:
        """The smallest sufficient fixes of every axis at once, on all axes, as what helps one may harm another; None
        where an axis has none."""
        fixes: list[Fix] = []
        for attempts in by_axis.values():
            sufficient = [attempt for attempt in attempts if attempt.is_sufficient]
            if not sufficient:
                return None
            fixes += min(sufficient, key=lambda attempt: attempt.size(self.metric)).fixes
        together = merged(fixes)
        for attempt in (attempt for attempts in by_axis.values() for attempt in attempts):
            if set(attempt.fixes) == set(together) and set(attempt.axes) == set(self._axes):
                return attempt
        return self.attempt(together, list(self._axes))

    def _unconfirmed(self, chosen: Attempt, tried: int) -> str:
        """Why what was chosen among many is not shown at a level divided by their number; empty where it is."""
        verdicts = self._verdicts(chosen.result, chosen.axes, tried)
        return why_insufficient(self._before, chosen.result, verdicts, chosen.comparison, self._goal, tried)

    def _attempts(self, axis: str, guards: Sequence[str], budget: int) -> list[Attempt]:
        """Attempts on an axis: all of the smallest size, larger ones while none is sufficient."""
        attempts: list[Attempt] = []
        for fixes in self.fixes(axis, guards):
            is_enough = any(attempt.is_sufficient and len(attempt.fixes) < len(fixes) for attempt in attempts)
            if is_enough or len(attempts) + len(self.refused) >= budget:
                break
            try:
                attempts.append(self.attempt(fixes, [axis]))
            except MetricError as error:  # nothing is right any more, so nothing can be compared
                self.refused[fixes] = str(error)
        return attempts


def _check_choices(guards: Sequence[str], budget: int) -> None:
    if not guards or (unknown := [name for name in guards if name not in GUARDS]):
        wrong = f"unknown guard {unknown[0]!r}" if guards else "guards: none is named"
        raise TodBiasError(f"{wrong}; expected some of {', '.join(GUARDS)}")
    if budget < 1:
        raise TodBiasError(f"budget must be at least 1, got {budget}")


def _check_dialogues(before: AuditResult, dialogues: Sequence[Dialogue]) -> None:
    corpus = before.corpus
    given, wanted = corpus_hash(dialogues), corpus.hash
    if given != wanted:
        raise MismatchError(
            f"the run was on {corpus.dialogues} other dialogues, of {corpus.name or 'another corpus'} "
            f"(hash {wanted}, here {given}); give --corpus and the other options that it was made with"
        )


def _check_system(before: AuditResult, pipeline: Pipeline) -> None:
    """See to it that the system is the run's, so that what changes is due to the fixes."""
    given, wanted = list(pipeline.names), before.stages
    if given != wanted:
        raise MismatchError(
            f"the run was of other stages ({', '.join(wanted)}; here {', '.join(given)}); give its pipeline"
        )
    signatures = signature_of(pipeline)
    for name in given:
        old, new = before.signature.get(f"stage {name}"), signatures.get(f"stage {name}")
        if old is not None and old != new:
            raise MismatchError(
                f"stage {name} is not the run's: {old:.120} there, {new:.120} here; give its pipeline, or audit this "
                "one first"
            )


def _check_axes(before: AuditResult, axes: dict[str, Axis]) -> None:
    """See to it that dialogues are rewritten as in the run, before anything is asked."""
    for name, axis in axes.items():
        if name not in before.axes:
            raise TodBiasError(f"axis {name}: the run has none of this name; it has {', '.join(before.axes)}")
        wanted, given = before.signature.get(f"axis {name}"), axis.signature
        if wanted is not None and wanted != given:
            raise MismatchError(
                f"axis {name} was rewritten by {wanted:.160}, here by {given:.160}; give the options that the run was "
                "made with (--introductions, --lexicon, --protect, --name-slots, --perturber), or --axes without it"
            )
