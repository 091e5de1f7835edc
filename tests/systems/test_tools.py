"""Functions as tools: schemas, state, errors."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tod_bias import Dialogue, StageInput, Step, Turn, load_pipeline
from tod_bias.dialogues.calls import MALFORMED
from tod_bias.errors import StageError
from tod_bias.stages import Tools
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.functions import schema_of
from tod_bias.systems.stage import StageCall, cache_signature
from tod_bias.testing import StageContract


def add(state: dict, item: str, count: int = 1) -> dict:
    """Put something into the cart.

    Says what is in it.
    """
    state[item] = state.get(item, 0) + count
    if count < 0:
        raise ValueError("a negative\ncount")
    return state


def shout(text: str) -> str:
    return text.upper()


def leave(code: int) -> None:
    sys.exit(code)


FUNCTIONS = {"add": add, "shout": shout, "leave": leave}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"api_name": name, **arguments}


def input_of(argument: Any, *before: Any, history: tuple[Turn, ...] = ()) -> StageInput:
    steps = tuple(StageCall("tools", earlier, {}) for earlier in before)
    return StageInput(history, "Hello", {"tools": {}} if steps else {}, steps, argument)


def result_of(tools: Tools, *arguments: Any, **more: Any) -> Any:
    return tools([input_of(*arguments, **more)])[0]


class TestTools(StageContract):
    @pytest.fixture
    def stage(self):
        return Tools(FUNCTIONS)

    @pytest.fixture
    def inputs(self):
        first = call("add", item="tea")
        past = (Turn("Two teas.", steps=(Step(call("add", item="tea", count=2)),)),)
        return [
            input_of(first),
            input_of(call("shout", text="hi"), first),
            input_of(first, first, call("add", item="cup")),
            input_of(call("add", item="tea", count=-1), first),
            input_of(first, first, history=past),
            input_of(call("nothing")),
            StageInput((), "Hi", {"policy": {"tool_calls": [first, first]}}),
            StageInput((), "Hi"),
        ]

    def test_results(self, stage, inputs):
        assert stage(inputs) == [
            {"tea": 1}, "HI", {"tea": 2, "cup": 1}, {"error": "ValueError: a negative count"}, {"tea": 4},
            {"error": "unknown tool 'nothing'; there are add, shout, leave"}, [{"tea": 1}, {"tea": 2}], None,
        ]  # fmt: skip


def test_results_are_copies_and_threads_get_the_same():
    tools = Tools(FUNCTIONS)
    first = result_of(tools, call("add", item="a"))
    first["a"] = 99
    assert result_of(tools, call("add", item="a")) == {"a": 1}
    questions = [input_of(call("add", item=str(n % 7)), *[call("add", item="a")] * (n % 5)) for n in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert [found[0] for found in pool.map(lambda item: tools([item]), questions)] == tools(questions)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (call("add"), "the function does not take the arguments of add: 'item' is a required property"),
        (call("add", item=3), "the arguments of add do not fit its schema: item: 3 is not of type 'string'"),
        (call("add", item="a", seats=3), "Additional properties are not allowed ('seats' was unexpected)"),
        (call("add", **{MALFORMED: "{item: tea"}), "the arguments of add are no JSON object: {item: tea"),
        ("add(tea)", "the call cannot be read: add(tea)"),
        (call("leave", code=3), "SystemExit: 3"),
    ],
)
def test_what_cannot_be_carried_out_is_a_result_of_one_line(wrong, error):
    found = result_of(Tools(FUNCTIONS), wrong)
    assert found.keys() == {"error"}
    assert error in found["error"]
    assert "\n" not in found["error"]


ADD = st.builds(lambda item, count: call("add", item=item, count=count), st.sampled_from("ab"), st.integers(-1, 3))
CALLS = st.lists(st.one_of(ADD, st.just(call("shout", text="x")), st.just(call("nothing"))), min_size=1, max_size=5)


@given(st.lists(CALLS, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_results_depend_on_the_calls_before_alone(dialogues, random):
    questions = [input_of(calls[n], *calls[:n]) for calls in dialogues for n in range(len(calls))]
    expected = []
    for calls in dialogues:
        cart: dict[str, int] = {}
        for one in calls:
            if one["api_name"] != "add":
                expected.append("X" if one["api_name"] == "shout" else "unknown")
            elif one["count"] < 0:
                expected.append("failed")
            else:
                cart[one["item"]] = cart.get(one["item"], 0) + one["count"]
                expected.append(dict(cart))
    order = random.sample(range(len(questions)), len(questions))
    stage = Tools(FUNCTIONS)
    found = dict(zip(order, stage([questions[n] for n in order]), strict=True))
    for n, wanted in enumerate(expected):
        assert found[n] == wanted or (wanted in ("unknown", "failed") and "error" in found[n])


def read_state(path: str) -> dict:
    return json.loads(Path(path).read_text())


MODULE = '''
"""Tools."""
from json import dumps

def new_state(): return {"n": STEP}

STEP = 1

def count(state) -> int:
    """Count.

    Onwards."""
    state["n"] += STEP
    return state["n"]

def _private(): ...
'''
FLOW = """
def policy(inputs): return [{'api_name': 'count'} for _ in inputs]
def flow(turn):
    for _ in range(3):
        yield 'tools', (yield 'policy')
"""


def write(folder: Path, name: str, text: str = MODULE) -> Path:
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def test_a_module_beside_the_pipeline_file(tmp_path):
    stage = Tools(str(write(tmp_path, "tools_beside_one")))
    (entry,) = stage.schemas
    assert (entry["function"]["name"], entry["function"]["description"]) == ("count", "Count.")
    write(tmp_path, "tools_beside_policy", FLOW)
    (tmp_path / "system.yaml").write_text(
        'stages:\n  policy: "tools_beside_policy:policy"\n'
        '  tools: {stage: "tod_bias.stages:Tools", functions: tools_beside_one}\nflow: "tools_beside_policy:flow"\n'
    )
    pipeline = load_pipeline(tmp_path / "system.yaml")
    (trace,) = Execution(pipeline, history="system")([Run(Dialogue("1", "d", (Turn("a"), Turn("b"))))])
    assert [[step.output for step in turn[0].calls if step.name == "tools"] for turn in trace] == [[2, 3, 4], [4, 5, 6]]


def test_the_identity_changes_with_the_source_the_schemas_and_the_data(tmp_path):
    made = [
        Tools(str(write(tmp_path, f"tools_identity_{step}", MODULE.replace("STEP = 1", f"STEP = {step}"))))
        for step in (1, 2)
    ]
    made += [Tools({"add": add}), Tools({"add": add}, [{"name": "add", "parameters": {"type": "object"}}])]
    seen = {cache_signature(stage) for stage in made}
    for number in (1, 2):
        (tmp_path / "stock.json").write_text(f'{{"tea": {number}}}')
        stage = Tools({"add": add}, state=read_state, data=str(tmp_path / "stock.json"))
        assert result_of(stage, call("add", item="tea")) == {"tea": number + 1}
        seen.add(cache_signature(stage))
    assert len(seen) == 6
    assert cache_signature(Tools({"add": add})) == cache_signature(Tools({"add": add}))


def test_schemas_come_from_signatures():
    def book(
        state: dict,
        city: str,
        seats: int,
        cabin: Literal["economy", "business"] = "economy",
        names: list[str] | None = None,
        **more: Any,
    ) -> None:
        """Book a
        flight.

        At once."""

    function = schema_of("book", book)["function"]
    assert function["description"] == "Book a flight."
    parameters = function["parameters"]
    assert parameters["required"] == ["city", "seats"]
    assert parameters["additionalProperties"] is True
    assert parameters["properties"] == {
        "city": {"type": "string"},
        "seats": {"type": "integer"},
        "cabin": {"enum": ["economy", "business"], "type": "string"},
        "names": {"anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}]},
    }


def move(home: dict, /, state: str) -> dict:
    home["state"] = state
    return home


def test_an_argument_may_be_named_state():
    stage = Tools({"move": move})
    assert stage.schemas[0]["function"]["parameters"]["properties"] == {"state": {"type": "string"}}
    assert result_of(stage, call("move", state="CA")) == {"state": "CA"}


def test_given_schemas_say_which_functions_are_tools(tmp_path):
    schema = {"name": "shout", "parameters": {"type": "object", "properties": {"text": {"enum": ["a"]}}}}
    (tmp_path / "tools.json").write_text(json.dumps([schema]))
    stage = Tools(FUNCTIONS, tmp_path / "tools.json")
    assert result_of(stage, call("shout", text="a")) == "A"
    assert "text: 'b' is not one of ['a']" in result_of(stage, call("shout", text="b"))["error"]
    assert "unknown tool 'add'" in result_of(stage, call("add", item="a"))["error"]


def by_place(state: dict, text: str, /) -> None: ...


def odd() -> Any:
    return {1, 2}


def asked(name: str, parameters: dict[str, Any]) -> Any:
    return result_of(Tools(FUNCTIONS, [{"name": name, "parameters": parameters}]), call(name))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Tools("no_such_module_here"), "functions: cannot import 'no_such_module_here'"),
        (lambda: Tools({"a": by_place}), "'text' cannot be given by name"),
        (lambda: Tools(FUNCTIONS, state="json"), "state: expected module:function, got 'json'"),
        (lambda: Tools(FUNCTIONS, [{"name": 3}]), "schemas, entry 1: expected"),
        (lambda: Tools(FUNCTIONS, "no.json"), "no.json: cannot be read as JSON"),
        (lambda: asked("add", {"type": "text"}), "schema of tool 'add': type: 'text' is not valid"),
        (lambda: asked("shout", {"$ref": "http://localhost:1/schema.json"}), "refers to what is not in it"),
        (lambda: result_of(Tools({"odd": odd}), call("odd")), "tool 'odd': expected it to return JSON, got Object"),
    ],
)
def test_mistakes_are_one_line(make, problem):
    with pytest.raises(StageError, match=rf"^[^\n]*{problem}[^\n]*$"):
        make()
