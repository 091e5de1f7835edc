"""Answers must not be reused for another component, kept as something else, or merged with different ones."""

import collections
import dataclasses
import sqlite3

import numpy as np
import pandas as pd
import pytest
from builders import small_corpus
from flows import about_people

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.audit import design
from tod_bias.audit.plan import plan
from tod_bias.cache import NotPlainError, canonical, encoded
from tod_bias.errors import StageError, TodBiasError
from tod_bias.systems.pipeline import call_stage
from tod_bias.systems.stage import StageCall, cache_signature
from tod_bias.systems.turns import system_turn
from tod_bias.systems.twin import Twin

QUICK = {"bootstrap": 0, "permutations": 0, "design": "draws", "draws": 1}
LEVEL = 1


def by_level(inputs):
    return [LEVEL for _ in inputs]


def test_two_functions_of_one_file_are_two_components():
    first, second = (lambda inputs: ["a"] * len(inputs)), (lambda inputs: ["b"] * len(inputs))
    assert cache_signature(first) != cache_signature(second)


def test_a_function_is_another_one_when_what_it_reads_of_its_module_has_changed(monkeypatch):
    before = cache_signature(by_level)
    monkeypatch.setitem(globals(), "LEVEL", 2)
    assert cache_signature(by_level) != before


def made(word):
    class Stage:
        def __call__(self, inputs):
            return [word for _ in inputs]

    return Stage()


def test_what_the_methods_of_a_class_close_over_counts():
    assert cache_signature(made("a")) == cache_signature(made("a")) != cache_signature(made("b"))


class Holder:
    def __init__(self, held):
        self.held = held

    def __call__(self, inputs):
        return [str(self.held) for _ in inputs]


@pytest.mark.parametrize("held", [collections.deque([1]), sqlite3.connect(":memory:"), pd.DataFrame({"a": [1]})])
def test_what_hides_its_state_is_not_identified(held):
    with pytest.raises(NotPlainError):
        cache_signature(Holder(held))
    if isinstance(held, sqlite3.Connection):
        held.close()


class Attributes(dict):
    __getattr__ = dict.__getitem__


@dataclasses.dataclass
class More:
    number: int

    def __post_init__(self):
        self.text = str(self.number)


def local():
    @dataclasses.dataclass
    class Local:
        number: int = 1

    return Local()


@pytest.mark.parametrize(
    "value",
    [Attributes(calls=[]), np.ma.array([1, 2]), np.zeros(2, dtype=[("a", "i4")]), More(1), local()],
    ids=lambda value: type(value).__name__,
)
def test_what_would_come_back_as_something_else_is_not_kept(value):
    with pytest.raises(NotPlainError):
        encoded(value)


def test_values_that_hold_more_than_they_show_are_not_the_same():
    first, second = More(3), More(3)
    second.text = "other"
    assert canonical(first) != canonical(second)


def test_a_dialogue_without_an_answer_does_not_stop_a_run_wherever_it_stands(monkeypatch):
    response = "Of course, in which city shall I look for it?"
    corpus = [*small_corpus(12), Dialogue("zz", "", (Turn("my wife asks zzz", response=response),))]
    pipeline = Pipeline({"response": lambda inputs: [None if "zzz" in item.user else response for item in inputs]})
    whole = attribute(pipeline, corpus, **QUICK)["axes"]
    monkeypatch.setattr(design, "CHUNK", 1)
    assert attribute(pipeline, corpus, **QUICK)["axes"] == whole
    with pytest.raises(StageError, match="stage 'response': returned None every time"):
        attribute(Pipeline({"response": lambda inputs: [None] * len(inputs)}), corpus, **QUICK)


def talk(word):
    return lambda inputs: [f"{word} {item.user} {len(item.history)} {item.outputs}" for item in inputs]


def test_a_plan_bounds_free_running_systems_too():
    corpus = [dataclasses.replace(d, turns=d.turns * 3) for d in small_corpus(12)]
    pipeline = Pipeline({name: talk(name) for name in "abc"})
    told = plan(pipeline, corpus, design="draws", draws=1, history="system")
    cost = attribute(pipeline, corpus, history="system", **QUICK)["cost"]
    for name, part in told["stages"].items():
        assert part["at_most"] >= cost["distinct"][name]
    assert plan(Pipeline({"a": Twin(talk("a"))}), corpus)["stages"]["a"]["exact"] is None


def popping(turn):
    calls = yield "policy"
    while calls:
        yield "tools", calls.pop(0)
    yield "answer"


def with_frame(turn):
    yield "policy", pd.DataFrame({"a": [1]})
    yield "answer"


@pytest.mark.parametrize("flow", [popping, with_frame])
def test_a_flow_may_take_its_answers_apart_and_ask_with_anything(flow):
    stages = {
        "policy": lambda inputs: [["x", "y"] for _ in inputs],
        "tools": lambda inputs: [item.argument for item in inputs],
        "answer": lambda inputs: [f"I found {item.outputs.get('tools')} for you." for item in inputs],
    }
    corpus = [
        dataclasses.replace(d, turns=(Turn("My wife asks", response="I found y for you."),)) for d in about_people(4)
    ]
    assert attribute(Pipeline(stages, flow=flow), corpus, metrics="sentence_bleu", **QUICK)["axes"]["gender"]


def test_smaller_ones():
    with pytest.raises(StageError, match="expected a sequence with one output per input, got dict"):
        call_stage("bot", lambda inputs: {"a": 1}, [])
    with pytest.raises(TodBiasError, match="max_per_axis must be at least 1, got 0"):
        attribute(Pipeline({"answer": talk("a")}), about_people(2), max_per_axis=0, **QUICK)
    gold = Turn("hello", response="gold")
    assert system_turn(gold, [StageCall("reader", {"documents": ["a"]}, "read")]) == Turn("hello", response="read")
