"""What a notebook shows of a result: its findings in words, and its groups."""

from __future__ import annotations

from tod_bias.report.html import prose
from tod_bias.report.notation import count, p_cell, with_interval
from tod_bias.report.page import TEMPLATES, render_page
from tod_bias.report.reading import Reading, claim_of, leading, read, shown_gap
from tod_bias.report.sections import minus
from tod_bias.results import AuditResult

__all__ = ["AuditResult", "html"]


def html(result: AuditResult) -> str:
    """HTML of every axis by the metric that claims most, without scripts or styles of its own.

    Args:
        result: of an audit.
    """
    readings = [reading for reading in leading(read(result.rows)).values() if not reading.axis_result.is_placebo]
    tables = [(reading, _rows(reading)) for reading in readings]
    return render_page(TEMPLATES / "notebook.html.j2", {"prose": prose}, tables=tables)


def _rows(reading: Reading) -> list[tuple[str, ...]]:
    axis_result = reading.axis_result
    rows = []
    for group in axis_result.groups.values():
        gap = shown_gap(axis_result, group)
        numbers = count(group.dialogues), with_interval(group.score), with_interval(gap, sign=True)
        rows.append((group.name, *map(minus, numbers), p_cell(gap.p), claim_of(axis_result, group)))
    return rows


AuditResult.shown_by(html)
