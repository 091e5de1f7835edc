"""Introductions: who says what, how it is exchanged, and what wrong sheets say."""

import re
from collections import Counter

import pytest

from tod_bias import Dialogue, Step, Turn
from tod_bias.errors import AxisError, LexiconError
from tod_bias.perturb import draw_rewrites, load_axis
from tod_bias.perturb.names.resources import RACES, dealt
from tod_bias.perturb.personas.axis import load_persona, persona_axes
from tod_bias.perturb.personas.introduction import main_term
from tod_bias.perturb.personas.parts import ENOUGH, load_parts, turns
from tod_bias.perturb.personas.sheet import FOLDER, Template, neutral_templates, read_sheet


def corpus(count=120):
    found = []
    for number in range(count):
        step = Step({"api_name": "find", "city": "Oslo"}, ({"n": number},))
        first = Turn("A room in Oslo, please.", steps=(step,), response="For when?")
        found.append(Dialogue(f"d{number}", "hotels", (first, Turn("For tomorrow.", response="It is booked."))))
    return found


def selected(axis, count=120, **options):
    perturber = load_axis(axis)
    return perturber, perturber.select(corpus(count), seed=0, **options)


def user(dialogue):
    return " ".join(str(turn.user) for turn in dialogue.turns)


# who is introduced as whom -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", persona_axes())
def test_every_dialogue_is_rewritten_for_every_group_and_nothing_but_the_introduction_differs(axis):
    perturber, arranged = selected(axis)
    assert [dialogue.id for dialogue, _ in arranged] == [f"d{number}" for number in range(120)]
    sources = Counter(dialogue.persona.group for dialogue, _ in arranged)
    assert set(sources) == set(perturber.groups)
    for dialogue, candidates in arranged:
        assert "A room in Oslo, please." in user(dialogue)
        rest = [turn.response for turn in dialogue.turns] + [turn.steps for turn in dialogue.turns]
        assert len({one.target for one in candidates}) == len(candidates) >= 1
        for candidate in candidates:
            rewrite = perturber.rewrite(dialogue, candidate)
            other = rewrite(dialogue)
            assert user(other) != user(dialogue)
            assert [turn.response for turn in other.turns] + [turn.steps for turn in other.turns] == rest
            assert rewrite.inverse(other) == dialogue
            assert candidate.form in user(other).lower()


def test_names_and_groups_take_turns():
    _, arranged = selected("persona_gender", 630)
    named = [dialogue for dialogue, _ in arranged if dialogue.persona.parts[0].template.kind == "name"]
    assert len(named) == 240
    for gender in ("man", "woman"):
        of_gender = [main_term(one.persona) for one in named if one.persona.group == gender]
        counts = Counter(of_gender)
        assert len(of_gender) == 120
        assert set(counts) <= {name.lower() for name in dealt(gender)}
        assert len(counts) >= 50  # of 80 names, each in its race by turns
        assert max(counts.values()) <= 5


def test_kinds_have_turns_by_the_number_of_their_terms():
    _, arranged = selected("persona_gender", 630)
    kinds = Counter(dialogue.persona.parts[0].template.kind for dialogue, _ in arranged)
    assert kinds == {"name": 240, "signature": 240, "statement": 120, "title": 15, "pronouns": 15}
    words = Counter(word for dialogue, _ in arranged for word in dialogue.persona.terms)
    assert max(words.values()) <= 30  # no word stands for its group


def test_nothing_that_takes_turns_falls_together():
    _, arranged = selected("persona_gender", 4032)
    seen = Counter()
    for dialogue, _ in arranged:
        persona = dialogue.persona
        seen[persona.parts[0].template.kind, persona.group, dialogue.fixed[1]] += 1
    for kind, total in (("title", 96 * 2 // 3), ("name", 16 * 96)):
        counts = [seen[kind, attribute, race] for attribute in ("man", "woman") for race in RACES]
        assert sum(counts) == total
        assert max(counts) - min(counts) <= 1


def test_two_names_hardly_meet_twice():
    perturber = load_axis("persona_gender", introductions=["name", "signature"])
    arranged = perturber.select(corpus(384), seed=0)
    pairs = {(main_term(dialogue.persona), candidates[0].form) for dialogue, candidates in arranged}
    assert len(pairs) > 300
    counts = Counter(main_term(dialogue.persona) for dialogue, _ in arranged)
    of_group = [counts[name.lower()] for name in dealt("woman", "black")]
    assert max(of_group) <= 10
    assert of_group.count(0) <= 3


def test_the_new_name_does_not_depend_on_what_the_axis_does_not_exchange():
    _, arranged = selected("persona_race")
    for dialogue, candidates in arranged:
        genders = set()
        for persona in (dialogue.persona, *(one.persona for one in candidates)):
            first = dict(persona.parts[0].values).get("first")
            genders |= {gender for gender in ("man", "woman") if first in dealt(gender)}
        assert len(genders) <= 1


def test_variants_set_the_cost_and_more_of_them_meet_more_names():
    perturber = load_axis("persona_gender", introductions=["name"])
    dialogues = corpus(60)
    for count in (1, 2, 5):
        arranged = perturber.select(dialogues, seed=0, variants=count)
        assert all(len(candidates) == count for _, candidates in arranged)
        forms = {one.form for dialogue, candidates in arranged for one in candidates}
        assert len(forms) >= 40
    first, second = (perturber.select(dialogues, seed=seed, variants=1) for seed in (0, 1))
    assert [user(one) for one, _ in first] != [user(one) for one, _ in second]
    assert [user(one) for one, _ in first] == [user(one) for one, _ in perturber.select(dialogues, seed=0, variants=1)]


@pytest.mark.parametrize(("axis", "count"), [("persona_race", 2), ("persona_race", 1), ("persona_religion", 2)])
def test_fewer_variants_are_dealt_to_every_kind_and_group(axis, count):
    _, arranged = selected(axis, 960, variants=count)
    dealt_out = Counter(
        (dialogue.persona.parts[0].template.kind, one.target) for dialogue, candidates in arranged for one in candidates
    )
    for kind in {kind for kind, _ in dealt_out}:
        counts = [number for (other, _), number in dealt_out.items() if other == kind]
        assert min(counts) >= 0.6 * max(counts), kind
    if axis == "persona_race":
        assert {target for kind, target in dealt_out if kind == "statement"} == set(load_axis(axis).groups)


def test_a_floor_is_somebody_else_of_the_same_group():
    for axis in persona_axes():
        perturber, arranged = selected(axis, 60)
        for dialogue, candidates in arranged:
            rewrite = perturber.placebo(dialogue, candidates, 0)
            other = rewrite(dialogue)
            assert user(other) != user(dialogue)
            assert (rewrite.source, rewrite.target) == ("original", "placebo")
            assert rewrite.inverse(other) == dialogue
            first = dict(dialogue.persona.parts[0].values).get("first")
            if axis == "persona_gender" and first and dialogue.persona.group != "non-binary":
                names = dealt(dialogue.persona.group)
                assert first in names
                assert set(names) & set(re.findall(r"\w+", user(other)))


def test_the_corpus_own_dialogue_and_a_neutral_introduction_are_reference_variants():
    perturber, arranged = selected("persona_age", 30)
    for number, (dialogue, _) in enumerate(arranged):
        references = dict(perturber.references(dialogue))
        assert set(references) == {"original", "persona_age:neutral-introduction"}
        assert references["original"](dialogue).turns == corpus(30)[number].turns
        for rewrite in references.values():
            assert rewrite.inverse(rewrite(dialogue)) == dialogue
        neutral = user(references["persona_age:neutral-introduction"](dialogue))
        own = user(dialogue)
        assert abs(len(neutral.split()) - len(own.split())) <= 1
        assert not any(sign.isdigit() for sign in neutral)


# what is exchanged ---------------------------------------------------------------------------------------------------


def introduced(kind, attribute="woman", axis="persona_gender"):
    perturber, arranged = selected(axis)
    for dialogue, candidates in arranged:
        if dialogue.persona.parts[0].template.kind == kind and dialogue.persona.group == attribute:
            return perturber, dialogue, candidates
    raise AssertionError(kind)


def test_a_system_that_calls_the_user_by_name_is_rewritten_with_the_other_name():
    perturber, dialogue, candidates = introduced("name")
    rewrite = perturber.rewrite(dialogue, candidates[0])
    old, new = (dict(persona.parts[0].values)["first"] for persona in (dialogue.persona, candidates[0].persona))
    assert rewrite(f"Thanks, {old}. {old}'s room is booked.") == f"Thanks, {new}. {new}'s room is booked."
    assert rewrite(f"{old.lower()}_li_3@example.com") == f"{new.lower()}_li_3@example.com"
    assert rewrite.inverse(f"Thank you, {new}!") == f"Thank you, {old}!"
    bare = dict(perturber.references(dialogue))["original"]
    assert bare(f"Thank you, {old}.") == "Thank you."


def test_a_title_goes_with_its_name():
    perturber, dialogue, candidates = introduced("title")
    man = next(one for one in candidates if one.target == "man")
    rewrite = perturber.rewrite(dialogue, man)
    values = dict(dialogue.persona.parts[0].values)
    assert rewrite(f"Welcome, {values['title']} {values['last']}.") == f"Welcome, Mr. {values['last']}."
    assert rewrite("Ms. Hu is our guide.") == "Ms. Hu is our guide."


def test_an_age_is_a_number_only_where_it_is_said_as_one():
    perturber, arranged = selected("persona_age")
    dialogue, candidates = arranged[0]
    old, new = (dict(persona.parts[0].values)["years"] for persona in (dialogue.persona, candidates[0].persona))
    rewrite = perturber.rewrite(dialogue, candidates[0])
    assert rewrite(f"It costs {old} dollars.") == f"It costs {old} dollars."
    assert rewrite(f"For a {old}-year-old it is free.") == f"For a {new}-year-old it is free."


def test_who_has_a_name_in_the_corpus_is_renamed_another_one_everywhere():
    own = Dialogue(
        "n", "hotels",
        (
            Turn("A room, please.", response="What is your name?"),
            Turn("My name is Angela Brown.", response="Thanks, Angela. Your id is angela_brown_12."),
        ),
    )  # fmt: skip
    perturber = load_axis("persona_gender")
    ((dialogue, candidates),) = perturber.select([own], seed=0)
    assert "Angela" not in user(dialogue)
    name = dict(dialogue.persona.parts[0].values)
    made = f"{name['first']}_{name['last']}_12".lower()
    assert dialogue.turns[1].response == f"Thanks, {name['first']}. Your id is {made}."
    for candidate in candidates:
        new = dict(candidate.persona.parts[0].values)
        made = f"{new['first']}_{name['last']}_12".lower()  # the last name tells no gender
        other = perturber.rewrite(dialogue, candidate)(dialogue)
        assert other.turns[1].response == f"Thanks, {new['first']}. Your id is {made}."
        assert other.turns[1].user == f"My name is {new['first']} {name['last']}."
    references = dict(perturber.references(dialogue))
    assert list(references) == ["original"]
    assert references["original"](dialogue).turns == own.turns
    ages = load_axis("persona_age").select([own], seed=0)
    assert "Angela Brown" in user(ages[0][0])


def test_an_introduction_goes_where_a_name_is_asked_for():
    asked = [
        Dialogue(f"a{number}", "x", (Turn("Hello.", response="May I have your name?"), Turn("A room.", response="Ok.")))
        for number in range(20)
    ]
    perturber = load_axis("persona_gender", introductions=["name"])
    assert all(dialogue.turn == 1 for dialogue, _ in perturber.select(asked, seed=0))
    assert all(dialogue.turn == 0 for dialogue, _ in load_axis("persona_age").select(asked, seed=0))


def test_a_dialogue_as_it_is_gets_its_introduction_by_a_rewrite():
    bare = corpus(1)[0]
    rewrites = draw_rewrites(load_axis("persona_race"), bare, 6, 0)
    assert len(rewrites) == 6
    for rewrite in rewrites:
        other = rewrite(bare)
        assert user(other) != user(bare)
        assert "A room in Oslo, please." in user(other)
        assert rewrite.inverse(other) == bare
        assert rewrite.source == "neutral"
    first, second = (user(draw_rewrites(load_axis("persona_race"), one, 1, 0)[0](one)) for one in corpus(2))
    assert first != second


def test_dialogues_without_a_term_of_the_user_are_left_out():
    silent = Dialogue("s", "x", (Turn("", response="Hello."),))
    late = Dialogue("l", "x", (Turn("", response="Hello."), Turn("A room.", response="Ok.")))
    arranged = load_axis("persona_age").select([silent, late, Dialogue("e", "x", ())], seed=0)
    assert [(dialogue.id, dialogue.turn) for dialogue, _ in arranged] == [("l", 1)]


# crossed -------------------------------------------------------------------------------------------------------------


def test_one_name_reveals_gender_and_race():
    perturber = load_axis("persona_gender×persona_race", introductions=["name"])
    assert perturber.factors == ("gender", "race")
    for dialogue, candidates in perturber.select(corpus(24), seed=0):
        assert len(candidates) == 7  # two genders of four races have names
        for persona in (dialogue.persona, *(one.persona for one in candidates)):
            gender, race = persona.group.split("×")
            assert dict(persona.parts[0].values)["first"] in dealt(gender, race)


def test_what_is_not_exchanged_stays():
    perturber = load_axis("persona_gender×persona_age", introductions=["name", "age"])
    for dialogue, candidates in perturber.select(corpus(24), seed=0):
        own = [dict(piece.values) for piece in dialogue.persona.parts]
        for candidate in candidates:
            new = [dict(piece.values) for piece in candidate.persona.parts]
            (gender, age), (new_gender, new_age) = (
                persona.group.split("×") for persona in (dialogue.persona, candidate.persona)
            )
            assert (own[0]["first"] == new[0]["first"]) == (gender == new_gender)
            assert (own[1]["years"] == new[1]["years"]) == (age == new_age)


# wrong files ---------------------------------------------------------------------------------------------------------

GOOD = "@attributes\ta\tb\nform\tstatement\tbefore\tI am {x}.\nfill\tx\ta\tred, blue\nfill\tx\tb\tgreen\n"
WRONG = [
    (GOOD.replace("green", "red"), "line 4: 'red' belongs to two groups, 'a' and 'b'"),
    (GOOD.replace("red, blue", "red, , blue"), "line 3: an empty fill for 'a'"),
    (GOOD.replace("fill\tx\tb", "fill\tx\tc"), "line 4: unknown group 'c'"),
    (GOOD.replace("before", "beneath"), "line 2: unknown place 'beneath'; expected before or after"),
    (GOOD.replace("{x}", "{y}"), "nothing fills {y}"),
    (GOOD.replace("{x}", "x"), "line 2: the form 'I am x.' has no slot"),
    (GOOD.replace("form\tstatement\tbefore\tI am {x}.\n", ""), "holds no form"),
    ("form\tk\tbefore\tI am {x}.\nfill\tx\ta\tred\n", "holds fills of one group"),
    (GOOD + "@paired\tx\n", "the fills of 'x' are paired, but groups have [1, 2] of them"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_sheet_is_said_with_file_and_line(tmp_path, text, message):
    path = tmp_path / "mine.tsv"
    path.write_text(text)
    with pytest.raises(LexiconError) as error:
        load_axis("persona_mine", lexicon=path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_kinds_have_turns_by_their_terms_where_there_are_fewest(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text(
        "@attributes\ta\tb\nform\tterm\tbefore\tI am {x}.\nform\tlone\tbefore\tI am {alone}.\n"
        "form\tmany\tbefore\tI like {y}.\nfill\tx\ta\tred\nfill\tx\tb\tgreen\nfill\talone\ta\tonly me\n"
        "fill\ty\ta\ty1, y2, y3\nfill\ty\tb\tz1, z2\n"
    )
    arranged = load_persona(["persona_mine"], lexicon=path).select(corpus(24), seed=0)
    kinds = Counter(dialogue.persona.parts[0].template.kind for dialogue, _ in arranged)
    assert kinds == {"many": 16, "term": 8}  # nobody but a can be introduced by "only me"
    (part,) = load_parts(["age"])
    whose = turns(part, part.kinds.values())
    assert max(map(whose.count, whose)) <= ENOUGH


def test_a_sheet_of_ones_own_is_an_axis(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text(GOOD)
    perturber = load_axis("persona_mine", lexicon=path)
    assert perturber.groups == ("a", "b")
    said = {user(dialogue).split(".")[0] for dialogue, _ in perturber.select(corpus(8), seed=0)}
    assert said == {"I am red", "I am blue", "I am green"}


@pytest.mark.parametrize("options", [{"introductions": ["song"]}, {"targets": ["old-timer"]}, {"scope": "word"}])
def test_what_introductions_do_not_have_is_refused(options):
    with pytest.raises(AxisError):
        load_axis("persona_age", **options)


@pytest.mark.parametrize("axis", ["persona_age×persona_age", "race_people×persona_race", "persona_age×placebo"])
def test_axes_that_share_a_dimension_do_not_cross(axis):
    with pytest.raises(AxisError):
        load_axis(axis)


def test_the_shipped_sheets_hold_enough_terms_for_a_claim():
    for axis in ("persona_age", "persona_religion", "persona_disability", "persona_nationality"):
        sheet = read_sheet(FOLDER / f"{axis[8:]}.tsv")
        for attribute in sheet.groups:
            fills = {value for by_name in sheet.fills.values() for value in by_name.get(attribute, ())}
            assert len(fills) >= 6, (axis, attribute)
    assert all(form.place in ("before", "after") for form in neutral_templates())
    assert Template("k", "before", "As {a x}.").filled({"x": "atheist"}) == "As an atheist."


def test_signatures_tell_axes_and_sheets_apart(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text(GOOD)
    other = tmp_path / "other.tsv"
    other.write_text(GOOD.replace("green", "yellow"))
    found = [load_persona(["persona_mine"], lexicon=one).signature for one in (path, other)]
    found += [load_persona([axis]).signature for axis in persona_axes()]
    assert len(set(found)) == len(found)
    assert load_persona(["persona_age"]).signature == load_persona(["persona_age"]).signature
