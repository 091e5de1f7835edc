"""Results in notebooks: findings in words, and groups."""

from __future__ import annotations

from tod_bias.report.cards import cards_of
from tod_bias.report.gaps import shown_gap
from tod_bias.report.notation import count, p_cell, with_interval
from tod_bias.report.page import TEMPLATES, render_page
from tod_bias.report.sections import claim_in, leading_rows, minus
from tod_bias.results import AuditResult, AxisResult


def html(result: AuditResult) -> str:
    """Return the findings and the groups of each axis as HTML, without scripts or styles.

    Args:
        result: of an audit.
    """
    tables = [(row, _rows(result, row)) for row in leading_rows(result) if row.groups]
    return render_page(TEMPLATES / "notebook.html.j2", cards=cards_of(result), tables=tables)


def _rows(result: AuditResult, row: AxisResult) -> list[tuple[str, ...]]:
    rows = []
    for group in row.groups.values():
        gap = shown_gap(row, group)
        numbers = count(group.dialogues), with_interval(group.score), with_interval(gap, sign=True)
        rows.append((group.name, *map(minus, numbers), p_cell(gap.p), claim_in(result, row.axis, group.name)))
    return rows
