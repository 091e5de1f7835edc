"""The two-tower recommender of projects/attribute_association, its synthetic interactions and its case study."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import run_command

from tod_bias.errors import InteractionsError
from tod_bias.recommenders.embeddings.association import deaa
from tod_bias.recommenders.embeddings.settings import AuditSettings

FOLDER = Path(__file__).parent


with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)
    case_study, synthetic, two_tower = map(importlib.import_module, ("case_study", "synthetic", "two_tower"))


def association(interactions, attribute, **settings):
    embeddings, record = two_tower.train_two_tower(
        interactions, two_tower.TwoTowerConfig(attribute=attribute, **settings)
    )
    users, items = (embeddings.tables[name] for name in ("users", "items"))
    gender, genre = users.attributes["gender"].to_numpy(), items.attributes["genre"].to_numpy()
    sides = [users.vectors[gender == value] for value in ("female", "male")]
    tested = [items.vectors[genre == value] for value in ("crime", "sport")]
    return deaa(*tested, *sides), record


@pytest.fixture(scope="module")
def small():
    return synthetic.synthetic_interactions(users=400, items=160, events=30, seed=1)


def test_removing_the_attribute_lowers_the_association_and_does_not_remove_it(small):
    with_gender, record = association(small, "gender")
    without, _ = association(small, None)
    nothing, _ = association(
        synthetic.synthetic_interactions(users=400, items=160, events=30, seed=1, strength=0.0), None
    )
    assert with_gender > 1.05 * without
    assert without > 3 * abs(nothing)
    assert record["recall_at_50"] > 1.15 * 50 / 160  # better than chance
    assert record["loss"] == sorted(record["loss"], reverse=True)


def test_trainings_and_synthetic_interactions_are_seeded(small):
    quick = {"epochs": 1, "dimensions": 8}
    first, second, other = (association(small, "gender", seed=seed, **quick)[0] for seed in (0, 0, 1))
    assert first == second != other
    made = [synthetic.synthetic_interactions(users=50, items=16, seed=seed).item.tolist() for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attribute": "age"}, "'age'"),
        ({"epochs": 2, "learning_rate": 1e30}, r"diverged at step \d+.*no embeddings were written"),
    ],
)
def test_what_cannot_be_trained_is_named(small, settings, message):
    with pytest.raises(InteractionsError, match=message):
        two_tower.train_two_tower(small, two_tower.TwoTowerConfig(**settings))


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_planted_strength_is_the_log_of_a_factor(strength):
    """Without spread of tastes, women take crime exp(2 strength) times as often as men do."""
    seen = synthetic.synthetic_interactions(users=600, items=16, events=40, strength=strength, spread=0.0, seed=3)
    female = (seen.users["gender"] == "female").to_numpy()[seen.user]
    north = (seen.users["region"] == "north").to_numpy()[seen.user]
    genre = seen.items["genre"].to_numpy()[seen.item]
    expected = {"crime": 1 / (1 + np.exp(-2 * strength)), "sport": 1 / (1 + np.exp(2 * strength)), "news": 0.5}
    for name, truth in expected.items():
        weights = seen.weight[genre == name]
        assert weights[female[genre == name]].sum() / weights.sum() == pytest.approx(truth, abs=0.03)
        assert weights[north[genre == name]].sum() / weights.sum() == pytest.approx(0.5, abs=0.03)


@pytest.mark.slow
def test_a_saved_model_is_audited(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, FOLDER / "case_study.py", "train", "model"], check=True)
    code, _, err = run_command(
        "associate --embeddings model/embeddings.npz --interactions model/interactions.csv --users model/users.csv "
        "--items model/items.csv --attribute gender --test genre=crime,sport --out run --quiet",
        *("--permutations", 199, "--bootstrap", 50),
    )
    assert code == 0, err
    written = json.loads((tmp_path / "run" / "associations.json").read_text())
    assert written["sets"]["A"]["name"] == "female"
    result = written["classification"]
    assert result["users_from_items"]["top_items"] == 3
    assert len(result["svc"]["audience_deciles"]) == 10
    assert (tmp_path / "run" / "tables" / "table4_deciles.csv").is_file()


@pytest.mark.slow
def test_the_case_study_lowers_the_association_and_says_what_is_left(tmp_path):
    settings = AuditSettings(permutations=2999, bootstrap=50)
    comparison = case_study.case_study(tmp_path, settings)[2]
    said = " ".join(comparison["reading"])
    assert "without gender lowers the association: difference of means" in said
    assert "but does not remove it: what is left is flagged as well" in said
    assert "but does not remove it: what is left is flagged as well" in (tmp_path / "report.html").read_text()
    change = json.loads((tmp_path / "comparison.json").read_text())["metrics"]["DEAA"]
    assert 0 < change["after"] < change["before"]
    assert change["ci"][1] < 0


def test_the_readme_has_the_numbers_of_counterfactual_users():
    study = FOLDER
    pairs = json.loads((study / "results" / "counterfactual" / "associations.json").read_text())["pairs"]
    whole = json.loads((study / "results" / "associations.json").read_text())["mean_difference"]
    entry = pairs["of"]["differential"]
    low, high = entry["ci"]
    readme = " ".join((study / "README.md").read_text().split())
    assert f"the {pairs['pairs']:,} pairs crime against sport differs by {entry['value']:+.3f}" in readme
    assert f"[{low:+.3f}, {high:+.3f}] in the mean cosine, p {entry['p_holm']:.4f}" in readme
    assert f"between women and men it differs by {whole:+.3f}" in readme
    assert 0.85 < entry["value"] / whole < 0.95
