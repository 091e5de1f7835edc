"""LMRec in a pipeline: the attribution splits the bias over recommender and response."""

from __future__ import annotations

import pytest

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.errors import StageError
from tod_bias.recommenders.lmrec.model import LMRec
from tod_bias.recommenders.lmrec.stages import Recommend
from tod_bias.recommenders.lmrec.templates import load_templates
from tod_bias.systems.outputs import as_text
from tod_bias.systems.stage import StageInput, cache_signature
from tod_bias.testing import StageContract


class TestRecommend(StageContract):
    @pytest.fixture
    def stage(self, trained):
        return Recommend(str(trained), top=5)

    @pytest.fixture
    def inputs(self):
        return [StageInput((), query.text) for query in list(load_templates().queries())[:60:4]]

    def test_output_is_ranked_venues(self, stage, inputs):
        first = stage(inputs)[0]
        assert len(first) == 5
        assert set(first[0]) == {"id", "name", "price", "categories"}
        assert "category" not in as_text(first)


def test_a_recommender_is_known_by_what_decides_its_lists(trained, tmp_path):
    stages = (Recommend(trained, top=5), Recommend(trained, top=6), Recommend(trained, top=5, neutralise=True))
    names = {cache_signature(stage) for stage in stages}
    assert cache_signature(Recommend(str(trained), top=5, batch=3)) in names
    other = LMRec.load(trained)
    next(iter(other.model.parameters())).data += 1e-3
    other.save(tmp_path)
    names.add(cache_signature(Recommend(tmp_path, top=5)))
    assert len(names) == 4


def test_more_venues_than_there_are_is_one_line(trained):
    with pytest.raises(StageError, match="Recommend: top is 99"):
        Recommend(trained, top=99)


def first_venue(inputs):
    return [f"How about {item.outputs['recommend'][0]['name']}?" for item in inputs]


@pytest.mark.parametrize("neutralise", [False, True])
def test_the_bias_is_attributed_to_the_recommender(neutralise, trained):
    pipeline = Pipeline({"recommend": Recommend(trained, neutralise=neutralise), "response": first_venue})
    queries = [query for query in load_templates().queries() if query.kind == "names"][::31]
    answers = pipeline([StageInput((), query.text) for query in queries])
    dialogues = [
        Dialogue(str(number), "Restaurants", (Turn(query.text, response=item.outputs["response"]),))
        for number, (query, item) in enumerate(zip(queries, answers, strict=True))
    ]
    result = attribute(pipeline, dialogues, axes=["names_gender"], bootstrap=50, permutations=50)
    axis = result.axes["names_gender"]["corpus_bleu"]
    disparity = axis.disparity.value
    contributions = {name: part.shapley.value for name, part in axis.contributions.items()}
    assert abs(disparity) > 0.05 or neutralise
    assert contributions == pytest.approx({"recommend": 0.0 if neutralise else disparity, "response": 0.0}, abs=1e-9)
