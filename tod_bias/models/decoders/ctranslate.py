"""Decoding with CTranslate2 (Klein et al. 2020), a library of its own for Transformers on processors without a GPU."""

from __future__ import annotations

import copy
import logging
import math
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tod_bias.errors import ModelError, described
from tod_bias.models.checkpoints import positions
from tod_bias.models.decoders.batch import BatchDecoder, until
from tod_bias.models.settings import GenerationSettings

_FEWEST = 2
"""Tokens of a prompt that it takes."""
_PROBE, _ALIKE = 111, 0.01
"""Tokens of the prompt by which it is compared with the model, and by how much of their standard deviation logits may
differ."""


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
        self._forced: tuple[int | None, int | None] = (None, None)
        """Tokens that an answer begins and, if it is as long as can be, ends with; known with the model."""
        self._window: int | None = None
        """Tokens that it looks back over, if that is not all; known with the model."""

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
        _ = self._model
        most = (self._window or math.inf) - self._settings.max_new_tokens
        taken = [place for place, row in enumerate(sequences) if _FEWEST <= len(row) <= most]
        found: dict[int, list[int]] = {}
        if taken:
            found |= zip(taken, self._translated([sequences[place] for place in taken]), strict=True)
        for place in set(range(len(sequences))) - set(taken):
            # It skips a source that is an end mark alone, a prompt of one token spoils its batch, and a window moves
            # otherwise than the model's.
            found[place] = self._alone.decode([sequences[place]])[0]
        return [found[place] for place in range(len(sequences))]

    def _translated(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        most = self._settings.max_new_tokens
        prompts = [[str(token) for token in row] for row in sequences]
        options: dict[str, Any] = {"beam_size": 1, "end_token": self._stop_tokens}
        model = self._model
        if self._causal:
            results = model.generate_batch(prompts, max_length=most, include_prompt_in_result=False, **options)
            rows = [result.sequences_ids[0] for result in results]
        else:
            first, last = self._forced
            if first is not None:
                options["target_prefix"] = [[str(first)]] * len(prompts)
            results = model.translate_batch(
                prompts, max_decoding_length=most, min_decoding_length=0, max_input_length=0, **options
            )
            rows = [[int(token) for token in result.hypotheses[0]] for result in results]
            rows = [row if last is None or len(row) < most else [*row[:-1], last] for row in rows]
        return [until(row, set(self._stop_tokens)) for row in rows]

    @cached_property
    def _model(self) -> Any:
        import ctranslate2

        kind = ctranslate2.Generator if self._causal else ctranslate2.Translator
        model = self._load()
        said = model.generation_config
        ends = said.forced_eos_token_id
        self._forced = said.forced_bos_token_id, ends[0] if isinstance(ends, list) else ends
        self._window = getattr(model.config, "sliding_window", None)
        row, expected = self._expected(model)  # before it is converted, which takes it apart
        with tempfile.TemporaryDirectory(prefix="tod-bias-") as scratch:
            converted = Path(scratch) / "model"
            self._convert(model, Path(scratch), converted)
            options = {"device": "cpu", "intra_threads": torch.get_num_threads()}
            self._check(kind(str(converted), compute_type="float32", **options), row, expected)
            return kind(str(converted), compute_type=self._settings.dtype, **options)

    @torch.inference_mode()
    def _expected(self, model: Any) -> tuple[list[int], torch.Tensor]:
        """A prompt of drawn tokens, and the logits of what follows it."""
        rows = model.get_input_embeddings().num_embeddings
        length = max(_FEWEST, min(_PROBE, positions(model.config) or _PROBE, self._window or _PROBE) - 1)
        row = torch.randint(rows, (length,), generator=torch.Generator().manual_seed(0)).tolist()
        inputs = {"input_ids": torch.tensor([row])}
        if not self._causal:
            inputs["decoder_input_ids"] = torch.tensor([[model.generation_config.decoder_start_token_id]])
        return row, model(**inputs).logits[0, -1].float()

    def _check(self, exact: Any, row: Sequence[int], expected: torch.Tensor) -> None:
        """Refuse a model of which the library computes something else: it passes over what it does not know.

        Raises:
            ModelError: logits of the first new token differ by more than their mean and scale, or there are none.
        """
        prompt = [[str(token) for token in row]]
        options: dict[str, Any] = {"beam_size": 1, "return_logits_vocab": True, "end_token": []}
        try:
            if self._causal:
                (found,) = exact.generate_batch(prompt, max_length=1, include_prompt_in_result=False, **options)
            else:
                (found,) = exact.translate_batch(prompt, max_decoding_length=1, max_input_length=0, **options)
            logits = found.logits[0]
            seen = torch.from_numpy(np.array(logits[0] if isinstance(logits, list) else logits)).reshape(-1)
        except (ValueError, RuntimeError, IndexError) as error:
            raise self._refused(described(error)) from error
        differ = float((_standard(seen[: len(expected)]) - _standard(expected)).abs().max())
        if not differ <= _ALIKE:
            raise self._refused(f"logits differ by up to {differ:.2g} of their standard deviation")

    def _refused(self, reason: str) -> ModelError:
        return ModelError(
            f"{self._name}: CTranslate2 does not compute this model as it is ({reason}); use backend 'batch'"
        )

    def _convert(self, model: Any, scratch: Path, out: Path) -> None:
        from ctranslate2.converters import TransformersConverter

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
            Loaded(str(scratch)).convert(str(out), quantization="float32")
        except (ValueError, AttributeError, KeyError, RuntimeError, TypeError) as error:
            raise ModelError(
                f"{self._name}: CTranslate2 does not take this {model.config.model_type} model ({described(error)}); "
                "use backend 'batch'"
            ) from error


def _standard(logits: torch.Tensor) -> torch.Tensor:
    """Without mean and scale, which change no choice; the library scales some models' anew."""
    return (logits - logits.mean()) / logits.std().clamp(min=1e-12)


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
