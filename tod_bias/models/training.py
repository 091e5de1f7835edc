"""Training stage models, causal or sequence to sequence, in SimpleTOD fashion.

The result is a folder with ``config.json``, ``model.safetensors`` and the tokenizer that
``AutoModel…`` and ``AutoTokenizer`` load, plus ``training.json``: what it was trained with, and its losses.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import set_seed

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError
from tod_bias.files import write_json
from tod_bias.folder import held
from tod_bias.models import adapters
from tod_bias.models.examples import IGNORED, TokenSequence, padding
from tod_bias.models.model_folder import save_model
from tod_bias.models.preparation import Prepared, prepare
from tod_bias.models.processes import is_first_process
from tod_bias.models.settings import TrainConfig, usual_rate
from tod_bias.models.trainer import TRAIN, VALIDATION, Task, finish, fit


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
        resume: go on where an interrupted training with the same settings stopped.

    Returns:
        What is also written to ``training.json``: settings, steps, losses in nats a token. Those of a model that reads
        and writes apart say, as ``exchanged``, what targets cost it with the prompts of other dialogues.

    Raises:
        DivergedError: the loss is no longer finite; ``out`` holds the best model until then, if there was one.
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
        task = StageTask(prepared, settings, folder)
        record = {"settings": settings.model_dump(), "dialogues": len(dialogues), **prepared.record}
        record |= fit(prepared.model, task, settings, folder, record, resume=resume, show_progress=show_progress)
        if is_first_process():
            write_json(folder / "training.json", record)
            finish(folder)
    return record


def _check_is_elsewhere(init: str, out: Path) -> None:
    for part in adapters.chain(init):
        if Path(part).exists() and Path(part).resolve() == out.resolve():
            raise ModelError(f"{out}: is what the training starts from ({part}), which would be lost; choose another")


class StageTask(Task):
    """What stage models learn: the tokens of dialogues, or the targets among them."""

    def __init__(self, prepared: Prepared, settings: TrainConfig, out: Path) -> None:
        self.datasets = {TRAIN: prepared.train, VALIDATION: prepared.validation, "exchanged": prepared.exchanged}
        self.evaluations = settings.evaluations
        self._causal, self._tokenizer = prepared.causal, prepared.tokenizer
        self._settings, self._out = settings, out

    def batches(self, dataset: str, epoch: int) -> list[list[int]]:
        """Batches of similar length within the budget of tokens; to train on, shuffled by (seed, epoch)."""
        lengths = np.array([len(sequence) for sequence in self.datasets[dataset]])
        order = np.arange(len(lengths))
        rng = np.random.default_rng([self._settings.seed, epoch + 1])
        if dataset == TRAIN:
            rng.shuffle(order)
        order = order[np.argsort(lengths[order], kind="stable")]  # equal lengths stay shuffled
        batches: list[list[int]] = []
        for index in order:
            if not batches or (len(batches[-1]) + 1) * lengths[index] > self._settings.batch_tokens:
                batches.append([])
            batches[-1].append(int(index))
        if dataset == TRAIN:
            rng.shuffle(batches)  # type: ignore[arg-type]
        return batches

    def collate(self, dataset: str, examples: Sequence[TokenSequence]) -> dict[str, torch.Tensor]:
        """``input_ids``, ``attention_mask`` and ``labels``, (batch, length) each."""
        return {
            "input_ids": _padded([example.input_ids for example in examples], padding(self._tokenizer)),
            "attention_mask": _padded([(1,) * len(example.input_ids) for example in examples], 0),
            "labels": _padded([example.labels for example in examples], IGNORED),
        }

    def loss(self, model: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Summed cross-entropy in nats, and how many tokens it is the sum of."""
        ids, mask, labels = inputs["input_ids"], inputs["attention_mask"], inputs["labels"]
        if self._causal:
            labels = labels[:, 1:]
            keep = (labels != IGNORED).any(0).nonzero().squeeze(1)  # columns in which some sequence has a target
            if len(keep) < labels.shape[1] and _computes_chosen_logits(model):
                labels = labels[:, keep]
                logits = model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=keep).logits
            else:
                logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
        else:
            logits = model(input_ids=ids, attention_mask=mask, labels=labels).logits
        loss = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        return loss, (labels != IGNORED).sum()

    def save(self, model: Any) -> None:
        """Write the model and its tokenizer."""
        save_model([model, self._tokenizer], self._out)


def _computes_chosen_logits(model: Any) -> bool:
    """Return True if a model can leave out the logits that take no part in the loss.

    They are a large part of the work if the vocabulary is large.
    """
    model = getattr(model, "module", model)  # DistributedDataParallel wraps the model
    return "logits_to_keep" in inspect.signature(type(model).forward).parameters


def _padded(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])
