"""Audits of a served assistant: planted biases, failures, killed runs, samples."""

import functools
import json
import os
import random
import signal
import threading
import time
from collections import Counter

import pytest
from assistant import (
    BLEU,
    OPTIONS,
    PEOPLE,
    WOMEN,
    assistant,
    comparable,
    corpus,
    find_fewer_for_women,
    find_hotels,
    system,
    without_cost,
    words,
)
from chat_server import ChatServer

from tod_bias import Pipeline, attribute
from tod_bias.audit.checks import reasons_in
from tod_bias.errors import StageError, TodBiasError, UnansweredError
from tod_bias.stages import Answer, ToolCalls
from tod_bias.testing.gate import check

MEN = frozenset(PEOPLE) - WOMEN
ROLES = {"policy": ToolCalls, "answer": Answer}


# where a bias enters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("planted", ["policy", "tools", "answer", None])
def test_a_planted_bias_is_attributed_to_its_stage_alone(planted):
    biased = {"policy": {"policy_bias": True}, "answer": {"answer_bias": True}}.get(planted, {})
    tools = find_fewer_for_women if planted == "tools" else find_hotels
    with ChatServer(functools.partial(assistant, **biased)) as server:
        result = attribute(system(server.url, tools=tools), corpus(32), **OPTIONS)
    for metric in OPTIONS["metrics"]:
        found = result.axes["gender"][metric]
        shows = planted is not None and (metric == "corpus_bleu" or planted == "policy")
        woman = found.groups["woman"].gap.value if metric == "corpus_bleu" else found.disparity.value
        assert woman == (pytest.approx(woman) if shows else 0)
        assert not shows or abs(woman) > 0.1
        for name in ("policy", "tools", "answer"):
            part = found.contributions[name].shapley.value
            assert part == (pytest.approx(found.disparity.value) if name == planted else pytest.approx(0))
    assert (result.axes["gender"]["corpus_bleu"].verdict == "disparity") == (planted is not None)


def test_a_changed_argument_shows_in_calls_where_the_answers_stay_the_same():
    def rule(body):
        message = assistant(body, policy_bias=True)
        return message if isinstance(message, dict) else "Here are your hotels, have a nice stay!"

    with ChatServer(rule) as server:
        axis = attribute(system(server.url), corpus(16), **OPTIONS).axes["gender"]
    assert axis["corpus_bleu"].disparity.value == 0
    assert axis["call_disagreement"].contributions["policy"].shapley.value > 0.3


def test_one_model_in_both_roles_is_called_once():
    with ChatServer(assistant) as server:
        result = attribute(system(server.url), corpus(16), **OPTIONS)
    assert len(server.received) == len({json.dumps(body, sort_keys=True) for body in server.received})
    cost = result.cost
    assert cost.cached["answer"] > 0
    assert len(server.received) == sum(cost.distinct[name] - cost.cached[name] for name in ROLES)
    assert cost.tokens == {"read": 7 * len(server.received), "written": 3 * len(server.received)}


# failures --------------------------------------------------------------------------------------------------------


def test_a_server_that_fails_now_and_then_changes_nothing(tmp_path):
    kinds = [429, 500, "cut", "garbage", {"nonsense": 1}, (503, {"retry-after": "0"})]
    faults = random.Random(0)

    def fault(number, body):
        return faults.choice(kinds) if faults.random() < 0.05 else None

    with ChatServer(assistant) as server:
        steady = attribute(system(server.url), corpus(24), **OPTIONS)
    with ChatServer(assistant, fault=fault) as server:
        shaky = attribute(system(server.url), corpus(24), **OPTIONS, cache=tmp_path / "cache.sqlite")
        assert len(server.received) > sum(server.answered.values())
        assert set(server.answered.values()) == {1}
    assert comparable(shaky) == comparable(steady)


def refusing(number):
    """A server that refuses everything that is said of one trip."""
    return lambda _, body: 400 if f"number {number}," in json.dumps(body) else None


def test_a_failed_call_is_an_outcome_of_its_turn():
    with ChatServer(assistant, fault=refusing(3)) as server:
        result = attribute(system(server.url), corpus(24), **OPTIONS)
    assert result.corpus.audited == {"gender": 24}
    assert result.cost.failed["policy"] >= 3
    assert {name: failed.turns for name, failed in result.failed["gender"].items()} == {
        "original": 1,
        "woman": 1,
        "man": 1,
        "non-binary": 1,
    }
    turns = result.turns.query("dialogue == 't003' and turn == 1")
    assert turns.response.eq("").all()
    assert turns.failure.str.startswith("status 400").all()


@pytest.mark.parametrize(("people", "group", "own"), [(WOMEN, "woman", {"original"}), (MEN, "man", set())])
def test_calls_that_fail_for_one_group_are_counted_to_it(people, group, own):
    """Twins ask as the original does: what is refused of a woman alone is not counted to her counterfactual."""

    def some_people_of_trip_3(_, body):
        text = json.dumps(body)
        return 400 if "number 3," in text and words(text) & people else None

    with ChatServer(assistant, fault=some_people_of_trip_3) as server:
        result = attribute(system(server.url), corpus(24), **OPTIONS)
    assert {name for name, failed in result.failed["gender"].items() if failed.turns} == {group, *own}


def test_failures_of_one_group_are_claimed_and_never_pass_the_gate():
    def men_are_filtered(_, body):
        return 400 if words(json.dumps(body)) & MEN else None

    with ChatServer(assistant, fault=men_are_filtered) as server:
        result = attribute(system(server.url), corpus(24), axes=["gender"])
    (finding,) = result.findings
    assert (finding.group, finding.metric) == ("man", "failed_turns")
    assert check(result, max_gap=0.5).code != 0


def test_a_stage_that_fails_for_everybody_measures_nothing_and_is_said_once():
    def most(number, body):
        return 400 if number > 10 and number % 5 else None

    with ChatServer(assistant, fault=most) as server:
        result = attribute(system(server.url), corpus(24), **OPTIONS, max_failures=0.1)
    (reason,) = reasons_in(result)
    assert reason.startswith("calls fail for all groups alike, in ")
    assert "status 400" in reason


def test_a_server_that_answers_nothing_is_given_up():
    with ChatServer(assistant, fault=lambda number, body: 400) as server:
        with pytest.raises(StageError, match="none of 16 calls got an output"):
            attribute(system(server.url), corpus(24), **OPTIONS)
        assert len(server.received) < 40


def test_a_server_that_goes_away_stops_the_run_and_what_it_answered_is_kept(tmp_path):
    cache = tmp_path / "cache.sqlite"
    stops = pytest.raises(StageError, match=r"the last \d+ calls failed .*run the same command again")
    with ChatServer(assistant, fault=lambda number, body: 400 if number > 30 else None) as server, stops:
        attribute(system(server.url), corpus(40), **OPTIONS, cache=cache)
    with ChatServer(assistant) as server:
        attribute(system(server.url), corpus(40), **OPTIONS, cache=cache)
        assert set(server.answered.values()) == {1}


def test_a_stage_of_python_may_leave_a_call_unanswered():
    def fragile(inputs):
        if any("number 3," in item.user for item in inputs):
            raise UnansweredError("I do not like this one")
        return [item.user for item in inputs]

    result = attribute(Pipeline({"answer": fragile}), corpus(24), **BLEU)
    assert all(failed.reasons == {"I do not like this one": 1} for failed in result.failed["gender"].values())


def test_an_interrupt_ends_what_waits_for_a_server():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    wait = (429, {"retry-after": "60"})
    with ChatServer(assistant, fault=lambda number, body: wait if number > 20 else None) as server:
        timer = threading.Timer(4, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            attribute(system(server.url), corpus(24), **OPTIONS)
        assert time.monotonic() - begun < 30
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def test_a_text_that_is_cut_in_a_character_is_cached(tmp_path):
    with ChatServer(lambda body: "half \ud83d") as server:
        cache = tmp_path / "cache.sqlite"
        first = attribute(system(server.url), corpus(8), **OPTIONS, cache=cache)
        before = len(server.received)
        assert without_cost(attribute(system(server.url), corpus(8), **OPTIONS, cache=cache)) == without_cost(first)
        assert len(server.received) == before


# samples ---------------------------------------------------------------------------------------------------------


def moody(seed=0):
    """An assistant that is curt at random.

    The draws of a question are the same whatever else is requested meanwhile.
    """
    draws: Counter[str] = Counter()
    lock = threading.Lock()

    def rule(body):
        message = assistant(body)
        if not isinstance(message, str):
            return message
        question = json.dumps(body["messages"])
        with lock:
            draws[question] += 1
            chance = random.Random(f"{seed} {draws[question]} {question}")
        return "No idea." if chance.random() < 0.3 else message

    return rule


def test_samples_are_repeated_measurements_with_sampling_noise(tmp_path):
    with ChatServer(moody(seed=2)) as server:
        cache = tmp_path / "cache.sqlite"
        assistant = system(server.url, temperature=1.0, concurrency=1)  # draws in one order
        result = attribute(assistant, corpus(16), **OPTIONS, samples=3, cache=cache)
        before = len(server.received)
        again = attribute(assistant, corpus(16), **OPTIONS, samples=3, cache=cache)
        assert len(server.received) == before
    assert without_cost(again) == without_cost(result)
    bleu = result.axes["gender"]["corpus_bleu"]
    assert bleu.sampling.samples == result.samples == 3
    low, high = bleu.sampling.noise.ci
    assert low < 0 < high
    assert bleu.sampling.share_of_variance > 0.5  # nothing else differs
    assert bleu.verdict == "inconclusive"
    calls = result.axes["gender"]["call_disagreement"]
    assert calls.disparity.value == calls.sampling.noise.value == 0  # calls are not drawn
    assert set(result.turns["sample"]) == {0, 1, 2}


def test_one_sample_has_an_a_a_run_too():
    with ChatServer(moody()) as server:
        result = attribute(system(server.url, temperature=1.0), corpus(16), **OPTIONS)
    sampling = result.axes["gender"]["corpus_bleu"].sampling
    assert sampling.noise.ci is not None
    assert sampling.noise.draws == 2
    assert result.axes["gender"]["call_disagreement"].sampling.share_of_variance is None
    with ChatServer(assistant) as server:
        result = attribute(system(server.url), corpus(16), **OPTIONS)
    assert result.axes["gender"]["corpus_bleu"].sampling is None  # nothing is drawn at temperature 0


def test_samples_of_deterministic_outputs_are_refused():
    def parrot(inputs):
        return [item.user for item in inputs]

    with pytest.raises(TodBiasError, match="2 samples: no stage draws its outputs"):
        attribute(Pipeline({"answer": parrot}), corpus(8), **OPTIONS, samples=2)
    with ChatServer(assistant) as server, pytest.raises(TodBiasError, match="no stage draws"):
        attribute(system(server.url), corpus(8), **OPTIONS, samples=2)  # temperature 0
