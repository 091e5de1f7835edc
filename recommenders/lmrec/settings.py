"""What decides a training of LMRec, checked without its libraries."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from tod_bias.documents import read_yaml
from tod_bias.errors import ModelError, RecommenderError


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that decides what comes out of a training."""

    init: str = "scratch"
    """An encoder's name or folder, or ``scratch``: random weights and a WordPiece tokenizer of its own."""
    head_layers: int = 2
    """2 (Shen 2023: ReLU between) or 1 (Shen 2022)."""
    hidden: int = 512
    """D, the width between the two layers of the head."""
    dropout: float = 0.1
    """Before the head; from scratch in the encoder too (0.1 at the most)."""
    learning_rate: float = 1e-3
    """Peak of a linear schedule; about 3e-5 where ``init`` is a pretrained encoder."""
    warmup: float = 0.1
    """Share of all steps in which the learning rate rises."""
    weight_decay: float = 0.01
    batch: int = 128
    epochs: int = 30
    """At the most."""
    patience: int = 10
    """Stop after so many epochs without a lower validation loss; 1, when it first rises, is Shen's.

    From scratch a model rests on a plateau before it looks at names.
    """
    max_length: int = 128
    """Tokens of a review at the most."""
    max_steps: int | None = None
    mask: bool = False
    """Train-side masking of names, places and gendered relations (Shen §3.5)."""
    bf16: bool = False
    seed: int = 0
    """Of splits, weights, order and dropout."""
    vocabulary: int = 8000
    """From scratch: tokens."""
    layers: int = 1
    """From scratch: layers of the encoder."""
    width: int = 64
    """From scratch: H, hidden size of the encoder."""
    heads: int = 2
    """From scratch: attention heads."""


_LOWEST = {
    "hidden": 1, "batch": 1, "epochs": 1, "patience": 1, "max_length": 8, "vocabulary": 100, "layers": 1, "width": 1,
    "heads": 1, "seed": 0,
}  # fmt: skip
_HIGHEST = 1_000_000
TRAININGS = 10_000
"""Combinations of a grid at the most."""
_RANGES = {"learning_rate": (1e-12, 10.0), "warmup": (0.0, 1.0), "weight_decay": (0.0, 10.0), "dropout": (0.0, 1.0)}


def check_settings(settings: TrainingSettings) -> None:
    """Find fault with settings before anything is loaded, be it a library.

    Raises:
        ModelError: one of them has no such value, or does not go with another.
    """
    if settings.head_layers not in (1, 2):
        raise ModelError(f"the head has {settings.head_layers} layers; expected 1 or 2")
    for name, lowest in _LOWEST.items():
        value = getattr(settings, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            raise ModelError(f"{name} is {value!r}; expected a whole number of at least {lowest}")
    for name in ("hidden", "batch", "epochs", "max_length", "vocabulary", "layers", "width", "heads"):
        if (value := getattr(settings, name)) > _HIGHEST:
            raise ModelError(f"{name} is {value}; expected a million at the most")
    for name, (low, high) in _RANGES.items():
        value = getattr(settings, name)
        if not isinstance(value, int | float) or not low <= value < high:
            raise ModelError(f"{name} is {value!r}; expected a number from {low:g} to less than {high:g}")
    if not isinstance(settings.init, str) or not settings.init:
        raise ModelError(f"init is {settings.init!r}; expected an encoder's name or folder, or 'scratch'")
    for name in ("mask", "bf16"):
        if not isinstance(value := getattr(settings, name), bool):
            raise ModelError(f"{name} is {value!r}; expected true or false")
    steps = settings.max_steps
    if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
        raise ModelError(f"max_steps is {steps!r}; expected a whole number of at least 1, or none")
    if settings.seed >= 1 << 32:
        raise ModelError(f"seed is {settings.seed}; expected a whole number from 0 to {(1 << 32) - 1:,}")
    if settings.width % settings.heads:
        raise ModelError(f"width {settings.width} is not a multiple of {settings.heads} heads")


def read_grid(path: str | Path, base: TrainingSettings | None = None) -> list[dict[str, Any]]:
    """All combinations of a YAML file of lists, e.g. ``{hidden: [256, 512], dropout: [0.0, 0.2]}``.

    Args:
        path: of the file.
        base: the settings that it does not name; all combinations are checked with them.

    Raises:
        RecommenderError: not such a file, an unknown setting, an impossible combination, or more than
            :data:`TRAININGS`.
    """
    path = Path(path)
    try:
        content = read_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecommenderError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from error
    known = {entry.name for entry in dataclasses.fields(TrainingSettings)}
    if not isinstance(content, dict) or not content:
        raise RecommenderError(f"{path}: expected settings with lists of values, e.g. hidden: [256, 512]")
    for name, values in content.items():
        if name not in known or not isinstance(values, list) or not values:
            raise RecommenderError(f"{path}: {name}: expected one of {', '.join(sorted(known))} with a list of values")
    count = math.prod(len(values) for values in content.values())
    if count > TRAININGS:
        raise RecommenderError(f"{path}: {count:,} combinations; a grid has {TRAININGS:,} at the most")
    base = base or TrainingSettings()
    found = [dict(zip(content, values, strict=True)) for values in product(*content.values())]
    for combination in found:
        try:
            check_settings(dataclasses.replace(base, **combination))
        except ModelError as error:
            raise RecommenderError(f"{path}: {error}") from error
    return found
