"""Running a pipeline over dialogues: what its stages are asked, and whose history they see."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from builders import outputs_of

from tod_bias import Pipeline
from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.stage import StageInput


@dataclass(frozen=True)
class Belief:
    text: str
    weights: object = field(repr=False)


def belief_stage(make):
    """A stage that hands on a large value, made of what the user says."""
    return lambda inputs: [make(sum(map(ord, item.user))) for item in inputs]


@pytest.mark.parametrize(
    "make",
    [
        lambda number: np.full(5000, float(number)) + np.eye(1, 5000, 2500)[0] * number,
        lambda number: Belief("same", number),
        lambda number: [number % 2 == 0, 1, 1.0] if number % 2 else [0, True, 1],
        lambda number: (({}, [], ())[number % 3],),
        lambda number: torch.full((3,), 1 + number * 1e-6),
    ],
)
def test_stage_is_asked_about_every_different_value(corpus, make):
    asked = []

    def reply(inputs):
        asked.extend(repr_whole(item.outputs["belief"]) for item in inputs)
        return [repr_whole(item.outputs["belief"]) for item in inputs]

    def repr_whole(value):
        if isinstance(value, Belief):
            return repr(value.weights)
        return repr(value.tolist()) if hasattr(value, "tolist") else repr(value)

    stage = belief_stage(make)
    runs = [Run(dialogue) for dialogue in corpus]
    traces = Execution(Pipeline({"belief": stage, "reply": reply}))(runs)
    for run, trace in zip(runs, traces, strict=True):
        for turn, outputs in zip(run.dialogue.turns, outputs_of(trace), strict=True):
            (value,) = stage([StageInput((), turn.user)])
            assert outputs["reply"] == repr_whole(value)
    assert len(set(asked)) > 1


def test_stage_is_asked_about_every_different_history():
    def last_result(inputs):
        return [str(item.history[-1].api_results[1:]) if item.history else "" for item in inputs]

    dialogues = [
        Dialogue(
            str(n),
            "",
            (
                Turn("find", steps=(Step({"a": "b"}, ({"name": "x"}, {"name": f"y{n}"})),), response="x"),
                Turn.with_call("and?", {}, {}, "z"),
            ),
        )
        for n in range(4)
    ]
    traces = Execution(Pipeline({"response": last_result}))([Run(dialogue) for dialogue in dialogues])
    assert len({outputs_of(trace)[1]["response"] for trace in traces}) == 4


def test_free_running_history_is_the_systems_own(corpus):
    seen = []

    def response(inputs: list[StageInput]) -> list[str]:
        seen.extend(inputs)
        return [f"answer {len(item.history)} to {item.user}" for item in inputs]

    pipeline = Pipeline({"response": response})
    Execution(pipeline, "system")([Run(corpus[1])])
    assert seen[1].history[0].response == f"answer 0 to {corpus[1].turns[0].user}"
    seen.clear()
    Execution(pipeline, "gold")([Run(corpus[1])])
    assert seen[1].history == corpus[1].turns[:1]
