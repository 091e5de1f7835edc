"""Generation of text from many prompts, many of them repeated.

An attribution gives a model the same prompt many times: over arms, over draws, and in all turns before the first
rewritten word. :class:`Generator` computes every distinct prompt once, keeps what it computed in an SQLite file so that
a killed run can be continued, and shares the work out over the processes of ``accelerate launch``.

Batches are planned over *all* distinct prompts of a call, also those already in the cache, and written as they are
done. So an interrupted and resumed run computes the very batches that an uninterrupted one does.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from accelerate.utils import gather_object

from tod_bias.errors import ModelError
from tod_bias.io.cache import Cache
from tod_bias.io.progress import progress_bar
from tod_bias.models import checkpoints
from tod_bias.models.cost import GenerationCost
from tod_bias.models.decoders.batch import greedy
from tod_bias.models.decoders.choice import Decoded, Decoder, new_decoder, resolved
from tod_bias.models.decoders.tree import common
from tod_bias.models.devices import process_state, usable_device
from tod_bias.models.examples import check_tokens, encode_prompts
from tod_bias.models.kernels import quickened
from tod_bias.models.processes import as_first_sees
from tod_bias.models.settings import Dtype, GenerationSettings

SAMPLE_SIZE = 64
"""Prompts that are decoded again in float32, to measure the effect of a precision."""
MOST_WEIGHTS = 2_000_000_000
"""A model with more is not loaded once more in float32."""
REFERENCE: Dtype = "float32"

log = logging.getLogger(__name__)


@dataclass
class PromptSample:
    """Sample of the prompts: those with the smallest keys.

    A key is a hash of the prompt, so the sample is random, and the same in whatever order prompts come.
    """

    prompts: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Key to the prompt and its text."""

    def add(self, keys: Iterable[tuple[str, str]], texts: dict[str, str]) -> None:
        """See more prompts."""
        for prompt, key in keys:
            self.prompts[key] = prompt, texts[key]
        if len(self.prompts) > SAMPLE_SIZE:
            self.prompts = {key: self.prompts[key] for key in heapq.nsmallest(SAMPLE_SIZE, self.prompts)}


@dataclass(frozen=True)
class Agreement:
    """Effect of a precision on outputs."""

    model: str
    """The checkpoint's name."""
    dtype: str
    """The precision."""
    prompts: int
    """Prompts in the sample."""
    differ: int
    """Prompts among them whose text is another than in float32."""


_generators: WeakValueDictionary[Any, Generator] = WeakValueDictionary()
"""Generators in use, by checkpoint and settings."""
_LINE_FEEDS = ("\n", "Ċ", "<0x0A>")
"""Tokens for a line feed: itself, in byte-level BPE, as a byte token."""


class Generator:
    """Texts that a causal or sequence-to-sequence model continues prompts with.

    Args:
        model: a checkpoint's folder or hub name.
        settings: how to decode.
        device: of the model; by default the GPU of this process if there is one.

    Raises:
        ModelError: the checkpoint cannot be loaded or has no tokenizer, a setting is invalid, or the device does not
            exist.
    """

    def __init__(
        self, model: str | Path, settings: GenerationSettings | None = None, *, device: str | None = None
    ) -> None:
        self.name = str(model)
        self.cost = GenerationCost()
        self.show_progress = False
        self._cache = Cache()
        self._seen: set[str] = set()
        self._sample = PromptSample()
        self._device = usable_device(device) if device else process_state().device
        self.causal = checkpoints.is_causal(self.name)
        self.tokenizer = checkpoints.load_tokenizer(self.name)
        self.settings = self._resolved(settings or GenerationSettings())

    def _resolved(self, settings: GenerationSettings) -> GenerationSettings:
        config = checkpoints.load_configuration(self.name)
        chosen = resolved(self.name, config, settings, causal=self.causal, device=self._device)
        most = None if self.causal else checkpoints.positions(config, decoder=True)
        if most is not None and chosen.max_new_tokens > most:  # a decoder writes no more; a causal model says so
            return chosen.model_copy(update={"max_new_tokens": most})
        return chosen

    @cached_property
    def model(self) -> Any:
        """The model, loaded when the first prompt is not in the cache."""
        dtype = torch.bfloat16 if self.settings.dtype == "bfloat16" else torch.float32
        loaded = greedy(checkpoints.load_model(self.name, causal=self.causal, dtype=dtype))
        return quickened(loaded.to(self._device).eval())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the checkpoint; part of every cache key."""
        return checkpoints.fingerprint(self.name)

    @cached_property
    def max_prompt(self) -> int:
        """Tokens of a prompt at the most; longer ones lose their beginning."""
        config, new = checkpoints.load_configuration(self.name), self.settings.max_new_tokens
        read = checkpoints.positions(config) or 1024
        room = read - new if self.causal else read
        if room < 1:
            raise ModelError(f"{self.name}: {read} positions leave no room for {new} new tokens; lower max_new_tokens")
        return room

    @cached_property
    def described(self) -> bool:
        """True if prompts begin with the dialogue's system message, as in the model's training."""
        return self.causal and checkpoints.is_described(self.name)

    def fits(self, prompt: str) -> bool:
        """True if a prompt is not truncated."""
        if len(prompt) * 4 < self.max_prompt:
            return True
        (ids,) = encode_prompts(self.tokenizer, [prompt], self.max_prompt + 1, causal=self.causal)
        return len(ids) <= self.max_prompt

    @cached_property
    def _vocabulary(self) -> int:
        """Return the size of the vocabulary, the tokenizer's if the configuration has none."""
        config = checkpoints.load_configuration(self.name).get_text_config()
        return getattr(config, "vocab_size", None) or len(self.tokenizer)

    @property
    def signature(self) -> str:
        """Model, fingerprint, precision and decoding, as one line of ``key:value`` parts."""
        s = self.settings
        name = Path(self.name).name
        numbers = f"{s.dtype}|{self._device.type}|backend:{s.backend}"
        described = "|described" if self.described else ""
        return f"model:{name}|hash:{self.fingerprint}|greedy|max:{s.max_new_tokens}|{numbers}{described}"

    def keep_in(self, cache: Cache | None) -> None:
        """Reset the cost, and keep results in this cache from now on (None: no change)."""
        if cache is not None:
            self._cache = cache
        elif self._cache.path is not None:
            self._cache = Cache()
        self._seen.clear()
        self._sample = PromptSample()

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Continue every prompt: the text up to the first line feed or end mark, stripped.

        Equal prompts are computed once. Under ``accelerate launch`` every process must call this with the same
        prompts, and gets all results.
        """
        distinct = list(dict.fromkeys(prompts))
        keys = dict(zip(distinct, map(self._key, distinct), strict=True))
        known = as_first_sees(lambda: self._cache.get(keys.values()))
        new = [prompt for prompt in distinct if keys[prompt] not in self._seen]
        self._seen.update(keys.values())
        self.cost.prompts += len(prompts)
        self.cost.distinct_prompts += len(new)
        self.cost.cached += sum(keys[prompt] in known for prompt in new)
        if len(known) < len(keys):
            known |= self._compute(distinct, keys, known)
        if self.settings.dtype != REFERENCE:
            self._sample.add(keys.items(), known)
        return [known[keys[prompt]] for prompt in prompts]

    def agreement(self) -> Agreement | None:
        """Compare a sample of the prompts with float32 and the default back end; the texts are cached too.

        Under ``accelerate launch`` every process must call this.

        Returns:
            None if the precision is float32, if no prompt was seen, or if the model is too large to be loaded again
            (:data:`~tod_bias.models.generator.MOST_WEIGHTS`).
        """
        sample = self._sample.prompts
        if (
            not sample
            or self.settings.dtype == REFERENCE
            or checkpoints.weights(self.name, causal=self.causal) > MOST_WEIGHTS
        ):
            return None
        plain = self.settings.model_copy(update={"dtype": REFERENCE, "backend": "auto", "batch_tokens": 0})
        reference = Generator(self.name, plain, device=str(self._device))
        reference.keep_in(self._cache)
        reference.show_progress = self.show_progress
        texts = reference.generate([prompt for prompt, _ in sample.values()])
        differ = sum(text != other for (_, text), other in zip(sample.values(), texts, strict=True))
        return Agreement(Path(self.name).name, self.settings.dtype, len(sample), differ)

    def _key(self, prompt: str) -> str:
        return hashlib.sha256(f"{self._key_prefix}\n{prompt}".encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def _key_prefix(self) -> str:
        return json.dumps([self.fingerprint, self.settings.model_dump(exclude={"batch_tokens"})])

    def _compute(self, prompts: Sequence[str], keys: dict[str, str], known: dict[str, str]) -> dict[str, str]:
        state = process_state()
        # The order must not depend on which turn or arm came first, or a changed run would batch differently.
        ordered = sorted(prompts)
        sequences = encode_prompts(self.tokenizer, ordered, self.max_prompt, causal=self.causal)
        check_tokens(sequences, self._vocabulary, self.name)
        batches = self._decoder.plan(sequences)
        # Different prompts can have the same tokens (truncation); they simply decode to the same text.
        todo = [batch for batch in batches if any(keys[ordered[i]] not in known for i in batch)]
        costs = [_cost([sequences[i] for i in batch]) for batch in todo]
        mine = [todo[number] for number in shared_out(costs, state.num_processes)[state.process_index]]
        made: dict[str, str] = {}
        before = self.cost.read, self.cost.written
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
        return made if state.num_processes == 1 else self._gathered(made, before)

    def _gathered(self, made: dict[str, str], before: tuple[int, int]) -> dict[str, str]:
        """Return the outputs of all processes.

        Args:
            made: key to text, of this process.
            before: tokens that had been read and written until then.
        """
        read, written = before
        parts = gather_object([(made, self.cost.read - read, self.cost.written - written)])
        made = {key: text for part, _, _ in parts for key, text in part.items()}
        self.cost.read = read + sum(more for _, more, _ in parts)
        self.cost.written = written + sum(more for _, _, more in parts)
        if process_state().is_main_process:  # what processes of other machines wrote lies in files of their own
            cached = self._cache.get(made)
            self._cache.put({key: text for key, text in made.items() if key not in cached})
        self._cache.remember(made)
        return made

    @torch.inference_mode()
    def _texts(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        outputs = self._decoder.decode(sequences)
        self.cost.read += sum(map(len, sequences))
        self.cost.written += sum(map(len, outputs))
        texts = self.tokenizer.batch_decode(outputs, skip_special_tokens=True)
        return [text.split("\n", 1)[0].strip() for text in texts]

    @cached_property
    def _decoder(self) -> Decoder:
        checkpoint = Decoded(
            name=self.name,
            config=checkpoints.load_configuration(self.name),
            tokenizer=self.tokenizer,
            stop_tokens=self.stop_tokens,
            causal=self.causal,
            device=self._device,
            model=lambda: self.model,
        )
        return new_decoder(checkpoint, self.settings)

    @cached_property
    def stop_tokens(self) -> tuple[int, ...]:
        """Tokens that end an output: the end mark, and every token that holds a line feed."""
        ends = {self.tokenizer.eos_token_id, *_as_list(getattr(self._generation_config, "eos_token_id", None))}
        if self.causal:
            vocabulary = self.tokenizer.get_vocab().items()
            ends |= {number for token, number in vocabulary if any(mark in token for mark in _LINE_FEEDS)}
        return tuple(sorted(end for end in ends if isinstance(end, int)))

    @cached_property
    def _generation_config(self) -> Any:
        return checkpoints.load_generation_config(self.name)


def shared_out(costs: Sequence[float], processes: int) -> list[list[int]]:
    """Assign batches to processes greedily, the most expensive first (LPT); batches are numbers in ascending order.

    Args:
        costs: of each batch, in any unit.
        processes: number of processes.
    """
    loads = [0.0] * processes
    shares: list[list[int]] = [[] for _ in range(processes)]
    for number in sorted(range(len(costs)), key=lambda number: (-costs[number], number)):
        least = loads.index(min(loads))
        loads[least] += costs[number]
        shares[least].append(number)
    return [sorted(share) for share in shares]


_WRITTEN = 40
"""Cost of writing an output, in tokens that are read (measured with SmolLM2-135M: 36 ms against 0.9 ms)."""


def _cost(sequences: Sequence[Sequence[int]]) -> int:
    """Return the cost of a batch, in tokens that are read; a prefix shared by neighbours is read once."""
    ordered = sorted(map(list, sequences))
    shared = sum(map(common, ordered, ordered[1:]))
    return sum(map(len, ordered)) - shared + _WRITTEN * len(ordered)


def _as_list(value: Any) -> list[int]:
    return value if isinstance(value, list) else [value]


def shared_generator(
    model: Generator | str | Path, settings: GenerationSettings | None = None, device: str | None = None
) -> Generator:
    """The generator of a checkpoint; stages that name the same one with the same settings share it.

    A checkpoint that was written again (a retrained model in the same folder) gets a new generator.
    """
    if isinstance(model, Generator):
        return model
    key = (str(model), _written(Path(model)), settings or GenerationSettings(), device)
    generator = _generators.get(key)
    if generator is None:
        generator = _generators[key] = Generator(model, settings, device=device)
    return generator


def _written(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and time of a checkpoint's files; empty for a hub name."""
    if not folder.exists():
        return ()
    inside = sorted(folder.iterdir()) if folder.is_dir() else [folder]
    files = [(file.name, file.stat()) for file in inside if file.is_file()]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in files)
