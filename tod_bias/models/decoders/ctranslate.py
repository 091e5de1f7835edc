"""Decoding with CTranslate2 (Klein et al. 2020), a library of its own for Transformers on processors without a GPU."""

from __future__ import annotations

import copy
import logging
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from tod_bias.errors import ModelError, described
from tod_bias.models.decoders.batch import BatchDecoder, until
from tod_bias.models.settings import GenerationSettings

_FEWEST = 2
"""Tokens of a prompt that it takes."""


def is_installed() -> bool:
    """Whether the library is there."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        return False
    return True


def precisions() -> set[str]:
    """Those that this processor has."""
    import ctranslate2

    return set(ctranslate2.get_supported_compute_types("cpu"))


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
        self._alone = BatchDecoder(cache(model), stop_tokens, settings, 0, causal)

    def under(self, settings: GenerationSettings) -> CTranslateDecoder:
        """The same converted model under other settings of the same precision."""
        again = copy.copy(self)
        again._settings = settings
        again._alone = BatchDecoder(cache(self._load), self._stop_tokens, settings, 0, self._causal)
        return again

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Batches in order of length, within the token budget, padding included."""
        return self._alone.plan(sequences)

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
        long = [place for place, row in enumerate(sequences) if len(row) >= _FEWEST]
        short = [place for place, row in enumerate(sequences) if len(row) < _FEWEST]
        found: dict[int, list[int]] = {}
        if long:
            found |= zip(long, self._translated([sequences[place] for place in long]), strict=True)
        for place in short:  # it skips a source that is an end mark alone, and a prompt of one token spoils its batch
            found[place] = self._alone.decode([sequences[place]])[0]
        return [found[place] for place in range(len(sequences))]

    def _translated(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        most = self._settings.max_new_tokens
        prompts = [[str(token) for token in row] for row in sequences]
        options: dict[str, Any] = {"beam_size": 1, "end_token": self._stop_tokens}
        if self._causal:
            results = self._model.generate_batch(prompts, max_length=most, include_prompt_in_result=False, **options)
            rows = [result.sequences_ids[0] for result in results]
        else:
            results = self._model.translate_batch(
                prompts, max_decoding_length=most, min_decoding_length=0, max_input_length=0, **options
            )
            rows = [[int(token) for token in result.hypotheses[0]] for result in results]
        return [until(row, set(self._stop_tokens)) for row in rows]

    @cached_property
    def _model(self) -> Any:
        import ctranslate2

        kind = ctranslate2.Generator if self._causal else ctranslate2.Translator
        with tempfile.TemporaryDirectory(prefix="tod-bias-") as scratch:
            converted = Path(scratch) / "model"
            self._convert(Path(scratch), converted)
            return kind(
                str(converted),
                device="cpu",
                compute_type=self._settings.dtype,
                intra_threads=torch.get_num_threads(),
            )

    def _convert(self, scratch: Path, out: Path) -> None:
        from ctranslate2.converters import TransformersConverter

        model = self._load()
        numbered = _Numbered(model, self._tokenizer)

        class Loaded(TransformersConverter):
            """Takes the model that is loaded already: merged, dequantised."""

            def load_model(self, *_: Any, **__: Any) -> Any:
                return model

            def load_tokenizer(self, *_: Any, **__: Any) -> Any:
                return numbered

        if model.config.model_type == "bart" and not hasattr(model.config, "normalize_before"):
            model.config.normalize_before = False  # as transformers computes it; it no longer says so
        model.config.save_pretrained(scratch)
        logging.getLogger("ctranslate2").setLevel(logging.ERROR)
        try:
            Loaded(str(scratch)).convert(str(out), quantization=self._settings.dtype)
        except (ValueError, AttributeError, KeyError, RuntimeError, TypeError) as error:
            raise ModelError(
                f"{self._name}: CTranslate2 does not take this {model.config.model_type} model ({described(error)}); "
                "use backend 'batch'"
            ) from error


class _Numbered:
    """A tokenizer whose tokens are the numbers of the embeddings' rows, so that none is missing and none moves."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._rows = model.get_input_embeddings().num_embeddings
        self.eos_token = str(tokenizer.eos_token_id)
        marks = {"bos_token": tokenizer.bos_token_id, "pad_token": tokenizer.pad_token_id, "unk_token": None}
        for name, number in marks.items():
            setattr(self, name, self.eos_token if number is None else str(number))

    def get_vocab(self) -> dict[str, int]:
        """Every row."""
        return {str(number): number for number in range(self._rows)}

    def convert_ids_to_tokens(self, number: int) -> str:
        """A row's name."""
        return str(number)
