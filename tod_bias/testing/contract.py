"""A contract test for stages: subclass it in your own tests, give it a stage and inputs, and run pytest.

::

    class TestMyStage(StageContract):
        @pytest.fixture
        def stage(self):
            return MyStage()

        @pytest.fixture
        def inputs(self):
            return inputs_of(load_corpus("demo", max_dialogues=3))
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.systems.execution import Run
from tod_bias.systems.stage import Stage, StageInput, call_stage
from tod_bias.systems.twin import Twin


def inputs_of(dialogues: Sequence[Dialogue]) -> list[StageInput]:
    """One stage input a turn with gold history; outputs of earlier stages are the gold call and result."""
    return [
        StageInput(
            run.dialogue.turns[:number],
            turn.user,
            {"api_call": turn.api_call, "db": turn.api_result},
            system=run.dialogue.system,
        )
        for run in map(Run, dialogues)
        for number, turn in enumerate(run.dialogue.turns)
    ]


class StageContract:
    """What every stage must keep; needs the fixtures ``stage`` and ``inputs`` (two or more different inputs)."""

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
