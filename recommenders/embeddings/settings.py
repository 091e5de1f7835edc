"""What an audit's numbers depend on, beside embeddings and sets."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from annotated_types import Ge
from pydantic import Field

from tod_bias.config import InferenceOptions, Positive, Resamples, Seeded
from tod_bias.recommenders.embeddings.significance import ALPHA
from tod_bias.statistics.permutation import Alternative

TOP_ITEMS = 3
"""Items of a user's history that describe the user (Beattie section 5.2.4)."""


class AssociationStatistics(InferenceOptions, Seeded):
    """How intervals and p-values are estimated."""

    title: ClassVar[str] = "Statistics"

    permutations: Annotated[Resamples, Ge(1)] = 10_000
    """Permutations of the tests; fewer where all can be enumerated."""


class AuditSettings(AssociationStatistics):
    """What the numbers depend on, beside embeddings and sets."""

    not_options: ClassVar[frozenset[str]] = frozenset(
        {"attribute", "csvc", "svc_sample", "pairs", "top_items", "alpha"}
    )

    alternative: Alternative = "two-sided"
    """Of the permutation tests."""
    ddof: Annotated[int, Field(ge=0, le=1)] = 0
    """Effect sizes divide by n (0) or n - 1 (1)."""
    attribute: str = "attribute"
    """Its name, in words."""
    csvc: tuple[int, ...] | None = None
    """Most biased entities a side, one direction each; None for the usual sizes."""
    svc_sample: int | None = None
    """Entities a side of the SVC direction; None for all training entities."""
    pairs: Any = None
    """(pairs, 2) rows of A and of B for the PCA direction; None draws them at random."""
    top_items: Positive = TOP_ITEMS
    """Items of a user's history that describe the user."""
    alpha: float = ALPHA
    """Of the tests, before corrections."""
