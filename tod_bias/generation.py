"""Generating text from many prompts, most of which repeat.

An attribution asks a model the same thing many times: over arms, over draws, and in all turns before the first
rewritten word. :class:`Generator` computes every distinct prompt once, keeps what it computed in an SQLite file so
that a killed run goes on where it stopped, and shares the work out over the processes of ``accelerate launch``.

Batches are planned over *all* distinct prompts of a call, also those already in the cache, and written as they are
done. So an interrupted and resumed run computes the very batches that an uninterrupted one does.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from accelerate.utils import broadcast_object_list, gather_object
from transformers import GenerationConfig

from tod_bias import checkpoints
from tod_bias.cache import GenerationCache
from tod_bias.errors import ModelError
from tod_bias.examples import encode_prompts
from tod_bias.prefix_tree import SUPPORTED as TREE_MODELS
from tod_bias.prefix_tree import PrefixTreeDecoder, supports, token_bytes
from tod_bias.processes import process_state
from tod_bias.progress import progress_bar

log = logging.getLogger(__name__)


_LINE_FEEDS = ("\n", "Ċ", "<0x0A>")
"""How tokenizers write a line feed: as itself, in byte-level BPE, as a byte token."""
_MOST_BYTES = {"cpu": 2**28, "cuda": 2**32}
"""What the keys and values of one batch of trees may take."""


@dataclass(frozen=True)
class GenerationSettings:
    """Everything besides the model that decides what is generated; part of the cache key and of the signature."""

    max_new_tokens: int = 128
    """Tokens in one output at the most."""
    num_beams: int = 1
    """1 is greedy decoding."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """``auto``: bfloat16 where a GPU has it, else float32, the reference. bfloat16 changes some outputs."""
    backend: Literal["auto", "batch", "tree"] = "auto"
    """``tree`` computes shared prefixes once (greedy decoding of causal models); ``batch`` pads and batches."""
    batch_tokens: int = 0
    """Tokens in one batch at the most; 0 chooses by device and back end."""


@dataclass
class Cost:
    """What generating has cost so far."""

    prompts: int = 0
    """Prompts asked for."""
    distinct_prompts: int = 0
    """Distinct ones among them."""
    cached: int = 0
    """Distinct ones that an earlier run had computed."""
    computed: int = 0
    """Distinct ones that this run computed."""


class Decoder(Protocol):
    """A back end: plans batches over token sequences and decodes one batch at a time."""

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Indices into ``sequences``, a list a batch; every index once."""

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""


class Generator:
    """Texts that a causal or sequence-to-sequence model continues prompts with.

    Args:
        model: a checkpoint's folder or hub name.
        settings: how to decode.
        device: where; by default the GPU of this process where there is one.

    Raises:
        ModelError: the checkpoint cannot be loaded or has no tokenizer, a setting has no such value, or the device is
            not there.
    """

    def __init__(
        self, model: str | Path, settings: GenerationSettings | None = None, *, device: str | None = None
    ) -> None:
        self.name = str(model)
        self.cost = Cost()
        self.show_progress = False
        self._cache = GenerationCache(None)
        self._asked: set[str] = set()
        self._device = _usable(device) if device else process_state().device
        self.causal = checkpoints.is_causal(self.name)
        self.tokenizer = checkpoints.load_tokenizer(self.name)
        self.settings = self._resolved(settings or GenerationSettings())

    def _resolved(self, settings: GenerationSettings) -> GenerationSettings:
        """Settings with every ``auto`` replaced by what was chosen, so that the signature says it."""
        dtype, backend = settings.dtype, settings.backend
        for name, value, known in (
            ("dtype", dtype, ("auto", "float32", "bfloat16")),
            ("backend", backend, ("auto", "batch", "tree")),
        ):
            if value not in known:
                raise ModelError(f"unknown {name} {value!r}; expected one of {', '.join(known)}")
        for name in ("max_new_tokens", "num_beams", "batch_tokens"):
            if type(value := getattr(settings, name)) is not int:
                raise ModelError(f"{name} must be a whole number, got {value!r}")
        if dtype == "auto":
            fast = self._device.type == "cuda" and torch.cuda.is_bf16_supported()
            dtype = "bfloat16" if fast else "float32"
        config = checkpoints.load_configuration(self.name)
        can_share = self.causal and settings.num_beams == 1 and supports(config)
        if backend == "tree" and not can_share:
            raise ModelError(
                f"{self.name}: backend 'tree' needs greedy decoding and one of {', '.join(TREE_MODELS)} with "
                f"full attention and fixed positions, got {config.model_type} with {settings.num_beams} beam(s); "
                "use 'batch'"
            )
        if backend == "auto":
            backend = "tree" if can_share else "batch"
        if settings.max_new_tokens < 1 or settings.num_beams < 1:
            raise ModelError(
                "max_new_tokens and num_beams must be at least 1, "
                f"got {settings.max_new_tokens} and {settings.num_beams}"
            )
        usual = 16384 if self._device.type == "cuda" else 4096
        tokens = settings.batch_tokens or (1024 if backend == "tree" else usual)
        return dataclasses.replace(settings, dtype=dtype, backend=backend, batch_tokens=tokens)

    @cached_property
    def model(self) -> Any:
        """The model, loaded when the first prompt is not in the cache."""
        dtype = torch.bfloat16 if self.settings.dtype == "bfloat16" else torch.float32
        return checkpoints.load_model(self.name, causal=self.causal, dtype=dtype).to(self._device).eval()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the checkpoint; part of every cache key."""
        return checkpoints.fingerprint(self.name)

    @cached_property
    def max_prompt(self) -> int:
        """Tokens of a prompt at the most; longer ones lose their beginning."""
        config = checkpoints.load_configuration(self.name)
        positions = getattr(config, "max_position_embeddings", None) or 1024
        room = positions - self.settings.max_new_tokens if self.causal else positions
        if room < 1:
            raise ModelError(
                f"{self.name}: {positions} positions leave no room for {self.settings.max_new_tokens} new tokens; "
                "lower max_new_tokens"
            )
        return room

    @property
    def signature(self) -> str:
        """Model, fingerprint, precision and decoding, as one line of ``key:value`` parts."""
        s = self.settings
        decoding = "greedy" if s.num_beams == 1 else f"beam{s.num_beams}"
        name = Path(self.name).name
        numbers = f"{s.dtype}|{self._device.type}|backend:{s.backend}"
        return f"model:{name}|hash:{self.fingerprint}|{decoding}|max:{s.max_new_tokens}|{numbers}"

    def use_cache(self, path: str | Path | None) -> None:
        """Start a new account of cost, and keep results in this SQLite file from now on (None: in memory)."""
        if path is not None or self._cache.path is not None:
            self._cache = GenerationCache(path)
        self._asked.clear()

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Continue every prompt: the text up to the first line feed or end mark, stripped.

        Equal prompts are computed once. Under ``accelerate launch`` every process must call this with the same
        prompts, and gets all results.
        """
        distinct = list(dict.fromkeys(prompts))
        keys = dict(zip(distinct, map(self._key, distinct), strict=True))
        known = self._known(keys)
        new = [prompt for prompt in distinct if keys[prompt] not in self._asked]
        self._asked.update(keys.values())
        self.cost.prompts += len(prompts)
        self.cost.distinct_prompts += len(new)
        self.cost.cached += sum(keys[prompt] in known for prompt in new)
        if len(known) < len(keys):
            known |= self._compute(distinct, keys, known)
        return [known[keys[prompt]] for prompt in prompts]

    def _known(self, keys: Mapping[str, str]) -> dict[str, str]:
        """What the cache holds, as the first process sees it.

        All processes must plan by the same knowledge: one that read the file later would see what others have
        written by then, deal out the batches differently, and leave some to nobody.
        """
        state = process_state()
        if state.num_processes == 1:
            return self._cache.get(keys.values())
        found = [self._cache.get(keys.values()) if state.is_main_process else {}]
        broadcast_object_list(found)
        return found[0]

    def _key(self, prompt: str) -> str:
        return hashlib.sha256(f"{self._key_prefix}\n{prompt}".encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def _key_prefix(self) -> str:
        relevant = {k: v for k, v in dataclasses.asdict(self.settings).items() if k != "batch_tokens"}
        return json.dumps([self.fingerprint, relevant])

    def _compute(self, prompts: Sequence[str], keys: dict[str, str], known: dict[str, str]) -> dict[str, str]:
        state = process_state()
        # The order must not depend on which turn or arm asked first, or a changed run would batch differently.
        ordered = sorted(prompts)
        sequences = encode_prompts(self.tokenizer, ordered, self.max_prompt)
        batches = self._decoder.plan(sequences)
        # Different prompts can have the same tokens (truncation); they simply decode to the same text.
        todo = [batch for batch in batches if any(keys[ordered[i]] not in known for i in batch)]
        mine = todo[state.process_index :: state.num_processes]
        made: dict[str, str] = {}
        total = sum(len(batch) for batch in mine)
        show = self.show_progress and state.is_main_process
        with progress_bar(total, f"generating with {Path(self.name).name}", show=show) as bar:
            for batch in mine:
                missing = [i for i in batch if keys[ordered[i]] not in known]
                texts = self._texts([sequences[i] for i in missing])
                fresh = {keys[ordered[i]]: text for i, text in zip(missing, texts, strict=True)}
                self._cache.put(fresh)
                made |= fresh
                bar.advance(len(batch))
        self.cost.computed += len(made)
        if state.num_processes > 1:
            made = {key: text for part in gather_object([made]) for key, text in part.items()}
            self._cache.remember(made)
        return made

    @torch.inference_mode()
    def _texts(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        outputs = self._decoder.decode(sequences)
        texts = self.tokenizer.batch_decode(outputs, skip_special_tokens=True)
        return [text.split("\n", 1)[0].strip() for text in texts]

    @cached_property
    def _decoder(self) -> Decoder:
        if self.settings.backend == "tree":
            s, config = self.settings, checkpoints.load_configuration(self.name)
            return PrefixTreeDecoder(
                lambda: self.model,
                self.stop_tokens,
                s,
                token_bytes=token_bytes(config, 2 if s.dtype == "bfloat16" else 4),
                most_bytes=_MOST_BYTES["cuda" if self._device.type == "cuda" else "cpu"],
            )
        return BatchDecoder(self)

    @cached_property
    def stop_tokens(self) -> tuple[int, ...]:
        """Tokens that end an output: the end mark, and every token that holds a line feed."""
        ends = {self.tokenizer.eos_token_id, *_as_list(getattr(self._generation_config, "eos_token_id", None))}
        if self.causal:
            vocabulary = self.tokenizer.get_vocab().items()
            ends |= {number for token, number in vocabulary if any(mark in token for mark in _LINE_FEEDS)}
        return tuple(sorted(end for end in ends if end is not None))

    @cached_property
    def _generation_config(self) -> Any:
        return checkpoints.load_generation_config(self.name)


def _usable(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ModelError(f"device {name!r} cannot be used ({reason}); expected e.g. cpu or cuda:0") from error
    return device


def _as_list(value: Any) -> list[int]:
    return value if isinstance(value, list) else [value]


class BatchDecoder:
    """Pads prompts of similar length (on the left for a causal model) and decodes them with ``model.generate``."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        tokenizer = generator.tokenizer
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Batches in order of length, within the token budget, padding included."""
        settings = self._generator.settings
        batches: list[list[int]] = []
        for index in sorted(range(len(sequences)), key=lambda i: (len(sequences[i]), i)):
            length = (len(sequences[index]) + settings.max_new_tokens) * settings.num_beams
            if not batches or (len(batches[-1]) + 1) * length > settings.batch_tokens:
                batches.append([])
            batches[-1].append(index)
        return batches

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
        generator = self._generator
        width = max(map(len, sequences))
        rows = [_pad(row, width, self._pad, left=generator.causal) for row in sequences]
        mask = [_pad([1] * len(row), width, 0, left=generator.causal) for row in sequences]
        settings = generator.settings
        base = generator.model.generation_config
        config = GenerationConfig(
            max_new_tokens=settings.max_new_tokens,
            num_beams=settings.num_beams,
            do_sample=False,
            eos_token_id=list(generator.stop_tokens),
            pad_token_id=self._pad,
            decoder_start_token_id=base.decoder_start_token_id,
            forced_bos_token_id=base.forced_bos_token_id,
            forced_eos_token_id=base.forced_eos_token_id,
        )
        device = generator.model.device
        output = generator.model.generate(
            input_ids=torch.tensor(rows, device=device),
            attention_mask=torch.tensor(mask, device=device),
            generation_config=config,
        )
        start = width if generator.causal else 1  # a sequence-to-sequence output begins with its start token
        stops = set(generator.stop_tokens)
        return [_until(row, stops) for row in output[:, start:].tolist()]


def _pad(row: Sequence[int], width: int, value: int, *, left: bool) -> list[int]:
    padding = [value] * (width - len(row))
    return [*padding, *row] if left else [*row, *padding]


def _until(row: Sequence[int], stops: set[int]) -> list[int]:
    def before() -> Iterator[int]:
        for token in row:
            if token in stops:
                return
            yield token

    return list(before())
