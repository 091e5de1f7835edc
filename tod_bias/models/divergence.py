"""Ending a training whose loss is no longer finite, before its weights are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tod_bias.errors import DivergedError
from tod_bias.models.resumption import Training


def check_step(training: Training, loss: Any, norm: Any, out: Path) -> None:
    """To be called between the backward pass and the optimizer's step.

    Args:
        loss: of this process.
        norm: of the gradients, after the processes have shared them; so all of them end at the same step.
        out: folder of the best model so far.

    Raises:
        DivergedError: one of the two is not finite.
    """
    alone = training.accelerator.num_processes == 1
    if not math.isfinite(float(norm)) or (alone and not math.isfinite(float(loss.detach()))):
        raise _diverged(training, f"loss {float(loss.detach()):.4g}, norm of the gradients {float(norm):.4g}", 1, out)


def check_validation(training: Training, loss: float, out: Path) -> None:
    """To be called with every validation loss.

    Raises:
        DivergedError: it is not finite.
    """
    if not math.isfinite(loss):
        raise _diverged(training, f"validation loss {loss:.4g}", 0, out)


def _diverged(training: Training, what: str, ahead: int, out: Path) -> DivergedError:
    progress = training.progress
    if progress.best_step:
        kept = f"{out} holds the model of step {progress.best_step}, validation loss {progress.best:.4f}"
    else:
        kept = f"no model was saved in {out}"
    return DivergedError(
        f"the training diverged at step {progress.step + ahead} ({what}); {kept}; "
        "give a lower --learning-rate, and --no-resume"
    )
