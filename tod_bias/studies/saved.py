"""A finished run, read back: the crossed table of every axis and metric, from ``results.json`` and ``turns.parquet``.

What a run says of an axis is computed from its table, and the table is sums over rows of ``turns.parquet``; so whatever
is asked of a run later (two of them against each other, a threshold) needs its folder and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.audit.axis_table import AxisTable, Tellings, numbers_of
from tod_bias.audit.choices import metrics_of
from tod_bias.audit.results import Results
from tod_bias.audit.turn_rows import ORIGINAL
from tod_bias.documents import loads
from tod_bias.errors import MetricError
from tod_bias.metrics.choice import shipped
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import PLACEBO
from tod_bias.report.record import TURNS, RunError, check_turns, read_whole
from tod_bias.systems.execution import all_arms, arm_key

if TYPE_CHECKING:
    import pandas as pd

_FACTS = ("axis", "dialogue", "turn", "draw", "sample", "source", "target", "word", "clusters", "arm", "user")


@dataclass(frozen=True)
class SavedAxis:
    """One axis of a run."""

    dialogues: tuple[tuple[str, str], ...]
    """Its dialogues: the id, and all that the users say, as on some axes they introduce themselves."""
    tables: Mapping[str, AxisTable]
    """Metric to crossed table, all of the same tellings."""


@dataclass(frozen=True)
class SavedRun:
    """A run as its folder has it."""

    name: str
    """How the user calls it: the folder."""
    results: Mapping[str, Any]
    """The content of ``results.json``."""
    axes: Mapping[str, SavedAxis]
    """Axis to what was summed; without the placebo, whose tellings belong to the other axes."""

    @property
    def stages(self) -> tuple[str, ...]:
        """The components; none where the run could not swap them."""
        return () if self.results.get("history") == "recorded" else tuple(self.results["pipeline"])


def scored_by(results: Mapping[str, Any], name: str, metrics: Sequence[str | Metric] | None) -> list[Metric]:
    """The metrics of a run.

    Args:
        results: the content of ``results.json``.
        name: of the run.
        metrics: those wanted, by name, ``module:Class`` or object; None: all of the run's, which must be shipped ones.

    Raises:
        MetricError: the run has not measured one of them.
        TodBiasError: one is the user's own, and is not given as an object or ``module:Class``.
    """
    measured = list(results["metrics"])
    if metrics is None:
        return [shipped(one, name) for one in measured]
    found = metrics_of(metrics)
    for one in found:
        if one.name not in measured:
            raise MetricError(f"{name}: has not measured {one.name}; it has {', '.join(measured)}")
    return found


def with_own(results: Mapping[str, Any], name: str, own: Sequence[str | Metric] = ()) -> list[Metric]:
    """All metrics of a run, in its order.

    Args:
        results: the content of ``results.json``.
        name: of the run.
        own: by name, ``module:Class`` or object; those that are not shipped must be among them.

    Raises:
        MetricError: the run has not measured one of them.
        TodBiasError: one of the run's is neither shipped nor among them.
    """
    given = {one.name: one for one in scored_by(results, name, own)} if own else {}
    return [given[one] if one in given else shipped(one, name) for one in results["metrics"]]


def saved_run(
    run: str | Path | Results, metrics: Sequence[str | Metric] | None = None, axes: Sequence[str] | None = None
) -> SavedRun:
    """Read a run.

    Args:
        run: its folder, or what :func:`tod_bias.attribute` returned.
        metrics: those that are needed; None: all.
        axes: those that are needed; None: all.

    Raises:
        RunError: it cannot be read, lacks an axis, or was written before turns named their clusters.
        MetricError: it has not measured one of the metrics.
    """
    name = "this run" if isinstance(run, Results) else str(run)
    results: Mapping[str, Any] = run if isinstance(run, Results) else read_whole(run)
    there = [axis for axis in results["axes"] if axis != PLACEBO]
    wanted = there if axes is None else list(axes)
    for axis in wanted:
        if axis not in there:
            raise RunError(f"{name}: has no axis {axis}; it has {', '.join(there) or 'none but the placebo'}")
    scored = scored_by(results, name, metrics)
    scored = [one for one in scored if any(one.name in results["axes"][axis] for axis in wanted)]
    if isinstance(run, Results):
        frame = run.turns
        lacking = [column for column in _needed(scored) if column not in frame]
        if lacking:
            raise RunError(f"{name}: its turns have no column {lacking[0]!r}; repeat the run with this version")
    else:
        frame = _turns(Path(run), scored)
    found = {}
    for axis in wanted:
        own = [one for one in scored if one.name in results["axes"][axis]]
        rows = frame[frame["axis"] == axis]
        if not len(rows):
            raise RunError(f"{name}: {TURNS} has no rows of axis {axis}; repeat the run's command")
        groups = next(iter(results["axes"][axis].values())).get("groups") or {}
        _check_arms(rows, results, name)
        found[axis] = _axis(rows, tuple(groups), tuple(results["pipeline"]), own)
    return SavedRun(name, results, found)


def _needed(scored: Sequence[Metric]) -> list[str]:
    return [*_FACTS, *dict.fromkeys(column for one in scored for column in one.columns)]


def _turns(folder: Path, scored: Sequence[Metric]) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / TURNS
    if not check_turns(path):
        raise RunError(f"{folder}: holds no {TURNS}; repeat the run's command (what was answered is kept)")
    try:
        there = pq.read_schema(path).names
        lacking = [column for column in _needed(scored) if column not in there]
        if lacking:
            raise RunError(
                f"{path}: has no column {lacking[0]!r}, an earlier version wrote it; repeat the run's command "
                "(what was answered is kept)"
            )
        texts = ["axis", "source", "target", "word", "clusters", "arm", "dialogue"]
        table = pq.read_table(path, columns=[name for name in _needed(scored) if name != "user"], read_dictionary=texts)
        said = pq.read_table(path, columns=["axis", "dialogue", "turn", "sample", "arm", "user"],
                             filters=[("arm", "=", ORIGINAL)])  # fmt: skip
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"{path}: cannot be read as a run's turns ({reason}); repeat the run's command") from error
    frame = table.to_pandas()
    users = np.full(len(frame), None, dtype=object)
    users[np.flatnonzero((frame["arm"] == ORIGINAL).to_numpy())] = said["user"].to_pandas().to_numpy()
    return frame.assign(user=users)


def _check_arms(rows: pd.DataFrame, results: Mapping[str, Any], name: str) -> None:
    """See to it that the rows are of the components that the results name."""
    known = {arm_key(arm) for arm in all_arms(results["pipeline"])}
    found = set(rows["arm"].unique()) - {ORIGINAL}
    lacking = known - found if results.get("history") != "recorded" else set()
    if odd := sorted(map(str, found - known)) or sorted(lacking):
        where = "which results.json does not name" if found - known else "but not in the rows"
        raise RunError(
            f"{name}: {TURNS} and results.json are not of one run: components {odd[0]!r:.80} are swapped, {where}; "
            "repeat the run"
        )


def _axis(
    rows: pd.DataFrame, attributes: tuple[str, ...], stages: tuple[str, ...], scored: Sequence[Metric]
) -> SavedAxis:
    """One axis from its rows."""
    import pandas as pd

    of, ids = pd.factorize(rows["dialogue"].astype(object))
    samples = max(1, rows["sample"].nunique())
    is_original = (rows["arm"] == ORIGINAL).to_numpy()
    is_copy = rows["clusters"].notna().to_numpy() & ~is_original
    is_placebo = ~is_copy & ~is_original & (rows["target"] == PLACEBO).to_numpy()
    first = is_original & (rows["sample"] == rows["sample"].min()).to_numpy()
    said: list[list[str]] = [[] for _ in ids]
    for number, text in zip(of[first], rows["user"].to_numpy()[first], strict=True):
        said[number].append(str(text))
    copies = _Tellings(rows, of, is_copy)
    placebos = _Tellings(rows, of, is_placebo)
    tellings = _who(rows, copies, placebos, attributes, len(ids))
    arms = {arm_key(arm): number for number, arm in enumerate(all_arms(stages))}
    tables = {}
    for one in scored:
        try:
            values = rows[list(one.columns)].to_numpy(dtype=float)
        except (ValueError, TypeError) as error:
            raise RunError(f"{TURNS}: columns of {one.name} hold no numbers; repeat the run's command") from error
        original = np.zeros((len(ids), len(one.columns)))
        np.add.at(original, of[is_original], values[is_original])
        tables[one.name] = AxisTable(
            tellings,
            stages,
            original / samples,
            copies.sums(values, rows["arm"], arms) / samples,
            placebos.sums(values, rows["arm"], arms) / samples,
        )
    texts = ["\x1f".join(turns) for turns in said]
    return SavedAxis(tuple(zip(map(str, ids), texts, strict=True)), tables)


class _Tellings:
    """Rows of some tellings: which telling each row belongs to, tellings numbered in the order of the rows."""

    def __init__(self, rows: pd.DataFrame, of: np.ndarray, chosen: np.ndarray) -> None:
        import pandas as pd

        self._rows = np.flatnonzero(chosen)
        draw = rows["draw"].to_numpy(dtype=float, na_value=-1)[self._rows].astype(int)
        codes = of[self._rows] * (draw.max(initial=0) + 1) + draw
        self._of_row, self._known = pd.factorize(codes)
        starts = np.full(len(self._known), len(rows))
        np.minimum.at(starts, self._of_row, self._rows)
        self.starts = starts
        """The first row of each."""
        self.of = of[starts]
        """Number of the dialogue of each."""

    def sums(self, values: np.ndarray, arm: pd.Series, arms: Mapping[str, int]) -> np.ndarray:
        """(tellings, arms, statistics)."""
        import pandas as pd

        kinds, names = pd.factorize(arm.iloc[self._rows].astype(object))
        places = np.array([arms[name] for name in names], dtype=int)
        found = np.zeros((len(self._known), len(arms), values.shape[1]))
        if len(self._rows):
            np.add.at(found, (self._of_row, places[kinds]), values[self._rows])
        return found


def _clusters(text: Any) -> dict[str, Any]:
    """The clusters that a row names."""
    try:
        found = loads(text)
        if isinstance(found["word"], str) and isinstance(found["kinds"], dict) and isinstance(found["words"], list):
            return dict(found)
    except (ValueError, LookupError, TypeError):
        pass
    raise RunError(f"{TURNS}: {text!r:.60} is not what a run writes as clusters; repeat the run's command")


def _who(
    rows: pd.DataFrame, copies: _Tellings, placebos: _Tellings, attributes: tuple[str, ...], dialogues: int
) -> Tellings:
    """Who is told as what."""
    facts = rows[["source", "target", "draw", "clusters"]].iloc[copies.starts]
    targets = facts["target"].astype(object).tolist()
    attributes = attributes or tuple(dict.fromkeys(targets))
    parsed = {text: _clusters(text) for text in facts["clusters"].unique()}
    records = [parsed[text] for text in facts["clusters"]]
    sources: list[set[str]] = [set() for _ in range(dialogues)]
    word = [""] * dialogues
    kinds: dict[str, list[Any]] = {name: [None] * dialogues for name in (records[0]["kinds"] if records else ())}
    for number, source, record in zip(copies.of, facts["source"], records, strict=True):
        sources[number].add(str(source))
        word[number] = record["word"]
        for name, label in record["kinds"].items():
            kinds[name][number] = label
    target = numbers_of(targets, attributes)
    crossed = len(set(zip(copies.of.tolist(), target.tolist(), strict=True))) == len(target)
    return Tellings(
        attributes=attributes,
        source=numbers_of([next(iter(some)) if len(some) == 1 else "" for some in sources], attributes),
        of=copies.of,
        target=target,
        draw=np.zeros(len(target), dtype=int) if crossed else facts["draw"].to_numpy(dtype=int),
        word=tuple(word),
        words=tuple(frozenset(record["words"]) for record in records),
        placebo=placebos.of,
        placebo_words=tuple(map(str, rows["word"].iloc[placebos.starts])),
        clusters=tuple((name, tuple(labels)) for name, labels in kinds.items()),
    )
