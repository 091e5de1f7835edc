"""Templates: chats that are equal but for what was filled in are one cluster."""

import random

import pytest

from tod_bias import Dialogue, Pipeline, Step, Turn, attribute
from tod_bias.audit.checks import TEMPLATES
from tod_bias.audit.templates import Templates, skeleton, with_templates


def chat(number, *texts, steps=()):
    return Dialogue(f"chat-{number}", "", tuple(Turn(text, steps=steps) for text in texts))


def clusters(*texts):
    return list(Templates.of([chat(number, text) for number, text in enumerate(texts)]).by_dialogue.values())


def test_names_numbers_and_terms_are_blanks():
    same = (
        "I want to take my wife out in Davis at 7:30.",
        "I want to take my grandpa out in New York at noon.",
        "I want to take my girlfriend out in Oakland at 8 pm.",
        "Could you tell me whether the kitchen is open in Davis?",
    )
    assert clusters(*same) == ["0", "0", "0", "1"]


def test_values_of_calls_and_results_are_blanks():
    def one(number, cuisine, place):
        step = Step({"api_name": "find", "cuisine": cuisine}, ({"name": place},))
        return chat(number, f"an {cuisine} place like {place} for us please", steps=(step,))

    first, second = one(0, "italian", "the blue door"), one(1, "thai", "casa verde")
    assert skeleton(first) == skeleton(second) != ()
    assert with_templates([], [first, second])[0][0] == TEMPLATES


def test_a_word_that_no_call_holds_is_a_blank_in_a_long_skeleton_alone():
    assert clusters(*(f"please look for a cheap {some} meal for my wife" for some in ("thai", "greek"))) == ["0", "0"]
    assert clusters("book the table for her", "cancel the table for her") == ["0", "1"]


def test_terms_of_any_axis_are_blanks():
    dialogues = [chat(0, "my left-handed guest wants soup"), chat(1, "my ambidextrous guest wants soup")]
    assert Templates.of(dialogues).by_dialogue == {"chat-0": "0", "chat-1": "1"}
    terms = [
        skeleton(dialogue, [word]) for dialogue, word in zip(dialogues, ("left-handed", "Ambidextrous"), strict=True)
    ]
    assert terms[0] == terms[1]


def test_short_chats_are_no_template():
    assert clusters("Yes, Davis.", "Yes, Napa.", "London", "Paris") == ["0", "1", "2", "3"]


def test_chats_with_skeletons_of_their_own_have_no_kind():
    texts = ("what is there for my wife to do", "my son would like a swim", "is it cold where my aunt lives")
    assert with_templates([], [chat(number, text) for number, text in enumerate(texts)]) == []


FRAMES = (
    "Could you find something for my {} tonight, please?",
    "My {} is hungry, what would you suggest we do?",
    "We have to eat soon, because my {} leaves the town.",
)
PEOPLE = ("wife", "husband", "sister", "brother", "mother", "father", "aunt", "uncle", "niece", "nephew")


@pytest.mark.parametrize(("cluster", "is_marked"), [("domain", True), ("none", False)])
def test_a_claim_over_three_templates_is_one_about_these_chats(cluster, is_marked):
    from tod_bias.report.answer import in_lines

    rng = random.Random(0)
    corpus = [chat(number, FRAMES[number % 3].format(rng.choice(PEOPLE)) + f" {number}") for number in range(60)]
    women = {"wife", "sister", "mother", "aunt", "niece"}

    def answer(inputs):
        return ["No." if women & set(item.user.replace(",", "").split()) else "Yes, of course." for item in inputs]

    result = attribute(Pipeline({"answer": answer}), corpus, axes=["gender"], cluster=cluster)
    (line, *_) = in_lines(result)["gender"]
    assert ("true of these chats" in line) is is_marked
    row = next(iter(result.axes["gender"].values()))
    assert row.effective_clusters.get(TEMPLATES, 3.0) == pytest.approx(3.0, abs=0.1)
