"""What a stage does wrong is said in one line that names it."""

import pytest

from tod_bias import Pipeline, StageInput
from tod_bias.errors import ModelError, StageError
from tod_bias.io.canonical import LONGEST
from tod_bias.systems.stage import call_stage


def raising(error):
    def stage(inputs):
        raise error

    return stage


def returning(output):
    return lambda inputs: [output for _ in inputs]


def nested(levels):
    value = "x"
    for _ in range(levels):
        value = [value]
    return value


def lazy(inputs):
    yield "one"
    raise RuntimeError("two\nlines")


async def asynchronous(inputs):
    return ["x" for _ in inputs]


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (asynchronous, "is async"),
        (
            raising(KeyError("a")),
            "KeyError: 'a' at .*_errors.py:13, in the turn that begins .c.; fix the stage",
        ),
        (lazy, "RuntimeError: two lines at "),
        (lambda inputs: ["x"] * 5, "expected 1 outputs .*, got more"),
        (lambda inputs: "x", "called with a list of inputs"),
        (lambda inputs: {"a": 1}, "got dict"),
        (lambda inputs: [inputs[0].outputs["db"].update(name="e")], "changed what it was given"),
        (returning(nested(100_000)), "nested more than 100 deep"),
        (returning("x" * (LONGEST + 1)), "1048577 characters"),
    ],
)
def test_one_line_names_the_stage(stage, message):
    with pytest.raises(StageError, match=rf"^stage 'mine'.*{message}") as caught:
        call_stage("mine", stage, [StageInput((), "c", {"db": {"name": "d"}})])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("output", [None, "x", {"a": [1, None, {"b": 1.5}]}, (1, 2), {1, "a"}, b"x", nested(90)])
def test_a_stage_may_return_any_small_value(output):
    assert call_stage("mine", returning(output), [StageInput((), "c")]) == [output]


def test_errors_of_this_package_pass_through_a_stage_unchanged():
    error = ModelError("no such model")
    with pytest.raises(ModelError) as caught:
        Pipeline({"a": raising(error)})([StageInput((), "hello")])
    assert caught.value is error
