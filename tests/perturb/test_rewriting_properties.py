"""What holds for every text: the inverse, bytes elsewhere, protected phrases and names."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.sampling import sample
from tod_bias.perturb import Candidate, draw_rewrites, load_axis, perturb_text
from tod_bias.perturb import axes as shipped_axes
from tod_bias.perturb.lexicon import axes, load_lexicon

FORMS = sorted({form for axis in axes() for _, _, form in load_lexicon(axis).forms()})
FILLER = ["the", "a", "an", "is", "wants", "I", "to", ",", ".", "'s", "’s", "?", "-", "Lee", "of", "table", "\n", "  "]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(FORMS), st.sampled_from(FORMS).map(str.title), st.sampled_from(FILLER), st.text(max_size=4)
    ),
    max_size=14,
).map(" ".join)
PAIRS = [(axis, *pair) for axis in axes() for pair in permutations(load_lexicon(axis).groups, 2)]


@settings(max_examples=100, deadline=None)
@given(text=TEXTS, pair=st.sampled_from(PAIRS))
def test_any_text_can_be_rewritten_and_keeps_its_lines(text: str, pair: tuple[str, str, str]) -> None:
    assert perturb_text(text, *pair).count("\n") == text.count("\n")


@given(text=st.text(alphabet=st.characters(exclude_categories=["L"]), max_size=60), pair=st.sampled_from(PAIRS))
def test_a_text_without_letters_stays(text: str, pair: tuple[str, str, str]) -> None:
    assert perturb_text(text, *pair) == text


@pytest.mark.parametrize("blank", [" ", "  ", "\t", "\n", "\u00a0", "\r\n"])
def test_blanks_and_all_other_bytes_stay(blank: str) -> None:
    text = f"Ünïcode{blank}\U0001f600{blank}my mom{blank}İstanbul{blank}— “her” café{blank}"
    expected = text.replace("mom", "dad").replace("her", "him")
    assert perturb_text(text, "gender", "woman", "man") == expected


@pytest.mark.parametrize("sentence", ["A woman's car. ", "Her sister and an aunt. ", "Both women' bags. "])
def test_a_long_text_is_rewritten_as_its_sentences_are(sentence: str) -> None:
    assert (
        perturb_text(sentence * 3000, "gender", "woman", "man")
        == perturb_text(sentence, "gender", "woman", "man") * 3000
    )


def test_a_word_is_found_at_the_start_and_at_the_end_and_alone() -> None:
    assert perturb_text("mom", "gender", "woman", "man") == "dad"
    assert perturb_text("Mom called my mom", "gender", "woman", "man") == "Dad called my dad"


def test_a_protected_phrase_stays_whatever_its_capitals() -> None:
    text = "The happy wife salon, not my wife."
    assert perturb_text(text, "gender", "woman", "man", protected=["Happy Wife"]) == text.replace(
        "my wife", "my husband"
    )


@pytest.mark.parametrize("name", ["Old Kid Grill", "Queen", "She Said So", "The Lady & The Fox"])
def test_a_name_from_a_result_stays_in_every_string(name: str) -> None:
    dialogue = Dialogue(
        "d",
        "",
        (
            Turn.with_call(
                f"My wife likes {name}.", {"name": name}, {"restaurant_name": name, "city": "Napa"}, f"Is {name} hers?"
            ),
            Turn("My kids and an elderly man agree."),
        ),
    )
    for axis in ("gender", "age"):
        for rewrite in draw_rewrites(load_axis(axis), dialogue, draws=9):
            twin = rewrite(dialogue)
            assert name in twin.turns[0].user
            assert name in twin.turns[0].response
            assert twin.turns[0].api_result == dialogue.turns[0].api_result


def test_a_demographic_slot_value_changes_with_the_text() -> None:
    turn = Turn.with_call(
        "A female dentist.", {"gender": "Female", "city": "Napa"}, {"gender": "Female"}, "A female one it is."
    )
    perturber = load_axis("gender", targets=["man"])
    (rewrite,) = draw_rewrites(perturber, Dialogue("d", "", (turn,)), draws=1)
    assert rewrite(turn) == Turn.with_call(
        "A male dentist.", {"gender": "Male", "city": "Napa"}, {"gender": "Male"}, "A male one it is."
    )


class TestInverseOnUnseenText:
    DIALOGUE = Dialogue(
        "d", "", (Turn.with_call("A table for my mum and my brother.", {}, {}, "She and he will like it."),)
    )

    def inverse(self, text: str, target: str = "man", source: str = "woman", word: str = "mum") -> str:
        perturber = load_axis("gender")
        return perturber.rewrite(self.DIALOGUE, Candidate(word, source, target)).inverse(text)

    def test_a_word_that_t_introduced_is_turned_back_to_the_very_word_it_came_from(self) -> None:
        assert self.inverse("Your dad?") == "Your mum?"

    def test_a_word_that_t_did_not_introduce_stays(self) -> None:
        assert self.inverse("Your uncle is an actor.") == "Your uncle is an actor."

    def test_a_word_that_the_original_held_too_stays(self) -> None:
        assert self.inverse("he said; your brother") == "he said; your brother"

    def test_they_is_turned_back_only_where_t_introduced_it(self) -> None:
        assert self.inverse("They want it.", target="non-binary") == "She wants it."
        assert self.inverse("The restaurants? They are full.", target="non-binary") == "The restaurants? They are full."
        assert self.inverse("I will call them.", target="non-binary") == "I will call her."


@pytest.mark.parametrize("phrase", ["an old senior", "an elderly senior citizen", "a young teenager", "a young kid"])
def test_an_adjective_that_repeats_its_noun_is_rewritten_with_it_and_comes_back(phrase: str) -> None:
    dialogue = Dialogue("d", "", (Turn(f"A ticket for {phrase}, please.", response=f"For {phrase}: done."),))
    perturber = load_axis("age")
    for _, candidates in perturber.select([dialogue], variants=12):
        for rewrite in (perturber.rewrite(dialogue, candidate) for candidate in candidates):
            twin = rewrite(dialogue)
            said = twin.turns[0].user.removeprefix("A ticket for ").removesuffix(", please.")
            assert len(set(said.split())) == len(said.split()), said
            assert rewrite.inverse(twin) == dialogue
            assert rewrite.inverse(f"Is it {said}?") == f"Is it {phrase}?"


SHIPPED = [axis for axis in shipped_axes() if not axis.startswith("persona_")]
PROJECTS = Path(__file__).parents[2] / "projects"
LEAST = {
    "names_gender": {"google_sgd": 60, "star": 1250, "tau_bench": 160},
    "names_race": {"google_sgd": 40, "star": 870, "tau_bench": 85},
}
"""How many dialogues of all splits name somebody, at least; of STAR every third."""


@pytest.fixture(scope="module")
def real_dialogues(sgd_datapath: Path, star: Path, tau_bench: Path) -> dict[str, list[Dialogue]]:
    """Google SGD's dev split, a third of STAR and all of τ-bench."""

    def all_of(corpus: str, folder: Path) -> list[Dialogue]:
        splits = ("train", "valid", "test")
        readers = PROJECTS / ("step_by_step" if corpus.startswith("star") else "tau_bench")
        return [one for split in splits for one in load_corpus(corpus, datapath=folder, split=split, folder=readers)]

    return {
        "google_sgd": load_corpus("google_sgd", datapath=sgd_datapath, split="valid"),
        "star": all_of("star:read_star", star.parent)[::3],
        "tau_bench": all_of("tau_bench:read_tau_bench", tau_bench.parent),
    }


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize("axis", SHIPPED)
def test_every_string_of_real_dialogues_comes_back(axis: str, real_dialogues: dict[str, list[Dialogue]]) -> None:
    counts = {}
    perturber = load_axis(axis)
    variants = 12 if axis in axes() else 1  # of the terms that are dealt
    for corpus, dialogues in real_dialogues.items():
        selected = perturber.select(dialogues if axis in LEAST else sample(dialogues, 200), variants=variants)
        counts[corpus] = len(selected)
        assert corpus != "google_sgd" or len(dialogues) == 2098
        for dialogue, candidate in ((dialogue, one) for dialogue, some in selected for one in some):
            rewrite = perturber.rewrite(dialogue, candidate)
            twin = rewrite(dialogue)
            assert rewrite.inverse(twin) == dialogue != twin
            for turn in dialogue.turns:
                assert all(rewrite.inverse(rewrite(text)) == text for _, text in (*turn.utterances, *turn.values))
    assert sum(counts.values()) > 0 or axis == "race_people"  # no user of these corpora says their race
    assert all(counts[corpus] >= least for corpus, least in LEAST.get(axis, {}).items()), counts
