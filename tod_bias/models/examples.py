"""What stage models are trained on and prompted with: one text form for training and for generation.

A causal model reads whole dialogues, so that one pass trains the API call and the response of every turn (SimpleTOD,
section 3: the model is trained on the whole sequence of context, belief, database and response). A sequence-to-
sequence model gets one example a turn and part: the context up to ``APICALL:`` or ``SYSTEM:``, and what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tod_bias.dialogues.dialogue import (
    API_CALL,
    API_RESULT,
    SYSTEM,
    Dialogue,
    context_text,
    escape,
    slots_to_text,
    well_formed,
)

Part = Literal["api_call", "response"]
PARTS: tuple[Part, ...] = ("api_call", "response")
IGNORED = -100
"""Label of a token that takes no part in the loss (PyTorch's ``ignore_index``)."""


def api_call_prompt(context: str) -> str:
    """What a model reads before it writes an API call."""
    return f"{context}\n{API_CALL}"


def response_prompt(context: str, api_call: str, api_result: str) -> str:
    """What a model reads before it writes a response; call and result are texts, empty for none."""
    return f"{context}\n{API_CALL} {api_call}\n{API_RESULT} {api_result}\n{SYSTEM}"


@dataclass(frozen=True)
class TokenSequence:
    """Token ids and, for each, the label that counts in the loss (:data:`IGNORED` for none)."""

    input_ids: tuple[int, ...]
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return max(len(self.input_ids), len(self.labels))


def dialogue_segments(dialogue: Dialogue, parts: Sequence[Part]) -> Iterator[tuple[str, bool]]:
    """The dialogue's text cut where targets begin and end: (text, is it a target of one of ``parts``).

    A target runs from after its prefix (``APICALL:``) through the line feed that ends its line, the mark at which
    generation stops.
    """
    for turn in dialogue.turns:
        user, call, result, response = turn.text.split("\n")
        yield f"{user}\n{API_CALL}", False
        yield call[len(API_CALL) :] + "\n", "api_call" in parts
        yield f"{result}\n{SYSTEM}", False
        yield response[len(SYSTEM) :] + "\n", "response" in parts


def causal_sequences(
    dialogues: Sequence[Dialogue],
    tokenizer: Any,
    *,
    parts: Sequence[Part] = PARTS,
    loss: Literal["all", "targets"] = "all",
    max_length: int = 1024,
) -> list[TokenSequence]:
    """One sequence a dialogue, ended by the end-of-sequence token; longer ones in overlapping windows.

    Windows overlap by half, and what a former window has already trained is read but does not count again.

    Args:
        parts: which targets count with ``loss="targets"``; with ``loss="all"`` every token counts (SimpleTOD).
    """
    sequences = []
    for dialogue in dialogues:
        segments = list(dialogue_segments(dialogue, parts))
        encoded = tokenizer([text for text, _ in segments], add_special_tokens=False)["input_ids"]
        ids: list[int] = []
        labels: list[int] = []
        for tokens, (_, is_target) in zip(encoded, segments, strict=True):
            ids += tokens
            labels += tokens if is_target or loss == "all" else [IGNORED] * len(tokens)
        ids.append(tokenizer.eos_token_id)
        labels.append(tokenizer.eos_token_id if loss == "all" else IGNORED)
        trained = 0
        for start in range(0, max(1, len(ids) - max_length // 2), max_length // 2):
            end = min(start + max_length, len(ids))
            fresh = [IGNORED] * (trained - start) + labels[trained:end]
            sequences.append(TokenSequence(tuple(ids[start:end]), tuple(fresh)))
            trained = end
    return sequences


def seq2seq_sequences(
    dialogues: Sequence[Dialogue],
    tokenizer: Any,
    *,
    parts: Sequence[Part] = PARTS,
    max_length: int = 1024,
) -> list[TokenSequence]:
    """One sequence a turn and part: the prompt's last ``max_length`` tokens, and the target as labels."""
    prompts: list[str] = []
    targets: list[str] = []
    for dialogue in dialogues:
        for number, turn in enumerate(dialogue.turns):
            context = context_text(dialogue.turns[:number], turn.user)
            call, result = slots_to_text(turn.api_call), slots_to_text(turn.api_result)
            if "api_call" in parts:
                prompts.append(api_call_prompt(context))
                targets.append(call)
            if "response" in parts:
                prompts.append(response_prompt(context, call, result))
                targets.append(escape(turn.response))
    sources = encode_prompts(tokenizer, prompts, max_length)
    labels = tokenizer(targets, truncation=True, max_length=max_length)["input_ids"] if targets else []
    return [TokenSequence(tuple(s), tuple(t)) for s, t in zip(sources, labels, strict=True)]


def encode_prompts(tokenizer: Any, prompts: Sequence[str], max_length: int) -> list[list[int]]:
    """Token ids of prompts; one that is too long loses its beginning, never its end, and none is empty.

    An empty prompt becomes the mark at which texts begin, or else the one at which they end.
    """
    if not prompts:
        return []
    tokenizer.truncation_side = "left"
    encoded: Mapping[str, list[list[int]]] = tokenizer(
        list(map(well_formed, prompts)), truncation=True, max_length=max_length
    )
    marks = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
    return [ids or [mark for mark in marks if mark is not None][:1] for ids in encoded["input_ids"]]
