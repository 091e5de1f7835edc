"""What decides a training and what is generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tod_bias.models.examples import PARTS, Part

Arch = Literal["gpt2", "bart", "t5"]
ARCHITECTURES: tuple[Arch, ...] = ("gpt2", "bart", "t5")


@dataclass(frozen=True)
class GenerationSettings:
    """Everything besides the model that decides what is generated; part of the cache key and of the signature."""

    max_new_tokens: int = 128
    """Tokens in one output at the most."""
    num_beams: int = 1
    """1 is greedy decoding."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """``auto``: bfloat16 where a GPU has it, else float32, the reference. bfloat16 changes some outputs."""
    backend: Literal["auto", "batch", "tree"] = "auto"
    """``tree`` computes shared prefixes once (greedy decoding of causal models); ``batch`` pads and batches."""
    batch_tokens: int = 0
    """Tokens in one batch at the most; 0 chooses by device and back end."""


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that decides what comes out of a training."""

    arch: Arch = "gpt2"
    """``gpt2`` (causal), ``bart`` or ``t5`` (sequence to sequence)."""
    init: str = "scratch"
    """A checkpoint's name or folder, or ``scratch``: random weights and a byte-level BPE tokenizer of its own."""
    parts: tuple[Part, ...] = PARTS
    """The targets: one model for both stages, or for one of them."""
    loss: Literal["all", "targets"] = "all"
    """For a causal model: every token counts (SimpleTOD), or the targets only."""
    epochs: int = 3
    """Passes over the training dialogues at the most."""
    max_steps: int | None = None
    """Stop after so many steps; the learning rate falls as if all epochs were to come."""
    learning_rate: float = 1e-3
    """Peak of a cosine schedule; about 5e-5 where ``init`` is a pretrained checkpoint."""
    warmup: float = 0.05
    """Share of all steps in which the learning rate rises."""
    weight_decay: float = 0.01
    batch_tokens: int = 8192
    """Tokens in one batch at the most, padding included."""
    max_length: int = 1024
    """Tokens in one sequence at the most (less where the model has fewer positions)."""
    evaluations: int = 2
    """Validations an epoch."""
    patience: int = 3
    """Stop after so many validations without a lower loss."""
    bf16: bool = False
    """Train in bfloat16 autocast."""
    seed: int = 0
    """Seeds weights, order and dropout."""
    vocabulary: int = 8192
    """From scratch: tokens of the tokenizer."""
    layers: int = 4
    """From scratch: layers (of encoder and decoder each, where there are two)."""
    width: int = 256
    """From scratch: hidden size."""
    heads: int = 4
    """From scratch: attention heads."""
    dropout: float = 0.1
    """From scratch: dropout."""
    positions: int | None = None
    """From scratch: positions of the model, where a later training is to read longer sequences than ``max_length``."""
