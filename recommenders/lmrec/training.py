"""Training LMRec: cross-entropy over all venues, early stopping on validation loss, resumable (Shen §3.2)."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import get_linear_schedule_with_warmup

from tod_bias.documents import read_json
from tod_bias.errors import RecommenderError
from tod_bias.files import check_plain_file, write_json
from tod_bias.folder import held
from tod_bias.models.checkpoints import load_tokenizer
from tod_bias.models.divergence import check_step, check_validation
from tod_bias.models.examples import check_tokens
from tod_bias.models.resumption import Progress, Training, load_checkpoint, save_checkpoint
from tod_bias.progress import progress_bar
from tod_bias.recommenders.lmrec.masking import Neutraliser
from tod_bias.recommenders.lmrec.model import (
    LMRec,
    LMRecConfig,
    LMRecModel,
    encode,
    load_encoder,
    new_encoder,
    new_tokenizer,
)
from tod_bias.recommenders.lmrec.reviews import Review, Reviews
from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig

log = logging.getLogger(__name__)
_BUCKETS = 50
"""Batches that are sorted by length together."""
_CHUNK = 1000
"""Reviews whose texts are in memory at once."""


@dataclass
class _Epochs(Progress):
    epoch: int = 0


class _Tokens:
    """Token ids of the reviews of one split, and their venues."""

    def __init__(self, reviews: Iterator[Review], tokenizer: Any, max_length: int) -> None:
        self._ids: list[np.ndarray] = []
        venues: list[int] = []
        while chunk := list(islice(reviews, _CHUNK)):
            every = encode(tokenizer, [review.text for review in chunk], max_length)
            self._ids += [np.array(ids, dtype=np.int32) for ids in every]
            venues += [review.venue for review in chunk]
        self._venues = np.array(venues, dtype=np.int64)
        self._pad = tokenizer.pad_token_id or 0
        self.lengths = np.array([len(ids) for ids in self._ids])

    def __len__(self) -> int:
        return len(self._ids)

    def padded(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Ids, attention mask and venues of some reviews."""
        ids = np.full((len(rows), int(self.lengths[rows].max())), self._pad, dtype=np.int64)
        for place, row in enumerate(rows):
            ids[place, : self.lengths[row]] = self._ids[row]
        mask = (np.arange(ids.shape[1]) < self.lengths[rows][:, None]).astype(np.int64)
        return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(self._venues[rows])


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
        set_seed(settings.seed)
        hide = (neutraliser or Neutraliser()) if settings.mask else None

        def split(number: int) -> Iterator[Review]:
            part = reviews.of_split(number, settings.seed)
            return (Review(review.venue, hide(review.text)) for review in part) if hide else part

        model, tokenizer = _new_model(reviews, settings, lambda: (review.text for review in split(0)))
        train_set, valid_set = (_Tokens(split(number), tokenizer, model.config.max_tokens) for number in (0, 1))
        if not (len(train_set) and len(valid_set)):
            raise RecommenderError(f"{reviews.city}: {len(reviews)} reviews are too few to split into 0.8/0.1/0.1")
        record: dict[str, Any] = {"settings": settings.model_dump(), "statistics": reviews.statistics()}
        lmrec = LMRec(model, tokenizer, reviews.venues)
        state = _run(lmrec, train_set, valid_set, place, record, settings, resume, show_progress)
        record |= {
            "steps": state.step,
            "best_step": state.best_step,
            "validation_loss": state.best,
            "losses": state.losses,
        }
        write_json(place / "training.json", record)
        shutil.rmtree(place / "checkpoint", ignore_errors=True)
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
    lmrec: LMRec,
    train_set: _Tokens,
    valid_set: _Tokens,
    out: Path,
    record: Mapping[str, Any],
    settings: RecommenderTrainConfig,
    resume: bool,
    show_progress: bool,
) -> _Epochs:
    """Train on the first split and stop early by the second."""
    accelerator = Accelerator(
        mixed_precision="bf16" if settings.bf16 else "no", cpu=not torch.accelerator.is_available()
    )
    total = math.ceil(len(train_set) / settings.batch) * settings.epochs
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
    last = min(total, settings.max_steps or total)
    with progress_bar(last, "training", show=show_progress) as bar:
        bar.advance(state.step)
        while state.step < last and state.stale < settings.patience:
            model.train()
            losses = []
            for rows in _batches(train_set, settings, state.epoch)[: last - state.step]:
                loss = _loss(model, train_set, rows, accelerator.device)
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
            loss = _validate(model, valid_set, settings, accelerator.device)
            check_validation(training, loss, out)
            state.losses.append({"step": state.step, "train": float(np.mean(losses)), "validation": loss})
            log.info("epoch %d: training loss %.4f, validation loss %.4f", state.epoch, np.mean(losses), loss)
            if loss < state.best:
                state.best, state.best_step, state.stale = loss, state.step, 0
                lmrec.model = accelerator.unwrap_model(model)
                lmrec.save(out)
            else:
                state.stale += 1
            save_checkpoint(training, checkpoint, record)
    return state


def _batches(tokens: _Tokens, settings: RecommenderTrainConfig, epoch: int) -> list[np.ndarray]:
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


def _loss(model: Any, tokens: _Tokens, rows: np.ndarray, device: Any, reduction: str = "mean") -> torch.Tensor:
    ids, mask, venues = (part.to(device) for part in tokens.padded(rows))
    return torch.nn.functional.cross_entropy(model(ids, mask).float(), venues, reduction=reduction)


def _validate(model: Any, tokens: _Tokens, settings: RecommenderTrainConfig, device: Any) -> float:
    model.eval()
    order = np.argsort(tokens.lengths, kind="stable")
    with torch.no_grad():
        total = sum(
            float(_loss(model, tokens, order[start : start + settings.batch], device, "sum"))
            for start in range(0, len(order), settings.batch)
        )
    return total / len(order)


def training_settings(folder: str | Path) -> Mapping[str, Any]:
    """The settings of the training that wrote a model folder; empty where they are not recorded."""
    try:
        settings = read_json(Path(folder) / "training.json")["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return settings if isinstance(settings, dict) else {}
