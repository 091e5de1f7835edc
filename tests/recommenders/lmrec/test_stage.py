"""LMRec in a pipeline: the attribution splits the bias over recommender, lookup and response."""

from __future__ import annotations

import json

import pytest

from tod_bias import Dialogue, Turn, attribute, load_pipeline
from tod_bias.errors import StageError
from tod_bias.recommenders.lmrec.model import VENUES, LMRec
from tod_bias.recommenders.lmrec.stage import ItemLookup, Recommend, VenueResponse
from tod_bias.recommenders.lmrec.templates import load_templates
from tod_bias.systems.outputs import Outcome, as_text
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


def test_a_recommender_is_known_by_what_decides_its_lists(trained):
    names = {
        cache_signature(stage)
        for stage in (Recommend(trained, top=5), Recommend(trained, top=6), Recommend(trained, top=5, neutralise=True))
    }
    assert cache_signature(Recommend(str(trained), top=5, batch=3)) in names
    other = LMRec.load(trained)
    next(iter(other.model.parameters())).data += 1e-3
    names.add(cache_signature(Recommend(other, top=5)))
    assert len(names) == 4


def test_lookup_takes_the_first_venue_that_is_known(trained):
    ranked = ({"id": "x", "name": "X"}, {"id": "y", "name": "Y"})
    lookup = ItemLookup({"y": {"id": "y", "name": "Why", "categories": "Thai", "price": "$$"}})
    results, none, empty = lookup([StageInput((), "", {"recommend": part}) for part in (ranked, ranked[:1], ())])
    assert (results.outcome, none.outcome, empty.outcome) == (Outcome.FOUND, Outcome.NO_ROW, Outcome.NO_CALL)
    said = VenueResponse()([StageInput((), "", {"lookup": part}) for part in (results, none, empty)])
    assert said[0] == "How about Why? It serves Thai and its price level is $$."
    assert said[1] == said[2] == "Sorry, I know no place for that."
    table = ItemLookup(trained / VENUES)(
        [StageInput((), "", {"recommend": ({"id": LMRec.load(trained).venues[0].id},)})]
    )
    assert table[0].result["price"] in ("$", "$$", "$$$", "$$$$")


def test_mistakes_in_a_pipeline_are_one_line(trained, tmp_path):
    with pytest.raises(StageError, match="Recommend: top is 99"):
        Recommend(trained, top=99)
    with pytest.raises(StageError, match="needs the output of a stage 'recommend'"):
        ItemLookup({})([StageInput((), "")])
    (tmp_path / "table.jsonl").write_text('{"name": "x"}\n')
    with pytest.raises(StageError, match=r"table\.jsonl, line 1"):
        ItemLookup(tmp_path / "table.jsonl")
    row = ItemLookup({"y": {"id": "y"}})([StageInput((), "", {"recommend": ({"id": "y"},)})])[0]
    with pytest.raises(StageError, match="the row of 'y' has no 'name'"):
        VenueResponse()([StageInput((), "", {"lookup": row})])


@pytest.mark.parametrize("neutralise", [False, True])
def test_the_bias_is_attributed_to_the_recommender(neutralise, trained, tmp_path):
    recommend = {"stage": "tod_bias.recommenders.lmrec:Recommend", "model": str(trained), "neutralise": neutralise}
    stages = {
        "recommend": recommend,
        "lookup": {"stage": "tod_bias.recommenders.lmrec:ItemLookup", "table": str(trained / VENUES)},
        "response": "tod_bias.recommenders.lmrec:VenueResponse",
    }
    (tmp_path / "pipeline.yaml").write_text(json.dumps({"stages": stages}))
    pipeline = load_pipeline(tmp_path / "pipeline.yaml")
    queries = [query for query in load_templates().queries() if query.kind == "names"][::31]
    answers = pipeline([StageInput((), query.text) for query in queries])
    dialogues = [
        Dialogue(str(number), "Restaurants", (Turn(query.text, response=item.outputs["response"]),))
        for number, (query, item) in enumerate(zip(queries, answers, strict=True))
    ]
    result = attribute(pipeline, dialogues, axes=["names_gender"], bootstrap=50, permutations=50)
    axis = result["axes"]["names_gender"]["corpus_bleu"]
    disparity = axis["disparity"]["value"]
    assert result["stages"] == ["recommend", "lookup", "response"]
    if neutralise:
        assert disparity == pytest.approx(0, abs=1e-12)
    else:
        assert abs(disparity) > 0.05
        assert axis["contributions"]["recommend"]["shapley"]["value"] == pytest.approx(disparity, abs=1e-9)
        assert (
            axis["contributions"]["lookup"]["shapley"]["value"]
            == axis["contributions"]["response"]["shapley"]["value"]
            == 0
        )
