"""Taskmaster-1 and -3, MetaLWOZ, MultiDoGO and MSR-E2E in ParlAI's layout: turns, calls, splits."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_corpora import (
    COUNT,
    write_metalwoz,
    write_msr_e2e,
    write_multidogo,
    write_taskmaster,
    write_taskmaster3,
)

from tod_bias import Dialogue, Turn, load_corpus
from tod_bias.dialogues.sampling import shares, shares_of_subsets, tenths
from tod_bias.perturb import draw_rewrites, load_axis

SPLITS = ("train", "valid", "test")
WRITERS = {
    "metalwoz": write_metalwoz,
    "msr_e2e": write_msr_e2e,
    "multidogo": write_multidogo,
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


def test_metalwoz_tells_the_bot_its_role(tmp_path: Path) -> None:
    found = everything("metalwoz", write_metalwoz(tmp_path))
    assert found["ski_bot-0x"] == Dialogue(
        "ski_bot-0x",
        "SKI_BOT",
        (Turn("", response="Hello how may I help you?"), Turn("A bus for my mother", response="She can take the 5")),
        "You are bot 0. Be kind to the user and his wife.",
    )
    assert len(found["ski_bot-4x"].turns) == 3
    assert {found[name].system for name in ("ski_bot-2x", "ski_bot-2x_2")} == {
        "You are bot 2. Be kind to the user and his wife.",
        "You are another bot.",
    }
    assert "ski_bot-3x" not in found  # of no known task


def test_multidogo_calls_hold_the_domain_and_the_customers_slots(tmp_path: Path) -> None:
    found = everything("multidogo", write_multidogo(tmp_path))
    api = {"api_name": "media"}
    assert found["media-dev-a"].turns == (
        Turn.with_call("Good morning", api, {}, "Hello! How can I help you, madam?"),
        Turn.with_call(
            "My mother, Ann Lee, needs a seat\n2 seats",
            {**api, "first_name": "ann", "last_name": "lee", "count": "2"},
            {},
            "A seat for her.\nWhich one?",
        ),
        Turn.with_call("9Cor 9D", {**api, "seat": "9d"}, {}, ""),
    )
    assert found["media-dev-b"].turns == (
        Turn.with_call("__SILENCE__", api, {}, "Hello, sir."),
        Turn.with_call("bye", api, {}, "Bye, sir."),
    )
    assert found["media-dev-c"].turns == (Turn.with_call("my wife", api),)
    assert {name[-1] for name in found} == {"a", "b", "c"}


def test_msr_e2e_calls_gather_slots_and_stand_with_results(tmp_path: Path) -> None:
    found = everything("msr_e2e", write_msr_e2e(tmp_path))
    gathered = {"api_name": "movie", "numberofpeople": "2", "moviename": "Up", "city": "Seattle = home"}
    assert found["movie-1"].turns == (
        Turn.with_call("I and my wife want to see Up", {}, {}, "Which city?"),
        Turn.with_call(
            "Seattle = home\ntonight",
            {**gathered, "date": "tonight"},
            {"api_name": "movie", "theater": "Regal#AMC", "starttime": "9pm", "price": "{$5#$6}"},
            'At "Regal" or AMC?\nBoth at 9',
        ),
        Turn("thank you, sir"),
    )
    assert found["taxi-2"].turns[0] == Turn.with_call(
        "__SILENCE__", {}, {"api_name": "taxi", "greeting": "hello"}, "Hello"
    )
    assert found["taxi-4"].turns == (Turn.with_call("__SILENCE__", {}, {}, "Anybody\tthere?\nMy husband?"),)
    assert len(found) == 3 * COUNT
    assert "taxi-1_2" in found  # the number of another dialogue


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
    assert sorted(item for split in SPLITS for item in shares(range(count), split)) == list(range(count))


@pytest.mark.parametrize(("split", "expected"), [("train", [8, 1, 5, 0, 7, 2, 9, 4]), ("valid", [3]), ("test", [6])])
def test_tenths_are_those_of_pandas(split: str, expected: list[int]) -> None:
    """Of ``DataFrame({"number": range(10)}).sample(frac=1.0, random_state=42)``, pandas 3.1.1."""
    assert tenths(10, split) == expected


def test_a_subset_is_cut_the_same_whatever_stands_beside_it() -> None:
    one, other = list(range(20)), list(range(100, 113))
    for split in SPLITS:
        both = shares_of_subsets([one, other], split)
        assert sorted(both) == sorted(shares(one, split) + shares(other, split))
