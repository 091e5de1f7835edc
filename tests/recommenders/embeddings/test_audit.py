"""The audit as a whole: its numbers against loops, its marks, its flags."""

import json

import numpy as np
import pytest
from spaces import audited, entity_sets, flagged, planted

from tod_bias.errors import TodBiasError
from tod_bias.recommenders.embeddings.association import deaa, eaa, effect_size, geaa, r_ripa, r_ripa_effect_size
from tod_bias.recommenders.embeddings.audit import audit
from tod_bias.recommenders.embeddings.directions import centroid_direction
from tod_bias.recommenders.embeddings.measurement import Scores, bootstrap
from tod_bias.recommenders.embeddings.reading import remarks, statements
from tod_bias.recommenders.embeddings.sets import resolve_sets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.vectors import Embeddings, unit

QUICK = AuditSettings(permutations=499, bootstrap=100)


def planted_audit(strength, settings=QUICK):
    spaces = planted(strength)
    return audited(*spaces, settings), spaces


@pytest.fixture(scope="module")
def strong():
    return planted_audit(0.8)


def test_written_metrics_are_the_formulas(strong, tmp_path):
    """Those of test_association.py, which are compared with loops."""
    result, (a, b, e, p) = strong
    result.save(tmp_path)
    written = json.loads((tmp_path / "associations.json").read_text())
    assert list(written["EAA"].values()) == pytest.approx([*eaa(e, a, b), *eaa(p, a, b)], abs=1e-12)
    assert list(written["EAA"])[:2] == ["0", "1"]
    assert written["GEAA"] == pytest.approx({"E": geaa(e, a, b), "P": geaa(p, a, b)}, abs=1e-9)
    assert written["DEAA"] == pytest.approx(deaa(e, p, a, b), abs=1e-9)
    assert written["effect_size"] == pytest.approx(effect_size(e, p, a, b), abs=1e-12)
    assert written["ddof"] == 0
    psi = a.mean(axis=0) - b.mean(axis=0)
    entry = written["R_RIPA"]["centroid"]
    assert entry["differential"] == pytest.approx(r_ripa(e, psi) - r_ripa(p, psi), abs=1e-12)
    assert [written[name] for name in ("alternative", "permutations", "exact")] == ["two-sided", 499, False]
    assert written["p_value"] == 1 / 500
    vectors = np.load(tmp_path / "directions.npz")
    assert set(vectors.files) == set(result.record["R_RIPA"]) == {"centroid", "svc", "csvc_19", "pca", "bolukbasi"}
    for name, entry in result.record["R_RIPA"].items():
        assert entry["E"] == pytest.approx(r_ripa(e, vectors[name]), abs=1e-12)
        assert entry["effect_size"] == pytest.approx(r_ripa_effect_size(e, p, vectors[name]), abs=1e-12)
    cosine = float(vectors["svc"] @ vectors["centroid"])
    assert result.record["directions"]["svc"]["cosines"]["centroid"] == pytest.approx(cosine)


def test_strong_association_is_flagged_and_every_metric_has_an_interval_that_holds_it(strong):
    result, _ = strong
    assert flagged(result) == {"E", "P", "differential"}
    assert result.record["directions"]["centroid"]["significant"]
    assert result.record["directions"]["svc"]["accuracy"]["test"]["value"] > 0.7
    said = [statement.sentence for statement in statements(result.record) if statement.is_difference]
    assert {"E leans more to A than P does", "E: vectors are closer to A than to B"} <= set(said)
    bounds = result.record["intervals"]
    pairs = [(result.record["GEAA"]["E"], bounds["GEAA"]["E"]), (result.record["DEAA"], bounds["DEAA"])]
    pairs += [(entry["E"], entry["intervals"]["E"]) for entry in result.record["R_RIPA"].values()]
    for value, (low, high) in pairs:
        assert low < value < high
    low, high = bounds["effect_size"]
    assert low < high
    frame = result.entities
    assert ((frame["eaa_low"] < frame["eaa"]) & (frame["eaa"] < frame["eaa_high"])).all()


def test_attribute_that_means_nothing_is_not_flagged_where_sets_lie_apart():
    """E and P are two clusters; A and B are one crowd cut at random, so nothing says anything about the attribute."""
    rng = np.random.default_rng(2)
    crowd = rng.normal(size=(200, 12)) + 0.3
    middle = rng.normal(size=12)
    items = np.concatenate([rng.normal(size=(40, 12)) * 0.3 + middle, rng.normal(size=(40, 12)) * 0.3 - middle])
    result = audited(crowd[:100], crowd[100:], items[:40], items[40:], QUICK)
    tests = result.record["tests"]["mean_difference"]
    assert tests["entities"]["p_value"] < 0.05 < tests["attribute"]["p_value"]  # clouds differ along any contrast
    assert not flagged(result)
    assert not any(entry["significant"] for entry in result.record["directions"].values())
    assert not any(entry["usable"] for entry in result.record["R_RIPA"].values())
    assert "E against P: no association is supported" in [said.sentence for said in statements(result.record)]
    assert "Not to be used: centroid, svc" in " ".join(remarks(result.record))


def test_sets_of_one_entity_have_no_intervals_and_no_directions_to_trust():
    embeddings = Embeddings.of(vectors=np.random.default_rng(0).normal(size=(4, 3)))
    sets = resolve_sets({"A": [0], "B": [1], "E": [2], "P": [3]}, embeddings)
    result = audit(embeddings, sets, QUICK)
    assert result.record["intervals"]["DEAA"] is None
    assert result.record["p_value"] == 1.0  # two labellings, the observed and its mirror
    assert not any(entry["significant"] for entry in result.record["directions"].values())
    said = " ".join(remarks(result.record))
    assert "No direction was tested, as A or B has too few entities" in said
    json.dumps(result.record, allow_nan=False)


def test_bootstrap_is_scoring_resampled_sets():
    a, b, e, p = (unit(side) for side in planted(0.4, people=40, things=25))
    direction = centroid_direction(a, b)
    scores = Scores.of(entity_sets(a, b, e, p)[1], [direction])
    results = bootstrap(scores, AuditSettings(bootstrap=2000))
    rng = np.random.default_rng(1)
    loop, effects, ripas = [], [], []
    for _ in range(1500):
        drawn = [side[rng.integers(0, len(side), len(side))] for side in (e, p, a, b)]
        scores = [eaa(side, drawn[2], drawn[3]) for side in drawn[:2]]
        loop.append(scores[0].sum() - scores[1].sum())
        effects.append((scores[0].mean() - scores[1].mean()) / np.concatenate(scores).std())
        ripas.append(r_ripa(drawn[0], direction.vector) - r_ripa(drawn[1], direction.vector))
    ripa_bounds = results["R_RIPA"]["centroid"]["differential"]
    for bounds, values in ((results["DEAA"], loop), (results["effect_size"], effects), (ripa_bounds, ripas)):
        assert np.mean(bounds) == pytest.approx(np.mean(values), abs=0.15 * np.std(values) + 0.02)
        assert bounds[1] - bounds[0] == pytest.approx(np.ptp(np.quantile(values, [0.025, 0.975])), rel=0.15)


@pytest.mark.parametrize("settings", [{"ddof": 2}, {"permutations": 0}])
def test_settings_that_cannot_be_used_are_named(settings):
    with pytest.raises(TodBiasError, match="(?i)" + next(iter(settings))):
        planted_audit(0.2, AuditSettings.of(settings))
