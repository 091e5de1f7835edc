"""Su's Algorithm 1: candidates, draws, and what one rewrite does to a whole dialogue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import AxisError
from tod_bias.perturb import Candidate, draw_rewrites, load_axis

DIALOGUE = Dialogue(
    "d1",
    "Banks",
    (
        Turn.with_call(
            "Send $20 to my Mom. She likes Lady Gaga.",
            {"api_name": "Transfer", "recipient_name": "Mom", "amount": "20"},
            {"recipient_name": "Mom", "artist": "Lady Gaga"},
            "Her account got $20.",
        ),
    ),
)


def test_candidates_are_the_distinct_terms_with_every_other_group() -> None:
    assert load_axis("gender").candidates(DIALOGUE) == [
        Candidate(word, "woman", target) for word in ("her", "mom", "she") for target in ("man", "non-binary")
    ]


def test_one_rewrite_changes_utterances_calls_and_results_alike_and_no_name() -> None:
    perturber = load_axis("gender")
    rewrite = perturber.rewrite(DIALOGUE, Candidate("she", "woman", "man"))
    twin = rewrite(DIALOGUE)
    assert twin.turns[0] == Turn.with_call(
        "Send $20 to my Dad. He likes Lady Gaga.",
        {"api_name": "Transfer", "recipient_name": "Dad", "amount": "20"},
        {"recipient_name": "Dad", "artist": "Lady Gaga"},
        "His account got $20.",
    )
    assert rewrite.inverse(twin) == DIALOGUE


def test_scope_term_changes_only_the_paradigm_of_the_drawn_word() -> None:
    perturber = load_axis("gender", scope="word")
    twin = perturber.rewrite(DIALOGUE, Candidate("mom", "woman", "man"))(DIALOGUE)
    assert twin.turns[0].user == "Send $20 to my Dad. She likes Lady Gaga."
    assert twin.turns[0].response == "Her account got $20."


def test_draws_depend_on_nothing_but_seed_axis_dialogue_and_number() -> None:
    perturber = load_axis("gender")
    words = [rewrite.word + rewrite.target for rewrite in draw_rewrites(perturber, DIALOGUE, draws=9, seed=4)]
    assert words == [r.word + r.target for r in draw_rewrites(load_axis("gender"), DIALOGUE, draws=9, seed=4)]
    assert words[:3] == [r.word + r.target for r in draw_rewrites(perturber, DIALOGUE, draws=3, seed=4)]
    assert words != [r.word + r.target for r in draw_rewrites(perturber, DIALOGUE, draws=9, seed=5)]


def test_draws_cover_all_candidates() -> None:
    drawn = {(r.word, r.target) for r in draw_rewrites(load_axis("gender"), DIALOGUE, draws=100)}
    assert len(drawn) == 6


def test_draws_come_from_the_words_of_all_turns() -> None:
    turns = [Turn(f"My {word} wants a table.", response="Done.") for word in ("mum", "sister", "table")]
    drawn = draw_rewrites(load_axis("gender"), Dialogue("d", "", tuple(turns)), draws=60)
    assert {rewrite.word for rewrite in drawn} == {"mum", "sister"}


def test_sources_and_targets_restrict_the_candidates() -> None:
    assert {c.target for c in load_axis("gender", targets=["male"]).candidates(DIALOGUE)} == {"man"}
    assert load_axis("gender", sources=["man"]).candidates(DIALOGUE) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda: load_axis("gender", targets=["boy"]),
        lambda: load_axis("gender", scope="turn"),
        lambda: draw_rewrites(load_axis("gender"), DIALOGUE, draws=0),
        lambda: load_axis("gender").rewrite(DIALOGUE, Candidate("wife", "woman", "man")),
        lambda: load_axis("gender").rewrite(DIALOGUE, Candidate("mom", "woman", "man", "uncle")),
    ],
)
def test_what_an_axis_does_not_have_is_refused(call) -> None:
    with pytest.raises(AxisError):
        call()


def test_signature_names_the_lexicon_by_content_and_the_choices() -> None:
    options = ({}, {"targets": ["man"]}, {"scope": "word"})
    signatures = [*(load_axis("gender", **part).signature for part in options), load_axis("age").signature]
    assert len(set(signatures)) == 4
    assert load_axis("gender").signature == signatures[0]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("white", "Italian, French or American"),
        ("hispanic", "Hispanic, Cuban or American"),
        ("native-american", "Native American, Cherokee or American"),
    ],
)
def test_two_origins_become_two_origins_and_back(target: str, expected: str) -> None:
    call = {"api_name": "Find", "cuisine": "Indian"}
    original = Dialogue("d", "", (Turn.with_call("Indian, Chinese or American?", call, {}, "Chinese and Indian."),))
    rewrite = load_axis("race").rewrite(original, Candidate("indian", "asian", target))
    twin = rewrite(original)
    first, second = expected.split(" or ")[0].split(", ")
    assert (twin.turns[0].user, twin.turns[0].response) == (f"{expected}?", f"{second} and {first}.")
    assert twin.turns[0].api_call["cuisine"] == first
    assert rewrite.inverse(twin) == original
    assert rewrite.inverse(f"I like {first} food and {second} food.") == "I like Indian food and Chinese food."


def test_where_no_other_form_is_left_the_first_is_written(tmp_path: Path) -> None:
    path = tmp_path / "pets.tsv"
    path.write_text("@distinct\npos\tcat\tdog\nadj\tpersian, siamese, manx\tbeagle, boxer\n", "utf-8")
    original = Dialogue("d", "", (Turn("siamese, manx, persian, siamese, boxer"),))
    twin = load_axis("pets", lexicon=path).rewrite(original, Candidate("manx", "cat", "dog"))(original)
    assert twin.turns[0].user == "beagle, beagle, beagle, beagle, boxer"
