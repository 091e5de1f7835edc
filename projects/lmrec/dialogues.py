"""Dialogues of one turn: a name template filled, answered as the (fair-response) pipeline answers it."""

from __future__ import annotations

import sys

from tod_bias import Dialogue, StageInput, Turn
from tod_bias.dialogues.files import write_jsonl
from tod_bias.recommenders.lmrec.model import VENUES
from tod_bias.recommenders.lmrec.stages import ItemLookup, Recommend, VenueResponse
from tod_bias.recommenders.lmrec.templates import load_templates
from tod_bias.systems.pipeline import Pipeline


def main(model: str, out: str) -> None:
    stages = {"recommend": Recommend(model), "lookup": ItemLookup(f"{model}/{VENUES}"), "response": VenueResponse()}
    queries = [query for query in load_templates().queries() if query.kind == "names"][::5]
    answered = Pipeline(stages)([StageInput((), query.text) for query in queries])
    write_jsonl(
        [
            Dialogue(f"{number:04d}", "Restaurants", (Turn(query.text, response=item.outputs["response"]),))
            for number, (query, item) in enumerate(zip(queries, answered, strict=True))
        ],
        out,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
