"""The stages that follow LMRec in a pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tod_bias.errors import StageError
from tod_bias.pipelines import load_pipeline
from tod_bias.stages import ItemLookup, VenueResponse
from tod_bias.systems.outputs import Outcome
from tod_bias.systems.stage import StageInput


def test_lookup_takes_the_first_venue_that_is_known(tmp_path: Path) -> None:
    (tmp_path / "venues.jsonl").write_text('{"id": "y", "name": "Why", "categories": ["Thai"], "price": 2}\n')
    lookup = ItemLookup(tmp_path / "venues.jsonl")
    ranked = ({"id": "x", "name": "X"}, {"id": "y", "name": "Y"})
    results = lookup([StageInput((), "", {"recommend": part}) for part in (ranked, ranked[:1], ())])
    assert [result.outcome for result in results] == [Outcome.ROWS, Outcome.NO_ROW, Outcome.NO_CALL]
    said = VenueResponse()([StageInput((), "", {"lookup": part}) for part in results])
    assert said[0] == "How about Why? It serves Thai and its price level is $$."
    assert said[1] == said[2] == "Sorry, I know no place for that."


def test_lmrec_is_a_pipeline_of_three_stages(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "lmrec.yaml").write_text(
        f"""stages:
  recommend: {{stage: "tod_bias.stages:Recommend", model: {trained}, top: 3}}
  lookup: {{stage: "tod_bias.stages:ItemLookup", table: {trained}/venues.jsonl}}
  response: "tod_bias.stages:VenueResponse"
"""
    )
    (item,) = load_pipeline(tmp_path / "lmrec.yaml")([StageInput((), "I want some sushi.")])
    assert item.outputs["response"].startswith(f"How about {item.outputs['recommend'][0]['name']}? It serves ")


def test_a_missing_field_or_stage_is_one_line() -> None:
    with pytest.raises(StageError, match="needs the output of a stage 'recommend' before it"):
        ItemLookup({})([StageInput((), "")])
    results = ItemLookup({"x": {"id": "x"}})([StageInput((), "", {"recommend": ({"id": "x"},)})])
    with pytest.raises(StageError, match="the row of 'x' has no 'name'"):
        VenueResponse()([StageInput((), "", {"lookup": results[0]})])
