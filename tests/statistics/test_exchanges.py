"""Exchanges of groups: against all exchanges by hand, and the error of events that one of several groups has."""

from itertools import product

import numpy as np
import pytest

from tod_bias.statistics.exchanges import MOST_DRAWS, ExchangedRows, share_of
from tod_bias.statistics.flips import FlippedRows
from tod_bias.statistics.simultaneous import Family


def centred(values, has=None):
    """Values (units, groups, events) less the mean of the groups that a unit has."""
    values = np.asarray(values, dtype=float)
    values = values[:, :, None] if values.ndim == 2 else values
    has = np.ones(values.shape[:2], dtype=bool) if has is None else np.asarray(has, dtype=bool)
    held = has[:, :, None]
    mean = (values * held).sum(axis=1, keepdims=True) / has.sum(axis=1)[:, None, None]
    return np.where(held, values - mean, 0.0), has


def by_hand(values, has):
    """z of the groups, and the largest z over groups and events in each of all exchanges."""
    places = [np.flatnonzero(some) for some in has]
    mean_square = (values**2).sum(axis=1) / has.sum(axis=1)[:, None]
    scale = np.sqrt(np.einsum("ug,ue->ge", has.astype(float), mean_square))

    def z(table):
        return np.abs(table.sum(axis=0)) / np.where(scale > 0, scale, np.inf)

    largest = []
    for shifts in product(*(range(len(place)) for place in places)):
        moved = np.zeros_like(values)
        for unit, (shift, place) in enumerate(zip(shifts, places, strict=True)):
            moved[unit, place] = values[unit, np.roll(place, -shift)]
        largest.append(z(moved).max())
    return z(values), np.array(largest)


@pytest.mark.parametrize(
    ("values", "has"),
    [
        ([[1, 0, 0]] * 4, None),
        ([[1, 0, 0], [1, 0, 0], [0, 1, 0], [2, 1, 0]], None),
        ([[1, 0, 0], [1, 0, 9], [1, 0, 0], [0, 1, 0]], [[1, 1, 1], [1, 1, 0], [1, 1, 1], [0, 1, 1]]),
        ([[3, 1, 0, 0], [1, 2, 0, 0], [0, 0, 1, 4]], None),
        (
            [[[1, 0], [0, 2], [0, 0]], [[1, 1], [0, 2], [0, 0]], [[0, 1], [1, 0], [0, 5]], [[1, 0], [0, 0], [0, 1]]],
            None,
        ),
    ],
    ids=["always the first", "mostly the first", "units without a group", "four groups", "two events"],
)
def test_a_p_value_is_the_share_of_all_exchanges_that_are_as_far(values, has):
    values, has = centred(values, has)
    z, largest = by_hand(values, has)
    rows = ExchangedRows.of(values, has, MOST_DRAWS, seed=1)
    np.testing.assert_allclose(rows.z, z)
    np.testing.assert_allclose(rows.row([2, 0]), z[[2, 0], 0])
    for some in np.unique(np.round(z, 6)):
        assert share_of([rows], some - 1e-5) == pytest.approx((largest >= some - 1e-4).mean(), abs=0.04)


def test_z_of_a_group_that_alone_has_an_event_in_every_unit_by_hand():
    values, has = centred([[1, 0, 0]] * 9)
    rows = ExchangedRows.of(values, has, 200, seed=1)  # mean square (4 + 1 + 1) / 27 = 2/9; nine units: √2
    np.testing.assert_allclose(rows.z[:, 0], [6 / np.sqrt(2), 3 / np.sqrt(2), 3 / np.sqrt(2)])
    assert share_of([rows], rows.z.max()) == pytest.approx(1 / 201)


@pytest.mark.parametrize(("groups", "draws"), [(2, 200), (3, 0)])
def test_two_groups_and_no_draws_have_no_exchanges(groups, draws):
    values, has = centred(np.eye(groups)[[0] * 12])
    assert ExchangedRows.of(values, has, draws, seed=1) is None
    assert share_of([], 0.0) == 0.0
    assert Family([]).under_group_exchanges(0.0) == 0.0


@pytest.mark.parametrize("groups", [13, 15, 30, 60])
def test_crossed_axes_with_many_groups_are_exchanged(groups):
    values, has = centred(np.eye(groups)[np.arange(40) % groups])
    rows = ExchangedRows.of(values, has, 200, 0)
    assert len(rows.largest) == 200
    assert (rows.largest > 0).all()
    assert len(np.unique(rows.largest)) > 1


def test_units_that_have_two_of_three_groups_each_have_no_exchanges_beyond_signs():
    values, has = centred([[1, 0, 0]] * 6, [[1, 1, 0]] * 3 + [[1, 0, 1]] * 3)
    assert ExchangedRows.of(values, has, 200, seed=1) is None


def test_events_that_say_the_same_cost_nothing_and_events_without_differences_neither():
    rng = np.random.default_rng(3)
    values, has = centred(rng.integers(0, 2, (20, 3)))
    single = ExchangedRows.of(values, has, 1000, seed=1)
    several = ExchangedRows.of(
        np.concatenate([values, -3 * values, values, np.zeros_like(values)], axis=2), has, 1000, seed=1
    )
    np.testing.assert_allclose(several.z, np.hstack([single.z] * 3 + [np.zeros((3, 1))]), atol=1e-12)
    np.testing.assert_allclose(single.largest, several.largest)


def test_rows_of_equal_seeds_are_exchanged_together_in_whichever_set_they_are():
    values, has = centred(np.random.default_rng(4).normal(size=(25, 3, 4)))
    together = ExchangedRows.of(values, has, 500, seed=2)
    apart = [ExchangedRows.of(values[:, :, some], has, 500, seed=2) for some in (slice(0, 1), slice(1, 4))]
    for z in (1.0, 2.0, 3.0):
        assert share_of(apart, z) == share_of([together], z)


def test_units_without_differences_change_nothing():
    values, has = centred(np.random.default_rng(5).integers(0, 2, (15, 3)))
    more = np.concatenate([values, np.zeros((40, 3, 1))])
    rows = ExchangedRows.of(more, np.ones((55, 3), dtype=bool), 500, seed=2)
    np.testing.assert_allclose(rows.z, ExchangedRows.of(values, has, 500, seed=2).z)


def test_a_family_keeps_its_error_over_rare_events_of_one_group_at_a_time_where_signs_do_not():
    """Every event happens in 12 of 60 units, in one of the three groups, whichever."""
    rng, samples, events = np.random.default_rng(5), 150, 20
    rejected = {"exchanges": 0, "signs": 0}
    for _ in range(samples):
        happens = rng.permuted(np.repeat([[True] * 12 + [False] * 48], events, axis=0), axis=1).T
        values, has = centred((np.eye(3)[rng.integers(0, 3, (60, events))] * happens[:, :, None]).transpose(0, 2, 1))
        group_exchanges = ExchangedRows.of(values, has, 500, seed=7)
        signs = FlippedRows.of(values.reshape(60, -1), 500, seed=7)
        family = Family([signs], group_exchanges=[group_exchanges])
        rejected["exchanges"] += family.under_group_exchanges(float(group_exchanges.z.max())) < 0.05
        rejected["signs"] += family.adjusted(float(signs.p.min())) < 0.05
    shares = {name: number / samples for name, number in rejected.items()}
    assert shares["exchanges"] < 0.05 + 3 * np.sqrt(0.05 * 0.95 / samples), shares
    assert shares["signs"] > 0.2, shares
