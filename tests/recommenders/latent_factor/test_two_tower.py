import numpy as np
import pytest

from tod_bias.errors import InteractionsError
from tod_bias.recommenders.embeddings.association import deaa
from tod_bias.recommenders.latent_factor.settings import TwoTowerConfig
from tod_bias.recommenders.latent_factor.synthetic import synthetic_interactions
from tod_bias.recommenders.latent_factor.two_tower import train_two_tower


def association(interactions, attribute, **settings):
    embeddings, record = train_two_tower(interactions, TwoTowerConfig(attribute=attribute, **settings))
    users, items = (embeddings.tables[name] for name in ("users", "items"))
    gender, genre = users.attributes["gender"].to_numpy(), items.attributes["genre"].to_numpy()
    sides = [users.vectors[gender == value] for value in ("female", "male")]
    tested = [items.vectors[genre == value] for value in ("crime", "sport")]
    return deaa(*tested, *sides), record


@pytest.fixture(scope="module")
def small():
    return synthetic_interactions(users=400, items=160, events=30, seed=1)


def test_removing_the_attribute_lowers_the_association_and_does_not_remove_it(small):
    with_gender, record = association(small, "gender")
    without, _ = association(small, None)
    nothing, _ = association(synthetic_interactions(users=400, items=160, events=30, seed=1, strength=0.0), None)
    assert with_gender > 1.05 * without
    assert without > 3 * abs(nothing)
    assert record["recall_at_50"] > 1.15 * 50 / 160  # better than chance
    assert record["loss"] == sorted(record["loss"], reverse=True)


def test_equal_seeds_train_equal_models(small):
    quick = {"epochs": 1, "dimensions": 8}
    first, second, other = (association(small, "gender", seed=seed, **quick)[0] for seed in (0, 0, 1))
    assert first == second != other


def test_tables_hold_ids_and_attributes(small):
    config = TwoTowerConfig(epochs=1, dimensions=4, importance=0.0)
    embeddings, record = train_two_tower(small, config)
    users = embeddings.tables["users"]
    assert users.vectors.shape == (400, 4)
    assert users.ids == small.user_ids
    assert users.attributes["gender"].tolist() == small.users["gender"].tolist()
    assert record["held_out"] == 400


def test_unknown_attribute_is_named(small):
    with pytest.raises(InteractionsError, match="'age'"):
        train_two_tower(small, TwoTowerConfig(attribute="age"))


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_planted_strength_is_the_log_of_a_factor(strength):
    """Without spread of tastes, women take crime exp(2 strength) times as often as men do."""
    seen = synthetic_interactions(users=600, items=16, events=40, strength=strength, spread=0.0, seed=3)
    female = (seen.users["gender"] == "female").to_numpy()[seen.user]
    north = (seen.users["region"] == "north").to_numpy()[seen.user]
    genre = seen.items["genre"].to_numpy()[seen.item]
    expected = {"crime": 1 / (1 + np.exp(-2 * strength)), "sport": 1 / (1 + np.exp(2 * strength)), "news": 0.5}
    for name, truth in expected.items():
        weights = seen.weight[genre == name]
        assert weights[female[genre == name]].sum() / weights.sum() == pytest.approx(truth, abs=0.03)
        assert weights[north[genre == name]].sum() / weights.sum() == pytest.approx(0.5, abs=0.03)


def test_synthetic_interactions_are_seeded():
    first, second, other = (synthetic_interactions(users=50, items=16, seed=seed) for seed in (0, 0, 1))
    assert (first.item == second.item).all()
    assert len(first) != len(other) or (first.item != other.item).any()


def test_a_training_that_diverges_says_at_which_step(small):
    with pytest.raises(InteractionsError, match=r"diverged at step \d+.*no embeddings were written"):
        train_two_tower(small, TwoTowerConfig(epochs=2, learning_rate=1e30))
