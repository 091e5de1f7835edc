"""Settings of training and generation."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from annotated_types import MinLen
from pydantic import BeforeValidator, Field, model_validator

from tod_bias.config import IN_FILE, Options, Positive, Seeded, names, whole
from tod_bias.errors import ModelError
from tod_bias.models.examples import PARTS, Part

Arch = Literal["gpt2", "bart", "t5"]
READERS: tuple[Arch, ...] = ("bart", "t5")
"""Sequence-to-sequence architectures."""

HIGHEST_RATE = 10
"""Learning rates from here on end every training."""
Dtype = Literal["auto", "float32", "bfloat16"]
Backend = Literal["auto", "batch", "tree"]


class GenerationSettings(Options):
    """Everything besides the model that decides what is generated; part of the cache key and of the signature."""

    max_new_tokens: Positive = 128
    """Maximum number of tokens in one output."""
    dtype: Dtype = "auto"
    """``auto``: bfloat16 where a GPU has it, else float32, the reference. bfloat16 changes some outputs."""
    backend: Backend = "auto"
    """Decoding back end: ``tree`` computes shared prefixes once (causal models), ``batch`` pads and batches, ``auto``
    is ``tree`` if possible."""
    batch_tokens: Annotated[int, BeforeValidator(whole), Field(ge=0)] = 0
    """Maximum number of tokens in one batch; 0 lets device and back end decide."""


class Schedule(Seeded):
    """Length and learning rate of a training."""

    epochs: Annotated[Positive, Field(le=1_000_000)] = 3
    """Maximum number of passes over the dialogues."""
    max_steps: Annotated[Annotated[Positive, Field(le=1_000_000_000)] | None, IN_FILE] = None
    """Number of steps after which training stops."""
    learning_rate: Annotated[float, Field(gt=0, lt=HIGHEST_RATE)] | None = None
    """Peak of a cosine schedule; by default 1e-3 from scratch (bart: 3e-4), else 5e-5."""
    batch: Annotated[Annotated[Positive, Field(le=1_000_000)], IN_FILE] = 16
    """Sequences per device and forward pass."""
    gradient_accumulation: Annotated[Annotated[Positive, Field(le=1_000_000)], IN_FILE] = 1
    """Forward passes per step."""
    patience: Annotated[Annotated[Positive, Field(le=1_000_000_000)], IN_FILE] = 3
    """Validations without a lower loss after which training stops."""
    bf16: Annotated[bool, IN_FILE] = False
    """Train in bfloat16."""
    seed: Annotated[int, BeforeValidator(whole), Field(ge=0, lt=1 << 32)] = 0
    """Seed of weights, order, dropout and the choice of held-out dialogues."""


class TrainConfig(Schedule):
    """Everything that determines the result of a training."""

    title: ClassVar[str] = "Training"

    arch: Arch | None = None
    """From scratch: gpt2 (causal; by default), bart or t5 (sequence to sequence)."""
    init: Annotated[str, Field(min_length=1)] = "scratch"
    """Name or folder of a checkpoint to fine-tune, or ``scratch`` for random weights and a new tokenizer."""
    parts: Annotated[Annotated[tuple[Part, ...], BeforeValidator(names), MinLen(1)], IN_FILE] = PARTS
    """Targets, joined by commas: api_call, response or both."""
    loss: Annotated[Literal["all", "targets"] | None, IN_FILE] = None
    """Causal models: the loss is over all tokens (SimpleTOD; by default), or over targets only."""
    max_length: Annotated[Positive, Field(le=1_000_000)] = 1024
    """Maximum number of tokens in a sequence; fewer if the model has fewer positions."""
    evaluations: Annotated[Annotated[Positive, Field(le=1_000_000)], IN_FILE] = 2
    """Validations per epoch."""
    vocabulary: Annotated[Annotated[Positive, Field(le=10_000_000)], IN_FILE] = 8192
    """From scratch: number of tokens of the tokenizer."""
    layers: Annotated[Annotated[Positive, Field(le=1000)], IN_FILE] = 4
    """Number of layers of a model from scratch (of encoder and decoder each, if it has both)."""
    width: Annotated[Annotated[Positive, Field(le=1_000_000)], IN_FILE] = 256
    """From scratch: hidden size."""
    heads: Annotated[Annotated[Positive, Field(le=10_000)], IN_FILE] = 4
    """From scratch: attention heads."""
    dropout: Annotated[Annotated[float, Field(ge=0, lt=1)], IN_FILE] = 0.1
    """From scratch: dropout."""
    positions: Annotated[Annotated[Positive, Field(le=1_000_000)] | None, IN_FILE] = None
    """From scratch: number of positions; give more than --max-length if a later training reads longer sequences."""

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.init == "scratch":
            check_loss(self.arch, self.loss, causal=self.arch not in READERS)
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of {self.heads} heads")
        return self


SCRATCH = ("layers", "width", "heads", "vocabulary", "dropout", "positions")
"""Options of models from scratch."""


def usual_rate(init: str, arch: str | None) -> float:
    """The peak learning rate of a training that is given none."""
    if init != "scratch":
        return 5e-5
    return _RATES.get(arch or "", 1e-3)


_RATES = {"bart": 3e-4}
"""Peaks of new models that normalise after adding: at 1e-3 BART's encoder ends up saying the same of every text, as
residual branches that are too large make training unstable there (Liu et al. 2020, "Understanding the Difficulty of
Training Transformers")."""


def check_arch(init: str, actual: str, arch: str | None) -> None:
    """Raises ModelError where a checkpoint's architecture is not the one that was given."""
    if arch not in (None, actual):
        raise ModelError(f"{init}: is a {actual} checkpoint, but --arch is {arch}; leave --arch out")


def check_loss(arch: str | None, loss: str | None, *, causal: bool) -> None:
    """Raises ModelError where a loss is chosen for a model that learns its targets only."""
    if loss is not None and not causal:
        raise ModelError(f"loss is for causal models; {arch} learns targets only, leave it out")
