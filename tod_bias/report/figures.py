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


def figures(outcomes: Sequence[AxisResult]) -> dict[str, Figure]:
    """All figures of one metric by kind, ``groups``, ``pairs …`` with the axis, ``stages`` and ``su``.

    Figures without numbers are left out.
    """
    drawn: dict[str, Figure] = {}
    if 0 < sum(len(outcome.groups) for outcome in _claiming(outcomes)) <= MOST_ROWS:
        drawn["groups"] = groups(outcomes)
    limit = largest_gap(_claiming(outcomes))
    for outcome in _claiming(outcomes):
        if 1 < len(paired_groups(outcome)) <= MOST_GROUPS:
            drawn[f"pairs {outcome.axis}"] = heatmap(outcome, limit)
    if 0 < sum(2 + len(outcome.shares) for outcome in outcomes if outcome.shares) <= MOST_ROWS:
        drawn["stages"] = contributions(outcomes)
    if any(outcome.su is not None for outcome in outcomes):
        drawn["su"] = su(outcomes)
    return drawn


def groups(outcomes: Sequence[AxisResult]) -> Figure:
    """The gap of every group from the mean of groups, with the contributions of stages, by axis."""
    blocks = [
        Block(
            outcome.axis,
            tuple(
                Row(
                    f"{group.name}{mark(group.dialogues)}",
                    group.gap,
                    group.shares,
                    claimed=is_starred(outcome, group.gap, group.effective_terms),
                )
                for group in outcome.groups.values()
            ),
            outcome.verdict,
        )
        for outcome in _claiming(outcomes)
        if outcome.groups
    ]
    return forest(blocks, _stages(outcomes), _texts(outcomes, "gap from the mean of groups", "contributions of stages"))


def contributions(outcomes: Sequence[AxisResult]) -> Figure:
    """The disparity of every axis with the contributions that sum to it, what of it is above the placebo, and each."""
    stages = _stages(outcomes)
    blocks = [
        Block(outcome.axis, tuple(_rows(outcome, stages)), outcome.verdict) for outcome in outcomes if outcome.shares
    ]
    return forest(blocks, stages, _texts(outcomes, "disparity and contributions of stages", "contributions, stacked"))


def _rows(outcome: AxisResult, stages: Sequence[str]) -> list[Row]:
    claimed = is_starred(outcome, outcome.disparity, outcome.effective_terms)
    name = f"disparity{mark(outcome.dialogues)}"
    rows = [Row(name, outcome.disparity, outcome.shares, claimed=claimed)]
    if outcome.beyond_placebo is not None:
        rows.append(Row(f"above placebo{mark(outcome.beyond_placebo.dialogues)}", outcome.beyond_placebo, quiet=True))
    rows += [Row(part, estimate, colour=part_colour(part, stages)) for part, estimate in outcome.shares.items()]
    return rows


def su(outcomes: Sequence[AxisResult]) -> Figure:
    """Su's stacked contributions (Fig. 4), absolute and in the paper's order, up to the fairscore."""
    blocks = []
    for outcome in outcomes:
        if outcome.su is not None:
            rows = [Row("fairscore v(∅)", outcome.su.fairscore, _su_parts(outcome.su))]
            if outcome.su.total is not None:
                rows.append(Row("total v({db})", outcome.su.total, quiet=True))
            blocks.append(Block(outcome.axis, tuple(rows)))
    return _su_forest(blocks, outcomes)


def su_comparison(runs: Mapping[str, Sequence[AxisResult]]) -> Figure:
    """Su's Fig. 4 of several runs: stacked contributions up to the fairscore, by axis.

    Below each bar are the signed disparity with its contributions, and the placebo of the same dialogues.

    Args:
        runs: a run's name to its outcomes by one metric; at least one outcome has Su's numbers.
    """
    blocks = [
        Block(axis, tuple(row for name, outcome in by_run if outcome.su is not None for row in _su_rows(name, outcome)))
        for axis, by_run in _by_axis(runs)
    ]
    every = [outcome for outcomes in runs.values() for outcome in outcomes]
    return _su_forest([block for block in blocks if block.rows], every, "fairscore (absolute); disparity (signed)")


def _su_rows(name: str, outcome: AxisResult) -> Iterator[Row]:
    if outcome.su is None:
        return
    yield Row(f"{name}{mark(outcome.dialogues)}", outcome.su.fairscore, _su_parts(outcome.su))
    disparity, above = outcome.disparity.value, None if outcome.beyond_placebo is None else outcome.beyond_placebo.value
    yield Row(
        "signed disparity",
        outcome.disparity,
        outcome.shares,
        claimed=is_starred(outcome, outcome.disparity, outcome.effective_terms),
        quiet=True,
        placebo=None if disparity is None or above is None else disparity - above,
    )


def _su_parts(su: Su) -> dict[str, Estimate]:
    return {**su.contributions, RESIDUAL: su.residual}


def _su_forest(blocks: Sequence[Block], outcomes: Sequence[AxisResult], left: str = "fairscore (absolute)") -> Figure:
    stages = _stages(outcomes)
    orders = dict.fromkeys(tuple(outcome.su.contributions) for outcome in outcomes if outcome.su is not None)
    named = list(dict.fromkeys([*stages, *(name for order in orders for name in order)]))
    order = f"in the order {', '.join(next(iter(orders)))}" if len(orders) == 1 else "in each run's order"
    return forest(blocks, named, Texts(left, _shortened(f"Su's shares {order}"), "", ""))


def _by_axis(runs: Mapping[str, Sequence[AxisResult]]) -> list[tuple[str, list[tuple[str, AxisResult]]]]:
    """Axes, the placebo last, each with the runs that have it."""
    every = [outcome for outcomes in runs.values() for outcome in outcomes]
    axes = dict.fromkeys(outcome.axis for outcome in sorted(every, key=lambda outcome: outcome.is_placebo))
    return [
        (axis, [(name, outcome) for name, outcomes in runs.items() for outcome in outcomes if outcome.axis == axis])
        for axis in axes
    ]


def comparison(runs: Mapping[str, Sequence[AxisResult]]) -> Figure:
    """Disparities of several runs by one metric with their contributions, and what of them is above the placebo.

    Args:
        runs: a run's name to its outcomes by that metric; there is at least one.
    """
    every = [outcome for outcomes in runs.values() for outcome in outcomes]
    blocks = [
        Block(axis, tuple(row for name, outcome in by_run for row in _compared_rows(name, outcome)))
        for axis, by_run in _by_axis(runs)
    ]
    return forest(blocks, _stages(every), _texts(every, "disparity", "contributions of stages"))


def _compared_rows(name: str, outcome: AxisResult) -> Iterator[Row]:
    yield Row(
        f"{name}{mark(outcome.dialogues)}",
        outcome.disparity,
        outcome.shares,
        claimed=is_starred(outcome, outcome.disparity, outcome.effective_terms),
        quiet=outcome.is_placebo,
    )
    if outcome.beyond_placebo is not None:
        yield Row(f"above placebo{mark(outcome.beyond_placebo.dialogues)}", outcome.beyond_placebo, quiet=True)


def _claiming(outcomes: Sequence[AxisResult]) -> list[AxisResult]:
    return [outcome for outcome in outcomes if not outcome.is_placebo]


def _stages(outcomes: Sequence[AxisResult]) -> list[str]:
    return list(dict.fromkeys(stage for outcome in outcomes for stage in outcome.shares))


def _texts(outcomes: Sequence[AxisResult], left: str, right: str) -> Texts:
    metric = outcomes[0].metric
    scales = {outcome.scale for outcome in outcomes}
    unit = f"share of the originals' {metric.label}" if scales == {"ratio"} else metric.label
    return Texts(f"{left}\n({_shortened(unit)})", right, *sides(metric.better, counterfactual=metric.counterfactual))


def _shortened(text: str, most: int = 52) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
