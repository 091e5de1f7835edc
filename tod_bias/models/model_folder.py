"""Folder of a trained model. Weights of two models are never mixed, whenever a run is killed."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from tod_bias.io.files import cannot_be_written, replacing_files, write_lines

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
"""Errors of the libraries for invalid weight files, and for pickles that would run code."""
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
"""Files of a previous model that must be deleted."""


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
