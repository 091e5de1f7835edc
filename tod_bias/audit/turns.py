"""The table of turns on disk, its sums, and the events of behaviour in it.

``turns.parquet`` has one row per turn, counterfactual and arm: the user's message, the output of every stage, and the
statistics of the run's metrics. All estimates of a run are made from its sums over turns, live or later.

Events of behaviour are chosen without looking at groups: those that differ between variants of one dialogue in several
dialogues. How often an event differs says nothing about which group shows it, so the choice leaves the tests valid
(independent filtering, Bourgon et al. 2010).
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tod_bias.audit.contrasts import ArmSums, RepeatedSums, VariantIndex, numbers_of, terms_by_factor
from tod_bias.audit.record import check_turns
from tod_bias.audit.running import ACTS, FAILURE, FIRST_DIFFERENCE, ORIGINAL, REPEAT, RESPONSE, most_frequent
from tod_bias.errors import AxisError
from tod_bias.io.documents import loads
from tod_bias.metrics.behaviour import (
    ANY,
    ASKS_BACK,
    CALLS,
    EMPTY,
    FAILED,
    FAILS,
    FOUND,
    MEAN,
    MISSING,
    NAMED,
    OF_ARGUMENTS,
    OF_RESPONSES,
    REFUSES,
    SILENT,
    VALUE,
    Behaviour,
    number_in,
)
from tod_bias.metrics.metric import Metric
from tod_bias.metrics.responses import Refusal
from tod_bias.perturb.axis import PLACEBO, Role
from tod_bias.results import TURNS, AuditResult, FailedTurns, FirstDifference, RunError
from tod_bias.statistics.arms import WHOLE, ArmDesign, arm_key
from tod_bias.statistics.sums import sums_by
from tod_bias.systems.acts import Act, read_acts

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq


COLUMNS = (ACTS, RESPONSE, FAILURE)
"""Columns of the table of turns that events are read from."""
FEWEST_DIALOGUES = 3
"""Fewest dialogues in which an event must differ between variants to be measured."""
MOST_EVENTS = 24
"""Events of a run, those that differ most often; more would widen the intervals of all and say little more."""
MOST_FORMS = 6
"""Most values of an argument that are counted one by one; an argument with more is not a choice from a list."""
_REASONS = 3
"""Reasons of failures that are kept."""
_NEEDS_ALL = (VALUE, MEAN, FOUND, NAMED)
"""Kinds that are compared in the turns in which every variant has a value: a call that is not made has none."""


class Behaviours:
    """The events in the turns of one axis.

    Args:
        rows: of all variants and arms, with the columns of :data:`COLUMNS` and ``dialogue``, ``turn``, ``arm`` and
            ``role``.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self._acts_of_row, texts = pd.factorize(rows[ACTS].fillna("").astype(object))
        try:
            self._acts = [read_acts(str(text)) for text in texts]
        except (ValueError, TypeError) as error:
            raise RunError(f"turns: column {ACTS} cannot be read ({error}); repeat the run's command") from error
        self._response_of_row, responses = pd.factorize(rows[RESPONSE].fillna("").astype(object))
        self._responses = [str(text) for text in responses]
        self._failed = rows[FAILURE].notna().to_numpy()
        place = rows["dialogue"].astype(str) + "\x1f" + rows["turn"].astype(str)
        self._cell, _ = pd.factorize(place)
        self._cells = int(self._cell.max(initial=-1)) + 1
        self._dialogue, _ = pd.factorize(rows["dialogue"].astype(object))
        arm, role = rows["arm"].astype(str).to_numpy(), rows["role"].astype(str).to_numpy()
        self._is_system = ((arm == "") & (role == "group")) | (arm == ORIGINAL)

    def columns(self, event: Behaviour) -> np.ndarray:
        """Return (rows, 2): what each turn adds to the event, and whether the event could show there."""
        happened, could = self._row_values(event)
        if event.kind in _NEEDS_ALL:
            everywhere = np.ones(self._cells)
            np.minimum.at(everywhere, self._cell, could)
        else:
            everywhere = np.zeros(self._cells)
            np.maximum.at(everywhere, self._cell, could)
        denominator = everywhere[self._cell]
        return np.stack([happened * denominator, denominator], axis=1)

    def _row_values(self, event: Behaviour) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows,) the contribution of each turn alone, and (rows,) whether the event could show in it."""
        if event.kind in OF_RESPONSES:
            return self._of_responses(event.kind)
        pairs = np.array([_of_acts(event, acts) for acts in self._acts], dtype=float).reshape(-1, 2)
        happened, could = pairs[self._acts_of_row].T
        return happened, could

    def _of_responses(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        every = np.ones(len(self._cell))
        if kind == FAILED:
            return self._failed.astype(float), every
        if kind == ASKS_BACK:
            acts = np.array([len(some) > 0 for some in self._acts], dtype=bool)[self._acts_of_row]
            asks = np.array(["?" in text for text in self._responses], dtype=bool)[self._response_of_row]
            return (asks & ~acts).astype(float), acts.astype(float) if acts.any() else every
        values: list[float]
        if kind == REFUSES:
            values = [bool(text.strip()) and self._refusal.matches(text) for text in self._responses]
        elif kind == SILENT:
            values = [not text.strip() for text in self._responses]
        else:
            values = [len(text.split()) for text in self._responses]
        return np.array(values, dtype=float)[self._response_of_row], every

    @cached_property
    def _refusal(self) -> Refusal:
        return Refusal()

    def differing(self) -> Counter[str]:
        """Return in how many dialogues each event differs between the variants, without looking at their groups."""
        counts: Counter[str] = Counter()
        for event in self._events():
            happened, could = self.columns(event).T
            chosen = self._is_system & (could > 0)
            low, high = np.full(self._cells, np.inf), np.full(self._cells, -np.inf)
            np.minimum.at(low, self._cell[chosen], happened[chosen])
            np.maximum.at(high, self._cell[chosen], happened[chosen])
            differs = (high > low + 1e-12)[self._cell] & chosen
            counts[event.name] = len(np.unique(self._dialogue[differs]))
        return counts

    def _events(self) -> Iterator[Behaviour]:
        """Yield every event that any turn could show."""
        for kind in OF_RESPONSES:
            yield Behaviour(kind)
        seen = set(self._acts_of_row[self._is_system].tolist())
        acts = [act for number in sorted(seen) for act in self._acts[number]]
        for tool, names in _arguments_by_tool(acts).items():
            yield from (Behaviour(kind, tool) for kind in (CALLS, FAILS, EMPTY, FOUND, NAMED))
            of_tool = [act.arguments for act in acts if tool in (ANY, act.tool)]
            for argument in names:
                yield from _of_argument(tool, argument, of_tool)


def _arguments_by_tool(acts: Sequence[Act]) -> dict[str, list[str]]:
    """Return every tool's arguments; those of several tools are also under :data:`ANY`."""
    arguments: dict[str, dict[str, None]] = {}
    for act in acts:
        arguments.setdefault(act.tool, {}).update(dict.fromkeys(act.arguments))
    by_tool = {tool: list(names) for tool, names in arguments.items()}
    if len(by_tool) < 2:
        return by_tool
    uses = Counter(argument for names in by_tool.values() for argument in names)
    return {ANY: [argument for argument, number in uses.items() if number > 1], **by_tool}


def _of_argument(tool: str, argument: str, calls: Iterable[Mapping[str, Any]]) -> Iterator[Behaviour]:
    yield Behaviour(MISSING, tool, argument)
    values = list(dict.fromkeys(str(call[argument]) for call in calls if argument in call))
    if all(number_in(value) is not None for value in values):
        yield Behaviour(MEAN, tool, argument)
    elif len(values) <= MOST_FORMS:
        for value in values:
            yield Behaviour(VALUE, tool, argument, value)


def _of_acts(event: Behaviour, acts: tuple[Act, ...]) -> tuple[float, float]:
    """Return what a turn with these calls adds to an event of a tool, and whether the event could show in it."""
    calls = [act for act in acts if event.tool in (ANY, act.tool)]
    if event.kind in OF_ARGUMENTS:
        return _of_arguments(event, calls)
    happened = {
        CALLS: bool(calls),
        FAILS: any(act.failure for act in calls),
        EMPTY: bool(calls) and not any(act.results or act.failure for act in calls),
        FOUND: sum(act.results for act in calls),
        NAMED: sum(act.named for act in calls),
    }[event.kind]
    return happened, any(act.results for act in calls) if event.kind == NAMED else bool(calls)


def _of_arguments(event: Behaviour, calls: Sequence[Act]) -> tuple[float, float]:
    """Return the same of an event of an argument."""
    given = [act.arguments[event.argument] for act in calls if event.argument in act.arguments]
    if event.kind == MISSING:
        return bool(calls) and len(given) < len(calls), bool(given)
    if event.kind == VALUE:
        return event.value in map(str, given), bool(given)
    numbers = [number for value in given if (number := number_in(value)) is not None]
    return (sum(numbers) / len(numbers), True) if numbers else (0.0, False)


def chosen_events(differing: Iterable[Mapping[str, int]]) -> list[Behaviour]:
    """Return the events that a run measures, those that differ in most dialogues first.

    Args:
        differing: of each axis, event to the number of dialogues in which it differs between variants.
    """
    most: Counter[str] = Counter()
    for counts in differing:
        for name, number in counts.items():
            most[name] = max(most[name], number)
    names = sorted((name for name, number in most.items() if number >= FEWEST_DIALOGUES), key=lambda n: (-most[n], n))
    events = (Behaviour.of(name) for name in names[:MOST_EVENTS])
    return [event for event in events if event is not None]


def failed_turns(rows: pd.DataFrame) -> dict[str, FailedTurns]:
    """Return how many turns of the unchanged system had a failed call, by group.

    Args:
        rows: of one axis, as :class:`Behaviours` takes them, with ``group`` and ``source``.

    Returns:
        ``original`` and the groups, each with the most frequent reasons. An original also counts as a turn of its
        group.
    """
    arm, role = rows["arm"].astype(str), rows["role"].astype(str)
    failed: dict[str, FailedTurns] = {}
    originals, variants = rows[arm == ORIGINAL], rows[(arm == "") & (role == "group")]
    sources = dict(zip(variants["dialogue"], variants["source"].astype(str), strict=True))
    group = pd.concat([originals["dialogue"].map(sources).astype(str), variants["group"].astype(str)])
    of_groups = pd.concat([originals, variants]).groupby(group)
    for name, part in [(ORIGINAL, originals), *of_groups]:
        if name == "nan":  # without any variant
            continue
        reasons = [
            failure if isinstance(failure, str) else next((act.failure for act in read_acts(text) if act.failure), "")
            for failure, text in zip(part[FAILURE], part[ACTS].fillna(""), strict=True)
        ]
        counted = Counter(reason for reason in reasons if reason)
        failed[str(name)] = FailedTurns(
            turns=counted.total(), of=len(part), reasons=dict(counted.most_common(_REASONS))
        )
    return failed


_CATEGORIES = ["axis", "source", "group", "variant", "term", "clusters", "arm", "dialogue", "role"]
_FACTS = [*_CATEGORIES, "turn", "draw", "sample", "edits"]


@dataclass(frozen=True)
class AxisTurns:
    """The sums of one axis."""

    dialogues: tuple[tuple[str, str], ...]
    """Its dialogues: the id, and all that the users say, as on some axes they introduce themselves."""
    tables: Mapping[str, ArmSums]
    """Metric to crossed table, all of the same counterfactuals."""

    @property
    def variants(self) -> VariantIndex:
        """Index of the variants; the same for every metric."""
        return next(iter(self.tables.values())).variants


@dataclass(frozen=True)
class AxisGroups:
    """Groups of an axis, and the factors of crossed axes."""

    groups: tuple[str, ...]
    factors: tuple[str, ...] = ()


class Turns:
    """Rows of all axes on disk.

    Args:
        arms: of the run.
        groups: axis to its groups.
        path: the file of a finished run; None: rows are still to come (:meth:`add`), in a temporary folder that goes
            when the object does.
        schema: of rows that are to come (:func:`~tod_bias.audit.running.schema_of`).
        name: what the run is called in messages.
    """

    def __init__(
        self,
        arms: ArmDesign,
        groups: Mapping[str, AxisGroups],
        *,
        path: Path | None = None,
        schema: pa.Schema | None = None,
        name: str = "this run",
    ) -> None:
        self.arms = arms
        self._groups = groups
        self._path = path
        self._schema = schema
        self._name = name
        self._writers: dict[str, pq.ParquetWriter] = {}
        self.events: Sequence[Behaviour] = ()
        """Events of behaviour whose columns are written with the rows."""
        if path is None:
            self._folder = Path(tempfile.mkdtemp(prefix="tod-bias-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    @classmethod
    def of(cls, result: AuditResult) -> Turns:
        """The turns of a finished run.

        Raises:
            RunError: it kept none.
        """
        if isinstance(result.table, cls):
            return result.table
        assert result.folder is not None
        path = result.folder / TURNS
        if not check_turns(path):
            raise RunError(f"{result.folder}: holds no {TURNS}; repeat the run's command (outputs are cached)")
        groups = {
            axis: AxisGroups(tuple(next(iter(by_metric.values())).groups)) for axis, by_metric in result.axes.items()
        }
        return cls(result.arm_design, groups, path=path, name=result.name)

    # writing -------------------------------------------------------------------------------------------------------

    def add(self, axis: str, rows: pa.Table) -> None:
        """Write the rows of some dialogues on one axis."""
        import pyarrow.parquet as pq

        assert self._schema is not None
        if axis not in self._writers:
            path = self._folder / f"{len(self._writers)}.parquet"
            self._writers[axis] = pq.ParquetWriter(path, self._schema)
        self._writers[axis].write_table(rows)

    def keep(self, axes: Sequence[str]) -> None:
        """Nothing more is written; only these axes stay, in this order."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {axis: self._writers[axis] for axis in axes}

    def write(self, path: Path) -> None:
        """Write all rows to one Parquet file, a row group after the other."""
        import pyarrow.parquet as pq

        assert self._schema is not None
        with pq.ParquetWriter(path, self._with_events(self._schema.empty_table()).schema) as writer:
            for file in self._files():
                with pq.ParquetFile(file) as part:
                    for number in range(part.num_row_groups):
                        writer.write_table(self._with_events(part.read_row_group(number)))

    def _with_events(self, rows: pa.Table) -> pa.Table:
        """Return rows with the columns of the events of behaviour; a row group holds all variants of its dialogues."""
        import pyarrow as pa

        if not self.events:
            return rows
        behaviours = Behaviours(rows.select(["dialogue", "turn", "arm", "role", *COLUMNS]).to_pandas())
        for event in self.events:
            for name, values in zip(event.columns, behaviours.columns(event).T, strict=True):
                rows = rows.append_column(name, pa.array(values, type=pa.float64()))
        return rows

    def frame(self) -> pd.DataFrame:
        """Return all rows, in memory."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._path is not None:
            return pq.read_table(self._path).to_pandas()
        tables = []
        for file in self._files():
            with pq.ParquetFile(file) as part:
                tables += [self._with_events(part.read_row_group(number)) for number in range(part.num_row_groups)]
        return pa.concat_tables(tables).to_pandas()

    def _files(self) -> list[Any]:
        return [self._path] if self._path is not None else [writer.where for writer in self._writers.values()]

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
        events = [metric for metric in metrics if isinstance(metric, Behaviour) and not self._holds(metric)]
        stored = [column for metric in metrics if metric not in events for column in metric.columns]
        rows = self._rows(axis, [*stored, *(COLUMNS if events else ())])
        if not len(rows):
            raise RunError(f"{self._name}: {TURNS} has no rows of axis {axis}; repeat the run's command")
        self._check_arms(rows)
        if events:
            behaviours = Behaviours(rows)
            added = {event.columns: behaviours.columns(event) for event in events}
            rows = rows.assign(
                **{name: table[:, place] for names, table in added.items() for place, name in enumerate(names)}
            )
        return _axis_turns(rows, axis, self._groups.get(axis, AxisGroups(())), self.arms, metrics)

    def differing_events(self, axis: str) -> Counter[str]:
        """Return in how many dialogues of an axis each event of behaviour differs between variants."""
        return Behaviours(self._rows(axis, COLUMNS)).differing()

    def system_rows(self, axis: str) -> pd.DataFrame:
        """Return the turns of the system as it is: originals and counterfactuals of an axis, no stage replaced."""
        import pyarrow.parquet as pq

        path: Any = self._path if self._path is not None else self._writers[axis].where
        columns = ["dialogue", "turn", "variant", "source", "group", "term", "role", "arm", "user"]
        columns += [FIRST_DIFFERENCE, *COLUMNS]
        rows = pq.read_table(path, columns=columns, filters=[("axis", "=", axis), ("arm", "in", ["", ORIGINAL])])
        frame = rows.to_pandas()
        return frame[frame["role"].isin(["original", "group"])].reset_index(drop=True)

    def failures(self, axis: str) -> dict[str, FailedTurns]:
        """Return, for ``original`` and each group of an axis, how many turns had a call that failed, and why."""
        return failed_turns(self._rows(axis, COLUMNS))

    def first_differences(self, axis: str) -> dict[str, list[FirstDifference]]:
        """Group to what differs first in the turns as this group of an axis (:func:`most_frequent`)."""
        import pyarrow.parquet as pq

        path: Any = self._path if self._path is not None else self._writers[axis].where
        chosen = [("axis", "=", axis), ("role", "=", "group"), ("arm", "=", "")]
        table = pq.read_table(path, columns=["group", FIRST_DIFFERENCE], filters=chosen)
        return most_frequent(*(column.to_pylist() for column in table.columns))

    def _holds(self, metric: Metric) -> bool:
        """Return whether the file of a finished run holds a metric's statistics."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._path is None:
            return False
        try:
            return set(metric.columns) <= set(pq.read_schema(self._path).names)
        except (OSError, pa.ArrowException):
            return True  # what reads the rows tells why they cannot be read

    def _rows(self, axis: str, statistics: Sequence[str]) -> pd.DataFrame:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path: Any = self._path if self._path is not None else self._writers[axis].where
        columns = [*_FACTS, *dict.fromkeys(statistics)]
        try:
            known = pq.read_schema(path).names
            if lacking := [column for column in [*columns, "user"] if column not in known]:
                raise RunError(
                    f"{path}: has no column {lacking[0]!r}, another version wrote it; repeat the run's command "
                    "(outputs are cached)"
                )
            chosen = [("axis", "=", axis)]
            table = pq.read_table(path, columns=columns, filters=chosen, read_dictionary=_CATEGORIES)
            users = pq.read_table(path, columns=["user"], filters=[*chosen, ("arm", "=", ORIGINAL)])
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise RunError(f"{path}: cannot be read as a run's turns ({reason}); repeat the run's command") from error
        frame = table.to_pandas()
        texts = np.full(len(frame), None, dtype=object)
        texts[np.flatnonzero((frame["arm"] == ORIGINAL).to_numpy())] = users["user"].to_pandas().to_numpy()
        return frame.assign(user=texts)

    def _check_arms(self, rows: pd.DataFrame) -> None:
        """Raise if the rows are not of the stages that the results name."""
        known = set(self.arms.keys(whole=True))
        arms = set(rows["arm"].unique()) - {ORIGINAL, REPEAT}
        lacking = {"", arm_key(frozenset(self.arms.stages))} - arms if arms else set()
        if odd := sorted(map(str, arms - known)) or sorted(lacking):
            where = "which results.json does not name" if arms - known else "but not in the rows"
            raise RunError(
                f"{self._name}: {TURNS} and results.json are not of one run: stages {odd[0]!r:.80} are replaced, "
                f"{where}; repeat the run"
            )


def _axis_turns(
    rows: pd.DataFrame, axis: str, groups: AxisGroups, arms: ArmDesign, metrics: Sequence[Metric]
) -> AxisTurns:
    import pandas as pd

    of, ids = pd.factorize(rows["dialogue"].astype(object))
    is_original = (rows["arm"] == ORIGINAL).to_numpy()
    sample = rows["sample"].to_numpy()
    texts: list[list[str]] = [[] for _ in ids]
    first = is_original & (sample == 0)
    for number, text in zip(of[first], rows["user"].to_numpy()[first], strict=True):
        texts[number].append(str(text))
    by_role = {role: _Variants(rows, of, (rows["role"] == role).to_numpy()) for role in _ROLES}
    index = _variant_index(rows, axis, groups, by_role, len(ids))
    samples = int(sample[is_original].max(initial=0)) + 1
    tables = {}
    for metric in metrics:
        try:
            values = rows[list(metric.columns)].to_numpy(dtype=float)
        except (ValueError, TypeError) as error:
            raise RunError(f"{TURNS}: columns of {metric.name} hold no numbers; repeat the run's command") from error
        parts = {role: variants.sums(values, rows["arm"], arms) / samples for role, variants in by_role.items()}
        tables[metric.name] = ArmSums(
            index,
            arms,
            sums_by(of[is_original], values[is_original], len(ids)) / samples,
            parts["group"],
            parts["placebo"],
            _sampling(rows, of, values, by_role["group"], samples),
            parts["reference"],
        )
    return AxisTurns(tuple(zip(map(str, ids), map("\x1f".join, texts), strict=True)), tables)


_ROLES: tuple[Role, ...] = ("group", "reference", "placebo")


class _Variants:
    """Rows of the variants of one role: which variant each row belongs to, numbered in the order of the rows."""

    def __init__(self, rows: pd.DataFrame, of: np.ndarray, chosen: np.ndarray) -> None:
        import pandas as pd

        self._rows = np.flatnonzero(chosen)
        names, known = pd.factorize(rows["variant"].iloc[self._rows].astype(object))
        codes = of[self._rows] * max(1, len(known)) + names
        self._of_row, distinct = pd.factorize(codes)
        self.number = len(distinct)
        self.starts = np.full(self.number, len(rows))
        """The first row of each."""
        np.minimum.at(self.starts, self._of_row, self._rows)
        self.of = of[self.starts]
        """Number of the dialogue of each."""

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
        import pandas as pd

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
    is_first = (rows["arm"] == ORIGINAL).to_numpy() & (sample % 2 == 0) & (sample < 2 * pairs)
    arms = [arm for arm in rows["arm"].unique() if arm not in (ORIGINAL, REPEAT)]
    ends = "", WHOLE if WHOLE in arms else max(arms, key=lambda arm: len(arm.split(",")) if arm else 0)
    return RepeatedSums(
        variants.by_sample(values, rows["arm"], ends, sample)[:samples],
        sums_by(of[is_first], values[is_first], dialogues) / pairs,
        sums_by(of[is_repeat], values[is_repeat], dialogues) / pairs,
    )


def _by_dialogue(
    dialogue: np.ndarray, sources: Iterable[Any], records: Sequence[Mapping[str, Any]], dialogues: int
) -> tuple[list[set[str]], list[set[str]], dict[str, list[Any]]]:
    """Return, for each dialogue, the source groups of its counterfactuals, their terms, and its clusters by kind.

    Args:
        dialogue: number of each counterfactual's dialogue.
        sources: group of the original.
        records: its terms and clusters.
        dialogues: their number.
    """
    groups: list[set[str]] = [set() for _ in range(dialogues)]
    terms: list[set[str]] = [set() for _ in range(dialogues)]
    kinds: dict[str, list[Any]] = {name: [None] * dialogues for name in (records[0]["kinds"] if records else ())}
    for number, source, record in zip(dialogue, sources, records, strict=True):
        groups[number].add(str(source))
        terms[number].update(map(str, record["source"]))
        for name, label in record["kinds"].items():
            kinds[name][number] = label
    return groups, terms, kinds


def _variant_index(
    rows: pd.DataFrame, axis: str, groups: AxisGroups, by_role: Mapping[Role, _Variants], dialogues: int
) -> VariantIndex:
    """Return the index of the counterfactuals."""
    copies, references, placebos = (by_role[role] for role in _ROLES)
    facts = rows[["source", "group", "clusters"]].iloc[copies.starts]
    targets = facts["group"].astype(object).tolist()
    names = groups.groups or tuple(dict.fromkeys(targets))
    if unknown := set(targets) - set(names):
        raise AxisError(
            f"axis {axis}: a counterfactual is of group {min(unknown)!r}, which is none of the axis' groups "
            f"({', '.join(names)})"
        )
    parsed = {text: _clusters(text) for text in facts["clusters"].unique()}
    records = [parsed[text] for text in facts["clusters"]]
    sources, terms, kinds = _by_dialogue(copies.of, facts["source"], records, dialogues)
    target = numbers_of(targets, names)
    draw = rows["draw"].to_numpy()[copies.starts]
    is_crossed = len(set(zip(copies.of.tolist(), target.tolist(), strict=True))) == len(target)
    return VariantIndex(
        groups=names,
        # Draws may be of several groups, and then the dialogue has no group.
        source=numbers_of([next(iter(some)) if len(some) == 1 else "" for some in sources], names),
        of=copies.of,
        target=target,
        draw=draw if is_crossed or draw.any() else _numbers_within(copies.of),
        source_terms=tuple(map(frozenset, terms)),
        terms=tuple(frozenset(record["terms"]) for record in records),
        placebo=placebos.of,
        placebo_terms=tuple(map(str, rows["term"].iloc[placebos.starts])),
        factors=groups.factors,
        by_factor=terms_by_factor(
            copies.of,
            [[(some["source"], some["terms"]) for some in record.get("factors", ())] for record in records],
            dialogues,
        ),
        references=tuple(
            (int(number), str(name))
            for number, name in zip(references.of, rows["group"].iloc[references.starts], strict=True)
        ),
        clusters=tuple((name, tuple(labels)) for name, labels in kinds.items()),
        edits=(_mean_edits(rows, copies, placebos.of), _mean_edits(rows, placebos, placebos.of)),
    )


def _numbers_within(of: np.ndarray) -> np.ndarray:
    """The number of each variant among those of its dialogue."""
    import pandas as pd

    return pd.Series(of).groupby(of).cumcount().to_numpy()


def _mean_edits(rows: pd.DataFrame, variants: _Variants, dialogues: np.ndarray) -> float:
    """Words changed per dialogue, mean over variants and then over some dialogues."""
    edits = rows["edits"].to_numpy(dtype=float)[variants.starts]
    member = np.isin(variants.of, dialogues)
    if not member.any():
        return 0.0
    of, edits = variants.of[member], edits[member]
    count = np.bincount(of)
    return float((np.bincount(of, edits)[count > 0] / count[count > 0]).mean())


def _clusters(text: Any) -> dict[str, Any]:
    """The clusters that a row names."""
    try:
        record = loads(text)
        terms = [record, *record.get("factors", ())]
        lists = [some[name] for some in terms for name in ("source", "terms")]
        if isinstance(record["kinds"], dict) and all(isinstance(some, list) for some in lists):
            return dict(record)
    except (ValueError, LookupError, TypeError):
        pass
    raise RunError(f"{TURNS}: {text!r:.60} is not what a run writes as clusters; repeat the run's command")


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
    return AxisTurns(tuple(place), tables)
