"""Two runs on the same dialogues: what has become better, worse, or stayed as it was, within a margin.

Quality, disparities, contributions and groups are compared counterfactual by counterfactual, so that what the dialogues
have in common falls out; nothing is run again, all is read from the folders of the two runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tod_bias.audit.changes import ChangeClaim, claim_of_score, claim_of_value, judged
from tod_bias.audit.choices import scored_by
from tod_bias.audit.contrasts import AuditContrasts, Contrasts, ScoreDifference
from tod_bias.audit.matching import FinishedRun, Matched, check_dialogues, check_named, check_settings, matched
from tod_bias.audit.paired import ChangeEstimates, PairedContrasts, tests_of
from tod_bias.audit.sums import ArmSums, VariantIndex
from tod_bias.audit.term_clusters import effective_terms_of, effective_terms_of_group, shared_terms, term_clusters_of
from tod_bias.config import CompareConfig
from tod_bias.errors import MetricError
from tod_bias.metrics.metric import Metric
from tod_bias.results import AuditResult, AxisChange, Change, Comparison, GroupChange, Systems
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.settings import Inference


def compare(
    before: str | Path | AuditResult,
    after: str | Path | AuditResult,
    *,
    axes: Sequence[str] | None = None,
    metrics: Sequence[str | Metric] | None = None,
    config: CompareConfig | None = None,
    **settings: Any,
) -> Comparison:
    """How quality, disparities, contributions and groups change from one finished run to another.

    Args:
        before: a run's folder, or what :func:`tod_bias.attribute` returned.
        after: likewise, of the same dialogues rewritten in the same ways; the system may be any other.
        axes: those to compare; by default all, which must be the same in both.
        metrics: likewise; a metric of one's own as an object or ``module:Class``.
        config: margins, resamples and seed (:class:`~tod_bias.config.CompareConfig`).
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
    runs = FinishedRun.read(before, metrics, axes), FinishedRun.read(after, metrics, axes)
    scored = _scored(runs, metrics)
    inference = Inference(resamples=config.bootstrap, permutations=config.permutations, seed=config.seed)
    margins = config.margin, config.margin if config.quality_margin is None else config.quality_margin
    pairs = {axis: matched(axis, *runs) for axis in runs[0].axes}
    common = tuple(name for name in runs[0].stages if name in runs[1].stages)
    drafts = {
        (axis, metric.name): AxisDifference(
            axis, metric, (pair.before[metric.name], pair.after[metric.name]), common, inference, margins
        )
        for metric in scored
        for axis, pair in pairs.items()
        if metric.name in pair.before and metric.name in pair.after
    }
    quality, changes = _changes(scored, pairs, drafts, inference, margins[1])
    return Comparison(
        before=runs[0].name,
        after=runs[1].name,
        corpus=runs[0].result.corpus,
        margin=config.margin,
        quality_margin=margins[1],
        stages=Systems(before=list(runs[0].stages), after=list(runs[1].stages), common=list(common)),
        differences=_differences(*runs),
        same=_are_same(pairs.values()),
        left_out={axis: pair.left_out for axis, pair in pairs.items()},
        metrics={metric.name: runs[0].result.metrics[metric.name] for metric in scored},
        quality=quality,
        axes={
            axis: {name: draft.result(changes[axis, name]) for (of, name), draft in drafts.items() if of == axis}
            for axis in pairs
        },
        signature={
            "intervals": "95%, t with a term (or other cluster) left out of both runs at a time; of these terms: "
            f"expanded percentile, {config.bootstrap} resamples of dialogues",
            "p_values": f"sign flips by term, {config.permutations} at the most; maxT within an axis and metric, then Holm",
            "seed": str(config.seed),
        },
    )


def _scored(runs: tuple[FinishedRun, FinishedRun], metrics: Sequence[str | Metric] | None) -> list[Metric]:
    """The metrics that are compared, once it is known that the runs can be.

    Raises:
        MismatchError: they cannot.
    """
    first, second = runs
    check_dialogues(first, second)
    check_named(first, second, "axes", list(first.axes), list(second.axes), "--axes")
    if metrics is None:
        check_named(first, second, "metrics", list(first.result.metrics), list(second.result.metrics), "--metrics")
    scored = scored_by(first.result, metrics)
    check_settings(first, second, list(first.axes), [metric.name for metric in scored])
    return scored


def _changes(
    metrics: Sequence[Metric],
    pairs: Mapping[str, Matched],
    drafts: Mapping[tuple[str, str], AxisDifference],
    inference: Inference,
    margin: float | None,
) -> tuple[dict[str, Change], dict[tuple[str, str], dict[str, Change]]]:
    """The judged changes of quality, by metric, and of each axis and metric: all are claimed together."""
    families: dict[tuple[str, str], Mapping[str, ChangeClaim]] = {}
    for metric in metrics:
        quality = quality_of(metric, pairs, inference, margin)
        if quality is not None:
            families["", metric.name] = {"quality": quality}
        families |= {key: draft.claims for key, draft in drafts.items() if key[1] == metric.name}
    verdicts = judged([list(family.values()) for family in families.values()], 1 - inference.level)
    changes = {
        key: dict(zip(family, some, strict=True))
        for (key, family), some in zip(families.items(), verdicts, strict=True)
    }
    return {name: some["quality"] for (axis, name), some in changes.items() if not axis}, changes


def _differences(before: FinishedRun, after: FinishedRun) -> dict[str, tuple[str | None, str | None]]:
    """What the systems, and the versions they ran with, do not share."""
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
    """Whether no counterfactual in any arm is scored otherwise in one run than in the other."""
    return all(
        np.array_equal(getattr(pair.before[name], part), getattr(pair.after[name], part))
        for pair in pairs
        for name in pair.before
        if name in pair.after
        for part in ("original", "by_variant", "placebo")
    )


def quality_of(
    metric: Metric, pairs: Mapping[str, Matched], inference: Inference, margin: float | None
) -> ChangeClaim | None:
    """The change of the originals' score, over all dialogues of all axes, each once; None where no axis has it."""
    rows: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
    labels: dict[str, dict[tuple[str, str], str]] = {}
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
    alone = Clusters(np.arange(len(rows)), tuple(map(str, range(len(rows)))))
    kinds = [alone, *(Clusters.of([by_dialogue[dialogue] for dialogue in rows]) for by_dialogue in labels.values())]
    nothing = ((ScoreDifference(1.0, 0, 0),),)
    before, after = (
        Contrasts(np.array([pair[side] for pair in rows.values()])[:, None], nothing, metric.score, 1.0, is_ratio=False)
        for side in (0, 1)
    )
    everyone = np.ones(len(rows), dtype=bool)
    changed = ChangeEstimates(PairedContrasts(before, after, [], [(0, 0)]), everyone, kinds, inference, tested=[0])
    sample, these = tests_of([changed], inference)
    return claim_of_score(changed, 0, (sample[0], these[0]), np.inf, margin, 1 - inference.level, metric.better)


class AxisDifference:
    """One axis and metric of two runs.

    Args:
        axis: its name.
        metric: scores it.
        tables: of both runs, of the same counterfactuals.
        stages: those that both systems have.
        inference: level, resamples, permutations.
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
        self._tables = tables
        self._variants: VariantIndex = tables[0].variants
        self._blocks = AuditContrasts(tables[0], metric), AuditContrasts(tables[1], metric)
        if self._blocks[0].is_ratio != self._blocks[1].is_ratio:
            raise MetricError(
                f"axis {axis}: {metric.label} of the originals is 0 in one of the runs, so no disparity is a share "
                "of it; leave the metric out with --metrics"
            )
        self._dimensions = [
            term_clusters_of(self._variants),
            *(Clusters.of(labels) for _, labels in self._variants.clusters),
        ]
        self._shared = shared_terms(self._variants)
        self._effective = effective_terms_of(self._variants)

    def _changed(self, blocks: tuple[Contrasts, Contrasts], chosen: np.ndarray, *, whole: bool) -> ChangeEstimates:
        """Contrasts: the whole, the shares of common stages, beyond the placebo; scores: those of the cells after
        the originals', and for the whole of these too."""
        places = [(0, 0)]
        places += [
            (1 + self._tables[0].stages.index(name), 1 + self._tables[1].stages.index(name)) for name in self._stages
        ]
        if self._blocks[0].has_placebo:
            places.append((len(blocks[0].contrasts) - 1, len(blocks[1].contrasts) - 1))
        cells = [(0, 0), (1, 1)] if whole else [(1, 1)]
        claimed = range(1 + len(self._stages)) if whole else range(1)
        tested = [*claimed, *(len(places) + place for place in claimed)]
        if not whole:
            tested.append(2 * len(places))
        return ChangeEstimates(
            PairedContrasts(*blocks, places, cells),
            chosen,
            self._dimensions,
            self._inference,
            tested=tested,
            shared=self._shared,
            effective=self._effective,
        )

    @cached_property
    def _whole(self) -> ChangeEstimates:
        everyone = np.ones(self._variants.dialogues, dtype=bool)
        return self._changed((self._blocks[0].whole(), self._blocks[1].whole()), everyone, whole=True)

    @cached_property
    def _groups(self) -> dict[str, ChangeEstimates]:
        table = self._variants
        groups = {
            name: self._changed(
                (self._blocks[0].group(number), self._blocks[1].group(number)), table.has_group[:, number], whole=False
            )
            for number, name in enumerate(table.groups)
            if table.has_group[:, number].any()
        }
        return groups if len(groups) > 1 else {}

    @cached_property
    def claims(self) -> dict[str, ChangeClaim]:
        """All changes that may be claimed, by name: they are tested jointly."""
        sample, these = tests_of([self._whole, *self._groups.values()], self._inference)
        alpha = 1 - self._inference.level
        margin, quality_margin = self._margins
        claims = {
            name: claim_of_value(self._whole, place, (sample[0], these[0]), self._effective, margin, alpha)
            for place, name in enumerate(("disparity", *(f"in {stage}" for stage in self._stages)))
        }
        for number, (name, group) in enumerate(self._groups.items(), start=1):
            tests = sample[number], these[number]
            terms = effective_terms_of_group(self._variants, self._variants.groups.index(name))
            claims[f"gap {name}"] = claim_of_value(group, 0, tests, terms, margin, alpha)
            claims[f"score {name}"] = claim_of_score(group, 0, tests, terms, quality_margin, alpha, self._metric.better)
        return claims

    def result(self, changes: Mapping[str, Change]) -> AxisChange:
        """The changes, put together.

        Args:
            changes: the judged claims, by name.
        """
        whole = self._whole
        return AxisChange(
            scale="ratio" if self._blocks[0].is_ratio else "difference",
            dialogues=self._variants.dialogues,
            effective_terms=round(self._effective, 3),
            original=whole.estimate(whole.place_of_score(0)),
            rewritten=whole.estimate(whole.place_of_score(1)),
            disparity=changes["disparity"],
            contributions={stage: changes[f"in {stage}"] for stage in self._stages},
            beyond_placebo=whole.estimate(1 + len(self._stages)) if self._blocks[0].has_placebo else None,
            groups={
                name: GroupChange(
                    dialogues=group.dialogues,
                    score=changes[f"score {name}"],
                    gap=changes[f"gap {name}"],
                    contributions={stage: group.estimate(1 + at) for at, stage in enumerate(self._stages)},
                )
                for name, group in self._groups.items()
            },
        )
