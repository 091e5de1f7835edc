"""New models and tokenizers, with random weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BartConfig,
    GPT2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
    T5Config,
)

from tod_bias.models.settings import TrainConfig

PAD, END = "<pad>", "</s>"


def new_tokenizer(texts: Iterable[str], vocabulary: int, *, causal: bool, marks: Sequence[str] = ()) -> Any:
    """Train a byte-level BPE tokenizer; for sequence-to-sequence models it ends every text with ``</s>``.

    Args:
        texts: to train on.
        vocabulary: tokens at the most.
        causal: whether it is for a causal model.
        marks: further tokens that are never cut, the last of which ends texts in the place of ``</s>``.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, END, *marks],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if not causal:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {END}", special_tokens=[(END, tokenizer.token_to_id(END))]
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=[END, *marks][-1])


def new_model(settings: TrainConfig, tokenizer: Any) -> Any:
    """A model with random weights of the size that the settings give."""
    s = settings
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    vocabulary = len(tokenizer)
    positions = max(s.max_length, s.positions or 0)
    if s.arch == "gpt2":
        config: Any = GPT2Config(
            vocab_size=vocabulary,
            n_positions=positions,
            n_embd=s.width,
            n_layer=s.layers,
            n_head=s.heads,
            resid_pdrop=s.dropout,
            embd_pdrop=s.dropout,
            attn_pdrop=s.dropout,
            **ends,
        )
        return AutoModelForCausalLM.from_config(config)
    if s.arch == "llama":
        config = LlamaConfig(
            vocab_size=vocabulary,
            max_position_embeddings=positions,
            hidden_size=s.width,
            num_hidden_layers=s.layers,
            num_attention_heads=s.heads,
            intermediate_size=4 * s.width,
            attention_dropout=s.dropout,
            tie_word_embeddings=True,
            **ends,
        )
        return AutoModelForCausalLM.from_config(config)
    if s.arch == "bart":
        config = BartConfig(
            vocab_size=vocabulary,
            max_position_embeddings=positions,
            d_model=s.width,
            dropout=s.dropout,
            encoder_layers=s.layers,
            decoder_layers=s.layers,
            encoder_attention_heads=s.heads,
            decoder_attention_heads=s.heads,
            encoder_ffn_dim=4 * s.width,
            decoder_ffn_dim=4 * s.width,
            decoder_start_token_id=tokenizer.eos_token_id,
            forced_bos_token_id=None,
            forced_eos_token_id=None,
            init_std=_spread(s.width),
            **ends,
        )
        return AutoModelForSeq2SeqLM.from_config(config)
    config = T5Config(
        vocab_size=vocabulary,
        d_model=s.width,
        d_kv=s.width // s.heads,
        d_ff=4 * s.width,
        num_layers=s.layers,
        num_heads=s.heads,
        dropout_rate=s.dropout,
        decoder_start_token_id=tokenizer.pad_token_id,
        **ends,
    )
    return _for_adam(AutoModelForSeq2SeqLM.from_config(config), config.d_model)


def _spread(width: int) -> float:
    """Standard deviation of a new BART's weights, with which layers keep the size of what they are given (Glorot and
    Bengio 2010, eq. 12, for as many inputs as outputs).

    BART's own 0.02 is for a width of 1,024. Where it is 256 each branch adds a fraction of what it is given and is
    normalised away: with it the loss of copying 16 random tokens was 8.1 nats a token after 150 steps at a rate of
    5e-4, with 0.06 it was 5.9 after 125 and 0.8 after 225.
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
