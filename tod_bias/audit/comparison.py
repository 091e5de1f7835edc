"""Comparison of two runs on the same dialogues: values that became better, worse, or are equivalent within a margin.

Two runs can be compared if they have the same dialogues, rewritten and scored alike; the systems may differ. Quality,
disparities, contributions and groups are compared counterfactual by counterfactual, so that differences between
dialogues cancel out. Nothing is run again: all data are read from the folders of the two runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tod_bias.audit.affected import Affected, counted, counted_terms
from tod_bias.audit.arm_sums import ArmSums
from tod_bias.audit.changes import with_findings
from tod_bias.audit.checks import DERIVED_KINDS, scored_by
from tod_bias.audit.claimed_rows import ClaimedRows, are_enough, of_dialogues, plain_rows
from tod_bias.audit.contrasts import POOLED, AuditContrasts, largest_effect, originals_of, pseudo_values
from tod_bias.audit.estimates import GroupRows, mean_estimate, shares_of
from tod_bias.audit.record import signature_of
from tod_bias.audit.tested_changes import ChangeRows, tested_changes
from tod_bias.audit.turns import AxisTurns, Turns
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.changes import AxisChange, Change, Comparison, GroupChange, Systems
from tod_bias.config import CompareConfig
from tod_bias.errors import MetricError, TodBiasError
from tod_bias.metrics.events import Event, event_of
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import PLACEBO
from tod_bias.results import AuditResult, MetricInfo, RunError
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.group_model import stacked
from tod_bias.statistics.needed import FEWEST
from tod_bias.statistics.settings import Inference


@dataclass(frozen=True)
class FinishedRun:
    """A finished run with the sums of its turns."""

    result: AuditResult
    axes: Mapping[str, AxisTurns]
    """Axis to sums; without the placebo, whose variants belong to the other axes."""

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.result.name

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages; none where the run could not replace them."""
        return () if self.result.is_recorded else tuple(self.result.stages)

    @classmethod
    def read(
        cls,
        run: str | Path | AuditResult,
        metrics: Sequence[str | Metric] | None = None,
        axes: Sequence[str] | None = None,
        events: Sequence[Event] = (),
    ) -> FinishedRun:
        """Read a run.

        Args:
            run: its folder, or what :func:`tod_bias.attribute` returned.
            metrics: those that are needed; None: all.
            axes: those that are needed; None: all.
            events: of behaviour, which are counted in the turns of any run.

        Raises:
            RunError: it cannot be read, or lacks an axis.
            MetricError: it has not measured one of the metrics.
        """
        result = run if isinstance(run, AuditResult) else AuditResult.load(run)
        known = [axis for axis in result.axes if axis != PLACEBO]
        for axis in axes or ():
            if axis not in known:
                raise RunError(
                    f"{result.name}: has no axis {axis}; it has {', '.join(known) or 'none but the placebo'}"
                )
        scored = scored_by(result, metrics)
        turns = Turns.of(result)
        sums = {}
        for axis in known if axes is None else axes:
            measured = [metric for metric in scored if metric.name in result.axes[axis] and metric not in events]
            measured += [event for event in events if event.name not in {metric.name for metric in measured}]
            if measured:
                sums[axis] = turns.sums(axis, measured)
        return cls(result, sums)


class MismatchError(TodBiasError):
    """Two runs that cannot be compared; names the first thing that differs."""


class Matched(NamedTuple):
    """One axis of two runs, on the dialogues that both have."""

    before: Mapping[str, ArmSums]
    after: Mapping[str, ArmSums]
    dialogues: tuple[tuple[str, str], ...]
    left_out: int
    """Dialogues that one of the runs lacks, as a call had no output."""


def check_dialogues(before: FinishedRun, after: FinishedRun) -> None:
    """Raises MismatchError where two runs are not on the same dialogues, rewritten with the same seed."""
    first, second = before.result, after.result
    if first.corpus.hash != second.corpus.hash:
        raise MismatchError(
            f"the runs audited different dialogues: {_dialogues(before)}, {_dialogues(after)}; audit both systems on "
            "the same file, with the same --split, --max-dialogues and --seed"
        )
    _same("corpus split", first.corpus.split, second.corpus.split, before, after)
    mine, theirs = settings_of(first), settings_of(second)
    for key, value in mine.items():
        _same(key, value, theirs[key], before, after)


def check_settings(before: FinishedRun, after: FinishedRun, axes: Sequence[str], metrics: Sequence[str]) -> None:
    """Raise if two runs did not rewrite and score the same dialogues in the same way.

    Args:
        before: one run.
        after: the other.
        axes: those that are compared.
        metrics: likewise.

    Raises:
        MismatchError: they did not.
    """
    first, second = before.result, after.result
    for key in (*(f"axis {axis}" for axis in axes), "axis placebo"):
        _same(key, first.signature.get(key), second.signature.get(key), before, after)
    for name in metrics:
        for key in ("signature", "better", "scale") if name in first.metrics and name in second.metrics else ():
            mine, theirs = (getattr(result.metrics[name], key) for result in (first, second))
            _same(f"{key} of metric {name}", mine, theirs, before, after)


def check_named(
    before: FinishedRun, after: FinishedRun, what: str, mine: Sequence[str], theirs: Sequence[str], option: str
) -> None:
    """Raise MismatchError unless two runs have the same axes and metrics; the message lists those of both."""
    if set(mine) == set(theirs):
        return
    common = [name for name in mine if name in theirs]
    hint = f"compare those of both with {option} {','.join(common)}" if common else "they share none"
    raise MismatchError(
        f"{what} differ: {before.name} has {', '.join(mine)}, {after.name} has {', '.join(theirs)}; {hint}"
    )


def settings_of(result: AuditResult) -> dict[str, Any]:
    """Return the settings that determine the counterfactuals and the system's input."""
    config = result.config
    design = config.design.model_dump()
    if config.design.design != "draws":
        del design["draws"]  # without effect
    return {**design, "seed": config.seed, "history": "recorded" if result.is_recorded else config.run.history}


def _same(what: str, mine: Any, theirs: Any, before: FinishedRun, after: FinishedRun) -> None:
    if mine != theirs:
        raise MismatchError(
            f"{what} differs: {_shown(mine)} in {before.name}, {_shown(theirs)} in {after.name}; compare runs of the "
            "same dialogues with the same settings"
        )


def _dialogues(run: FinishedRun) -> str:
    """Return ``84 of chats.jsonl in runs/before``, with the hash that identifies the state of a file."""
    corpus = run.result.corpus
    split = f" ({corpus.split})" if corpus.split else ""
    return f"{corpus.dialogues:,} of {corpus.name or 'no file'}{split} in {run.name} (hash {corpus.hash[:8]})"


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)[:120]


def matched(axis: str, before: FinishedRun, after: FinishedRun) -> Matched:
    """One axis of both runs on their common dialogues, in the order of the first.

    Raises:
        MismatchError: they have no dialogue in common, or one is rewritten differently.
    """
    mine, theirs = before.axes[axis], after.axes[axis]
    place = {dialogue: number for number, dialogue in enumerate(theirs.dialogues)}
    common = [(number, place[dialogue]) for number, dialogue in enumerate(mine.dialogues) if dialogue in place]
    if not common:
        raise MismatchError(f"axis {axis}: {before.name} and {after.name} have no dialogue in common")
    first, second = (np.array(numbers, dtype=int) for numbers in zip(*common, strict=True))
    tables = tuple(
        {name: table.for_dialogues(numbers) for name, table in turns.tables.items()}
        for turns, numbers in ((mine, first), (theirs, second))
    )
    dialogues = tuple(mine.dialogues[number] for number in first)
    _check_variants(axis, [next(iter(some.values())).variants for some in tables], dialogues, before, after)
    left_out = len(set(mine.dialogues) ^ set(theirs.dialogues))
    return Matched(tables[0], tables[1], dialogues, left_out)


def _check_variants(
    axis: str,
    variants: Sequence[VariantIndex],
    dialogues: Sequence[tuple[str, str]],
    before: FinishedRun,
    after: FinishedRun,
) -> None:
    kinds = [[name for name, _ in index.clusters if name not in DERIVED_KINDS] for index in variants]
    if kinds[0] != kinds[1]:
        shown = [", ".join(some) or "none" for some in kinds]
        raise MismatchError(
            f"axis {axis}: --cluster differs: {shown[0]} in {before.name}, {shown[1]} in {after.name}; repeat one run "
            "with the other's (its outputs are cached)"
        )
    first, second = (_facts(index) for index in variants)
    for number, (dialogue, _) in enumerate(dialogues):
        if first[number] != second[number]:
            raise MismatchError(
                f"axis {axis}: dialogue {dialogue!r} is rewritten differently: {_described(first[number])} in "
                f"{before.name}, {_described(second[number])} in {after.name}; compare runs with the same lexicons "
                "and --seed"
            )


def _facts(variants: VariantIndex) -> list[tuple[Any, ...]]:
    """Describe each dialogue's rewrites: its group and term, and those of its counterfactuals and placebos."""
    counterfactuals: list[list[Any]] = [[] for _ in range(variants.dialogues)]
    placebos: list[list[str]] = [[] for _ in range(variants.dialogues)]
    for number, target, terms in zip(variants.of, variants.target, variants.terms, strict=True):
        counterfactuals[number].append((variants.groups[target], tuple(sorted(terms))))
    for number, term in zip(variants.placebo, variants.placebo_terms, strict=True):
        placebos[number].append(f"placebo {term}")
    sources = [variants.groups[number] if number >= 0 else "" for number in variants.source]
    return [
        (
            sources[number],
            tuple(sorted(variants.source_terms[number])),
            tuple(counterfactuals[number]),
            tuple(placebos[number]),
        )
        for number in range(variants.dialogues)
    ]


def _described(facts: tuple[Any, ...]) -> str:
    source, _, counterfactuals, placebos = facts
    shown = [f"{target} ({'/'.join(terms)})" for target, terms in counterfactuals] + list(placebos)
    return f"{source or 'no group'} > {', '.join(shown)}"[:160]


def compare(
    before: str | Path | AuditResult,
    after: str | Path | AuditResult,
    *,
    axes: Sequence[str] | None = None,
    metrics: Sequence[str | Metric] | None = None,
    config: CompareConfig | None = None,
    **settings: Any,
) -> Comparison:
    """Compare quality, disparities, contributions and groups of two finished runs.

    Args:
        before: a run's folder, or a result of :func:`tod_bias.attribute`.
        after: likewise, of the same dialogues rewritten in the same ways; the system may be any other.
        axes: those to compare; by default all, which must be the same in both.
        metrics: likewise; a user's metric as an object or ``module:Class``.
        config: margins, flips and seed (:class:`~tod_bias.config.CompareConfig`).
        settings: single options by name, over those of ``config``: ``margin=0.02``. Changes of disparities, gaps and
            contributions up to ``margin`` are called equivalent where that is shown, each on the scale of its metric.

    Returns:
        The content of ``compare.json``. Scores change on the metric's own scale, disparities and their parts on that
        of the runs.

    Raises:
        MismatchError: the runs do not match; names what differs.
        RunError: a run cannot be read.
        MetricError: a metric was not measured, or has no scale in one of the runs.
        TodBiasError: an unknown option, or a value that it cannot have.
    """
    config = CompareConfig.of({**(config or CompareConfig()).model_dump(), **settings})
    results = [run if isinstance(run, AuditResult) else AuditResult.load(run) for run in (before, after)]
    runs, scored = _read(results, axes, metrics)
    inference = Inference(permutations=config.permutations, seed=config.seed)
    margins = config.margin, config.margin if config.quality_margin is None else config.quality_margin
    pairs = {axis: matched(axis, *runs) for axis in runs[0].axes}
    common = tuple(name for name in runs[0].stages if name in runs[1].stages)
    drafts = {
        (axis, metric.name): AxisDifference(axis, metric, tables, common, inference, margins)
        for metric, axis, tables in _compared(scored, pairs)
    }
    scored = [metric for metric in scored if any(name == metric.name for _, name in drafts)]
    named = _of_findings(results) & drafts.keys()
    quality, changes = _changes(scored, pairs, drafts, named, inference, margins[1])
    comparison = Comparison(
        before=runs[0].name,
        after=runs[1].name,
        corpus=runs[0].result.corpus,
        margin=config.margin,
        quality_margin=margins[1],
        stages=Systems(before=list(runs[0].stages), after=list(runs[1].stages), common=list(common)),
        differences=_differences(*runs),
        same=_are_same(pairs.values()),
        left_out={axis: pair.left_out for axis, pair in pairs.items()},
        metrics={name: info for name, info in _infos(results).items() if name in {metric.name for metric in scored}},
        quality=quality,
        axes={
            axis: {name: draft.result(changes[axis, name]) for (of, name), draft in drafts.items() if of == axis}
            for axis in pairs
        },
        signature={
            "intervals": "95%, t, terms (and other clusters) as the sample, simultaneous over all that is claimed",
            "p_values": "of the same contrasts and family as the intervals",
            "seed": str(config.seed),
            **signature_of({}),
        },
    )
    return with_findings(comparison, *results)


def _read(
    results: Sequence[AuditResult], axes: Sequence[str] | None, metrics: Sequence[str | Metric] | None
) -> tuple[tuple[FinishedRun, FinishedRun], list[Metric]]:
    """Return both runs with their sums, and the metrics that are compared.

    Raises:
        MismatchError: the runs cannot be compared.
    """
    events = [] if metrics is not None else _events(results)
    wanted = metrics if metrics is not None else _shared(results)
    read = [FinishedRun.read(result, wanted, axes, events) for result in results]
    runs = read[0], read[1]
    return runs, [*_scored(runs, wanted), *events]


def _of_findings(results: Sequence[AuditResult]) -> set[tuple[str, str]]:
    """Return the axes and metrics of all findings of a difference."""
    return {(some.axis, some.metric) for result in results for some in result.findings if some.is_difference}


def _events(results: Sequence[AuditResult]) -> list[Event]:
    """Return the events of behaviour that any of the runs measured; the turns of both runs contain each."""
    names = dict.fromkeys(name for result in results for name in result.metrics)
    return [event for name in names if (event := event_of(name)) is not None]


def _shared(results: Sequence[AuditResult]) -> list[str] | None:
    """Return the metrics of both runs without events, if none were named; None if they must be the same."""
    if any(result.config.analysis.metrics is not None for result in results):
        return None
    first, second = ([name for name in result.metrics if event_of(name) is None] for result in results)
    return [name for name in first if name in second]


def _infos(results: Sequence[AuditResult]) -> dict[str, MetricInfo]:
    """Return what is known of the metrics of any run."""
    return {name: info for result in reversed(results) for name, info in result.metrics.items()}


def _compared(
    metrics: Sequence[Metric], pairs: Mapping[str, Matched]
) -> Iterator[tuple[Metric, str, tuple[ArmSums, ArmSums]]]:
    """Yield each metric and axis that both runs have, with the sums of both."""
    for metric in metrics:
        for axis, pair in pairs.items():
            if metric.name in pair.before and metric.name in pair.after:
                tables = _comparable(metric, pair.before[metric.name], pair.after[metric.name])
                if tables is not None:
                    yield metric, axis, tables


def _comparable(metric: Metric, before: ArmSums, after: ArmSums) -> tuple[ArmSums, ArmSums] | None:
    """Return the sums of both runs in the dialogues in which either could show an event; None if there are too few."""
    if not metric.equal_denominators:
        return before, after
    both = np.flatnonzero((before.original[:, -1] > 0) & (after.original[:, -1] > 0))
    if len(both) < FEWEST or (before.is_alike and after.is_alike):
        return None
    return before.for_dialogues(both), after.for_dialogues(both)


def _scored(runs: tuple[FinishedRun, FinishedRun], metrics: Sequence[str | Metric] | None) -> list[Metric]:
    """The metrics that are compared, once it is known that the runs can be.

    Raises:
        MismatchError: they cannot.
    """
    first, second = runs
    check_dialogues(first, second)
    check_named(first, second, "axes", list(first.axes), list(second.axes), "--axes")
    if metrics is None:
        mine, theirs = ([name for name in run.result.metrics if event_of(name) is None] for run in runs)
        check_named(first, second, "metrics", mine, theirs, "--metrics")
        metrics = mine
    scored = scored_by(first.result, metrics) if metrics else []
    check_settings(first, second, list(first.axes), [metric.name for metric in scored])
    return scored


def _changes(
    metrics: Sequence[Metric],
    pairs: Mapping[str, Matched],
    drafts: Mapping[tuple[str, str], AxisDifference],
    named: Collection[tuple[str, str]],
    inference: Inference,
    margin: float | None,
) -> tuple[dict[str, Change], dict[tuple[str, str], list[dict[str, Change]]]]:
    """Return the judged changes of quality, by metric, and of each axis and metric.

    What happened to the findings of the runs is one question, and what else changed another one: each is a family of
    its own, so that hundreds of other changes do not hide that a finding is gone.

    Args:
        metrics: that are compared.
        pairs: axis to both runs.
        drafts: axis and metric to their changes.
        named: axes and metrics of findings.
        inference: level, flips and seed.
        margin: of scores.
    """
    quality = {metric.name: quality_of(metric, pairs, margin, inference) for metric in metrics}
    known = {name: rows for name, rows in quality.items() if rows is not None}
    others = [key for key in drafts if key not in named]
    kinds = [*known.values(), *(rows for key in others for rows in drafts[key].rows)]
    changes = iter(tested_changes(kinds, 1 - inference.level, inference.seed))
    by_metric = {name: _of_terms_only(next(changes)["quality"]) for name in known}
    by_draft = {key: [next(changes) for _ in drafts[key].rows] for key in others}
    of_findings = [key for key in drafts if key in named]
    gaps = iter(tested_changes([drafts[key].rows[0] for key in of_findings], 1 - inference.level, inference.seed))
    rest = iter(
        tested_changes(
            [rows for key in of_findings for rows in drafts[key].rows[1:]], 1 - inference.level, inference.seed
        )
    )
    by_draft |= {key: [next(gaps), *(next(rest) for _ in drafts[key].rows[1:])] for key in of_findings}
    return by_metric, by_draft


def _of_terms_only(change: Change) -> Change:
    """A change of originals, whose terms are those that the corpus has."""
    return change.model_copy(update={"change": change.change.model_copy(update={"scope": "terms"})})


def _differences(before: FinishedRun, after: FinishedRun) -> dict[str, tuple[str | None, str | None]]:
    """Return the differences between the systems and versions of the runs."""
    first, second = before.result.signature, after.result.signature
    names = [name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)]
    differences: dict[str, tuple[str | None, str | None]] = {
        name: (first.get(name), second.get(name)) for name in names
    }
    samples = [str(run.result.samples or 1) for run in (before, after)]
    if samples[0] != samples[1]:
        differences["samples"] = samples[0], samples[1]
    return differences


def _are_same(pairs: Any) -> bool:
    """True if every counterfactual in every arm is scored alike in both runs."""
    return all(
        np.array_equal(getattr(pair.before[name], part), getattr(pair.after[name], part))
        for pair in pairs
        for name in pair.before
        if name in pair.after
        for part in ("original", "by_variant", "placebo")
    )


def quality_of(
    metric: Metric, pairs: Mapping[str, Matched], margin: float | None, inference: Inference
) -> ChangeRows | None:
    """Return the change of the originals' score over all dialogues of all axes, each once; None if no axis has it."""
    rows: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
    labels: dict[str, dict[tuple[str, str], str | None]] = {}
    for pair in pairs.values():
        if metric.name not in pair.before or metric.name not in pair.after:
            continue
        tables = pair.before[metric.name], pair.after[metric.name]
        for dialogue, *originals in zip(pair.dialogues, *(table.original for table in tables), strict=True):
            rows.setdefault(dialogue, (originals[0], originals[1]))
        for name, by_dialogue in tables[0].variants.clusters:
            labels.setdefault(name, {}).update(zip(pair.dialogues, by_dialogue, strict=True))
    if not rows:
        return None
    kinds = [Clusters.of([by_dialogue[dialogue] for dialogue in rows]) for by_dialogue in labels.values()]
    before, after = (
        pseudo_values(np.array([pair[side] for pair in rows.values()])[:, None], metric) for side in (0, 1)
    )
    differs = np.array([bool((first != second).any()) for first, second in rows.values()])
    most = largest_effect(metric, *(np.array(list(some)) for some in zip(*rows.values(), strict=True)))
    changes = of_dialogues(["quality"], after - before, differs, kinds, most, inference)
    return ChangeRows(changes, None, before.mean(axis=0), after.mean(axis=0), metric.better, margin)


class AxisDifference:
    """One axis and metric of two runs.

    Args:
        axis: its name.
        metric: scores it.
        tables: of both runs, of the same counterfactuals.
        stages: those that both systems have.
        inference: level, permutations, seed.
        margins: of disparities and their parts, and of scores.
    """

    def __init__(
        self,
        axis: str,
        metric: Metric,
        tables: tuple[ArmSums, ArmSums],
        stages: Sequence[str],
        inference: Inference,
        margins: tuple[float | None, float | None],
    ) -> None:
        self._metric = metric
        self._stages = tuple(stages)
        self._inference = inference
        self._margins = margins
        self._variants: VariantIndex = tables[0].variants
        self._makers = AuditContrasts(tables[0], metric), AuditContrasts(tables[1], metric)
        if self._makers[0].scale.is_ratio != self._makers[1].scale.is_ratio:
            raise MetricError(
                f"axis {axis}: {metric.label} of the originals is 0 in one of the runs, so no disparity is a share "
                "of it; leave the metric out with --metrics"
            )
        groups = len(self._variants.groups)
        before, after = (maker.contrasts() for maker in self._makers)
        self._runs = tuple(GroupRows(some, groups, inference) for some in (before, after))
        self._change = GroupRows(after.less(before), groups, inference)
        self._middle = GroupRows(after.mean_with(before), groups, inference)

    @cached_property
    def _contrasts(self) -> dict[str, np.ndarray]:
        """Group to its contrast with the mean of groups."""
        return self._change.gap_contrasts()

    @cached_property
    def rows(self) -> list[ChangeRows]:
        """Changes that may be claimed: of gaps, of the disparity and its contributions, of scores of groups."""
        margin, quality_margin = self._margins
        contrasts = np.array([*self._contrasts.values()])
        values = [run.fit.rows(contrasts).values for run in self._runs]
        gaps = ChangeRows(
            self._change.set_of(self._contrasts),
            self._middle.set_of(self._contrasts),
            values[0],
            values[1],
            margin=margin,
        )
        before, after = ({name: maker.whole[name] for name in self._wanted} for maker in self._makers)
        parts = ChangeRows(
            self._whole(self._change, {name: after[name] - before[name] for name in before}),
            self._whole(self._middle, {name: (before[name] + after[name]) / 2 for name in before}),
            np.array([some.mean() for some in before.values()]),
            np.array([some.mean() for some in after.values()]),
            margin=margin,
        )
        return [gaps, parts, self._scores(quality_margin)]

    @property
    def _wanted(self) -> list[str]:
        return [POOLED, *shares_of(self._stages)]

    def _whole(self, groups: GroupRows, values: Mapping[str, np.ndarray]) -> ClaimedRows:
        """Means over dialogues, of all counterfactuals together."""
        rows, over = groups.whole_rows(
            values,
            originals_of(self._variants, groups.contrasts.design.groups),
            shares_of(self._stages),
        )
        differs = groups.contrasts.differs
        units = [[counted(differs, most=groups.contrasts.most)]] * len(values)
        adds = np.stack(list(values.values()), axis=1) * differs[:, None]
        return plain_rows(list(values), rows, over, units, adds, self._inference)

    def _affected(self, place: int, *, over: bool) -> list[Affected]:
        """Count the dialogues of a group that differ between the runs, and its terms if they are a sample."""
        design, differs = self._change.contrasts.design, self._change.contrasts.differs
        most = self._change.contrasts.largest_score
        units = [counted(differs[design.has[:, place]], most=most)]
        return units + [counted_terms(terms, differs, most=most) for terms in design.sets_of(place) if over]

    def _scores(self, margin: float | None) -> ChangeRows:
        """Changes of the groups' scores; terms are a sample in them as in the gaps."""
        change, names = self._change, list(self._contrasts)
        design = change.contrasts.design
        before, after = (
            np.array([_mean(run.contrasts.scores, design.has, self._place(name)) for name in names])
            for run in self._runs
        )
        influence, coefficients, adds = [], [], []
        unit = self._makers[0].scale.original
        for name in names:
            place = self._place(name)
            members = design.has[:, place]
            scores = change.contrasts.scores[:, place]
            influence.append(np.where(members, scores - scores[members].mean(), 0.0) / members.sum())
            adds.append(np.where(members & change.contrasts.differs, scores, 0.0))
            weights = np.zeros(design.has.shape)
            weights[members, place] = unit / members.sum()
            coefficients.append(weights)
        over = np.array([are_enough(design.sets_of(self._place(name))) for name in names], dtype=bool)
        if names:
            rows = change.fit.estimated(after - before, np.stack(influence, axis=1), stacked(coefficients), over)
        else:
            rows = change.fit.rows(np.zeros((0, design.groups)))
        units = [self._affected(self._place(name), over=bool(some)) for name, some in zip(names, over, strict=True)]
        table = np.array(adds).reshape(len(names), -1).T
        plain = plain_rows(names, rows, over, units, table, self._inference)
        return ChangeRows(plain, None, before, after, self._metric.better, margin)

    def _place(self, name: str) -> int:
        return self._variants.groups.index(name)

    def result(self, changes: Sequence[Mapping[str, Change]]) -> AxisChange:
        """The changes, put together.

        Args:
            changes: the judged :attr:`rows`.
        """
        gaps, parts, scores = changes
        design = self._change.contrasts.design
        wholes = [self._level(side) for side in ("original", "rewritten")]
        return AxisChange(
            scale="ratio" if self._makers[0].scale.is_ratio else "difference",
            dialogues=self._variants.dialogues,
            original=wholes[0],
            rewritten=wholes[1],
            disparity=parts[POOLED],
            contributions={stage: parts[f"shapley {stage}"] for stage in self._stages},
            beyond_placebo=self._beyond(),
            groups={
                name: GroupChange(
                    dialogues=int(design.has[:, self._place(name)].sum()),
                    score=scores[name],
                    gap=gaps[name],
                    contributions=parts_of_group,
                )
                for name, parts_of_group in self._contributions().items()
            },
        )

    def _contributions(self) -> dict[str, dict[str, Change]]:
        """Return the parts of each group's change by stage, each estimated alone."""
        shares = shares_of(self._stages)
        over = dict.fromkeys(self._contrasts, True)
        before, after, change = (run.parts(self._contrasts, over, shares) for run in (*self._runs, self._change))
        return {
            group: {
                stage: Change(
                    before=before[group][name].value, after=after[group][name].value, change=change[group][name]
                )
                for name, (stage,) in shares.items()
            }
            for group in self._contrasts
        }

    def _level(self, side: str) -> Change:
        values = [maker.levels[side] for maker in self._makers]
        return _plain(values[0], values[1], self._inference.level)

    def _beyond(self) -> Change | None:
        values = [maker.beyond_placebo for maker in self._makers]
        if values[0] is None or values[1] is None:
            return None
        return _plain(values[0], values[1], self._inference.level)


def _plain(before: np.ndarray, after: np.ndarray, level: float) -> Change:
    """A change of (dialogues,) means that is not claimed."""
    return Change(before=before.mean(), after=after.mean(), change=mean_estimate(after - before, level))


def _mean(table: np.ndarray, has: np.ndarray, place: int) -> float:
    return float(table[has[:, place], place].mean())
