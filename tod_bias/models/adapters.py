"""LoRA adapters (Hu et al. 2021), loaded on their base and merged by the ``peft`` library."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from safetensors import safe_open

from tod_bias.errors import ModelError, described
from tod_bias.io.documents import read_json
from tod_bias.models.model_folder import DAMAGED

CONFIGURATION = "adapter_config.json"
ADAPTER = "adapter_model.safetensors"


def base_of(name: str | Path) -> str | None:
    """Return the base checkpoint of the adapter in a folder; None if the folder has no adapter.

    Raises:
        ModelError: the adapter is not a LoRA adapter, or does not name its base.
    """
    folder = Path(name)
    if not (folder / CONFIGURATION).is_file() or (folder / "config.json").is_file():
        return None
    try:
        content = read_json(folder / CONFIGURATION)
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder / CONFIGURATION}: cannot be read ({error})") from error
    kind = content.get("peft_type") if isinstance(content, dict) else None
    if kind != "LORA":
        raise ModelError(f"{folder / CONFIGURATION}: expected a LoRA adapter (peft_type LORA), got {kind!r}")
    base = content.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise ModelError(f"{folder / CONFIGURATION}: does not name the adapter's base; add base_model_name_or_path")
    if not (folder / ADAPTER).is_file():
        raise ModelError(f"{folder}: has no {ADAPTER}; expected an adapter as peft saves it")
    return base


def chain(name: str | Path) -> list[str]:
    """The checkpoint, the one that its adapter belongs on, that one's, and so on; the last is an ordinary model.

    Raises:
        ModelError: a base is not there, or they come back to each other.
    """
    names = [str(name)]
    while (base := base_of(names[-1])) is not None:
        where = Path(names[-1]) / CONFIGURATION
        if Path(base).is_absolute() and not Path(base).exists():
            raise ModelError(
                f"{where}: names the base {base}, which is not there; write its folder or name into "
                "base_model_name_or_path"
            )
        if Path(base).resolve() in {Path(above).resolve() for above in names}:
            raise ModelError(f"{where}: names a base, {base}, that is an adapter on itself; name the model below it")
        names.append(base)
    return names


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise ModelError("LoRA adapters need the package peft: pip install peft") from error
    return peft


def merged(model: Any, folder: str | Path) -> Any:
    """A base with the adapter of a folder added to its weights: an ordinary model.

    Raises:
        ModelError: the adapter cannot be loaded, or is another model's.
    """
    peft = _peft()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adapted = peft.PeftModel.from_pretrained(model, str(folder), torch_device="cpu")
        with safe_open(Path(folder) / ADAPTER, framework="pt") as file:
            lacks = set(peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)) - set(file.keys())
        if lacks:
            raise ModelError(f"{folder}: its adapter has no weights for {min(lacks)} and {len(lacks) - 1} others")
        return adapted.merge_and_unload().requires_grad_(True)
    except DAMAGED as error:
        raise ModelError(f"{folder}: its adapter cannot be loaded on its base: {described(error)}") from error
