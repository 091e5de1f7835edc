"""Trainings that go on where they stopped, from safetensors and JSON alone: no checkpoint can run anything.

A checkpoint holds ``settings.json`` (what the training is) and ``state``: ``training.*`` (weights, optimizer, schedule,
progress), ``random_N.*`` (the random states of process N), and ``sums.json``, the SHA-256 of each of the other files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import math
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from safetensors import SafetensorError

from tod_bias import documents, files
from tod_bias.errors import ModelError, described
from tod_bias.models.trees import read_tree, write_tree

log = logging.getLogger(__name__)
_ANEW = "remove it, or train anew with --no-resume"
_SUMS, _SETTINGS, _TRAINING = "sums.json", "settings.json", "training"


@dataclass
class Progress:
    """Where a training stands; saved with its checkpoints."""

    step: int = 0
    best: float = math.inf
    best_step: int = 0
    stale: int = 0
    losses: list[dict[str, float]] = field(default_factory=list)
    running: list[float] = field(default_factory=list)
    """Training losses since the last validation."""

    def state_dict(self) -> dict[str, Any]:
        """All fields."""
        return dataclasses.asdict(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave.

        Raises:
            ValueError: it has other fields, or values of other types.
        """
        own = self.state_dict()
        if {name: type(value) for name, value in state.items()} != {name: type(value) for name, value in own.items()}:
            raise ValueError(f"progress holds {', '.join(state)}; expected {', '.join(own)} and their types")
        for name, value in state.items():
            setattr(self, name, value)


@dataclass(frozen=True)
class Training:
    """Everything that the rest of a training depends on, but for the random states."""

    accelerator: Accelerator
    model: Any
    """As prepared."""
    optimizer: Any
    schedule: Any
    progress: Progress
    weights: Any = None
    """What has the state of the trained weights, where they are not all of the model's."""

    @property
    def parts(self) -> dict[str, Any]:
        """What has a state, by name."""
        parts = {
            "model": self.weights or self.accelerator.unwrap_model(self.model),
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "progress": self.progress,
        }
        return parts if self.accelerator.scaler is None else {**parts, "scaler": self.accelerator.scaler}


def save_checkpoint(training: Training, checkpoint: Path, record: Mapping[str, Any]) -> None:
    """Save the state; a whole one is there at every moment.

    Args:
        record: what the training is; one with another record does not go on from here.

    Raises:
        TodBiasError: it cannot be written.
    """
    fresh, state, former = (checkpoint / name for name in ("new", "state", "former"))
    accelerator = training.accelerator
    try:
        if accelerator.is_main_process:
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
        accelerator.wait_for_everyone()
        write_tree(fresh / f"random_{accelerator.process_index}", _random_states())
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            write_tree(fresh / _TRAINING, {name: part.state_dict() for name, part in training.parts.items()})
            sums = {file.name: _sum(file) for file in sorted(fresh.iterdir())}
            settings = files.json_text(record) + "\n"
            sums[_SETTINGS] = hashlib.sha256(settings.encode()).hexdigest()
            files.write_json(fresh / _SUMS, sums)
            if state.exists():
                shutil.rmtree(former, ignore_errors=True)
                state.rename(former)
            files.write_text(checkpoint / _SETTINGS, settings)
            fresh.rename(state)
            shutil.rmtree(former, ignore_errors=True)
        accelerator.wait_for_everyone()
    except (OSError, SafetensorError) as error:
        raise files.cannot_be_written(checkpoint, error) from error


def load_checkpoint(training: Training, checkpoint: Path, record: Mapping[str, Any]) -> bool:
    """Load the state of a checkpoint, if there is one; whether there was.

    Nothing of it is loaded before all of it is found to be as it was written.

    Raises:
        ModelError: it belongs to a training with another record (which is not overwritten), is damaged, or is one of
            an earlier version, with pickles in it.
    """
    state = next((folder for name in ("state", "former") if (folder := checkpoint / name).exists()), None)
    if state is None:
        return False
    found = _read(checkpoint / _SETTINGS)
    _check_sums(checkpoint, state)
    if found != json.loads(files.json_text(record)):
        raise ModelError(f"{checkpoint}: belongs to a training with other settings; remove it or choose another --out")
    try:
        parts = read_tree(state / _TRAINING)
        states = read_tree(state / f"random_{training.accelerator.process_index}")
        for name, part in training.parts.items():
            part.load_state_dict(parts[name])
        _set_random_states(states)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        # it is as it was written, but not by this version or with these libraries
        raise ModelError(f"{checkpoint}: cannot be resumed from ({described(error)}); {_ANEW}") from error
    return True


def _read(path: Path) -> Any:
    if not path.is_file():
        raise ModelError(f"{path}: is missing from the checkpoint; {_ANEW}")
    try:
        return documents.read_json(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({error}); {_ANEW}") from error


def _check_sums(checkpoint: Path, state: Path) -> None:
    try:
        there = {entry.name: entry for entry in state.iterdir()} | {_SETTINGS: checkpoint / _SETTINGS}
        pickles = sorted(name for name in there if name.endswith((".pkl", ".pickle", ".bin", ".pt", ".pth")))
        if pickles and _SUMS not in there:
            raise ModelError(
                f"{state}: holds {pickles[0]}, a pickle, as checkpoints of earlier versions do; pickles can run code "
                f"and are not opened; {_ANEW}"
            )
        sums = _read(state / _SUMS)
        if not isinstance(sums, dict) or _SETTINGS not in sums:
            raise ModelError(f"{state / _SUMS}: is damaged; {_ANEW}")
        for name in sorted(set(there) - set(sums) - {_SUMS}):
            raise ModelError(f"{there[name]}: does not belong to the checkpoint; {_ANEW}")
        for name, expected in sums.items():
            if name not in there or not there[name].is_file():
                raise ModelError(f"{state / name}: is missing from the checkpoint; {_ANEW}")
            if _sum(there[name]) != expected:
                raise ModelError(f"{there[name]}: is damaged, its SHA-256 is not that in {_SUMS}; {_ANEW}")
    except OSError as error:
        raise ModelError(f"{checkpoint}: cannot be read ({error}); {_ANEW}") from error


def _sum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _random_states() -> dict[str, Any]:
    """Of Python, numpy, torch, and every device that torch computes on."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
        "devices": _device_states(),
    }


def _set_random_states(states: Mapping[str, Any]) -> None:
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    saved, own = states["devices"], _device_states()
    if len(saved) != len(own):
        log.warning("the checkpoint is of %d devices, here are %d: dropout will draw anew", len(saved), len(own))
    elif own:
        module = _device_module()
        if hasattr(module, "set_rng_state_all"):
            module.set_rng_state_all(saved)
        else:
            module.set_rng_state(saved[0])


def _device_states() -> list[torch.Tensor]:
    if not torch.accelerator.is_available():
        return []
    module = _device_module()
    return list(module.get_rng_state_all()) if hasattr(module, "get_rng_state_all") else [module.get_rng_state()]


def _device_module() -> Any:
    return torch.get_device_module(torch.accelerator.current_accelerator())
