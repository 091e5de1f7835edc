"""LMRec: an encoder with a recommendation head on its first state (Shen §3.2), its training, folder and queries.

r = softmax(W₂ᵀ relu(W₁ᵀ h)) with two layers (Shen 2023), or r = softmax(Wᵀ dropout(h)) with one (Shen 2022); h is the
last hidden state of the first token ([CLS]). Training minimises the cross-entropy over all venues, with early stopping
on the validation loss, and can be resumed.

A folder holds ``config.json``, ``model.safetensors`` and the tokenizer, as Hugging Face's models do, and
``venues.jsonl``, the items in the order of the model's outputs.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig,
    AutoModel,
    BertConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    set_seed,
)

from tod_bias.dialogues.text import json_line
from tod_bias.errors import ModelError, RecommenderError
from tod_bias.io.documents import read_json
from tod_bias.io.files import write_json
from tod_bias.io.folder import held
from tod_bias.io.progress import progress_bar
from tod_bias.models.checkpoints import (
    fingerprint,
    from_pretrained,
    is_encoder,
    load_configuration,
    load_tokenizer,
    positions,
)
from tod_bias.models.devices import usable_device
from tod_bias.models.examples import check_tokens, padding
from tod_bias.models.model_folder import save_model
from tod_bias.models.processes import is_first_process
from tod_bias.models.trainer import Row, TrainingTask, finish, fit
from tod_bias.perturb.names.places import under_other_names
from tod_bias.recommenders.files import json_lines
from tod_bias.recommenders.lmrec.recommendations import NEUTRAL, NO_GROUP, Recommendations, tidy
from tod_bias.recommenders.lmrec.reviews import Review, Reviews
from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig
from tod_bias.recommenders.lmrec.templates import MASK, Neutraliser, Query, TemplateSet, load_templates
from tod_bias.recommenders.lmrec.venue import VENUES, Venue

K = 20
"""Items in a recommended list (Shen §3.3.1)."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class LMRecConfig(PreTrainedConfig):
    """Configuration of an LMRec's shape."""

    model_type = "lmrec"

    def __init__(
        self,
        encoder: dict[str, Any] | None = None,
        venues: int = 1,
        layers: int = 2,
        hidden: int = 512,
        dropout: float = 0.2,
        max_tokens: int = 128,
        city: str = "",
        masked: bool = False,
        **rest: Any,
    ) -> None:
        self.encoder = encoder or {"model_type": "bert"}
        self.venues, self.city = venues, city
        self.layers, self.hidden, self.dropout = layers, hidden, dropout
        self.max_tokens, self.masked = max_tokens, masked
        super().__init__(**rest)


class LMRecModel(PreTrainedModel):
    """The network: token ids in, one logit a venue out."""

    config_class = LMRecConfig
    base_model_prefix = "lmrec"

    def __init__(self, config: LMRecConfig, encoder: Any = None) -> None:
        super().__init__(config)
        self.encoder = encoder if encoder is not None else _encoder(config)
        if getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None  # the head stands on the state itself
        width = self.encoder.config.hidden_size
        dropout = torch.nn.Dropout(config.dropout)
        if config.layers == 2:
            self.head = torch.nn.Sequential(
                dropout,
                torch.nn.Linear(width, config.hidden),
                torch.nn.ReLU(),
                torch.nn.Linear(config.hidden, config.venues),
            )
        else:
            self.head = torch.nn.Sequential(dropout, torch.nn.Linear(width, config.venues))
        self.post_init()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """(batch, tokens) ids to (batch, venues) logits."""
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.head(states[:, 0])

    def _init_weights(self, module: Any) -> None:
        if isinstance(module, torch.nn.Linear) and any(module is part for part in self.head):
            torch.nn.init.normal_(module.weight, std=0.02)
            torch.nn.init.zeros_(module.bias)


def _encoder(config: LMRecConfig) -> Any:
    options = dict(config.encoder)
    of_encoder = AutoConfig.for_model(options.pop("model_type"), **options)
    return AutoModel.from_config(of_encoder, trust_remote_code=False)


AutoConfig.register(LMRecConfig.model_type, LMRecConfig)
AutoModel.register(LMRecConfig, LMRecModel)


class LMRec:
    """A recommender: utterances in, ranked venues out.

    Args:
        model: the network.
        tokenizer: of its encoder.
        venues: in the order of its outputs.

    Raises:
        RecommenderError: venues and outputs differ in number.
    """

    def __init__(self, model: LMRecModel, tokenizer: Any, venues: Sequence[Venue]) -> None:
        if len(venues) != model.config.venues:
            raise RecommenderError(f"the model ranks {model.config.venues} venues, but {len(venues)} are given")
        self.model = model
        self.tokenizer = tokenizer
        self.venues = tuple(venues)
        self.city: str = model.config.city

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> LMRec:
        """Load a trained LMRec.

        Raises:
            ModelError: the folder holds none.
            RecommenderError: its item table cannot be read; the line is named.
        """
        folder = Path(folder)
        if not (folder / "config.json").is_file():
            raise ModelError(f"{folder}: no trained LMRec (config.json, model.safetensors, tokenizer, {VENUES})")
        config = load_configuration(str(folder))
        if config.model_type != LMRecConfig.model_type:
            raise ModelError(
                f"{folder}: is a {config.model_type} checkpoint, no LMRec; train one with "
                "tod-bias recommend train --init"
            )
        model = from_pretrained(LMRecModel, str(folder), "model")
        model = model.to(usable_device(device or ("cuda" if torch.cuda.is_available() else "cpu")))
        return cls(model.eval(), load_tokenizer(str(folder)), list(read_venues(folder / VENUES)))

    def save(self, folder: str | Path) -> None:
        """Write model, tokenizer and item table."""
        items = (
            json_line({"id": venue.id, "name": venue.name, "price": venue.price, "categories": venue.categories})
            for venue in self.venues
        )
        save_model([self.model, self.tokenizer], Path(folder), {VENUES: items})

    def rank(self, texts: Sequence[str], k: int = K, *, batch: int = 128, show_progress: bool = False) -> np.ndarray:
        """Indices of the k best venues of each text, (texts, k), the best first.

        Equal texts are computed once. Texts of equal length are batched, so nothing is padded. Scores are compared to
        1e-4 and ties are broken by the order of the venues, so that a list does not depend on the batch.

        Raises:
            RecommenderError: fewer than k venues.
        """
        if k > len(self.venues):
            raise RecommenderError(f"{k} venues are asked for, but the model knows {len(self.venues)}; give --top")
        distinct = list(dict.fromkeys(texts))
        ids = encode(self.tokenizer, distinct, self.model.config.max_tokens)
        ranked = np.zeros((len(distinct), k), dtype=np.int32)
        with progress_bar(len(distinct), f"recommending {self.city}".strip(), show=show_progress) as bar:
            for rows in _equal_lengths(ids, batch):
                logits = self._logits(torch.tensor([ids[row] for row in rows]))
                rounded = np.round(logits.double().cpu().numpy(), 4)
                ranked[rows] = np.argsort(-rounded, axis=1, kind="stable")[:, :k]
                bar.advance(len(rows))
        place = {text: number for number, text in enumerate(distinct)}
        return ranked[[place[text] for text in texts]]

    def _logits(self, ids: torch.Tensor) -> torch.Tensor:
        ids = ids.to(self.model.device)
        with torch.inference_mode():
            return self.model(ids, torch.ones_like(ids))


def _equal_lengths(ids: Sequence[Sequence[int]], batch: int) -> Iterator[list[int]]:
    lengths: dict[int, list[int]] = {}
    for number, tokens in enumerate(ids):
        lengths.setdefault(len(tokens), []).append(number)
    for rows in lengths.values():
        for start in range(0, len(rows), batch):
            yield rows[start : start + batch]


def encode(tokenizer: Any, texts: Sequence[str], max_length: int) -> list[list[int]]:
    """Token ids with the encoder's first and last token; ``[MASK]`` is its mask token."""
    if not texts:
        return []
    mask = tokenizer.mask_token
    if mask is None:
        raise ModelError("the encoder's tokenizer has no mask token; LMRec masks names with it")
    prepared = [text.replace(MASK, mask) for text in texts]
    ids_only = {"return_attention_mask": False, "return_token_type_ids": False}
    return tokenizer(prepared, truncation=True, max_length=max_length, **ids_only)["input_ids"]


def read_venues(path: Path) -> Iterator[Venue]:
    """The items of a model folder.

    Raises:
        TodBiasError: the file or a line of it cannot be read.
    """
    for place, record in json_lines(path, ("id", "name")):
        try:
            yield Venue(record["id"], record["name"], record["price"], tuple(record["categories"]))
        except (KeyError, TypeError) as error:
            raise RecommenderError(f"{place}: expected id, name, price and categories ({error!r})") from error


def new_tokenizer(texts: Callable[[], Iterable[str]], vocabulary: int) -> Any:
    """Train a lower-casing WordPiece tokenizer with BERT's special tokens; equal texts give equal tokenizers.

    The library's trainer numbers the pieces ``##a``, ``##b`` … in the order of a hash map, and so merges others in each
    run. They are therefore known to it from the start, as special tokens of a tokenizer that is then thrown away.
    """
    normalizer = normalizers.BertNormalizer(lowercase=True)
    letters: set[str] = set()
    for text in texts():
        letters.update(normalizer.normalize_str(text.replace(MASK, " ")))
    pieces = [f"##{letter}" for letter in sorted(letters) if not letter.isspace()]
    trained = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.normalizer, trained.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=max(vocabulary, len(SPECIAL) + 2 * len(pieces)),
        special_tokens=[*SPECIAL, *pieces],
        initial_alphabet=sorted(letter for letter in letters if not letter.isspace()),
        show_progress=False,
    )
    trained.train_from_iterator((text.replace(MASK, " ") for text in texts()), trainer)
    tokenizer = Tokenizer(models.WordPiece(vocab=trained.get_vocab(), unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(SPECIAL))
    first, last = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", first), ("[SEP]", last)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def new_encoder(vocabulary: int, *, layers: int, width: int, heads: int, dropout: float, positions: int) -> Any:
    """A BERT with random weights, as spread out for its width as BERT base's are (0.02 at 768)."""
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        pad_token_id=0,
        initializer_range=0.02 * math.sqrt(768 / width),
    )
    return AutoModel.from_config(config)


def load_encoder(name: str) -> Any:
    """Any encoder checkpoint, from a folder or by its name on the hub.

    Raises:
        ModelError: there is none.
    """
    config = load_configuration(name)
    if config.model_type == LMRecConfig.model_type:
        raise ModelError(f"{name}: is a trained LMRec; expected an encoder, such as BERT")
    if not is_encoder(config):
        raise ModelError(f"{name}: is a {config.model_type} checkpoint and no encoder; expected one, such as BERT")
    return from_pretrained(AutoModel, name, "encoder")


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
        task = TrainingTask(train_set, valid_set, padding(tokenizer), rate="linear", warmup=0.1, loss=_loss)
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


def recommend_templates(
    folders: Sequence[str | Path],
    *,
    templates: str | Path | None = None,
    top: int = K,
    device: str | None = None,
    neutralise: bool = False,
    show_progress: bool = False,
) -> tuple[Recommendations, dict[str, Any]]:
    """Return the template audit's recommendations of some trained models, one per city, and their source.

    Several models of one city (trained with other seeds, for example) count as cities; their folders' names are added.

    Raises:
        RecommenderError: two models of one city in folders of the same name.
    """
    words = load_templates(templates)
    models = [LMRec.load(folder, device=device) for folder in folders]
    cities = distinct_names(
        [model.city or Path(folder).name for model, folder in zip(models, folders, strict=True)], folders
    )
    how: dict[str, Any] = {
        "top": top,
        "hide": Neutraliser(words) if neutralise else None,
        "show_progress": show_progress,
    }
    result = tidy(pd.concat([ask(model, words, city=city, **how) for model, city in zip(models, cities, strict=True)]))
    source = {
        "models": {city: fingerprint(str(folder)) for city, folder in zip(cities, folders, strict=True)},
        "templates": str(templates) if templates else "Shen",
        "top": top,
        "neutralised": neutralise,
    }
    notes = _of_training(models, folders, neutralise=neutralise)
    return replace(result, notes=(*result.notes, *notes)), source


def _of_training(models: Sequence[LMRec], folders: Sequence[str | Path], *, neutralise: bool) -> Iterator[str]:
    """Yield notes on the audit from the models' trainings."""
    if not neutralise and any(model.model.config.masked for model in models):
        yield (
            "trained with masked names, relations and places, but queried with them: findings about these words "
            "show the effect of the initial weights, because no review contained the words"
        )
    begun = [str(training_settings(folder).get("init", "scratch")) for folder in folders]
    for encoder in sorted({encoder for encoder in begun if encoder != "scratch" and begun.count(encoder) > 1}):
        yield (
            f"{begun.count(encoder)} of {len(begun)} models began with the same weights, {encoder}: findings over "
            f"them hold for these weights, and may be accidental"
        )


def distinct_names(cities: Sequence[str], folders: Sequence[str | Path]) -> list[str]:
    """Return names for some models: their city, with the folder's name if several are of one city.

    Raises:
        RecommenderError: two models of one city in folders of the same name.
    """
    names = [
        f"{city} ({Path(folder).name})" if list(cities).count(city) > 1 else city
        for city, folder in zip(cities, folders, strict=True)
    ]
    if alike := [str(folder) for name, folder in zip(names, folders, strict=True) if names.count(name) > 1]:
        raise RecommenderError(
            f"two models of one city in folders of one name: {alike[0]} and {alike[1]}; name a city's folders apart, "
            "for instance leeds-0 and leeds-1"
        )
    return names


def ask(
    model: LMRec,
    words: TemplateSet,
    *,
    city: str,
    top: int = K,
    hide: Neutraliser | None = None,
    show_progress: bool = False,
) -> pd.DataFrame:
    """The top items for every filled template of one model, and for every neutralised template once.

    Args:
        model: the recommender.
        words: templates and the words that fill them.
        city: written into the frame.
        top: items a query.
        hide: masks every query before it is asked (test-side neutralisation).
        show_progress: on stderr.

    Raises:
        RecommenderError: the model knows fewer than ``top`` venues.
    """
    queries, labels = _labelled(words, Neutraliser(words))
    texts = [hide(query.text) if hide else query.text for query in queries]
    ranked = model.rank(texts, top, show_progress=show_progress)
    flat = ranked.ravel()
    part = {
        "kind": [query.kind for query in queries],
        "template": [query.template for query in queries],
        "substitution": [query.substitution for query in queries],
        "second": [query.second for query in queries],
        "query": texts,
        "label": labels,
    }
    frame = pd.DataFrame(part).loc[pd.RangeIndex(len(queries)).repeat(top)].reset_index(drop=True)
    return frame.assign(
        city=city,
        rank=list(range(1, top + 1)) * len(queries),
        item=[model.venues[number].name for number in flat],
        item_id=[model.venues[number].id for number in flat],
        price=[model.venues[number].price for number in flat],
        categories=[model.venues[number].categories for number in flat],
    )


def _labelled(words: TemplateSet, hide: Neutraliser) -> tuple[list[Query], list[str]]:
    """Return all filled templates with their labels, followed by each neutralised template once."""
    queries = list(words.queries())
    labels = ["; ".join(f"{name}={label}" for name, label in query.labels.items()) or NO_GROUP for query in queries]
    neutral: dict[tuple[str, str], Query] = {}
    for query in queries:
        neutral.setdefault((query.kind, hide(query.text)), query)
    queries += [Query(kind, query.template, text, "[MASK]") for (kind, text), query in neutral.items()]
    return queries, labels + [NEUTRAL] * len(neutral)
