"""The four sets of Beattie section 4.1: A and B define the attribute, E and P are tested."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tod_bias.errors import EmbeddingsError, repeated
from tod_bias.io.documents import read_json
from tod_bias.recommenders.embeddings.vectors import Embeddings, Entities

ROLES = ("A", "B", "E", "P")
_KEYS = {"in", "rows", "ids", "where", "name"}


@dataclass(frozen=True)
class EntitySet:
    """Entities of one table that play one of the four roles."""

    role: str
    name: str
    """Name in words, e.g. ``women``; by default the role."""
    entities: Entities
    rows: np.ndarray
    """(n,) rows of the table, each once."""
    labels: tuple[str | None, ...] | None = None
    """Cluster of each entity (its series, its artist), None if it is alone; None: all are alone."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def vectors(self) -> np.ndarray:
        """(n, dimensions)."""
        return self.entities.vectors[self.rows]

    @property
    def ids(self) -> list[str]:
        """Ids in the order of the rows."""
        return [self.entities.ids[row] for row in self.rows]

    @property
    def clusters(self) -> np.ndarray:
        """(n,) numbers from 0 of the sampled units: whole clusters, or single entities."""
        return numbered(self.labels or [None] * len(self.rows))


def numbered(labels: Sequence[str | None]) -> np.ndarray:
    """Return (n,) numbers of clusters from 0; a None is its own cluster."""
    keys = [place if label is None else label for place, label in enumerate(labels)]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=int)


@dataclass(frozen=True)
class EntitySets:
    """A, B, E and, if there is a second test set, P.

    Raises:
        EmbeddingsError: an entity in both A and B, or in both E and P.
    """

    a: EntitySet
    b: EntitySet
    e: EntitySet
    p: EntitySet | None = None
    source: str = "the sets"
    clustered_by: str | None = None
    """Attribute by which items of E and P are clustered, e.g. ``series``; None: each item is its own cluster."""
    notes: tuple[str, ...] = ()
    """Notes on what was left out."""

    def __post_init__(self) -> None:
        for first, second in ((self.a, self.b), (self.e, self.p)):
            shared = shared_rows(first, second)
            if second is not None and len(shared):
                more, verb = (f" and {len(shared) - 1} more", "stand") if len(shared) > 1 else ("", "stands")
                raise EmbeddingsError(
                    f"{self.source}: id {first.entities.ids[shared[0]]!r}{more} {verb} in both {first.role} and "
                    f"{second.role}; the two sets must not share entities: take them out, or give --overlap drop"
                )

    @property
    def all(self) -> list[EntitySet]:
        """A, B, E, P, without a missing P."""
        return [self.a, self.b, *self.tested]

    @property
    def tested(self) -> list[EntitySet]:
        """E, and P if there is one."""
        return [self.e] if self.p is None else [self.e, self.p]


REST = "rest"
"""Second value of an option that stands for all other values."""


def shared_rows(first: EntitySet, second: EntitySet | None) -> np.ndarray:
    """Rows that are in both sets."""
    if second is None or first.entities.name != second.entities.name:
        return np.zeros(0, dtype=int)
    return np.intersect1d(first.rows, second.rows)


def load_sets(
    path: str | Path, embeddings: Embeddings, cluster_items: str | None = None, *, drop_shared: bool = False
) -> EntitySets:
    """Read the sets from a JSON file.

    Each of ``A``, ``B``, ``E`` and ``P`` is a list of row numbers (integers) and ids (strings), or an object with
    ``in`` (the table), ``rows``, ``ids`` or ``where`` (attribute to value), and ``name``. Without ``in``, A and B are
    in the table ``users``, and E and P in ``items``. ``clusters`` holds, under a name of your choice, the label of each
    item that is clustered with others: ``{"series": {"item": "label"}}``.

    Args:
        path: of the file.
        embeddings: of the entities.
        cluster_items: a key of ``clusters``, or an attribute of the items.
        drop_shared: leave out, with a note, what is in both A and B or in both E and P; else that is an error.

    Raises:
        EmbeddingsError: the file or a set in it cannot be used.
    """
    try:
        content = read_json(path)
    except (OSError, UnicodeDecodeError) as error:
        raise EmbeddingsError(f"{path}: cannot be read ({error}); expected a JSON file of sets") from error
    except json.JSONDecodeError as error:
        raise EmbeddingsError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from error
    return resolve_sets(content, embeddings, str(path), cluster_items, drop_shared=drop_shared)


def resolve_sets(
    content: Any,
    embeddings: Embeddings,
    source: str = "the sets",
    cluster_items: str | None = None,
    *,
    drop_shared: bool = False,
) -> EntitySets:
    """The sets that a mapping of roles describes, as in :func:`load_sets`."""
    if not isinstance(content, Mapping) or not set(content) <= {*ROLES, "clusters"}:
        raise EmbeddingsError(f"{source}: expected an object with A, B, E and P, got {content!r:.60}")
    given = {role: content[role] for role in ROLES if content.get(role) is not None}
    result = {role: _resolve(role, spec, embeddings, source) for role, spec in given.items()}
    _complete(result, embeddings, source)
    notes = _without_shared(result, source) if drop_shared else ()
    tested = {role: result[role] for role in ("E", "P") if role in result}
    if cluster_items is not None:
        known = {entity for table in embeddings.tables.values() for entity in table.ids}
        tested = {role: _clustered(part, cluster_items, content, known, source) for role, part in tested.items()}
    return EntitySets(result["A"], result["B"], tested["E"], tested.get("P"), source, cluster_items, notes)


def _complete(sets: dict[str, EntitySet], embeddings: Embeddings, source: str) -> None:
    """Raise if A or B is missing; without E and P, use all items as E."""
    if missing := [role for role in ("A", "B") if role not in sets]:
        raise EmbeddingsError(f"{source}: no set {missing[0]}; A and B define the attribute")
    if "E" not in sets:
        if "P" in sets or len(embeddings.tables) == 1:
            raise EmbeddingsError(f"{source}: no set E; name the entities to test")
        table = embeddings.table(None, "E", source)
        sets["E"] = EntitySet("E", f"all {table.name}", table, np.flatnonzero(~table.is_zero))


def _without_shared(sets: dict[str, EntitySet], source: str) -> tuple[str, ...]:
    """Leave out of both sets what is in A and B, and in E and P; returns notes with their number."""
    notes = []
    for first, second in (("A", "B"), ("E", "P")):
        shared = shared_rows(sets[first], sets.get(second))
        if not len(shared):
            continue
        for role in (first, second):
            rows = sets[role].rows[~np.isin(sets[role].rows, shared)]
            if not len(rows):
                raise EmbeddingsError(f"{source}: set {role} is empty without what is in both {first} and {second}")
            sets[role] = replace(sets[role], rows=rows)
        notes.append(f"{len(shared)} {sets[first].entities.name} are in both {first} and {second} and were left out")
    return tuple(notes)


def _clustered(part: EntitySet, name: str, content: Mapping[str, Any], known: set[str], source: str) -> EntitySet:
    """The set with the cluster of each of its entities, by a key of ``clusters`` or an attribute."""
    listed = content.get("clusters", {})
    if not isinstance(listed, Mapping) or not all(isinstance(labels, Mapping) for labels in listed.values()):
        raise EmbeddingsError(f'{source}: clusters: expected {{"series": {{"item": "label"}}}}, got {listed!r:.60}')
    table = part.entities
    if name in listed:
        if unknown := [entity for entity in listed[name] if entity not in known]:
            raise EmbeddingsError(
                f"{source}: clusters, {name}: unknown id {unknown[0]!r}: {table.name} of {table.source} have ids "
                f"{', '.join(table.ids[:3])}, …"
            )
        labels = [listed[name].get(entity) for entity in part.ids]
    elif table.attributes is not None and name in table.attributes:
        cells = table.attributes[name].iloc[part.rows]
        labels = list(cells.astype(object).where(cells.notna(), None))
    else:
        names = [*listed, *(str(column) for column in (() if table.attributes is None else table.attributes))]
        raise EmbeddingsError(
            f"--cluster-items {name}: no such key of clusters in --sets and no such column of {table.name}; known: "
            f"{', '.join(names) or 'none'}"
        )
    return replace(part, labels=tuple(None if label in (None, "") else str(label) for label in labels))


def _resolve(role: str, spec: Any, embeddings: Embeddings, source: str) -> EntitySet:
    where = f"{source}: set {role}"
    if not isinstance(spec, Mapping):
        return _listed(role, role, embeddings.table(None, role, where), spec, where)
    if unknown := [key for key in spec if key not in _KEYS]:
        raise EmbeddingsError(f"{where}: unknown key {unknown[0]!r}; expected {', '.join(sorted(_KEYS))}")
    given = [key for key in ("rows", "ids", "where") if key in spec]
    if len(given) != 1:
        raise EmbeddingsError(f"{where}: give one of rows, ids and where; got {', '.join(given) or 'none'}")
    table, listed, name = embeddings.table(spec.get("in"), role, where), spec[given[0]], spec.get("name")
    if given[0] == "where":
        return _where(role, name, table, listed, where)
    if given[0] == "ids" and isinstance(listed, list):
        listed = [str(entry) for entry in listed]
    return _listed(role, str(name or role), table, listed, where)


def _where(role: str, name: Any, table: Entities, conditions: Any, where: str) -> EntitySet:
    if not isinstance(conditions, Mapping) or not conditions:
        raise EmbeddingsError(f"{where}: 'where' expects attribute: value, got {conditions!r:.60}")
    chosen = ~table.is_zero if role == "E" else np.ones(len(table), dtype=bool)
    for attribute, value in conditions.items():
        if isinstance(value, (list, Mapping)):
            raise EmbeddingsError(f"{where}: 'where' takes one value of {attribute!r}, got {value!r:.60}")
        chosen &= has_value(table, str(attribute), value, where)
    label = str(name) if name else ", ".join(str(value) for value in conditions.values())
    return _listed(role, label, table, np.flatnonzero(chosen).tolist(), where)


def attribute_cells(table: Entities, attribute: str, where: str) -> pd.Series:
    """An attribute of every entity.

    Raises:
        EmbeddingsError: no such attribute.
    """
    if table.attributes is None or attribute not in table.attributes:
        known = [] if table.attributes is None else [str(column) for column in table.attributes]
        raise EmbeddingsError(
            f"{where}: {table.name} have no attribute {attribute!r}; known: {', '.join(known) or 'none'}"
            + ("" if known else f"; give them with --{table.name} FILE.csv")
        )
    return table.attributes[attribute]


def has_value(table: Entities, attribute: str, value: Any, where: str) -> np.ndarray:
    """(entities,) true where an attribute has a value; several values in one cell are split at ``|``.

    Raises:
        EmbeddingsError: no such attribute, or no entity with this value.
    """
    column = attribute_cells(table, attribute, where)
    cells = column.astype(str).where(column.notna(), "").str.split("|")
    result = np.array([str(value) in cell for cell in cells])
    if not result.any():
        seen = sorted({part for cell in cells for part in cell} - {""})
        listed = ", ".join(seen[:8]) + (", …" if len(seen) > 8 else "")
        raise EmbeddingsError(f"{where}: the set is empty: no {attribute} is {value!r}; values: {listed or 'none'}")
    return result


def _listed(role: str, name: str, table: Entities, listed: Any, where: str) -> EntitySet:
    if not isinstance(listed, list):
        raise EmbeddingsError(f"{where}: expected a list of row numbers or ids, got {type(listed).__name__}")
    if not listed:
        raise EmbeddingsError(f"{where}: the set is empty; it needs at least one entity")
    rows = []
    for entry in listed:
        row = table.rows_by_id.get(entry) if isinstance(entry, str) else entry
        if type(row) is not int or not 0 <= row < len(table):
            raise EmbeddingsError(
                f"{where}: unknown row or id {entry!r}: {table.name} of {table.source} has rows 0 to {len(table) - 1} "
                f"and ids {', '.join(table.ids[:3])}, …"
            )
        rows.append(row)
    if (doubled := repeated(rows)) is not None:
        raise EmbeddingsError(f"{where}: id {table.ids[doubled]!r} is repeated in the set")
    if zero := [row for row in rows if table.is_zero[row]]:
        raise EmbeddingsError(
            f"{where}: row {zero[0]} (id {table.ids[zero[0]]!r}) of {table.name} in {table.source} is a zero vector, "
            f"which has no cosine; leave it out"
        )
    return EntitySet(role, name, table, np.array(rows))


def attribute_specs(table: Entities, option: str, roles: tuple[str, str]) -> dict[str, Any]:
    """Set descriptions from ``COLUMN=VALUE,VALUE`` or ``COLUMN`` where the column has two values.

    ``COLUMN=VALUE,rest`` sets one value against all others, for an attribute of more than two groups (Beattie section 8
    leaves these to future work). Entities without a value are in neither set.

    Raises:
        EmbeddingsError: the column is unknown, or does not have two values and none were named.
    """
    column, _, values = option.partition("=")
    names = [value.strip() for value in values.split(",") if value.strip()]
    if not names:
        cells = attribute_cells(table, column, option)
        names = sorted(str(value) for value in cells.dropna().unique())
        if len(names) != 2:
            listed = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
            raise EmbeddingsError(
                f"{column} of {table.name} has {len(names)} values ({listed}); name two: {column}=VALUE,VALUE, or one "
                f"against all others: {column}=VALUE,{REST}"
            )
    if len(names) > 2 or (len(names) == 1 and roles == ("A", "B")):
        raise EmbeddingsError(f"{option}: expected {column}=VALUE,VALUE, got {len(names)} value(s)")
    specs: dict[str, Any] = {
        role: {"in": table.name, "where": {column: name}, "name": name}
        for role, name in zip(roles, names, strict=False)
    }
    if names[1:] == [REST]:
        others = attribute_cells(table, column, option).notna().to_numpy() & ~has_value(table, column, names[0], option)
        ids = [table.ids[row] for row in np.flatnonzero(others)]
        specs[roles[1]] = {"in": table.name, "ids": ids, "name": f"not {names[0]}"}
    return specs
