"""Training by ``transformers.Trainer``, on batches of a task's own, that goes on where it stopped, to the bit.

The folder ``checkpoint`` holds ``settings.json`` (what the training is) and ``checkpoint-STEP``, as the trainer writes
it; its pickles are opened as tensors only (``torch.load(weights_only=True)``), and run nothing.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_utils import sort_checkpoints

from tod_bias import files
from tod_bias.documents import read_json
from tod_bias.errors import DivergedError, ModelError, described
from tod_bias.models.model_folder import DAMAGED
from tod_bias.models.settings import Schedule
from tod_bias.progress import progress_bar

SECONDS = 300.0
"""A training in one process is saved so often; and after every validation."""
TRAIN, VALIDATION = "train", "validation"


class Task(ABC):
    """What a model learns, and from what."""

    datasets: Mapping[str, Sequence[Any]]
    """Examples to train on (:data:`TRAIN`), by which the training stops early (:data:`VALIDATION`), and others whose
    loss is of interest."""
    evaluations: int = 1
    """Validations per epoch."""
    rate: str = "cosine"
    """How the learning rate falls: cosine or linear."""

    @abstractmethod
    def batches(self, dataset: str, epoch: int) -> Sequence[Iterable[int]]:
        """Examples of each batch, in the order of an epoch; as many batches in every epoch."""

    @abstractmethod
    def collate(self, dataset: str, examples: Sequence[Any]) -> dict[str, torch.Tensor]:
        """A batch, as :meth:`loss` takes it."""

    @abstractmethod
    def loss(self, model: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Summed cross-entropy of a batch in nats, and the number of targets that it is the sum of."""

    @abstractmethod
    def save(self, model: Any) -> None:
        """Write the best model so far."""


def fit(
    model: Any,
    task: Task,
    schedule: Schedule,
    out: Path,
    record: Mapping[str, Any],
    *,
    resume: bool = True,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Train a model, and keep the one with the lowest validation loss.

    Under ``accelerate launch`` batches are shared out over the processes.

    Args:
        model: a model of ``transformers``.
        task: what it learns.
        schedule: how long and how fast.
        out: folder whose ``checkpoint`` holds the state until the training is complete (:func:`finish`).
        record: what the training is; a checkpoint of another record is not gone on from.
        resume: go on where an interrupted training with the same record stopped.

    Returns:
        ``steps``, ``best_step``, ``validation_loss`` and ``losses``, in nats per target.

    Raises:
        DivergedError: the loss is no longer finite; what :meth:`Task.save` wrote last is kept.
        ModelError: the checkpoint is of a training with another record, or damaged.
        TodBiasError: the checkpoint cannot be written.
    """
    checkpoint = out / "checkpoint"
    files.check_plain_file(checkpoint)
    trainer = _Trainer(model, task, schedule, checkpoint)
    record = {**record, "processes": trainer.args.world_size}
    state = _state(checkpoint, record) if resume else None
    if state is None and trainer.is_world_process_zero():
        shutil.rmtree(checkpoint, ignore_errors=True)
        checkpoint.mkdir(parents=True)
        files.write_json(checkpoint / _SETTINGS, record)
    trainer.accelerator.wait_for_everyone()
    show = show_progress and trainer.is_world_process_zero()
    with progress_bar(trainer.args.max_steps, "training", show=show) as bar:
        trainer.add_callback(_Progress(bar, trainer))
        try:
            trainer.go_on(state)
        except OSError as error:
            raise files.cannot_be_written(checkpoint, error) from error
    return {"processes": trainer.args.world_size, **trainer.summary()}


def finish(out: Path) -> None:
    """Remove the checkpoint of a training that is complete; a kill never leaves a part of it."""
    checkpoint, done = out / "checkpoint", out / "checkpoint.done"
    shutil.rmtree(done, ignore_errors=True)
    if checkpoint.exists():
        checkpoint.rename(done)
    shutil.rmtree(done, ignore_errors=True)


_SETTINGS, _STATE = "settings.json", "trainer_state.json"
_ANEW = "remove it, or train anew with --no-resume"


def _state(checkpoint: Path, record: Mapping[str, Any]) -> Path | None:
    """The last state that is complete: the trainer writes its JSON last, so that a kill leaves none of a part."""
    complete = [Path(folder) for folder in sort_checkpoints(str(checkpoint)) if _is_json(Path(folder) / _STATE)]
    if not complete:
        return None
    try:
        settings = read_json(checkpoint / _SETTINGS)
    except (OSError, ValueError) as error:
        raise ModelError(f"{checkpoint / _SETTINGS}: cannot be read ({error}); {_ANEW}") from error
    if settings != json.loads(files.json_text(record)):
        raise ModelError(f"{checkpoint}: belongs to a training with other settings; remove it or choose another --out")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state*.pth"):  # the trainer would begin with new ones
        if not list(complete[-1].glob(name)):
            raise ModelError(f"{complete[-1] / name}: is missing from the checkpoint; {_ANEW}")
    return complete[-1]


def _is_json(path: Path) -> bool:
    try:
        read_json(path)
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def _reading(state: Path | str | None) -> Iterator[None]:
    """What the libraries raise for a state that is damaged is one line.

    Raises:
        ModelError: it is.
    """
    try:
        yield
    except DAMAGED as error:
        raise ModelError(f"{state}: cannot be resumed from ({described(error)}); {_ANEW}") from error


class _EpochBatches:
    """The batches of an epoch, as many for each process."""

    def __init__(self, task: Task, processes: int) -> None:
        self._task, self._processes = task, processes
        self._length = -(-len(task.batches(TRAIN, 0)) // processes) * processes
        self.epoch = 0

    def __iter__(self) -> Iterator[Iterable[int]]:
        batches = list(self._task.batches(TRAIN, self.epoch))
        return iter((batches * self._processes)[: self._length])

    def __len__(self) -> int:
        return self._length


class _Trainer(Trainer):
    def __init__(self, model: Any, task: Task, schedule: Schedule, checkpoint: Path) -> None:
        arguments = TrainingArguments(
            output_dir=str(checkpoint),
            learning_rate=schedule.learning_rate,
            weight_decay=schedule.weight_decay,
            adam_beta2=0.95,
            max_grad_norm=1.0,
            bf16=schedule.bf16,
            seed=schedule.seed,
            lr_scheduler_type=task.rate,
            use_cpu=not torch.accelerator.is_available(),
            accelerator_config={"even_batches": False},
            ddp_find_unused_parameters=False,
            eval_strategy="no",
            save_strategy="no",
            logging_strategy="no",
            logging_nan_inf_filter=False,
            report_to="none",
            disable_tqdm=True,
        )
        arguments._n_gpu = min(arguments.n_gpu, 1)  # one device per process; not its DataParallel
        self._task, self._schedule = task, schedule
        self._batches = _EpochBatches(task, arguments.world_size)
        self.per_epoch = len(self._batches) // arguments.world_size
        self._total = self.per_epoch * schedule.epochs
        parts = task.evaluations
        self.marks = {self.per_epoch * number // parts for number in range(1, parts + 1)}
        """Steps of an epoch after which is validated."""
        arguments.max_steps = min(self._total, schedule.max_steps or self._total)
        arguments.warmup_steps = math.ceil(schedule.warmup * self._total)
        self.batch_loss = math.nan
        super().__init__(model=model, args=arguments, train_dataset=task.datasets[TRAIN])
        self.remove_callback(PrinterCallback)
        self.add_callback(_WhenToSave(self))

    def go_on(self, state: Path | None) -> None:
        """Train from a state, or from the beginning."""
        if state is None:
            self.train()
            return
        with _reading(state):
            self.state = TrainerState.load_from_json(str(state / _STATE))
        if not self.is_stale:  # else it was killed when all was done
            self.train(resume_from_checkpoint=str(state))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with _reading(resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with _reading(checkpoint):
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with _reading(checkpoint):
            super()._load_rng_state(checkpoint)

    def get_train_dataloader(self) -> DataLoader:
        loader = DataLoader(
            self._task.datasets[TRAIN],
            batch_sampler=self._batches,
            collate_fn=partial(self._task.collate, TRAIN),
            generator=torch.Generator(),  # that of dropout is left alone
        )
        return self.accelerator.prepare(loader)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        return super().create_scheduler(self._total, optimizer)  # as if all epochs were to come

    def begin_epoch(self) -> None:
        """Deal the batches of the epoch that the next step is in."""
        self._batches.epoch = self.state.global_step // self.per_epoch

    def compute_loss(self, model: Any, inputs: Mapping[str, torch.Tensor], **options: Any) -> torch.Tensor:
        loss, targets = self._task.loss(model, inputs)
        return loss / targets.clamp(min=1)

    def training_step(self, *arguments: Any, **options: Any) -> torch.Tensor:
        loss = super().training_step(*arguments, **options)
        self.batch_loss = float(loss)
        if self.args.world_size == 1:  # among several, all end at the same step, by the gradients that they share
            self._check_finite(self.batch_loss, "loss")
        return loss

    def _clip_grad_norm(self, model: Any) -> Any:
        norm = super()._clip_grad_norm(model)
        self._check_finite(float(norm), f"loss {self.batch_loss:.4g}, norm of the gradients")
        return norm

    def evaluate(self, *arguments: Any, **options: Any) -> dict[str, float]:
        """Losses of all that is not trained on; the model is saved where that of the validation is the lowest."""
        others = [name for name in self._task.datasets if name != TRAIN and self._task.datasets[name]]
        losses = {name: self._mean_loss(name) for name in others}
        self._check_finite(losses[VALIDATION], "validation loss", ahead=0)
        if losses[VALIDATION] < (math.inf if self.state.best_metric is None else self.state.best_metric):
            self.state.best_metric, self.state.best_global_step = losses[VALIDATION], self.state.global_step
            if self.is_world_process_zero():
                self._task.save(self.accelerator.unwrap_model(self.model))
        self.state.log_history.append({"step": self.state.global_step, **losses})
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, losses)
        return losses

    @torch.no_grad()
    def _mean_loss(self, dataset: str) -> float:
        """In nats per target, of all processes together."""
        self.model.eval()
        totals = torch.zeros(2, dtype=torch.float32, device=self.args.device)
        examples, batches = self._task.datasets[dataset], self._task.batches(dataset, 0)
        for batch in batches[self.args.process_index :: self.args.world_size]:
            inputs = self._prepare_inputs(self._task.collate(dataset, [examples[number] for number in batch]))
            with self.compute_loss_context_manager():
                loss, targets = self._task.loss(self.model, inputs)
            totals += torch.stack([loss.float(), targets.float()])
        total, targets = self.accelerator.reduce(totals, reduction="sum").tolist()
        return total / targets

    def _check_finite(self, value: float, what: str, ahead: int = 1) -> None:
        if math.isfinite(value):
            return
        saved = "no model was saved"
        if self.state.best_metric is not None:
            step, loss = self.state.best_global_step, self.state.best_metric
            saved = f"the model of step {step}, validation loss {loss:.4f}, is kept"
        raise DivergedError(
            f"the training diverged at step {self.state.global_step + ahead} ({what} {value:.4g}); {saved}; "
            "give a lower --learning-rate, and --no-resume"
        )

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        if self.args.should_save and output_dir is not None:
            self.accelerator.unwrap_model(self.model).save_pretrained(output_dir)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Weights that are tied are saved once, and no news."""

    @property
    def validations(self) -> list[dict[str, float]]:
        """What was measured after each part of the training."""
        return [row for row in self.state.log_history if VALIDATION in row]

    @property
    def is_stale(self) -> bool:
        """Whether the last validations brought no lower loss, or all steps are taken."""
        losses = [row[VALIDATION] for row in self.validations]
        since = len(losses) - 1 - losses.index(min(losses)) if losses else 0
        return since >= self._schedule.patience or self.state.global_step >= self.args.max_steps

    def summary(self) -> dict[str, Any]:
        """What came out, with the mean training loss before each validation."""
        losses, total, before, last = [], 0.0, 0, 0
        for row in self.state.log_history:
            if "loss" in row:
                total += row["loss"] * (row["step"] - last)
                last = row["step"]
            elif VALIDATION in row:
                losses.append({**row, TRAIN: total / (row["step"] - before)})
                total, before = 0.0, row["step"]
        return {
            "steps": self.state.global_step,
            "best_step": self.state.best_global_step,
            "validation_loss": self.state.best_metric,
            "losses": losses,
        }


class _WhenToSave(TrainerCallback):
    """Validates at the marks of each epoch, and saves there and from time to time."""

    def __init__(self, trainer: _Trainer) -> None:
        self._trainer, self._saved = trainer, time.monotonic()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._trainer.begin_epoch()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        step = (state.global_step - 1) % self._trainer.per_epoch + 1
        control.should_evaluate = step in self._trainer.marks or state.global_step == args.max_steps
        is_due = args.world_size == 1 and time.monotonic() - self._saved > SECONDS
        control.should_save = control.should_log = control.should_evaluate or is_due

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._saved = time.monotonic()
        if state.is_world_process_zero:
            for former in sort_checkpoints(args.output_dir)[:-1]:
                shutil.rmtree(former, ignore_errors=True)
        control.should_training_stop = self._trainer.is_stale


class _Progress(TrainerCallback):
    """The progress bar."""

    def __init__(self, bar: Any, trainer: _Trainer) -> None:
        self._bar, self._trainer = bar, trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._bar.advance(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        best = math.inf if state.best_metric is None else state.best_metric
        self._bar.advance()
        self._bar.describe(f"training, loss {self._trainer.batch_loss:.3f}, best validation {best:.3f}")
