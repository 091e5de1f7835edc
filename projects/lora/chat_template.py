"""Chats as the text that a model reads: a tokenizer's chat template, and where in it the assistant speaks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tod_bias.errors import ModelError, shortened
from tod_bias.io.documents import loads, read_text

CHATML = "chatml"
"""The name of the template of this folder: ChatML with tools, calls as JSON inside ``<tool_call>``."""
CHATML_MARKS = ("<|im_start|>", "<|im_end|>")
"""Tokens that begin and end a message of :data:`CHATML`."""
_SHIPPED = Path(__file__).with_name("chatml.jinja")
_MARKED = re.compile(r"\{%-?\s*generation\s*-?%\}")
_OFFER = f"give another template with --chat-template (FILE, or {CHATML} for the one of this folder)"

RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open_pattern": r'\s*<tool_call>\s*\{"name":\s*"(?P<name>[^"]*)",\s*"arguments":\s*',
            "close_pattern": r"\}\s*</tool_call>",
            "repeats": True,
            "content": "text",
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close_pattern": r"\s*<\|im_end\|>", "content": "text"},
    },
}
"""Template with which ``transformers serve`` finds calls in outputs of a :data:`CHATML` model.

The tokenizer saves it. Arguments stay as they were written, so that malformed ones reach the client and do not fail the
request.
"""


@dataclass(frozen=True)
class Span:
    """A part of a rendered chat."""

    text: str
    message: int | None
    """Number of the message that the assistant writes here; None for what is only read."""


@dataclass(frozen=True)
class ChatTemplate:
    """A Jinja template that writes messages as text, as ``tokenizer.apply_chat_template`` does.

    Args:
        source: the template.
        name: of the checkpoint or file that it is from, for messages.
        marks: the tokenizer's special tokens by name (``bos_token`` …), which the template may use.
    """

    source: str
    name: str
    marks: Mapping[str, str]

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = (), *, prompt: bool = False
    ) -> str:
        """The text of messages.

        Args:
            messages: in OpenAI's form, with the arguments of calls as mappings.
            tools: OpenAI's function schemas.
            prompt: whether the assistant's next message is begun.

        Raises:
            ModelError: the template fails on them.
        """
        return self._render(messages, tools, prompt, False)[0]

    def spans(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> list[Span]:
        """The text of messages, cut where the assistant begins and ends to write.

        A template with ``{% generation %}`` says itself what the assistant writes. Of any other the messages before
        each of the assistant's are rendered with its beginning, and with it as a whole: what lies between is what the
        assistant writes, through the last mark that ends texts.

        Raises:
            ModelError: the template fails on them; it writes the beginning of a chat in another way than the chat; or
                it leaves out the calls.
        """
        speaks = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
        if _MARKED.search(self.source):
            text, places = self._render(messages, tools, False, True)
            if len(places) != len(speaks):
                raise ModelError(
                    f"{self.name}: its chat template marks {len(places)} texts of the assistant in a chat with "
                    f"{len(speaks)}; {_OFFER}"
                )
        else:
            text = self._render(messages, tools, False, False)[0]
            places = [self._place(messages, tools, number, text) for number in speaks]
        spans: list[Span] = []
        last = 0
        for number, (start, end) in zip(speaks, places, strict=True):
            self._check(messages[number], text[start:end])
            spans += [Span(text[last:start], None), Span(text[start:end], number)]
            last = end
        return [span for span in (*spans, Span(text[last:], None)) if span.text]

    def _place(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], number: int, text: str
    ) -> tuple[int, int]:
        before = self.render(messages[:number], tools, prompt=True)
        whole = self.render(messages[: number + 1], tools)
        if not (whole.startswith(before) and text.startswith(whole)):
            raise ModelError(
                f"{self.name}: its chat template writes the beginning of a chat in another way than the whole chat "
                f"(message {number + 1}), so that what the assistant writes cannot be told; {_OFFER}"
            )
        end_mark = self.marks.get("eos_token")
        if end_mark and (at := whole.rfind(end_mark, len(before))) >= 0:
            return len(before), at + len(end_mark)
        return len(before), len(whole)

    def _check(self, message: Mapping[str, Any], text: str) -> None:
        for call in message.get("tool_calls") or ():
            if call["function"]["name"] not in text:
                raise ModelError(f"{self.name}: its chat template does not write tool calls; {_OFFER}")

    def _render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], prompt: bool, marked: bool
    ) -> tuple[str, list[tuple[int, int]]]:
        from jinja2 import TemplateError
        from transformers.utils.chat_template_utils import render_jinja_template

        try:
            texts, places = render_jinja_template(
                [list(messages)],
                tools=list(tools) or None,
                chat_template=self.source,
                return_assistant_tokens_mask=marked,
                add_generation_prompt=prompt,
                **self.marks,
            )
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:  # whatever it computes
            what = shortened(str(error), 200) or type(error).__name__
            raise ModelError(f"{self.name}: its chat template fails: {what}; {_OFFER}") from error
        return texts[0], [tuple(place) for place in places[0]] if marked else []


def template_source(given: str | None, tokenizer: Any, name: str) -> str:
    """Return the given template (a file or :data:`CHATML`), or else the tokenizer's own.

    Raises:
        ModelError: the file cannot be read, or the tokenizer has no template.
    """
    if given is not None:
        try:
            return read_text(_SHIPPED if given == CHATML else given, largest=1 << 20)
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(
                f"--chat-template {given}: cannot be read ({error}); expected a file, or {CHATML}"
            ) from error
    source = getattr(tokenizer, "chat_template", None)
    if isinstance(source, dict):  # several by name
        source = source.get("tool_use") or source.get("default")
    if not isinstance(source, str) or not source:
        raise ModelError(f"{name}: its tokenizer has no chat template; {_OFFER}")
    return source


def with_read_arguments(messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """OpenAI's messages with the arguments of calls as mappings, as templates read them, and every call answered.

    A call without results is answered with ``[]``: chat APIs refuse calls that are not.
    """
    unanswered: list[str] = []
    for message in messages:
        if message["role"] != "tool":
            yield from _empty_answers(unanswered)
            unanswered = []
        if calls := message.get("tool_calls"):
            unanswered = [call["id"] for call in calls]
            read = [
                call | {"function": call["function"] | {"arguments": loads(call["function"]["arguments"])}}
                for call in calls
            ]
            yield {**message, "content": message["content"] or "", "tool_calls": read}
            continue
        if message["role"] == "tool" and message["tool_call_id"] in unanswered:
            unanswered.remove(message["tool_call_id"])
        yield dict(message)
    yield from _empty_answers(unanswered)


def _empty_answers(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for name in names:
        yield {"role": "tool", "tool_call_id": name, "content": "[]"}
