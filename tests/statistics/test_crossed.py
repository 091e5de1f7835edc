"""Crossed clusters: variances against loops, coverage in worlds with effects of rows and of columns."""

import itertools

import numpy as np
import pytest

from tod_bias.statistics.crossed import CrossedSpread, crossed_sums, crossed_variance, crossing
from tod_bias.statistics.intervals import interval

ROWS, COLUMNS = 12, 10


def grid(rows=ROWS, columns=COLUMNS):
    """Cluster numbers of every unit of a crossed table."""
    first, second = np.indices((rows, columns))
    return first.ravel(), second.ravel()


def test_multiway_variance_is_the_sum_of_one_way_variances_minus_that_of_the_cells():
    rng = np.random.default_rng(0)
    ways = [rng.integers(0, size, 200) for size in (7, 5, 9)]
    values = rng.normal(size=200) + ways[0] * 0.3 - ways[1] * 0.5 + ways[2] * 0.2
    influence = (values - values.mean()) / 200
    expected = 0.0
    for size in (1, 2, 3):
        for chosen in itertools.combinations(range(3), size):
            cells: dict[tuple[int, ...], float] = {}
            for number in range(200):
                key = tuple(int(ways[place][number]) for place in chosen)
                cells[key] = cells.get(key, 0.0) + influence[number]
            sums = np.array(list(cells.values()))
            part = len(sums) / (len(sums) - 1) * ((sums - sums.mean()) ** 2).sum()
            expected += part if size % 2 else -part
    found = crossed_variance(influence[:, None], crossing(np.zeros(200, dtype=int), ways))
    assert found.variance[0] == pytest.approx(expected)


def test_one_way_is_the_variance_of_a_mean_of_clusters():
    values = np.array([3.0, 5.0, 4.0, 9.0, 1.0, 2.0])
    influence = np.repeat((values - values.mean()) / 12, 2)  # two units a cluster
    clusters = np.repeat(np.arange(6), 2)
    found = crossed_variance(influence[:, None], crossing(np.zeros(12, dtype=int), [clusters]))
    assert found.variance[0] == pytest.approx(values.var(ddof=1) / 6)
    assert found.freedom[0] == pytest.approx(5)


def test_clusters_of_one_group_each_give_welchs_variance_and_the_freedom_of_the_most_uneven():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0, 1, 8), rng.normal(0, 3, 20)
    groups = np.repeat([0, 1], [8, 20])
    influence = np.concatenate([(first - first.mean()) / 8, -(second - second.mean()) / 20])
    found = crossed_variance(influence[:, None], crossing(groups, [np.arange(28)]))
    parts = first.var(ddof=1) / 8, second.var(ddof=1) / 20
    assert found.variance[0] == pytest.approx(sum(parts))
    assert parts[0] < parts[1]
    assert found.freedom[0] == 19


def test_a_small_and_uneven_group_is_no_finding():
    rng = np.random.default_rng(4)
    groups = np.repeat([0, 1], [24, 6])
    design = crossing(groups, [np.arange(30)])

    def p_value():
        first, second = rng.normal(0, 1, 24), rng.normal(0, 4, 6)
        influence = np.concatenate([(first - first.mean()) / 24, -(second - second.mean()) / 6])
        return crossed_variance(influence[:, None], design).p_values(np.array([first.mean() - second.mean()]))[0]

    assert np.mean([p_value() <= 0.05 for _ in range(1000)]) < 0.07


def test_ways_within_others_and_ways_of_one_cluster_are_left_out():
    groups = np.zeros(6, dtype=int)
    names, queries, nothing = np.array([0, 0, 1, 1, 2, 2]), np.arange(6), np.zeros(6, dtype=int)
    assert [way.tolist() for way in crossing(groups, [names, queries, nothing]).ways] == [names.tolist()]
    assert len(crossing(groups, [queries, queries]).ways) == 1
    assert len(crossing(groups, [nothing, nothing]).ways) == 1
    crossed = crossing(groups, [names, np.array([0, 1, 0, 1, 0, 1])])
    assert len(crossed.ways) == 2


def test_a_group_keeps_its_number_of_clusters_and_shared_clusters_are_drawn_once():
    names, templates = grid(6, 4)
    groups = (names >= 2).astype(int)
    found = crossed_sums(np.random.default_rng(0), np.ones((24, 1)), crossing(groups, [names, templates]), 50)
    assert found.shape == (50, 2, 1)
    assert (found[:, :, 0] == [8, 16]).all()  # a balanced table keeps its size in every group
    by_template = np.eye(4)[templates]
    drawn = crossed_sums(np.random.default_rng(0), by_template, crossing(groups, [names, templates]), 50)
    assert (drawn[:, 1] == 2 * drawn[:, 0]).all()


def test_what_is_balanced_by_design_is_no_spread():
    names, templates = grid(8, 3)
    groups, race = names % 2, (names >= 4).astype(int)
    influence = np.where(groups == 0, 1.0, -1.0) * (race - 0.5)  # races differ, groups do not
    plain, balanced = (
        crossed_variance(influence[:, None], crossing(groups, [names, templates], facts)).variance[0]
        for facts in ((), (race,))
    )
    assert plain > 1
    assert balanced == pytest.approx(0)
    lone = (names == 0).astype(int)  # a fact of one name alone is passed over
    design = crossing(groups, [names, templates], [lone])
    assert design.strata(design.ways[0]).max() == 1


def test_no_variance_of_one_cluster_and_no_finding_without_any_variance():
    groups = np.array([0, 1, 1, 1])
    found = crossed_variance(np.array([[0.0], [1.0], [-2.0], [1.0]]), crossing(groups, [np.arange(4)]))
    assert np.isnan(found.variance[0])
    still = CrossedSpread(np.array([0.0, 0.0]), np.array([5.0, 5.0]))
    assert still.p_values(np.array([0.0, 1.0])).tolist() == [1, 0]


@pytest.mark.parametrize(("by_row", "by_column"), [(1.0, 0.0), (0.0, 1.0), (0.7, 0.7), (0.0, 0.0)])
def test_intervals_cover_where_rows_and_columns_have_effects(by_row, by_column):
    rng = np.random.default_rng(2)
    rows, columns = grid()
    nobody = np.zeros(len(rows), dtype=int)
    design, by_rows = crossing(nobody, [rows, columns]), crossing(nobody, [rows])
    covered = []
    for _ in range(120):
        values = rng.normal(0, by_row, ROWS)[rows] + rng.normal(0, by_column, COLUMNS)[columns]
        values = values + rng.normal(size=len(rows))
        half = crossed_variance(((values - values.mean()) / len(values))[:, None], design).half(0.9)[0]
        table = np.stack([values, np.ones(len(values))], axis=1)
        sums = [crossed_sums(rng, table, how, 200)[:, 0] for how in (design, by_rows)]
        bounds = [interval(part[:, 0] / part[:, 1], COLUMNS, 0.9) for part in sums]
        covered.append((abs(values.mean()) <= half, *(low <= 0 <= high for low, high in bounds)))
    multiway, both_ways, rows_alone = np.mean(covered, axis=0)
    assert 0.82 <= multiway <= (0.98 if by_row or by_column else 1.0)
    assert both_ways >= 0.84
    if by_column and not by_row:
        assert rows_alone < 0.7  # what resampling names alone would miss of templates
