"""Why fixes are not sufficient: a gap that is left, a difference that is claimed, or quality that may be lost."""

from __future__ import annotations

from collections.abc import Sequence

from tod_bias.audit.changes import BETTER, WORSE
from tod_bias.mitigation.fixes import Goal
from tod_bias.mitigation.quality import largest_loss
from tod_bias.results import AuditResult, Comparison
from tod_bias.testing.gate import WITHIN, Verdict


def why_insufficient(
    before: AuditResult,
    after: AuditResult,
    verdicts: Sequence[Verdict],
    comparison: Comparison,
    goal: Goal,
    tried: int = 1,
) -> str:
    """The first reason for which fixes are not sufficient; empty where they are.

    Args:
        before: the run without them.
        after: the run with them.
        verdicts: the gate's, of the axes on which gaps are to be closed.
        comparison: of both runs.
        goal: what must be reached.
        tried: systems of which this one was chosen on the same dialogues (Bonferroni).
    """
    metric = goal.metric_of(before)
    return (
        _gap_left(before, verdicts, comparison, goal.margin)
        or _claim_left(before, after, {verdict.checked.axis for verdict in verdicts}, metric, goal.margin)
        or _quality_lost(comparison, quality_metrics(comparison, metric), goal.quality_margin, tried)
    )


def quality_metrics(comparison: Comparison, metric: str) -> list[str]:
    """Metrics that must be shown not to fall: the one that decides; where it says nothing of quality, all others."""
    sided = [
        name
        for name in comparison.quality
        if comparison.metrics[name].better != "neither" and not comparison.metrics[name].counterfactual
    ]
    return [metric] if metric in sided else sided


def _gap_left(before: AuditResult, verdicts: Sequence[Verdict], comparison: Comparison, margin: float) -> str:
    for verdict in verdicts:
        checked = verdict.checked
        if verdict.state == WITHIN or checked.no_dialogue_differs or _is_seen(before, verdict, comparison, margin):
            continue
        seen = "undefined" if checked.value is None else f"{checked.value:+.3f}"
        why = f": {verdict.reason}" if verdict.reason else ""
        return f"{checked.axis}, {checked.name}: {seen}, not shown to be within {margin:g}{why}"
    return ""


def _is_seen(before: AuditResult, verdict: Verdict, comparison: Comparison, margin: float) -> bool:
    """Whether a gap was seen within the margin, and all that was claimed of its axis is shown to be smaller."""
    checked = verdict.checked
    if verdict.interval is None or checked.value is None or abs(checked.value) > margin:
        return False
    if checked.metric not in comparison.axes[checked.axis]:
        return True  # a check of the gate alone, as of failed turns, of which a run claims nothing
    changes = comparison.axes[checked.axis][checked.metric].groups
    claims = before.axes[checked.axis][checked.metric].claims
    return all(name in changes and changes[name].gap.verdict == BETTER for name in claims)


def _claim_left(before: AuditResult, after: AuditResult, judged: set[str], metric: str, margin: float) -> str:
    """A difference that is claimed: of a judged axis by another metric, of any other axis where none was before."""
    for axis in after.axes:
        for name in after.claimed_metrics(axis):
            is_known = name == metric if axis in judged else name in before.claimed_metrics(axis)
            row = after.axes[axis][name]
            if not is_known and (row.equivalent_within is None or row.equivalent_within > margin):
                return f"{axis}, {name}: a difference is claimed"
    return ""


def _quality_lost(comparison: Comparison, must_hold: Sequence[str], margin: float, tried: int) -> str:
    for name in must_hold:
        is_lower = comparison.metrics[name].better == "lower"
        loss = largest_loss(comparison.quality[name], is_lower=is_lower, tried=tried)
        if loss is None:
            return f"{name} may fall: too few dialogues for an interval"
        if loss > margin:
            return f"{name} may {'rise' if is_lower else 'fall'} by {loss:.3f}"
    for name, quality in comparison.quality.items():
        size = abs(quality.change.value or 0.0)
        if quality.verdict == WORSE and size > margin:
            return f"{name} gets worse by {size:.3f}"
    return ""
