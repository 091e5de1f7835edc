"""The inputs that a stage's contract test is given."""

import pytest

from tod_bias import Pipeline, load_corpus
from tod_bias.errors import StageError
from tod_bias.testing import StageContract, inputs_of

DIALOGUES = load_corpus("demo", max_dialogues=3)


def response(inputs):
    return [f"You said: {item.user}" for item in inputs]


def tone(inputs):
    return [f"{item.outputs['response']} Have a nice day." for item in inputs]


def check(inputs):
    return [len(item.outputs["tone"]) for item in inputs]


STRAIGHT = Pipeline({"response": response, "tone": tone, "check": check})


class TestStageAfterTheResponse(StageContract):
    @pytest.fixture
    def stage(self):
        return STRAIGHT.stages["check"]

    @pytest.fixture
    def inputs(self):
        return inputs_of(DIALOGUES, STRAIGHT, "check")

    def test_inputs_are_those_of_the_turns_and_hold_what_was_put_out_before(self, inputs):
        users = [turn.user for dialogue in DIALOGUES for turn in dialogue.turns]
        assert [item.user for item in inputs] == users
        assert [item.outputs for item in inputs] == [
            {"response": f"You said: {user}", "tone": f"You said: {user} Have a nice day."} for user in users
        ]


def looping(turn):
    for number in range(2):
        yield "tools", {"number": number}
    yield "answer"


def tools(inputs):
    return [item.argument["number"] for item in inputs]


LOOP = Pipeline({"tools": tools, "answer": lambda inputs: ["Done." for _ in inputs], "spare": tools}, flow=looping)


def test_every_call_of_a_loop_is_an_input_with_its_argument():
    inputs = inputs_of(DIALOGUES, LOOP, "tools")
    turns = sum(len(dialogue.turns) for dialogue in DIALOGUES)
    assert sorted(item.argument["number"] for item in inputs) == [0] * turns + [1] * turns
    assert {tuple(item.outputs.values()) for item in inputs if item.argument["number"] == 1} == {(0,)}


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("smalltalk", "no stage 'smalltalk' in this pipeline; it has tools, answer, spare"),
        ("spare", "stage 'spare': the pipeline does not call it in these 3 dialogues"),
    ],
)
def test_a_stage_without_inputs_is_named(stage, message):
    with pytest.raises(StageError, match=message):
        inputs_of(DIALOGUES, LOOP, stage)
