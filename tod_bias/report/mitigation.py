"""Trials of a mitigation for the terminal: a table, and the lines to add to a pipeline file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from tod_bias.report.notation import fixed
from tod_bias.report.sheets import new_table

_WHEN = ("before", "after")


def table(record: Mapping[str, Any]) -> Table:
    """Return a table of all trials.

    Args:
        record: the content of ``mitigation.json``.
    """
    scope = ", of these terms" if record["terms_only"] else ""
    view = new_table(f"Gaps before and after each fix (closed: within {record['margin']:g}{scope})")
    for name in ("axis", "fix", "largest gap", "quality", "closed"):
        view.add_column(name, overflow="fold")
    for trial in record["trials"]:
        sizes = (max((gap[when] or 0.0 for gap in trial["gaps"].values()), key=abs, default=None) for when in _WHEN)
        gap = " → ".join(fixed(size, sign=True) for size in sizes) + f"\nby {trial['metric']}"
        quality = "not measured"
        if trial["quality"]:
            quality = " → ".join(fixed(trial["quality"][when]) for when in _WHEN) + f"\nby {trial['quality_metric']}"
        closed = trial["refused"] or trial["closes"] + (", but may cost quality" if trial["may_cost_quality"] else "")
        view.add_row(trial["axis"], f"{trial['stage']}: {trial['fix']}", gap, quality, closed)
    return view


def lines(trials: Iterable[Mapping[str, Any]]) -> str:
    """Return the lines to add to a pipeline file: per axis and stage the first fix that helps.

    Args:
        trials: those that help, of ``mitigation.json``.
    """
    first: dict[tuple[str, str], str] = {}
    for trial in trials:
        first.setdefault((trial["stage"], trial["axis"]), trial["fix"])
    text = ["stages:"] if first else []
    for name in dict.fromkeys(stage for stage, _ in first):
        fixes = {axis: fix for (stage, axis), fix in first.items() if stage == name}
        mode = next((fix for fix in fixes.values() if fix != "rows"), None)  # a stage has one guard
        text.append(f"  {name}:")
        if "rows" in fixes.values():
            text.append("    # append the lines of missing.jsonl to its table")
        if mode is not None:
            axes = ", ".join(axis for axis, fix in fixes.items() if fix == mode)
            text += [f"    guard: {mode}", f"    axes: {axes}"]
    return "\n".join(text)
