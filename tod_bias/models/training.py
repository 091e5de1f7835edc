"""Training stage models, causal or sequence to sequence, in SimpleTOD fashion.

The result is a folder with ``config.json``, ``model.safetensors`` and the tokenizer that
``AutoModel…`` and ``AutoTokenizer`` load, plus ``training.json``: what it was trained with, and its losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import set_seed

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError
from tod_bias.io.files import write_json
from tod_bias.io.folder import held
from tod_bias.models import adapters
from tod_bias.models.examples import padding
from tod_bias.models.model_folder import save_model
from tod_bias.models.preparation import Prepared, prepare
from tod_bias.models.processes import is_first_process
from tod_bias.models.settings import TrainConfig, usual_rate
from tod_bias.models.trainer import TrainingTask, finish, fit


def train(
    dialogues: Sequence[Dialogue],
    validation: Sequence[Dialogue],
    out: str | Path,
    settings: TrainConfig | None = None,
    *,
    resume: bool = True,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Train a stage model and save the one with the lowest validation loss to ``out``.

    Under ``accelerate launch`` batches are shared out over the processes.

    Args:
        dialogues: to train on.
        validation: dialogues for early stopping.
        out: folder for the model; ``out/checkpoint`` holds the state for resuming until the training is complete.
        resume: continue an interrupted training with the same settings.

    Returns:
        The content of ``training.json``: settings, steps, losses in nats per token. For a sequence-to-sequence
        model ``exchanged`` is the loss of the validation's targets with the prompts of other dialogues.

    Raises:
        DivergedError: the loss is no longer finite.
        ModelError: unusable settings or checkpoint.
        TodBiasError: ``out`` cannot be written to, or another run writes into it.
    """
    settings = settings or TrainConfig()
    if not dialogues or not validation:
        raise ModelError("training needs at least one dialogue to train on and one to validate on")
    if settings.learning_rate is None:
        settings = settings.model_copy(update={"learning_rate": usual_rate(settings.init, settings.arch)})
    if settings.init != "scratch":
        _check_is_elsewhere(settings.init, Path(out))
    with held(out) as folder:  # now, not when an hour of training is to be saved
        set_seed(settings.seed)
        prepared = prepare(settings, dialogues, validation)
        record = {"settings": settings.model_dump(), "dialogues": len(dialogues), **prepared.record}
        task = _task(prepared, settings)
        model, outcome = fit(prepared.model, task, settings, folder, record, resume=resume, show_progress=show_progress)
        record |= outcome
        if is_first_process():
            save_model([model, prepared.tokenizer], folder)
            write_json(folder / "training.json", record)
            finish(folder)
    return record


def _check_is_elsewhere(init: str, out: Path) -> None:
    for part in adapters.chain(init):
        if Path(part).exists() and Path(part).resolve() == out.resolve():
            raise ModelError(f"{out}: is what the training starts from ({part}), which would be lost; choose another")


def _task(prepared: Prepared, settings: TrainConfig) -> TrainingTask:
    train, validation, exchanged = (
        [{"input_ids": sequence.input_ids, "labels": sequence.labels} for sequence in part]
        for part in (prepared.train, prepared.validation, prepared.exchanged)
    )
    pad = padding(prepared.tokenizer)
    return TrainingTask(train, validation, pad, evaluations=settings.evaluations, exchanged=exchanged)
