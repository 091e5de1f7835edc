"""The table of counterfactuals on disk.

``variants.parquet`` has one row per variant of a dialogue along an axis (the original, its counterfactuals, references
and placebo): groups, terms, clusters, and how many words are rewritten. ``turns.parquet`` has what the system did in
the turns of each; the columns :data:`VARIANT_KEY` join the two tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tod_bias.audit.arm_sums import numbers_of
from tod_bias.audit.variant_index import VariantIndex, terms_by_factor
from tod_bias.dialogues.text import well_formed
from tod_bias.errors import AxisError
from tod_bias.perturb.axis import Expressions, Role, Variants
from tod_bias.results import TURNS, VARIANT_KEY, RunError
from tod_bias.systems.execution import Run

SYSTEM_PROMPT = "system_prompt"
"""Column of the instructions that a dialogue's system had, in the original's row; nothing rewrites them."""
CLUSTER = "cluster "
"""Prefix of the columns of further clusters: ``cluster domain``."""
_TEXTS = ("role", "source", "group", "term", SYSTEM_PROMPT)


class Membership(NamedTuple):
    """The clusters that one dialogue and its counterfactuals belong to."""

    terms: Sequence[Expressions]
    """Per counterfactual: the terms that express the dialogue's own group, and those that express the other one."""
    kinds: Mapping[str, str]
    """Further kinds of clusters, and the dialogue's own."""


def variants_schema(kinds: Iterable[str] = ()) -> pa.Schema:
    """Return the columns of the table of counterfactuals.

    Args:
        kinds: names of further kinds of clusters.
    """
    terms = pa.list_(pa.string())
    factors = pa.list_(pa.struct([("source_terms", terms), ("terms", terms)]))
    fields: dict[str, pa.DataType] = dict.fromkeys((*VARIANT_KEY, *_TEXTS), pa.string())
    fields |= {"draw": pa.int64(), "edits": pa.float64(), "source_terms": terms, "terms": terms, "factors": factors}
    return pa.schema({**fields, **{f"{CLUSTER}{name}": pa.string() for name in kinds}})


class VariantRows:
    """Collects the rows of some dialogues on one axis."""

    def __init__(self, axis: str, schema: pa.Schema) -> None:
        self._axis, self._schema = axis, schema
        self._rows: list[dict[str, Any]] = []

    def add_dialogue(self, variants: Variants, member: Membership) -> None:
        """Add the variants of a dialogue: the original, its counterfactuals, then references and placebo."""
        edits, placebo_edits = (None, None) if variants.edits is None else variants.edits
        kinds = {f"{CLUSTER}{name}": None if label is None else str(label) for name, label in member.kinds.items()}
        self._add(
            variants.original, "original", {SYSTEM_PROMPT: well_formed(variants.original.rewritten.system) or None}
        )
        groups = len(variants.groups)
        for counterfactual, expressed in zip(variants.groups, member.terms, strict=True):
            terms = {
                "source_terms": _sorted(expressed.source),
                "terms": _sorted(expressed.target),
                "factors": [
                    {"source_terms": _sorted(factor.source), "terms": _sorted(factor.target)}
                    for factor in expressed.factors
                ]
                or None,
            }
            self._add(counterfactual, "group", {"draw": counterfactual.draw, "edits": edits, **terms, **kinds})
        for run in variants.rewritten[groups:]:
            is_placebo = run is variants.placebo
            self._add(run, "placebo" if is_placebo else "reference", {"edits": placebo_edits if is_placebo else None})

    def _add(self, run: Run, role: Role, facts: Mapping[str, Any]) -> None:
        row = {"axis": self._axis, "dialogue": run.rewritten.id, "variant": run.variant, "role": role, "draw": 0}
        if run.rewrite is not None:
            row |= {"source": run.rewrite.source, "group": run.rewrite.target, "term": run.rewrite.word}
        self._rows.append({**row, **facts})

    def table(self) -> pa.Table:
        """Return the rows."""
        return pa.Table.from_pylist(self._rows, schema=self._schema)


def _sorted(terms: Iterable[str]) -> list[str]:
    return [well_formed(term) for term in sorted(terms)]


def check_variants(path: Path) -> None:
    """Raise unless a run has a table of counterfactuals.

    Raises:
        RunError: the file is missing, or is no regular file.
    """
    if os.path.lexists(path) and not path.is_file():
        raise RunError(f"{path}: is not a regular file; remove it, or repeat the run's command")
    if not path.is_file():
        raise RunError(
            f"{path.parent}: holds {TURNS} but no {path.name}, another version wrote it; repeat the run's command "
            "(outputs are cached)"
        )


def read_variants(path: Path, axis: str | None = None) -> pd.DataFrame:
    """Read the counterfactuals of a run.

    Args:
        path: of the table.
        axis: to be read; None for all.

    Raises:
        RunError: the file is missing, is no regular or no Parquet file, or lacks a column.
    """
    check_variants(path)
    try:
        known = pq.read_schema(path)
        for field in variants_schema():
            place = known.get_field_index(field.name)
            if place < 0 or not _is_kind(known.field(place).type, field.type):
                raise RunError(f"{path}: has no column {field.name!r} of {field.type}; repeat the run's command")
        frame = pq.read_table(path, filters=None if axis is None else [("axis", "=", axis)]).to_pandas()
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"{path}: cannot be read as a run's counterfactuals ({reason}); repeat the run") from error
    _check_rows(path, frame)
    return frame


def _is_kind(given: pa.DataType, expected: pa.DataType) -> bool:
    """Return True if a column has the expected type; strings may have any of Arrow's layouts, and be absent."""
    if pa.types.is_null(given):
        return True
    if pa.types.is_string(expected):
        stored = given.value_type if pa.types.is_dictionary(given) else given
        return bool(pa.types.is_string(stored) or pa.types.is_large_string(stored) or pa.types.is_string_view(stored))
    return bool(given == expected)


def _check_rows(path: Path, frame: pd.DataFrame) -> None:
    """Raise if a variant is repeated, or a counterfactual has no terms.

    Raises:
        RunError: it is so.
    """
    if frame.duplicated(VARIANT_KEY).any():
        raise RunError(f"{path}: a counterfactual is in it twice; repeat the run's command")
    terms = frame.loc[frame["role"] == "group", ["source_terms", "terms"]]
    if terms.isna().to_numpy().any() or any(None in some for column in terms for some in terms[column]):
        raise RunError(f"{path}: a counterfactual has no terms; repeat the run's command")


def with_variants(rows: pd.DataFrame, variants: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return turns with what is known of their counterfactuals.

    Args:
        rows: turns.
        variants: of the run, or of one axis.
        columns: of ``variants`` that are added.
    """
    return rows.merge(variants[[*VARIANT_KEY, *columns]], on=VARIANT_KEY, how="left", validate="many_to_one")


@dataclass(frozen=True)
class AxisGroups:
    """Groups of an axis, and the factors of crossed axes."""

    groups: tuple[str, ...]
    factors: tuple[str, ...] = ()


def index_of(
    table: pd.DataFrame,
    axis: str,
    groups: AxisGroups,
    numbers: Mapping[Role, np.ndarray],
    of: Mapping[Role, np.ndarray],
    dialogues: int,
) -> VariantIndex:
    """Return the index of the counterfactuals of an axis.

    Args:
        table: of its variants.
        axis: its name.
        groups: of the axis.
        numbers: places of the variants of each role in the table.
        of: number of the dialogue of each of these.
        dialogues: their number.

    Raises:
        AxisError: a counterfactual has a group that the axis lacks.
    """
    copies, references, placebos = (table.iloc[numbers[role]] for role in ("group", "reference", "placebo"))
    targets = copies["group"].astype(object).tolist()
    names = groups.groups or tuple(dict.fromkeys(targets))
    if unknown := set(targets) - set(names):
        raise AxisError(
            f"axis {axis}: a counterfactual is of group {min(unknown)!r}, which is none of the axis' groups "
            f"({', '.join(names)})"
        )
    sources: list[set[str]] = [set() for _ in range(dialogues)]
    source_terms: list[set[str]] = [set() for _ in range(dialogues)]
    for dialogue, source, terms in zip(of["group"], copies["source"], copies["source_terms"], strict=True):
        sources[dialogue].add(str(source))
        source_terms[dialogue].update(terms)
    target, draw = numbers_of(targets, names), copies["draw"].to_numpy()
    is_crossed = len(set(zip(of["group"].tolist(), target.tolist(), strict=True))) == len(target)
    factors = [
        [] if some is None else [(part["source_terms"], part["terms"]) for part in some] for some in copies["factors"]
    ]
    return VariantIndex(
        groups=names,
        # Draws may be of several groups, and then the dialogue has no group.
        source=numbers_of([next(iter(some)) if len(some) == 1 else "" for some in sources], names),
        of=of["group"],
        target=target,
        draw=draw if is_crossed or draw.any() else _numbers_within(of["group"]),
        source_terms=tuple(map(frozenset, source_terms)),
        terms=tuple(map(frozenset, copies["terms"])),
        placebo=of["placebo"],
        placebo_terms=tuple(map(str, placebos["term"])),
        factors=groups.factors,
        by_factor=terms_by_factor(of["group"].tolist(), factors, dialogues),
        references=tuple(
            (int(number), str(name)) for number, name in zip(of["reference"], references["group"], strict=True)
        ),
        clusters=_clusters(copies, of["group"], dialogues),
        edits=(
            _mean_edits(copies, of["group"], of["placebo"]),
            _mean_edits(placebos, of["placebo"], of["placebo"]),
        ),
    )


def _clusters(copies: pd.DataFrame, of: np.ndarray, dialogues: int) -> tuple[tuple[str, tuple[str | None, ...]], ...]:
    """Return each further kind of clusters, with the label of every dialogue; None of one without counterfactuals."""
    kinds = []
    for name in (name for name in copies.columns if name.startswith(CLUSTER)):
        labels: list[str | None] = [None] * dialogues
        for dialogue, label in zip(of, copies[name], strict=True):
            labels[dialogue] = label if isinstance(label, str) else None
        kinds.append((name.removeprefix(CLUSTER), tuple(labels)))
    return tuple(kinds)


def _numbers_within(of: np.ndarray) -> np.ndarray:
    """The number of each variant among those of its dialogue."""
    return pd.Series(of).groupby(of).cumcount().to_numpy()


def _mean_edits(variants: pd.DataFrame, of: np.ndarray, dialogues: np.ndarray) -> float:
    """Words changed per dialogue, mean over variants and then over some dialogues."""
    member = np.isin(of, dialogues)
    if not member.any():
        return 0.0
    of, edits = of[member], variants["edits"].to_numpy(dtype=float)[member]
    count = np.bincount(of)
    return float((np.bincount(of, edits)[count > 0] / count[count > 0]).mean())
