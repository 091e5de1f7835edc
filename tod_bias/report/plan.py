"""A plan of an audit as a table on a terminal."""

from __future__ import annotations

from rich.table import Table

from tod_bias.audit.plan import Plan, StagePlan
from tod_bias.report.sheets import new_table
from tod_bias.statistics.arms import MOST_PLAYERS
from tod_bias.statistics.needed import ENOUGH_TERMS


def table(result: Plan) -> Table:
    """Return a plan as a table: one row per stage."""
    view = new_table("\n".join(_title(result)))
    priced = any(stage.price is not None for stage in result.stages.values())
    for column in ("stage", "calls", "different", "tokens read", "written", "seconds", *(["price"] if priced else [])):
        view.add_column(column, justify="left" if column == "stage" else "right")
    for name, stage in result.stages.items():
        calls, read, written = (_number(number) for number in (stage.calls, stage.read, stage.written))
        seconds = "–" if stage.seconds is None else f"{stage.seconds:,.1f}"
        cells = [name, calls, _different(stage), read, written, "remote" if stage.remote else seconds]
        price = "–" if stage.price is None else f"{stage.price:,.2f}"
        view.add_row(*cells, *([price] if priced else []))
    return view


def _title(result: Plan) -> list[str]:
    audited = ", ".join(
        f"{axis} {number}" + (f" of {result.rewritable[axis]}" if number < result.rewritable[axis] else "")
        for axis, number in result.audited.items()
    )
    terms = ", ".join(f"{axis} {number:g}" for axis, number in result.effective_terms.items())
    lines = [
        f"{result.dialogues} dialogues read; rewritten: {audited}",
        f"effective terms: {terms} (a claim about a group takes {ENOUGH_TERMS})",
    ]
    if result.placebo:
        some = ", ".join(_of_placebo(result, axis) for axis in result.placebo)
        lines.append(f"dialogues with a placebo: {some}")
    many = "" if len(result.stages) <= MOST_PLAYERS else "about " if result.sampled else "at most "
    sizes = f"{result.variants} variants, {result.turns} turns, {many}{result.arms} arms"
    return [*lines, f"{sizes}, {result.history} history"]


def _of_placebo(result: Plan, axis: str) -> str:
    placebo = result.placebo[axis]
    of = f" of {result.audited[axis]}" if placebo.dialogues < result.audited[axis] else ""
    return f"{axis} {placebo.dialogues}{of} ({placebo.edits['axis']:g} words changed, {placebo.edits['placebo']:g})"


def _number(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _different(stage: StagePlan) -> str:
    if stage.exact is not None:
        return f"{stage.exact:,}"
    if stage.estimate is not None:
        return f"about {stage.estimate:,}"
    if stage.at_least is not None:
        return f"at least {stage.at_least:,}"
    return "–" if stage.at_most is None else f"at most {stage.at_most:,}"
