"""Training data of chat models: whole dialogues in a chat template, with the offered tools."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from chat_template import ChatTemplate, with_read_arguments

from tod_bias.dialogues.chat import to_messages
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError
from tod_bias.io.documents import read_json
from tod_bias.models.examples import IGNORED, PARTS, Part, TokenSequence, encode_segments

Schema = Mapping[str, Any]
_FORM = '{"type": "function", "function": {"name": …, "parameters": …}}'


@dataclass(frozen=True)
class OfferedTools:
    """Tools that a dialogue is offered: all of them, or those of its domains."""

    everywhere: tuple[Schema, ...] = ()
    by_domain: Mapping[str, tuple[Schema, ...]] | None = None

    def of(self, dialogue: Dialogue) -> tuple[Schema, ...]:
        """The tools of a dialogue; those of each of its domains, once.

        Raises:
            ModelError: a domain has none.
        """
        if self.by_domain is None:
            return self.everywhere
        tools: dict[str, Schema] = {}
        for domain in map(str.strip, dialogue.domain.split(",")):
            if domain not in self.by_domain:
                raise ModelError(
                    f"the file of tools has none for the domain {domain!r} of dialogue {dialogue.id!r}; it has "
                    f"{', '.join(sorted(self.by_domain)) or 'no domain'}"
                )
            tools |= {tool["function"]["name"]: tool for tool in self.by_domain[domain]}
        return tuple(tools.values())


def read_tools(path: str | Path | None) -> OfferedTools:
    """Tools from a JSON file: a list of OpenAI's function schemas, or an object of such lists by domain.

    Raises:
        ModelError: it cannot be read or holds something else.
    """
    if path is None:
        return OfferedTools()
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read as JSON ({error}); expected a list of {_FORM}") from error
    if isinstance(content, list):
        return OfferedTools(_schemas(content, str(path)))
    if not isinstance(content, dict) or not content:
        raise ModelError(f"{path}: expected a list of {_FORM}, or an object of such lists by domain")
    return OfferedTools(
        by_domain={name: _schemas(tools, f"{path}, domain {name!r}") for name, tools in content.items()}
    )


def _schemas(tools: Any, where: str) -> tuple[Schema, ...]:
    if not isinstance(tools, list):
        raise ModelError(f"{where}: expected a list of {_FORM}, got {type(tools).__name__}")
    names: list[str] = []
    for number, tool in enumerate(tools, start=1):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ModelError(f"{where}, tool {number}: expected {_FORM}")
        if function["name"] in names:
            raise ModelError(f"{where}, tool {number}: a tool before it is named {function['name']!r} too")
        names.append(function["name"])
    return tuple(tools)


@dataclass(frozen=True)
class ChatSequences:
    """Dialogues as token sequences, and what did not fit."""

    sequences: list[TokenSequence]
    split: int
    """Dialogues that were longer than a sequence and became several."""
    left_out: int
    """Turns that alone are longer than a sequence; nothing is trained on them."""


def chat_sequences(
    dialogues: Sequence[Dialogue],
    tokenizer: Any,
    template: ChatTemplate,
    *,
    tools: OfferedTools | None = None,
    system: str = "",
    parts: Sequence[Part] = PARTS,
    loss: Literal["all", "targets"] = "targets",
    max_length: int = 1024,
) -> ChatSequences:
    """One sequence a dialogue: system message, tools, and all of its turns in the chat template.

    A dialogue that is too long becomes several sequences, cut between turns and never inside of one. Each begins with
    system message and tools; turns that a former sequence has trained fill up to half of it as context, and do not
    count again.

    Args:
        dialogues: as they are, with their system messages.
        tokenizer: whose tokens the sequences are.
        template: as the model will be asked.
        tools: which tools are offered.
        system: the system message of dialogues that have none.
        parts: which of the assistant's messages are targets: those with calls, those without, or both.
        loss: ``targets``: only those count; ``all``: every token does.
        max_length: tokens in one sequence at the most.

    Raises:
        ModelError: the template cannot be used, or a dialogue has no tools.
    """
    offered = tools or OfferedTools()
    sequences: list[TokenSequence] = []
    split = left_out = 0
    for dialogue in dialogues:
        dialogue = dataclasses.replace(dialogue, system=dialogue.system or system)
        writer = _Writer(tokenizer, template, offered.of(dialogue), tuple(parts), loss)
        pieces = list(_pieces(dialogue, writer, max_length))
        sequences += [piece for piece in pieces if piece is not None and any(x != IGNORED for x in piece.labels[1:])]
        split += sum(piece is not None for piece in pieces) > 1
        left_out += sum(piece is None for piece in pieces)
    return ChatSequences(sequences, split, left_out)


def _pieces(dialogue: Dialogue, writer: _Writer, most: int) -> Iterator[TokenSequence | None]:
    """Sequences of one dialogue; None for a turn that does not fit into one."""
    count = len(dialogue.turns)
    whole = writer.tokens(dialogue, 0, count)
    if len(whole) <= most:
        yield writer.sequence(whole, 0)
        return
    costs = [0] * count  # tokens of each turn, the head's in the first; the same in every piece, or nearly so
    for token in whole:
        costs[token.turn] += 1
    head = max(0, len(writer.tokens(dialogue, 1, 2)) - costs[1]) if count > 1 else 0
    start = trained = 0
    while trained < count:
        start, end = _piece(costs, head, most, start, trained)
        tokens = writer.tokens(dialogue, start, end)
        while len(tokens) > most and (end > trained + 1 or start < trained):  # it was not quite the same
            start, end = (start, end - 1) if end > trained + 1 else (start + 1, end)
            tokens = writer.tokens(dialogue, start, end)
        yield writer.sequence(tokens, trained) if len(tokens) <= most else None
        start = trained = end
        while start > 0 and head + sum(costs[start - 1 : end]) <= most // 2:
            start -= 1


def _piece(costs: Sequence[int], head: int, most: int, start: int, trained: int) -> tuple[int, int]:
    """Return the turns, from the first to before the last, of a sequence that trains as many new ones as fit.

    Args:
        costs: tokens of each turn.
        head: tokens before the turns if the first turn is not among them.
        most: tokens of a sequence.
        start: the first turn that fits as context.
        trained: the first new one.
    """
    count, end = len(costs), trained + 1
    while start < trained and head * (start > 0) + sum(costs[start:end]) > most:  # no room for so much context
        start += 1
    while end < count and head * (start > 0) + sum(costs[start : end + 1]) <= most:
        end += 1
    return start, end


class _Token(NamedTuple):
    number: int
    turn: int
    """Turn of the assistant's present or next text."""
    is_target: bool


@dataclass(frozen=True)
class _Writer:
    """Turns of a dialogue as tokens."""

    tokenizer: Any
    template: ChatTemplate
    tools: tuple[Schema, ...]
    parts: tuple[Part, ...]
    loss: str

    def tokens(self, dialogue: Dialogue, start: int, end: int) -> list[_Token]:
        """Return the tokens of the turns from ``start`` to ``end``, after system message and tools."""
        messages, turns = _numbered(dataclasses.replace(dialogue, turns=dialogue.turns[start:end]))
        spans = self.template.spans(messages, self.tools)
        encoded = encode_segments(self.tokenizer, [span.text for span in spans])
        tokens: list[_Token] = []
        turn = end - 1
        for span, numbers in zip(reversed(spans), reversed(encoded), strict=True):
            is_target = False
            if span.message is not None:
                turn = start + turns[span.message]
                part = "api_call" if messages[span.message].get("tool_calls") else "response"
                is_target = part in self.parts
            tokens += [_Token(number, turn, is_target) for number in reversed(numbers)]
        return tokens[::-1]

    def sequence(self, tokens: Sequence[_Token], trained: int) -> TokenSequence:
        """Return the tokens; those of turns before ``trained`` do not count in the loss."""
        labels = (
            token.number if (self.loss == "all" or token.is_target) and token.turn >= trained else IGNORED
            for token in tokens
        )
        return TokenSequence.of((token.number for token in tokens), labels)


def _numbered(dialogue: Dialogue) -> tuple[list[dict[str, Any]], list[int]]:
    """The messages of a dialogue, and for each the number of its turn."""
    messages: list[dict[str, Any]] = []
    turns: list[int] = []
    for number in range(len(dialogue.turns) + 1):
        so_far = dataclasses.replace(dialogue, turns=dialogue.turns[:number])
        messages = list(with_read_arguments(to_messages(so_far)))
        turns += [max(number - 1, 0)] * (len(messages) - len(turns))
    return messages, turns
