"""The folder of a trained model: its weights never lie among files of another one, at whatever moment a run dies."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from tod_bias.files import cannot_be_written, replacing_files, write_lines

WEIGHTS = "model.safetensors"
DAMAGED = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    EOFError,
    MemoryError,
    pickle.UnpicklingError,
    SafetensorError,
)
"""What the libraries raise for files of weights that are none, pickles that would run code among them."""
_STALE = (
    "training.json",
    "model-*-of-*.safetensors",
    "model.safetensors.index.json",
    "model.safetensors",
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "adapter_model.safetensors",
)
"""Of the model that was there before: what tells of its training, and weights under other names."""


def save_model(parts: Sequence[Any], folder: Path, more: Mapping[str, Iterable[str]] | None = None) -> None:
    """Write a model and its tokenizer, the weights last.

    Args:
        parts: objects with ``save_pretrained``.
        folder: of the model.
        more: names of further files, with their lines.

    Raises:
        TodBiasError: it cannot be written to.
    """
    try:
        with replacing_files(folder, WEIGHTS, _STALE) as part:
            for model in parts:
                model.save_pretrained(part)
            for name, lines in (more or {}).items():
                write_lines(part / name, lines)
    except SafetensorError as error:
        raise cannot_be_written(folder, error) from error
