"""Running a pipeline over dialogues: which calls its stages get, and whose history."""

import numpy as np
import pytest
import torch
from builders import outputs_of, small_corpus

from tod_bias import Dialogue, Pipeline, StageInput, Step, Turn, attribute
from tod_bias.audit import design
from tod_bias.errors import StageError
from tod_bias.systems.execution import Execution, Run


def repr_whole(value):
    return repr(value.tolist()) if hasattr(value, "tolist") else repr(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda number: np.full(5000, float(number)) + np.eye(1, 5000, 2500)[0] * number,
        lambda number: [number % 2 == 0, 1, 1.0] if number % 2 else [0, True, 1],
        lambda number: (({}, [], ())[number % 3],),
        lambda number: torch.full((3,), 1 + number * 1e-6),
    ],
    ids=["arrays", "numbers", "nothing", "tensors"],
)
def test_a_stage_is_called_for_every_different_value(corpus, make):
    def belief(inputs):
        return [make(sum(map(ord, item.user))) for item in inputs]

    def reply(inputs):
        return [repr_whole(item.outputs["belief"]) for item in inputs]

    traces = Execution(Pipeline({"belief": belief, "reply": reply}))([Run(dialogue) for dialogue in corpus])
    for dialogue, trace in zip(corpus, traces, strict=True):
        for turn, outputs in zip(dialogue.turns, outputs_of(trace), strict=True):
            assert outputs["reply"] == repr_whole(*belief([StageInput((), turn.user)]))


def test_a_stage_is_called_for_every_different_history():
    def last_result(inputs):
        return [str(item.history[-1].api_results[1:]) if item.history else "" for item in inputs]

    found = [Step({"a": "b"}, ({"name": "x"}, {"name": f"y{n}"})) for n in range(4)]
    dialogues = [
        Dialogue(str(n), "", (Turn("find", steps=(step,), response="x"), Turn.with_call("and?", {}, {}, "z")))
        for n, step in enumerate(found)
    ]
    traces = Execution(Pipeline({"response": last_result}))([Run(dialogue) for dialogue in dialogues])
    assert len({outputs_of(trace)[1]["response"] for trace in traces}) == 4


def test_free_running_history_is_that_of_the_system(corpus):
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


QUICK = {"bootstrap": 0, "permutations": 0, "design": "draws", "draws": 1}


def test_a_dialogue_without_an_output_does_not_stop_a_run_wherever_it_stands(monkeypatch):
    response = "Of course, in which city shall I look for it?"
    corpus = [*small_corpus(12), Dialogue("zz", "", (Turn("my wife asks zzz", response=response),))]
    pipeline = Pipeline({"response": lambda inputs: [None if "zzz" in item.user else response for item in inputs]})
    whole = attribute(pipeline, corpus, **QUICK).axes
    monkeypatch.setattr(design, "CHUNK", 1)
    assert attribute(pipeline, corpus, **QUICK).axes == whole
    with pytest.raises(StageError, match="stage 'response': returned None every time"):
        attribute(Pipeline({"response": lambda inputs: [None] * len(inputs)}), corpus, **QUICK)
