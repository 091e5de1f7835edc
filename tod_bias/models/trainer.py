"""Training by ``transformers.Trainer``: resuming, bfloat16, early stopping and several processes are the Trainer's own.

The folder ``checkpoint`` holds ``settings.json`` (what the training is) and ``checkpoint-STEP``, as the Trainer writes
it. The Trainer opens its pickles as tensors only (``torch.load(weights_only=True)``).
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import EarlyStoppingCallback, PrinterCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import EvalPrediction, sort_checkpoints
from transformers.utils import logging as transformers_logging

from tod_bias.errors import DivergedError, ModelError, TodBiasError, described
from tod_bias.io import files
from tod_bias.io.documents import read_json
from tod_bias.io.progress import progress_bar
from tod_bias.models.examples import IGNORED
from tod_bias.models.model_folder import DAMAGED
from tod_bias.models.settings import Schedule

_SETTINGS, _STATE = "settings.json", "trainer_state.json"
_ANEW = "remove it, or train anew with --no-resume"
_LOGGED = 10
"""Steps between two looks at the training loss at most; a loss that is not finite ends the training."""

Row = Mapping[str, Any]
"""``input_ids``, and ``labels``: one for each token, or one for the whole row."""


@dataclass(frozen=True)
class TrainingTask:
    """Task of a model, with its training data."""

    train: Sequence[Row]
    validation: Sequence[Row]
    pad: int
    """Token that fills up rows; masked."""
    evaluations: int = 1
    """Validations per epoch."""
    rate: str = "cosine"
    """Schedule of the learning rate: cosine or linear."""
    warmup: float = 0.05
    """Share of all steps in which the learning rate rises."""
    loss: Callable[..., torch.Tensor] | None = None
    """Loss of outputs, labels and ``num_items_in_batch``; the model's own by default."""
    exchanged: Sequence[Row] = ()
    """Further rows, whose loss is computed with the best model."""

    @property
    def metric(self) -> str:
        """Name of the validation loss among the Trainer's metrics.

        The Trainer's ``eval_loss`` is a mean over rows of their batches' means, which is exact with one target per row.
        """
        return "eval_loss" if self.loss else "eval_nats"

    def collate(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        """Return ``input_ids`` and ``attention_mask``, (batch, tokens), and ``labels``, (batch, tokens) or (batch,)."""
        ids = [torch.tensor(row["input_ids"], dtype=torch.long) for row in rows]
        labels = [torch.tensor(row["labels"], dtype=torch.long) for row in rows]
        are_of_tokens = labels[0].dim() == 1
        return {
            "input_ids": pad_sequence(ids, batch_first=True, padding_value=self.pad),
            "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
            "labels": pad_sequence(labels, True, IGNORED) if are_of_tokens else torch.stack(labels),
        }


def fit(
    model: Any,
    task: TrainingTask,
    schedule: Schedule,
    out: Path,
    record: Mapping[str, Any],
    *,
    resume: bool = True,
    show_progress: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Train a model, and return it with the weights of the lowest validation loss.

    Under ``accelerate launch`` batches are shared out over the processes.

    Args:
        model: a model of ``transformers``.
        task: what it learns.
        schedule: how long and how fast.
        out: folder whose ``checkpoint`` holds the state until the training is complete (:func:`finish`).
        record: what the training is; a checkpoint of another record is not resumed.
        resume: continue an interrupted training with the same record.
        show_progress: on stderr.

    Returns:
        The model, and ``steps``, ``best_step``, ``validation_loss`` and ``losses``, in nats per target; and
        ``exchanged`` if the task has such rows.

    Raises:
        DivergedError: the loss is no longer finite.
        ModelError: the checkpoint is of a training with another record, or damaged.
        TodBiasError: the checkpoint cannot be written.
    """
    checkpoint = out / "checkpoint"
    files.check_plain_file(checkpoint)
    arguments = _arguments(task, schedule, checkpoint)
    early, watch = EarlyStoppingCallback(schedule.patience), _Watch()
    metrics: dict[str, Any] = (
        {}
        if task.loss
        else {
            "compute_metrics": _mean_per_target,
            "preprocess_logits_for_metrics": partial(_sums, is_causal=not model.config.is_encoder_decoder),
        }
    )
    trainer = Trainer(
        model,
        arguments,
        data_collator=task.collate,
        train_dataset=task.train,
        eval_dataset=by_length(task.validation),
        compute_loss_func=task.loss,
        callbacks=[early, watch],
        **metrics,
    )
    trainer.remove_callback(PrinterCallback)
    state = _state(checkpoint, record) if resume else None
    if state is None and trainer.is_world_process_zero():
        shutil.rmtree(checkpoint, ignore_errors=True)
        checkpoint.mkdir(parents=True)
        files.write_json(checkpoint / _SETTINGS, record)
    trainer.accelerator.wait_for_everyone()
    show = show_progress and trainer.is_world_process_zero()
    with _quiet(), progress_bar(arguments.max_steps, "training", show=show) as watch.bar:
        _train(trainer, state, checkpoint)
        outcome = _summary(trainer.state, task.metric)
        if task.exchanged:
            trainer.remove_callback(early)
            outcome["exchanged"] = trainer.evaluate(by_length(task.exchanged), metric_key_prefix="exchanged")[
                "exchanged_nats"
            ]
    return trainer.accelerator.unwrap_model(trainer.model), outcome


def by_length(rows: Sequence[Row]) -> list[Row]:
    """Return the rows from the shortest to the longest, so that little is padded."""
    return sorted(rows, key=lambda row: len(row["input_ids"]))


def finish(out: Path) -> None:
    """Remove the checkpoint of a training that is complete; a kill never leaves a part of it."""
    checkpoint, done = out / "checkpoint", out / "checkpoint.done"
    shutil.rmtree(done, ignore_errors=True)
    if checkpoint.exists():
        checkpoint.rename(done)
    shutil.rmtree(done, ignore_errors=True)


def _arguments(task: TrainingTask, schedule: Schedule, checkpoint: Path) -> TrainingArguments:
    arguments = TrainingArguments(
        output_dir=str(checkpoint),
        per_device_train_batch_size=schedule.batch,
        per_device_eval_batch_size=schedule.batch,
        gradient_accumulation_steps=schedule.gradient_accumulation,
        learning_rate=schedule.learning_rate,
        lr_scheduler_type=task.rate,
        weight_decay=0.01,
        adam_beta2=0.95,
        bf16=schedule.bf16,
        seed=schedule.seed,
        train_sampling_strategy="group_by_length",
        use_cpu=not torch.accelerator.is_available(),
        dataloader_pin_memory=torch.accelerator.is_available(),
        ddp_find_unused_parameters=False,
        remove_unused_columns=False,
        label_names=["labels"],
        load_best_model_at_end=True,
        metric_for_best_model=task.metric,
        greater_is_better=False,
        restore_callback_states_from_checkpoint=True,
        save_total_limit=2,
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        eval_strategy="steps",
        save_strategy="steps",
    )
    batches = math.ceil(len(task.train) / (schedule.batch * arguments.world_size))
    per_epoch = math.ceil(batches / schedule.gradient_accumulation)
    total = per_epoch * schedule.epochs
    arguments.max_steps = min(total, schedule.max_steps or total)
    arguments.warmup_steps = math.ceil(task.warmup * arguments.max_steps)
    every = min(max(1, per_epoch // task.evaluations), arguments.max_steps)
    arguments.eval_steps = arguments.save_steps = every
    arguments.logging_steps = min(every, _LOGGED)
    return arguments


def _train(trainer: Trainer, state: Path | None, checkpoint: Path) -> None:
    try:
        trainer.train(resume_from_checkpoint=None if state is None else str(state))
    except TodBiasError:
        raise
    except DAMAGED as error:
        if state is not None and trainer.state.global_step <= int(state.name.rpartition("-")[2]):
            raise ModelError(f"{state}: cannot be resumed from ({described(error)}); {_ANEW}") from error
        if isinstance(error, OSError):
            raise files.cannot_be_written(checkpoint, error) from error
        raise


def _state(checkpoint: Path, record: Mapping[str, Any]) -> Path | None:
    """Return the last complete state: the Trainer writes its JSON last, so a killed process leaves no such file."""
    complete = [Path(folder) for folder in sort_checkpoints(str(checkpoint)) if _is_json(Path(folder) / _STATE)]
    if not complete:
        return None
    try:
        settings = read_json(checkpoint / _SETTINGS)
    except (OSError, ValueError) as error:
        raise ModelError(f"{checkpoint / _SETTINGS}: cannot be read ({error}); {_ANEW}") from error
    if settings != json.loads(files.json_text(record)):
        raise ModelError(f"{checkpoint}: belongs to a training with other settings; remove it or choose another --out")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state*.pth"):  # the Trainer would begin with new ones
        if not list(complete[-1].glob(name)):
            raise ModelError(f"{complete[-1] / name}: is missing from the checkpoint; {_ANEW}")
    return complete[-1]


def _is_json(path: Path) -> bool:
    try:
        read_json(path)
    except (OSError, ValueError):
        return False
    return True


def _summary(state: Any, metric: str) -> dict[str, Any]:
    """Return the outcome, with the mean training loss before each validation."""
    losses: list[dict[str, float]] = []
    since: list[float] = []
    for row in state.log_history:
        if "loss" in row:
            since.append(row["loss"])
        elif metric in row:
            train = sum(since) / len(since) if since else math.nan
            losses.append({"step": row["step"], "train": train, "validation": row[metric]})
            since = []
    return {
        "steps": state.global_step,
        "best_step": state.best_global_step,
        "validation_loss": state.best_metric,
        "losses": losses,
    }


def _sums(logits: Any, labels: torch.Tensor, *, is_causal: bool) -> torch.Tensor:
    """Return (batch, 2): the summed cross-entropy in nats of every row's targets, and their number."""
    logits = logits[0] if isinstance(logits, tuple) else logits
    if is_causal:
        logits, labels = logits[:, :-1], labels[:, 1:]
    losses = torch.nn.functional.cross_entropy(
        logits.float().transpose(1, 2), labels, ignore_index=IGNORED, reduction="none"
    )
    return torch.stack([losses.sum(dim=1), (labels != IGNORED).sum(dim=1)], dim=1)


def _mean_per_target(outcome: EvalPrediction) -> dict[str, float]:
    total, targets = outcome.predictions.sum(axis=0)
    return {"nats": float(total / targets)}


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep warnings about tied weights, which checkpoints hold once, from the terminal."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)


class _Watch(TrainerCallback):
    """Shows progress, validates at the last step, and ends a training that diverges."""

    bar: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.bar.advance(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.bar.advance()
        if state.global_step >= args.max_steps:  # which need not be a multiple of eval_steps
            control.should_log = control.should_evaluate = control.should_save = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, float], **more: Any) -> None:
        loss = logs.get("loss", logs.get("eval_loss", 0.0))
        if not math.isfinite(loss):
            raise DivergedError(
                f"the training diverged before step {state.global_step} (loss {loss:.4g}); no model was saved; give a "
                "lower --learning-rate, and --no-resume"
            )
