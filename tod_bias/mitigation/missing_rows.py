"""Calls that find rows in one variant of a dialogue and none or fewer in another.

A database is fair under T when a rewritten call finds the rewritten rows (Su, step 2). Every gold call of a dialogue is
looked up as in each of its variants (the original and its counterfactuals). The variant that finds most rows determines
the rows that the others should find. A system may write terms in other letters than the corpus does, so the calls that
it made in a run can be looked up too. No model is called.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tod_bias.audit.design import design_counterfactuals
from tod_bias.config import DesignOptions
from tod_bias.dialogues.dialogue import ORIGINAL_VARIANT, Dialogue
from tod_bias.dialogues.values import API_NAME, plain, to_json
from tod_bias.perturb.axis import Axis, Variants
from tod_bias.statistics.arms import ORIGINAL_ARM
from tod_bias.systems.outputs import parse_call, rows_of
from tod_bias.systems.stage import Stage, StageCall, StageInput, call_stage
from tod_bias.systems.twin import Rewrite

if TYPE_CHECKING:
    import pandas as pd

UNSWAPPED_ARMS = (ORIGINAL_ARM, "")
"""Arms of a run in which no stage is replaced: the originals and their counterfactuals."""
Row = Mapping[str, Any]
CallsMade = Mapping[tuple[str, str], Sequence[Row]]
"""Id and group of a dialogue (``original`` for the original) to the calls of a system."""


@dataclass(frozen=True, order=True)
class MissingRows:
    """A call of a group with the rows that it should find."""

    axis: str
    group: str
    """The group of the variant; for an original, of its terms."""
    call: Row = field(compare=False)
    results: tuple[Row, ...] = field(compare=False)
    """Rows of the variant that finds most, rewritten for this one."""
    rows: int = field(compare=False)
    """Number of rows that the call finds."""
    dialogues: tuple[str, ...] = field(compare=False)

    @property
    def record(self) -> dict[str, Any]:
        """A line of a lookup table (:meth:`~tod_bias.systems.stages.database.LookupDb.save`), with its origin."""
        about = {"axis": self.axis, "group": self.group, "rows": self.rows, "dialogues": list(self.dialogues)}
        return {"call": plain(self.call), "results": plain(list(self.results)), **about}


class DatabaseCheck(NamedTuple):
    """The rows that a database lacks."""

    calls: Mapping[str, Mapping[str, int]]
    """Axis and group to the number of distinct calls that differ from another variant's."""
    missing: tuple[MissingRows, ...]
    """Sorted by axis, group and call."""


def check_database(
    database: Stage,
    dialogues: Iterable[Dialogue],
    axes: Sequence[str | Axis],
    name: str = "db",
    call: str = "api_call",
    *,
    seed: int = 0,
    variants: int | None = None,
    made: CallsMade | None = None,
) -> DatabaseCheck:
    """Look every gold call of a corpus up in every variant of its dialogue.

    Args:
        database: a stage that reads the call as its argument or as the output of ``call``, and no history.
        dialogues: the corpus.
        axes: names or axes.
        name: of the stage, for messages.
        call: name of the stage whose output is the call.
        seed: of the counterfactuals.
        variants: largest number of counterfactuals per dialogue and axis.
        made: calls of a system (:func:`calls_made`): those of originals are looked up too, and those of counterfactuals
            in the letters in which it writes them.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        StageError: the database fails.
    """
    design = design_counterfactuals(list(dialogues), axes, DesignOptions(variants=variants), seed=seed)
    by_axis = {
        axis: [same for entry in design.counterfactuals.of(axis, drawn) for same in _variant_calls(entry, made or {})]
        for axis, drawn in design.selected.items()
    }
    calls_of_all = [variant for calls in by_axis.values() for same in calls for variant in same]
    rows = _looked_up(database, calls_of_all, name, call)
    lookups: dict[tuple[str, str, str], MissingRows] = {}
    for axis, dialogue_calls in by_axis.items():
        for same in dialogue_calls:
            _add(lookups, axis, same, rows)
    missing = [lookup for _, lookup in sorted(lookups.items()) if lookup.rows < len(lookup.results)]
    calls = {axis: dict(Counter(group for of, group, _ in sorted(lookups) if of == axis)) for axis in by_axis}
    return DatabaseCheck(calls, tuple(missing))


class _VariantCall(NamedTuple):
    """A call in one variant of a dialogue."""

    dialogue: str
    group: str
    call: Row
    rewrite: Rewrite | None
    """Rewrite from the original to this variant; None for the original."""

    @property
    def key(self) -> str:
        return to_json(self.call)

    def rewritten(self, row: Row) -> Row:
        """Return a row of the original as this variant has it, in the letters of the call."""
        changed = row if self.rewrite is None else self.rewrite(row)
        return {
            name: self.call[name] if _is_same(self.call.get(name), value) else value for name, value in changed.items()
        }


def _add(
    lookups: dict[tuple[str, str, str], MissingRows],
    axis: str,
    same: Sequence[_VariantCall],
    rows: Mapping[str, tuple[Row, ...]],
) -> None:
    """Add a call in all its variants to the lookups by axis, group and call."""
    best = max(same, key=lambda variant: len(rows[variant.key]))  # the original, if all find as many
    expected = [row if best.rewrite is None else best.rewrite.inverse(plain(row)) for row in rows[best.key]]
    for variant in same:
        key = (axis, variant.group, variant.key)
        known = lookups.setdefault(key, MissingRows(axis, variant.group, variant.call, (), len(rows[variant.key]), ()))
        results = max(known.results, tuple(map(variant.rewritten, expected)), key=len)
        ids = tuple(dict.fromkeys((*known.dialogues, variant.dialogue)))
        lookups[key] = replace(known, results=results, dialogues=ids)


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two values are equal up to letter case."""
    return to_json(value).casefold() == to_json(other).casefold()


def _looked_up(database: Stage, calls: Sequence[_VariantCall], name: str, call: str) -> dict[str, tuple[Row, ...]]:
    """Return the rows of every distinct call."""
    distinct = {variant.key: variant.call for variant in calls}
    inputs = [
        StageInput((), "", {call: made}, (StageCall(call, None, made),), argument=made) for made in distinct.values()
    ]
    outputs = call_stage(name, database, inputs) if inputs else []
    return dict(zip(distinct, map(rows_of, outputs), strict=True))


def _variant_calls(variants: Variants, made: CallsMade) -> Iterator[list[_VariantCall]]:
    """Yield every call of a dialogue in all its variants, if it is not the same in all."""
    dialogue = variants.original.dialogue
    rewrites = [run.rewrite for run in variants.groups if run.rewrite is not None]
    source = rewrites[0].source if rewrites else ORIGINAL_VARIANT
    gold = [step.call for turn in dialogue.turns for step in turn.steps]
    for call in (call for call in (*gold, *made.get((dialogue.id, ORIGINAL_VARIANT), ())) if call.get(API_NAME)):
        same = [_VariantCall(dialogue.id, source, call, None)]
        for rewrite in rewrites:
            image = rewrite(call)
            written = [other for other in made.get((dialogue.id, rewrite.target), ()) if _is_same(other, image)]
            same += [_VariantCall(dialogue.id, rewrite.target, other, rewrite) for other in (image, *written)]
        if len({variant.key for variant in same}) > 1:
            yield same


def calls_made(turns: pd.DataFrame | None, axis: str, stage: str = "db", call: str = "api_call") -> CallsMade:
    """Return the calls that a system looked up in a run, for ``made`` of :func:`check_database`.

    Args:
        turns: rows of ``turns.parquet``, of :data:`UNSWAPPED_ARMS` at least; None if the run kept none.
        axis: along which the dialogues are rewritten.
        stage: name of the database; a call is its argument, or else
        call: the last output of the stage of this name.
    """
    if turns is None or stage not in turns:
        return {}
    rows = turns[(turns["axis"] == axis) & turns["arm"].isin(UNSWAPPED_ARMS) & (turns["sample"] == 0)]
    made: dict[tuple[str, str], list[Row]] = {}
    for arm, dialogue, group, text in zip(rows["arm"], rows["dialogue"], rows["group"], rows["steps"], strict=True):
        before = None
        for name, argument, output in json.loads(text):
            if name == stage:
                looked_up = parse_call((before if argument is None else argument) or "")
                if isinstance(looked_up, Mapping):
                    variant = ORIGINAL_VARIANT if arm == ORIGINAL_ARM else group
                    made.setdefault((dialogue, variant), []).append(looked_up)
            before = output if name == call else before
    return made
