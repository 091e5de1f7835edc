"""Search of hyper-parameters: seeded draws from the paper's sets, decided by the validation loss."""

from __future__ import annotations

import json

import pytest

from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig

pytest.importorskip("torch")

from tod_bias.recommenders.lmrec.search import SEARCHED, combinations, search


def test_draws_are_seeded_and_of_the_papers_sets():
    settings = RecommenderTrainConfig(init="bert-base-uncased", search=6, seed=3)
    tried = combinations(settings)
    assert len({(some.hidden, some.dropout, some.learning_rate) for some in tried}) == 6
    assert (tried[0].hidden, tried[0].dropout, tried[0].learning_rate) == (512, 0.1, 3e-5)
    for some in tried[1:]:
        assert all(getattr(some, name) in values for name, values in SEARCHED.items())
        assert some.search == 1
    assert combinations(settings) == tried
    assert combinations(settings.model_copy(update={"seed": 4})) != tried


def test_given_settings_are_kept_and_rates_from_scratch_are_in_proportion():
    tried = combinations(RecommenderTrainConfig(search=112, dropout=0.3))
    assert {some.dropout for some in tried} == {0.3}
    assert len(tried) == 4 * 7  # the usual rate and width are among the sets
    assert sorted({some.learning_rate for some in tried}) == pytest.approx(
        [3e-4, 1e-3 / 3, 1e-3, 5e-3 / 3, 7e-3 / 3, 3e-3, 1e-2 / 3]
    )
    one_layer = combinations(RecommenderTrainConfig(search=20, head_layers=1))
    assert {some.hidden for some in one_layer} == {512}


def test_the_lowest_validation_loss_is_kept(few_reviews, settings, tmp_path):
    chosen = RecommenderTrainConfig(**{**settings.model_dump(exclude_unset=True), "max_steps": 4, "search": 3})
    record = search(few_reviews, tmp_path / "model", chosen)
    found = json.loads((tmp_path / "model" / "search.json").read_text())
    losses = [trial["validation_loss"] for trial in found["trials"]]
    assert len(losses) == 3
    assert record["validation_loss"] == min(losses)
    best = found["trials"][losses.index(min(losses))]
    assert all(record["settings"][name] == best[name] for name in SEARCHED)
    assert not (tmp_path / "model" / "search").exists()
    assert (tmp_path / "model" / "training.json").exists()
