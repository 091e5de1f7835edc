"""Dialogues of one turn from the test reviews that name somebody: the review, and what says its own venue."""

from __future__ import annotations

import sys
from pathlib import Path

from tod_bias import Dialogue, Turn
from tod_bias.dialogues.files import write_jsonl
from tod_bias.perturb import load_axis
from tod_bias.recommenders.lmrec.reviews import Reviews, read_csv
from tod_bias.recommenders.lmrec.stages import ItemLookup, VenueResponse
from tod_bias.systems.stage import StageInput


def main(model: str, reviews: str, out: str) -> None:
    lookup, response = ItemLookup(f"{model}/venues.jsonl"), VenueResponse()
    perturber = load_axis("names_race")
    found = Reviews(read_csv(reviews), city=Path(reviews).stem)
    kept = []
    for number, review in enumerate(found.of_split(2, 0)):
        text = review.text
        dialogue = Dialogue(f"{number:04d}", "Restaurants", (Turn(text),))
        if not perturber.candidates(dialogue):
            continue
        ranked = ({"id": found.venues[review.venue].id},)
        (row,) = lookup([StageInput((), text, outputs={"recommend": ranked})])
        (said,) = response([StageInput((), text, outputs={"lookup": row})])
        kept.append(Dialogue(dialogue.id, "Restaurants", (Turn(text, response=said),)))
    write_jsonl(kept, out)
    print(f"{len(kept)} test reviews name somebody: {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
