"""Facts about a run that are no findings: components that cancel each other, tables that lack rows, grades that no
dialogue gets."""

from __future__ import annotations

from dataclasses import dataclass

from tod_bias.results import ALPHA, AuditResult, AxisResult, Estimate

NO_ROW = "no such row"
"""Reason of a look-up without a row in results (``Outcome.NO_ROW``)."""


@dataclass(frozen=True)
class Opposed:
    """Two components whose shares of a group's gap have opposite signs."""

    group: str
    harmful: str
    """The component whose share is harm."""
    harmful_share: Estimate
    helpful: str
    helpful_share: Estimate
    p: float
    """The larger p-value of the two, over all components and groups of the axis (Bonferroni)."""

    @property
    def cancelled(self) -> float:
        """Part of the harm that the other component takes away."""
        return min(abs(self.harmful_share.value or 0), abs(self.helpful_share.value or 0))


def opposed(axis_result: AxisResult) -> Opposed | None:
    """Return the two components that cancel most, if both shares are significant over all groups; else None."""
    shares = {name: group.shares for name, group in axis_result.groups.items()}
    number = sum(share.p is not None for by_stage in shares.values() for share in by_stage.values())
    cancelling = []
    for name, by_stage in shares.items():
        shown = {stage: share for stage, share in by_stage.items() if share.p is not None and share.p * number < ALPHA}
        harmful = max(shown, key=lambda stage: shown[stage].value or 0, default="")
        helpful = min(shown, key=lambda stage: shown[stage].value or 0, default="")
        if shown and (shown[harmful].value or 0) > 0 > (shown[helpful].value or 0):
            p = number * max(shown[harmful].p or 0, shown[helpful].p or 0)
            cancelling.append(Opposed(name, harmful, shown[harmful], helpful, shown[helpful], p))
    return max(cancelling, key=lambda pair: pair.cancelled, default=None)


def never_reached(result: AuditResult) -> list[str]:
    """Return the labels of grades that no dialogue gets, neither an original nor a counterfactual."""
    reached: dict[str, bool] = {}
    for row in result.rows:
        if row.metric.is_grade and row.metric.range is not None:
            worst = row.metric.range[0 if row.metric.better == "higher" else 1]
            scores = [row.original.value, *(group.score.value for group in row.groups.values())]
            is_reached = any(score not in (None, worst) for score in scores)
            reached[row.metric.label] = reached.get(row.metric.label, False) or is_reached
    return [label for label, is_reached in reached.items() if not is_reached]


def lacking_rows(result: AuditResult) -> dict[str, dict[str, Estimate]]:
    """Return databases that lack rows for rewritten calls, if all groups of an axis lose by it alike.

    Returns:
        Stage to axis to its share of the pooled difference, if the share is shown.
    """
    first = next(iter(result.metrics), None)
    rows = [row for row in result.rows if row.metric.name == first and not row.claims]
    lacking: dict[str, dict[str, Estimate]] = {}
    for name, kinds in result.cost.outcomes.items():
        shares = {row.axis: row.contributions[name].shapley for row in rows if name in row.contributions}
        shown = {axis: some for axis, some in shares.items() if some.excludes_zero}
        if kinds.get(NO_ROW) and shown:
            lacking[name] = shown
    return lacking
