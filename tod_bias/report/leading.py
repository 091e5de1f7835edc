"""Rows of results that lead a table or a page: of each axis, the metric of its first finding."""

from __future__ import annotations

from tod_bias.results import AuditResult, AxisResult


def leading_rows(result: AuditResult) -> list[AxisResult]:
    """Return each axis but the placebo, by the metric of its first finding or else by its first metric."""
    leads: dict[str, str] = {}
    for finding in result.findings:
        leads.setdefault(finding.axis, finding.metric)
    rows = [
        by_metric.get(leads.get(axis, ""), next(iter(by_metric.values()))) for axis, by_metric in result.axes.items()
    ]
    return [row for row in rows if not row.is_placebo]
