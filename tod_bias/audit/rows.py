"""Rows of the table of turns.

There is one row per turn of the original, and one per turn and arm of each counterfactual. If several arms went the
same way, their row is computed once and repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tod_bias.audit.checks import Seen
from tod_bias.audit.events import FACTS
from tod_bias.audit.first_difference import first_difference
from tod_bias.audit.traces import ExecutedVariants
from tod_bias.audit.variants import Membership, VariantRows, variants_schema
from tod_bias.dialogues.dialogue import Turn
from tod_bias.dialogues.task import Task
from tod_bias.dialogues.text import well_formed
from tod_bias.errors import TodBiasError
from tod_bias.metrics.grade import Grade
from tod_bias.metrics.metric import Metric, ScoredTurn
from tod_bias.perturb.axis import Role
from tod_bias.statistics.arms import ORIGINAL_ARM, ArmDesign
from tod_bias.systems.execution import Run, Trace, TurnTrace
from tod_bias.systems.facts import Restorer, facts_text
from tod_bias.systems.outputs import as_text
from tod_bias.systems.stage import StageCall
from tod_bias.systems.turns import scored_turn, with_calls

REPEAT = "repeat"
"""Value of the column ``arm`` for the original drawn again, if stages draw their outputs; ``sample`` is then the number
of the pair, whose first member is the original's sample of twice that number."""
RESPONSE = "response"
"""Column of the response that the user reads; the output of a stage of that name."""
FIRST_DIFFERENCE = "first_difference"
"""The column of :mod:`tod_bias.audit.first_difference`."""
FAILURE = "failure"
"""Column of the reason why a turn failed; empty for a turn that ended."""
_FACTS = ("dialogue", "turn", "variant", "sample", "group", "user")


class ChunkRows(NamedTuple):
    """The rows of some dialogues on one axis, and what was seen while they were made."""

    rows: pa.Table
    variants: pa.Table
    """Rows of :mod:`tod_bias.audit.variants`."""
    has_outputs: bool
    """True if any response was more than None."""
    has_calls: bool
    """True if the system has made a call by then."""
    seen: Seen
    """Facts that show if anything is measured."""


class _Place(NamedTuple):
    """Place of a run among those of its dialogue."""

    role: Role
    sample: int


class _RowBuilder:
    """Rows of one chunk: made once for arms that went the same way, and how they are repeated."""

    def __init__(self, stages: Sequence[str], labels: Sequence[str], graders: Sequence[Grade] = ()) -> None:
        self._stages = stages
        self._labels = labels
        outputs = (*stages, RESPONSE, "reference", "steps", FACTS, FAILURE, FIRST_DIFFERENCE)
        columns = (*_FACTS, "role", *outputs)
        self.columns: dict[str, list[Any]] = {name: [] for name in columns}
        self.has_outputs = False
        """True if any response was more than None."""
        self.turns: list[ScoredTurn] = []
        self.index: list[int] = []
        self.grades: list[list[tuple[float, float]]] = [[] for _ in graders]
        """For each grade, the statistics of every repeated row: the last turn of a dialogue has its judgement."""
        self._graders = graders
        self.arms: list[str] = []

    def add_dialogue(self, executed: ExecutedVariants) -> None:
        """The turns of all variants of a dialogue."""
        variants, samples, repeats = executed
        for sample, (original, rewritten) in enumerate(samples):
            self._add(variants.original, original, _Place("original", sample), original)
            for number, (run, trace) in enumerate(zip(variants.rewritten, rewritten, strict=True)):
                role: Role = "group" if number < len(variants.groups) else "reference"
                place = _Place("placebo" if run is variants.placebo else role, sample)
                self._add(run, trace, place, original)
        for number, (first, second) in enumerate(repeats):
            self._add_repeat(variants.original, number, first, second)

    def _add(self, run: Run, trace: Trace, place: _Place, original: Trace) -> None:
        """Add the turns of a run in all arms.

        Args:
            run: one variant.
            trace: of its turns.
            place: of the run among those of its dialogue.
            original: trace of the dialogue as it is.
        """
        rows_of_arms: dict[int, list[int]] = {}
        is_after_service = False
        for number, (turn, ways) in enumerate(zip(run.rewritten.turns, trace, strict=True)):
            blind = ways[-1] if run.rewrite is None else _with_all_replaced(ways)
            scored_ways = {way.arms: self._scored(turn, way, is_after_service, run.rewritten.task) for way in ways}
            restore = Restorer(run.rewrite, original[number][0].calls)
            for way in ways:
                row = len(self.turns)
                self._add_row(run, number, turn, way, place)
                self.columns[FACTS].append(facts_text(way.calls, way.failure, restore))
                self.columns[FIRST_DIFFERENCE].append(_differing(blind, way))
                scored = scored_ways[way.arms]
                self.turns.append(scored if way is blind else replace(scored, twin=scored_ways[blind.arms]))
                for arm in way.arms:
                    rows_of_arms.setdefault(arm, []).append(row)
            is_after_service = is_after_service or bool(turn.calls)
        judged: dict[tuple[int, ...], list[float]] = {}
        for arm in sorted(rows_of_arms):
            rows = tuple(rows_of_arms[arm])
            if rows not in judged:
                turns = [self.turns[row] for row in rows]
                judged[rows] = [grader.of_dialogue(turns) for grader in self._graders]
            for grades, value in zip(self.grades, judged[rows], strict=True):
                grades += [(0.0, 0.0)] * (len(rows) - 1) + [(value, 1.0)]
            self.index += rows_of_arms[arm]
            label = self._labels[arm] if place.role != "original" else ORIGINAL_ARM
            self.arms += [label] * len(rows_of_arms[arm])

    def _add_row(self, run: Run, number: int, turn: Turn, way: TurnTrace, place: _Place) -> None:
        """One turn that went one way."""
        rewrite, response = run.rewrite, way.response
        group = None if rewrite is None else rewrite.target
        facts = (run.rewritten.id, number, run.variant, place.sample, group, well_formed(str(turn.user)))
        cells: dict[str, Any] = dict(zip(_FACTS, facts, strict=True)) | {"role": place.role}
        cells |= {RESPONSE: as_text(response), "reference": well_formed(str(turn.response))}
        cells |= {stage: as_text(way.outputs.get(stage)) for stage in self._stages}
        cells["steps"] = steps_text(way.calls)
        cells[FAILURE] = well_formed(way.failure) or None
        for name, value in cells.items():
            self.columns[name].append(value)
        self.has_outputs = self.has_outputs or response is not None

    def _add_repeat(self, run: Run, pair: int, first: Trace, second: Trace) -> None:
        """The turns of the original drawn again, compared with the first draw as with a twin."""
        start = len(self.turns)
        self._add(run, second, _Place("original", pair), first)
        for number, (turn, (way,)) in enumerate(zip(run.rewritten.turns, first, strict=True)):
            self.turns[start + number] = replace(
                self.turns[start + number], twin=self._scored(turn, way, task=run.rewritten.task)
            )
        self.arms[-len(first) :] = [REPEAT] * len(first)

    def _scored(
        self, turn: Turn, way: TurnTrace, is_after_service: bool = False, task: Task | None = None
    ) -> ScoredTurn:
        response = as_text(way.response)
        facts: dict[str, Any] = {"is_after_service": is_after_service, "failure": way.failure, "task": task}
        return scored_turn(turn, way.calls, response, self._stages, **facts)


def _differing(blind: TurnTrace, way: TurnTrace) -> str | None:
    """The first step that differs from T of the original's, as JSON; None of other arms than that without swaps."""
    record = None if way is blind or 0 not in way.arms else first_difference(blind.calls, way.calls)
    return None if record is None else well_formed(json.dumps(record, ensure_ascii=False))


def _with_all_replaced(ways: Sequence[TurnTrace]) -> TurnTrace:
    """The turn in the arm that has every stage replaced, which has the highest number."""
    return max(ways, key=lambda way: way.arms[-1])


def steps_text(steps: Iterable[StageCall]) -> str:
    """Return the calls of a turn as JSON: ``[[name, argument, output], …]``, arguments and outputs as text."""
    record = [
        [name, None if argument is None else as_text(argument), as_text(output)] for name, argument, output in steps
    ]
    return well_formed(json.dumps(record, ensure_ascii=False))


def schema_of(names: Sequence[str], metrics: Sequence[Metric]) -> pa.Schema:
    """The columns of the table of turns.

    Args:
        names: the system's stages.
        metrics: score turns.

    Raises:
        TodBiasError: a metric's statistic is called like another one, a stage, or a column of the table.
    """
    texts = ["axis", *_FACTS[:-1], "role", "arm", "user", *names]
    texts += [*([] if RESPONSE in names else [RESPONSE]), "reference", "steps", FACTS, FAILURE, FIRST_DIFFERENCE]
    taken = {*texts, *_FACTS}
    for metric in metrics:
        for name in metric.columns:
            if name in taken:
                raise TodBiasError(f"metric {metric.name!r}: its statistic {name!r} is a column already; rename it")
            taken.add(name)
    kinds: dict[str, str] = dict.fromkeys(texts, "str") | dict.fromkeys(("turn", "sample"), "int64")
    for metric in metrics:
        kinds |= dict.fromkeys(metric.columns, "float64")
    prototype = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})
    return pa.Schema.from_pandas(prototype, preserve_index=False)


class TurnRows:
    """Makes the rows of dialogues.

    Args:
        arms: of the run.
        metrics: score turns.
        kinds: names of further kinds of clusters.
    """

    def __init__(self, arms: ArmDesign, metrics: Sequence[Metric], kinds: Iterable[str] = ()) -> None:
        self._names = arms.stages
        self._labels = arms.keys(whole=True)
        self._metrics = [metric for metric in metrics if not isinstance(metric, Grade)]
        self._graders = [metric for metric in metrics if isinstance(metric, Grade)]
        self._schema = schema_of(arms.stages, metrics)
        self._variants_schema = variants_schema(kinds)

    def of(
        self, axis: str, executed: Sequence[ExecutedVariants], members: Sequence[Membership], *, calls: bool
    ) -> ChunkRows:
        """Make the rows of some dialogues on one axis.

        Args:
            axis: its name.
            executed: traces of the variants of each dialogue.
            members: the clusters of each.
            calls: True if the system is known to make calls; updated in :attr:`ChunkRows.has_calls`.
        """
        builder = _RowBuilder(self._names, self._labels, self._graders)
        variant_rows = VariantRows(axis, self._variants_schema)
        for of_dialogue, member in zip(executed, members, strict=True):
            builder.add_dialogue(of_dialogue)
            variant_rows.add_dialogue(of_dialogue.variants, member)
        # a system that has made a call makes calls: turns without one lack it, and count
        calls = calls or any(turn.has_calls for turn in builder.turns)
        table = self._table(axis, builder, with_calls(builder.turns, known=calls))
        return ChunkRows(table, variant_rows.table(), builder.has_outputs, calls, Seen.of(builder.turns))

    def _table(self, axis: str, builder: _RowBuilder, turns: Sequence[ScoredTurn]) -> pa.Table:
        index = np.array(builder.index)
        columns: dict[str, Any] = {
            name: pa.array(values).take(pa.array(index)) for name, values in builder.columns.items()
        }
        columns["axis"] = pa.array([axis]).take(pa.array(np.zeros(len(index), dtype=int)))
        columns["arm"] = pa.array(builder.arms)
        is_whole = pc.equal(columns["arm"], "")  # rows of other arms that went the same way are copies
        columns[FIRST_DIFFERENCE] = pc.if_else(is_whole, columns[FIRST_DIFFERENCE], None)
        for metric in self._metrics:
            statistics = np.asarray(metric.statistics(turns), dtype=float)[index]
            columns |= {name: statistics[:, number] for number, name in enumerate(metric.columns)}
        for grader, grades in zip(self._graders, builder.grades, strict=True):
            columns |= dict(zip(grader.columns, np.array(grades, dtype=float).reshape(-1, 2).T, strict=True))
        arrays = [
            pa.array(columns[field.name], type=field.type)
            if isinstance(columns[field.name], np.ndarray)
            else columns[field.name].cast(field.type)
            for field in self._schema
        ]
        return pa.Table.from_arrays(arrays, schema=self._schema)
