"""The matched placebo: as many words as another rewrite changes, none of them demographic, in good English."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.errors import AxisError
from tod_bias.perturb import draw_rewrites, load_axis
from tod_bias.perturb.lexicon import axes, load_lexicon, read_lexicon
from tod_bias.perturb.placebo import NEUTRAL, MatchedPlacebo, per_million, shipped_frequencies
from tod_bias.perturb.rewrite import DialogueRewrite, changed_tokens, tokens
from tod_bias.perturb.rewriter import TextRewriter

LEXICON = read_lexicon(NEUTRAL)
MATCHED = MatchedPlacebo()
GENDER, AGE = load_axis("gender"), load_axis("age")


def placebo_of(matched, dialogue, rewrites, seed):
    """The matched rewrite, or None."""
    found = matched.match(dialogue, rewrites, seed)
    return None if found is None else found[0]


def forms(lexicon):
    return {tokens(form) for _, _, form in lexicon.forms()}


def replacing(**words):
    """A rewrite of single words, as another axis would make it."""

    def forward(text):
        return " ".join(words.get(word, word) for word in text.split(" "))

    return DialogueRewrite("own", "a", "b", "", forward, forward)


def talk(*said, name="d", **turn):
    return Dialogue(name, "", tuple(Turn(user, response=response, **turn) for user, response in said))


TALK = talk(
    ("Hi, I need a restaurant for my wife, please find one near the park.", "I found 3. Is my wife hungry?"),
    ("Can you book a table? Thanks.", "Sure, what about a movie for your wife? Unfortunately, it's sold out."),
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I want a restaurant.", "I'd like an eatery."),
        ("Restaurants near me", "Eateries close to me"),
        ("THAT'S CORRECT", "THAT IS RIGHT"),
        ("That’s correct.", "That is right."),
        ("an apartment's price range", "a flat's price range"),
        ("I'm looking for a film.", "I am searching for a movie."),
        ("What type of ride is it? What kind of music?", "What kind of ride is it? What type of music?"),
        ("Is that right? I'm on the right.", "Is that correct? I am on the right."),
        ("Please confirm: Cab for 2. Do you confirm?", "Kindly verify: Taxi for 2. Do you confirm?"),
        ("Could you help me? Thanks for your help.", "Can you help me? Thank you for your assistance."),
        ("It starts at 7, starting time 6 pm.", "It begins at 7, starting time 6 pm."),
        ("Don't you like it? I don't.", "Don't you like it? I do not."),
        ("What I want to see", "What I want to see"),
        ("It's been fun in Great Falls.", "It's been fun in Great Falls."),
        ("There's a great deal at the Movie Palace.", "There is a great deal at the Movie Palace."),
        ("I will leave it in the taxi cab.", "I will leave it in the taxi cab."),
        ("I'm sorry to hear that, sorry!", "I am sorry to hear that, apologies!"),
    ],
)
def test_every_row_at_once_is_english(old, new):
    assert TextRewriter(LEXICON, "original", "placebo")(old) == new


@pytest.mark.parametrize(
    ("old", "made", "expected"),
    [
        ("her sister", "his brother", 2),
        ("Thanks", "Thank you", 2),
        ("A man, a plan", "A woman, a plan", 1),
        ("an aunt", "a uncle", 2),
        ("same", "same", 0),
        ("grandma's well-known", "grandpa's well-known", 1),
    ],
)
def test_changed_tokens_by_hand(old, made, expected):
    step = Step({"api_name": "x", "who": [old, 3], "what": "else"}, ({"a": old}, {"a": old}))
    dialogue = Dialogue("d", "", (Turn(old, steps=[step], response="else"),))
    rewrite = DialogueRewrite("a", "b", "c", "d", lambda text: made if text == old else text, str)
    assert changed_tokens(dialogue, rewrite) == 4 * expected


def demographic():
    for axis in axes():
        if axis != "placebo":
            yield axis, forms(load_lexicon(axis))


def test_no_term_is_demographic():
    function_words = {"very", "the", "of", "in", "they", "great"}
    for axis, words in demographic():
        assert not forms(LEXICON) & words, axis
        parts = {part for form in words for part in form}
        assert {part for form in forms(LEXICON) for part in form} & parts <= function_words, axis


def test_the_lexicon_is_large_and_measured():
    assert len(LEXICON.paradigms) >= 60
    assert LEXICON.groups == ("original", "placebo")
    known = shipped_frequencies()
    for paradigm in LEXICON.paradigms:
        said = [" ".join(tokens(form.text)) for forms in paradigm.cells["original"] for form in forms]
        assert max(known.get(form, 0.0) for form in said) > 1
    assert "neutral" not in axes()


@pytest.mark.parametrize("dose", [1, 2, 3, 5, 8])
def test_the_dose_is_met(dose):
    dialogue = talk(("wife " * dose, "no"), *((turn.user, turn.response) for turn in TALK.turns))
    other = replacing(wife="spouse")
    dose = changed_tokens(dialogue, other)
    placebo = placebo_of(MATCHED, dialogue, [other], 0)
    assert changed_tokens(dialogue, placebo) == dose
    assert (placebo.axis, placebo.source, placebo.target) == ("placebo", "original", "placebo")
    assert placebo.word in {forms[0].text.lower() for row in LEXICON.paradigms for forms in row.cells["original"]}


def test_a_rewrite_that_changes_nothing_is_matched_by_as_little_as_can_be():
    assert changed_tokens(TALK, placebo_of(MATCHED, TALK, [replacing()], 0)) == 1


def test_several_rewrites_ask_for_their_mean():
    few, many = replacing(wife="wifeX"), replacing(wife="spouseX", park="gardenX", table="deskX", hungry="sadX")
    doses = [changed_tokens(TALK, rewrite) for rewrite in (few, many)]
    assert changed_tokens(TALK, placebo_of(MATCHED, TALK, [few, many], 0)) in (sum(doses) // 2, -(-sum(doses) // 2))


def test_a_dose_beyond_the_dialogue_takes_all_there_is():
    dialogue = talk(("Hi", " ".join(["man"] * 50)))
    assert changed_tokens(dialogue, placebo_of(MATCHED, dialogue, [replacing(man="men")], 0)) == 1


def test_the_seed_and_the_id_choose_and_nothing_else():
    other = [replacing(wife="husband")]
    dialogue = talk(("A cab for my wife, please, at a good rating.", "Perfect. Bye. Perhaps until noon?"))
    chosen = {}
    for seed in range(12):
        placebo = placebo_of(MatchedPlacebo(), dialogue, other, seed)
        assert placebo(dialogue) == placebo_of(MATCHED, dialogue, other, seed)(dialogue)
        chosen[placebo.word] = seed
    assert len(chosen) > 1
    renamed = {placebo_of(MATCHED, Dialogue(f"d{n}", "", dialogue.turns), other, 0).word for n in range(12)}
    assert len(renamed) > 1


def test_two_axes_with_one_dose_share_one_rewrite():
    first = placebo_of(MATCHED, TALK, [replacing(wife="husband")], 3)
    assert placebo_of(MATCHED, TALK, [replacing(wife="woman")], 3) is first


def test_without_a_neutral_term_there_is_none():
    assert placebo_of(MATCHED, talk(("My wife", "his husband")), [replacing(wife="husband")], 0) is None
    with pytest.raises(ValueError, match="no rewrite to match"):
        placebo_of(MATCHED, TALK, [], 0)


def test_a_term_that_the_other_rewrite_exchanges_stays():
    dialogue = talk(("A movie, please.", "Which film?"))
    assert placebo_of(MATCHED, dialogue, [replacing(**{"movie,": "film,", "film?": "movie?"})], 0) is None
    assert placebo_of(MATCHED, dialogue, [replacing(A="One")], 0).word in ("movie", "film")


def test_names_in_calls_and_results_stay_everywhere():
    step = Step(
        {"api_name": "Find", "movie_name": "The Great Movie"}, ({"movie_name": "Movie Night", "kind": "movie"},)
    )
    dialogue = Dialogue("d", "", (Turn("the great movie, a movie", steps=[step], response="Movie Night is a movie."),))
    made = placebo_of(MATCHED, dialogue, [replacing(a="one"), replacing(a="two", the="a", is_="was")], 0)(dialogue)
    (turn,) = made.turns
    assert turn.user == "the great movie, a film"
    assert turn.response == "Movie Night is a film."
    assert turn.steps[0].call["movie_name"] == "The Great Movie"
    assert turn.steps[0].results == ({"movie_name": "Movie Night", "kind": "film"},)


def pairs(dialogues, draws=2):
    for dialogue in dialogues:
        for perturber in (GENDER, AGE):
            if rewrites := draw_rewrites(perturber, dialogue, draws):
                yield dialogue, rewrites


def test_demo_dialogues_get_a_placebo_of_their_dose_that_can_be_undone():
    near = total = 0
    for dialogue, rewrites in pairs(load_corpus("demo")):
        wanted = sum(changed_tokens(dialogue, rewrite) for rewrite in rewrites) / len(rewrites)
        total += 1
        placebo = placebo_of(MATCHED, dialogue, rewrites, 0)
        if placebo is None:  # it says no neutral word
            continue
        made = placebo(dialogue)
        assert placebo.inverse(made) == dialogue
        assert made != dialogue
        for before, after in zip(dialogue.turns, made.turns, strict=True):
            for (_, old), (_, new) in zip(before.utterances, after.utterances, strict=True):
                assert placebo.inverse(new) == old
        near += abs(changed_tokens(dialogue, placebo) - wanted) <= max(1, 0.2 * wanted)
    assert near / total >= 0.95


FORMS = sorted({" ".join(form) for form in forms(LEXICON)})
FILLER = ["the", "a", "an", "is", "I", "you", "to", ",", ".", "?", "my", "for", "-", "me", "it", "Lee", "\n"]
WORDS = st.sampled_from([*FORMS, *map(str.capitalize, FORMS)]) | st.sampled_from(FILLER)
TEXTS = st.lists(WORDS, min_size=1, max_size=10).map(" ".join)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3), st.integers(1, 12), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_whatever_is_said_can_be_undone(said, wanted, seed):
    dialogue = talk(*said, (" ".join(["wife"] * wanted), "yes"))
    placebo = placebo_of(MATCHED, dialogue, [replacing(wife="wifeX")], seed)
    if placebo is not None:
        made = placebo(dialogue)
        assert placebo.inverse(made) == dialogue
        assert placebo(placebo.inverse(made)) == made


@pytest.mark.real_data
def test_sgd_dialogues_get_a_placebo_of_their_dose(sgd_datapath):
    dialogues = load_corpus("google_sgd", datapath=sgd_datapath, split="valid")
    found = []
    for dialogue, rewrites in pairs(random.Random(0).sample(dialogues, 600)):
        wanted = sum(changed_tokens(dialogue, rewrite) for rewrite in rewrites) / len(rewrites)
        placebo = placebo_of(MATCHED, dialogue, rewrites, 0)
        found.append(placebo is not None and abs(changed_tokens(dialogue, placebo) - wanted) <= max(1, 0.2 * wanted))
    assert len(found) > 20
    assert sum(found) / len(found) >= 0.95


def test_counts_are_per_million_terms_of_terms_and_phrases():
    found = per_million(["Look for it; it's it", "Look FOR, looking"], ["it", "look for", "it's", "never"])
    assert found == pytest.approx({word: 1e6 * n / 8 for word, n in (
        ("look", 2), ("for", 2), ("it", 2), ("it's", 1), ("looking", 1), ("look for", 2))})  # fmt: skip


def test_terms_of_ones_own(tmp_path):
    own = tmp_path / "own.tsv"
    own.write_text("pos\toriginal\tplacebo\nnoun\tpark\tgarden\n")
    assert placebo_of(MatchedPlacebo(own), TALK, [replacing(wife="husband")], 0).word == "park"
    assert MATCHED.signature == MatchedPlacebo().signature != MatchedPlacebo(own).signature
    own.write_text("pos\tfirst\tsecond\nnoun\tpark\tgarden\n")
    with pytest.raises(AxisError, match="has no group 'original'"):
        MatchedPlacebo(own)


def test_a_common_term_is_one_of_the_corpus_itself():
    """What the corpus hardly says, its system hardly knows: it is taken where there is nothing else, and only there."""
    both = talk(("Any movie or any trip with my wife or my husband?", ""))
    one = talk(("Any movie with my wife or my husband?", ""))
    wife = [replacing(wife="husband")]
    said = ["my wife and my husband", "a movie", "a trip"] * 400
    for known, chosen in (("film", "movie"), ("journey", "trip")):
        matched = MatchedPlacebo(spoken=[*said, *[f"a {known}"] * 400])
        assert {placebo_of(matched, both, wife, seed).word for seed in range(8)} == {chosen}
        assert placebo_of(matched, one, wife, 0).word == "movie"


def test_terms_that_a_small_corpus_never_says_are_not_rare_for_that():
    """Sixty short chats hold hardly any word twice, and neither "search for" nor "could you"."""
    chats = [
        talk((f"Please look for a nice room in {town} for my wife, can you?", "It costs ninety euros."))
        for town in ("Porto", "Prague", "Bergen", "Ghent", "Leeds", "Turin") * 10
    ]
    matched = MatchedPlacebo(spoken=(text for chat in chats for turn in chat.turns for _, text in turn.utterances))
    made = [placebo_of(matched, chat, [replacing(wife="husband")], 0) for chat in chats]
    assert all(made)
    assert {placebo.word for placebo in made} <= {"look for", "nice", "can you"}


def test_the_edits_that_were_wanted_and_made_come_with_the_placebo():
    dialogue = talk(("A movie with my wife and her sister", ""))
    _, edits = MATCHED.match(dialogue, [replacing(wife="husband"), replacing(my="his", wife="x")], 0)
    assert edits == (1.5, 1)


def test_the_signature_is_the_same_in_every_process():
    command = [sys.executable, "-c", "from tod_bias.perturb.placebo import MatchedPlacebo as M; print(M().signature)"]
    environments = ({**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2"))
    signatures = {subprocess.check_output(command, env=environment, text=True) for environment in environments}
    assert signatures == {f"{MATCHED.signature}\n"}
