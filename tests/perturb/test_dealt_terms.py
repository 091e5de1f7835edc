"""Which of several terms of a group is written: dealt out evenly, and the same for the same candidate."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.perturb import Candidate, load_axis, perturb_text
from tod_bias.perturb.lexicon import axes
from tod_bias.perturb.records import CounterfactualRecord

CASES = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "dealt_cases.tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
AXES = {axis: load_axis(axis) for axis in axes()}
KIDS = next(
    row for row in AXES["age"].lexicon.paradigms if row.pos == "noun" and "little one" in row.choices.get("child", ())
)
FORMS = sorted({form for axis in AXES.values() for _, _, form in axis.lexicon.forms()})


def talk(*users, number=0):
    return Dialogue(f"d{number}", "", tuple(Turn(user) for user in users))


def dealt(axis, dialogues, **options):
    return [candidate for _, some in load_axis(axis).select(dialogues, **options) for candidate in some]


@pytest.mark.parametrize(("axis", "term", "source", "target", "form", "text", "expected"), CASES)
def test_the_dealt_term_stands_where_the_old_one_stood(axis, term, source, target, form, text, expected):
    dialogue = talk(text)
    candidate = Candidate(term, source, target, form)
    rewrite = AXES[axis].rewrite(dialogue, candidate)
    assert rewrite(text) == expected
    assert rewrite.inverse(rewrite(dialogue)) == dialogue
    assert AXES[axis].labels(candidate)[1] == form


def test_every_term_of_a_cell_is_dealt_equally_often():
    dialogues = [talk("Is it good for kids?", number=number) for number in range(140)]
    for target, cell in KIDS.choices.items():
        if target != "child":
            counts = Counter(one.form for one in dealt("age", dialogues) if one.target == target)
            assert counts.keys() == cell.keys()
            assert max(counts.values()) - min(counts.values()) <= 1


def test_draws_are_dealt_evenly_too():
    dialogues = [talk("Is it good for kids?", number=number) for number in range(200)]
    for target in ("young", "middle-aged", "senior", "adult"):
        counts = Counter(one.form for one in dealt("age", dialogues, draws=1) if one.target == target)
        assert max(counts.values()) - min(counts.values()) <= 1


def test_terms_of_two_groups_meet_by_chance():
    dialogues = [talk("A show for white families.", number=number) for number in range(400)]
    selected = load_axis("race_people").select(dialogues)
    met = Counter(pair for _, some in selected for pair in combinations(sorted(one.form for one in some), 2))
    assert max(met.values()) < 2 * 400 / 16


def test_a_dialogue_has_one_term_for_one_paradigm_and_every_paradigm_its_own():
    for number in range(12):
        dialogue = talk("A kid is here.", "Which child?", "The kids and my kids.", number=number)
        rewrite = next(iter(load_axis("age").rewrites_of(load_axis("age").select([dialogue]))))[0]
        said = [turn.user for turn in rewrite(dialogue).turns]
        (term,) = {said[0].split(" ", 1)[1].removesuffix(" is here."), said[1].split(" ", 1)[1].removesuffix("?")}
        assert rewrite.target == "young"
        assert term in KIDS.choices["young"]
    others = Counter(one.other_forms for one in dealt("age", [talk("A kid and my kids.", number=n) for n in range(64)]))
    assert len(others) >= 12


def test_dealing_is_the_same_for_the_same_seed_and_rewriting_does_not_depend_on_its_order():
    dialogues = list(load_corpus("demo", max_dialogues=60))
    selected = load_axis("age").select(dialogues, seed=3)
    assert selected == load_axis("age").select(dialogues, seed=3) != load_axis("age").select(dialogues, seed=4)
    axis, again = load_axis("age"), load_axis("age")
    images = [axis.rewrite(dialogue, one)(dialogue) for dialogue, some in selected for one in some]
    backwards = [
        again.rewrite(dialogue, pickle.loads(pickle.dumps(one)))(dialogue)
        for dialogue, some in reversed(selected)
        for one in reversed(some)
    ]
    assert images == backwards[::-1]
    for dialogue, some in selected:
        record = CounterfactualRecord.from_json(CounterfactualRecord(dialogue, some[0]).to_json())
        assert record.candidate == some[0]


def test_further_variants_for_a_group_get_further_terms_as_long_as_there_are_any():
    ((_, some),) = load_axis("age").select([talk("Is it good for kids?")], variants=12)
    assert Counter(one.target for one in some) == dict.fromkeys(("young", "middle-aged", "senior", "adult"), 3)
    assert len({(one.target, one.form) for one in some}) == 12
    ((_, every),) = load_axis("gender").select([talk("My wife is here.")], variants=9)
    assert {one.form for one in every} == {"husband", "spouse"}  # one term each
    assert len(every) == 2


def test_a_term_that_the_dialogue_holds_is_not_dealt():
    dialogues = [talk("Kids, a senior and an elder.", "Kids!", number=number) for number in range(40)]
    forms = {one.form for one in dealt("age", dialogues) if one.target == "senior"}
    assert forms == set(KIDS.choices["senior"]) - {"senior", "elder"}


def test_adjectives_that_are_different_things_stay_different_from_the_dealt_one_on():
    dialogues = [talk("Indian or Chinese food?", number=number) for number in range(35)]
    axis = load_axis("race")
    first = Counter()
    for dialogue, some in axis.select(dialogues):
        for candidate in some:
            said = (
                axis.rewrite(dialogue, candidate)(dialogue).turns[0].user.removesuffix(" food?").lower().split(" or ")
            )
            assert len(set(said)) == 2
            assert candidate.form in said
            if candidate.target == "white":
                first[candidate.form] += 1
    assert set(first.values()) == {5}


def test_plain_text_gets_the_first_term_of_a_cell():
    assert {perturb_text("The kids.", "age", "child", "senior") for _ in range(3)} == {"The seniors."}


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from([*FORMS, "my", "a", "the", "'s", "food", "."]), max_size=8), max_size=3),
    axis=st.sampled_from(sorted(AXES)),
)
def test_every_string_comes_back_from_every_term(texts, axis):
    dialogue = talk(*map(" ".join, texts))
    for _, candidates in AXES[axis].select([dialogue], variants=24):
        for candidate in candidates:
            rewrite = AXES[axis].rewrite(dialogue, candidate)
            twin = rewrite(dialogue)
            assert rewrite.inverse(twin) == dialogue
            assert all(rewrite.inverse(rewrite(turn.user)) == turn.user for turn in dialogue.turns)
