"""Which of a corpus' calls find rows in one variant of a dialogue and none, fewer or poorer ones in another.

A database is fair under T when a rewritten call finds the rewritten rows. Here every gold call of a dialogue is made as
in each of its variants (the original and its counterfactuals), and the variant in which it finds most says what it
should find in the others (Su, step 2: what a lookup misses is what makes ``db`` a source of bias). No model is called;
calls that a system made in the variants can be given too, as it may write terms in other letters than the corpus does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""Less is found than in another variant: no row; fewer rows; as many with fewer fields; or other ones."""
UNSWAPPED_ARMS = (ORIGINAL, "")
"""Of a finished run: the system as it is, on the original dialogues and on their counterfactuals."""
Row = Mapping[str, Any]
CallsMade = Mapping[tuple[str, str], Sequence[Sequence[Any]]]
"""Dialogue's id and group (``original`` for the original) to the calls that a system made, a sequence per turn."""


@dataclass(frozen=True, order=True)
class MissingRows:
    """A call of one variant, with what it should find and does not."""

    axis: str
    group: str
    """Of the variant; of the original the group of its own terms."""
    kind: str
    """One of :data:`KINDS`."""
    call: Mapping[str, Any] = field(compare=False)
    """As it is made in this variant."""
    results: tuple[Row, ...] = field(compare=False)
    """What it should find: the rows of the variant that finds most, rewritten for this one."""
    rows: int = field(compare=False)
    """Rows that it finds."""
    dialogues: tuple[str, ...] = field(compare=False)
    """Where it is made."""

    @property
    def is_too_few(self) -> bool:
        """Whether there are too few rows, and not others."""
        return self.kind in KINDS[:2]

    @property
    def record(self) -> dict[str, Any]:
        """As a line of a lookup table (:meth:`~tod_bias.systems.stages.database.LookupDb.save`), with what it is."""
        return {
            "call": plain(self.call),
            "results": plain(list(self.results)),
            "axis": self.axis,
            "group": self.group,
            "kind": self.kind,
            "rows": self.rows,
            "dialogues": list(self.dialogues),
        }


@dataclass(frozen=True)
class DatabaseCheck:
    """What a database lacks, and for whom."""

    calls: Mapping[str, Mapping[str, int]]
    """Axis and group to the distinct calls that are made in its variants and differ from another variant's."""
    missing: tuple[MissingRows, ...]
    """Sorted by axis, group and call; every call once an axis and group."""

    def counts(self, axis: str, group: str) -> dict[str, int]:
        """How many distinct calls of a group lack something, by kind."""
        kinds = [missing.kind for missing in self.missing if (missing.axis, missing.group) == (axis, group)]
        return {kind: kinds.count(kind) for kind in KINDS}

    @property
    def record(self) -> dict[str, Any]:
        """The content of ``missing.json``: counts by axis and group."""
        return {
            "schema": 1,
            "axes": {
                axis: {group: {"calls": calls, **self.counts(axis, group)} for group, calls in groups.items()}
                for axis, groups in self.calls.items()
            },
        }

    def table(self) -> Table:
        """For the terminal."""
        view = new_table("Distinct calls that find less than in another variant of the same dialogue")
        for name in ("axis", "group", "calls", "no row", "fewer", "poorer", "other rows"):
            view.add_column(name, justify="left" if name in ("axis", "group") else "right")
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
    variants: int | None = None,
    made: CallsMade | None = None,
) -> DatabaseCheck:
    """Ask a database every gold call of a corpus in every variant of its dialogue.

    Args:
        database: a stage that looks calls up; it is given the call as the output of ``call`` and as its argument, and
            no history. Its rows are what :func:`~tod_bias.systems.outputs.rows_of` reads.
        dialogues: the corpus.
        axes: names or axes.
        name: of the stage, for messages.
        call: name under which the database finds the call.
        seed: of the counterfactuals.
        variants: counterfactuals of each dialogue and axis, at the most.
        made: calls that a system made; those count that are its call of the original rewritten, letters aside.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        AxisError, TodBiasError: as for :func:`~tod_bias.audit.design.design_counterfactuals`.
        StageError: the database fails.
    """
    design = design_counterfactuals(list(dialogues), axes, DesignOptions(variants=variants), seed=seed)
    by_axis = {
        axis: [
            calls
            for variants_of in design.counterfactuals.of(axis, drawn)
            for calls in (*_gold_calls(variants_of), *_calls_of_system(variants_of, made or {}))
        ]
        for axis, drawn in design.selected.items()
    }
    rows = _looked_up(database, by_axis, name, call)
    lookups = {axis: _lookups(calls, rows) for axis, calls in by_axis.items()}
    missing = [
        MissingRows(axis, group, kind, lookup.call, lookup.expected, len(lookup.rows), tuple(lookup.dialogues))
        for axis, groups in lookups.items()
        for group, by_call in groups.items()
        for _, lookup in sorted(by_call.items())
        if (kind := _kind(lookup.rows, lookup.expected))
    ]
    counts = {
        axis: {group: len(by_call) for group, by_call in sorted(groups.items())} for axis, groups in lookups.items()
    }
    return DatabaseCheck(counts, tuple(sorted(missing)))


@dataclass(frozen=True)
class _VariantCall:
    """A call as one variant makes it."""

    dialogue: str
    group: str
    call: Mapping[str, Any]
    rewrite: Rewrite | None
    """From the original to this variant; None for the original."""

    @property
    def key(self) -> str:
        return to_json(self.call)

    def to_original(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(rows) if self.rewrite is None else tuple(self.rewrite.inverse(plain(row)) for row in rows)

    def rewritten(self, row: Row) -> Row:
        """A row of the original as this variant has it, in the letters of the call."""
        if self.rewrite is None:
            return row
        return {field: _in_letters_of(self.call.get(field), value) for field, value in self.rewrite(row).items()}


def _in_letters_of(written: Any, value: Any) -> Any:
    is_same = isinstance(written, str) and isinstance(value, str) and written.casefold() == value.casefold()
    return written if is_same else value


@dataclass
class _Lookup:
    """A distinct call of a group."""

    call: Mapping[str, Any]
    rows: tuple[Row, ...]
    expected: tuple[Row, ...] = ()
    dialogues: dict[str, None] = field(default_factory=dict)


def _looked_up(
    database: Stage, by_axis: Mapping[str, Sequence[Sequence[_VariantCall]]], name: str, call: str
) -> dict[str, tuple[Row, ...]]:
    """The rows of every distinct call."""
    distinct = {made.key: made.call for calls in by_axis.values() for same in calls for made in same}
    inputs = [
        StageInput((), "", {call: made}, (StageCall(call, None, made),), argument=made) for made in distinct.values()
    ]
    outputs = call_stage(name, database, inputs) if inputs else []
    return dict(zip(distinct, map(rows_of, outputs), strict=True))


def _lookups(
    calls: Sequence[Sequence[_VariantCall]], rows: Mapping[str, tuple[Row, ...]]
) -> dict[str, dict[str, _Lookup]]:
    """By group and call, what is found and what should be."""
    by_group: dict[str, dict[str, _Lookup]] = {}
    for same in calls:
        best = max(same, key=lambda made: len(rows[made.key]))  # the original, where all find as many
        original = best.to_original(rows[best.key])
        for made in same:
            expected = tuple(made.rewritten(row) for row in original)
            lookup = by_group.setdefault(made.group, {}).setdefault(made.key, _Lookup(made.call, rows[made.key]))
            lookup.dialogues[made.dialogue] = None
            if len(expected) > len(lookup.expected) or not lookup.expected:
                lookup.expected = expected
    return by_group


def _gold_calls(variants: Variants) -> Iterator[list[_VariantCall]]:
    """Every gold call of a dialogue in all its variants; those that are the same in all are left out."""
    dialogue = variants.original.dialogue
    for step in (step for turn in dialogue.turns for step in turn.steps if step.call.get(API_NAME)):
        calls = [_VariantCall(dialogue.id, _source(variants), step.call, None)]
        for run in variants.groups:
            if run.rewrite is not None:
                calls.append(_VariantCall(dialogue.id, run.rewrite.target, run.rewrite(step.call), run.rewrite))
        if len({call.key for call in calls}) > 1:
            yield calls


def _calls_of_system(variants: Variants, made: CallsMade) -> Iterator[list[_VariantCall]]:
    """What a system called in the original and in each variant, where it is the same call rewritten."""
    dialogue = variants.original.dialogue.id
    for turn, same in enumerate(made.get((dialogue, ORIGINAL), ())):
        for number, call in enumerate(same):
            if not isinstance(call, Mapping) or not call.get(API_NAME):
                continue
            calls = [_VariantCall(dialogue, _source(variants), call, None)]
            for rewrite in (run.rewrite for run in variants.groups if run.rewrite is not None):
                other = _at(made.get((dialogue, rewrite.target), ()), turn, number)
                if isinstance(other, Mapping):
                    back = rewrite.inverse(plain(other))
                    if to_json(back).casefold() == to_json(call).casefold():
                        calls.append(_VariantCall(dialogue, rewrite.target, other, rewrite))
            if len({call.key for call in calls}) > 1:
                yield calls


def _at(calls: Sequence[Sequence[Any]], turn: int, number: int) -> Any:
    """A call of a turn; None where there is none."""
    of_turn = calls[turn] if turn < len(calls) else ()
    return of_turn[number] if number < len(of_turn) else None


def _source(variants: Variants) -> str:
    """The group of the original's own terms."""
    return next((run.rewrite.source for run in variants.groups if run.rewrite is not None), ORIGINAL)


def calls_made(
    turns: pd.DataFrame | None, axis: str, stage: str = "db", call: str = "api_call"
) -> dict[tuple[str, str], list[list[Any]]]:
    """The calls that a system looked up in a finished run, for ``made`` of :func:`check_database`.

    Args:
        turns: rows of its ``turns.parquet``, of :data:`UNSWAPPED_ARMS` at least; None where it kept none.
        axis: along which the dialogues are rewritten.
        stage: name of the database: a call is its argument, or without one
        call: what the stage of this name put out before.
    """
    if turns is None or stage not in turns:
        return {}
    rows = turns[(turns["axis"] == axis) & turns["arm"].isin(UNSWAPPED_ARMS) & (turns["sample"] == 0)]
    by_variant: dict[tuple[str, str], list[Any]] = {}
    for arm, dialogue, group, text in zip(rows["arm"], rows["dialogue"], rows["group"], rows["steps"], strict=True):
        calls = by_variant.setdefault((dialogue, ORIGINAL if arm == ORIGINAL else group), [])
        calls.append([parse_call(made or "") for made in _looked_up_in(text, stage, call)])
    return by_variant


def stage_with_calls(turns: pd.DataFrame | None) -> str | None:
    """The stage of a finished run that is given calls as its argument; None where there is none."""
    for text in () if turns is None else turns["steps"]:
        for name, argument, _ in json.loads(text):
            if argument is not None and isinstance(call := parse_call(argument), Mapping) and call.get(API_NAME):
                return str(name)
    return None


def _looked_up_in(text: str, stage: str, call: str) -> Iterator[str | None]:
    """The calls that a database got in a turn, as texts."""
    before = None
    for name, argument, output in json.loads(text):
        if name == stage:
            yield before if argument is None else argument
        elif name == call:
            before = output


def _kind(rows: Sequence[Row], expected: Sequence[Row]) -> str:
    """How what is found falls short; empty where it does not."""
    if len(rows) < len(expected):
        return "fewer" if rows else "none"
    if sorted(map(to_json, rows)) == sorted(map(to_json, expected)):
        return ""
    fields = [sum(value not in ("", None) for row in some for value in row.values()) for some in (rows, expected)]
    if fields[0] < fields[1]:
        return "poorer"
    return "other" if len(rows) == len(expected) else ""
