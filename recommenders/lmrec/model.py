"""LMRec: an encoder with a recommendation head on its first state (Shen §3.2), and the folder that it lives in.

r = softmax(W₂ᵀ relu(W₁ᵀ h)) with two layers (Shen 2023), or r = softmax(Wᵀ dropout(h)) with one (Shen 2022); h is the
last hidden state of the first token ([CLS]).

A folder holds ``config.json``, ``model.safetensors`` and the tokenizer, as Hugging Face's models do, and
``venues.jsonl``, the items in the order of the model's outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModel, BertConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from tod_bias.dialogues.text import json_line
from tod_bias.errors import ModelError, RecommenderError
from tod_bias.io.progress import progress_bar
from tod_bias.models.checkpoints import from_pretrained, is_encoder, load_configuration, load_tokenizer
from tod_bias.models.model_folder import save_model
from tod_bias.models.processes import usable_device
from tod_bias.recommenders.files import json_lines
from tod_bias.recommenders.lmrec.masking import MASK
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
