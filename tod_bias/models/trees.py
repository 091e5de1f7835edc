"""States of optimizers, schedules and random generators as files: their tensors in safetensors, all else in JSON."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from tod_bias import documents, files

_PLAIN = (str, int, bool, type(None))


def write_tree(path: Path, tree: Any) -> None:
    """Write ``path.json`` and ``path.safetensors``: a tree of dicts, lists, tuples, tensors, arrays and plain values.

    Raises:
        TypeError: there is something else in it.
        OSError, SafetensorError: it cannot be written.
    """
    tensors: dict[str, torch.Tensor] = {}
    shape = _encoded(tree, tensors, set())
    save_file(tensors, path.with_name(f"{path.name}.safetensors"))
    files.write_text(path.with_name(f"{path.name}.json"), files.json_text(shape, indent=None) + "\n")


def read_tree(path: Path) -> Any:
    """What :func:`write_tree` wrote, with all types as they were; tensors lie in the memory of the CPU.

    Raises:
        OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError: it cannot be read.
    """
    tensors = load_file(path.with_name(f"{path.name}.safetensors"))
    return _decoded(documents.read_json(path.with_name(f"{path.name}.json")), tensors)


def _encoded(node: Any, tensors: dict[str, torch.Tensor], seen: set[int]) -> Any:
    """A container as ``{type: content}``, a tensor as ``{"tensor": its name}``, a plain value as it is."""
    if isinstance(node, np.ndarray):
        return {"array": _encoded(torch.from_numpy(node), tensors, seen)["tensor"]}
    if isinstance(node, torch.Tensor):
        name, own = str(len(tensors)), node.detach().to("cpu").contiguous()
        if own.untyped_storage().data_ptr() in seen:  # tied weights; the file takes no shared memory
            own = own.clone()
        seen.add(own.untyped_storage().data_ptr())
        tensors[name] = own
        return {"tensor": name}
    if isinstance(node, dict):
        return {"dict": [[_plain(key), _encoded(value, tensors, seen)] for key, value in node.items()]}
    if isinstance(node, list):
        return {"list": [_encoded(value, tensors, seen) for value in node]}
    if isinstance(node, tuple):
        return {"tuple": [_encoded(value, tensors, seen) for value in node]}
    return _plain(node)


def _plain(value: Any) -> Any:
    if isinstance(value, float):  # numpy's own, which are floats too, come back as Python's
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, np.integer):
        return int(value)
    if not isinstance(value, _PLAIN):
        raise TypeError(f"a state holds a {type(value).__name__}, which cannot be saved")
    return value


def _decoded(node: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    match kind:
        case "tensor":
            return tensors[content]
        case "array":
            return tensors[content].numpy()
        case "dict":
            return {key: _decoded(value, tensors) for key, value in content}
        case "list":
            return [_decoded(value, tensors) for value in content]
        case "tuple":
            return tuple(_decoded(value, tensors) for value in content)
        case "float":
            return float(content)
    raise ValueError(f"unknown type {kind!r}")
