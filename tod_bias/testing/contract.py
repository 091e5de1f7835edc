"""Contract tests of what a user adds: a stage, an axis, a kind of events, a corpus.

Subclass one in your own tests, give it the fixtures that it needs, and run pytest::

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
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import StageError
from tod_bias.metrics.events import Event
from tod_bias.metrics.events.facts import Facts
from tod_bias.perturb.axis import Axis, Candidate
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


class AxisContract:
    """Contract of every axis; needs the fixtures ``axis`` and ``dialogues``, of which it can rewrite some."""

    def test_admits_the_same_rewrites_every_time(self, axis: Axis, dialogues: Sequence[Dialogue]) -> None:
        selected = axis.select(dialogues)
        assert selected
        assert axis.select(dialogues) == selected
        for dialogue, _ in selected:
            candidates = axis.candidates(dialogue)
            assert candidates == sorted(set(candidates)) == axis.candidates(dialogue)

    def test_rewrites_one_of_its_groups_for_another(self, axis: Axis, dialogues: Sequence[Dialogue]) -> None:
        for dialogue, candidate in _admitted(axis, dialogues):
            assert {candidate.source, candidate.target} <= set(axis.groups)
            assert candidate.source != candidate.target
            rewrite = axis.rewrite(dialogue, candidate)
            assert (rewrite.axis, rewrite.source, rewrite.target) == (axis.name, candidate.source, candidate.target)

    def test_changes_texts_and_nothing_else(self, axis: Axis, dialogues: Sequence[Dialogue]) -> None:
        for dialogue, candidate in _admitted(axis, dialogues):
            before = dialogue.to_json()
            rewritten = axis.rewrite(dialogue, candidate)(dialogue)
            assert dialogue.to_json() == before
            assert rewritten != dialogue
            assert (rewritten.id, len(rewritten.turns)) == (dialogue.id, len(dialogue.turns))

    def test_every_rewrite_can_be_undone(self, axis: Axis, dialogues: Sequence[Dialogue]) -> None:
        for dialogue, candidate in _admitted(axis, dialogues):
            rewrite = axis.rewrite(dialogue, candidate)
            assert rewrite.inverse(rewrite(dialogue)) == dialogue

    def test_a_rewrite_does_not_depend_on_those_before(self, axis: Axis, dialogues: Sequence[Dialogue]) -> None:
        pairs = list(_admitted(axis, dialogues))
        first = [axis.rewrite(*pair)(pair[0]) for pair in pairs]
        assert [axis.rewrite(*pair)(pair[0]) for pair in pairs[::-1]] == first[::-1]


def _admitted(axis: Axis, dialogues: Iterable[Dialogue]) -> Iterator[tuple[Dialogue, Candidate]]:
    return ((dialogue, candidate) for dialogue, candidates in axis.select(list(dialogues)) for candidate in candidates)


class EventContract:
    """Contract of every kind of events; needs the fixtures ``kind``, a class, and ``turns``.

    The turns are the facts of variants of a turn, of which two or more differ in an event of this kind.
    """

    def test_turns_differ_in_an_event(self, kind: type[Event], turns: Sequence[Facts]) -> None:
        assert any(list(kind.differing(variants)) for variants in (turns, *combinations(turns, 2)))

    def test_turns_that_show_the_same_are_read_alike(self, kind: type[Event], turns: Sequence[Facts]) -> None:
        shown = [dict(kind.shown(facts)) for facts in turns]
        for event in _shown(kind, turns):
            readings: dict[float, set[float]] = {}
            for facts, places in zip(turns, shown, strict=True):
                if event.place in places:
                    readings.setdefault(places[event.place], set()).add(event.reading(facts)[0])
            assert not [value for value, happened in readings.items() if len(happened) > 1], event.name

    def test_a_name_is_one_line_and_names_one_event(self, kind: type[Event], turns: Sequence[Facts]) -> None:
        for event in _shown(kind, turns):
            again = kind.parsed(event.name.partition(":")[2])
            assert again is not None
            assert (again.name, again.place) == (event.name, event.place)
            assert len(event.name.splitlines()) == 1
            assert "," not in event.name

    def test_readings_are_within_its_range(self, kind: type[Event], turns: Sequence[Facts]) -> None:
        for event in _shown(kind, turns):
            low, high = event.range or (-math.inf, math.inf)
            for happened, could in (event.reading(facts) for facts in turns):
                assert low <= happened <= high
                assert could in (0.0, 1.0)

    def test_says_what_happens(self, kind: type[Event], turns: Sequence[Facts]) -> None:
        for event in _shown(kind, turns):
            assert event.label
            assert event.unit


def _shown(kind: type[Event], turns: Iterable[Facts]) -> list[Event]:
    return [kind(*place) for place in {place: None for facts in turns for place, _ in kind.shown(facts)}]


class CorpusContract:
    """Contract of every reader of a corpus; needs the fixture ``read``, a function that reads the dialogues anew."""

    def test_dialogues_have_different_ids(self, read: Callable[[], Iterable[Dialogue]]) -> None:
        dialogues = list(read())
        assert dialogues
        assert all(isinstance(dialogue, Dialogue) for dialogue in dialogues)
        assert len({dialogue.id for dialogue in dialogues}) == len(dialogues)

    def test_reads_the_same_every_time(self, read: Callable[[], Iterable[Dialogue]]) -> None:
        assert list(read()) == list(read())

    def test_every_user_says_something(self, read: Callable[[], Iterable[Dialogue]]) -> None:
        assert not [dialogue.id for dialogue in read() if not any(str(turn.user).strip() for turn in dialogue.turns)]

    def test_dialogues_survive_a_file(self, read: Callable[[], Iterable[Dialogue]]) -> None:
        for dialogue in read():
            text = json.dumps(dialogue.to_json(), allow_nan=False)
            assert Dialogue.from_json(json.loads(text.encode())) == dialogue
