"""The table of turns on disk, and its sums.

``turns.parquet`` has one row per turn, counterfactual and arm: the user's message, the output of every stage, and the
statistics of the run's metrics. All estimates of a run are made from its sums over turns, live or later, and from what
``variants.parquet`` says of each counterfactual (:mod:`tod_bias.audit.variants`).
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tod_bias.audit.arm_sums import ArmSums, RepeatedSums
from tod_bias.audit.event_sums import MOST_DOUBLES, ROLES, EventSums, TablesWithEvents, parts_of_sums
from tod_bias.audit.events import FACTS, PART_COLUMNS, EventSearch, TablePart, parts_of
from tod_bias.audit.failures import failed_turns
from tod_bias.audit.first_difference import most_frequent
from tod_bias.audit.passes import passes
from tod_bias.audit.record import check_turns
from tod_bias.audit.rows import FIRST_DIFFERENCE, REPEAT, RESPONSE
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.audit.variants import AxisGroups, check_variants, index_of, read_variants, with_variants
from tod_bias.io.documents import loads
from tod_bias.metrics.events import Event
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import PLACEBO
from tod_bias.results import TURNS, VARIANTS, AuditResult, FailedTurns, FirstDifference, Reworded, RunError
from tod_bias.statistics.arms import ORIGINAL_ARM, WHOLE, ArmDesign, arm_key
from tod_bias.statistics.sums import sums_by

_CATEGORIES = ["dialogue", "variant", "arm"]
"""Columns of few distinct texts, which are read as numbers of these."""


@dataclass(frozen=True)
class AxisTurns:
    """The sums of one axis."""

    dialogues: tuple[tuple[str, str], ...]
    """Its dialogues: the id, and all that the users say, as on some axes they introduce themselves."""
    variants: VariantIndex
    """Index of the variants; the same for every metric."""
    tables: Mapping[str, ArmSums]
    """Metric to crossed table, all of the same counterfactuals."""


class _AxisFiles:
    """Parquet files of one table, one for each axis, while rows are still to come.

    Args:
        folder: that holds them.
        schema: of their rows.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder, self.schema = folder, schema
        self._writers: dict[str, pq.ParquetWriter] = {}
        folder.mkdir()

    def add(self, axis: str, rows: pa.Table) -> None:
        """Write rows of an axis."""
        if axis not in self._writers:
            path = self._folder / f"{len(self._writers)}.parquet"
            self._writers[axis] = pq.ParquetWriter(path, self.schema)
        self._writers[axis].write_table(rows)

    def keep(self, axes: Sequence[str]) -> None:
        """Nothing more is written; only these axes stay, in this order."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {axis: self._writers[axis] for axis in axes}

    @property
    def paths(self) -> dict[str, Path]:
        """File of each axis."""
        return {axis: Path(writer.where) for axis, writer in self._writers.items()}


class Turns:
    """Rows of all axes on disk.

    Args:
        arms: of the run.
        groups: axis to its groups.
        folder: of a finished run; None: rows are still to come (:meth:`add`), in a temporary folder that goes when the
            object does.
        schemas: of rows that are to come: of turns (:func:`~tod_bias.audit.rows.schema_of`), and of counterfactuals
            (:func:`~tod_bias.audit.variants.variants_schema`).
        name: what the run is called in messages.
    """

    def __init__(
        self,
        arms: ArmDesign,
        groups: Mapping[str, AxisGroups],
        *,
        folder: Path | None = None,
        schemas: tuple[pa.Schema, pa.Schema] | None = None,
        name: str = "this run",
    ) -> None:
        self.arms = arms
        self._groups = groups
        self._folder = folder
        self._name = name
        self.events: Sequence[Event] = ()
        """Events whose columns are written with the rows."""
        self._turns: _AxisFiles | None = None
        self._variants: _AxisFiles | None = None
        if schemas is not None:
            temporary = Path(tempfile.mkdtemp(prefix="tod-bias-"))
            weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
            self._turns, self._variants = (
                _AxisFiles(temporary / name, schema)
                for name, schema in zip(("turns", "variants"), schemas, strict=True)
            )

    @classmethod
    def of(cls, result: AuditResult) -> Turns:
        """The turns of a finished run.

        Raises:
            RunError: it kept none.
        """
        if isinstance(result.table, cls):
            return result.table
        assert result.folder is not None
        if not check_turns(result.folder / TURNS):
            raise RunError(f"{result.folder}: holds no {TURNS}; repeat the run's command (outputs are cached)")
        check_variants(result.folder / VARIANTS)
        groups = {
            axis: AxisGroups(tuple(next(iter(by_metric.values())).groups)) for axis, by_metric in result.axes.items()
        }
        return cls(result.arm_design, groups, folder=result.folder, name=result.name)

    # writing -------------------------------------------------------------------------------------------------------

    def add(self, axis: str, turns: pa.Table, variants: pa.Table) -> None:
        """Write the rows of some dialogues on one axis."""
        assert self._turns is not None
        assert self._variants is not None
        self._turns.add(axis, turns)
        self._variants.add(axis, variants)

    def keep(self, axes: Sequence[str]) -> None:
        """Nothing more is written; only these axes stay, in this order."""
        assert self._turns is not None
        assert self._variants is not None
        self._turns.keep(axes)
        self._variants.keep(axes)

    def write(self, path: Path) -> None:
        """Write all turns to one Parquet file, a row group after the other."""
        assert self._turns is not None
        with pq.ParquetWriter(path, self._with_events(self._turns.schema.empty_table()).schema) as writer:
            for file in self._turns.paths.values():
                with pq.ParquetFile(file) as part:
                    for number in range(part.num_row_groups):
                        writer.write_table(self._with_events(part.read_row_group(number)))

    def write_variants(self, path: Path) -> None:
        """Write all counterfactuals to one Parquet file, a row group for each axis."""
        assert self._variants is not None
        with pq.ParquetWriter(path, self._variants.schema) as writer:
            for file in self._variants.paths.values():
                writer.write_table(pq.read_table(file))

    def _with_events(self, rows: pa.Table) -> pa.Table:
        """Return rows with the columns of the events; a row group holds all variants of its dialogues."""
        if not self.events or not len(rows):
            empty = pa.array([], type=pa.float64())
            for name in (name for event in self.events for name in event.columns):
                rows = rows.append_column(name, empty)
            return rows
        cells = TablePart.of(rows.select(list(PART_COLUMNS))).cells
        for event in self.events:
            for name, values in zip(event.columns, event.sums(cells).T, strict=True):
                rows = rows.append_column(name, pa.array(values, type=pa.float64()))
        return rows

    def frame(self) -> pd.DataFrame:
        """Return all turns, in memory."""
        if self._turns is None:
            return pq.read_table(self._file("")).to_pandas()
        tables = []
        for file in self._turns.paths.values():
            with pq.ParquetFile(file) as part:
                tables += [self._with_events(part.read_row_group(number)) for number in range(part.num_row_groups)]
        return pa.concat_tables(tables).to_pandas()

    def variants(self, axis: str | None = None) -> pd.DataFrame:
        """Return what is known of the counterfactuals of an axis, or of all axes.

        Raises:
            RunError: the file is missing, or cannot be read.
        """
        if self._variants is None:
            assert self._folder is not None
            return read_variants(self._folder / VARIANTS, axis)
        paths = self._variants.paths
        return pd.concat([read_variants(paths[name]) for name in ([axis] if axis else paths)], ignore_index=True)

    # reading -------------------------------------------------------------------------------------------------------

    def sums(self, axis: str, metrics: Sequence[Metric]) -> AxisTurns:
        """Return the sums of the turns of an axis.

        Args:
            axis: its name.
            metrics: of the statistics.

        Raises:
            RunError: the file cannot be read, lacks a column, or is of other stages.
            AxisError: a counterfactual has a group that the axis lacks.
        """
        stored = [metric for metric in metrics if not isinstance(metric, Event)]
        events = [metric for metric in metrics if isinstance(metric, Event)]
        rows = self._rows(axis, [column for metric in stored for column in metric.columns])
        if not len(rows):
            raise RunError(f"{self._name}: {TURNS} has no rows of axis {axis}; repeat the run's command")
        self._check_arms(rows)
        variants = self.variants(axis)
        made = _AxisSums(rows, variants, self.arms, self._name)
        index = made.index(axis, self._groups.get(axis, AxisGroups(())))
        turns = made.turns(index)
        tables = {metric.name: made.of(metric, index, partial(self._column, axis, metric)) for metric in stored}
        turns = replace(turns, tables=tables)
        return self.with_events(axis, turns, events) if events else turns

    def with_events(self, axis: str, turns: AxisTurns, events: Sequence[Event]) -> AxisTurns:
        """Return an axis with the sums of events beside those of its metrics.

        Args:
            axis: its name.
            turns: of its metrics.
            events: to be counted in the facts of the turns.
        """
        names, chosen = [*_CATEGORIES, "sample"], [("axis", "=", axis)]
        rows = pq.read_table(self._file(axis), columns=names, filters=chosen, read_dictionary=_CATEGORIES).to_pandas()
        by_arm = _AxisSums(rows, self.variants(axis), self.arms, self._name)
        sums = by_arm.of_events(events, turns.variants, parts_of(self._file(axis), axis))
        return replace(turns, tables=TablesWithEvents(turns.tables, sums))

    def _column(self, axis: str, metric: Metric, name: str) -> np.ndarray:
        """Return (rows, 1) one statistic of a metric.

        Raises:
            RunError: the column holds no numbers.
        """
        table = pq.read_table(self._file(axis), columns=[name], filters=[("axis", "=", axis)])
        try:
            return np.asarray(table.column(0).to_numpy().astype(float)[:, None])
        except (ValueError, TypeError) as error:
            raise RunError(f"{TURNS}: columns of {metric.name} hold no numbers; repeat the run's command") from error

    def search(self, axis: str, search: EventSearch) -> None:
        """Look for events that differ between the variants of an axis."""
        for part, _ in parts_of(self._file(axis), axis):
            search.add(axis, part)

    def _file(self, axis: str) -> Path:
        if self._turns is not None:
            return self._turns.paths[axis]
        assert self._folder is not None
        return self._folder / TURNS

    def system_rows(self, axis: str, statistics: Sequence[str] = ()) -> Iterator[pd.DataFrame]:
        """Yield the turns of the system as it is, originals and counterfactuals, some dialogues at a time.

        Args:
            axis: its name.
            statistics: columns of metrics that are needed beside the texts.
        """
        variants = self.variants(axis)
        columns = ["axis", "dialogue", "turn", "variant", "group", "role", "arm", "user"]
        columns += [FIRST_DIFFERENCE, RESPONSE, FACTS, *statistics]
        with pq.ParquetFile(self._file(axis)) as file:
            for number in range(file.num_row_groups):
                rows = file.read_row_group(number, columns=columns)
                is_system = pc.and_(pc.equal(rows["arm"], ""), pc.equal(rows["role"], "group"))
                chosen = pc.and_(pc.equal(rows["axis"], axis), pc.or_(is_system, pc.equal(rows["arm"], ORIGINAL_ARM)))
                rows = rows.filter(chosen)
                if len(rows):
                    yield with_variants(rows.to_pandas(), variants, ["source"])

    def equal_turns(self, axis: str) -> tuple[int, int]:
        """Return the number of an axis' counterfactual turns, and of its dialogues, if all turns are equal to T of the
        original's; (0, 0) if any differs."""
        chosen = [("axis", "=", axis), ("role", "=", "group"), ("arm", "=", "")]
        table = pq.read_table(self._file(axis), columns=["dialogue", FIRST_DIFFERENCE], filters=chosen)
        if table.column(FIRST_DIFFERENCE).null_count < len(table):
            return 0, 0
        return len(table), len(table.column("dialogue").unique())

    def failures(self, axis: str) -> dict[str, FailedTurns]:
        """Return, for ``original`` and each group of an axis, how many turns had a call that failed, and why."""
        return failed_turns(self.system_rows(axis))

    def first_differences(self, axis: str) -> dict[str, list[FirstDifference]]:
        """Group to what differs first in the turns as this group of an axis (:func:`most_frequent`)."""
        chosen = [("axis", "=", axis), ("role", "=", "group"), ("arm", "=", "")]
        table = pq.read_table(self._file(axis), columns=["group", FIRST_DIFFERENCE], filters=chosen)
        return most_frequent(*(column.to_pylist() for column in table.columns))

    def passes(self, axis: str, grade: str, samples: int) -> dict[str, list[float]]:
        """Return pass^1 to pass^``samples`` of an axis's groups by a grade (:func:`tod_bias.audit.passes.passes`)."""
        column = f"{grade} sum"
        chosen = [("axis", "=", axis), ("role", "=", "group"), ("arm", "=", "")]
        columns = ["dialogue", "variant", "group", "sample", column]
        return passes(pq.read_table(self._file(axis), columns=columns, filters=chosen).to_pandas(), column, samples)

    def reworded(self, axes: Iterable[str], *, reads_replies: bool = False) -> Reworded | None:
        """Return how many turns the placebo changes in these axes' dialogues; None without a placebo.

        A turn whose facts are the original's is unchanged: a component whose constant text happens to hold a neutral
        word does not react to rewording. Dialogues in which nothing is reworded that the system reads do not count.

        Args:
            axes: of the run.
            reads_replies: True if the system reads recorded replies, which are reworded too.
        """
        keys = ["dialogue", "turn", "sample"]
        columns = [*keys, "variant", "arm", "user", FIRST_DIFFERENCE, FACTS]
        chosen = [[("role", "=", "placebo"), ("arm", "=", "")], [("arm", "=", ORIGINAL_ARM)]]
        files = [
            (self._file(axis), [[("axis", "=", axis), *some] for some in chosen]) for axis in axes if axis != PLACEBO
        ]
        tables = [pq.read_table(file, columns=columns, filters=filters) for file, filters in files]
        every = pa.concat_tables(tables).to_pandas() if tables else pd.DataFrame(columns=columns)
        is_original = every["arm"] == ORIGINAL_ARM
        rows = every[~is_original]
        if rows.empty:
            return None
        originals = every[is_original].drop_duplicates(keys).set_index(keys)
        of_original = originals.reindex(pd.MultiIndex.from_frame(rows[keys]))
        if not reads_replies:
            is_other = rows["user"].to_numpy() != of_original["user"].to_numpy()
            is_read = is_other | rows[FIRST_DIFFERENCE].notna()
            chosen_rows = is_read.groupby([rows["dialogue"], rows["variant"]]).transform("any").to_numpy()
            rows, of_original = rows[chosen_rows], of_original[chosen_rows]
            if rows.empty:
                return Reworded(share=0.0, dialogues=0)
        changed = rows[FIRST_DIFFERENCE].notna() & (rows[FACTS].to_numpy() != of_original[FACTS].to_numpy())
        by_variant = changed.groupby([rows["dialogue"].astype(str), rows["variant"].astype(str)]).agg(["sum", "size"])
        by_dialogue = by_variant.groupby(level="dialogue").mean()
        share = float(by_dialogue["sum"].sum() / by_dialogue["size"].sum())
        stages = Counter(loads(text)["stage"] for text in rows[FIRST_DIFFERENCE][changed])
        return Reworded(share=share, dialogues=len(by_dialogue), stages=dict(stages.most_common()))

    def _rows(self, axis: str, statistics: Sequence[str]) -> pd.DataFrame:
        """Return what is known of the rows of an axis, without the statistics, which are read one metric at a time."""
        path = self._file(axis)
        columns = [*_CATEGORIES, "turn", "sample"]
        try:
            known, needed = pq.read_schema(path).names, ["axis", *columns, "group", "role", *statistics, "user", FACTS]
            if lacking := [column for column in needed if column not in known]:
                raise RunError(
                    f"{path}: has no column {lacking[0]!r}, another version wrote it; repeat the run's command "
                    "(outputs are cached)"
                )
            chosen = [("axis", "=", axis)]
            table = pq.read_table(path, columns=columns, filters=chosen, read_dictionary=_CATEGORIES)
            users = pq.read_table(path, columns=["user"], filters=[*chosen, ("arm", "=", ORIGINAL_ARM)])
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise RunError(f"{path}: cannot be read as a run's turns ({reason}); repeat the run's command") from error
        frame = table.to_pandas()
        texts = np.full(len(frame), None, dtype=object)
        texts[np.flatnonzero((frame["arm"] == ORIGINAL_ARM).to_numpy())] = users["user"].to_pandas().to_numpy()
        return frame.assign(user=texts)

    def _check_arms(self, rows: pd.DataFrame) -> None:
        """Raise if the rows are not of the stages that the results name."""
        known = set(self.arms.keys(whole=True))
        arms = set(rows["arm"].unique()) - {ORIGINAL_ARM, REPEAT}
        lacking = {"", arm_key(frozenset(self.arms.stages))} - arms if arms else set()
        if odd := sorted(map(str, arms - known)) or sorted(lacking):
            where = "which results.json does not name" if arms - known else "but not in the rows"
            raise RunError(
                f"{self._name}: {TURNS} and results.json are not of one run: stages {odd[0]!r:.80} are replaced, "
                f"{where}; repeat the run"
            )


class _AxisSums:
    """Makes the sums of one axis, metric by metric.

    Args:
        rows: of the axis, in the order of the table.
        variants: of the axis (:mod:`tod_bias.audit.variants`).
        arms: of the run.
        name: of the run in messages.

    Raises:
        RunError: the turns and the counterfactuals are not of one run.
    """

    def __init__(self, rows: pd.DataFrame, variants: pd.DataFrame, arms: ArmDesign, name: str) -> None:
        self._rows, self._variants, self._arms = rows, variants, arms
        self._of, self._ids = pd.factorize(rows["dialogue"].astype(object))
        self._is_original = (rows["arm"] == ORIGINAL_ARM).to_numpy()
        sample = rows["sample"].to_numpy()
        self._samples = int(sample[self._is_original].max(initial=0)) + 1
        self._first = self._is_original & (sample == 0)
        of = pd.Index(self._ids).get_indexer(variants["dialogue"])
        place = _places(rows, variants, self._of, of)
        if place is None:
            raise RunError(f"{name}: {TURNS} and {VARIANTS} are not of one run; repeat the run's command")
        roles = variants["role"].to_numpy()
        self._by_role = {role: _Variants(np.flatnonzero(roles == role), place, of) for role in ROLES}

    def index(self, axis: str, groups: AxisGroups) -> VariantIndex:
        """Return the index of the variants."""
        numbers = {role: variants.numbers for role, variants in self._by_role.items()}
        of = {role: variants.of for role, variants in self._by_role.items()}
        return index_of(self._variants, axis, groups, numbers, of, len(self._ids))

    def turns(self, index: VariantIndex) -> AxisTurns:
        """Return the axis, still without tables."""
        texts: list[list[str]] = [[] for _ in self._ids]
        for number, text in zip(self._of[self._first], self._rows["user"].to_numpy()[self._first], strict=True):
            texts[number].append(str(text))
        ids = zip(map(str, self._ids), map("\x1f".join, texts), strict=True)
        return AxisTurns(tuple(ids), index, {})

    def of(self, metric: Metric, index: VariantIndex, column: Callable[[str], np.ndarray]) -> ArmSums:
        """Return the sums of a metric, made one statistic at a time: all of a large run take a gigabyte.

        Args:
            metric: whose statistics are summed.
            index: of the variants.
            column: returns (rows, 1) a statistic by its name.
        """
        tables = [self._of_values(index, column(name)) for name in metric.columns]
        if len(tables) == 1:
            return tables[0]
        first = tables[0]
        repeated = [table.repeated for table in tables if table.repeated is not None]
        return ArmSums(
            index,
            self._arms,
            np.concatenate([table.original for table in tables], axis=-1),
            np.concatenate([table.by_variant for table in tables], axis=-1),
            np.concatenate([table.placebo for table in tables], axis=-1),
            RepeatedSums(*(np.concatenate(some, axis=-1) for some in zip(*map(parts_of_sums, repeated), strict=True)))
            if repeated
            else None,
            None
            if first.references is None
            else np.concatenate([table.references for table in tables if table.references is not None], axis=-1),
        )

    def _of_values(self, index: VariantIndex, values: np.ndarray) -> ArmSums:
        rows, of = self._rows, self._of
        parts = {
            role: variants.sums(values, rows["arm"], self._arms) / self._samples
            for role, variants in self._by_role.items()
        }
        return ArmSums(
            index,
            self._arms,
            sums_by(of[self._is_original], values[self._is_original], len(self._ids)) / self._samples,
            parts["group"],
            parts["placebo"],
            _sampling(rows, of, values, self._by_role["group"], self._samples),
            parts["reference"],
        )

    def of_events(
        self, events: Sequence[Event], index: VariantIndex, parts: Iterable[tuple[TablePart, int]]
    ) -> EventSums:
        """Return the sums of events, which are counted in the facts of the turns, a part of the table at a time."""
        number, rows = len(events), self._rows
        codes = {role: variants.codes(rows["arm"], self._arms) for role, variants in self._by_role.items()}
        sizes = {role: variants.number * variants.arms for role, variants in self._by_role.items()}
        # of many events single precision takes half the memory; counts of turns are exact in it up to 2²⁴
        kind = np.float64 if number * sum(sizes.values()) <= MOST_DOUBLES else np.float32
        happened = {role: np.zeros((sizes[role], number), dtype=kind) for role in ROLES}
        original = np.zeros((len(self._ids), number, 2))
        start = 0
        for part, length in parts:
            here = slice(start, start + length)
            start += length
            values = np.stack([event.sums(part.cells) for event in events], axis=1)  # (rows, events, 2)
            is_original = self._is_original[here]
            np.add.at(original, self._of[here][is_original], values[is_original])
            for role in ROLES:
                member = codes[role][here] >= 0
                if member.any():
                    cells, place = np.unique(codes[role][here][member], return_inverse=True)
                    happened[role][cells] += sums_by(place, values[member, :, 0], len(cells)).astype(kind)
        shape = {role: (variants.number, variants.arms, number) for role, variants in self._by_role.items()}
        return EventSums(
            index,
            self._arms,
            {event.name: place for place, event in enumerate(events)},
            original / self._samples,
            {role: (some / self._samples).reshape(shape[role]) for role, some in happened.items()},
        )


def _places(rows: pd.DataFrame, variants: pd.DataFrame, of_row: np.ndarray, of: np.ndarray) -> np.ndarray | None:
    """Return (rows,) the place of each turn's variant in the table of variants; None unless the tables fit.

    Args:
        rows: turns of an axis.
        variants: of the axis.
        of_row: (rows,) number of the dialogue.
        of: (variants,) number of the dialogue; -1 for one without turns.
    """
    names_of_rows, names = pd.factorize(rows["variant"].astype(object))
    name = pd.Index(names).get_indexer(variants["variant"])
    # a number for each pair of dialogue and variant: a join of the texts would take several times the memory
    codes, known = of_row * max(1, len(names)) + names_of_rows, of * max(1, len(names)) + name
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known[order], codes), len(known) - 1)
    if not len(known) or min(of.min(), name.min()) < 0 or not np.array_equal(known[order][place], codes):
        return None
    return np.asarray(order[place])


class _Variants:
    """Turns of the variants of one role, numbered in the order of their table.

    Args:
        numbers: places of the variants in their table.
        place: (rows,) place of each turn's variant in it.
        of: (all variants,) number of the dialogue.
    """

    def __init__(self, numbers: np.ndarray, place: np.ndarray, of: np.ndarray) -> None:
        self.numbers = numbers
        self.number = len(numbers)
        in_role = np.full(len(of), -1)
        in_role[numbers] = np.arange(self.number)
        number = in_role[place]
        self._rows = np.flatnonzero(number >= 0)
        self._of_row = number[self._rows]
        self.of = of[numbers]
        """Number of the dialogue of each."""

        self.arms = 0
        """Number of arms, once :meth:`codes` is called."""

    def codes(self, arm: pd.Series, design: ArmDesign) -> np.ndarray:
        """Return (rows,) number of the variant and arm of each row of the table; -1 for rows of other roles."""
        names = design.keys(whole=bool((arm == WHOLE).any()))
        known = {name: number for number, name in enumerate(names)}
        kinds, labels = pd.factorize(arm.iloc[self._rows].astype(object))
        places = np.array([known.get(name, -1) for name in labels], dtype=int)[kinds]
        codes = np.full(len(arm), -1)
        codes[self._rows] = np.where(places >= 0, self._of_row * len(names) + places, -1)
        self.arms = len(names)
        return codes

    def sums(self, values: np.ndarray, arm: pd.Series, design: ArmDesign) -> np.ndarray:
        """(variants, arms, statistics)."""
        names = design.keys(whole=bool((arm == WHOLE).any()))
        arms = {name: number for number, name in enumerate(names)}
        return self._by(values, arm, arms, np.zeros(len(self._rows), dtype=int), 1)[0]

    def by_sample(self, values: np.ndarray, arm: pd.Series, ends: Sequence[str], sample: np.ndarray) -> np.ndarray:
        """(samples, variants, two arms, statistics)."""
        number = sample[self._rows]
        return self._by(values, arm, {end: place for place, end in enumerate(ends)}, number, int(number.max()) + 1)

    def _by(
        self, values: np.ndarray, arm: pd.Series, arms: Mapping[str, int], sample: np.ndarray, samples: int
    ) -> np.ndarray:
        kinds, names = pd.factorize(arm.iloc[self._rows].astype(object))
        places = np.array([arms.get(name, -1) for name in names], dtype=int)[kinds]
        member = places >= 0
        codes = ((sample * self.number + self._of_row) * len(arms) + places)[member]
        total = sums_by(codes, values[self._rows][member], samples * self.number * len(arms))
        return total.reshape(samples, self.number, len(arms), values.shape[1])


def _sampling(
    rows: pd.DataFrame, of: np.ndarray, values: np.ndarray, variants: _Variants, samples: int
) -> RepeatedSums | None:
    """Return the sums of repeated draws; None if nothing is drawn."""
    is_repeat = (rows["arm"] == REPEAT).to_numpy()
    if not is_repeat.any():
        return None
    sample, dialogues = rows["sample"].to_numpy(), int(of.max()) + 1
    pairs = int(sample[is_repeat].max()) + 1
    is_first = (rows["arm"] == ORIGINAL_ARM).to_numpy() & (sample % 2 == 0) & (sample < 2 * pairs)
    arms = [arm for arm in rows["arm"].unique() if arm not in (ORIGINAL_ARM, REPEAT)]
    ends = "", WHOLE if WHOLE in arms else max(arms, key=lambda arm: len(arm.split(",")) if arm else 0)
    return RepeatedSums(
        variants.by_sample(values, rows["arm"], ends, sample)[:samples],
        sums_by(of[is_first], values[is_first], dialogues) / pairs,
        sums_by(of[is_repeat], values[is_repeat], dialogues) / pairs,
    )


def placebo_turns(axes: Mapping[str, AxisTurns]) -> AxisTurns | None:
    """Return the placebo as a separate axis: its variants in the dialogues of all axes, a dialogue's mean over them.

    Args:
        axes: axis to its sums.

    Returns:
        None if no dialogue has a placebo.
    """
    place: dict[tuple[str, str], int] = {}
    of: list[int] = []
    terms: list[str] = []
    labels: dict[str, list[str]] = {}
    originals: dict[str, list[np.ndarray]] = {}
    rows: dict[str, list[np.ndarray]] = {}
    for turns in axes.values():
        variants = turns.variants
        for number, term in zip(variants.placebo, variants.placebo_terms, strict=True):
            dialogue = turns.dialogues[number]
            if dialogue not in place:  # with an introduction it is another dialogue of the same id
                place[dialogue] = len(place)
                for name, label in variants.clusters:
                    labels.setdefault(name, []).append(label[number])
                for name, table in turns.tables.items():
                    originals.setdefault(name, []).append(table.original[number])
            of.append(place[dialogue])
            terms.append(term)
        for name, table in turns.tables.items():
            rows.setdefault(name, []).append(table.placebo)
    if not place:
        return None
    arms = next(iter(next(iter(axes.values())).tables.values())).arms
    variants = VariantIndex(
        groups=("original", PLACEBO),
        source=np.zeros(len(place), dtype=int),
        of=np.array(of, dtype=int),
        target=np.ones(len(of), dtype=int),
        draw=np.zeros(len(of), dtype=int),
        source_terms=(frozenset(),) * len(place),
        terms=tuple(frozenset([term]) for term in terms),
        placebo=np.empty(0, dtype=int),
        placebo_terms=(),
        clusters=tuple((name, tuple(some)) for name, some in labels.items()),
    )
    tables = {}
    for name, parts in rows.items():
        placebo = np.concatenate(parts)
        nothing = np.empty((0, *placebo.shape[1:]))
        tables[name] = ArmSums(variants, arms, np.array(originals[name]), placebo, nothing)
    return AxisTurns(tuple(place), variants, tables)
