"""Checkpoints in one GGUF file (llama.cpp's format): read through transformers, dequantised."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tod_bias.errors import ModelError

SUFFIX = ".gguf"


def place_of(name: str) -> tuple[str, dict[str, Any]]:
    """The folder to load from, and the options that ``from_pretrained`` takes for a file in it; ``name`` and none where
    it is no GGUF file, nor a folder with one and no other model.

    Raises:
        ModelError: there is no such file, the folder holds several, or the package that reads it is not installed.
    """
    file = Path(name)
    if file.is_dir() and not any((file / other).exists() for other in ("config.json", "adapter_config.json")):
        inside = sorted(inner for inner in file.iterdir() if inner.suffix.lower() == SUFFIX)
        if len(inside) > 1:
            raise ModelError(f"{name}: holds {inside[0].name} and {len(inside) - 1} more GGUF files; name one of them")
        file = inside[0] if inside else file
    if file.suffix.lower() != SUFFIX or file.is_dir():
        return name, {}
    if not file.is_file():
        raise ModelError(f"{name}: there is no such file")
    try:
        import gguf  # noqa: F401 (transformers reads with it)
        from tqdm import tqdm
        from transformers import modeling_gguf_pytorch_utils as reader

        reader.tqdm = partial(tqdm, disable=True)  # progress is ours to show
    except ImportError as error:
        raise ModelError(f"{name}: GGUF files need the package gguf: pip install 'tod-bias[gguf]'") from error
    return str(file.parent), {"gguf_file": file.name}


def dequantized() -> dict[str, Any]:
    """What makes ``from_pretrained`` give plain weights."""
    from transformers import GgufConfig

    return {"quantization_config": GgufConfig(dequantize=True)}


def as_plain(model: Any) -> Any:
    """The model as one that has never been quantised, so that it is saved as such."""
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model
