"""Scores of an evaluation as a table on a terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from tod_bias.audit.evaluation import Evaluation, score_cells
from tod_bias.report.circumstances import outcomes
from tod_bias.report.sheets import new_table


def table(result: Evaluation) -> Table:
    """Return an evaluation as a table: score, value, 95% interval."""
    view = new_table(result.title)
    view.add_column("score")
    view.add_column("value", justify="right")
    view.add_column("95% interval", justify="right")
    for row in _rows(result):
        view.add_row(*map(Text, row))
    return view


def _rows(result: Evaluation) -> list[tuple[str, str, str]]:
    rows = []
    for name, score in result.scores.items():
        rows.append((name, *score_cells(score)))
    for stage, some in outcomes(result.cost).items():
        rows += [(f"{stage}: {what}".replace("`", ""), "", "") for what in some]
    for model in result.precision:
        what = f"{', '.join(model.stages)}: {model.dtype} unlike float32"
        rows.append((what, f"{model.differ} of {model.prompts}", ""))
    return rows
