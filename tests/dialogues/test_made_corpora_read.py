"""Taskmaster-1 and -3 in ParlAI's layout: turns, calls, splits."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_corpora import COUNT, write_taskmaster, write_taskmaster3

from tod_bias import Dialogue, Turn, load_corpus
from tod_bias.dialogues.sampling import tenths
from tod_bias.perturb import draw_rewrites, load_axis

SPLITS = ("train", "valid", "test")
WRITERS = {
    "taskmaster": write_taskmaster,
    "taskmaster3": write_taskmaster3,
}


def everything(corpus: str, datapath: Path) -> dict[str, Dialogue]:
    """All dialogues of all splits by their ids."""
    return {
        dialogue.id: dialogue for split in SPLITS for dialogue in load_corpus(corpus, datapath=datapath, split=split)
    }


def test_taskmaster_1_takes_segments_as_slots(tmp_path: Path) -> None:
    found = everything("taskmaster", write_taskmaster(tmp_path))
    assert found["dlg-0"].turns == (
        Turn.with_call(
            "A table for my mother.\nAt eight.",
            {"api_name": "restaurant_reservation", "time.reservation": "eight"},
            {"api_name": "othe", "name.reservation.accept": "whom", "other": "?"},  # no point: as ParlAI has it
            "For whom?",
        ),
        Turn.with_call(
            "For Mrs. Park; she = my wife | me.",
            {"api_name": "a", "name": "Mrs. Park", "": ""},
            {},
            "",
        ),
    )
    assert found["dlg-1"].turns == (
        Turn.with_call("__SILENCE__", {}, {}, "Hello.\nHow can I help?"),
        Turn.with_call("My husband\nneeds a ride.", {}, {}, "Where to?"),
    )
    assert found["dlg-5"].turns == ()
    assert found["dlg-0"].domain == "pizza-ordering"
    assert not {"dlg-3", "dlg-4"} & set(found)  # somebody else speaks


def test_taskmaster_3_has_a_turn_for_every_call(tmp_path: Path) -> None:
    found = everything("taskmaster3", write_taskmaster3(tmp_path))
    find = {"api_name": "find_movies", "genre": "for my daughter", "year": "2009"}
    films = {"api_name": "find_movies", "name.movie_1": "Up", "seats": "10, 2, a"}
    book = {"api_name": "book_tickets", "count": "2", "late": "True"}
    paid = {"api_name": "book_tickets", "status": "success", "paid": "12.5", "seat": "{'row': 1}"}
    assert found["dlg-0"].turns == (
        Turn.with_call("A film for my daughter.", find, films, "There is Up."),
        Turn.with_call("Two, please.\nShe loves it.", book, paid, "__SILENCE__"),
        Turn.with_call("__SILENCE__", find, films, "__SILENCE__"),
        Turn.with_call("__SILENCE__", book, paid, "Booked."),
        Turn("Thanks."),
    )
    assert found["dlg-1"].turns == (
        Turn.with_call("__SILENCE__", find, films, "__SILENCE__"),
        Turn.with_call("__SILENCE__", book, paid, "Hello.\nMovies?"),
        Turn("For my wife."),
    )
    assert (found["dlg-0"].domain, len(found)) == ("Movie Tickets", COUNT)


@pytest.mark.parametrize("corpus", WRITERS)
def test_dialogues_survive_their_texts_and_every_rewrite(tmp_path: Path, corpus: str) -> None:
    perturbers = [load_axis(axis) for axis in ("gender", "names_gender", "placebo")]
    rewritten = 0
    for dialogue in list(everything(corpus, WRITERS[corpus](tmp_path)).values())[:60]:
        assert Dialogue.from_json(dialogue.to_json()) == dialogue
        for perturber in perturbers:
            for rewrite in draw_rewrites(perturber, dialogue, draws=1):
                assert rewrite.inverse(rewrite(dialogue)) == dialogue
                rewritten += rewrite(dialogue) != dialogue
    assert rewritten > 5


def test_nobody_introduces_themselves_in_silence(tmp_path: Path) -> None:
    dialogues = list(everything("taskmaster", write_taskmaster(tmp_path)).values())
    told = load_axis("persona_gender").select(dialogues, seed=0)
    users = [turn.user for dialogue, _ in told for turn in dialogue.turns]
    assert told
    assert all("__SILENCE__" not in user or user == "__SILENCE__" for user in users)
    assert {dialogue.id for dialogue, _ in told} == {
        one.id for one in dialogues if any(turn.user != "__SILENCE__" for turn in one.turns)
    }


@pytest.mark.parametrize("count", [0, 1, 9, 10, 57])
def test_splits_are_parts_of_the_whole(count: int) -> None:
    assert sorted(number for split in SPLITS for number in tenths(count, split)) == list(range(count))


@pytest.mark.parametrize(("split", "expected"), [("train", [8, 1, 5, 0, 7, 2, 9, 4]), ("valid", [3]), ("test", [6])])
def test_tenths_are_those_of_pandas(split: str, expected: list[int]) -> None:
    """Of ``DataFrame({"number": range(10)}).sample(frac=1.0, random_state=42)``, pandas 3.1.1."""
    assert tenths(10, split) == expected
