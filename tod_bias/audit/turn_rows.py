"""The rows of some dialogues in the table of turns.

There is one row a turn of the original run, and one a turn, telling and arm of the rewritten ones. Rows of arms that
went the same way are made once and repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tod_bias.audit.measured import Seen
from tod_bias.dialogues.text import well_formed
from tod_bias.errors import TodBiasError
from tod_bias.metrics.metric import Metric, ScoredTurn
from tod_bias.perturb.axis import Role, Variants
from tod_bias.systems.execution import Run, Trace, TurnTrace, all_arms, arm_key
from tod_bias.systems.outputs import as_text
from tod_bias.systems.stage import StageCall
from tod_bias.systems.turns import scored_turn, with_calls

if TYPE_CHECKING:
    import pyarrow as pa

ORIGINAL = "original"
"""What the column ``arm`` says of the original run."""
REPEAT = "repeat"
"""What it says of the original drawn again, where stages draw their outputs; ``sample`` is then the number of the pair,
whose first is the original's sample of twice that number."""
RESPONSE = "response"
"""The column of what the user is told; the output of a stage of that name."""
_FACTS = ("dialogue", "turn", "variant", "sample", "source", "group", "term", "user")


class Membership(NamedTuple):
    """The clusters that one dialogue and its counterfactuals belong to."""

    term: str
    """The term that stands for the dialogue."""
    terms: Sequence[frozenset[str]]
    """Per counterfactual: all terms that it rests on."""
    kinds: Mapping[str, str]
    """Further kinds of clusters, and the dialogue's own."""

    def text(self, number: int) -> str:
        """That of one counterfactual as JSON, for the column ``clusters``."""
        record = {"term": self.term, "terms": sorted(self.terms[number]), "kinds": dict(self.kinds)}
        return well_formed(json.dumps(record, ensure_ascii=False))


class Sampled(NamedTuple):
    """One dialogue with all its tellings along one axis, as the system told them once."""

    original: Trace
    rewritten: Sequence[Trace]
    """Of the copies, the references, then of the placebo."""


class Record(NamedTuple):
    """One dialogue with all its tellings along one axis, as the system told them."""

    retold: Variants
    samples: Sequence[Sampled]
    """One, or several where components draw their answers."""
    pairs: Sequence[tuple[Trace, Trace]] = ()
    """Where they do: the original, and the original from other draws; no draw is in two pairs."""


class ChunkRows(NamedTuple):
    """The rows of some dialogues on one axis, and what was seen while they were made."""

    rows: pa.Table
    has_outputs: bool
    """Whether any response was more than None."""
    has_calls: bool
    """Whether the system has made a call by then."""
    seen: Seen
    """What tells whether anything is measured."""


class _Place(NamedTuple):
    """Where a run stands among those of its dialogue."""

    role: Role
    sample: int
    clusters: str | None = None
    edits: float | None = None
    """Words that its rewriting changes."""


class _Rows:
    """Rows of one chunk: made once for arms that went the same way, and how they are repeated."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._labels = [arm_key(arm) for arm in all_arms(names)]
        columns = (*_FACTS, "clusters", "role", "edits", *names, RESPONSE, "reference", "steps")
        self.columns: dict[str, list[Any]] = {name: [] for name in columns}
        self.answered = False
        """Whether any last component put out anything."""
        self.told: list[ScoredTurn] = []
        self.index: list[int] = []
        self.arms: list[str] = []

    def add(self, run: Run, trace: Trace, place: _Place) -> None:
        """The turns of a run in all arms."""
        dialogue, rewrite = run.rewritten, run.rewrite
        kind = (None, None, None) if rewrite is None else (rewrite.source, rewrite.target, rewrite.word)
        arms: dict[int, list[int]] = {}
        columns = self.columns
        for number, (turn, courses) in enumerate(zip(dialogue.turns, trace, strict=True)):
            blind = courses[-1] if rewrite is None else _with_all_swapped(courses)
            twin = scored_turn(turn, blind.calls, as_text(blind.response), self._names)
            for course in courses:
                row = len(columns["turn"])
                outputs = course.outputs
                facts = (dialogue.id, number, run.variant, place.sample, *kind, well_formed(str(turn.user)))
                for name, value in zip(_FACTS, facts, strict=True):
                    columns[name].append(value)
                columns["clusters"].append(place.clusters)
                columns["role"].append(place.role)
                columns["edits"].append(place.edits)
                for name in self._names:
                    columns[name].append(as_text(outputs.get(name)))
                columns["reference"].append(well_formed(str(turn.response)))
                self.answered = self.answered or course.response is not None
                if RESPONSE not in self._names:
                    columns[RESPONSE].append(as_text(course.response))
                columns["steps"].append(steps_text(course.calls))
                as_told = scored_turn(turn, course.calls, as_text(course.response), self._names)
                self.told.append(as_told if course is blind else replace(as_told, twin=twin))
                for arm in course.arms:
                    arms.setdefault(arm, []).append(row)
        for arm in sorted(arms):
            self.index += arms[arm]
            self.arms += [self._labels[arm] if place.role != "original" else ORIGINAL] * len(arms[arm])

    def add_repeat(self, run: Run, pair: int, first: Trace, second: Trace) -> None:
        """The turns of the original drawn again, compared with the first draw as with a twin."""
        start = len(self.told)
        self.add(run, second, _Place("original", pair))
        for number, (turn, (course,)) in enumerate(zip(run.rewritten.turns, first, strict=True)):
            before = scored_turn(turn, course.calls, as_text(course.response), self._names)
            self.told[start + number] = replace(self.told[start + number], twin=before)
        self.arms[-len(first) :] = [REPEAT] * len(first)


def _with_all_swapped(courses: Sequence[TurnTrace]) -> TurnTrace:
    """The course of the arm that has every component swapped, which has the highest number."""
    return max(courses, key=lambda course: course.arms[-1])


def steps_text(steps: Iterable[StageCall]) -> str:
    """Everything that was asked in a turn as JSON: ``[[name, argument, output], …]``, arguments and outputs as text."""
    record = [
        [name, None if argument is None else as_text(argument), as_text(output)] for name, argument, output in steps
    ]
    return well_formed(json.dumps(record, ensure_ascii=False))


def schema_of(names: Sequence[str], metrics: Sequence[Metric]) -> pa.Schema:
    """The columns of the table of turns.

    Args:
        names: the system's components.
        metrics: score turns.

    Raises:
        TodBiasError: a metric's statistic is called like another one, a component, or a column of the table.
    """
    import pandas as pd
    import pyarrow as pa

    texts = ["axis", *_FACTS[:-1], "clusters", "role", "arm", "user", *names]
    texts += [*([] if RESPONSE in names else [RESPONSE]), "reference", "steps"]
    there = {*texts, *_FACTS, "edits"}
    for metric in metrics:
        for name in metric.columns:
            if name in there:
                raise TodBiasError(f"metric {metric.name!r}: its statistic {name!r} is a column already; rename it")
            there.add(name)
    kinds: dict[str, str] = dict.fromkeys(texts, "str") | {"turn": "int64", "sample": "int64"}
    kinds["edits"] = "float64"
    for metric in metrics:
        kinds |= dict.fromkeys(metric.columns, "float64")
    prototype = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})
    return pa.Schema.from_pandas(prototype, preserve_index=False)


class TurnRows:
    """Makes the rows of dialogues and their sums.

    Args:
        names: the system's components.
        metrics: score turns.
    """

    def __init__(self, names: Sequence[str], metrics: Sequence[Metric]) -> None:
        self._names = tuple(names)
        self._metrics = metrics
        self._schema = schema_of(names, metrics)

    def of(self, axis: str, records: Sequence[Record], members: Sequence[Membership], *, calls: bool) -> ChunkRows:
        """The rows of some dialogues on one axis.

        Args:
            axis: its name.
            records: a dialogue each.
            members: the clusters of each.
            calls: whether the system is known to make calls; :attr:`ChunkRows.has_calls` says so from then on.
        """
        import pyarrow as pa

        rows = _Rows(self._names)
        for (retold, samples, pairs), member in zip(records, members, strict=True):
            clusters = [member.text(copy) for copy in range(len(retold.groups))]
            wanted, given = (None, None) if retold.edits is None else retold.edits
            for sample, (trace, traces) in enumerate(samples):
                rows.add(retold.original, trace, _Place("original", sample))
                for number, (copy, copy_trace) in enumerate(zip(retold.rewritten, traces, strict=True)):
                    if number < len(clusters):
                        place = _Place("group", sample, clusters[number], wanted)
                    elif copy is retold.placebo:
                        place = _Place("placebo", sample, edits=given)
                    else:
                        place = _Place("reference", sample)
                    rows.add(copy, copy_trace, place)
            for number, (first, second) in enumerate(pairs):
                rows.add_repeat(retold.original, number, first, second)
        # a system that has made a call makes calls: turns without one lack it, and count
        calls = calls or any(turn.has_calls for turn in rows.told)
        told_turns = with_calls(rows.told, known=calls)
        index = np.array(rows.index)
        columns: dict[str, Any] = {
            name: pa.array(values).take(pa.array(index)) for name, values in rows.columns.items()
        }
        columns["axis"] = pa.array([axis]).take(pa.array(np.zeros(len(index), dtype=int)))
        columns["arm"] = pa.array(rows.arms)
        for metric in self._metrics:
            table = np.asarray(metric.statistics(told_turns), dtype=float)[index]
            columns |= {name: table[:, number] for number, name in enumerate(metric.columns)}
        arrays = [
            pa.array(columns[field.name], type=field.type)
            if isinstance(columns[field.name], np.ndarray)
            else columns[field.name].cast(field.type)
            for field in self._schema
        ]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        return ChunkRows(table, rows.answered, calls, Seen.of(rows.told))
