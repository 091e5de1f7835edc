"""Figures of an audit, after Shen's, each with 90% intervals and the neutral reference."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.patches import Ellipse

from tod_bias.recommenders.lmrec.recommendations import ALL, CROSS
from tod_bias.report.canvas import DASHES, GRID, INK, MUTED, STAGE_COLOURS, WIDTH, new_figure, strip, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELLED = 28
"""Categories of a scatter plot at the most; more cannot be read."""
MARKERS = "osD^vP"


@styled
def price_percentage(scores: pd.DataFrame, dimension: str) -> Figure:
    """Price percentage per city and over all (Shen Figs. 3 and 4); the dashed line is the neutral reference."""
    part = scores[scores["dimension"] == dimension]
    cities = list(dict.fromkeys(part["city"]))
    if len(cities) == 2:
        cities = [ALL]  # one city, and the same again
    labels = list(dict.fromkeys(part["label"]))
    columns = min(4, len(cities))
    lines = -(-len(cities) // columns)
    width = max(4.6, min(WIDTH, 2.6 * columns + 0.8))
    abreast = max(1, min(len(labels), int(width / (0.55 + 0.085 * max(map(len, labels))))))
    figure = new_figure(width, 0.5 + 0.2 * -(-len(labels) // abreast) + 2.3 * lines)
    panels = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
    for panel, city in zip(panels, cities, strict=False):
        for number, label in enumerate(labels):
            rows = part[(part["city"] == city) & (part["label"] == label)].sort_values("price")
            places = rows["price"].to_numpy() + min(0.12, 0.7 / len(labels)) * (number - (len(labels) - 1) / 2)
            colour = STAGE_COLOURS[number % len(STAGE_COLOURS)]
            line = {"marker": MARKERS[number % len(MARKERS)], "markersize": 5, "linewidth": 1.2}
            panel.plot(places, rows["value"], color=colour, label=label, zorder=3, **line)
            panel.vlines(places, rows["ci_low"], rows["ci_high"], color=colour, linewidth=1.3, zorder=2)
            panel.axhline(float(rows["neutral"].mean()), color=MUTED, linewidth=0.9, linestyle=DASHES, zorder=1)
        panel.set_title("all cities" if city == ALL and len(cities) > 1 else "" if city == ALL else city)
        panel.set_xticks(range(1, 5), ["$", "$$", "$$$", "$$$$"])
        panel.set_xlim(0.6, 4.4)
        panel.grid(axis="y", linewidth=0.6)
        strip(panel)
    for panel in panels[len(cities) :]:
        panel.set_visible(False)
    panels[0].set_ylabel("share of recommended items")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, [name.replace(CROSS, " ") for name in names], loc="outside upper left", ncols=abreast)
    return figure


@styled
def association_scatter(
    scores: pd.DataFrame,
    across: tuple[str, str, str],
    upwards: tuple[str, str, str],
    *,
    categories: Collection[str] | None = None,
    alpha: float = 0.05,
) -> Figure:
    """Association differences of categories in two dimensions (Shen Figs. 5 and 7), over all cities.

    Categories with a significant shift in one of the dimensions are drawn first, then those with the largest shifts
    among the more frequent half. Significant shifts are filled. The grey oval is the neutral reference: half the mean
    length of the intervals.

    Args:
        scores: what :func:`~tod_bias.recommenders.lmrec.scores.association` gave.
        across: dimension, label to the right, label to the left.
        upwards: dimension, label at the top, label at the bottom.
        categories: only these (without regard to case); None for all.
        alpha: of the adjusted p-values.
    """
    points = _points(scores, across, upwards, categories)
    result = (points[["p_adjusted_x", "p_adjusted_y"]].fillna(1).min(axis=1) < alpha).to_numpy()
    reach = np.hypot(points["difference_x"].to_numpy(), points["difference_y"].to_numpy())
    frequent = (points["items_x"] >= points["items_x"].median()).to_numpy()
    order = np.lexsort((-reach, ~frequent, ~result))[:MOST_LABELLED]
    points, result = points.iloc[order], result[order]
    figure = new_figure(WIDTH, 6.2)
    panel = figure.subplots()
    wide, high = ((points[f"ci_high_{axis}"] - points[f"ci_low_{axis}"]).mean() for axis in "xy")
    if np.isfinite([wide, high]).all() and len(points):
        panel.add_patch(Ellipse((0, 0), wide, high, facecolor=GRID, edgecolor="none", zorder=0))
    panel.axhline(0, color=MUTED, linewidth=0.7, zorder=0.5)
    panel.axvline(0, color=MUTED, linewidth=0.7, zorder=0.5)
    x, y = points["difference_x"], points["difference_y"]
    colours = [STAGE_COLOURS[number % (len(STAGE_COLOURS) - 1)] for number in range(len(points))]
    panel.hlines(y, points["ci_low_x"], points["ci_high_x"], color=colours, linewidth=0.9, alpha=0.6)
    panel.vlines(x, points["ci_low_y"], points["ci_high_y"], color=colours, linewidth=0.9, alpha=0.6)
    filled = [colour if is_shift else "white" for colour, is_shift in zip(colours, result, strict=True)]
    panel.scatter(x, y, s=36, edgecolors=colours, facecolors=filled, zorder=2)
    _name_points(panel, points)
    panel.set_xlabel(f"← {across[2]}      {across[0]}      {across[1]} →")
    panel.set_ylabel(f"← {upwards[2]}      {upwards[0]}      {upwards[1]} →")
    panel.margins(0.08)
    strip(panel, keep=("bottom", "left"))
    panel.set_title("Association score (difference); filled: shift found by the test", weight="normal")
    return figure


def _points(
    scores: pd.DataFrame, across: Sequence[str], upwards: Sequence[str], categories: Collection[str] | None
) -> pd.DataFrame:
    parts = []
    for dimension, label, other in (across, upwards):
        rows = scores[
            (scores["city"] == ALL)
            & (scores["dimension"] == dimension)
            & (scores["label"] == label)
            & (scores["other"] == other)
        ]
        parts.append(rows.set_index("category")[["difference", "ci_low", "ci_high", "items", "p_adjusted"]])
    points = parts[0].merge(parts[1], left_index=True, right_index=True, suffixes=("_x", "_y"))
    if categories is not None:
        wanted = {name.lower() for name in categories}
        points = points[[name.lower() in wanted for name in points.index]]
    return points.dropna(subset=["difference_x", "difference_y"])


def _name_points(panel: Axes, points: pd.DataFrame) -> None:
    """Write names next to the points, moved up or down until none covers another."""
    if points.empty:
        return
    panel.autoscale_view()
    left, right = panel.get_xlim()
    bottom, top = panel.get_ylim()
    letter, line = (right - left) * 0.0085, (top - bottom) * 0.026
    taken: list[tuple[float, float, float]] = []
    for name, point in points.sort_values("difference_y").iterrows():
        x, y = float(point["difference_x"]) + letter, float(point["difference_y"]) + line * 0.6
        width = letter * len(str(name))
        for step in range(1, 40):
            if not any(abs(y - b) < line and x < a + w and a < x + width for a, b, w in taken):
                break
            y = float(point["difference_y"]) + line * (0.6 + (step + 1) // 2 * (-1) ** step)
        taken.append((x, y, width))
        panel.text(x, y, str(name), fontsize=7.5, va="center", color=INK, zorder=4)


@styled
def average_price(scores: pd.DataFrame, groups: Mapping[str, Sequence[str]]) -> Figure:
    """Rank chart of the average price level per place (Shen Fig. 8), over all cities, and the neutral reference.

    Args:
        scores: what :func:`~tod_bias.recommenders.lmrec.scores.average_price` gave.
        groups: heading → substitutions.
    """
    part = scores[scores["city"] == ALL].set_index("substitution")
    shown = {name: [word for word in words if word in part.index] for name, words in groups.items()}
    shown = {name: words for name, words in shown.items() if words}
    sizes = [len(words) for words in shown.values()]
    figure = new_figure(6.4, 1.1 + 0.22 * sum(sizes) + 0.35 * len(sizes))
    panels = figure.subplots(len(shown), 1, squeeze=False, sharex=True, height_ratios=[size + 1 for size in sizes])[
        :, 0
    ]
    for panel, (name, words) in zip(panels, shown.items(), strict=True):
        rows = part.loc[words].sort_values("value")
        heights = np.arange(len(rows))
        panel.hlines(heights, rows["ci_low"], rows["ci_high"], color=STAGE_COLOURS[0], linewidth=1.4)
        panel.plot(rows["value"], heights, "o", markersize=5, color=STAGE_COLOURS[0])
        panel.plot(rows["neutral"], heights, "|", markersize=9, markeredgewidth=1.6, color=STAGE_COLOURS[1])
        panel.set_yticks(heights, list(rows.index))
        panel.set_ylim(-0.7, len(rows) - 0.3)
        panel.set_title(name)
        panel.grid(axis="x", linewidth=0.6)
        strip(panel)
    panels[-1].set_xlabel("average price level of recommended items (| neutralised query)")
    return figure


@styled
def top_words(words: pd.DataFrame, dimension: str, most: int = 12) -> Figure:
    """Top words of recommended item names, one panel a group (Shen Fig. 6), as shares with intervals.

    The tick of a bar is the word's mean share over the groups, what a neutral recommender would show.
    """
    part = words[words["dimension"] == dimension]
    labels = list(dict.fromkeys(part["label"]))
    figure = new_figure(WIDTH, 0.9 + 0.2 * most)
    panels = figure.subplots(1, len(labels), squeeze=False, sharex=True)[0]
    for number, (panel, label) in enumerate(zip(panels, labels, strict=True)):
        rows = part[part["label"] == label].head(most)
        heights = np.arange(len(rows))
        panel.barh(heights, rows["value"], height=0.62, color=STAGE_COLOURS[number % len(STAGE_COLOURS)], zorder=2)
        panel.hlines(heights, rows["ci_low"], rows["ci_high"], color=INK, linewidth=1, zorder=3)
        panel.plot(rows["neutral"], heights, "|", markersize=11, color=MUTED, zorder=3)
        panel.set_yticks(heights, list(rows["word"]))
        panel.set_ylim(len(rows) - 0.4, -0.6)
        panel.set_title(label.replace(CROSS, " "))
        strip(panel)
    figure.supxlabel("share of recommended items whose name holds the word", fontsize=9)
    return figure
