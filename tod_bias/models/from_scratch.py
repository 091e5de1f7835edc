"""New models and tokenizers, with random weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BartConfig,
    GPT2Config,
    PreTrainedTokenizerFast,
    T5Config,
)

from tod_bias.models.settings import TrainConfig

PAD, END = "<pad>", "</s>"


def new_tokenizer(texts: Iterable[str], vocabulary: int, *, causal: bool) -> Any:
    """Train a byte-level BPE tokenizer; for sequence-to-sequence models it ends every text with ``</s>``.

    Args:
        texts: to train on.
        vocabulary: tokens at the most.
        causal: whether it is for a causal model.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if not causal:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {END}", special_tokens=[(END, tokenizer.token_to_id(END))]
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END)


def new_model(settings: TrainConfig, tokenizer: Any) -> Any:
    """A model with random weights of the size that the settings give."""
    marks = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    config = _ARCHITECTURES[settings.arch or "gpt2"](settings, {"vocab_size": len(tokenizer), **marks})
    if settings.arch == "t5":
        return _for_adam(AutoModelForSeq2SeqLM.from_config(config), config.d_model)
    kind = AutoModelForSeq2SeqLM if settings.arch == "bart" else AutoModelForCausalLM
    return kind.from_config(config)


def _positions(settings: TrainConfig) -> int:
    return max(settings.max_length, settings.positions or 0)


def _gpt2(settings: TrainConfig, known: dict[str, Any]) -> GPT2Config:
    return GPT2Config(
        n_positions=_positions(settings),
        n_embd=settings.width,
        n_layer=settings.layers,
        n_head=settings.heads,
        resid_pdrop=settings.dropout,
        embd_pdrop=settings.dropout,
        attn_pdrop=settings.dropout,
        **known,
    )


def _bart(settings: TrainConfig, known: dict[str, Any]) -> BartConfig:
    return BartConfig(
        max_position_embeddings=_positions(settings),
        d_model=settings.width,
        dropout=settings.dropout,
        encoder_layers=settings.layers,
        decoder_layers=settings.layers,
        encoder_attention_heads=settings.heads,
        decoder_attention_heads=settings.heads,
        encoder_ffn_dim=4 * settings.width,
        decoder_ffn_dim=4 * settings.width,
        decoder_start_token_id=known["eos_token_id"],
        forced_bos_token_id=None,
        forced_eos_token_id=None,
        init_std=_spread(settings.width),
        **known,
    )


def _t5(settings: TrainConfig, known: dict[str, Any]) -> T5Config:
    return T5Config(
        d_model=settings.width,
        d_kv=settings.width // settings.heads,
        d_ff=4 * settings.width,
        num_layers=settings.layers,
        num_heads=settings.heads,
        dropout_rate=settings.dropout,
        decoder_start_token_id=known["pad_token_id"],
        **known,
    )


_ARCHITECTURES = {"gpt2": _gpt2, "bart": _bart, "t5": _t5}


def _spread(width: int) -> float:
    """Standard deviation of a new BART's weights that preserves the size of each layer's inputs (Glorot and Bengio
    2010, eq. 12, for equal numbers of inputs and outputs).

    BART uses 0.02 for a width of 1,024. With a width of 256, branches then vanish in the normalisation: the loss of
    copying 16 random tokens was 8.1 nats a token after 150 steps at a rate of 5e-4. With 0.06 it was 5.9 after 125 and
    0.8 after 225.
    """
    return width**-0.5


_T5_EMBEDDINGS = 0.05
"""Standard deviation of a new T5's embeddings; 1 in T5's own, whose steps are as large as what they change (Adafactor;
Raffel et al. 2020, section 3.1.2). Adam's steps are all alike, and would take a thousand to turn one of them."""


def _for_adam(model: Any, width: int) -> Any:
    """A new T5 with small embeddings, and logits of about the size that they had: they are embeddings times states
    over the root of the width, and the states are made larger by that root."""
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(_T5_EMBEDDINGS)
        model.get_decoder().final_layer_norm.weight.mul_(math.sqrt(width))
    return model
