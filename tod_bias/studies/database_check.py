"""Which of a corpus' calls find rows in one telling of a dialogue and none, fewer or poorer ones in another.

A database is fair under T when a rewritten call finds the rewritten rows. Here every gold call of a dialogue is told as
in every telling, and the telling in which it finds most says what it should find in the others (Su, step 2: what a
lookup misses is what makes ``db`` a source of bias). No model is asked; calls that a system made in the tellings can be
given too, as it may write names of groups in other letters than the corpus does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tod_bias.audit.design import design_counterfactuals
from tod_bias.config import DesignOptions
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.values import API_NAME, plain, to_json
from tod_bias.perturb.axis import Axis, Variants
from tod_bias.report.sheets import new_table
from tod_bias.systems.outputs import parse_call, rows_of
from tod_bias.systems.stage import Stage, StageCall, StageInput, call_stage
from tod_bias.systems.stages.recorded import ORIGINAL
from tod_bias.systems.twin import Rewrite

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("none", "fewer", "poorer", "other")
"""Less is found than in another telling: no row; fewer rows; as many with fewer fields; or other ones."""
OWN_ARMS = (ORIGINAL, "")
"""Of a finished run: the system as it is, on the dialogues as they are and on their tellings."""
Row = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class Lack:
    """A call of one telling, with what it should find and does not."""

    axis: str
    group: str
    """The attribute that the dialogue is told as; the user's own words where it is as the corpus has it."""
    kind: str
    """One of :data:`KINDS`."""
    call: Mapping[str, Any] = field(compare=False)
    """As it is made in this telling."""
    results: tuple[Row, ...] = field(compare=False)
    """What it should find: the rows of the telling that finds most, told in this one."""
    found: int = field(compare=False)
    """Rows that it finds."""
    dialogues: tuple[str, ...] = field(compare=False)
    """Where it is made."""

    @property
    def is_missing(self) -> bool:
        """Whether there are too few rows, and not others."""
        return self.kind in KINDS[:2]

    def to_json(self) -> dict[str, Any]:
        """As a line of a lookup table (:meth:`~tod_bias.systems.stages.database.LookupDb.save`), with what it is."""
        facts = {"axis": self.axis, "group": self.group, "kind": self.kind, "found": self.found}
        return {
            "call": plain(self.call),
            "results": plain(list(self.results)),
            **facts,
            "dialogues": list(self.dialogues),
        }


@dataclass(frozen=True)
class DatabaseCheck:
    """What a database lacks, and for whom."""

    calls: Mapping[str, Mapping[str, int]]
    """Axis and group to the distinct calls that were made in its tellings and differ from another telling's."""
    lacks: tuple[Lack, ...]
    """Sorted by axis, group and call; every call once an axis and group."""

    def counts(self, axis: str, group: str) -> dict[str, int]:
        """How many distinct calls of a group lack something, by kind."""
        found = [one.kind for one in self.lacks if (one.axis, one.group) == (axis, group)]
        return {kind: found.count(kind) for kind in KINDS}

    def to_json(self) -> dict[str, Any]:
        """Counts by axis and group."""
        return {
            "schema": 1,
            "axes": {
                axis: {group: {"calls": calls, **self.counts(axis, group)} for group, calls in groups.items()}
                for axis, groups in self.calls.items()
            },
        }

    def table(self) -> Table:
        """For the terminal."""
        view = new_table("Distinct calls that find less than in another telling of the same dialogue")
        for name in ("axis", "told as", "calls", "no row", "fewer", "poorer", "other rows"):
            view.add_column(name, justify="left" if name in ("axis", "told as") else "right")
        for axis, groups in self.calls.items():
            if not groups:
                view.add_row(axis, "no call mentions it", "0", *("" for _ in KINDS))
            for group, calls in groups.items():
                counts = self.counts(axis, group)
                view.add_row(axis, group, f"{calls:,}", *(f"{counts[kind]:,}" for kind in KINDS))
        return view


def check_database(
    database: Stage,
    dialogues: Iterable[Dialogue],
    axes: Sequence[str | Axis],
    *,
    name: str = "db",
    call: str = "api_call",
    seed: int = 0,
    tellings: int | None = None,
    made: Mapping[tuple[str, str], Sequence[Any]] | None = None,
) -> DatabaseCheck:
    """Ask a database every gold call of a corpus in every telling of its dialogue.

    Args:
        database: a component that looks calls up; it is given the call as the output of ``call`` and as its argument,
            and no history. Its rows are what :func:`~tod_bias.systems.outputs.rows_of` reads.
        dialogues: the corpus.
        axes: names or perturbers.
        name: of the component, for messages.
        call: name under which the database finds the call.
        seed: of the tellings.
        tellings: of each dialogue and axis, at the most.
        made: dialogue's id and attribute that it is told as (``original`` for the dialogue as it is) to the calls that
            a system made, turn by turn; those count that are its call of the original told otherwise, letters aside.

    Raises:
        NothingToPerturbError: no dialogue can be told otherwise along any axis.
        AxisError, TodBiasError: as for :func:`~tod_bias.audit.design.design_counterfactuals`.
        StageError: the database fails.
    """
    retelling = design_counterfactuals(list(dialogues), axes, DesignOptions(variants=tellings), seed=seed)
    groups: dict[str, dict[str, dict[str, _Asked]]] = {}
    wanted: list[tuple[str, list[_Told]]] = []
    questions: dict[str, Mapping[str, Any]] = {}
    for axis, drawn in retelling.selected.items():
        groups[axis] = {}
        for retold in retelling.counterfactuals.of(axis, drawn):
            for told in (*_calls(retold), *_made(retold, made or {})):
                wanted.append((axis, told))
                questions.update({one.key: one.call for one in told})
    asked = [
        StageInput((), "", {call: made}, (StageCall(call, None, made),), argument=made) for made in questions.values()
    ]
    outputs = call_stage(name, database, asked) if asked else []
    rows = dict(zip(questions, map(rows_of, outputs), strict=True))
    for axis, told in wanted:
        best = max(told, key=lambda one: len(rows[one.key]))  # the original, where all find as many
        original = best.to_original(rows[best.key])
        for one in told:
            should = tuple(one.told(row) for row in original)
            seen = groups[axis].setdefault(one.group, {}).setdefault(one.key, _Asked(one.call, rows[one.key]))
            seen.dialogues[one.dialogue] = None
            if len(should) > len(seen.should) or not seen.should:
                seen.should = should
    lacks = [
        Lack(axis, group, kind, one.call, one.should, len(one.rows), tuple(one.dialogues))
        for axis, of_axis in groups.items()
        for group, calls in of_axis.items()
        for _, one in sorted(calls.items())
        if (kind := _kind(one.rows, one.should))
    ]
    return DatabaseCheck(
        {axis: {group: len(calls) for group, calls in sorted(found.items())} for axis, found in groups.items()},
        tuple(sorted(lacks)),
    )


@dataclass
class _Asked:
    """A distinct call of a group."""

    call: Mapping[str, Any]
    rows: tuple[Row, ...]
    should: tuple[Row, ...] = ()
    dialogues: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class _Told:
    """A call as one telling makes it."""

    dialogue: str
    group: str
    call: Mapping[str, Any]
    key: str
    rewrite: Rewrite | None
    """From the original to this telling; None for the original."""

    def to_original(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(rows) if self.rewrite is None else tuple(self.rewrite.inverse(plain(row)) for row in rows)

    def told(self, row: Row) -> Row:
        """A row as this telling has it, in the letters of the call."""
        if self.rewrite is None:
            return row
        told = self.rewrite(row)
        return {name: _in_letters_of(self.call.get(name), value) for name, value in told.items()}


def _in_letters_of(said: Any, value: Any) -> Any:
    same = isinstance(said, str) and isinstance(value, str) and said.casefold() == value.casefold()
    return said if same else value


def _calls(retold: Variants) -> list[list[_Told]]:
    """Every gold call of a dialogue in all its tellings; those that are the same in all are left out."""
    dialogue = retold.original.dialogue
    source = next((run.rewrite.source for run in retold.groups if run.rewrite is not None), ORIGINAL)
    found = []
    for step in (step for turn in dialogue.turns for step in turn.steps if step.call.get(API_NAME)):
        told = [_Told(dialogue.id, source, step.call, to_json(step.call), None)]
        for run in retold.groups:
            if run.rewrite is not None:
                call = run.rewrite(step.call)
                told.append(_Told(dialogue.id, run.rewrite.target, call, to_json(call), run.rewrite))
        if len({one.key for one in told}) > 1:
            found.append(told)
    return found


def _made(retold: Variants, made: Mapping[tuple[str, str], Sequence[Any]]) -> list[list[_Told]]:
    """What a system called in the original and in each telling, where it is the same call told otherwise."""
    dialogue = retold.original.dialogue.id
    source = next((run.rewrite.source for run in retold.groups if run.rewrite is not None), ORIGINAL)
    found = []
    for turn, call in enumerate(made.get((dialogue, ORIGINAL), ())):
        if not isinstance(call, Mapping) or not call.get(API_NAME):
            continue
        told = [_Told(dialogue, source, call, to_json(call), None)]
        for run in retold.groups:
            calls = made.get((dialogue, run.rewrite.target), ()) if run.rewrite is not None else ()
            other = calls[turn] if turn < len(calls) else None
            if isinstance(other, Mapping) and run.rewrite is not None:
                back = run.rewrite.inverse(plain(other))
                if to_json(back).casefold() == to_json(call).casefold():
                    told.append(_Told(dialogue, run.rewrite.target, other, to_json(other), run.rewrite))
        if len({one.key for one in told}) > 1:
            found.append(told)
    return found


def made_in(turns: pd.DataFrame | None, axis: str, call: str = "api_call") -> dict[tuple[str, str], list[Any]]:
    """The calls that a system made in a finished run, for ``made`` of :func:`check_database`.

    Args:
        turns: rows of its ``turns.parquet``, of :data:`OWN_ARMS` at least; None where it kept none.
        axis: along which the dialogues are told.
        call: name of the component that makes the calls.
    """
    if turns is None or call not in turns:
        return {}
    own = turns[(turns["axis"] == axis) & turns["arm"].isin(OWN_ARMS) & (turns["sample"] == 0)]
    found: dict[tuple[str, str], list[Any]] = {}
    for arm, dialogue, target, text in zip(own["arm"], own["dialogue"], own["group"], own[call], strict=True):
        found.setdefault((dialogue, ORIGINAL if arm == ORIGINAL else target), []).append(parse_call(text or ""))
    return found


def _kind(rows: Sequence[Row], should: Sequence[Row]) -> str:
    """How what is found falls short; empty where it does not."""
    if len(rows) < len(should):
        return "fewer" if rows else "none"
    if sorted(map(to_json, rows)) == sorted(map(to_json, should)):
        return ""
    fields = [sum(value not in ("", None) for row in some for value in row.values()) for some in (rows, should)]
    if fields[0] < fields[1]:
        return "poorer"
    return "other" if len(rows) == len(should) else ""
