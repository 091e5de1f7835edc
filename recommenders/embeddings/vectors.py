"""Vectors of entities, with their ids and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.errors import EmbeddingsError

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_TABLE = {"A": "users", "B": "users", "E": "items", "P": "items"}
"""Default table of a set, if there are two tables."""


@dataclass(frozen=True)
class Entities:
    """One table of embeddings.

    Raises:
        EmbeddingsError: not a matrix of numbers, a NaN or infinite number, ids that do not fit or repeat.
    """

    name: str
    """``users``, ``items`` or ``vectors``."""
    vectors: np.ndarray
    """(entities, dimensions)."""
    ids: tuple[str, ...] = ()
    """One an entity; row numbers where the input names none."""
    attributes: pd.DataFrame | None = None
    """One row an entity, in the order of the vectors."""
    source: str = "the embeddings"
    """Source, for messages."""

    def __post_init__(self) -> None:
        where = f"{self.source}: {self.name}"
        try:
            if np.iscomplexobj(self.vectors):
                raise ValueError("complex ones have no cosine")
            vectors = np.asarray(self.vectors, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise EmbeddingsError(f"{where}: expected a matrix of numbers ({error})") from error
        if vectors.ndim != 2 or 0 in vectors.shape:
            raise EmbeddingsError(f"{where}: expected a matrix (entities, dimensions), got shape {vectors.shape}")
        ids = tuple(map(str, self.ids)) or tuple(map(str, range(len(vectors))))
        if len(ids) != len(vectors):
            raise EmbeddingsError(f"{where}: {len(ids)} ids for {len(vectors)} vectors; give one id a vector")
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            raise EmbeddingsError(
                f"{where}: row {bad[0]} (id {ids[bad[0]]!r}) holds a NaN or infinite number; {len(bad)} rows do: drop "
                "such entities or train again"
            )
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "ids", ids)
        if len(self.rows_by_id) != len(ids):
            repeated = next(name for row, name in enumerate(ids) if self.rows_by_id[name] != row)
            raise EmbeddingsError(f"{where}: id {repeated!r} is repeated; ids must be unique")

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def rows_by_id(self) -> dict[str, int]:
        """Row of every id."""
        return {name: row for row, name in enumerate(self.ids)}

    @cached_property
    def is_zero(self) -> np.ndarray:
        """(entities,) true where a vector is all zeros, so that it has no cosine."""
        return np.asarray(~self.vectors.any(axis=1))


@dataclass(frozen=True)
class Embeddings:
    """One or two tables of entities in one latent space.

    Raises:
        EmbeddingsError: no table, or tables of different dimensions.
    """

    tables: Mapping[str, Entities]
    source: str = "the embeddings"
    notes: tuple[str, ...] = field(default=())
    """Decisions of the reader, for the record."""

    def __post_init__(self) -> None:
        if not self.tables:
            raise EmbeddingsError(f"{self.source}: no vectors; expected a matrix 'vectors', or 'users' and 'items'")
        sizes = {name: table.dimensions for name, table in self.tables.items()}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise EmbeddingsError(f"{self.source}: dimensions differ: {listed}; both must be in one latent space")

    @classmethod
    def of(cls, source: str = "the embeddings", **matrices: Any) -> Embeddings:
        """Embeddings from matrices: ``Embeddings.of(users=…, items=…)`` or ``Embeddings.of(vectors=…)``."""
        return cls({name: Entities(name, matrix, source=source) for name, matrix in matrices.items()}, source)

    def table(self, name: str | None, role: str, where: str) -> Entities:
        """Return the table of a set.

        Args:
            name: of the table, or None for the usual one of ``role``.
            role: A, B, E or P.
            where: for messages.

        Raises:
            EmbeddingsError: no table of that name.
        """
        if name is None:
            if len(self.tables) == 1:
                return next(iter(self.tables.values()))
            name = DEFAULT_TABLE[role]
        if name not in self.tables:
            raise EmbeddingsError(f"{where}: no table {name!r} in {self.source}; it holds {', '.join(self.tables)}")
        return self.tables[name]


def checked_matrix(vectors: Any, name: str, dimensions: int | None = None) -> np.ndarray:
    """A set's vectors as float64, (entities, dimensions), checked.

    Raises:
        EmbeddingsError: an empty set, a NaN, a zero vector, or other dimensions than ``dimensions``.
    """
    matrix = np.asarray(vectors, dtype=np.float64)
    if matrix.ndim != 2 or not len(matrix):
        raise EmbeddingsError(f"{name}: expected a matrix (entities, dimensions), got shape {matrix.shape}")
    if dimensions is not None and matrix.shape[1] != dimensions:
        raise EmbeddingsError(f"{name}: dimensions differ: {matrix.shape[1]} against {dimensions}")
    usable = np.isfinite(matrix).all(axis=1) & matrix.any(axis=1)
    if not usable.all():
        raise EmbeddingsError(f"{name}: row {int(np.argmin(usable))} holds a NaN or infinite number, or nothing but 0")
    return matrix


def unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors at length 1, (…, dimensions). Scaled first, so that tiny and huge ones keep their precision."""
    scaled = vectors / np.abs(vectors).max(axis=-1, keepdims=True)
    return scaled / np.linalg.norm(scaled, axis=-1, keepdims=True)
