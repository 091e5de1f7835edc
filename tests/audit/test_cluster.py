"""The workers of a cluster: the same result as here, also where one is killed."""

import importlib
import json
import sys
import threading

import pytest
from assistant import without_cost
from builders import small_corpus

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.audit import design
from tod_bias.errors import StageError, TodBiasError
from tod_bias.stages import ApiCall
from tod_bias.systems.stage import RemoteStage

cluster = pytest.importorskip("tod_bias.audit.ray_executor", reason="no Ray: pip install -e '.[ray]'")
pytestmark = pytest.mark.slow

STAGES = """
import os, signal
from pathlib import Path

HERE = Path(__file__).parent

def call(inputs):
    return [{"api_name": "Find", "who": item.user.split()[1]} if "man" in item.user or "fe" in item.user else {}
            for item in inputs]

def answer(inputs):
    return [f"Fine, {item.user.split()[1]}" if len(item.user) % 3 else "No" for item in inputs]

def killed_once(inputs):
    if not (HERE / "killed").exists():
        (HERE / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(inputs)

def always_killed(inputs):
    if Path("/proc/self").resolve().name != (HERE / "driver").read_text():
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(inputs)

def broken(inputs):
    return [{}[item.user] for item in inputs]

def calls_once(inputs):
    return [{"api_name": "Find", "dish": "tacos"} if "the first of all" in item.user else {} for item in inputs]
"""


@pytest.fixture(scope="module")
def workers():
    """A cluster of this machine; those of the tests are the workers of it."""
    cluster.ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield 2
    cluster.ray.shutdown()


@pytest.fixture
def stages(tmp_path, monkeypatch):
    """The components, as a user has them: in a file of their own."""
    name = f"stages_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(STAGES)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(name)
    del sys.modules[name]


def audited(pipeline, corpus, **options):
    settings = {"axes": ["gender"], "bootstrap": 20, "permutations": 50} | options
    result = attribute(pipeline, corpus, **settings)
    found = without_cost(result)
    del found["config"]  # names the workers
    return json.dumps(found), result.turns, result.cost


@pytest.fixture
def in_small_chunks(monkeypatch):
    monkeypatch.setattr(design, "CHUNK", 150)


def test_the_result_is_that_of_one_process(workers, stages, in_small_chunks, tmp_path):
    pipeline = Pipeline({"api_call": stages.call, "response": stages.answer})
    options = {
        "axes": ["gender", "names_race", "placebo"],
        "metrics": ["corpus_bleu", "slot_f1", "disagreement"],
        "cluster": "domain",
    }
    names = ("Emily", "Jamal", "Mei", "Brad")
    turns = [Turn.with_call(f"This is {name}", {"api_name": "Find"}, response=f"Hi {name}") for name in names]
    corpus = [*small_corpus(24), *(Dialogue(f"n{number}", "Two", (turn,)) for number, turn in enumerate(turns))]
    local = audited(pipeline, corpus, **options)
    tlocal = audited(pipeline, corpus, executor="ray", workers=workers, cache=tmp_path / "cache.sqlite", **options)
    assert tlocal[0] == local[0]
    assert tlocal[1].equals(local[1])
    assert tlocal[2].calls == local[2].calls
    cached = audited(pipeline, corpus, cache=tmp_path / "cache.sqlite", **options)
    assert cached[2].cached == cached[2].distinct  # what workers were answered is known here, too


def test_a_killed_worker_is_replaced_and_its_part_repeated(workers, stages, in_small_chunks, tmp_path):
    corpus = small_corpus(24)
    local = audited(Pipeline({"response": stages.answer}), corpus)
    tlocal = audited(Pipeline({"response": stages.killed_once}), corpus, executor="ray", workers=1)
    assert (tmp_path / "killed").exists()
    assert json.loads(tlocal[0])["axes"] == json.loads(local[0])["axes"]
    assert tlocal[1].equals(local[1])


def test_workers_that_die_again_and_again_end_the_run_in_one_line(workers, stages, tmp_path):
    (tmp_path / "driver").write_text("0")
    with pytest.raises(
        StageError, match=r"^3 workers died one after the other on the dialogues from '\w+' on \(.*\); "
    ):
        audited(Pipeline({"response": stages.always_killed}), small_corpus(8), executor="ray", workers=1)


def test_an_error_of_a_stage_is_that_of_a_local_run(workers, stages):
    pipeline = Pipeline({"response": stages.broken})
    said = []
    for options in ({}, {"executor": "ray", "workers": 1}):
        with pytest.raises(StageError) as raised:
            audited(pipeline, small_corpus(8), **options)
        said.append(str(raised.value))
    assert said[0] == said[1]
    assert "\n" not in said[0]


def test_whether_a_system_makes_calls_is_known_of_a_chunk_in_any_number_of_parts(workers, stages, monkeypatch):
    monkeypatch.setattr(design, "CHUNK", 400)
    monkeypatch.setattr(cluster, "_ROUNDS", 6)
    first = Turn.with_call("My wife is the first of all", {"api_name": "Find", "dish": "tacos"}, {"name": "it"}, "Fine")
    corpus = [*small_corpus(20), Dialogue("first", "", (first,)), *small_corpus(30)[20:]]
    pipeline = Pipeline({"api_call": stages.calls_once, "response": stages.answer})
    metrics = {"metrics": ["slot_f1", "corpus_bleu"]}
    local = audited(pipeline, corpus, **metrics)
    tlocal = audited(pipeline, corpus, executor="ray", workers=1, **metrics)
    assert (tlocal[0], tlocal[1].equals(local[1])) == (local[0], True)


def test_more_workers_than_processors_are_refused(workers, stages):
    with pytest.raises(TodBiasError, match="3 workers: the Ray cluster has 2 processors, and each takes one"):
        audited(Pipeline({"response": stages.answer}), small_corpus(4), executor="ray", workers=3)


def test_who_waits_for_a_processor_keeps_no_work_from_the_others(workers, stages, in_small_chunks):
    import ray

    class Somebody:
        def is_there(self):
            return True

    other = ray.remote(Somebody).options(num_cpus=1).remote()
    assert ray.get(other.is_there.remote())
    try:
        pipeline = Pipeline({"response": stages.answer})
        tlocal = audited(pipeline, small_corpus(20), executor="ray", workers=2)
        assert tlocal[0] == audited(pipeline, small_corpus(20))[0]
    finally:
        ray.kill(other)


def test_what_cannot_be_sent_is_one_line(workers):
    lock = threading.Lock()

    def locked(inputs):
        with lock:
            return ["yes" for _ in inputs]

    with pytest.raises(TodBiasError, match=r"the system cannot be sent to Ray's workers .*; name its stages"):
        audited(Pipeline({"response": locked}), small_corpus(4), executor="ray", workers=1)


class Served(RemoteStage):
    client, concurrency = object(), 1

    def __call__(self, inputs):
        return []


def test_what_cannot_run_on_a_cluster_is_refused_before_any_call(gpt2, tmp_path):
    corpus = small_corpus(4)
    for pipeline, options, said in (
        (Pipeline({"response": Served()}), {"executor": "ray"}, "stage 'response' calls a server"),
        (Pipeline({"response": ApiCall(gpt2)}), {"executor": "ray"}, "by accelerate launch"),
        (Pipeline({"response": len}), {"executor": "slurm"}, "executor must be 'local' or 'ray', got 'slurm'"),
        (Pipeline({"response": len}), {"workers": 3}, "workers: executor 'ray' has them"),
        (Pipeline({"response": len}), {"executor": "ray", "workers": 0}, "workers must be at least 1, got 0"),
    ):
        with pytest.raises(TodBiasError, match=said):
            audited(pipeline, corpus, **options)
