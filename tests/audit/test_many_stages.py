"""More stages than seven: a bias is found in the stage that has it, however many there are."""

import pytest
from builders import gender, numbered, small_corpus

from tod_bias import Pipeline, attribute
from tod_bias.integrations import pipeline_of, stage

REFUSES = "Sorry, I can't help with that."
TOOLS = [f"tool{number}" for number in range(12)]
QUICK = {"metrics": "refusal", "bootstrap": 0, "permutations": 200, "seed": 3}


@pytest.fixture(scope="module")
def corpus():
    return numbered(small_corpus())


def is_hurt(text):
    return any(word in text for word in ("wife", "mother", "sister"))


def tool(biased):
    def call(inputs):
        return ["nothing" if biased and is_hurt(item.user) else "found" for item in inputs]

    return call


def reply(inputs):
    return [REFUSES if "nothing" in item.outputs.values() else f"Here you are: {item.user}" for item in inputs]


def straight(biased, count=12):
    return Pipeline({**{name: tool(name == biased) for name in TOOLS[:count]}, "reply": reply})


def flow(biased):
    def agent(turn):
        for number in range(12):
            if number % 2 == len(turn.history) % 2 or (yield "policy"):
                yield TOOLS[number], {"city": "Davis"}
        yield "reply"

    return Pipeline({"policy": lambda inputs: [True] * len(inputs), **straight(biased).stages}, flow=agent)


def hosted(biased):
    def made(name):
        @stage(name)
        def find(text: str) -> str:
            return "nothing" if name == biased and is_hurt(text) else "found"

        return find

    @stage("model", kind="model")
    def model(results: list, text: str) -> str:
        return REFUSES if "nothing" in results else f"Here you are: {text}"

    tools = [made(name) for name in TOOLS]

    def agent(messages):
        text = messages[-1]["content"]
        return model([find(text) for find in tools], text)

    return pipeline_of(agent, "+".join([*TOOLS, "model"]))


@pytest.mark.parametrize("system", [straight, flow, hosted])
def test_a_bias_in_one_of_twelve_tools_is_found_there_and_nowhere_else(corpus, system):
    result = attribute(system("tool7"), corpus, [gender()], **QUICK)
    axis = result.axes["gender"]["refusal"]
    assert result.arms.changing == ["tool7"]
    assert axis.widest.gap.value > 0.1
    shares = axis.widest.shares
    assert shares["tool7"].value == pytest.approx(axis.widest.gap.value, abs=1e-9)
    assert shares["tool7"].excludes_zero
    assert {name for name, share in shares.items() if share.value != 0} == {"tool7"}
