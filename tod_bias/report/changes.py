"""What changed from one run to another, as a table on a terminal and as sheets for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tod_bias.report.notation import WORDS_FIXED, count, fixed, p_cell

_THESE = "inconclusive"
_HEADINGS = ("", "before", "after", "change [95%]", "p\n(Holm)", "verdict")
_QUALITY = "the originals' scores"
_WIDEST = 20
"""Cells of what changes, the names of groups and components in it, at the most."""


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Every change that has a verdict: axis (empty for quality), metric, what it is, and its record.

    Args:
        result: the content of ``compare.json``.
    """
    for metric, record in result["quality"].items():
        if result["metrics"][metric].get("counterfactual") is not True:  # originals do not differ from themselves
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
    """A row a change, an axis and metric after the other under a line that names them, all in the same columns.

    Args:
        result: the content of ``compare.json``.
    """
    blocks: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for axis, metric, what, record in rows(result):
        label = str(result["metrics"][metric]["label"])
        change = f"{fixed(record['change']['value'], sign=True)} {bounds(record)}".rstrip()
        cells = fixed(record["before"]), fixed(record["after"]), change, p_value(record), verdict(record)
        blocks.setdefault((axis, axis and metric), []).append((what if axis else label, *cells))
    widths = [
        max(cell_len(line) for cell in column for line in cell.split("\n"))
        for column in zip(_HEADINGS, *chain(*blocks.values()), strict=True)
    ]
    widths[0] = min(widths[0], _WIDEST)
    parts: list[RenderableType] = []
    for number, ((axis, metric), block) in enumerate(blocks.items()):
        view = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=number == 0)
        for place, (heading, width) in enumerate(zip(_HEADINGS, widths, strict=True)):
            last = place + 1 == len(widths)
            numbers = place > 0 and not last
            view.add_column(
                heading if number == 0 else "", justify="right" if numbers else "left", no_wrap=numbers,
                overflow="fold", min_width=width, max_width=width,
            )  # fmt: skip
        for row in block:
            view.add_row(*map(Text, row))
        name = f"{axis}: {result['metrics'][metric]['label']}" if axis else _QUALITY
        parts += [Text(f"\n{name}", style="bold"), view]
    title = f"{result['before']} > {result['after']}: changes, paired by dialogue and telling"
    return Group(Text(title, style="italic"), *parts, Text(), *(Text(text, style="dim") for text in sentences(result)))
