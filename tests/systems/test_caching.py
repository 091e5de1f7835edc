"""Outputs in the cache: what is stored, by which signature, from which threads, and after a run was killed."""

import collections
import dataclasses
import enum
import functools
import importlib
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter, namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from assistant import without_cost
from builders import small_corpus
from hypothesis import given
from hypothesis import strategies as st
from random_systems import audited, people, random_system

from tod_bias import Pipeline, attribute
from tod_bias.errors import StageError
from tod_bias.io import signatures
from tod_bias.io.cache import Cache
from tod_bias.io.canonical import NotPlainError, canonical, decoded, encoded
from tod_bias.stages import Lookup, Outcome
from tod_bias.systems.batch_size import BatchSize
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.stage import cache_signature


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Plan:
    calls: tuple
    note: str = ""


@dataclasses.dataclass
class More:
    number: int

    def __post_init__(self):
        self.text = str(self.number)


class Attributes(dict):
    __getattr__ = dict.__getitem__


Point = namedtuple("Point", "x y")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_stored_value_is_read_back(value):
    assert canonical(decoded(encoded(value))) == canonical(value)


@pytest.mark.parametrize(
    "value",
    [
        (1, [2.5, None], {"a": (True, False)}), {1: "a", None: "b", ("x",): "c"}, {"$tuple": [1]},
        Colour.RED, Plan(({"api_name": "f", "n": 2},), "x"), Point(1, "b"), SimpleNamespace(calls=[{"a": 1}]),
        np.arange(6.0).reshape(2, 3), np.float32(0.5), Lookup(Outcome.ROWS, ({"name": "A"},)), "\ud800 lone",
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_every_plain_kind_of_output_is_stored(value):
    again = decoded(encoded(value))
    assert type(again) is type(value)
    assert canonical(again) == canonical(value)


@pytest.mark.parametrize(
    "value",
    [
        object(), {1, 2}, b"x", [lambda: 1], {"a": threading.Lock()}, np.array([object()]),
        Attributes(calls=[]), np.ma.array([1, 2]), np.zeros(2, dtype=[("a", "i4")]), More(1),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_would_come_back_as_something_else_is_not_stored(value):
    with pytest.raises(NotPlainError):
        encoded(value)


@pytest.mark.parametrize(
    "text",
    [
        '{"$object": ["no_such_module", "Thing", {}]}', '{"$object": ["subprocess", "Popen", {"args": "x"}]}',
        '{"$object": ["os", "path", "x"]}', '{"$object": ["os", "system", ["x"]]}', '{"$nothing": 1}', "[",
        '{"$array": ["|O", [1], ""]}',
    ],
)  # fmt: skip
def test_a_cache_file_loads_nothing_and_runs_nothing(text):
    before = set(sys.modules)
    with pytest.raises(NotPlainError):
        decoded(text)
    assert "no_such_module" not in set(sys.modules) - before


def test_different_values_have_different_keys():
    other = More(3)
    other.text = "other"
    values = [
        1, 1.0, True, "1", None, "", [], (), {}, [1], (1,), {"a": 1}, {"a": 1.0}, {"a": None}, {"b": 1}, [[1], []],
        [[], [1]], {"a": 1, "b": 2}, {"b": 2, "a": 1}, 0.0, -0.0, Colour.RED, Plan(()), Point(1, 2), (1, 2), np.ones(2),
        np.ones((1, 2)), np.ones(2, dtype=np.float32), SimpleNamespace(a=1), ["a", "b"], ["a', 'b"], "dict", ("dict",),
        More(3), other,
    ]  # fmt: skip
    assert len({canonical(value) for value in values}) == len(values)


LEVEL = 1


def by_level(inputs):
    return [LEVEL for _ in inputs]


class Adder:
    def __init__(self, number, path=Path("here"), more=None):
        self.number, self.path, self.more = number, path, more

    def __call__(self, inputs):
        return [f"{self.number} {item.user}" for item in inputs]


def closure(number):
    return lambda inputs: [number for _ in inputs]


def local_class(word):
    class Stage:
        def __call__(self, inputs):
            return [word for _ in inputs]

    return Stage()


@pytest.mark.parametrize(
    ("make", "first", "second"),
    [
        (lambda number: [lambda inputs: ["a"], lambda inputs: ["b"]][number], 0, 1),  # two functions of one line
        (Adder, 1, 2),
        (lambda more: Adder(1, more=more), {"a": [1]}, {"a": [2]}),
        (closure, 1, 2),
        (lambda number: Adder(number).__call__, 1, 2),
        (lambda word: functools.partial(Adder.__call__, word), "a", "b"),
    ],
)
def test_a_stage_is_known_by_its_source_and_arguments(make, first, second):
    assert cache_signature(make(first)) == cache_signature(make(first)) != cache_signature(make(second))


def test_a_function_is_another_when_a_global_that_it_reads_has_changed(monkeypatch):
    before = cache_signature(by_level)
    monkeypatch.setitem(globals(), "LEVEL", 2)
    assert cache_signature(by_level) != before


def test_the_files_of_a_stage_are_its_authors_alone(tmp_path, monkeypatch):
    (tmp_path / "helper_of_desk.py").write_text("def polite(text):\n    return text\n")
    (tmp_path / "desk_stage.py").write_text(
        "import json\nimport numpy\nfrom helper_of_desk import polite\nfrom tod_bias import Pipeline\n"
        "from tod_bias.perturb import load_axis\nfrom tod_bias.stages import LookupDb\n"
        "def answer(inputs):\n    return [polite(item.user) for item in inputs]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    files = signatures._files(importlib.import_module("desk_stage"))
    assert [Path(file).name for file in files] == ["desk_stage.py", "helper_of_desk.py"]


@pytest.mark.parametrize(
    "held",
    [threading.Lock(), sys.stdout, torch.ones(2), collections.deque([1]), pd.DataFrame({"a": [1]}), local_class("a")],
    ids=lambda held: type(held).__name__,
)
def test_a_stage_whose_state_cannot_be_read_has_no_signature_but_a_declared_one(held):
    stage = Adder(held)
    with pytest.raises(NotPlainError):
        cache_signature(stage)
    stage.signature = "v1"
    assert "Adder" in cache_signature(stage)


def test_a_class_that_a_function_makes_is_not_identified():
    with pytest.raises(NotPlainError, match=r"local_class.<locals>.Stage is made in a function"):
        cache_signature(local_class("a"))


def test_a_stage_without_a_signature_is_called_anew_and_the_run_says_so(tmp_path):
    pipeline = Pipeline({"response": Adder(threading.Lock())})
    options = {"bootstrap": 0, "permutations": 0, "cache": tmp_path / "cache.sqlite"}
    result = attribute(pipeline, small_corpus(8), **options)
    assert "give it an attribute 'signature'" in result.signature["not cached response"]
    again = attribute(pipeline, small_corpus(8), **options)
    assert again.cost.cached == {"response": 0}


def test_a_stage_is_another_when_a_file_that_it_imports_has_changed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "deep_help.py").write_text("WORD = 'one'\n")
    (tmp_path / "near_help.py").write_text("import deep_help\n\n\ndef help(text):\n    return deep_help.WORD + text\n")
    (tmp_path / "some_stage.py").write_text(
        "from near_help import help\n\n\ndef stage(inputs):\n    return [help(item.user) for item in inputs]\n"
    )
    stage = importlib.import_module("some_stage").stage
    before = cache_signature(stage)
    assert cache_signature(stage) == before
    (tmp_path / "deep_help.py").write_text("WORD = 'other'\n")
    assert cache_signature(stage) != before


def test_a_second_run_calls_nothing_and_has_the_same_result(tmp_path):
    calls = []

    def speak(inputs):
        calls.extend(inputs)
        return [f"Of course, {item.user}" for item in inputs]

    speak.signature = "speak"

    def run(**options):
        options |= {"bootstrap": 50, "permutations": 100, "cache": tmp_path / "cache.sqlite"}
        return attribute(Pipeline({"response": speak}), small_corpus(8), **options)

    first = run()
    count = len(calls)
    second = run()
    assert len(calls) == count == first.cost.distinct["response"] == second.cost.cached["response"]
    assert second.axes == first.axes
    third = run(seed=1)
    assert len(calls) - count == third.cost.distinct["response"] - third.cost.cached["response"] < count


@pytest.mark.parametrize("seed", range(2))
def test_a_run_that_finds_a_part_of_its_outputs_in_the_cache_is_as_a_fresh_one(tmp_path, seed):
    fresh = audited(random_system(seed, harms=1))
    cache = {"cache": tmp_path / "cache.sqlite"}
    before = audited(random_system(seed, harms=1), people()[seed::2], **cache)
    continued = audited(random_system(seed, harms=1), **cache)
    assert 0 < sum(continued.cost.cached.values()) < sum(continued.cost.distinct.values())
    assert without_cost(continued) == without_cost(fresh) != without_cost(before)
    assert continued.turns.equals(fresh.turns)


def test_threads_and_processes_share_a_store(tmp_path):
    path = tmp_path / "cache.sqlite"
    cache = Cache(path)
    code = "import sys; from tod_bias.io.cache import Cache; a = Cache(sys.argv[1])\n"
    code += "for i in range(50): a.put({f'p{i}': 'x'})"
    keys = [f"p{i}" for i in range(50)] + [f"{i}" for i in range(160)]
    with ThreadPoolExecutor(8) as threads:
        written = threads.map(lambda key: cache.put({key: key}), keys[50:])
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
        assert len(list(written)) == 160
    assert len(Cache(path).get(keys)) == len(keys)


class Slow:
    """One call takes 20 ms; others may run meanwhile."""

    def __init__(self, fails_at=""):
        self.fails_at = fails_at
        self.signature = f"slow {fails_at}"

    def __call__(self, inputs):
        assert len(inputs) == 1
        if self.fails_at and self.fails_at in inputs[0].user:
            raise KeyError("no answer")
        time.sleep(0.02)
        return [inputs[0].user.upper()]


def test_concurrent_calls_give_the_same_in_a_fraction_of_the_time():
    runs = [Run(dialogue) for dialogue in small_corpus(24)]
    begun = time.monotonic()
    traces = Execution(Pipeline({"response": Slow()}, concurrency={"response": 16}))(runs)
    passed = time.monotonic() - begun
    calls = sum(len(run.dialogue.turns) for run in runs)
    assert passed < 0.02 * calls / 2
    for run, trace in zip(runs, traces, strict=True):
        assert [course[0].response for course in trace] == [turn.user.upper() for turn in run.dialogue.turns]


def test_outputs_before_a_failure_stay_in_the_cache(tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    runs = [Run(dialogue) for dialogue in small_corpus(12)]
    pipeline = Pipeline({"response": Slow("sister")}, concurrency={"response": 4})
    with pytest.raises(StageError, match=r"stage 'response' .*: KeyError: 'no answer'"):
        Execution(pipeline, cache=cache)(runs)
    execution = Execution(pipeline, cache=Cache(tmp_path / "cache.sqlite"))
    with pytest.raises(StageError):
        execution(runs)
    assert execution.callers["response"].cost.cached > 0


KILLED = textwrap.dedent(
    """
    import os, signal, sys, time
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    from builders import small_corpus
    from tod_bias import Pipeline, attribute
    from tod_bias.results import Cost
    from tod_bias.systems import batch_size

    batch_size.SECONDS = 0.04  # so that there is a middle to be killed in

    def counted(name):
        def stage(inputs):
            out = []
            for item in inputs:
                with open("calls", "a") as file:
                    file.write(f"{name}\\n")
                if len(Path("calls").read_text().splitlines()) == int(os.environ["LAST"]):
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(0.004)
                out.append(f"{name} heard {item.user}, after {len(item.outputs)}: of course")
            return out
        return stage

    def run():
        pipeline = Pipeline({"first": counted("first"), "second": counted("second")})
        options = {"bootstrap": 0, "permutations": 100, "cache": "cache.sqlite"}
        result = attribute(pipeline, small_corpus(24), metrics="corpus_bleu", **options)
        Path("result").write_text(result.model_copy(update={"cost": Cost()}).text())

    for name, last in (("whole", 0), ("killed", 15), ("killed", 70), ("killed", 0)):
        Path(name).mkdir(exist_ok=True)
        if os.fork() == 0:
            os.environ["LAST"] = str(last)  # no part of a component's signature
            os.chdir(name)
            run()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == (-signal.SIGKILL if last else 0)
    """
)


def test_a_killed_run_repeats_no_call_but_the_batch_that_was_under_way(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)  # a component's source is part of its signature
    command = [sys.executable, "-W", "error", "killed.py", str(Path(__file__).parent.parent)]
    subprocess.run(command, cwd=tmp_path, check=True)
    distinct, calls = (Counter((tmp_path / name / "calls").read_text().split()) for name in ("whole", "killed"))
    assert distinct["first"] > 60
    assert (tmp_path / "killed" / "result").read_text() == (tmp_path / "whole" / "result").read_text()
    repeated = 2 * 16  # batches of 0.04 seconds
    assert all(calls[name] <= distinct[name] + repeated for name in distinct)
    assert calls.total() < distinct.total() + repeated


@pytest.mark.parametrize(
    ("seconds", "longest", "batches"),
    [
        (lambda done, count: 5 * (not done) + 0.05 * count, 5.1, 56),  # it loads something at its first question
        (lambda done, count: 0.3 + 1e-4 * count, 2.1, 8),
        (lambda done, count: 5 * count, 10, 2000),  # a question is the least there is, and two are tried once
        (lambda done, count: 3 + 0.05 * count, 10, 40),  # it starts a program at each call
    ],
    ids=["slow start", "a call costs 0.3 s", "5 s", "a call costs 3 s"],
)
def test_a_batch_is_about_two_seconds_of_work(seconds, longest, batches):
    size, done, taken = BatchSize(), 0, []
    while done < 2000:
        count = min(size.size, 2000 - done)
        taken.append(seconds(done, count))
        size.took(count, taken[-1])
        done += count
    assert max(taken) <= longest
    assert len(taken) <= batches
