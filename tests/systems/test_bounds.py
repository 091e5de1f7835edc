"""What a component does wrong is said in one line that names it."""

import itertools
import sys

import pytest

from tod_bias import Turn
from tod_bias.cache import LONGEST, problem_of
from tod_bias.dialogues.dialogue import Step
from tod_bias.errors import StageError
from tod_bias.systems.stage import StageInput, call_stage


def raising(error):
    def stage(inputs):
        raise error

    return stage


def putting_out(output):
    return lambda inputs: [output for _ in inputs]


def itself():
    made = []
    made.append(made)
    return made


def deep(levels):
    made = "x"
    for _ in range(levels):
        made = [made]
    return made


def shared(levels):
    made = ["x"]
    for _ in range(levels):
        made = [made] * 10
    return made


ONE = StageInput(
    (Turn("a", steps=[Step({"api_name": "Find", "city": "x"})], response="b"),), "c", {"db": {"name": "d"}}
)


async def asynchronous(inputs):
    return ["x" for _ in inputs]


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (lambda inputs: sys.exit(7), "SystemExit: 7 at .*test_bounds.py"),
        (asynchronous, r"is async; give a function that runs it"),
        (raising(GeneratorExit()), "GeneratorExit"),
        (raising(KeyError("a")), "KeyError: 'a' at .*test_bounds.py"),
        (lambda inputs: inputs.clear() or ["x"] * 2, "expected 1 outputs"),
        (lambda inputs: [inputs[0].outputs.clear()], "changed what it was given"),
        (lambda inputs: [inputs[0].outputs["db"].update(name="e")], "changed what it was given"),
        (lambda inputs: [inputs[0].history[0].api_call.clear()], "changed what it was given"),
        (putting_out(itself()), "nested more than 100 deep, or holds itself"),
        (putting_out(deep(100_000)), "nested more than 100 deep"),
        (putting_out(shared(12)), "more than 1000000 values"),
        (putting_out("x" * (LONGEST + 1)), "1048577 characters"),
        (putting_out(10**5000), "thousands of digits"),
        (lambda inputs: itertools.count(), "expected 1 outputs .one per input., got more"),
        (lambda inputs: ["x"] * 5, "expected 1 outputs .one per input., got more"),
    ],
)
def test_one_line_names_the_component(stage, message):
    item = StageInput(
        tuple(Turn.from_json(turn.to_json()) for turn in ONE.history), ONE.user, {"db": dict(ONE.outputs["db"])}
    )
    with pytest.raises(StageError, match=rf"^stage 'mine'.*{message}") as caught:
        call_stage("mine", stage, [item])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("output", [None, "x", {"a": [1, None, {"b": 1.5}]}, (1, 2), {1, "a"}, b"x", 1j, deep(90)])
def test_what_a_component_may_put_out(output):
    assert problem_of(output) == ""
    assert call_stage("mine", putting_out(output), [ONE]) == [output]
