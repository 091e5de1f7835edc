"""What follows LMRec in the pipelines of its study."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tod_bias.systems.outputs import Outcome
from tod_bias.systems.stage import StageInput

FOLDER = Path(__file__).parent.parent.parent / "projects" / "lmrec"


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    sys.modules.pop("venue_stages", None)
    return importlib.import_module("venue_stages")


def test_lookup_takes_the_first_venue_that_is_known(stages: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "venues.jsonl").write_text('{"id": "y", "name": "Why", "categories": ["Thai"], "price": 2}\n')
    lookup = stages.ItemLookup(tmp_path / "venues.jsonl")
    ranked = ({"id": "x", "name": "X"}, {"id": "y", "name": "Y"})
    results = lookup([StageInput((), "", {"recommend": part}) for part in (ranked, ranked[:1], ())])
    assert [result.outcome for result in results] == [Outcome.ROWS, Outcome.NO_ROW, Outcome.NO_CALL]
    said = stages.VenueResponse()([StageInput((), "", {"lookup": part}) for part in results])
    assert said[0] == "How about Why? It serves Thai and its price level is $$."
    assert said[1] == said[2] == "Sorry, I know no place for that."
