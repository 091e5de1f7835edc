"""Decoding with CTranslate2 (Klein et al. 2020), a library of its own for Transformers on processors without a GPU."""

from __future__ import annotations

import copy
import logging
import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from tod_bias.errors import ModelError, described
from tod_bias.models.decoders.batch import BatchDecoder, until
from tod_bias.models.settings import GenerationSettings

COMPUTES = {"float32": "float32", "int8": "int8", "bfloat16": "bfloat16"}
"""What its precisions are called there."""


def is_installed() -> bool:
    """Whether the library is there."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        return False
    return True


class CTranslateDecoder:
    """Decodes with a converted copy of the model, which lies in memory alone.

    Prompts are batched by length; none shares the work of its prefix with another, as with the tree.

    Args:
        model: gives the model in float32 when it is needed.
        tokenizer: its tokenizer.
        stop_tokens: tokens that end an output.
        settings: how to decode.
        causal: whether the model continues its input (else sequence to sequence).
        name: of the checkpoint, for messages.
    """

    def __init__(
        self,
        model: Callable[[], Any],
        tokenizer: Any,
        stop_tokens: Sequence[int],
        settings: GenerationSettings,
        *,
        causal: bool,
        name: str,
    ) -> None:
        self._load = model
        self._tokenizer = tokenizer
        self._stop_tokens = list(stop_tokens)
        self._settings = settings
        self._causal = causal
        self._name = name
        self._batches = BatchDecoder(model, stop_tokens, settings, 0, causal)

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Batches in order of length, within the token budget, padding included."""
        return self._batches.plan(sequences)

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
        settings, tokenizer = self._settings, self._tokenizer
        prompts = [tokenizer.convert_ids_to_tokens(list(row)) for row in sequences]
        options = {"beam_size": settings.num_beams, "end_token": self._stop_tokens}
        if self._causal:
            found = self._model.generate_batch(
                prompts, max_length=settings.max_new_tokens, include_prompt_in_result=False, **options
            )
            rows = [result.sequences_ids[0] for result in found]
        else:
            found = self._model.translate_batch(
                prompts, max_decoding_length=settings.max_new_tokens, max_input_length=0, **options
            )
            rows = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in found]
        return [until(row, set(self._stop_tokens)) for row in rows]

    @cached_property
    def _model(self) -> Any:
        import ctranslate2

        kind = ctranslate2.Generator if self._causal else ctranslate2.Translator
        compute = COMPUTES[self._settings.dtype]
        with tempfile.TemporaryDirectory(prefix="tod-bias-") as scratch:
            converted = Path(scratch) / "model"
            self._convert(Path(scratch), converted)
            return kind(str(converted), device="cpu", compute_type=compute, intra_threads=torch.get_num_threads())

    def _convert(self, scratch: Path, out: Path) -> None:
        from ctranslate2.converters import TransformersConverter

        model, tokenizer = self._load(), copy.deepcopy(self._tokenizer)
        for mark in ("bos_token", "unk_token"):  # it wants to know all of them
            if getattr(tokenizer, mark) is None:
                setattr(tokenizer, mark, tokenizer.eos_token)

        class Loaded(TransformersConverter):
            """Takes the model that is loaded already: merged, dequantised."""

            def load_model(self, *_: Any, **__: Any) -> Any:
                return model

            def load_tokenizer(self, *_: Any, **__: Any) -> Any:
                return tokenizer

        if model.config.model_type == "bart" and not hasattr(model.config, "normalize_before"):
            model.config.normalize_before = False  # as transformers computes it; it no longer says so
        model.config.save_pretrained(scratch)
        logging.getLogger("ctranslate2").setLevel(logging.ERROR)
        try:
            Loaded(str(scratch)).convert(str(out), quantization=COMPUTES[self._settings.dtype])
        except (ValueError, AttributeError, KeyError, RuntimeError, TypeError) as error:
            raise ModelError(
                f"{self._name}: CTranslate2 does not take this {model.config.model_type} model ({described(error)}); "
                "use backend 'batch'"
            ) from error
