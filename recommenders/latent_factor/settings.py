"""What a training of the two-tower recommender depends on, checked without its libraries."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tod_bias.config import Positive, Seeded


class TwoTowerConfig(Seeded):
    """What training depends on, beside the interactions."""

    title: ClassVar[str] = "Training"

    attribute: str | None = None
    """Users' attribute that the user tower sees; none by default."""
    dimensions: Positive = 32
    """Length of the embeddings."""
    hidden: Positive = 64
    """Width of the hidden layers."""
    epochs: Annotated[Positive, Field(le=100_000)] = 8
    """Passes over the interactions."""
    batch: Positive = 512
    """Interactions in a batch."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-3
    """Of AdamW."""
    weight_decay: Annotated[float, Field(ge=0)] = 1e-5
    """Of AdamW."""
    negatives: Positive = 128
    """Items drawn per batch."""
    sampling: float = 0.75
    """Negatives are drawn with probability proportional to popularity to this power."""
    importance: float = 0.3
    """An interaction weighs popularity to minus this power; 0 weighs all the same."""
