"""Training stage models, causal or sequence to sequence, in SimpleTOD fashion or on chats, whole or by adapters.

The result is a folder with ``config.json``, ``model.safetensors`` (or an adapter's files) and the tokenizer that
``AutoModel…`` and ``AutoTokenizer`` load, plus ``training.json``: what it was trained with, and its losses.
"""

from __future__ import annotations

import inspect
import logging
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import get_cosine_schedule_with_warmup

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.sampling import hold_out  # noqa: F401  # imported from here too
from tod_bias.errors import ModelError
from tod_bias.files import check_plain_file, write_json
from tod_bias.folder import held
from tod_bias.models import adapters
from tod_bias.models.adapters import ADAPTER, AdapterWeights
from tod_bias.models.checkpoints import is_causal, load_model, load_tokenizer
from tod_bias.models.divergence import check_step, check_validation
from tod_bias.models.examples import IGNORED, TokenSequence, padding
from tod_bias.models.model_folder import save_model
from tod_bias.models.preparation import Prepared, check, prepare
from tod_bias.models.resumption import Progress, Training, load_checkpoint, save_checkpoint
from tod_bias.models.settings import TrainConfig, usual_rate
from tod_bias.progress import progress_bar

log = logging.getLogger(__name__)
SECONDS = 300.0
"""A training in one process is saved so often; and after every validation."""


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
        out: folder for the model; ``out/checkpoint`` holds the state for resuming until the training is complete, and
            ``out/adapter`` the adapter where it is merged into the model.
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
    check(settings, dialogues, validation)
    if settings.learning_rate is None:
        settings = settings.model_copy(update={"learning_rate": usual_rate(settings.init, settings.arch)})
    if settings.init != "scratch":
        for own in adapters.chain(settings.init):
            if Path(own).exists() and Path(own).resolve() in (Path(out).resolve(), (Path(out) / "adapter").resolve()):
                raise ModelError(
                    f"{out}: is what the training starts from ({own}), which would be lost; choose another"
                )
    with held(out) as place:  # now, not when an hour of training is to be saved
        return _train(dialogues, validation, place, settings, resume, show_progress)


def _train(
    dialogues: Sequence[Dialogue],
    validation: Sequence[Dialogue],
    out: Path,
    settings: TrainConfig,
    resume: bool,
    show_progress: bool,
) -> dict[str, Any]:
    accelerator = Accelerator(
        mixed_precision="bf16" if settings.bf16 else "no", cpu=not torch.accelerator.is_available()
    )
    set_seed(settings.seed)
    made = prepare(settings, dialogues, validation)
    tokenizer, model, causal = made.tokenizer, made.model, made.causal
    train_set = made.train
    best = out / "adapter" if settings.merge else out

    processes = accelerator.num_processes
    per_epoch = math.ceil(len(list(_batches(train_set, settings, 0))) / processes)
    total = per_epoch * settings.epochs
    trained = [p for p in model.parameters() if p.requires_grad]
    decayed, plain = [p for p in trained if p.ndim >= 2], [p for p in trained if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.95), fused=True)
    schedule = get_cosine_schedule_with_warmup(optimizer, math.ceil(settings.warmup * total), total)
    adapter = None if settings.lora is None else AdapterWeights(model)
    model, optimizer = accelerator.prepare(model, optimizer)
    state = Progress()
    training = Training(accelerator, model, optimizer, schedule, state, adapter)
    checkpoint = out / "checkpoint"
    check_plain_file(checkpoint)
    record = {"settings": settings.model_dump(), "dialogues": len(dialogues), "processes": processes}
    record |= made.record
    if resume and load_checkpoint(training, checkpoint, record):
        log.info("resuming at step %d of %d", state.step, total)

    pad = padding(tokenizer)
    marks = {per_epoch * number // settings.evaluations for number in range(1, settings.evaluations + 1)}
    last = min(total, settings.max_steps or total)
    saved = time.monotonic()
    with progress_bar(last, "training", show=show_progress and accelerator.is_main_process) as bar:
        bar.advance(state.step)
        while state.step < last and state.stale < settings.patience:
            epoch, position = divmod(state.step, per_epoch)
            batches = list(_batches(train_set, settings, epoch))
            mine = (batches * processes)[accelerator.process_index :: processes][:per_epoch]
            model.train()
            for batch in mine[position:]:
                loss, tokens = _loss(model, batch, pad, causal, accelerator)
                accelerator.backward(loss / tokens.clamp(min=1))
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
                check_step(training, loss / tokens.clamp(min=1), norm, best)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                state.step += 1
                state.running.append(float(loss.detach() / tokens.clamp(min=1)))
                bar.advance()
                bar.describe(f"training, loss {np.mean(state.running[-50:]):.3f}, best validation {state.best:.3f}")
                if (state.step - 1) % per_epoch + 1 in marks or state.step == last:
                    _validate(training, made, settings, pad, float(np.mean(state.running)), best)
                    state.running = []
                    if state.best_step == state.step:
                        _save(training, tokenizer, best)
                    save_checkpoint(training, checkpoint, record)
                    saved = time.monotonic()
                    model.train()
                    if state.stale >= settings.patience:
                        break
                elif processes == 1 and time.monotonic() - saved > SECONDS:
                    save_checkpoint(training, checkpoint, record)
                    saved = time.monotonic()
                if state.step == last:
                    break
    record |= {"steps": state.step, "best_step": state.best_step, "validation_loss": state.best, "losses": state.losses}
    if accelerator.is_main_process:
        if settings.merge:
            _save_merged(best, out)
        write_json(out / "training.json", record)
        done = checkpoint.with_name("checkpoint.done")  # gone at once: a kill must not leave a part of it
        shutil.rmtree(done, ignore_errors=True)
        if checkpoint.exists():
            checkpoint.rename(done)
        shutil.rmtree(done, ignore_errors=True)
    accelerator.wait_for_everyone()
    return record


def _batches(
    sequences: Sequence[TokenSequence], settings: TrainConfig, epoch: int | None
) -> Iterator[list[TokenSequence]]:
    """Batches of similar length within the token budget; shuffled by (seed, epoch), in order where epoch is None."""
    order = np.arange(len(sequences))
    rng = np.random.default_rng([settings.seed, 0 if epoch is None else epoch + 1])
    if epoch is not None:
        rng.shuffle(order)
    lengths = np.array([len(sequence) for sequence in sequences])
    order = order[np.argsort(lengths[order], kind="stable")]  # equal lengths stay shuffled
    batches: list[list[int]] = []
    for index in order:
        if not batches or (len(batches[-1]) + 1) * lengths[index] > settings.batch_tokens:
            batches.append([])
        batches[-1].append(int(index))
    if epoch is not None:
        rng.shuffle(batches)  # type: ignore[arg-type]
    for batch in batches:
        yield [sequences[index] for index in batch]


def _loss(
    model: Any, batch: Sequence[TokenSequence], pad: int, causal: bool, accelerator: Accelerator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Summed cross-entropy in nats, and how many tokens it is the sum of."""
    device = accelerator.device
    ids = _padded([sequence.input_ids for sequence in batch], pad).to(device)  # (batch, length)
    labels = _padded([sequence.labels for sequence in batch], IGNORED).to(device)
    mask = _padded([(1,) * len(sequence.input_ids) for sequence in batch], 0).to(device)
    if causal:
        labels = labels[:, 1:]
        keep = (labels != IGNORED).any(0).nonzero().squeeze(1)  # columns in which some sequence has a target
        if len(keep) < labels.shape[1] and _computes_chosen_logits(accelerator.unwrap_model(model)):
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


def _computes_chosen_logits(model: Any) -> bool:
    """Whether a model can leave out the logits that take no part in the loss: most of a chat's, and a large part of
    the work where the vocabulary is large."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "logits_to_keep" in inspect.signature(type(base).forward).parameters


def _padded(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])


def _validate(
    training: Training, made: Prepared, settings: TrainConfig, pad: int, train_loss: float, out: Path
) -> None:
    state = training.progress
    training.model.eval()
    loss = _mean_loss(training, made.validation, settings, pad, made.causal)
    check_validation(training, loss, out)
    losses = {"step": state.step, "train": train_loss, "validation": loss}
    log.info("step %d: training loss %.4f, validation loss %.4f", state.step, train_loss, loss)
    if made.exchanged:
        losses["exchanged"] = _mean_loss(training, made.exchanged, settings, pad, made.causal)
        log.info("with the prompts of others %.4f", losses["exchanged"])
    state.losses.append(losses)
    if loss < state.best:
        state.best, state.best_step, state.stale = loss, state.step, 0
    else:
        state.stale += 1


@torch.no_grad()
def _mean_loss(
    training: Training, sequences: Sequence[TokenSequence], settings: TrainConfig, pad: int, causal: bool
) -> float:
    """Cross-entropy in nats a target token, of all processes together."""
    accelerator = training.accelerator
    totals = torch.zeros(2, dtype=torch.float64)
    for batch in list(_batches(sequences, settings, None))[accelerator.process_index :: accelerator.num_processes]:
        loss, tokens = _loss(training.model, batch, pad, causal, accelerator)
        totals += torch.tensor([float(loss), float(tokens)], dtype=torch.float64)
    totals = accelerator.reduce(totals.to(torch.float32).to(accelerator.device), reduction="sum").cpu()
    return float(totals[0] / totals[1])


def _save(training: Training, tokenizer: Any, out: Path) -> None:
    accelerator, adapter = training.accelerator, training.weights
    if accelerator.is_main_process:
        if adapter is None:
            save_model([accelerator.unwrap_model(training.model), tokenizer], out)
        else:
            save_model([adapter, tokenizer], out, weights=ADAPTER)


def _save_merged(adapter: Path, out: Path) -> None:
    name = str(adapter)
    save_model([load_model(name, causal=is_causal(name)), load_tokenizer(name)], out)
