"""Findings of two runs: each before and after, those that are new, and the clearest of the other changes.

A finding is gone if the second run does not claim it and a quarter of its difference is left at the most: a smaller
remainder cannot be told from noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tod_bias.changes import AxisChange, Change, Comparison, FindingChange, FindingState, OtherChange
from tod_bias.metrics.events import event_of
from tod_bias.results import DIFFERENT, AuditResult, Finding

SHOWN = ("better", "worse", "changed")
"""Verdicts that show a change."""
_LEFT = 0.25
"""Largest part of a difference that is left if the finding is gone."""
_MOST = 10
"""Largest number of other changes."""


def with_findings(comparison: Comparison, before: AuditResult, after: AuditResult) -> Comparison:
    """Return a comparison with the changes of findings and the clearest other changes.

    Args:
        comparison: of the two runs.
        before: the first run.
        after: the second run.
    """
    findings = list(_findings(comparison, before, after))
    named = {(some.finding.axis, metric) for some in findings for metric in (some.finding.metric, *some.finding.also)}
    groups = {(some.finding.axis, some.finding.group) for some in findings}
    others = sorted(_others(comparison, named, groups), key=lambda some: -_clarity(some.change))
    return comparison.model_copy(update={"findings": findings, "others": others[:_MOST]})


def _findings(comparison: Comparison, before: AuditResult, after: AuditResult) -> Iterator[FindingChange]:
    """Yield the findings of the first run, then those that only the second run has."""
    first = [some for some in before.findings if some.is_difference and some.axis in comparison.axes]
    second = [some for some in after.findings if some.is_difference and some.axis in comparison.axes]
    for finding in first:
        yield _changed(finding, comparison.axes[finding.axis], _claims(after, finding))
    for finding in second:
        if not _claims(before, finding):
            changed = _changed(finding, comparison.axes[finding.axis], is_claimed=True)
            yield changed.model_copy(update={"state": "new"})


def _claims(result: AuditResult, finding: Finding) -> bool:
    """Return whether a run claims a difference of the finding's group by its event."""
    row = result.axes[finding.axis].get(finding.metric)
    same = [some for some in result.findings if (some.axis, some.group) == (finding.axis, finding.group)]
    is_named = any(finding.metric in (some.metric, *some.also) for some in same if some.is_difference)
    return is_named or (row is not None and row.verdict in DIFFERENT and finding.group in row.apart)


def _changed(finding: Finding, by_metric: Mapping[str, AxisChange], is_claimed: bool) -> FindingChange:
    """Return a finding before and after, by its own event."""
    row = by_metric.get(finding.metric)
    if row is None or finding.group not in row.groups:
        # An event that no turn could show in both runs: the second run cannot show it.
        return FindingChange(finding=finding, state="remains" if is_claimed else "gone")
    others = [row.groups[name].score for name in finding.compared_with if name in row.groups]
    gap = row.groups[finding.group].gap
    return FindingChange(
        finding=finding,
        state=_state(gap, is_claimed),
        gap=gap,
        score=row.groups[finding.group].score,
        others=Change(before=_mean([some.before for some in others]), after=_mean([some.after for some in others])),
    )


def _state(gap: Change, is_claimed: bool) -> FindingState:
    was, now = abs(gap.before or 0.0), abs(gap.after or 0.0)
    if not is_claimed and now <= _LEFT * was:
        return "gone"
    if gap.verdict in SHOWN:
        return "smaller" if now < was else "larger"
    return "remains" if is_claimed else "not shown any more"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _others(comparison: Comparison, named: set[tuple[str, str]], groups: set[tuple[str, str]]) -> Iterator[OtherChange]:
    """Yield the shown changes of scores and gaps that no finding is about.

    Args:
        comparison: of the two runs.
        named: axes and metrics of the findings.
        groups: axes and groups of the findings; of one metric their gaps come before the mirror images of these.
    """
    about = {metric for _, metric in named}
    for metric, change in comparison.quality.items():
        info = comparison.metrics[metric]
        has_direction = event_of(metric) is None or info.better != "neither"
        if change.verdict in SHOWN and metric not in about and has_direction and not info.counterfactual:
            yield OtherChange(metric=metric, change=change)
    for axis, by_metric in comparison.axes.items():
        for metric, row in by_metric.items():
            if (axis, metric) in named or comparison.metrics[metric].counterfactual:
                continue
            shown = {name: some.gap for name, some in row.groups.items() if some.gap.verdict in SHOWN}
            if shown:
                group = max(shown, key=lambda name: ((axis, name) in groups, _clarity(shown[name])))
                yield OtherChange(axis=axis, metric=metric, group=group, change=shown[group])


def _clarity(change: Change) -> float:
    """Return the size of a change relative to its interval."""
    value, interval = change.change.value, change.change.ci
    # an interval may have no length, if no dialogue changed
    return 0.0 if value is None or interval is None else abs(value) / max(interval[1] - interval[0], 1e-12)
