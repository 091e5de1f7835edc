"""Quick check of the Hugging Face hub for a name."""

from __future__ import annotations

import logging
import re
from functools import cache
from pathlib import Path
from typing import Literal

from tod_bias.errors import ModelError

_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
_SECONDS = 10.0
"""Timeout of a request to the hub."""
logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it reports every attempt; what failed is said once


def is_name(text: str) -> bool:
    """True if a text has the form of a name on the hub."""
    return _NAME.fullmatch(text) is not None


def check_model(name: str) -> None:
    """Raise for a model that can exist nowhere, judged by its name.

    Raises:
        ModelError: the name is neither an existing path nor a possible name on the hub.
    """
    try:
        is_path = Path(name).exists()
    except (OSError, ValueError):  # too long for a name, or with characters that none has
        is_path = False
    if not name or not (is_path or is_name(name)):
        raise ModelError(
            f"{name or 'model'}: no such folder; expected a model folder or the name of a model on the hub"
        )


@cache
def absence(name: str, kind: Literal["model", "dataset"]) -> str:
    """Return why something that is not on this machine cannot be loaded from the hub; ``""`` if it can.

    The libraries that load would ask for half a minute, file by file, before they give up.
    """
    if not is_name(name):
        return "no such folder"
    from huggingface_hub import HfApi, errors

    api = HfApi()
    try:
        (api.model_info if kind == "model" else api.dataset_info)(name, timeout=_SECONDS)
    except errors.RepositoryNotFoundError:
        return "no such folder, and not on the hub"
    except (errors.HTTPError, OSError) as error:
        return f"no such folder, and the hub cannot be asked for it ({type(error).__name__})"
    return ""
