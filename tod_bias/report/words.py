"""The words of a corpus as a table on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from tod_bias.report.notation import count, fixed
from tod_bias.report.sheets import new_table


def table(result: Mapping[str, Any]) -> Table:
    """A row an axis and attribute: mentions by speaker in per mille of words, and the dialogues, with intervals.

    Args:
        result: the content of ``words.json``.
    """
    corpus = result["corpus"]
    title = f"{corpus['name']} {corpus['split']}".strip() + f": {count(corpus['dialogues'])} dialogues"
    view = new_table(f"{title}, {count(result['words']['both'])} words; mentions per 1,000 words", (0, 1, 0, 0))
    view.add_column("", no_wrap=True)
    for heading in ("count", "user", "system", "both \\[95%]", "dialogues \\[95%]"):
        view.add_column(heading, justify="right", no_wrap=True)
    for axis, attributes in result["axes"].items():
        view.add_row(f"[bold]{axis}[/bold]")
        for number, (attribute, speakers) in enumerate(attributes.items()):
            both = speakers["both"]
            view.add_row(
                f" {attribute}",
                count(both["mentions"]),
                *(_scaled(speakers[speaker]["share_of_words"], 1000) for speaker in ("user", "system")),
                _with_bounds(both["share_of_words"], both["share_of_words_ci"], 1000, ""),
                _with_bounds(both["share_of_dialogues"], both["share_of_dialogues_ci"], 100, "%"),
                end_section=number == len(attributes) - 1,
            )
    return view


def _scaled(share: float | None, scale: int) -> str:
    return fixed(None if share is None else scale * share, _decimals(share, scale))


def _decimals(share: float | None, scale: int) -> int:
    return 1 if scale == 100 or (share or 0.0) * scale >= 10 else 2


def _with_bounds(share: float | None, bounds: Sequence[float] | None, scale: int, unit: str) -> str:
    value = _scaled(share, scale) + unit
    if bounds is None:
        return value
    low, high = (fixed(scale * bound, _decimals(share, scale)) for bound in bounds)
    return f"{value} \\[{low}, {high}]"
