"""From a finding to the smallest change that mends it: guards and missing rows, tried on what the attribution names.

A change is sufficient when every disparity and gap of the axis is shown to lie within a margin (or no dialogue shows
any difference), no metric of the run claims a disparity any more, and the quality is shown not to fall by more than
another margin. As one of several changes is chosen on the same dialogues, the chosen one is judged once more at a level
divided by how many were tried (Bonferroni), and what that does not show is said. Runs are paired with the finished one
(:mod:`tod_bias.audit.comparison`), and answers that are kept are not asked again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.audit.attribute import attribute
from tod_bias.audit.changes import WORSE
from tod_bias.audit.choices import with_own
from tod_bias.audit.comparison import compare
from tod_bias.audit.matching import MismatchError
from tod_bias.audit.signatures import corpus_hash, perturber_signature, signature_of
from tod_bias.config import AuditConfig
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import MetricError, TodBiasError
from tod_bias.metrics.metric import Metric
from tod_bias.mitigation.attempts import ROWS, Attempt, Change, Repair, measured_of, merged, nothing_differs, size_of
from tod_bias.mitigation.missing_rows import OWN_ARMS, Lack, check_database, made_in
from tod_bias.perturb.axis import PLACEBO, Axis
from tod_bias.perturb.guards.guard import GUARDS, Guard, with_guards
from tod_bias.report.record import read_turns
from tod_bias.results import AuditResult, Comparison, check_claims
from tod_bias.statistics.distributions import normal_quantile
from tod_bias.statistics.intervals import LEVEL
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stages.database import LookupDb
from tod_bias.systems.twin import untwinned
from tod_bias.testing.gate import WITHIN, Judged, gate

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 3
"""Components of an axis that are tried together."""


class Workshop:
    """Tries changes on one system.

    Args:
        before: the finished run.
        pipeline: the system that it was of.
        dialogues: the corpus that it was on.
        perturbers: axes of the run that are to be mended.
        metric: decides, and only axes on which it claims something are mended; by default the run's first.
        margin: within which all disparities and gaps must lie, as shares of the originals' score.
        quality_margin: how much of the score may be lost, in the metric's own units.
        these_words: take words as they are where the run has too few to speak of groups.
        cache: file of the answers that are kept.
        metrics: of one's own that the run has measured, as objects or ``module:Class``; shipped ones need not be given.
        options: further ones of :func:`~tod_bias.attribute` that the run was made with (``variants``, ``cluster`` …).

    Raises:
        MismatchError: the dialogues or the system are not those of the run.
    """

    def __init__(
        self,
        before: AuditResult,
        pipeline: Pipeline,
        dialogues: Sequence[Dialogue],
        perturbers: Sequence[Axis],
        *,
        metric: str | None = None,
        margin: float = 0.02,
        quality_margin: float = 0.02,
        these_words: bool = False,
        cache: str | Path | None = None,
        metrics: Sequence[str | Metric] = (),
        **options: Any,
    ) -> None:
        self._before = before
        self._pipeline, self._dialogues = pipeline, list(dialogues)
        self._perturbers = {one.name: one for one in perturbers if one.name != PLACEBO}
        self.metric = next(iter(before.metrics)) if metric is None else metric
        self._margins = margin, quality_margin
        self._these_words = these_words
        self._cache = cache
        self._metrics = with_own(before, metrics)
        self._options = options
        self._rows: dict[str, list[Lack]] = {}
        self._tried = 1
        self.refused: dict[tuple[Change, ...], str] = {}
        """Changes under which the metric has no value, and why."""
        corpus = before.corpus
        own, theirs = corpus_hash(self._dialogues), corpus.hash
        if own != theirs:
            raise MismatchError(
                f"the run was on {corpus.dialogues} other dialogues, of {corpus.name or 'another corpus'} "
                f"(hash {theirs}, here {own}); give --corpus and the other options that it was made with"
            )
        self._check_system()
        self._check_axes()
        if self.metric not in before.metrics:
            there = ", ".join(before.metrics)
            raise TodBiasError(f"metric {self.metric}: the run has none of this name; it has {there}")

    def _check_system(self) -> None:
        """See to it that the system is the run's, so that what changes is due to the changes."""
        own, theirs = list(self._pipeline.names), self._before.stages
        if own != theirs:
            raise MismatchError(
                f"the run was of other components ({', '.join(theirs)}; here {', '.join(own)}); give its pipeline"
            )
        known, here = self._before.signature, signature_of(self._pipeline)
        for name in own:
            one, other = known.get(f"stage {name}"), here.get(f"stage {name}")
            if one is not None and one != other:
                raise MismatchError(
                    f"component {name} is not the run's: {one:.120} there, {other:.120} here; give its pipeline, or "
                    "audit this one first"
                )

    def _check_axes(self) -> None:
        """See to it that the axes are told as in the run, before anything is asked."""
        known = self._before.signature
        for axis, perturber in self._perturbers.items():
            if axis not in self._before.axes:
                raise TodBiasError(f"axis {axis}: the run has none of this name; it has {', '.join(self._before.axes)}")
            there, here = known.get(f"axis {axis}"), perturber_signature(perturber)
            if there is not None and there != here:
                raise MismatchError(
                    f"axis {axis} was told by {there:.160}, here by {here:.160}; give the options that the run was "
                    "made with (--introductions, --lexicon, --protect, --name-slots, --perturber), or --axes without it"
                )

    @property
    def harmed(self) -> list[str]:
        """Axes on which the run claims something by the metric that decides."""
        return [axis for axis in self._perturbers if self.metric in self._before.claimed_metrics(axis)]

    @property
    def claimed_otherwise(self) -> dict[str, list[str]]:
        """Axes on which only other metrics claim something, and these."""
        found = {axis: self._before.claimed_metrics(axis) for axis in self._perturbers if axis not in self.harmed}
        return {axis: metrics for axis, metrics in found.items() if metrics}

    def named(self, axis: str) -> dict[str, float]:
        """The components in which the axis' disparity, or the gap of a group, enters: its largest part, and those whose
        intervals leave out 0; the largest first."""
        row = self._before.axes[axis][self.metric]
        sizes: dict[str, float] = {}
        certain: set[str] = set()
        for shares in (row.shares, *(group.shares for group in row.groups.values())):
            for name, share in shares.items():
                if share.value is None:
                    continue
                sizes[name] = max(sizes.get(name, 0.0), abs(share.value), key=abs)
                low, high = share.bounds or (0.0, 0.0)
                if low > 0 or high < 0:
                    certain.add(name)
        ranked = sorted((name for name in sizes if sizes[name] > 0), key=lambda name: (-sizes[name], name))
        return {name: sizes[name] for name in ranked[:MOST_NAMED] if name == ranked[0] or name in certain}

    def changes(self, axis: str, guards: Sequence[str]) -> Iterator[tuple[Change, ...]]:
        """What may mend an axis: for the components named, all subsets, the smallest first."""
        named = self.named(axis)
        kinds = {name: [*([ROWS] if self._lacking(axis, name) else []), *self._fitting(name, guards)] for name in named}
        for size in range(1, 1 + len(named)):
            for some in combinations(named, size):
                for chosen in product(*(kinds[name] for name in some)):
                    yield tuple(Change(name, kind, (axis,)) for name, kind in zip(some, chosen, strict=True))

    def _fitting(self, component: str, guards: Sequence[str]) -> list[str]:
        """Guards that a component may get: where it has one already, only that kind, as a pipeline's file has one."""
        there = untwinned(self._pipeline.stages[component])
        return [kind for kind in guards if not isinstance(there, Guard) or there.kind == kind]

    def _lacking(self, axis: str, component: str) -> list[Lack]:
        """What a lookup table lacks for some of an axis."""
        if not isinstance(self._pipeline.stages[component], LookupDb):
            return []
        if axis not in self._rows:
            told = {"tellings": self._options["variants"]} if "variants" in self._options else {}
            found = check_database(
                self._pipeline.stages[component], self._dialogues, [self._perturbers[axis]],
                name=component, seed=self._before.config.seed, made=made_in(self._turns, axis), **told,
            )  # fmt: skip
            self._rows[axis] = [one for one in found.lacks if one.is_missing]
        return self._rows[axis]

    @cached_property
    def _turns(self) -> pd.DataFrame | None:
        if self._before.folder is None:
            return self._before.turns
        return read_turns(self._before.folder, OWN_ARMS)

    def lacks(self, changes: Sequence[Change]) -> tuple[Lack, ...]:
        """The rows that changes bring."""
        return tuple(
            lack
            for one in changes
            if one.kind == ROWS
            for axis in one.axes
            for lack in self._lacking(axis, one.component)
        )

    def system(self, changes: Sequence[Change]) -> Pipeline:
        """The system with changes."""
        stages = dict(self._pipeline.stages)
        for one in changes:
            if one.kind == ROWS:
                table = stages[one.component]
                assert isinstance(table, LookupDb)
                stages[one.component] = table.with_rows(
                    (lack.call, lack.results) for axis in one.axes for lack in self._lacking(axis, one.component)
                )
        changed = Pipeline(stages, self._pipeline.flow, self._pipeline.concurrency)
        guards = {one.component: (one.kind, list(one.axes)) for one in changes if one.kind != ROWS}
        return with_guards(changed, {name: (kind, self._named_axes(axes)) for name, (kind, axes) in guards.items()})

    def _named_axes(self, axes: Sequence[str]) -> list[Any]:
        return [self._perturbers[axis] for axis in axes]

    def attempt(self, changes: Sequence[Change], axes: Sequence[str]) -> Attempt:
        """Measure the system with changes on some axes, and hold it against the finished run."""
        started = time.monotonic()
        before = self._before
        config = before.config
        corpus: dict[str, Any] = {}
        if before.corpus.split:
            corpus = {"corpus": before.corpus.name, "split": before.corpus.split}
        has_placebo = PLACEBO in before.axes and len(before.axes) > 1
        result = attribute(
            self.system(changes),
            self._dialogues,
            axes=[*(self._perturbers[axis] for axis in axes), *([PLACEBO] if has_placebo else [])],
            config=AuditConfig(design=config.design, seed=config.seed),
            history=config.run.history,
            samples=before.samples or 1,
            metrics=self._metrics,
            cache=self._cache,
            **corpus,
            **self._options,
        )
        margin, quality_margin = self._margins
        comparison = compare(
            self._before,
            result,
            axes=list(axes),
            metrics=self._metrics,
            margin=margin,
            quality_margin=quality_margin,
            seed=config.seed,
        )
        judged = self._judged(result, axes)
        cost = result.cost
        asked = {name: cost.distinct[name] - cost.cached.get(name, 0) for name in cost.distinct}
        return Attempt(
            tuple(changes), tuple(axes), result, comparison, judged,
            self._shortfall(judged, comparison, result), asked, time.monotonic() - started,
            quality_by=tuple(self._quality_metrics(comparison)),
        )  # fmt: skip

    def _judged(self, result: AuditResult, axes: Sequence[str]) -> tuple[Judged, ...]:
        """The disparities and gaps of the axes that need a mend."""
        harmed = [axis for axis in axes if axis in self.harmed] or list(axes)
        return gate(
            result, self._margins[0], axes=harmed, metrics=[self.metric], these_words=self._these_words,
            tried=self._tried,
        ).values  # fmt: skip

    def _shortfall(self, values: Sequence[Judged], comparison: Comparison, result: AuditResult) -> str:
        """Why an attempt does not do."""
        for one in values:
            asked = one.asked
            if one.state != WITHIN and not nothing_differs(asked):
                shown = "undefined" if asked.value is None else f"{asked.value:+.3f}"
                why = f": {one.reason}" if one.reason else ""
                return f"{asked.axis}, {asked.name}: {shown}, not shown to be within {self._margins[0]:g}{why}"
        judged = {one.asked.axis for one in values}
        for axis in result.axes:
            for name in result.claimed_metrics(axis):
                if (name == self.metric) if axis in judged else (name in self._before.claimed_metrics(axis)):
                    continue
                row = result.axes[axis][name]
                if row.equivalent_within is None or row.equivalent_within > self._margins[0]:
                    return f"{axis}, {name}: a difference is claimed (disparity {row.disparity.value or 0:+.3f})"
        for name in self._quality_metrics(comparison):
            change = comparison.quality[name].change
            bounds = change.bounds
            if bounds is None or change.value is None:
                return f"{name} may fall: too few dialogues for an interval"
            is_lower = comparison.metrics[name].better == "lower"
            value, bound = (change.value, bounds[1]) if is_lower else (-change.value, -bounds[0])
            loss = value + (bound - value) * self._widening
            if loss > self._margins[1]:
                return f"{name} may fall by {loss:.3f}" if not is_lower else f"{name} may rise by {loss:.3f}"
        for name, quality in comparison.quality.items():
            if quality.verdict == WORSE and abs(quality.change.value or 0.0) > self._margins[1]:
                return f"{name} gets worse by {abs(quality.change.value or 0.0):.3f}"
        return ""

    def _quality_metrics(self, comparison: Comparison) -> list[str]:
        """Those that must be shown not to fall: the one that decides; where it says nothing of quality, all others."""
        sided = [
            name
            for name in comparison.quality
            if comparison.metrics[name].better != "neither" and not comparison.metrics[name].counterfactual
        ]
        return [self.metric] if self.metric in sided else sided

    @property
    def _widening(self) -> float:
        """How much wider than a 95% interval one is that holds for all changes that were tried."""
        alpha = (1 - LEVEL) / 2
        return float(normal_quantile(1 - alpha / self._tried) / normal_quantile(1 - alpha))

    def repair(self, guards: Sequence[str] = tuple(GUARDS), budget: int = 12) -> Repair:
        """Try changes axis by axis, put the smallest sufficient ones together, and measure them on all axes.

        Args:
            guards: kinds that may be tried, the preferred first.
            budget: attempts for an axis at the most.

        Raises:
            TodBiasError: no axis needs a mend, or a guard is unknown or none is named.
        """
        if unknown := [name for name in guards if name not in GUARDS]:
            raise TodBiasError(f"unknown guard {unknown[0]!r}; expected some of {', '.join(GUARDS)}")
        if not guards:
            raise TodBiasError(f"guards: none is named; expected some of {', '.join(GUARDS)}")
        if budget < 1:
            raise TodBiasError(f"budget must be at least 1, got {budget}")
        check_claims(self._before, list(self._perturbers), self.metric)
        attempts: list[Attempt] = []
        chosen: list[Change] = []
        for axis in self.harmed:
            own = self._attempts(axis, guards, budget)
            attempts += own
            sufficient = [one for one in own if one.is_sufficient]
            if sufficient:
                chosen += min(sufficient, key=lambda one: size_of(one, self.metric)).changes
        mended = [axis for axis in self.harmed if any(axis in one.axes for one in chosen)]
        mend = None
        if mended == self.harmed:
            together = merged(chosen)
            everywhere = list(self._perturbers)  # what mends one axis may harm another
            alone = [one for one in attempts if set(one.changes) == set(together) and set(one.axes) == set(everywhere)]
            mend = alone[0] if alone else self.attempt(together, everywhere)
            if mend not in attempts:
                attempts.append(mend)
        lacks = () if mend is None else self.lacks(mend.changes)
        self._tried, doubt = max(1, len(attempts) + len(self.refused)), ""
        if mend is not None and mend.is_sufficient:
            judged = self._judged(mend.result, mend.axes)
            doubt = self._shortfall(judged, mend.comparison, mend.result)
        return Repair(
            self._before.name, self.metric, *self._margins, {axis: self.named(axis) for axis in self.harmed},
            tuple(attempts),
            mend if mend is not None and mend.is_sufficient else None, lacks,
            None if mend is None else self.system(mend.changes),
            {axis: measured_of(self._before.axes[axis]) for axis in self.harmed}, self._before.cost.tokens,
            self._tried, doubt, self._these_words, self.claimed_otherwise,
        )  # fmt: skip

    def _attempts(self, axis: str, guards: Sequence[str], budget: int) -> list[Attempt]:
        """Attempts on an axis: all of the smallest size, larger ones while none does."""
        found: list[Attempt] = []
        for changes in self.changes(axis, guards):
            enough = any(one.is_sufficient and len(one.changes) < len(changes) for one in found)
            if enough or len(found) + len(self.refused) >= budget:
                break
            try:
                found.append(self.attempt(changes, [axis]))
            except MetricError as error:  # nothing is right any more, so nothing can be compared
                self.refused[changes] = str(error)
        return found
