"""People who are named: who they are, who is selected under which name, and what holds of every rewrite."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.errors import AxisError
from tod_bias.perturb import axes, load_axis, perturb_text
from tod_bias.perturb.axis import Axis, Candidate
from tod_bias.perturb.names import dealt
from tod_bias.perturb.names.axis import NamesAxis
from tod_bias.perturb.names.people import people
from tod_bias.perturb.names.places import under_other_names
from tod_bias.perturb.names.resources import by_first, by_last
from tod_bias.perturb.placebo import PLACEBO


def said(*texts: str, number: int = 0, **slots: str) -> Dialogue:
    turns = tuple(
        Turn.with_call(text, {"api_name": "find"} if slots and not place else {}, dict(slots) if not place else {})
        for place, text in enumerate(texts)
    )
    return Dialogue(f"d{number}", "", turns)


def named(dialogue: Dialogue) -> list[str]:
    return [f"{person.first} {person.last}".strip() + "*" * person.user for person in people(dialogue)]


@pytest.mark.parametrize(
    ("dialogue", "expected"),
    [
        (said("my name is angela brown"), ["Angela Brown*"]),
        (said("Hi", CustomerName="john", GuestName="Fred, Ben and Angela"), ["John*", "Fred", "Ben", "Angela"]),
        (said("A table.", restaurant_name="Emily", song="Billie Jean"), []),
        (said("I am mia_li_3668"), ["Mia Li*"]),
        (said("Two seats.", first_name="Mia", last_name="Li", email="mia.li3818@example.com"), ["Mia Li*"]),
        (said("Hi, this is Angela.", "Angela Brown", CustomerName="angela"), ["Angela Brown*"]),
        (said("my name is Zorblax Quux"), ["Zorblax Quux*"]),
        (said("The event name is Ben Harper", event_name="Ben Harper"), []),
        (said("I need a ride to the Angela Hotel."), []),
        (said("Will you mark it as paid?"), []),
    ],
)
def test_who_is_named(dialogue, expected):
    assert named(dialogue) == expected


def test_the_system_is_not_the_user_and_whom_it_addresses_is():
    dialogue = Dialogue("d", "", (Turn("Hello", response="Hello, I'm Carl. Thanks, Angela!"),))
    assert {person.first: person.user for person in people(dialogue)} == {"Carl": False, "Angela": True}


def test_names_at_any_depth_are_one_person():
    result = {
        "users": [{"name": {"first_name": "Omar", "last_name": "Rossi"}}, {"passengers": [{"first_name": "Ivan"}]}]
    }
    dialogue = Dialogue(
        "d", "", (Turn("hi", steps=(Step({"api_name": "get", "user_id": "omar_rossi_1241"}, (result,)),)),)
    )
    assert named(dialogue) == ["Omar Rossi*", "Ivan"]


def test_the_axes_are_known_and_take_no_lexicon():
    assert {"names_gender", "names_race"} <= set(axes())
    gender, race = load_axis("names_gender"), load_axis("names_race")
    assert (gender.groups, race.groups) == (("man", "woman"), ("white", "black", "hispanic", "asian"))
    assert isinstance(gender, Axis)
    for options in ({"lexicon": "x.tsv"}, {"scope": "word"}, {"sources": ["lady"]}):
        with pytest.raises(AxisError):
            load_axis("names_gender", **options)
    assert gender.signature != race.signature
    assert load_axis("names_gender", protected=["X"]).signature != gender.signature


def test_candidates_are_people_with_every_other_group():
    dialogue = said("my name is Angela Brown, and this is a book by Tom", "Angela again")
    assert load_axis("names_gender").candidates(dialogue) == [Candidate("angela", "woman", "man")]
    race = load_axis("names_race")
    assert race.candidates(dialogue) == [
        Candidate("angela brown", "white", target) for target in ("asian", "black", "hispanic")
    ]
    chosen = race.crossed(dialogue)
    assert [one.target for one in chosen] == ["black", "hispanic", "asian"]
    assert load_axis("names_race", targets=["black"]).candidates(dialogue) == [
        Candidate("angela brown", "white", "black")
    ]


def test_nobody_of_an_unknown_group_is_rewritten():
    assert load_axis("names_race").candidates(said("my name is Sophia")) == []
    assert load_axis("names_gender").candidates(said("my name is Zorblax Quux")) == []
    assert load_axis("names_gender").candidates(said("no name")) == []
    with pytest.raises(AxisError):
        load_axis("names_gender").rewrite(said("no name"), Candidate("ann", "woman", "man"))


def test_the_user_is_renamed_and_others_keep_their_names():
    dialogue = said("my name is Angela", "Emily, Emily, Emily", CustomerName="Angela", GuestName="Emily")
    perturber = load_axis("names_gender")
    assert {one.term for one in perturber.candidates(dialogue)} == {"angela", "emily"}
    assert [one.term for one in perturber.crossed(dialogue)] == ["angela"]
    ((_, (candidate,)),) = perturber.select([dialogue], seed=0)
    selected = perturber.rewrite(dialogue, candidate)(dialogue)
    assert selected.turns[1] == dialogue.turns[1]
    assert selected.turns[0].user == f"my name is {candidate.form}"
    assert selected.turns[0].api_result == {"CustomerName": candidate.form, "GuestName": "Emily"}


def test_what_the_axis_does_not_exchange_is_kept():
    dialogue = said("my name is Lakisha Gaines")
    gender, race = load_axis("names_gender"), load_axis("names_race")
    ((_, (man,)),) = gender.select([dialogue], seed=0)
    assert man.form in dealt("man", "black")
    ((_, candidates),) = race.select([dialogue], seed=0)
    for candidate in candidates:
        first, last = candidate.form.split()
        assert first in dealt("woman", candidate.target)
        assert race.rewrite(dialogue, candidate)("Lakisha Gaines") == f"{first} {last}"
    assert gender.rewrite(dialogue, man)("Lakisha Gaines") == f"{man.form} Gaines"


def test_a_race_that_is_unknown_is_drawn_once_for_all_variants():
    dialogues = [said("my name is Sophia", number=number) for number in range(40)]
    selected = load_axis("names_gender").select(dialogues, seed=1, variants=3)
    cells = {name: race for race in ("white", "black", "hispanic", "asian") for name in dealt("man", race)}
    drawn = [{cells[candidate.form] for candidate in candidates} for _, candidates in selected]
    assert all(len(races) == 1 for races in drawn)
    assert all(len({candidate.form for candidate in candidates}) == 3 for _, candidates in selected)
    assert len(set.union(*drawn)) == 4


def test_names_are_dealt_evenly_and_none_that_stands_there():
    dialogues = [said("my name is Emily", number=number) for number in range(40)]
    dialogues.append(said("my name is Emily and I know Darnell and Jamal", number=99))
    perturber = load_axis("names_race")
    selected = perturber.select(dialogues, seed=3)
    assert selected == perturber.select(dialogues, seed=3)
    assert selected != perturber.select(dialogues, seed=4)
    for target in ("black", "hispanic", "asian"):
        forms = Counter(one.form for _, some in selected[:40] for one in some if one.target == target)
        assert set(forms.values()) == {2}
    pairs = {pair for _, some in selected[:40] for pair in combinations([one.form for one in some], 2)}
    assert len(pairs) > 3 * 35  # of three pairs of groups in 40 dialogues: names meet by chance alone
    assert not {one.form for one in selected[-1][1]} & {"Darnell", "Jamal"}


def test_draws_are_with_replacement_and_variants_are_counted():
    perturber, dialogue = load_axis("names_race"), said("my name is Emily")
    ((_, drawn),) = perturber.select([dialogue], seed=0, draws=9)
    assert len(drawn) == 9
    assert len({one.form for one in drawn}) == 9
    ((_, two),) = perturber.select([dialogue], seed=0, variants=2)
    assert len(two) == 2
    assert perturber.select([said("no name")], seed=0) == []


def test_the_floor_is_another_name_of_the_same_group():
    perturber, dialogue = load_axis("names_gender"), said("my name is Emily", CustomerName="Emily")
    ((_, candidates),) = perturber.select([dialogue], seed=0)
    floor = perturber.placebo(dialogue, candidates, 0)
    assert (floor.source, floor.target, floor.word) == ("original", PLACEBO, "emily")
    name = floor(dialogue).turns[0].api_result["CustomerName"]
    assert name in dealt("woman", "white")
    assert floor(dialogue) == perturber.placebo(dialogue, candidates, 0)(dialogue)
    assert perturber.placebo(said("no name"), (), 0) is None


def test_a_name_is_a_cluster():
    perturber, dialogue = load_axis("names_race"), said("my name is Emily Meyer")
    candidate = Candidate("emily meyer", "white", "black", "Keisha Gaines")
    assert perturber.labels(candidate) == ("emily", "keisha")
    assert perturber.terms(dialogue, [candidate]) == [({"emily"}, {"keisha"}, ())]
    free = Candidate("emily meyer", "white", "black")
    made = str(perturber.rewrite(dialogue, free)("Emily"))
    assert perturber.labels(free) == ("emily", made.lower())


def test_both_factors_cross():
    perturber = NamesAxis("names", ("gender", "race"))
    assert perturber.groups[0] == "man×white"
    assert len(perturber.groups) == 8
    dialogue = said("my name is Lakisha")
    ((_, selected),) = perturber.select([dialogue], seed=0)
    assert {one.source for one in selected} == {"woman×black"}
    assert {one.target for one in selected} == set(perturber.groups) - {"woman×black"}
    assert all(one.form in dealt(*one.target.split("×")) for one in selected)


def test_mentions_say_who_names_whom():
    dialogue = Dialogue("d", "", (Turn("my name is Angela", response="Hi Angela, Angela?"), Turn("Tom too")))
    assert list(load_axis("names_gender").mentions(dialogue)) == [
        ("user", "woman"), ("system", "woman"), ("system", "woman"),
    ]  # fmt: skip


def test_strings_that_a_stage_makes_are_turned_back():
    perturber, dialogue = load_axis("names_race"), said("I'm Emily Meyer", "emily_meyer_1234")
    change = perturber.rewrite(dialogue, Candidate("emily meyer", "white", "black", "Keisha Gaines"))
    assert change.inverse("Welcome, KEISHA! Keisha Gaines's id is keisha_gaines_1234; dear keisha.") == (
        "Welcome, EMILY! Emily Meyer's id is emily_meyer_1234; dear emily."
    )
    assert change.inverse("Nobody here.") == "Nobody here."


def test_a_name_that_the_original_holds_is_not_turned_back():
    dialogue = said("my name is Emily, and Keisha comes too")
    change = load_axis("names_race").rewrite(dialogue, Candidate("emily", "white", "black", "Keisha"))
    assert change.inverse("See you, Keisha") == "See you, Keisha"
    assert change.inverse(change(dialogue)) == dialogue


@pytest.mark.parametrize("form", ["", "A B C"])
def test_a_form_is_a_name_or_nothing(form):
    perturber, dialogue = load_axis("names_gender"), said("my name is Emily")
    candidate = Candidate("emily", "woman", "man", form)
    if form:
        with pytest.raises(AxisError, match="'A B C' is not a name"):
            perturber.rewrite(dialogue, candidate)
    else:
        assert perturber.rewrite(dialogue, candidate)("Emily") in dealt("man", "white")


PIECES = st.sampled_from(
    ["Angela", "angela", "ANGELA", "Brown", "brown", "my name is", "Hi", ",", ".", "'s", "’s", "Mark", "will", "_12",
     "@x.com", "Restaurant", "Dr.", "and", "A.", "-", "\n", "angela_brown_1234", "angela.brown9@x.com", "Emily",
     "the", "  "]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(st.lists(PIECES, max_size=9).map(" ".join), min_size=1, max_size=4), axis=st.sampled_from(
    ["names_gender", "names_race"]), seed=st.integers(0, 9))  # fmt: skip
def test_the_inverse_of_a_renamed_dialogue_is_the_dialogue(texts, axis, seed):
    turns = (Turn.with_call(text, {"api_name": "f", "x": text}, {"CustomerName": text}) for text in texts)
    dialogue = Dialogue("d", "", tuple(turns))
    perturber = load_axis(axis)
    for selected, candidates in perturber.select([dialogue], seed=seed):
        for change in (
            perturber.placebo(selected, candidates, seed),
            *(perturber.rewrite(selected, one) for one in candidates),
        ):
            assert change.inverse(change(selected)) == selected
            assert [turn.user.count("\n") for turn in change(selected).turns] == [text.count("\n") for text in texts]


@given(text=st.text(max_size=60))
def test_any_text_is_read(text):
    assert isinstance(perturb_text(text, "names_gender", "woman", "man"), str)


def test_lines_of_text_find_names_by_themselves():
    made = perturb_text("Hi Angela, this is Emily Brown.", "names_gender", "woman", "man")
    first, second = made.removeprefix("Hi ").removesuffix(" Brown.").split(", this is ")
    assert {first, second} <= set(dealt("man"))
    assert first != second
    assert perturb_text("This is Angela's Restaurant", "names_gender", "woman", "man") == "This is Angela's Restaurant"
    assert perturb_text("my name is Mark", "names_gender", "woman", "man") == "my name is Mark"
    for pair in (("woman", "woman"), ("lady", "man")):
        with pytest.raises(AxisError):
            perturb_text("x", "names_gender", *pair)


def test_a_text_under_other_names_has_one_of_every_other_group():
    text = "Our server Brenda Kowalski was great, thanks JAMAL! Ask for Brenda at Brenda's Grill."
    texts = list(under_other_names(text))
    assert len(texts) == len(set(texts)) == 7  # Brenda is a white woman's name
    assert texts == list(under_other_names(text))
    groups = []
    for made in texts:
        first, last, shouted, again = re.fullmatch(
            r"Our server (\w+) (\w+) was great, thanks ([A-Z]+)! Ask for (\w+) at Brenda's Grill\.", made
        ).groups()
        assert first == again
        known, other = by_first()[first.lower()], by_first()[shouted.lower()]
        assert (known.gender, known.race) == (other.gender, other.race)
        assert by_last()[last.lower()].race == known.race
        groups.append((known.gender, known.race))
    assert ("woman", "white") not in groups
    assert len(set(groups)) == 7
    assert len(list(under_other_names("Thanks, Kayla!"))) in (7, 8)
    assert list(under_other_names("Good pho, and spring rolls.")) == []
