"""Hosted agents: one that owns its loop, on an event loop of its own, whose calls are those of a flow."""

import asyncio
import gc
import itertools
import random
import re
import resource
import threading
import time
from pathlib import Path

import pytest
from builders import WORDS, gender
from flows import about_people, number_in

from tod_bias import Pipeline, attribute
from tod_bias.dialogues.dialogue import flat_call
from tod_bias.errors import StageError
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.flow import FlowTurn
from tod_bias.systems.hosted import AgentRequest, AgentStage, EventLoop, HostedFlow, ask, ask_from_thread

QUICK = {"axes": ["gender"], "bootstrap": 20, "permutations": 20}


def mentions_woman(text):
    return any(word in text for word in WORDS)


def request(turn):
    return AgentRequest([turn.user], "instructions")


async def book(turn):
    calls = (await ask("model", request(turn)))["calls"]
    random.shuffle(calls)
    results = await asyncio.gather(*(ask("tools", call) for call in calls))
    return f"I found {', '.join(sorted(results))}."


async def book_on_a_thread(turn):
    def answer():
        calls = ask_from_thread("model", request(turn))["calls"]
        return f"I found {', '.join(sorted(ask_from_thread('tools', call) for call in calls))}."

    return await asyncio.to_thread(answer)


def pipeline(agent=book, biased="", tools=3, timeout=5):
    async def model(asked, before):
        (user,) = asked.content
        seats = 0 if biased == "model" and mentions_woman(user) else number_in(user)
        return {"calls": [flat_call("find", {"seats": seats + n, "who": user.split()[1]}) for n in range(tools)]}

    async def find(call, before):
        return "no place" if biased == "tools" and mentions_woman(call["who"]) else f"place {call['seats']}"

    stages = {"model": AgentStage(model, f"model {biased}"), "tools": AgentStage(find, f"tools {biased}")}
    return Pipeline(stages, flow=HostedFlow(agent, "Booking", timeout))


@pytest.mark.parametrize("agent", [book, book_on_a_thread])
@pytest.mark.parametrize("biased", ["", "model", "tools"])
def test_a_bias_is_found_where_it_is(agent, biased):
    result = attribute(pipeline(agent, biased), about_people(), **QUICK)
    woman = result.axes["gender"]["corpus_bleu"].groups["woman"]
    assert (woman.gap.value > 0.1) == bool(biased)
    shares = {name: part.shapley.value for name, part in woman.contributions.items()}
    assert shares == {name: pytest.approx(woman.gap.value if name == biased else 0, abs=1e-12) for name in shares}


def test_an_agent_that_draws_its_outputs_takes_samples():
    draws = itertools.count()

    async def model(request, before):
        return {"calls": [flat_call("find", {"seats": next(draws) % 3})]}

    async def find(call, before):
        return f"place {call['seats']}"

    stages = {"model": AgentStage(model, is_random=True), "tools": AgentStage(find)}
    drawing = Pipeline(stages, flow=HostedFlow(book, "Booking"))
    result = attribute(drawing, about_people(), **QUICK, samples=2)
    sampling = result.axes["gender"]["corpus_bleu"].sampling
    assert (sampling.samples, sampling.noise.draws) == (2, 2)
    assert result.cost.distinct["tools"] == 3
    assert result.cost.distinct["model"] == next(draws) > 2 * len(about_people())


def test_parallel_calls_are_one_batch_in_an_order_of_their_own():
    process = pipeline(tools=30).start(FlowTurn("My wife wants a table for 4", ()))
    process.send({"calls": [flat_call("find", {"seats": n}) for n in range(30)]})
    seats = []
    while process.request is not None:
        seats.append(process.request[1]["seats"])
        process.send(f"place {seats[-1]}")
    assert seats == sorted(range(30), key=lambda n: f"{n}}}")
    assert process.reply.count("place") == 30


def executed(made, count=6):
    dialogues = about_people(count)
    axis = gender()
    runs = [Run(d, axis.rewrite(d, axis.candidates(d)[0])) for d in dialogues]
    execution = Execution(made)
    return execution, execution([*map(Run, dialogues), *runs])


def test_a_turn_in_which_an_agent_fails_is_an_outcome_and_counted():
    async def fails(turn):
        if "for 3" in turn.user:
            raise KeyError("table 3")
        return await book(turn)

    result = attribute(pipeline(fails), about_people(), **QUICK)
    (failed,) = result.failed.values()
    assert all(group.turns >= 1 for group in failed.values())
    assert "KeyError: 'table 3' at " in str(failed["original"].reasons)
    assert result.turns.query("failure.notna()").response.eq("").all()

    async def always_fails(turn):
        raise KeyError("x")

    with pytest.raises(StageError, match=r"none of 32 turns came to its end \(agent Booking: KeyError: 'x'"):
        attribute(pipeline(always_fails), about_people(), **QUICK)


async def waits(turn):
    await asyncio.Event().wait()


async def blocks_a_thread(turn):
    await asyncio.to_thread(time.sleep, 60)


async def blocks_the_loop(turn):
    time.sleep(60)


@pytest.mark.parametrize("hangs", [waits, blocks_a_thread, blocks_the_loop])
def test_a_turn_in_which_an_agent_hangs_fails(hangs):
    async def agent(turn):
        return await (hangs if "for 3" in turn.user else book)(turn)

    _, traces = executed(pipeline(agent, timeout=0.3))
    failures = {number: way.failure for number, trace in enumerate(traces) for way in trace[0] if way.failure}
    assert list(failures) == [3, 9]
    assert re.match("agent Booking: neither called a stage nor came to its end within 0.3 s in the", failures[3])


def test_an_agent_that_behaves_differently_is_told_with_both_requests():
    number = itertools.count()

    async def unsteady(turn):
        return str(await ask("model", AgentRequest([f"{turn.user} Try {next(number)}."])))

    with pytest.raises(StageError, match=r"agent Booking: behaved differently .*: first .*Try \d+.*, then .*Try \d+"):
        attribute(pipeline(unsteady), about_people(), **QUICK)

    async def unsteady_reply(turn):
        await ask("model", request(turn))
        return f"reply {next(number)}"

    with pytest.raises(StageError, match=r"behaved differently .*: first reply \d+, then reply \d+"):
        attribute(pipeline(unsteady_reply), about_people(), **QUICK)


def test_abandoned_agents_let_go():
    before = threading.active_count()
    for agent in (book, book_on_a_thread):
        made = pipeline(agent)
        processes = [made.start(FlowTurn(f"table for {n}", ())) for n in range(50)]
        assert all(process.request for process in processes)
        del processes
        gc.collect(2)
        deadline = time.monotonic() + 5
        while (threading.active_count() > before + 1 or tasks()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert threading.active_count() <= before + 1
        assert not tasks()


def tasks():
    async def others():
        return len(asyncio.all_tasks()) - 1

    return EventLoop.current().run(others())


@pytest.mark.slow
def test_memory_and_threads_stay_flat_over_many_conversations():
    made = pipeline(biased="model")
    executed(made, 60)
    gc.collect(2)
    before = len(gc.get_objects()), memory(), threading.active_count()
    for _ in range(4):
        executed(made, 60)  # a leak of one object a conversation shows
        gc.collect(2)
    assert len(gc.get_objects()) < before[0] + 200
    assert memory() < before[1] + 20
    assert threading.active_count() <= before[2]


def memory():
    """Megabytes that the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


@pytest.mark.parametrize(("agents", "tools"), [(1, 15), (32, 1)])
def test_calls_at_once_are_made_at_once(agents, tools):
    """Those of one agent, and those of 32: within 1.25 times the three calls that have to wait for one another."""
    latency, ends = 0.5, []

    async def slow(argument, before):
        await asyncio.sleep(latency)
        ends.append(time.monotonic())
        return "found"

    async def agent(turn):
        await ask("model", request(turn))
        calls = [flat_call("find", {"n": n, "who": turn.user}) for n in range(tools)]
        await asyncio.gather(*(ask(stage, call) for stage in ("tools", "days") for call in calls))
        return str(await ask("model", AgentRequest([turn.user], "finally")))

    made = Pipeline({name: AgentStage(slow, concurrency=32) for name in ("model", "tools", "days")}, HostedFlow(agent))
    begun = time.monotonic()
    Execution(made)([Run(dialogue) for dialogue in about_people(agents)])
    assert len(ends) == agents * (2 + 2 * tools)
    assert max(ends) - begun < 1.25 * 3 * latency
