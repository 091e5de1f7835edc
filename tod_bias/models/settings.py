"""What decides a training and what is generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tod_bias.errors import ModelError
from tod_bias.models.examples import PARTS, Part

Arch = Literal["gpt2", "llama", "bart", "t5"]
ARCHITECTURES: tuple[Arch, ...] = ("gpt2", "llama", "bart", "t5")
"""What can be made from scratch."""
READERS: tuple[Arch, ...] = ("bart", "t5")
"""Those that read and write apart (sequence to sequence)."""
Format = Literal["text", "chat"]
FORMATS: tuple[Format, ...] = ("text", "chat")

HIGHEST_RATE = 10
"""No training stands a learning rate, a warm-up or a decay of weights that is higher."""
Dtype = Literal["auto", "float32", "bfloat16"]
Backend = Literal["auto", "batch", "tree"]


@dataclass(frozen=True)
class GenerationSettings:
    """Everything besides the model that decides what is generated; part of the cache key and of the signature."""

    max_new_tokens: int = 128
    """Tokens in one output at the most."""
    num_beams: int = 1
    """1 is greedy decoding."""
    dtype: Dtype = "auto"
    """``auto``: bfloat16 where a GPU has it, else float32, the reference. bfloat16 changes some outputs."""
    backend: Backend = "auto"
    """``tree`` computes shared prefixes once (greedy decoding of causal models); ``batch`` pads and batches.
    ``auto`` is ``tree`` where it can be, else ``batch``."""
    batch_tokens: int = 0
    """Tokens in one batch at the most; 0 chooses by device and back end."""


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that decides what comes out of a training."""

    arch: str | None = None
    """From scratch: ``gpt2`` (if left out) or ``llama`` (causal), ``bart`` or ``t5`` (sequence to sequence). Of a
    checkpoint it is read from its configuration, and what is given must be that."""
    init: str = "scratch"
    """A checkpoint's name or folder, or ``scratch``: random weights and a byte-level BPE tokenizer of its own."""
    format: Format = "text"
    """``text``: SimpleTOD's lines; ``chat``: messages in the chat template, for a causal model behind a chat API."""
    chat_template: str | None = None
    """For chats: a file, ``chatml`` (:mod:`tod_bias.models.chat_template`), or the tokenizer's own where left out."""
    tools: str | None = None
    """For chats: a JSON file of the tools that are offered (:func:`tod_bias.models.chats.read_tools`)."""
    system: str = ""
    """For chats: the system message of dialogues that have none."""
    parts: tuple[Part, ...] = PARTS
    """The targets: one model for both stages, or for one of them; for chats, messages with calls and those without."""
    described: bool = False
    """For a causal model of texts: it reads the dialogue's system message, which describes the services, before all
    turns; at training these stand in a random order."""
    renamed: float = 0.0
    """With ``described``: the probability that a service of a training dialogue has APIs and slots of other names."""
    tellings: int = 1
    """With ``described``: so many copies of each training dialogue, with orders and names of their own."""
    loss: Literal["all", "targets"] | None = None
    """For a causal model: every token counts, or the targets only. Left out: all of a text (SimpleTOD), targets of a
    chat."""
    lora: int | None = None
    """Rank of low-rank adapters (Hu et al. 2021) that are trained in place of the weights; needs ``peft``."""
    merge: bool = False
    """Add the adapters to the weights at the end, so that the result is an ordinary checkpoint."""
    epochs: int = 3
    """Passes over the training dialogues at the most."""
    max_steps: int | None = None
    """Stop after so many steps; the learning rate falls as if all epochs were to come."""
    learning_rate: float | None = None
    """Peak of a cosine schedule; left out, what is usual (:func:`usual_rate`)."""
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


_HIGHEST = {
    "epochs": 1_000_000, "layers": 1000, "width": 1_000_000, "heads": 10_000, "vocabulary": 10_000_000,
    "batch_tokens": 1_000_000_000, "max_length": 1_000_000, "evaluations": 1_000_000, "patience": 1_000_000_000,
    "max_steps": 1_000_000_000, "positions": 1_000_000, "tellings": 1000,
}  # fmt: skip


def usual_rate(init: str, arch: str | None) -> float:
    """The peak learning rate of a training that is given none."""
    if init != "scratch":
        return 5e-5
    return _RATES.get(arch or "", 1e-3)


_RATES = {"bart": 3e-4}
"""Peaks of new models that normalise after adding: at 1e-3 BART's encoder ends up saying the same of every text, as
residual branches that are too large make training unstable there (Liu et al. 2020, "Understanding the Difficulty of
Training Transformers")."""


def check_arch(init: str, found: str, arch: str | None) -> None:
    """Raises ModelError where a checkpoint's architecture is not the one that is asked for."""
    if arch not in (None, found):
        raise ModelError(f"{init}: is a {found} checkpoint, but --arch is {arch}; leave --arch out")


def check_loss(arch: str | None, loss: str | None, *, causal: bool) -> None:
    """Raises ModelError where a loss is chosen for a model that learns its targets only."""
    if loss is not None and not causal:
        raise ModelError(f"--loss is for causal models; {arch} learns targets only, leave it out")


def check_described(settings: TrainingSettings, arch: str | None = None) -> None:
    """Raises ModelError where descriptions of services have no place, or what needs them is set without them.

    Args:
        settings: of the training.
        arch: a model's that reads and writes apart, where that is known.
    """
    if not 0 <= settings.renamed <= 1:
        raise ModelError(f"renamed is {settings.renamed:g}; expected a probability from 0 to 1")
    if not settings.described and (settings.renamed or settings.tellings != 1):
        raise ModelError("--renamed and --tellings change descriptions of services; add --described")
    if settings.described and settings.format != "text":
        raise ModelError("--described is for --format text; chats begin with their system message as they are")
    other = settings.arch if settings.init == "scratch" and settings.arch in READERS else arch
    if settings.described and other:
        raise ModelError(f"--described is for causal models; {other} reads and writes apart, leave it out")


def check_settings(settings: TrainingSettings) -> None:
    """Find fault with settings before anything is loaded, be it a library.

    Raises:
        ModelError: one of them has no such value, or does not go with another.
    """
    if settings.format not in FORMATS:
        raise ModelError(f"format is {settings.format!r}; expected one of {', '.join(FORMATS)}")
    if settings.init == "scratch":
        check_loss(settings.arch, settings.loss, causal=settings.arch not in READERS)
    if not settings.parts or any(part not in PARTS for part in settings.parts):
        raise ModelError(f"parts are {settings.parts!r}; expected one or both of {', '.join(PARTS)}")
    if settings.init == "scratch" and settings.arch not in (*ARCHITECTURES, None):
        raise ModelError(f"arch is {settings.arch!r}; expected one of {', '.join(ARCHITECTURES)}")
    if settings.loss not in ("all", "targets", None):
        raise ModelError(f"loss is {settings.loss!r}; expected 'all' or 'targets'")
    rate = usual_rate(settings.init, settings.arch)
    for name in ("learning_rate", "warmup", "weight_decay"):
        value, usual = getattr(settings, name), getattr(TrainingSettings, name) or rate
        if value is None and name == "learning_rate":
            continue
        lowest = "above 0" if name == "learning_rate" else "from 0 on"
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 <= value < HIGHEST_RATE or (name == "learning_rate" and value == 0):
            shown = f"{value:g}" if is_number else repr(value)
            raise ModelError(f"{name} is {shown}; expected one {lowest} and below {HIGHEST_RATE}, such as {usual}")
    if not 0 <= settings.dropout < 1 or settings.warmup > 1:
        raise ModelError(
            f"dropout is {settings.dropout:g}, warmup {settings.warmup:g}; expected shares, of which dropout is below 1"
        )
    for name, highest in _HIGHEST.items():
        value = getattr(settings, name)
        if value is not None and (not isinstance(value, int) or not 1 <= value <= highest):
            raise ModelError(f"{name} is {value}; expected a whole number from 1 to {highest:,}")
    if not 0 <= settings.seed < 1 << 32:
        raise ModelError(f"seed is {settings.seed}; expected a whole number from 0 to {(1 << 32) - 1:,}")
    if settings.width % settings.heads:
        raise ModelError(f"width {settings.width} is not a multiple of {settings.heads} heads")
    for name in ("chat_template", "tools", "system"):
        if getattr(settings, name) and settings.format != "chat":
            raise ModelError(f"--{name.replace('_', '-')} is for chats; add --format chat")
    check_described(settings)
    if settings.lora is not None and (settings.lora < 1 or settings.init == "scratch"):
        raise ModelError(f"--lora {settings.lora} --init {settings.init}: adapters have a rank from 1 and need a base")
    if settings.merge and settings.lora is None:
        raise ModelError("--merge adds adapters to the weights; give --lora RANK")
