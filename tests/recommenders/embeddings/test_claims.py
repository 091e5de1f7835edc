"""What an audit claims: not a difference in spread, not the luck of a few series; what was planted, yes."""

import json

import numpy as np
import pytest
from spaces import SPREAD_ONLY, TEN_SERIES, Space, eaa_rejects, flagged

from tod_bias.recommenders.embeddings.reading import remarks, statements


def rejected(space, runs, *, clustered=False):
    """Shares of draws in which both p-values of what may be claimed are at most 0.05, and those of EAA."""
    draws = [space.p_values(seed, clustered=clustered) for seed in range(runs)]
    return {name: np.mean([p_values[name] <= 0.05 for p_values in draws]) for name in draws[0]}


def most(runs, level=0.05):
    return level + 3 * np.sqrt(level * (1 - level) / runs)


def test_spread_is_no_direction():
    shares = rejected(SPREAD_ONLY, 80)
    assert shares.pop("EAA") > 0.9
    assert max(shares.values()) <= most(80)


def test_items_of_one_series_are_no_sample_of_their_own():
    space = Space(users=(200, 200), apart=0.5, series=TEN_SERIES, icc=0.5)
    assert rejected(space, 60)["differential"] > 0.15
    shares = rejected(space, 60, clustered=True)
    del shares["EAA"]
    assert max(shares.values()) <= most(60)


def test_few_long_series_against_many_short_ones():
    space = Space(users=(200, 200), apart=0.5, series=((5,) * 30, (25,) * 6), icc=0.5)
    assert rejected(space, 60, clustered=True)["differential"] <= most(60)


@pytest.mark.parametrize("space", [
    Space(users=(200, 200), apart=0.5, leans=(0.5, -0.5), series=TEN_SERIES, icc=0.2),
    Space(users=(40, 400), spreads=(1.0, 0.35), popular=(1.5, 0.5), apart=0.5, leans=(0.5, -0.5)),
])  # fmt: skip
def test_a_planted_direction_is_found(space):
    assert rejected(space, 40, clustered=True)["differential"] > 0.7


def test_an_audit_says_why_it_claims_nothing_about_spread():
    result = SPREAD_ONLY.audited(0)
    assert eaa_rejects(result)
    assert not flagged(result)
    assert "differ in spread only" in " ".join(remarks(result.record))


def test_a_claim_needs_a_usable_direction_and_none_that_opposes():
    result = Space(users=(200, 200), apart=1.0, leans=(0.8, -0.8)).audited(0)
    assert flagged(result) == {"E", "P", "differential"}
    for flag in result.record["flags"]:
        assert "centroid" in flag["agree"]
        assert flag["p_value"] == max(flag["p_users"], flag["p_items"])
    weak = Space(users=(8, 8), apart=2.0, leans=(2.0, -2.0)).audited(0)  # too few to hold any out
    assert any(flag["rejected"] for flag in weak.record["flags"])
    assert not flagged(weak)
    assert "but no direction is usable" in " ".join(said.sentence for said in statements(weak.record))


def test_intervals_and_entities_know_the_clusters(tmp_path):
    space = Space(users=(60, 60), apart=0.5, series=TEN_SERIES, icc=0.5)
    single, whole = (space.audited(1, clustered=clustered, bootstrap=400) for clustered in (False, True))
    widths = [np.ptp(run.record["R_RIPA"]["centroid"]["intervals"]["differential"]) for run in (single, whole)]
    assert widths[1] > 1.5 * widths[0]
    assert whole.record["clusters"] == {
        "by": "series", "E": {"clusters": 10, "effective": 10.0}, "P": {"clusters": 10, "effective": 10.0}
    }  # fmt: skip
    assert single.record["clusters"] is None
    assert whole.entities["cluster"].tolist()[:11] == ["e0"] * 10 + ["e1"]
    for name in ("EAA", "GEAA", "DEAA", "effect_size"):
        assert whole.record[name] == single.record[name]
    whole.save(tmp_path)
    assert json.loads((tmp_path / "associations.json").read_text())["flags"] == whole.record["flags"]


@pytest.mark.slow
@pytest.mark.parametrize(("space", "clustered"), [
    (SPREAD_ONLY, False),
    (Space(users=(400, 400), apart=0.5, series=TEN_SERIES, icc=0.5), True),
])  # fmt: skip
def test_whole_audits_claim_in_one_of_twenty_at_the_most(space, clustered):
    claims = [flagged(space.audited(seed, clustered=clustered)) for seed in range(24)]
    assert np.mean([bool(found) for found in claims]) <= most(24)
    assert np.mean(["differential" in found for found in claims]) <= most(24)
