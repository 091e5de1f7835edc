"""Texts on which stage models are trained and with which they are prompted: one form for both.

A causal model reads whole dialogues, so that one pass trains the API calls and the response of every turn (SimpleTOD,
section 3: the model is trained on the whole sequence of context, belief, database and response). A sequence-to-
sequence model gets one example a call and one a response: the context up to ``APICALL:`` or ``SYSTEM:``, and what
follows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn, context_text
from tod_bias.dialogues.text import (
    API_CALL,
    API_RESULT,
    SYSTEM,
    escape,
    results_to_text,
    slots_to_text,
    well_formed,
)
from tod_bias.errors import ModelError

Part = Literal["api_call", "response"]
PARTS: tuple[Part, ...] = ("api_call", "response")
_SPACES = ("▁", "Ġ")
"""Characters that tokenizers write for a space."""
_AT_ONCE = 512
"""Texts that a tokenizer is given together."""
IGNORED = -100
"""Label of a token that takes no part in the loss (PyTorch's ``ignore_index``)."""


def api_call_prompt(context: str) -> str:
    """Return the prompt of an API call."""
    return f"{context}\n{API_CALL}"


def response_prompt(context: str, api_call: str, api_result: str) -> str:
    """Return the prompt of a response; call and result are texts, empty if there is none."""
    return f"{context}\n{API_CALL} {api_call}\n{API_RESULT} {api_result}\n{SYSTEM}"


def described_prompt(system: str, prompt: str) -> str:
    """Return the prompt of a model that reads the dialogue's system message first."""
    return f"{system}\n{prompt}" if system else prompt


@dataclass(frozen=True)
class TokenSequence:
    """Token ids and, for each, the label that counts in the loss (:data:`IGNORED` for none); four bytes a number."""

    input_ids: array[int]
    labels: array[int]

    @classmethod
    def of(cls, input_ids: Iterable[int], labels: Iterable[int]) -> TokenSequence:
        """Make an instance from any numbers."""
        return cls(array("i", input_ids), array("i", labels))

    def __len__(self) -> int:
        return max(len(self.input_ids), len(self.labels))


def dialogue_segments(dialogue: Dialogue, parts: Sequence[Part]) -> Iterator[tuple[str, bool]]:
    """The dialogue's text cut where targets begin and end: (text, is it a target of one of ``parts``).

    A target runs from after its prefix (``APICALL:``) through the line feed that ends its line, the mark at which
    generation stops. Targets are all calls of a turn and its response.
    """
    for turn in dialogue.turns:
        user, *lines = turn.text.split("\n")
        read = [user]
        for left, line in zip(range(len(lines) - 1, -1, -1), lines, strict=True):
            prefix, part = (SYSTEM, "response") if left == 0 else (API_CALL, "api_call")
            if not line.startswith(prefix):  # a result, or what was said with the next call
                read.append(line)
                continue
            yield "\n".join([*read, prefix]), False
            yield line[len(prefix) :] + "\n", part in parts
            read = []


def _steps(context: str, turn: Turn) -> Iterator[tuple[str, str, str]]:
    """Yield each call of a turn with its prompt and first result; one empty call if there is none."""
    for step in turn.steps or (Step({}),):
        if step.said:
            context = f"{context}\n{SYSTEM} {escape(step.said)}"
        call, result = slots_to_text(step.call), results_to_text(step.results[:1])
        yield context, call, result
        context = f"{context}\n{API_CALL} {call}\n{API_RESULT} {result}"


def causal_sequences(
    dialogues: Sequence[Dialogue],
    tokenizer: Any,
    *,
    parts: Sequence[Part] = PARTS,
    loss: Literal["all", "targets"] = "all",
    max_length: int = 1024,
    described: bool = False,
) -> list[TokenSequence]:
    """One sequence a dialogue, ended by the end-of-sequence token; longer ones in overlapping windows.

    Windows overlap by half, and what a former window has already trained is read but does not count again.

    Args:
        parts: which targets count with ``loss="targets"``; with ``loss="all"`` every token counts (SimpleTOD).
        described: begin every window with the dialogue's system message, which never counts.
    """
    sequences = []
    for dialogue in dialogues:
        segments = list(dialogue_segments(dialogue, parts))
        read = [described_prompt(dialogue.system, "")] if described and dialogue.system else []
        encoded = encode_segments(tokenizer, [*read, *(text for text, _ in segments)])
        ids, head = beginning_of(tokenizer), []
        if read:
            ids, head = [], [*ids, *encoded.pop(0)][: max_length // 2]
        labels = [IGNORED] * len(ids)
        for tokens, (_, is_target) in zip(encoded, segments, strict=True):
            ids += tokens
            labels += tokens if is_target or loss == "all" else [IGNORED] * len(tokens)
        if tokenizer.eos_token_id is not None:
            ids.append(tokenizer.eos_token_id)
            labels.append(tokenizer.eos_token_id if loss == "all" else IGNORED)
        trained, room = 0, max_length - len(head)
        for start in range(0, max(1, len(ids) - room // 2), room // 2):
            end = min(start + room, len(ids))
            fresh = [IGNORED] * (len(head) + trained - start) + labels[trained:end]
            sequences.append(TokenSequence.of([*head, *ids[start:end]], fresh))
            trained = end
    return sequences


def seq2seq_sequences(
    dialogues: Sequence[Dialogue],
    tokenizer: Any,
    *,
    parts: Sequence[Part] = PARTS,
    max_length: int = 1024,
) -> list[TokenSequence]:
    """One sequence a call and a response: the prompt's last ``max_length`` tokens, and the target as labels."""
    sequences: list[TokenSequence] = []
    for dialogue in dialogues:  # one at a time: of all prompts at once a tokenizer makes gigabytes
        prompts: list[str] = []
        targets: list[str] = []
        for number, turn in enumerate(dialogue.turns):
            steps = list(_steps(context_text(dialogue.turns[:number], turn.user), turn))
            if "api_call" in parts:
                prompts += [api_call_prompt(context) for context, _, _ in steps]
                targets += [call for _, call, _ in steps]
            if "response" in parts:
                prompts.append(response_prompt(*steps[-1]))
                targets.append(escape(turn.response))
        if not targets:
            continue
        sources = encode_prompts(tokenizer, prompts, max_length)  # sets the side that is cut, of targets too
        labels = _truncated(tokenizer, targets, max_length=max_length)
        sequences += map(TokenSequence.of, sources, labels)
    return sequences


def exchanged_sequences(
    dialogues: Sequence[Dialogue],
    tokenizer: Any,
    *,
    parts: Sequence[Part] = PARTS,
    max_length: int = 1024,
) -> list[TokenSequence]:
    """Pair every target with the prompt of a distant dialogue, as many calls or responses away as possible.

    The rise of a model's loss measures how much it uses its prompt, beyond the kind of output that is requested. This
    is the usable information of Xu et al. (2020, definition 2) without a second model. A model that ignores its prompts
    has the same loss with both. None if a part has no other prompt.
    """
    sequences: list[TokenSequence] = []
    for part in parts:
        original = seq2seq_sequences(dialogues, tokenizer, parts=[part], max_length=max_length)
        half = len(original) // 2
        pairs = list(zip(original, original[half:] + original[:half], strict=True))
        if all(sequence.input_ids == other.input_ids for sequence, other in pairs):
            return []
        sequences += [TokenSequence(other.input_ids, sequence.labels) for sequence, other in pairs]
    return sequences


def padding(tokenizer: Any) -> int:
    """The token that fills up rows, which is masked: its own, the end mark, or any."""
    marks = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
    return next(int(mark) for mark in marks if mark is not None)


def check_tokens(rows: Iterable[Sequence[int]], vocabulary: int, name: str) -> None:
    """Raise ModelError for a token without an embedding: the tokenizer is another model's."""
    highest = max(map(max, filter(None, rows)), default=0)
    if highest >= vocabulary:
        raise ModelError(f"{name}: its tokenizer gives token {highest}, and the model has {vocabulary}")


def beginning_of(tokenizer: Any) -> list[int]:
    """The tokens that a tokenizer puts before every text, such as Llama's ``<s>``."""
    plain, marked = tokenizer("a", add_special_tokens=False)["input_ids"], tokenizer("a")["input_ids"]
    places = range(len(marked) - len(plain) + 1)
    return list(marked[: next((at for at in places if marked[at : at + len(plain)] == plain), 0)])


def encode_segments(tokenizer: Any, segments: Sequence[str]) -> list[list[int]]:
    """Token ids of each of the segments of one text, without marks at its ends.

    Every segment begins with a new token, as it does when a model continues from there. A tokenizer
    that puts a space before each text (SentencePiece) reads the text as a whole, and a token belongs to the segment
    that it begins in.
    """
    first = tokenizer.convert_ids_to_tokens(tokenizer("a", add_special_tokens=False)["input_ids"][:1])
    if not segments or not tokenizer.is_fast or not first[0].startswith(_SPACES):
        return list(tokenizer(list(segments), add_special_tokens=False)["input_ids"]) if segments else []
    read = tokenizer("".join(segments), add_special_tokens=False, return_offsets_mapping=True)
    ends = list(accumulate(map(len, segments)))
    encoded: list[list[int]] = [[] for _ in segments]
    for token, (start, _) in zip(read["input_ids"], read["offset_mapping"], strict=True):
        encoded[bisect_right(ends, start)].append(token)
    return encoded


def encode_prompts(tokenizer: Any, prompts: Sequence[str], max_length: int, *, causal: bool = False) -> list[list[int]]:
    """Token ids of prompts; one that is too long loses its beginning, never its end, and none is empty.

    An empty prompt becomes the mark at which texts begin, or else the one at which they end.

    Args:
        causal: True if a model continues from the last token, so that no end mark may follow.
    """
    if not prompts:
        return []
    tokenizer.truncation_side = "left"
    texts = list(map(well_formed, prompts))
    if causal:
        begins = beginning_of(tokenizer)
        room = max(max_length - len(begins), 1)
        rows = _truncated(tokenizer, texts, max_length=room, add_special_tokens=False)
        encoded = [begins + ids for ids in rows]
    else:
        encoded = _truncated(tokenizer, texts, max_length=max_length)
    marks = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
    return [ids or [mark for mark in marks if mark is not None][:1] for ids in encoded]


def _truncated(tokenizer: Any, texts: Sequence[str], **options: Any) -> list[list[int]]:
    """Token ids, some texts at a time: of every token cut off, too, a tokenizer keeps 100 bytes until it is done."""
    starts = range(0, len(texts), _AT_ONCE)
    return [
        ids
        for start in starts
        for ids in tokenizer(list(texts[start : start + _AT_ONCE]), truncation=True, **options)["input_ids"]
    ]
