"""Settings of an audit of embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge
from pydantic import Field

from tod_bias.config import ADVANCED, IN_FILE, InferenceOptions, Options, Resamples, Seeded
from tod_bias.statistics.permutation import Alternative


class AssociationRequest(Options):
    """Embeddings, and which sets of their entities are compared."""

    title: ClassVar[str] = "Embeddings"

    embeddings: Path | None = None
    """.npz (implicit's too), .parquet, word2vec text (.txt, .vec) or a torch state (.pt, .pth, .safetensors)."""
    sets: Path | None = None
    """JSON file with A, B, E, P: lists of rows or ids."""
    users: Path | None = None
    """CSV or Parquet: id and attributes of users."""
    items: Path | None = None
    """CSV or Parquet: id and attributes of items."""
    attribute: str | None = None
    """Users' attribute: COLUMN, COLUMN=A,B, or COLUMN=A,rest for one group against all others."""
    test: str | None = None
    """Items to test: COLUMN=E,P; by default all items."""
    cluster_items: Annotated[str | None, ADVANCED] = None
    """Items that belong together (books of one series, tracks of one artist): a column of the items, or a key of
    "clusters" in --sets."""
    interactions: Annotated[Path | None, ADVANCED] = None
    """CSV or Parquet: who used which item; for audiences and histories."""
    pairs: Annotated[Path | None, ADVANCED] = None
    """CSV of pairs (id of A, id of B), such as the same user with either value of the attribute: for the association
    within pairs and for the directions pca and bolukbasi."""
    overlap: Annotated[Literal["refuse", "drop"], ADVANCED] = "refuse"
    """Entities in both A and B, or in both E and P: an error, or left out of both sets and counted."""


class AssociationStatistics(InferenceOptions, Seeded):
    """Options of intervals and p-values."""

    title: ClassVar[str] = "Statistics"

    permutations: Annotated[Annotated[Resamples, Ge(1)], ADVANCED] = 10_000
    """Permutations of the tests; fewer where all can be enumerated."""


class AuditSettings(AssociationStatistics):
    """Settings that determine the numbers, in addition to embeddings and sets."""

    alternative: Annotated[Alternative, ADVANCED] = "two-sided"
    """Alternative of the permutation tests."""
    ddof: Annotated[Annotated[int, Field(ge=0, le=1)], IN_FILE] = 0
    """Effect sizes divide by n (0) or n - 1 (1)."""
