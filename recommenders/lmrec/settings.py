"""Settings of a training of LMRec, checked without its libraries."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from tod_bias.config import IN_FILE, Positive, whole
from tod_bias.models.settings import Schedule

Size = Annotated[Positive, Field(le=1_000_000)]


class RecommenderTrainConfig(Schedule):
    """Everything that determines the result of a training of LMRec."""

    title: ClassVar[str] = "Training"

    init: Annotated[str, Field(min_length=1)] = "scratch"
    """Name or folder of an encoder to fine-tune, or ``scratch`` for random weights and a new WordPiece tokenizer."""
    head_layers: Annotated[Annotated[Positive, Field(le=2)], IN_FILE] = 2
    """Layers of the recommendation head: 2 (Shen 2023: ReLU between) or 1 (Shen 2022)."""
    hidden: Annotated[Size, IN_FILE] = 512
    """Width between the head's two layers."""
    dropout: Annotated[Annotated[float, Field(ge=0, lt=1)], IN_FILE] = 0.1
    """Before the head; from scratch in the encoder too (0.1 at most)."""
    learning_rate: Annotated[float, Field(ge=1e-12, lt=10)] | None = None
    """Peak of a linear schedule; by default 1e-3 from scratch, else 3e-5."""
    batch: Annotated[Size, IN_FILE] = 128
    """Reviews in a batch."""
    epochs: Size = 30
    """Passes over the reviews at most."""
    patience: Annotated[Positive, IN_FILE] = 10
    """Number of epochs without a lower validation loss after which training stops; Shen uses 1. From scratch a model
    stays on a plateau before it reads names."""
    max_length: Annotated[int, BeforeValidator(whole), Field(ge=8, le=1_000_000)] = 128
    """Tokens of a review at most."""
    max_steps: Annotated[Positive | None, IN_FILE] = None
    """Number of steps after which training stops."""
    mask: bool = False
    """Train-side masking of names, places and gendered relations (Shen §3.5)."""
    augment: bool = False
    """Also train on every review that names somebody under names of every other group of gender and race
    (counterfactual augmentation, Shen 2022 §5)."""
    seed: Annotated[int, BeforeValidator(whole), Field(ge=0, lt=1 << 32)] = 0
    """Seeds splits, weights, order and dropout."""
    search: Annotated[Positive, Field(le=112)] = 1
    """Number of combinations of hidden, dropout and learning rate to train (Shen 2023 §3.2), drawn with the seed; the
    lowest validation loss decides. Options that are given are kept."""
    vocabulary: Annotated[Annotated[int, BeforeValidator(whole), Field(ge=100, le=1_000_000)], IN_FILE] = 8000
    """From scratch: tokens of the tokenizer."""
    layers: Annotated[Size, IN_FILE] = 1
    """From scratch: layers of the encoder."""
    width: Annotated[Size, IN_FILE] = 64
    """From scratch: hidden size of the encoder."""
    heads: Annotated[Size, IN_FILE] = 2
    """From scratch: attention heads."""

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of {self.heads} heads")
        if self.mask and self.augment:
            raise ValueError("augment puts other names in the places of names, and mask takes them out; give one")
        return self

    def with_usual_rate(self) -> Self:
        """Return the settings with the default peak rate if none is given."""
        usual = 1e-3 if self.init == "scratch" else 3e-5
        return self if self.learning_rate is not None else self.model_copy(update={"learning_rate": usual})


SCRATCH = ("layers", "width", "heads", "vocabulary")
"""Options of encoders from scratch."""
