"""Training LMRec: cross-entropy over all venues, early stopping on validation loss, resumable (Shen §3.2)."""

from __future__ import annotations

import logging
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import get_linear_schedule_with_warmup

from tod_bias.documents import read_json
from tod_bias.errors import DivergedError, RecommenderError
from tod_bias.files import check_plain_file, replacing_files, subfolder, write_json
from tod_bias.folder import held
from tod_bias.models.checkpoints import load_tokenizer
from tod_bias.models.divergence import check_step, check_validation
from tod_bias.models.examples import check_tokens
from tod_bias.models.model_folder import WEIGHTS
from tod_bias.models.resumption import Progress, Training, load_checkpoint, save_checkpoint
from tod_bias.progress import progress_bar
from tod_bias.recommenders.lmrec.masking import Neutraliser
from tod_bias.recommenders.lmrec.model import (
    LMRec,
    LMRecConfig,
    LMRecModel,
    load_encoder,
    new_encoder,
    new_tokenizer,
)
from tod_bias.recommenders.lmrec.reviews import Review, Reviews, masked
from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig
from tod_bias.recommenders.lmrec.tokens import TokenFile, tokenise

log = logging.getLogger(__name__)
_BUCKETS = 50
"""Batches that are sorted by length together."""


@dataclass
class _Epochs(Progress):
    epoch: int = 0


def train(
    reviews: Reviews,
    out: str | Path,
    settings: RecommenderTrainConfig | None = None,
    *,
    neutraliser: Neutraliser | None = None,
    resume: bool = True,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Train LMRec on the training split of some reviews and save the best model to ``out``.

    Under ``accelerate launch`` batches are shared out over the processes.

    Args:
        reviews: of one city.
        out: folder for the model; ``out/checkpoint`` holds the state for resuming until the training is complete.
        settings: of the training.
        neutraliser: what ``settings.mask`` masks; the words that ship if left out.
        resume: go on where an interrupted training with the same settings stopped.

    Returns:
        What is also written to ``training.json``: settings, statistics, steps, losses in nats a review.

    Raises:
        DivergedError: the loss is no longer finite; ``out`` holds the best model until then, if there was one.
        ModelError: unusable settings or encoder.
        RecommenderError: too few reviews to split.
        TodBiasError: ``out`` cannot be written to, or another run writes into it.
    """
    settings = (settings or RecommenderTrainConfig()).with_usual_rate()
    with held(out) as place:
        return _train(reviews, place, settings, neutraliser, resume, show_progress)


def _train(
    reviews: Reviews,
    out: Path,
    settings: RecommenderTrainConfig,
    neutraliser: Neutraliser | None,
    resume: bool,
    show_progress: bool,
) -> dict[str, Any]:
    accelerator = Accelerator(
        mixed_precision="bf16" if settings.bf16 else "no", cpu=not torch.accelerator.is_available()
    )
    set_seed(settings.seed)
    hide = (neutraliser or Neutraliser()) if settings.mask else None

    def split(number: int) -> Iterator[Review]:
        subset = reviews.of_split(number, settings.seed)
        return masked(subset, hide) if hide else subset

    model, tokenizer = _new_model(reviews, settings, lambda: (review.text for review in split(0)))
    lmrec = LMRec(model, tokenizer, reviews.venues)
    prefix = f".tokens-{accelerator.process_index}-"
    for left in out.glob(f"{prefix}*"):  # a killed training's
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=prefix) as folder:
        parts = [
            tokenise(split(number), tokenizer, model.config.max_tokens, Path(folder) / f"{number}.bin")
            for number in (0, 1)
        ]
        if not all(map(len, parts)):
            raise RecommenderError(f"{reviews.city}: {len(reviews)} reviews are too few to split into 0.8/0.1/0.1")
        record = {
            "settings": settings.model_dump(),
            "statistics": reviews.statistics(),
            "processes": accelerator.num_processes,
        }
        splits = (parts[0], parts[1])
        state = _run(accelerator, lmrec, splits, out, record, settings, resume=resume, show_progress=show_progress)
    record |= {"steps": state.step, "best_step": state.best_step, "validation_loss": state.best, "losses": state.losses}
    if accelerator.is_main_process:
        write_json(out / "training.json", record)
        shutil.rmtree(out / "checkpoint", ignore_errors=True)
    accelerator.wait_for_everyone()
    return record


def _new_model(
    reviews: Reviews, settings: RecommenderTrainConfig, texts: Callable[[], Iterator[str]]
) -> tuple[LMRecModel, Any]:
    if settings.init == "scratch":
        tokenizer = new_tokenizer(texts, settings.vocabulary)
        encoder = new_encoder(
            len(tokenizer),
            layers=settings.layers,
            width=settings.width,
            heads=settings.heads,
            dropout=min(settings.dropout, 0.1),
            positions=settings.max_length,
        )
    else:
        encoder, tokenizer = load_encoder(settings.init), load_tokenizer(settings.init)
        vocabulary = encoder.get_input_embeddings().num_embeddings
        check_tokens([list(tokenizer.get_vocab().values())], vocabulary, settings.init)
    positions = getattr(encoder.config, "max_position_embeddings", settings.max_length)
    if encoder.config.model_type in ("roberta", "xlm-roberta", "camembert"):
        positions -= 2  # their positions begin behind the padding token
    config = LMRecConfig(
        encoder={"model_type": encoder.config.model_type, **encoder.config.to_diff_dict()},
        venues=len(reviews.venues),
        layers=settings.head_layers,
        hidden=settings.hidden,
        dropout=settings.dropout,
        max_tokens=min(settings.max_length, positions),
        city=reviews.city,
        masked=settings.mask,
    )
    return LMRecModel(config, encoder), tokenizer


def _run(
    accelerator: Accelerator,
    lmrec: LMRec,
    splits: tuple[TokenFile, TokenFile],
    out: Path,
    record: Mapping[str, Any],
    settings: RecommenderTrainConfig,
    *,
    resume: bool,
    show_progress: bool,
) -> _Epochs:
    """Train on the first split and stop early by the second."""
    train_set, valid_set = splits
    processes = accelerator.num_processes
    per_epoch = math.ceil(len(train_set) / (settings.batch * processes))
    total = per_epoch * settings.epochs
    model: Any = lmrec.model
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    plain = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate)
    schedule = get_linear_schedule_with_warmup(optimizer, math.ceil(settings.warmup * total), total)
    model, optimizer = accelerator.prepare(model, optimizer)
    state = _Epochs()
    training = Training(accelerator, model, optimizer, schedule, state)
    checkpoint = out / "checkpoint"
    check_plain_file(checkpoint)
    if resume and load_checkpoint(training, checkpoint, record):
        log.info("resuming at epoch %d", state.epoch)
    pad = lmrec.tokenizer.pad_token_id or 0
    last = min(total, settings.max_steps or total)
    with progress_bar(last, "training", show=show_progress and accelerator.is_main_process) as bar:
        bar.advance(state.step)
        while state.step < last and state.stale < settings.patience:
            model.train()
            losses = []
            batches = _batches(train_set, settings, state.epoch, pad)
            batches = (batches * processes)[accelerator.process_index :: processes][:per_epoch]
            for ids in batches[: last - state.step]:
                loss = _loss(model, train_set, ids, pad, accelerator)
                accelerator.backward(loss)
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
                check_step(training, loss, norm, out)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                state.step += 1
                losses.append(float(loss.detach()))
                bar.advance()
                bar.describe(f"training, loss {np.mean(losses[-50:]):.3f}, best validation {state.best:.3f}")
            state.epoch += 1
            loss = _validate(model, valid_set, settings, pad, accelerator)
            check_validation(training, loss, out)
            state.losses.append({"step": state.step, "train": float(np.mean(losses)), "validation": loss})
            log.info("epoch %d: training loss %.4f, validation loss %.4f", state.epoch, np.mean(losses), loss)
            if loss < state.best:
                state.best, state.best_step, state.stale = loss, state.step, 0
                if accelerator.is_main_process:
                    lmrec.model = accelerator.unwrap_model(model)
                    lmrec.save(out)
            else:
                state.stale += 1
            save_checkpoint(training, checkpoint, record)
    return state


def _batches(tokens: TokenFile, settings: RecommenderTrainConfig, epoch: int, pad: int) -> list[np.ndarray]:
    """Shuffled batches, every review once; within some batches sorted by length, so that little is padded."""
    rng = np.random.default_rng([settings.seed, epoch + 1])
    order = rng.permutation(len(tokens))
    batches: list[np.ndarray] = []
    size = settings.batch * _BUCKETS
    for start in range(0, len(order), size):
        chunk = order[start : start + size]
        chunk = chunk[np.argsort(tokens.lengths[chunk], kind="stable")]
        batches += [chunk[at : at + settings.batch] for at in range(0, len(chunk), settings.batch)]
    return [batches[number] for number in rng.permutation(len(batches))]


def _loss(
    model: Any, tokens: TokenFile, rows: np.ndarray, pad: int, accelerator: Accelerator, reduction: str = "mean"
) -> torch.Tensor:
    ids, mask, venues = (part.to(accelerator.device) for part in tokens.padded(rows, pad))
    return torch.nn.functional.cross_entropy(model(ids, mask).float(), venues, reduction=reduction)


def _validate(
    model: Any, tokens: TokenFile, settings: RecommenderTrainConfig, pad: int, accelerator: Accelerator
) -> float:
    model.eval()
    order = np.argsort(tokens.lengths, kind="stable")
    totals = torch.zeros(2, dtype=torch.float64)
    starts = range(0, len(order), settings.batch)
    with torch.no_grad():
        for start in list(starts)[accelerator.process_index :: accelerator.num_processes]:
            rows = order[start : start + settings.batch]
            loss = _loss(model, tokens, rows, pad, accelerator, "sum")
            totals += torch.tensor([float(loss), len(rows)], dtype=torch.float64)
    summed = accelerator.reduce(totals.to(torch.float32).to(accelerator.device), reduction="sum").cpu()
    return float(summed[0] / summed[1])


def trained_seed(folder: str | Path) -> int | None:
    """The seed of the training that wrote a model folder, and split its reviews; None where it is not recorded."""
    try:
        record = read_json(Path(folder) / "training.json")
        return int(record["settings"]["seed"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def trained_from(folder: str | Path) -> str | None:
    """The encoder that a model folder's training began with; None where it was none, or is not recorded."""
    try:
        init = read_json(Path(folder) / "training.json")["settings"]["init"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return init if isinstance(init, str) and init != "scratch" else None


def search(
    reviews: Reviews,
    out: str | Path,
    settings: RecommenderTrainConfig,
    grid: Sequence[Mapping[str, Any]],
    **options: Any,
) -> dict[str, Any]:
    """Train with every combination of a grid and keep the model with the lowest validation loss (Shen §3.2).

    Returns:
        The record of the best training, with all losses under ``grid``; also in ``training.json``. Combinations that
        are complete are not trained again.
    """
    out = Path(out)
    tried = []
    diverged: DivergedError | None = None
    for number, combination in enumerate(grid):
        folder = subfolder(subfolder(out, "grid"), f"{number:03d}")
        done = folder / "training.json"
        chosen = settings.model_copy(update=combination).with_usual_rate()
        wanted = {"settings": chosen.model_dump(), "statistics": reviews.statistics()}
        record = _complete(done)
        if not options.get("resume", True) or {name: record.get(name) for name in wanted} != wanted:
            try:
                record = train(reviews, folder, chosen, **options)
            except DivergedError as error:  # the others need not
                log.warning("%s", error)
                diverged, record = error, {"validation_loss": math.inf}
        tried.append((record["validation_loss"], number, combination, record))
    loss, number, _, best = min(tried, key=lambda entry: entry[:2])
    if diverged is not None and loss == math.inf:
        raise diverged
    with replacing_files(out, WEIGHTS) as part:
        shutil.copytree(out / "grid" / f"{number:03d}", part, dirs_exist_ok=True)
    best = {**best, "grid": [{**combination, "validation_loss": loss} for loss, _, combination, _ in tried]}
    write_json(out / "training.json", best)
    return best


def _complete(path: Path) -> dict[str, Any]:
    """The record of a training that is complete; empty where there is none that can be read."""
    try:
        record = read_json(path)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
