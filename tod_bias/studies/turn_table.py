"""The table of turns: one row a turn of the original run, and one a turn, draw and arm of the rewritten ones.

It is built in chunks of dialogues and lies on disk, so that a run over a large corpus does not hold it in memory. Rows
of arms that went the same way are made once and repeated.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tod_bias.dialogues.text import well_formed
from tod_bias.metrics.calls import CALL_COLUMNS, call_statistics
from tod_bias.metrics.text import TextMetric
from tod_bias.systems.execution import Run, Trace, all_arms, arm_key
from tod_bias.systems.outputs import as_text
from tod_bias.systems.stage import Asked

ORIGINAL = "original"
"""What the column ``arm`` says of the original run."""
_FACTS = ("dialogue", "turn", "draw", "source", "target", "word", "user")
Record = tuple[Run, Sequence[Run], Trace, Sequence[Trace]]
"""An original run, its rewritten copies (one a draw), and the traces of both."""


@dataclass(frozen=True)
class Sums:
    """Statistics of one chunk, summed over the turns of each dialogue."""

    original: np.ndarray
    """(dialogues, statistics) of the original runs."""
    arms: np.ndarray
    """(arms, draws, dialogues, statistics), arms as :func:`tod_bias.systems.execution.all_arms` orders them."""
    goals: np.ndarray | None
    """(2, dialogues, 2): right calls and turns, of the original runs and of the rewritten ones without a swap; None
    where the system has no component ``api_call``."""
    answered: bool = True
    """Whether any response was more than None."""


class _Rows:
    """Rows of one chunk: made once for arms that went the same way, and how they are repeated."""

    def __init__(self, names: Sequence[str], flow: bool) -> None:
        self._names = names
        self._labels = [arm_key(arm) for arm in all_arms(names)]
        columns = (*_FACTS, *names, "reference")
        self.columns: dict[str, list[Any]] = {name: [] for name in columns}
        if flow:
            self.columns["steps"] = []
        self.responses: list[str] = []
        self.answered = False
        """Whether any last component put out anything."""
        self.calls: list[tuple[Any, Any]] = []
        self.index: list[int] = []
        self.arms: list[str] = []
        self.starts: list[int] = []  # where the turns of one run and arm begin

    def add(self, run: Run, draw: int | None, trace: Trace, label: str | None) -> None:
        dialogue, rewrite = run.rewritten, run.rewrite
        kind = (None, None, None) if rewrite is None else (rewrite.source, rewrite.target, rewrite.word)
        arms: dict[int, list[int]] = {}
        columns = self.columns
        for number, (turn, courses) in enumerate(zip(dialogue.turns, trace, strict=True)):
            for course in courses:
                row = len(columns["turn"])
                outputs = course.outputs
                facts = (dialogue.id, number, draw, *kind, well_formed(str(turn.user)))
                for name, value in zip(_FACTS, facts, strict=True):
                    columns[name].append(value)
                for name in self._names:
                    columns[name].append(as_text(outputs.get(name)))
                columns["reference"].append(well_formed(str(turn.response)))
                self.answered = self.answered or course.response is not None
                self.responses.append(as_text(course.response))
                if "steps" in columns:
                    columns["steps"].append(steps_text(course.steps))
                self.calls.append((outputs.get("api_call"), turn.calls))
                for arm in course.arms:
                    arms.setdefault(arm, []).append(row)
        for arm in sorted(arms):
            self.starts.append(len(self.index))
            self.index += arms[arm]
            self.arms += [self._labels[arm] if label is None else label] * len(arms[arm])


def steps_text(steps: Iterable[Asked]) -> str:
    """Everything that was asked in a turn as JSON: ``[[name, argument, output], …]``, arguments and outputs as text."""
    record = [
        [name, None if argument is None else as_text(argument), as_text(output)] for name, argument, output in steps
    ]
    return well_formed(json.dumps(record, ensure_ascii=False))


class TurnTable:
    """Rows of all axes on disk, an axis after the other; gone when the object is.

    Args:
        names: the system's components.
        metric: scores responses.
        flow: whether the system has a flow of its own, which may ask a component several times.
    """

    def __init__(self, names: Sequence[str], metric: TextMetric, *, flow: bool = False) -> None:
        self._names = tuple(names)
        self._metric = metric
        self._flow = flow
        self._folder = Path(tempfile.mkdtemp(prefix="tod-bias-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._writers: dict[str, pq.ParquetWriter] = {}
        texts = ["axis", "dialogue", "turn", "draw", "source", "target", "word", "arm", "user", *names, "reference"]
        kinds: dict[str, str] = dict.fromkeys(texts, "str") | {"turn": "int64", "draw": "Int64"}
        if flow:
            kinds["steps"] = "str"
        kinds |= dict.fromkeys(metric.columns, "float64")
        if "api_call" in names:
            kinds |= dict.fromkeys((f"call_{name}" for name in CALL_COLUMNS), "float64")
        prototype = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})
        self._schema = pa.Schema.from_pandas(prototype, preserve_index=False)

    def add(self, axis: str, records: Sequence[Record], draws: int) -> Sums:
        """Write the rows of some dialogues on one axis; returns what they sum to."""
        rows = _Rows(self._names, self._flow)
        for run, copies, trace, copy_traces in records:
            rows.add(run, None, trace, ORIGINAL)
            for draw, (copy, copy_trace) in enumerate(zip(copies, copy_traces, strict=True)):
                rows.add(copy, draw, copy_trace, None)
        statistics = self._metric.statistics(rows.responses, rows.columns["reference"])
        index = np.array(rows.index)
        columns: dict[str, Any] = {
            name: pa.array(values).take(pa.array(index)) for name, values in rows.columns.items()
        }
        columns["axis"] = pa.array([axis]).take(pa.array(np.zeros(len(index), dtype=int)))
        columns["arm"] = pa.array(rows.arms)
        expanded = statistics[index]
        columns |= {name: expanded[:, number] for number, name in enumerate(self._metric.columns)}
        calls: np.ndarray | None = None
        if "api_call" in self._names:
            table = call_statistics([made for made, _ in rows.calls], [gold for _, gold in rows.calls])
            calls = table[index]
            columns |= {f"call_{name}": calls[:, number] for number, name in enumerate(CALL_COLUMNS)}
        self._write(axis, columns)
        return self._sums(rows, expanded, calls, len(records), draws)

    def _write(self, axis: str, columns: Mapping[str, Any]) -> None:
        if axis not in self._writers:
            path = self._folder / f"{len(self._writers)}.parquet"
            self._writers[axis] = pq.ParquetWriter(path, self._schema)
        arrays = [
            pa.array(columns[field.name], type=field.type)
            if isinstance(columns[field.name], np.ndarray)
            else columns[field.name].cast(field.type)
            for field in self._schema
        ]
        self._writers[axis].write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def _sums(self, rows: _Rows, statistics: np.ndarray, calls: np.ndarray | None, dialogues: int, draws: int) -> Sums:
        """Sums over the turns of each run and arm: the runs stand one after the other, original first."""
        arms = 2 ** len(self._names)
        starts = np.array(rows.starts)

        def by_run(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            summed = np.add.reduceat(table, starts, axis=0).reshape(dialogues, 1 + draws * arms, table.shape[1])
            copies = summed[:, 1:].reshape(dialogues, draws, arms, table.shape[1])
            return summed[:, 0], copies.transpose(2, 1, 0, 3)

        original, of_arms = by_run(statistics)
        goals = None
        if calls is not None:
            chosen = calls[:, [CALL_COLUMNS.index("correct"), CALL_COLUMNS.index("turns")]]
            plain, rewritten = by_run(chosen)
            goals = np.stack([plain, rewritten[0].sum(axis=0)])
        return Sums(original, of_arms, goals, rows.answered)

    def keep(self, axes: Sequence[str]) -> None:
        """Nothing more is written; only these axes stay, in this order."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {axis: self._writers[axis] for axis in axes}

    def _files(self) -> list[Any]:
        return [writer.where for writer in self._writers.values()]

    def frame(self) -> pd.DataFrame:
        """All rows, in memory."""
        return pa.concat_tables([pq.read_table(file) for file in self._files()]).to_pandas()

    def write(self, path: Path) -> None:
        """Write all rows to one Parquet file, a row group after the other."""
        with pq.ParquetWriter(path, self._schema) as writer:
            for file in self._files():
                with pq.ParquetFile(file) as part:
                    for number in range(part.num_row_groups):
                        writer.write_table(part.read_row_group(number))
