"""Trainings that go on where they stopped: a checkpoint holds accelerate's state and what it belongs to."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from tod_bias.errors import ModelError, described

_ANEW = "remove it, or train anew with --no-resume"


@dataclass
class Progress:
    """Where a training stands; saved with its checkpoints (``Accelerator.register_for_checkpointing``)."""

    step: int = 0
    best: float = math.inf
    best_step: int = 0
    stale: int = 0
    losses: list[dict[str, float]] = field(default_factory=list)

    def state_dict(self) -> dict[str, Any]:
        """All fields."""
        return dataclasses.asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave."""
        for name, value in state.items():
            setattr(self, name, value)


def save_checkpoint(accelerator: Accelerator, checkpoint: Path, record: Mapping[str, Any]) -> None:
    """Save the state; a whole one is there at every moment.

    Args:
        record: what the training is; one with another record does not go on from here.
    """
    fresh, state, former = (checkpoint / name for name in ("new", "state", "former"))
    accelerator.save_state(str(fresh))
    if accelerator.is_main_process:
        (checkpoint / "settings.json").write_text(json.dumps(record), encoding="utf-8")
        if state.exists():
            shutil.rmtree(former, ignore_errors=True)
            state.rename(former)
        fresh.rename(state)
        shutil.rmtree(former, ignore_errors=True)
    accelerator.wait_for_everyone()


def load_checkpoint(accelerator: Accelerator, checkpoint: Path, record: Mapping[str, Any]) -> bool:
    """Load the state of a checkpoint, if there is one; whether there was.

    Raises:
        ModelError: it belongs to a training with another record (which is not overwritten), or is damaged.
    """
    settings = checkpoint / "settings.json"
    state = next((folder for name in ("state", "former") if (folder := checkpoint / name).exists()), None)
    if not settings.exists() or state is None:
        return False
    try:
        found = json.loads(settings.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{settings}: cannot be read ({error}); {_ANEW}") from error
    if found != json.loads(json.dumps(record)):
        raise ModelError(f"{checkpoint}: belongs to a training with other settings; remove it or choose another --out")
    try:
        accelerator.load_state(str(state))
    except Exception as error:  # a damaged file can raise anything, down to the error classes of its format
        raise ModelError(f"{checkpoint}: cannot be resumed from ({described(error)}); {_ANEW}") from error
    return True
