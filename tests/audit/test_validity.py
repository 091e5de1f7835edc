"""Simulations of what is claimed, short ones; tests/benchmarks/validity.py makes the whole table."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from audited_worlds import World, audit, table_of
from validity import WOMAN, Case, cases
from validity import run as run_case

run = partial(run_case, dialogues=10_000)
"""The truth of so many has a standard error of .002 at the most, an eighth of what intervals and bounds here allow."""


def share(hits):
    return float(np.mean(hits))


def test_quirks_of_words_are_not_called_a_groups():
    seen, _ = run(cases()["words-one-way-0.2"], 20, 1)
    assert share([verdict == "disparity" for verdict in seen.verdicts]) <= 0.15
    assert share(seen.together) >= 0.85
    assert all(seen.dual)


def test_a_groups_effect_over_many_words_is_a_disparity():
    seen, _ = run(cases()["group-20-words"], 12, 1)
    assert share([verdict == "disparity" for verdict in seen.verdicts]) >= 0.6


@pytest.mark.slow
def test_without_an_effect_little_is_claimed_and_intervals_cover():
    seen, true = run(replace(cases()["null-130"], axes=2), 24, 2)
    assert share([verdict == "disparity" for verdict in seen.verdicts]) <= 0.13
    assert share(seen.claimed_pairs) <= 0.13
    assert share(seen.together) >= 0.87
    for name in ("disparity", "gap woman", "pair man>woman", "contribution response"):
        assert share(seen.covered[name]) >= 0.86
        assert np.mean(seen.values[name]) == pytest.approx(true[name], abs=0.015)


def test_contributions_keep_signs_and_stages_without_a_part_get_none():
    seen, true = run(cases()["opposite"], 16, 3)
    assert true["contribution api_call"] > 0.08
    assert true["contribution response"] < -0.03
    for name in ("api_call", "db", "response"):
        values = seen.values[f"contribution {name}"]
        assert np.mean(values) == pytest.approx(true[f"contribution {name}"], abs=0.015)
    assert not any(seen.significant["db"])


@pytest.mark.slow
def test_what_any_rewording_does_is_not_called_a_groups():
    seen, _ = run(cases()["floor"], 20, 4)
    assert share([verdict == "disparity" for verdict in seen.verdicts]) <= 0.15
    harmed = replace(cases()["floor"].world, placebo_effect=0.0)
    seen, _ = run(Case("", harmed, ""), 12, 4)
    assert share([verdict == "disparity" for verdict in seen.verdicts]) >= 0.8


def test_what_is_less_than_any_rewording_does_is_not_called_a_groups_either():
    seen, _ = run(cases()["higher-floor"], 12, 4)
    assert np.mean(seen.values["disparity"]) > 0.05
    assert not set(seen.verdicts) & {"disparity", "these terms only"}


def test_equivalence_is_shown_where_it_holds_and_not_where_groups_cancel():
    seen, _ = run(cases()["equal"], 6, 5)
    assert share([verdict == "equivalent" for verdict in seen.verdicts]) >= 0.9
    cancelling = Case("", World(dialogues=500, own=0.05, effects=WOMAN), "", 1, 0.05)
    seen, true = run(cancelling, 6, 5)
    assert abs(true["disparity"]) < 0.01
    assert set(seen.verdicts) == {"disparity"}


def test_further_clusters_widen_what_is_said():
    table = table_of(World(dialogues=60, shares=(1.0, 0.0), effects=WOMAN), np.random.default_rng(0))
    (alone,) = audit([table], 0)
    services = tuple(f"service {number % 6}" for number in range(60))
    clustered = replace(table, variants=replace(table.variants, clusters=(("service", services),)))
    (found,) = audit([clustered], 0)
    assert found.clusters["service"] == 6
    assert found.groups["woman"].gap.p >= alone.groups["woman"].gap.p
    few = replace(table, variants=replace(table.variants, clusters=(("service", ("one",) * 60),)))
    assert audit([few], 0)[0].groups["woman"].gap == alone.groups["woman"].gap  # one cluster tells nothing
