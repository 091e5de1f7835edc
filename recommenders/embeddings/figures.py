"""Figures of an audit, in the report's style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tod_bias.recommenders.embeddings.space import Picture
from tod_bias.report.canvas import GRID, INK, MUTED, STAGE_COLOURS, WIDTH, new_figure, strip, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

A_COLOUR, B_COLOUR, E_COLOUR, P_COLOUR = (STAGE_COLOURS[place] for place in (0, 1, 2, 3))
MARKERS = ("o", "s", "^", "D", "v", "P")


@styled
def latent_space(view: Picture, sets: Mapping[str, Any]) -> Figure:
    """Most biased entities of A and B on two components, and the test sets on the same (Beattie Figs. 1 and 2)."""
    figure = new_figure(WIDTH, 4.0)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    names = [sets[role]["name"] for role in ("A", "B")]
    for points, colour, marker, name in zip((view.a, view.b), (A_COLOUR, B_COLOUR), "os", names, strict=True):
        _scatter(panels[0], points, colour, marker, f"{name} ({len(points)} most biased)")
    for (name, points), colour, marker in zip(view.groups.items(), (E_COLOUR, P_COLOUR), "^D", strict=False):
        _scatter(panels[1], points, colour, marker, f"{name} ({len(points)})")
    panels[0].set_title("The most biased, that components are fitted on")
    panels[1].set_title("The test sets on the same components")
    for panel in panels:
        strip(panel)
        panel.axvline(0, color=GRID, linewidth=0.8, zorder=0)
        panel.axhline(0, color=GRID, linewidth=0.8, zorder=0)
        panel.set_xlabel(f"component 1 ({view.explained[0]:.0%}; |cos| to centroid difference {view.cosine:.2f})")
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    panels[0].set_ylabel(f"component 2 ({view.explained[1]:.0%})")
    return figure


def _scatter(panel: Axes, points: np.ndarray, colour: str, marker: str, label: str) -> None:
    size = 26 if len(points) < 150 else 12 if len(points) < 1000 else 4
    look: dict[str, Any] = {"s": size, "c": colour, "marker": marker, "alpha": 0.7, "linewidths": 0, "rasterized": True}
    panel.scatter(*points.T, label=label, **look)


@styled
def association(entities: pd.DataFrame, sets: Mapping[str, Any]) -> Figure:
    """Distribution of EAA in the test sets; thick lines are the sets' means."""
    values = entities["eaa"].to_numpy()
    bins: Any = np.linspace(min(values.min(), 0), max(values.max(), 0), 41) if np.ptp(values) else 10
    figure = new_figure(WIDTH, 2.5)
    panel = figure.subplots()
    for role, colour, hatch in zip(_tested(sets), (E_COLOUR, P_COLOUR), ("", "//"), strict=False):
        part = entities.loc[entities["set"] == role, "eaa"].to_numpy()
        panel.hist(part, bins=bins, color=colour, alpha=0.65, hatch=hatch, edgecolor="white", label=sets[role]["name"])
        panel.axvline(part.mean(), color=colour, linewidth=2)
    panel.axvline(0, color=INK, linewidth=0.8)
    panel.set_ylabel("entities")
    panel.set_xlabel(f"EAA (left: towards {sets['B']['name']}, right: towards {sets['A']['name']})")
    strip(panel)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _tested(sets: Mapping[str, Any]) -> list[str]:
    return [role for role in ("E", "P") if role in sets]


@styled
def r_ripa(run: Mapping[str, Any]) -> Figure:
    """R-RIPA of the test sets by direction with intervals; hollow where the direction is not to be used."""
    sets, entries = run["sets"], run["R_RIPA"]
    figure = new_figure(WIDTH, 1.2 + 0.42 * len(entries))
    panel = figure.subplots()
    for row, entry in enumerate(entries.values()):
        for role, colour, marker in zip(_tested(sets), (E_COLOUR, P_COLOUR), "^D", strict=False):
            if bounds := entry["intervals"].get(role):
                panel.plot(bounds, [row, row], color=colour, linewidth=1.6)
            filled = colour if entry["usable"] else "white"
            label = sets[role]["name"] if row == 0 else None
            panel.plot(entry[role], row, marker, color=colour, markerfacecolor=filled, linestyle="none", label=label)
    panel.axvline(0, color=INK, linewidth=0.8, zorder=0)
    panel.set_yticks(range(len(entries)), list(entries))
    panel.set_ylim(len(entries) - 0.5, -0.5)
    panel.set_xlabel("R-RIPA (mean cosine), 95%")
    panel.grid(axis="x")
    strip(panel)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    if not all(entry["usable"] for entry in entries.values()):
        figure.text(0.995, 0.01, "hollow: direction not to be used", ha="right", va="bottom", color=MUTED)
    return figure


@styled
def deciles(run: Mapping[str, Any]) -> Figure:
    """Share of items labelled A against the share of A in their audience (Beattie Table 4)."""
    entries = {name: e["audience_deciles"] for name, e in run["classification"].items() if "audience_deciles" in e}
    name = run["sets"]["A"]["name"]
    figure = new_figure(WIDTH, 3.6)
    panel = figure.subplots()
    for number, (classifier, rows) in enumerate(entries.items()):
        points = []
        for row in rows:
            middle = (row["from"] + row["to"]) / 2
            if row["labelled_A"]["value"] is not None:
                points.append((middle if row["side"] == "A" else 1 - middle, row["labelled_A"]))
        points.sort(key=lambda point: point[0])
        places = np.array([place for place, _ in points]) + 0.008 * (number - (len(entries) - 1) / 2)
        shares = np.array([part["value"] for _, part in points])
        bounds = np.abs(np.array([part["ci"] for _, part in points]).T - shares)
        colour, marker = STAGE_COLOURS[(number + 4) % len(STAGE_COLOURS)], MARKERS[number % len(MARKERS)]
        panel.errorbar(places, shares, bounds, color=colour, marker=marker, linewidth=1.4, label=classifier)
    panel.axvline(0.5, color=GRID, linewidth=0.8, zorder=0)
    panel.axhline(0.5, color=GRID, linewidth=0.8, zorder=0)
    panel.set_xlim(0, 1)
    panel.set_ylim(-0.03, 1.03)
    panel.set_xlabel(f"share of {name} in an item's audience")
    panel.set_ylabel(f"share of items labelled {name}, 95%")
    strip(panel, ("bottom", "left"))
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure


@styled
def changes(comparison: Mapping[str, Any]) -> Figure:
    """Change of every metric in % with its interval; hollow where a direction is not to be used."""
    entries = [(name, entry) for name, entry in comparison["metrics"].items() if entry["change_percent"] is not None]
    figure = new_figure(WIDTH, 1.0 + 0.27 * len(entries))
    panel = figure.subplots()
    reach = 150.0
    for row, (_, entry) in enumerate(entries):
        usable = entry.get("usable", True)
        colour = INK if usable else MUTED
        bounds = entry.get("change_percent_ci")
        if bounds:
            panel.plot(np.clip(bounds, -reach, reach), [row, row], color=colour, linewidth=1.6)
        place = float(np.clip(entry["change_percent"], -reach, reach))
        panel.plot(place, row, "o", color=colour, markerfacecolor=colour if usable else "white")
    panel.axvline(0, color=INK, linewidth=0.8, zorder=0)
    panel.set_yticks(range(len(entries)), [name for name, _ in entries])
    panel.set_ylim(len(entries) - 0.5, -0.5)
    low, high = panel.get_xlim()
    panel.set_xlim(max(low, -reach), min(high, reach))
    first, second = comparison["names"]
    panel.set_title(f"{second} against {first}")
    panel.set_xlabel("change in % (left: weaker), 95%")
    panel.grid(axis="x")
    strip(panel)
    return figure
