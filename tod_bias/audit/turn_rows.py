"""The rows of some dialogues in the table of turns, and what they sum to.

There is one row a turn of the original run, and one a turn, telling and arm of the rewritten ones. Rows of arms that
went the same way are made once and repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tod_bias.audit.measured import Seen
from tod_bias.dialogues.text import well_formed
from tod_bias.errors import TodBiasError
from tod_bias.metrics.metric import Metric, Told
from tod_bias.perturb.axis import Variants
from tod_bias.statistics.sums import sums_by
from tod_bias.systems.execution import Course, Run, Trace, all_arms, arm_key
from tod_bias.systems.outputs import as_text
from tod_bias.systems.stage import Asked
from tod_bias.systems.told import told, with_calls

if TYPE_CHECKING:
    import pyarrow as pa

ORIGINAL = "original"
"""What the column ``arm`` says of the original run."""
_FACTS = ("dialogue", "turn", "draw", "sample", "source", "target", "word", "user")


class Membership(NamedTuple):
    """The clusters that one dialogue and its rewritten tellings belong to."""

    word: str
    """The word that stands for the dialogue."""
    words: Sequence[frozenset[str]]
    """Of every copy: all words that it rests on."""
    kinds: Mapping[str, str]
    """Further kinds of clusters, and the dialogue's own."""

    def text(self, copy: int) -> str:
        """That of one copy as JSON, for the column ``clusters``."""
        record = {"word": self.word, "words": sorted(self.words[copy]), "kinds": dict(self.kinds)}
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


@dataclass(frozen=True)
class Selection:
    """Statistics of answers that are drawn, before they are averaged over samples."""

    told: np.ndarray
    """(samples, tellings, 2, statistics): without swaps, and with all components swapped."""
    once: np.ndarray
    """(dialogues, statistics), mean over pairs of draws: of the original, against itself."""
    again: np.ndarray
    """(dialogues, statistics), mean over pairs of draws: of the original drawn again, against the first."""


@dataclass(frozen=True)
class Sums:
    """Statistics of one chunk and axis, summed over the turns of each telling; arrays by metric."""

    original: Mapping[str, np.ndarray]
    """(dialogues, statistics) of the original runs."""
    told: Mapping[str, np.ndarray]
    """(tellings, arms, statistics), arms as :func:`tod_bias.systems.execution.all_arms` orders them."""
    placebo: Mapping[str, np.ndarray]
    """(placebo tellings, arms, statistics)."""
    references: Mapping[str, np.ndarray]
    """(tellings that are nobody's, arms, statistics)."""
    answered: bool = True
    """Whether any response was more than None."""
    calls: bool = False
    """Whether the system has made a call by then."""
    seen: Seen = field(default_factory=Seen)
    """What tells whether anything is measured."""
    drawn: Mapping[str, Selection] = field(default_factory=dict)
    """By metric, where components draw their answers."""


class _Rows:
    """Rows of one chunk: made once for arms that went the same way, and how they are repeated."""

    def __init__(self, names: Sequence[str], flow: bool) -> None:
        self._names = names
        self._labels = [arm_key(arm) for arm in all_arms(names)]
        columns = (*_FACTS, "clusters", *names, "reference")
        self.columns: dict[str, list[Any]] = {name: [] for name in columns}
        if flow:
            self.columns["steps"] = []
        self.answered = False
        """Whether any last component put out anything."""
        self.told: list[Told] = []
        self.index: list[int] = []
        self.arms: list[str] = []
        self.starts: list[int] = []  # where the turns of one run and arm begin

    def add(
        self, run: Run, draw: int | None, sample: int, trace: Trace, label: str | None, clusters: str | None = None
    ) -> None:
        dialogue, rewrite = run.rewritten, run.rewrite
        kind = (None, None, None) if rewrite is None else (rewrite.source, rewrite.target, rewrite.word)
        arms: dict[int, list[int]] = {}
        columns = self.columns
        for number, (turn, courses) in enumerate(zip(dialogue.turns, trace, strict=True)):
            blind = courses[-1] if rewrite is None else _with_all_swapped(courses)
            twin = told(turn, blind.steps, as_text(blind.response), self._names)
            for course in courses:
                row = len(columns["turn"])
                outputs = course.outputs
                facts = (dialogue.id, number, draw, sample, *kind, well_formed(str(turn.user)))
                for name, value in zip(_FACTS, facts, strict=True):
                    columns[name].append(value)
                columns["clusters"].append(clusters)
                for name in self._names:
                    columns[name].append(as_text(outputs.get(name)))
                columns["reference"].append(well_formed(str(turn.response)))
                self.answered = self.answered or course.response is not None
                if "steps" in columns:
                    columns["steps"].append(steps_text(course.steps))
                as_told = told(turn, course.steps, as_text(course.response), self._names)
                self.told.append(as_told if course is blind else replace(as_told, twin=twin))
                for arm in course.arms:
                    arms.setdefault(arm, []).append(row)
        for arm in sorted(arms):
            self.starts.append(len(self.index))
            self.index += arms[arm]
            self.arms += [self._labels[arm] if label is None else label] * len(arms[arm])


def _with_all_swapped(courses: Sequence[Course]) -> Course:
    """The course of the arm that has every component swapped, which has the highest number."""
    return max(courses, key=lambda course: course.arms[-1])


def steps_text(steps: Iterable[Asked]) -> str:
    """Everything that was asked in a turn as JSON: ``[[name, argument, output], …]``, arguments and outputs as text."""
    record = [
        [name, None if argument is None else as_text(argument), as_text(output)] for name, argument, output in steps
    ]
    return well_formed(json.dumps(record, ensure_ascii=False))


def schema_of(names: Sequence[str], metrics: Sequence[Metric], *, flow: bool) -> pa.Schema:
    """The columns of the table of turns.

    Args:
        names: the system's components.
        metrics: score turns.
        flow: whether the system has a flow of its own, which may ask a component several times.

    Raises:
        TodBiasError: a metric's statistic is called like another one, a component, or a column of the table.
    """
    import pandas as pd
    import pyarrow as pa

    texts = ["axis", *_FACTS[:-1], "clusters", "arm", "user", *names, "reference"]
    there = {*texts, *_FACTS, "steps"}
    for metric in metrics:
        for name in metric.columns:
            if name in there:
                raise TodBiasError(f"metric {metric.name!r}: its statistic {name!r} is a column already; rename it")
            there.add(name)
    kinds: dict[str, str] = dict.fromkeys(texts, "str") | {"turn": "int64", "draw": "Int64", "sample": "int64"}
    if flow:
        kinds["steps"] = "str"
    for metric in metrics:
        kinds |= dict.fromkeys(metric.columns, "float64")
    prototype = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})
    return pa.Schema.from_pandas(prototype, preserve_index=False)


class TurnRows:
    """Makes the rows of dialogues and their sums.

    Args:
        names: the system's components.
        metrics: score turns.
        flow: whether the system has a flow of its own, which may ask a component several times.
    """

    def __init__(self, names: Sequence[str], metrics: Sequence[Metric], *, flow: bool = False) -> None:
        self._names = tuple(names)
        self._metrics = metrics
        self._flow = flow
        self._schema = schema_of(names, metrics, flow=flow)

    def of(
        self, axis: str, records: Sequence[Record], members: Sequence[Membership], *, calls: bool
    ) -> tuple[Sums, pa.Table]:
        """What some dialogues sum to on one axis, and their rows.

        Args:
            axis: its name.
            records: a dialogue each.
            members: the clusters of each.
            calls: whether the system is known to make calls; :attr:`Sums.calls` says so from then on.
        """
        import pyarrow as pa

        rows = _Rows(self._names, self._flow)
        for (retold, samples, _), member in zip(records, members, strict=True):
            clusters = [member.text(copy) for copy in range(len(retold.groups))]
            for sample, (trace, traces) in enumerate(samples):
                rows.add(retold.original, None, sample, trace, ORIGINAL)
                for draw, (copy, copy_trace) in enumerate(zip(retold.rewritten, traces, strict=True)):
                    own = clusters[draw] if draw < len(clusters) else None
                    rows.add(copy, draw, sample, copy_trace, None, own)
        # a system that has made a call makes calls: turns without one lack it, and count
        calls = calls or any(turn.has_calls for turn in rows.told)
        told_turns = with_calls(rows.told, known=calls)
        index = np.array(rows.index)
        columns: dict[str, Any] = {
            name: pa.array(values).take(pa.array(index)) for name, values in rows.columns.items()
        }
        columns["axis"] = pa.array([axis]).take(pa.array(np.zeros(len(index), dtype=int)))
        columns["arm"] = pa.array(rows.arms)
        tables: dict[str, np.ndarray] = {}
        for metric in self._metrics:
            tables[metric.name] = table = np.asarray(metric.statistics(told_turns), dtype=float)[index]
            columns |= {name: table[:, number] for number, name in enumerate(metric.columns)}
        arrays = [
            pa.array(columns[field.name], type=field.type)
            if isinstance(columns[field.name], np.ndarray)
            else columns[field.name].cast(field.type)
            for field in self._schema
        ]
        return self._sums(rows, tables, records, calls), pa.Table.from_arrays(arrays, schema=self._schema)

    def _sums(self, rows: _Rows, tables: Mapping[str, np.ndarray], records: Sequence[Record], calls: bool) -> Sums:
        """Sums over the turns of each run and arm, mean over samples: of each, the runs stand one after the other."""
        arms = 2 ** len(self._names)
        starts = np.array(rows.starts)
        samples = len(records[0].samples)
        originals: list[int] = []
        places: dict[str, list[int]] = {kind: [] for kind in _KINDS}
        at = 0
        for record in records:
            for _ in range(samples):
                originals.append(at)
                at += 1
                for kind, some in _kinds(record.retold).items():
                    places[kind] += range(at, at + arms * len(some), arms)
                    at += arms * len(some)
        every_arm = np.arange(arms)
        original: dict[str, np.ndarray] = {}
        parts: dict[str, dict[str, np.ndarray]] = {kind: {} for kind in _KINDS}
        drawn: dict[str, Selection] = {}
        by_metric = {metric.name: metric for metric in self._metrics}
        for name, table in tables.items():
            summed = np.add.reduceat(table, starts, axis=0)
            original[name] = _by_sample(summed[originals], [1] * len(records), samples).mean(axis=0)
            by_sample: dict[str, np.ndarray] = {}
            for kind, there in places.items():
                chosen = np.array(there, dtype=int)[:, None] + every_arm
                found = summed[chosen.ravel()].reshape(len(there), arms, table.shape[1])
                counts = [len(_kinds(record.retold)[kind]) for record in records]
                by_sample[kind] = _by_sample(found, counts, samples)
                parts[kind][name] = by_sample[kind].mean(axis=0)
            if any(record.pairs for record in records):
                drawn[name] = Selection(by_sample["told"][:, :, [0, -1]], *self._again(by_metric[name], records, calls))
        seen = Seen.of(rows.told)
        return Sums(original, **parts, answered=rows.answered, calls=calls, seen=seen, drawn=drawn)

    def _again(self, metric: Metric, records: Sequence[Record], calls: bool) -> tuple[np.ndarray, np.ndarray]:
        """Statistics of the originals, and of the same drawn again with the first as what it is compared with."""
        once: list[Told] = []
        again: list[Told] = []
        owners: list[int] = []
        for place, record in enumerate(records):
            for one, other in record.pairs:
                turns = record.retold.original.rewritten.turns
                for turn, (first,), (second,) in zip(turns, one, other, strict=True):
                    before, after = (
                        told(turn, it.steps, as_text(it.response), self._names, has_calls=calls or None)
                        for it in (first, second)
                    )
                    once.append(before)
                    again.append(replace(after, twin=before))
                    owners.append(place)
        found = []
        for turns_told in (once, again):
            table = np.asarray(metric.statistics(turns_told), dtype=float)
            found.append(sums_by(np.array(owners, dtype=int), table, len(records)) / max(1, len(records[0].pairs)))
        return found[0], found[1]


_KINDS = ("told", "references", "placebo")


def _kinds(retold: Variants) -> dict[str, Sequence[Run]]:
    """The rewritten tellings of a dialogue by kind, in the order in which they are run."""
    placebo = () if retold.placebo is None else (retold.placebo,)
    return dict(zip(_KINDS, (retold.groups, retold.references, placebo), strict=True))


def _by_sample(table: np.ndarray, counts: Sequence[int], samples: int) -> np.ndarray:
    """(dialogues × samples × tellings of each, …), dialogue by dialogue, as (samples, all tellings, …)."""
    if samples == 1:
        return table[None]
    parts: list[np.ndarray] = []
    at = 0
    for count in counts:
        size = count * samples
        parts.append(table[at : at + size].reshape(samples, count, *table.shape[1:]))
        at += size
    return np.concatenate(parts, axis=1)
