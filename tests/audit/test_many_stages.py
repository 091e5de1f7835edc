"""More stages than seven: a bias is found in the stage that has it, however many there are."""

import dataclasses
import json
import sys
from pathlib import Path
from zlib import crc32

import pytest
from builders import gender, numbered, small_corpus

from tod_bias import Pipeline, attribute, compare, load_pipeline
from tod_bias.errors import StageError
from tod_bias.integrations import pipeline_of, stage
from tod_bias.results import AuditResult, RunError

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from many_stages import Part, coverage, worlds

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
    assert result.attribution.changing == ["tool7"]
    assert axis.widest.gap.value > 0.1
    shares = axis.widest.shares
    assert shares["tool7"].value == pytest.approx(axis.widest.gap.value, abs=1e-9)
    assert shares["tool7"].excludes_zero
    assert {name for name, share in shares.items() if share.value != 0} == {"tool7"}


def sorting(name):
    """A tool that fails some of the dialogues that are about women; either of two tools suffices for each of them."""

    def call(inputs):
        return [
            "nothing"
            if is_hurt(item.user) and crc32(item.context.encode()) % 10 in (name, (name + 1) % 10)
            else "found"
            for item in inputs
        ]

    return call


def test_orders_are_drawn_where_ten_stages_change_something_and_runs_are_read_back(corpus, tmp_path):
    pipeline = Pipeline({**{f"tool{number}": sorting(number) for number in range(10)}, "reply": reply})
    result = attribute(pipeline, corpus, [gender()], out=tmp_path / "run", **QUICK)
    assert result.attribution.permutations in (12, 24, 48)
    for part in (result.axes["gender"]["refusal"], *result.axes["gender"]["refusal"].groups.values()):
        whole = part.gap.value if hasattr(part, "gap") else part.disparity.value
        assert sum(share.value for share in part.shares.values()) == pytest.approx(whole, abs=1e-9)
        assert all(entry.replaced_alone and entry.left_alone for entry in part.contributions.values())
    record = json.loads((tmp_path / "run" / "results.json").read_text())
    for odd in ({"groups": {"x": ["nobody"]}}, {"changing": [f"tool{number}" for number in range(9)]}):
        (tmp_path / "odd").mkdir(exist_ok=True)
        (tmp_path / "odd" / "results.json").write_text(json.dumps({**record, "attribution": odd}))
        with pytest.raises(RunError, match="attribution: "):
            AuditResult.load(tmp_path / "odd")
    again = compare(tmp_path / "run", tmp_path / "run")
    assert again.same
    assert again.axes["gender"]["refusal"].groups["woman"].contributions["tool3"].change.value == 0


def test_groups_share_a_gap_out_first(corpus, tmp_path):
    """Two tools fail the same people, so that either suffices; the one in a group of its own has half of the gap."""
    stages = {"a": tool(True), "b": tool(True), "c": tool(True), "reply": reply}
    result = attribute(Pipeline(stages, groups={"bc": ["b", "c"]}), corpus, [gender()], **QUICK)
    widest = result.axes["gender"]["refusal"].widest
    whole = widest.gap.value
    expected = {"a": whole / 2, "b": whole / 4, "c": whole / 4, "reply": 0}
    assert {name: share.value for name, share in widest.shares.items()} == pytest.approx(expected)
    assert widest.stage_groups["bc"].value == pytest.approx(whole / 2)


def test_a_pipeline_file_and_the_kinds_of_an_agents_calls_say_groups(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        'stages: {a: {stage: "os:stat", group: files}, b: "os:stat", c: {stage: "os:listdir", group: files}}'
    )
    assert load_pipeline(path).groups == {"files": ("a", "c")}
    assert hosted("").groups == {"tools": tuple(TOOLS), "models": ("model",)}
    with pytest.raises(StageError, match="stage 'a': is in the groups 'x' and 'y'"):
        Pipeline({"a": reply}, groups={"x": ["a"], "y": ["a"]})
    with pytest.raises(StageError, match="group 'x': no stage 'b'"):
        Pipeline({"a": reply}, groups={"x": ["b"]})


@pytest.mark.slow
def test_intervals_hold_the_shares_of_stages_whose_orders_are_drawn():
    """Short; tests/benchmarks/many_stages.py makes the whole table."""
    twos = next(world for world in worlds() if "either of two" in world.about)
    seen = coverage(twos, 24, seed=1)
    assert 0.89 <= seen["coverage"] <= 0.99
    assert seen["bias"] < 0.006
    few = dataclasses.replace(twos, parts=[Part(range(6), 0.3), Part(range(6, 12), 0.3, needs_all=False)], spread=0.002)
    assert coverage(few, 24, seed=2, pairs=6)["coverage"] > 0.85  # nearly all error is that of drawing orders
