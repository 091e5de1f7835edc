"""The results of a run as tables on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from tod_bias.report.notation import bleu, count, fixed, p_cell, percent, with_interval
from tod_bias.report.outcome import Axis, Estimate, read_axes
from tod_bias.report.reading import Reading, Support, read
from tod_bias.report.sheets import new_table

_UNBOUNDED = 10_000  # columns; tables are measured at this width to learn what they need

BAR = 12
"""Cells of a bar on either side of 0."""

_STYLES = {Support.SUPPORTED: "bold", Support.NO_FLOOR: "bold", Support.FLOOR: "dim"}


def table(results: Mapping[str, Any]) -> RenderableType:
    """The tables of one run: fairscores, attribution, and a reading in words per axis; the placebo stands last.

    Each table takes the widest form that fits the console: with BLEU in the first table and parts drawn as bars from
    about 95 columns on; BLEU in a table of its own and no bars on narrower ones. At 80 columns an axis is a line.

    Args:
        results: the content of ``results.json``.

    Raises:
        RunError: a value is not of the type that the contract says.
    """
    return ResultTables(results)


class ResultTables:
    """What :func:`table` returns: a rich renderable that lays itself out for the console's width."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._results = results
        self._axes = read_axes(results)
        self._readings = read(self._axes)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bar = "#" if options.ascii_only else "█"
        unbounded = options.update_width(_UNBOUNDED)

        def fit(build: Callable[[bool, int], Table]) -> tuple[Table, bool]:
            for wide, padding in ((True, 1), (True, 0)):
                frame = build(wide, padding)
                if console.measure(frame, options=unbounded).maximum <= options.max_width:
                    return frame, wide
            return build(False, 0), False

        yield Text(self._heading(), style="bold")
        yield Text(self._conditions(), style="dim")
        yield Text()
        fairscores, has_bleu = fit(lambda wide, padding: fairscore_table(self._axes, wide=wide, padding=padding))
        yield fairscores
        if not has_bleu:
            yield bleu_table(self._axes)
        yield fit(lambda wide, padding: attribution_table(self._axes, wide=wide, padding=padding, bar=bar))[0]
        yield Text("Reading", style="italic")
        yield Group(*(_reading(reading) for reading in self._readings))

    def _heading(self) -> str:
        corpus = self._results.get("corpus") or {}
        parts = [f"{corpus.get('name', 'corpus')} {corpus.get('split', '')}".strip()]
        if "dialogues" in corpus:
            parts.append(f"{count(corpus['dialogues'])} dialogues")
        parts.append(" > ".join(self._results.get("pipeline") or ()))
        return ", ".join(filter(None, parts))

    def _conditions(self) -> str:
        names = {"draws": "draws", "seed": "seed", "history": "history", "metric": "metric"}
        known = [f"{label} {self._results[key]}" for key, label in names.items() if key in self._results]
        return ", ".join([*known, "intervals 95%"])


def fairscore_table(axes: Sequence[Axis], *, wide: bool = True, padding: int = 1) -> Table:
    """One row an axis: BLEU (where there is room), the signed score, the fairscore with interval and p, the mean over
    pairs.
    """
    adjusted = any(axis.fairscore.p_holm is not None for axis in axes)
    view = new_table("Fairscore: relative change of BLEU (signed: + where answered worse)", (0, padding))
    view.add_column("axis", style="bold", overflow="fold")
    headings = (
        "dialogues" if wide else "dia-\nlogues",
        *(("BLEU\noriginal", "BLEU\nrewritten") if wide else ()),
        "signed",
        "fairscore\n[95%]",
        "p\n(Holm)" if adjusted else "p",
        "mean over\npairs [95%]",
    )
    for heading in headings:
        view.add_column(heading, justify="right", overflow="fold")
    for axis in axes:
        view.add_row(
            axis.name,
            count(axis.dialogues),
            *((bleu(axis.bleu_original), bleu(axis.bleu_perturbed)) if wide else ()),
            fixed(axis.signed.value, sign=True),
            with_interval(axis.fairscore),
            p_cell(axis.fairscore.p),
            with_interval(axis.mean_over_pairs),
            style=_style(axis),
        )
    return view


def bleu_table(axes: Sequence[Axis]) -> Table:
    """One row an axis: BLEU of the original and of the rewritten dialogues."""
    view = new_table("BLEU, 0-1", (0, 0))
    view.add_column("axis", style="bold", overflow="fold")
    for heading in ("original", "rewritten"):
        view.add_column(heading, justify="right", overflow="fold")
    for axis in axes:
        view.add_row(axis.name, bleu(axis.bleu_original), bleu(axis.bleu_perturbed), style=_style(axis))
    return view


def attribution_table(axes: Sequence[Axis], *, wide: bool = True, padding: int = 1, bar: str = "█") -> Table:
    """One row an axis and stage: its part in Su's order and over all orders; residual and sum close each axis."""
    order = next((", ".join(axis.contributions) for axis in axes if axis.contributions), "")
    view = new_table(f"Contributions to the fairscore, stages swapped in the order {order}", (0, padding))
    view.add_column("axis", style="bold", overflow="fold")
    view.add_column("stage", overflow="fold")
    view.add_column("in this order\n(Su) [95%]", justify="right", overflow="fold")
    view.add_column("share", justify="right", overflow="fold")
    if wide:
        view.add_column("", overflow="fold")
    view.add_column("mean over orders\n(Shapley) [95%]", justify="right", overflow="fold")
    longest = _longest(axes)
    for reading in read(axes):
        axis = reading.axis
        if not axis.contributions:
            continue
        parts = [*axis.contributions.items(), ("residual", axis.residual)]
        for number, (stage, part) in enumerate(parts):
            row = [axis.name if number == 0 else "", stage, with_interval(part), _share(reading, part)]
            if wide:
                row.append(_bar(part.value, longest, bar))
            row.append(with_interval(axis.shapley[stage]) if stage in axis.shapley else "")
            view.add_row(*row, style=_style(axis), end_section=number == len(parts) - 1)
    return view


def _style(axis: Axis) -> str:
    return "dim" if axis.is_placebo else ""


def _longest(axes: Sequence[Axis]) -> float:
    values = [abs(part.value or 0.0) for axis in axes for part in (*axis.contributions.values(), axis.residual)]
    return max(values, default=0.0)


def _bar(value: float | None, longest: float, mark: str) -> str:
    """A bar to the right of the middle for a positive part, to the left for a negative one."""
    cells = round(BAR * abs(value) / longest) if value and longest else 0
    if not value or not cells:
        return ""
    left, right = (mark * cells, "") if value < 0 else ("", mark * cells)
    return f"{left:>{BAR}}|{right:<{BAR}}"


def _share(reading: Reading, part: Estimate) -> str:
    share = reading.share(part)
    return "" if share is None else percent(share)


def _reading(reading: Reading) -> Text:
    return Text(f"- {reading.text}", style=_STYLES.get(reading.support, ""))
