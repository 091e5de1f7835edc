"""What an audit's numbers depend on, beside embeddings and sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tod_bias.errors import EmbeddingsError, StatisticsError
from tod_bias.recommenders.embeddings.association import check_ddof
from tod_bias.recommenders.embeddings.significance import ALPHA
from tod_bias.statistics.permutation import Alternative, check_alternative

TOP_ITEMS = 3
"""Items of a user's history that describe the user (Beattie section 5.2.4)."""


@dataclass(frozen=True)
class AuditSettings:
    """What the numbers depend on, beside embeddings and sets."""

    attribute: str = "attribute"
    """Its name, in words."""
    alternative: Alternative = "two-sided"
    permutations: int = 10_000
    bootstrap: int = 1000
    ddof: int = 0
    """Of the standard deviations in the effect sizes."""
    csvc: tuple[int, ...] | None = None
    """Most biased entities a side, one direction each; None for the usual sizes."""
    svc_sample: int | None = None
    """Entities a side of the SVC direction; None for all training entities."""
    pairs: np.ndarray | None = None
    """(pairs, 2) rows of A and of B for the PCA direction; None draws them at random."""
    top_items: int = TOP_ITEMS
    alpha: float = ALPHA
    seed: int = 0

    def __post_init__(self) -> None:
        try:
            check_alternative(self.alternative)
        except StatisticsError as error:
            raise EmbeddingsError(str(error)) from error
        check_ddof(self.ddof)
        if self.permutations < 1 or self.bootstrap < 0 or self.top_items < 1:
            raise EmbeddingsError("permutations and top items must be 1 or more, bootstrap 0 or more")
