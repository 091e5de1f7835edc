"""What changed from one run to another, as a table on a terminal and as sheets for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tod_bias.report.notation import WORDS_FIXED, count, fixed, p_cell
from tod_bias.report.sheets import new_table

_THESE = "inconclusive"


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Every change that has a verdict: axis (empty for quality), metric, what it is, and its record.

    Args:
        result: the content of ``compare.json``.
    """
    for metric, record in result["quality"].items():
        yield "", metric, "quality", record
    for axis, by_metric in result["axes"].items():
        for metric, record in by_metric.items():
            yield axis, metric, "disparity", record["disparity"]
            for name, part in record["contributions"].items():
                yield axis, metric, f"in {name}", part
            for name, group in record["groups"].items():
                yield axis, metric, f"gap, {name}", group["gap"]
                yield axis, metric, f"score, {name}", group["score"]


def verdict(record: Mapping[str, Any]) -> str:
    """The verdict; that of these words, with a mark, where there is none of the group."""
    own, these = str(record["verdict"]), str(record["verdict_these_words"])
    return f"{these}{WORDS_FIXED}" if own == _THESE and these != _THESE else own


def bounds(record: Mapping[str, Any]) -> str:
    """The interval that goes with a change's verdict; that of these words, with a mark, where the verdict is theirs or
    there is none of the group."""
    change = record["change"]
    kinds = [("ci", ""), ("ci_these_words", WORDS_FIXED)]
    for key, mark in reversed(kinds) if verdict(record).endswith(WORDS_FIXED) else kinds:
        if change[key] is not None:
            low, high = change[key]
            return f"[{fixed(low, sign=True)}, {fixed(high, sign=True)}]{mark}"
    return ""


def p_value(record: Mapping[str, Any]) -> str:
    """The adjusted p-value that goes with a verdict; that of these words, with a mark, where the verdict is theirs."""
    if verdict(record).endswith(WORDS_FIXED):
        return p_cell(record["change"]["p_these_words"]) + WORDS_FIXED
    return p_cell(record["change"]["p_holm"])


def sentences(result: Mapping[str, Any]) -> list[str]:
    """What a reader should know beside the numbers."""
    found = []
    if result["same"]:
        found.append("No telling is scored otherwise in one run than in the other, with any components swapped.")
    systems = result["pipeline"]
    if systems["before"] != systems["after"]:
        common = ", ".join(systems["common"]) or "none"
        found.append(
            f"The systems have other components ({', '.join(systems['before'])}; {', '.join(systems['after'])}): "
            f"contributions are compared for those of both: {common}."
        )
    lost = {axis: number for axis, number in result["left_out"].items() if number}
    if lost:
        found.append(
            "Left out, as one of the runs lacks an answer: "
            + ", ".join(f"{count(number)} dialogues ({axis})" for axis, number in lost.items())
            + "."
        )
    if result["margin"] is None:
        found.append("No margin is set, so nothing is called equivalent; no shown change does not mean the same.")
    else:
        margins = f"{result['margin']:g}"
        if result["quality_margin"] != result["margin"]:
            margins += f", of scores within {result['quality_margin']:g}"
        found.append(f"equivalent: the change is shown to be within {margins}; inconclusive does not mean the same.")
    found.append(
        "better: nearer to 0 for disparities, gaps and parts (positive is harm), for scores as the metric says."
    )
    shown = [record for _, _, _, record in rows(result)]
    if any(WORDS_FIXED in verdict(record) + bounds(record) for record in shown):
        found.append(f"{WORDS_FIXED} true of these words only: they are too few, or others might not show it")
    return found


def table(result: Mapping[str, Any]) -> RenderableType:
    """A row a change, an axis and metric after the other.

    Args:
        result: the content of ``compare.json``.
    """
    view = new_table(f"{result['before']} > {result['after']}: changes, paired by dialogue and telling", (0, 1, 0, 0))
    view.add_column("axis", overflow="fold")
    if len(result["metrics"]) > 1:
        view.add_column("metric", overflow="fold")
    view.add_column("", overflow="fold", min_width=11)
    for heading in ("before", "after", "change\n[95%]", "p\n(Holm)"):
        view.add_column(heading, justify="right", no_wrap=True)
    view.add_column("verdict", overflow="fold", min_width=12)
    everything = list(rows(result))
    for number, (axis, metric, what, record) in enumerate(everything):
        last = number + 1 == len(everything) or everything[number + 1][:2] != (axis, metric)
        first = number == 0 or everything[number - 1][:2] != (axis, metric)
        change = record["change"]
        cells = [axis if first else ""]
        if len(result["metrics"]) > 1:
            cells.append(metric if first else "")
        cells += [
            what,
            fixed(record["before"]),
            fixed(record["after"]),
            f"{fixed(change['value'], sign=True)}\n{bounds(record)}".rstrip(),
            p_value(record),
            verdict(record),
        ]
        view.add_row(*map(Text, cells), end_section=last)
    return Group(view, *(Text(text, style="dim") for text in sentences(result)))
