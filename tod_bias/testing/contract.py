"""A contract test for stages: subclass it in your own tests, give it a stage and inputs, and run pytest.

::

    class TestMyStage(StageContract):
        @pytest.fixture
        def stage(self):
            return MyStage()

        @pytest.fixture
        def inputs(self):
            return inputs_of(load_corpus("demo", max_dialogues=3), pipeline, "my_stage")
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import StageError
from tod_bias.systems.execution import Run
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import Stage, StageInput, Wrapper, call_stage
from tod_bias.systems.twin import Twin


def inputs_of(dialogues: Sequence[Dialogue], pipeline: Pipeline | None = None, stage: str = "") -> list[StageInput]:
    """The inputs with which a pipeline calls one of its stages, for every turn of the dialogues with gold history.

    Args:
        dialogues: the corpus.
        pipeline: the system; its stages before ``stage`` are run. Without one there is one input per turn, and the
            outputs of ``api_call`` and ``db`` are the gold call and its result.
        stage: the name of the stage.

    Raises:
        StageError: the pipeline has no such stage or never calls it.
    """
    turns = [
        (turn, StageInput(run.dialogue.turns[:number], turn.user, system=run.dialogue.system))
        for run in map(Run, dialogues)
        for number, turn in enumerate(run.dialogue.turns)
    ]
    if pipeline is None:
        return [replace(item, outputs={"api_call": turn.api_call, "db": turn.api_result}) for turn, item in turns]
    if stage not in pipeline.stages:
        raise StageError(f"no stage {stage!r} in this pipeline; it has {', '.join(pipeline.stages)}")
    recorded = _Recorder(pipeline.stages[stage])
    replace(pipeline, stages={**pipeline.stages, stage: recorded})([item for _, item in turns])
    if not recorded.inputs:
        raise StageError(f"stage {stage!r}: the pipeline does not call it in these {len(dialogues)} dialogues")
    return recorded.inputs


class _Recorder(Wrapper):
    """Keeps what a stage is called with."""

    def __init__(self, inner: Stage) -> None:
        super().__init__(inner)
        self.inputs: list[StageInput] = []

    def __call__(self, inputs: Sequence[StageInput], /) -> Sequence[Any]:
        self.inputs += inputs
        return self.inner(inputs)


class StageContract:
    """Contract of every stage; needs the fixtures ``stage`` and ``inputs`` (two or more different inputs)."""

    def test_gives_an_output_per_input(self, stage: Stage, inputs: list[StageInput]) -> None:
        assert len(call_stage("stage", stage, inputs)) == len(inputs)
        assert call_stage("stage", stage, []) == []

    def test_leaves_its_inputs_alone(self, stage: Stage, inputs: list[StageInput]) -> None:
        before = copy.deepcopy(inputs)
        stage(inputs)
        assert inputs == before

    def test_same_input_gives_same_output(self, stage: Stage, inputs: list[StageInput]) -> None:
        assert call_stage("stage", stage, inputs) == call_stage("stage", stage, inputs)

    def test_output_does_not_depend_on_the_batch(self, stage: Stage, inputs: list[StageInput]) -> None:
        together = call_stage("stage", stage, inputs)
        assert [call_stage("stage", stage, [item])[0] for item in inputs] == together
        assert call_stage("stage", stage, inputs[::-1]) == together[::-1]

    def test_twin_is_the_stage_where_nothing_was_rewritten(self, stage: Stage, inputs: list[StageInput]) -> None:
        assert call_stage("twin", Twin(stage), inputs) == call_stage("stage", stage, inputs)
