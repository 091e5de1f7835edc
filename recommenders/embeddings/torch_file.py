"""Files of tensors, as PyTorch and safetensors write them; loads PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tod_bias.errors import EmbeddingsError
from tod_bias.models.model_folder import DAMAGED


def read_state(file: Path) -> Any:
    """Return the content of a file of tensors.

    Raises:
        EmbeddingsError: the file cannot be read, or holds more than tensors.
    """
    try:
        if file.suffix.lower() == ".safetensors":
            return load_file(file)
        return torch.load(file, map_location="cpu", weights_only=True)
    except DAMAGED as error:
        raise EmbeddingsError(
            f"{file}: cannot be read as a torch state of tensors ({type(error).__name__}); save model.state_dict()"
        ) from error
