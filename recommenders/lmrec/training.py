"""Training LMRec: cross-entropy over all venues, early stopping on validation loss, resumable (Shen §3.2)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed

from tod_bias.errors import RecommenderError
from tod_bias.io.documents import read_json
from tod_bias.io.files import write_json
from tod_bias.io.folder import held
from tod_bias.models.checkpoints import load_tokenizer, positions
from tod_bias.models.examples import check_tokens, padding
from tod_bias.models.processes import is_first_process
from tod_bias.models.trainer import Row, Task, finish, fit
from tod_bias.perturb.names.people import under_other_names
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

_CHUNK = 1000
"""Reviews whose texts are in memory at once."""


def _examples(reviews: Iterator[Review], tokenizer: Any, max_length: int) -> list[Row]:
    result: list[Row] = []
    while chunk := list(islice(reviews, _CHUNK)):
        every = encode(tokenizer, [review.text for review in chunk], max_length)
        pairs = zip(every, chunk, strict=True)
        result += [{"input_ids": array("i", ids), "labels": review.venue} for ids, review in pairs]
    return result


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
        neutraliser: masks the words of ``settings.mask``; those of the package by default.
        resume: continue an interrupted training with the same settings.

    Returns:
        The content of ``training.json``: settings, statistics, steps, losses in nats a review.

    Raises:
        DivergedError: the loss is no longer finite.
        ModelError: unusable settings or encoder.
        RecommenderError: too few reviews to split.
        TodBiasError: ``out`` cannot be written to, or another run writes into it.
    """
    settings = (settings or RecommenderTrainConfig()).with_usual_rate()
    with held(out) as folder:
        set_seed(settings.seed)
        hide = (neutraliser or Neutraliser()) if settings.mask else None

        def split(number: int) -> Iterator[Review]:
            part = reviews.of_split(number, settings.seed)
            if settings.augment and number == 0:
                part = _augmented(part)
            return (Review(review.venue, hide(review.text)) for review in part) if hide else part

        model, tokenizer = _new_model(reviews, settings, lambda: (review.text for review in split(0)))
        train_set, valid_set = (_examples(split(number), tokenizer, model.config.max_tokens) for number in (0, 1))
        if not (len(train_set) and len(valid_set)):
            raise RecommenderError(f"{reviews.city}: {len(reviews)} reviews are too few to split into 0.8/0.1/0.1")
        record: dict[str, Any] = {"settings": settings.model_dump(), "statistics": reviews.statistics()}
        record["training_reviews"] = len(train_set)
        task = Task(train_set, valid_set, padding(tokenizer), rate="linear", warmup=0.1, loss=_loss)
        model, outcome = fit(model, task, settings, folder, record, resume=resume, show_progress=show_progress)
        record |= outcome
        if is_first_process():
            LMRec(model, tokenizer, reviews.venues).save(folder)
            write_json(folder / "training.json", record)
            finish(folder)
    return record


def _augmented(reviews: Iterator[Review]) -> Iterator[Review]:
    for review in reviews:
        yield review
        yield from (Review(review.venue, text) for text in under_other_names(review.text))


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
    most = positions(encoder.config) or settings.max_length
    if encoder.config.model_type in ("roberta", "xlm-roberta", "camembert"):
        most -= 2  # their positions begin behind the padding token
    config = LMRecConfig(
        encoder={"model_type": encoder.config.model_type, **encoder.config.to_diff_dict()},
        venues=len(reviews.venues),
        layers=settings.head_layers,
        hidden=settings.hidden,
        dropout=settings.dropout,
        max_tokens=min(settings.max_length, most),
        city=reviews.city,
        masked=settings.mask,
    )
    return LMRecModel(config, encoder), tokenizer


def _loss(scores: torch.Tensor, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """Return the mean cross-entropy of a step's reviews in nats."""
    total = torch.nn.functional.cross_entropy(scores.float(), labels, reduction="sum")
    return total / (len(labels) if num_items_in_batch is None else num_items_in_batch)


def training_settings(folder: str | Path) -> Mapping[str, Any]:
    """Return the settings of the training that wrote a model folder; empty if they are not recorded."""
    try:
        settings = read_json(Path(folder) / "training.json")["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return settings if isinstance(settings, dict) else {}
