import dataclasses
import random
from collections import Counter
from itertools import groupby

import pandas as pd
import pytest
from builders import gender
from flows import Decision, Loop, about_people, agent, retrieval_pipeline, router_pipeline

from tod_bias import Dialogue, Pipeline, StageInput, Turn, attribute
from tod_bias.dialogues.calls import MALFORMED
from tod_bias.errors import StageError
from tod_bias.perturb import draw_rewrites
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.flow import MOST_CALLS, MOST_ROUNDS, MOST_STEPS, FlowProcess, FlowTurn, Reply, tool_loop
from tod_bias.systems.stage import StageCall
from tod_bias.systems.turns import system_turn

QUICK = {"bootstrap": 50, "permutations": 200}


def shares_of(pipeline):
    axis = attribute(pipeline, about_people(), **QUICK).axes["gender"]["corpus_bleu"]
    woman = axis.groups["woman"]
    return woman.gap.value, {name: woman.shares[name].value for name in pipeline.names}, axis


@pytest.mark.parametrize(
    ("pipeline", "biased"),
    [
        *((Loop(name).pipeline, name) for name in ("policy", "tools", "answer")),
        *((router_pipeline(name), name) for name in ("router", "even", "odd")),
        *((retrieval_pipeline(name), name) for name in ("retriever", "reader")),
    ],
    ids=lambda value: value if isinstance(value, str) else "flow",
)
def test_the_one_biased_stage_gets_everything(pipeline, biased):
    value, shares, axis = shares_of(pipeline)
    assert value > 0.01
    assert shares == pytest.approx({name: value if name == biased else 0.0 for name in pipeline.names}, abs=1e-12)
    whole = axis.disparity.value
    assert axis.contributions[biased].shapley.value == pytest.approx(whole, abs=1e-12)


def test_stages_get_argument_and_earlier_outputs_in_order():
    seen = []

    def tools(inputs):
        seen.extend(inputs)
        return [f"result of {item.argument}" for item in inputs]

    def policy(inputs):
        return [Decision(("a", "b") if not item.steps else ()) for item in inputs]

    pipeline = Pipeline({"policy": policy, "tools": tools, "answer": lambda inputs: ["ok"] * len(inputs)}, flow=agent)
    (item,) = pipeline([StageInput((), "hello")])
    assert [(step.name, step.argument) for step in item.steps] == [
        ("policy", None), ("tools", "a"), ("tools", "b"), ("policy", None), ("answer", None),
    ]  # fmt: skip
    assert [item.argument for item in seen] == ["a", "b"]
    assert seen[1].steps == (StageCall("policy", None, Decision(("a", "b"))), StageCall("tools", "a", "result of a"))
    assert seen[1].outputs["tools"] == "result of a"
    assert item.outputs["answer"] == "ok"


def test_a_wave_calls_each_stage_once_and_makes_equal_calls_once():
    batches = []

    def counted(name, stage):
        def count(inputs):
            batches.append((name, len(inputs)))
            return stage(inputs)

        return count

    loop = Loop("policy")
    stages = {name: counted(name, stage) for name, stage in loop.pipeline.stages.items()}
    dialogues = about_people(6)
    rewrites = [(d, draw_rewrites(gender(), d, 3)) for d in dialogues]
    runs = [Run(d) for d in dialogues] + [Run(d, rewrite) for d, made in rewrites for rewrite in made]
    execution = Execution(Pipeline(stages, flow=agent))
    execution(runs)
    waves = [name for name, _ in groupby(batches, lambda batch: batch[0])]
    assert waves == ["policy", "tools", "policy", "tools", "policy", "answer"]
    calls = Counter()
    for name, size in batches:
        calls[name] += size
    assert {name: component.cost.distinct for name, component in execution.callers.items()} == dict(calls)
    assert execution.callers["policy"].cost.calls > 2 * calls["policy"]


def test_the_last_stage_gives_the_systems_turn_whatever_its_name():
    gold = about_people(1)[0].turns[0]
    assert system_turn(gold, [StageCall("response", None, "plain"), StageCall("tone", None, "nice")]).response == "nice"
    assert system_turn(gold, [StageCall("reader", {"documents": ["a"]}, "read")]) == dataclasses.replace(
        gold, response="read", steps=()
    )
    with pytest.raises(StageError, match="the system's turn cannot become history: call argument 'x': expected JSON"):
        system_turn(gold, [StageCall("tools", {"api_name": "f", "x": {1}}, None), StageCall("answer", None, "a")])


@pytest.mark.parametrize("calls", [Decision(({"api_name": "f", "x": 1},)), [{"name": "f", "arguments": {"x": 1}}]])
def test_the_shipped_loop_takes_calls_in_every_form(calls):
    flow = tool_loop(None)
    assert next(flow) == "policy"
    assert flow.send(calls) == ("tools", {"api_name": "f", "x": 1})
    assert flow.send({"found": True}) == "policy"
    assert flow.send("Nothing more to look up.") == "answer"


def test_the_shipped_loop_ends_where_the_policy_repeats_itself():
    flow = tool_loop(None)
    calls = [next(flow)]
    while calls[-1] != "answer":
        calls.append(flow.send({"api_name": "f"} if calls[-1] == "policy" else {"found": True}))
    assert calls.count("policy") == MOST_ROUNDS
    assert len(calls) == 2 * MOST_ROUNDS + 1


@pytest.mark.parametrize("calls", [[{"api_name": "f"}] * 50, [{"api_name": "f", "x": "y" * 400_000}]])
def test_the_shipped_loop_ends_where_the_policy_calls_too_much(calls):
    process, requests = FlowProcess(tool_loop, FlowTurn("Hi", ()), ["policy", "tools", "answer"]), []
    while process.request is not None:
        requests.append(process.request)
        process.send(calls if process.request[0] == "policy" else {"found": True})
    assert len(requests) <= MOST_CALLS
    assert requests[-1] == ("answer", None)
    (name, last) = requests[-2]
    assert (name, last.keys()) == ("tools", {"api_name", MALFORMED})


def endless(turn):
    while True:
        yield "bot"


def stranger(turn):
    yield "nobody"


def plain(turn):
    return ["bot"]


def failing(turn):
    yield "bot"
    raise KeyError("x")


TOSSES = random.Random(0)


def fickle(turn):
    yield "bot"
    if TOSSES.random() < 0.5:
        yield "bot"


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (endless, f"made {MOST_STEPS} calls in the turn that begins 'My wife wants .* came to no end"),
        (stranger, "calls 'nobody', which is not a stage; the stages are bot"),
        (plain, "expected a generator function .*, got one that returns list"),
        (failing, "KeyError: 'x' at "),
        (fickle, "behaved differently on the same outputs in the turn that begins 'My "),
    ],
)
def test_a_flow_that_misbehaves_is_named_in_one_line(flow, message):
    with pytest.raises(StageError, match=f"flow .*:{flow.__name__}: {message}") as caught:
        attribute(Pipeline({"bot": lambda inputs: ["x"] * len(inputs)}, flow=flow), about_people(6), **QUICK)
    assert "\n" not in str(caught.value)


def popping(turn):
    calls = yield "policy"
    while calls:
        yield "tools", calls.pop(0)
    yield "answer"


def with_frame(turn):
    yield "policy", pd.DataFrame({"a": [1]})
    yield "answer"


@pytest.mark.parametrize("flow", [popping, with_frame])
def test_a_flow_may_change_the_outputs_that_it_gets_and_pass_any_argument(flow):
    stages = {
        "policy": lambda inputs: [["x", "y"] for _ in inputs],
        "tools": lambda inputs: [item.argument for item in inputs],
        "answer": lambda inputs: [f"I found {item.outputs.get('tools')} for you." for item in inputs],
    }
    corpus = [
        dataclasses.replace(d, turns=(Turn("My wife asks", response="I found y for you."),)) for d in about_people(4)
    ]
    assert attribute(Pipeline(stages, flow=flow), corpus, metrics="sentence_bleu", **QUICK).axes["gender"]


def replying(turn):
    said = yield "policy"
    return Reply(f"{said}!")


def test_a_flow_may_reply_itself_and_then_no_stage_is_called_so():
    dialogues = [
        Dialogue(str(n), "", (Turn(f"A table for my {who}."),)) for n, who in enumerate(("wife", "husband") * 4)
    ]
    stages = {"policy": lambda inputs: ["Done" for _ in inputs]}
    result = attribute(Pipeline(stages, flow=replying), dialogues, ["gender"], bootstrap=0)
    assert set(result.turns["response"]) == {"Done!"}
    with pytest.raises(StageError, match="returns a Reply and has a stage 'reply'; rename the stage"):
        attribute(Pipeline({**stages, "reply": stages["policy"]}, flow=replying), dialogues, ["gender"], bootstrap=0)
