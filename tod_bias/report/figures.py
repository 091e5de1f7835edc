"""The figures of one run, and those that compare runs.

Every function returns a :class:`matplotlib.figure.Figure`; :func:`figures` gives all of one metric by file name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tod_bias.report.forest import Block, Row, Texts, forest, part_colour
from tod_bias.report.heatmap import MOST_GROUPS, heatmap, largest_gap, paired_groups
from tod_bias.report.reading import is_starred, mark, sides
from tod_bias.results import RESIDUAL, AxisResult, Estimate, Su

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 80
"""Rows of a figure; the report shows more only as a table."""


def figures(axis_results: Sequence[AxisResult]) -> dict[str, Figure]:
    """All figures of one metric by kind, ``groups``, ``pairs …`` with the axis, ``stages`` and ``su``.

    Figures without numbers are left out.
    """
    drawn: dict[str, Figure] = {}
    if 0 < sum(len(axis_result.groups) for axis_result in _claiming(axis_results)) <= MOST_ROWS:
        drawn["groups"] = groups(axis_results)
    limit = largest_gap(_claiming(axis_results))
    for axis_result in _claiming(axis_results):
        if 1 < len(paired_groups(axis_result)) <= MOST_GROUPS:
            drawn[f"pairs {axis_result.axis}"] = heatmap(axis_result, limit)
    if 0 < sum(2 + len(axis_result.shares) for axis_result in axis_results if axis_result.shares) <= MOST_ROWS:
        drawn["stages"] = contributions(axis_results)
    if any(axis_result.su is not None for axis_result in axis_results):
        drawn["su"] = su(axis_results)
    return drawn


def groups(axis_results: Sequence[AxisResult]) -> Figure:
    """The gap of every group from the mean of groups, with the contributions of stages, by axis."""
    blocks = [
        Block(
            axis_result.axis,
            tuple(
                Row(
                    f"{group.name}{mark(group.dialogues)}",
                    group.gap,
                    group.shares,
                    claimed=is_starred(axis_result, group.gap, group.effective_terms),
                )
                for group in axis_result.groups.values()
            ),
            axis_result.verdict,
        )
        for axis_result in _claiming(axis_results)
        if axis_result.groups
    ]
    return forest(
        blocks, _stages(axis_results), _texts(axis_results, "gap from the mean of groups", "contributions of stages")
    )


def contributions(axis_results: Sequence[AxisResult]) -> Figure:
    """The disparity of every axis with the contributions that sum to it, what of it is above the placebo, and each."""
    stages = _stages(axis_results)
    blocks = [
        Block(axis_result.axis, tuple(_rows(axis_result, stages)), axis_result.verdict)
        for axis_result in axis_results
        if axis_result.shares
    ]
    return forest(
        blocks, stages, _texts(axis_results, "disparity and contributions of stages", "contributions, stacked")
    )


def _rows(axis_result: AxisResult, stages: Sequence[str]) -> list[Row]:
    claimed = is_starred(axis_result, axis_result.disparity, axis_result.effective_terms)
    name = f"disparity{mark(axis_result.dialogues)}"
    rows = [Row(name, axis_result.disparity, axis_result.shares, claimed=claimed)]
    if axis_result.beyond_placebo is not None:
        rows.append(
            Row(f"above placebo{mark(axis_result.beyond_placebo.dialogues)}", axis_result.beyond_placebo, quiet=True)
        )
    rows += [Row(part, estimate, colour=part_colour(part, stages)) for part, estimate in axis_result.shares.items()]
    return rows


def su(axis_results: Sequence[AxisResult]) -> Figure:
    """Su's stacked contributions (Fig. 4), absolute and in the paper's order, up to the fairscore."""
    blocks = []
    for axis_result in axis_results:
        if axis_result.su is not None:
            rows = [Row("fairscore v(∅)", axis_result.su.fairscore, _su_parts(axis_result.su))]
            if axis_result.su.total is not None:
                rows.append(Row("total v({db})", axis_result.su.total, quiet=True))
            blocks.append(Block(axis_result.axis, tuple(rows)))
    return _su_forest(blocks, axis_results)


def su_comparison(runs: Mapping[str, Sequence[AxisResult]]) -> Figure:
    """Su's Fig. 4 of several runs: stacked contributions up to the fairscore, by axis.

    Below each bar are the signed disparity with its contributions, and the placebo of the same dialogues.

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
    return _su_forest([block for block in blocks if block.rows], every, "fairscore (absolute); disparity (signed)")


def _su_rows(name: str, axis_result: AxisResult) -> Iterator[Row]:
    if axis_result.su is None:
        return
    yield Row(f"{name}{mark(axis_result.dialogues)}", axis_result.su.fairscore, _su_parts(axis_result.su))
    disparity, above = (
        axis_result.disparity.value,
        None if axis_result.beyond_placebo is None else axis_result.beyond_placebo.value,
    )
    yield Row(
        "signed disparity",
        axis_result.disparity,
        axis_result.shares,
        claimed=is_starred(axis_result, axis_result.disparity, axis_result.effective_terms),
        quiet=True,
        placebo=None if disparity is None or above is None else disparity - above,
    )


def _su_parts(su: Su) -> dict[str, Estimate]:
    return {**su.contributions, RESIDUAL: su.residual}


def _su_forest(
    blocks: Sequence[Block], axis_results: Sequence[AxisResult], left: str = "fairscore (absolute)"
) -> Figure:
    stages = _stages(axis_results)
    orders = dict.fromkeys(
        tuple(axis_result.su.contributions) for axis_result in axis_results if axis_result.su is not None
    )
    named = list(dict.fromkeys([*stages, *(name for order in orders for name in order)]))
    order = f"in the order {', '.join(next(iter(orders)))}" if len(orders) == 1 else "in each run's order"
    return forest(blocks, named, Texts(left, _shortened(f"Su's shares {order}"), "", ""))


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


def comparison(runs: Mapping[str, Sequence[AxisResult]]) -> Figure:
    """Disparities of several runs by one metric with their contributions, and what of them is above the placebo.

    Args:
        runs: a run's name to its axis_results by that metric; there is at least one.
    """
    every = [axis_result for axis_results in runs.values() for axis_result in axis_results]
    blocks = [
        Block(axis, tuple(row for name, axis_result in by_run for row in _compared_rows(name, axis_result)))
        for axis, by_run in _by_axis(runs)
    ]
    return forest(blocks, _stages(every), _texts(every, "disparity", "contributions of stages"))


def _compared_rows(name: str, axis_result: AxisResult) -> Iterator[Row]:
    yield Row(
        f"{name}{mark(axis_result.dialogues)}",
        axis_result.disparity,
        axis_result.shares,
        claimed=is_starred(axis_result, axis_result.disparity, axis_result.effective_terms),
        quiet=axis_result.is_placebo,
    )
    if axis_result.beyond_placebo is not None:
        yield Row(f"above placebo{mark(axis_result.beyond_placebo.dialogues)}", axis_result.beyond_placebo, quiet=True)


def _claiming(axis_results: Sequence[AxisResult]) -> list[AxisResult]:
    return [axis_result for axis_result in axis_results if not axis_result.is_placebo]


def _stages(axis_results: Sequence[AxisResult]) -> list[str]:
    return list(dict.fromkeys(stage for axis_result in axis_results for stage in axis_result.shares))


def _texts(axis_results: Sequence[AxisResult], left: str, right: str) -> Texts:
    metric = axis_results[0].metric
    scales = {axis_result.scale for axis_result in axis_results}
    unit = f"share of the originals' {metric.label}" if scales == {"ratio"} else metric.label
    return Texts(f"{left}\n({_shortened(unit)})", right, *sides(metric.better, counterfactual=metric.counterfactual))


def _shortened(text: str, most: int = 52) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
