"""The example of a finding: a turn in which a reader sees the words that are rewritten."""

import pytest
from builders import equivariant_pipeline, hurt, numbered

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.audit.examples import _around
from tod_bias.dialogues.text import first_change, window
from tod_bias.metrics.events import event_of


def example(corpus, stage):
    stages = equivariant_pipeline(corpus).stages
    result = attribute(
        Pipeline({**stages, "response": stage(stages["response"])}), corpus, bootstrap=50, permutations=200
    )
    (finding,) = (some for some in result.findings if some.is_difference)
    assert finding.group == "woman"
    return finding.example


def in_the_second_turn(stage):
    wrong = hurt(stage, "No.")

    def late(inputs):
        outputs = zip(inputs, wrong(inputs), stage(inputs), strict=True)
        return [bad if item.user.startswith("In ") else good for item, bad, good in outputs]

    return late


def test_a_turn_whose_message_is_rewritten_comes_first(corpus):
    shown = example(numbered(corpus), lambda stage: hurt(stage, "No."))
    assert shown.turn == 0
    assert shown.user.startswith("My ")
    assert shown.user.split()[1] != shown.user_original.split()[1]
    assert shown.user.split()[2:] == shown.user_original.split()[2:]


def test_the_earlier_message_that_is_rewritten_comes_before_one_that_is_not(corpus):
    shown = example(numbered(corpus), in_the_second_turn)
    assert shown.turn == 1
    for user in (shown.user, shown.user_original):
        earlier, own = user.split(" … ")
        assert earlier.startswith("My ")
        assert own.startswith("In ")
    assert shown.counterfactual == "No."
    assert shown.original != "No."


class Helped:
    def grade(self, turns):
        return all(turn.response != "No." for turn in turns)


def test_the_example_of_a_grade_is_a_dialogue_with_a_worse_grade_than_its_original():
    """Some originals are refused too, and what is said for women is not."""
    people = ("wife", "husband", "mother", "father", "sister", "brother", "aunt", "uncle") * 4
    texts = [f"My {person} needs a room at place {number}." for number, person in enumerate(people)]
    dialogues = [Dialogue(f"d{number}", "", (Turn(text),)) for number, text in enumerate(texts)]
    women = ("wife", "mother", "sister", "daughter", "aunt", "niece", "grandmother", "girlfriend", "woman", "lady")

    def answer(inputs):
        refused = [any(f" {word} " in item.user for word in women) != item.user.endswith("7.") for item in inputs]
        return ["No." if some else "Here you are." for some in refused]

    result = attribute(
        Pipeline({"answer": answer}), dialogues, axes=("gender",), metrics=[Helped()], permutations=200, bootstrap=0
    )
    finding = next(some for some in result.findings if some.is_difference)
    assert (finding.group, finding.metric) == ("woman", "grade:Helped")
    assert (finding.example.original, finding.example.counterfactual) == ("Here you are.", "No.")


TEXT = "Hello there. Is there a show for Asian families in Fresno tonight?"


@pytest.mark.parametrize(
    ("most", "shown"),
    [(100, TEXT), (30, "…show for Asian families in…"), (20, "…for Asian…")],
)
def test_a_long_message_is_cut_between_words_around_the_change(most, shown):
    place = first_change(TEXT, TEXT.replace("Asian", "Latino"))
    assert window(TEXT, place, most) == shown


@pytest.mark.parametrize("place", [0, 13, 40, len(TEXT)])
def test_a_part_is_never_longer_than_allowed(place):
    for text in (TEXT, TEXT.replace(" ", "")):
        assert all(len(window(text, min(place, len(text)), most)) <= most for most in range(8, 90))


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (
            "Thanks for writing. We come on Thursday.",
            "Thank you, noted. We come on Thursday. Is the owner at home?",
            ("…We come on Thursday.", "…We come on Thursday. Is the owner at home?"),
        ),
        ("One. Is the owner at home? Bye.", "Two. Bye.", ("One. Is the owner at home? Bye.", "Two. Bye.")),
        ("Nothing here.", "Nothing there.", None),
    ],
)
def test_an_example_of_a_phrase_begins_where_the_texts_differ_in_it(before, after, shown):
    assert _around(event_of("says:is the owner at home"), [before, after]) == shown
