"""The figure of a run's groups, and those that compare runs.

Every function returns a :class:`matplotlib.figure.Figure`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tod_bias.report.forest import Block, Row, Texts, forest
from tod_bias.report.gaps import is_starred, mark, shown_gap, sides
from tod_bias.report.notation import reference
from tod_bias.report.palette import WIDTH
from tod_bias.results import DISPARITY, RESIDUAL, AxisResult, Estimate, Su

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 80
"""Rows of a figure; the report shows more only as a table."""


def groups(axis_results: Sequence[AxisResult], width: float = WIDTH) -> Figure:
    """The gap of every group from the mean of groups, with the contributions of stages, by axis."""
    blocks = [
        Block(axis_result.axis, tuple(_group_rows(axis_result)), axis_result.verdict)
        for axis_result in _claiming(axis_results)
        if axis_result.groups
    ]
    return forest(
        blocks,
        _stages(axis_results),
        _texts(axis_results, "gap from the mean of groups", "contributions of stages"),
        width,
    )


def _group_rows(axis_result: AxisResult) -> Iterator[Row]:
    """The groups, then the reference variants."""
    is_claimed = axis_result.verdict == DISPARITY
    for group in axis_result.groups.values():
        yield Row(
            group.name,
            shown_gap(axis_result, group),
            group.all_shares,
            claimed=is_claimed and group.name in axis_result.claims,
        )
    for variant in axis_result.references.values():
        label = f"no group: {reference(variant.name)}"
        yield Row(label, variant.gap, variant.shares, quiet=True)


def su_comparison(runs: Mapping[str, Sequence[AxisResult]], width: float = WIDTH) -> Figure:
    """Su's Fig. 4 of several runs: stacked contributions up to the fairscore, by axis.

    Below each bar are the signed pooled difference with its contributions, and the placebo of the same dialogues.

    Args:
        runs: a run's name to its axis_results by one metric; at least one axis_result has Su's numbers.
    """
    blocks = [
        Block(
            axis,
            tuple(
                row for name, axis_result in by_run if axis_result.su is not None for row in _su_rows(name, axis_result)
            ),
        )
        for axis, by_run in _by_axis(runs)
    ]
    every = [axis_result for axis_results in runs.values() for axis_result in axis_results]
    shown = [block for block in blocks if block.rows]
    return _su_forest(shown, every, "fairscore (absolute); pooled difference (signed)", width)


def _su_rows(name: str, axis_result: AxisResult) -> Iterator[Row]:
    if axis_result.su is None:
        return
    yield Row(f"{name}{mark(axis_result)}", axis_result.su.fairscore, _su_parts(axis_result.su))
    disparity, above = (
        axis_result.disparity.value,
        None if axis_result.beyond_placebo is None else axis_result.beyond_placebo.value,
    )
    yield Row(
        "signed difference",
        axis_result.disparity,
        axis_result.all_shares,
        quiet=True,
        placebo=None if disparity is None or above is None else disparity - above,
    )


def _su_parts(su: Su) -> dict[str, Estimate]:
    return {**su.contributions, RESIDUAL: su.residual}


def _su_forest(
    blocks: Sequence[Block],
    axis_results: Sequence[AxisResult],
    left: str = "fairscore (absolute)",
    width: float = WIDTH,
) -> Figure:
    stages = _stages(axis_results)
    orders = dict.fromkeys(
        tuple(axis_result.su.contributions) for axis_result in axis_results if axis_result.su is not None
    )
    named = list(dict.fromkeys([*stages, *(name for order in orders for name in order)]))
    order = f"in the order {', '.join(next(iter(orders)))}" if len(orders) == 1 else "in each run's order"
    return forest(blocks, named, Texts(left, _shortened(f"Su's shares {order}"), "", ""), width)


def _by_axis(runs: Mapping[str, Sequence[AxisResult]]) -> list[tuple[str, list[tuple[str, AxisResult]]]]:
    """Axes, the placebo last, each with the runs that have it."""
    every = [axis_result for axis_results in runs.values() for axis_result in axis_results]
    axes = dict.fromkeys(
        axis_result.axis for axis_result in sorted(every, key=lambda axis_result: axis_result.is_placebo)
    )
    return [
        (
            axis,
            [
                (name, axis_result)
                for name, axis_results in runs.items()
                for axis_result in axis_results
                if axis_result.axis == axis
            ],
        )
        for axis in axes
    ]


def comparison(runs: Mapping[str, Sequence[AxisResult]], width: float = WIDTH) -> Figure:
    """The widest gaps of several runs by one metric, with the shares of stages.

    Args:
        runs: a run's name to its axis_results by that metric; at least one has two groups on an axis.
    """
    every = [axis_result for axis_results in runs.values() for axis_result in axis_results]
    blocks = [
        Block(axis, tuple(row for name, axis_result in by_run for row in _compared_rows(name, axis_result)))
        for axis, by_run in _by_axis(runs)
    ]
    shown = [block for block in blocks if block.rows]
    return forest(shown, _stages(every), _texts(every, "widest gap", "shares of stages"), width)


def _compared_rows(name: str, axis_result: AxisResult) -> Iterator[Row]:
    widest = axis_result.widest
    if widest is not None and not axis_result.is_placebo:
        label = f"{name}: {widest.worse} - {widest.better}"
        yield Row(label, widest.gap, widest.all_shares, claimed=is_starred(axis_result, widest.gap))


def _claiming(axis_results: Sequence[AxisResult]) -> list[AxisResult]:
    return [axis_result for axis_result in axis_results if not axis_result.is_placebo]


def _stages(axis_results: Sequence[AxisResult]) -> list[str]:
    return list(dict.fromkeys(stage for axis_result in axis_results for stage in axis_result.all_shares))


def _texts(axis_results: Sequence[AxisResult], left: str, right: str) -> Texts:
    metric = axis_results[0].metric
    scales = {axis_result.scale for axis_result in axis_results}
    unit = f"share of the originals' {metric.label}" if scales == {"ratio"} else metric.label
    return Texts(f"{left}\n({_shortened(unit)})", right, *sides(metric.better, counterfactual=metric.counterfactual))


def _shortened(text: str, most: int = 52) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
