"""What a mitigation tried: a table for the terminal, and quality against the pooled difference as a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tod_bias.report.notation import fixed
from tod_bias.report.palette import INK, MUTED, PAPER, STAGE_COLOURS, WIDTH, new_figure, strip, styled
from tod_bias.report.sheets import new_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def name_of(attempt: Mapping[str, Any]) -> str:
    """The fixes of an attempt, in words."""
    return "; ".join(
        f"{fix['stage']}: {'missing rows' if fix['kind'] == 'rows' else fix['kind']} ({', '.join(fix['axes'])})"
        for fix in attempt["fixes"]
    )


def table(record: Mapping[str, Any]) -> Table:
    """All attempts, sufficient ones first.

    Args:
        record: the content of ``mitigation.json``.
    """
    metric = record["metric"]
    scope = ", of these terms" if record["terms_only"] else ""
    view = new_table(f"Fixes that were tried ({metric}); disparities within {record['margin']:g}{scope} are sufficient")
    for name in ("fix", "pooled difference before → after", metric, "new calls", "sufficient"):
        view.add_column(name, justify="left" if name in ("fix", "sufficient") else "right")
    for attempt in record["attempts"]:
        quality = attempt["quality"][metric]
        values = [
            f"{axis} {fixed(disparity['before'], sign=True)} → {fixed(disparity['after'], sign=True)}"
            for axis, disparity in _disparities(attempt, metric)
        ]
        view.add_row(
            name_of(attempt),
            "\n".join(values),
            f"{fixed(quality['before'])} → {fixed(quality['after'])}",
            _new_calls(attempt, record),
            _is_sufficient(attempt),
        )
    return view


def _is_sufficient(attempt: Mapping[str, Any]) -> str:
    """Whether an attempt is sufficient, and what is not shown where it is."""
    if not attempt["sufficient"]:
        return str(attempt["reason"])
    answer = "yes" if attempt["evidence"] == "shown" else "yes: seen, not shown"
    return answer if attempt["quality_metrics"] else f"{answer}; quality was not measured"


def notes(record: Mapping[str, Any]) -> list[str]:
    """Notes on the table, one line each.

    Args:
        record: the content of ``mitigation.json``.
    """
    lines = [
        f"Not looked at: {axis} (claimed by {', '.join(metrics)} only; --metric)"
        for axis, metrics in record["other_metrics"].items()
    ]
    chosen = record["chosen"]
    if chosen is None:
        return lines
    if record["unconfirmed"]:
        lines.append(
            f"It was chosen among {record['tried']} on the same dialogues; at a level divided by these it is not shown "
            f"({record['unconfirmed']}): confirm it on other dialogues."
        )
    if chosen["evidence"] != "shown":
        lines.append(
            f"Seen, not shown: what was claimed is shown to be smaller, and what is left was seen within "
            f"{record['margin']:g}; dialogues or terms are too few to show that it lies there. Confirm it on others."
        )
    if not chosen["quality_metrics"]:
        lines.append(
            f"Quality was not measured: {record['metric']} does not tell a good answer from a bad one; repeat the run "
            "with one that does, for example corpus_bleu, in --metrics."
        )
    return lines


def _new_calls(attempt: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """The new calls; in a run with language models, their share of its tokens."""
    before, new = (sum(source["tokens"].values()) for source in (record, attempt))
    return f"{100 * new / before:.1f}% tokens" if before else f"{sum(attempt['new_calls'].values()):,} calls"


def _disparities(attempt: Mapping[str, Any], metric: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for axis, by_metric in attempt["axes"].items():
        if metric in by_metric:
            yield axis, by_metric[metric]["disparity"]


@styled
def picture(record: Mapping[str, Any], label: str) -> Figure:
    """Quality against the pooled difference by axis: the system as it is, and with each fix.

    Args:
        record: the content of ``mitigation.json``.
        label: of the metric.
    """
    metric = record["metric"]
    axes = [axis for axis, scores in record["scores_before"].items() if metric in scores]
    figure = new_figure(WIDTH, 2.4 * len(axes) + 0.6)
    panels = figure.subplots(len(axes), 2, squeeze=False, width_ratios=[1.25, 1])
    for (panel, names), axis in zip(panels, axes, strict=True):
        strip(panel)
        names.axis("off")
        panel.set_title(axis)
        panel.axvspan(-record["margin"], record["margin"], color=MUTED, alpha=0.18, linewidth=0, zorder=0)
        panel.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
        _point(panel, record["scores_before"][axis][metric], "as it is", INK, "s", filled=True)
        measured = [attempt for attempt in record["attempts"] if metric in attempt["scores_after"].get(axis, {})]
        for number, attempt in enumerate(measured):
            name = textwrap.fill(name_of(attempt), 38) + ("" if attempt["sufficient"] else " (not sufficient)")
            colour = STAGE_COLOURS[number % len(STAGE_COLOURS)]
            _point(panel, attempt["scores_after"][axis][metric], name, colour, "o", filled=attempt["sufficient"])
        panel.set_ylabel(label)
        panel.grid(linewidth=0.6, zorder=0)
        names.legend(*panel.get_legend_handles_labels(), loc="center left", borderaxespad=0)
    panels[-1][0].set_xlabel("pooled difference (positive: served worse)")
    figure.supxlabel("95% intervals; grey: within the margin; filled: sufficient", fontsize=8, color=MUTED)
    return figure


def _point(panel: Axes, measured: Mapping[str, Any], name: str, colour: str, marker: str, *, filled: bool) -> None:
    disparity, quality = measured["disparity"], measured["original"]
    panel.errorbar(
        [disparity["value"]],
        [quality["value"]],
        xerr=_bars(disparity),
        yerr=_bars(quality),
        marker=marker,
        color=colour,
        markerfacecolor=colour if filled else PAPER,
        linestyle="none",
        linewidth=1.2,
        label=name,
        zorder=3,
    )


def _bars(estimate: Mapping[str, Any]) -> list[list[float]] | None:
    bounds: Sequence[float] | None = estimate["ci"]
    value = estimate["value"]
    if bounds is None or value is None:
        return None
    return [[max(0.0, value - bounds[0])], [max(0.0, bounds[1] - value)]]
