"""Spans and events as OpenTelemetry writes them in JSON: exports of OTLP, and what its SDKs write one a line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tod_bias.dialogues.trace_messages import chat_of, is_parts, listed, nested, opened

MODEL, TOOL, AGENT = "model", "tool", "agent"
KINDS = {
    "chat": MODEL,
    "completion": MODEL,
    "text_completion": MODEL,
    "generate_content": MODEL,
    "llm": MODEL,
    "ai.generatetext.dogenerate": MODEL,
    "ai.streamtext.dostream": MODEL,
    "execute_tool": TOOL,
    "ai.toolcall": TOOL,
    "invoke_agent": AGENT,
    "ai.generatetext": AGENT,
    "ai.streamtext": AGENT,
    "retrieval": "retriever",
    "embeddings": "embedding",
}
"""What stands under one of ``_KIND``, in lower case, to the kind of component; any other is its own kind."""
_KIND = (
    "gen_ai.operation.name",
    "openinference.span.kind",
    "traceloop.span.kind",
    "llm.request.type",
    "ai.operationId",
)
_READ = ("gen_ai", "llm", "openinference", "traceloop", "ai", "session", "agent", "tool")
"""First words of the attributes that are kept."""
_INSTRUCTIONS = "gen_ai.system_instructions"
_GIVEN_AND_MADE = {
    "gen_ai.input.messages": "gen_ai.output.messages",
    "llm.input_messages": "llm.output_messages",
    "gen_ai.prompt": "gen_ai.completion",
    "ai.prompt.messages": "ai.response",
}
"""Where the messages of a model call stand to where what came of it does: GenAI's conventions, OpenInference's,
OpenLLMetry's (``gen_ai.prompt.0.role``) and the AI SDK's."""
_CHOICES = ("gen_ai.output.messages", "gen_ai.completion")
"""Of these each is a choice."""
_DETAILS = "gen_ai.client.inference.operation.details"
"""The event whose attributes are those of its span, with the messages of a model call."""
_MESSAGE = re.compile(r"gen_ai\.(?:(system|developer|user|assistant|tool)\.message|choice)")
"""Events that each hold a message of a model call: before it, or what came of it."""


class Event(NamedTuple):
    """An event of a span: one that stands in it, a log record that names it, or an entry of its ``events``."""

    name: str
    attributes: Mapping[str, Any]
    body: Any = None

    @property
    def is_read(self) -> bool:
        """Whether it holds messages or the attributes of a model call."""
        return self.name == _DETAILS or self.is_message

    @property
    def is_message(self) -> bool:
        """Whether it holds one message."""
        return _MESSAGE.fullmatch(self.name) is not None

    def message(self) -> dict[str, Any] | None:
        """The message that it holds; None for another choice than the first."""
        fields = _with_parts(self.attributes)
        for held in (fields.get("gen_ai.event.content"), self.body):
            inner = opened(held)
            fields |= inner if isinstance(inner, Mapping) else {} if held is None else {"content": held}
        role = self.name.split(".")[1]
        if role == "choice":
            if fields.get("index"):
                return None
            said = fields.get("message")
            fields |= _message_in(said) or ({} if said is None or isinstance(said, Mapping) else {"content": said})
            role = "assistant"
        called = fields.get("tool_call_id") or fields.get("id")
        return {"role": role, "tool_call_id": called, **{name: fields[name] for name in _FIELDS if name in fields}}


_FIELDS = ("content", "parts", "tool_calls", "name")


def _message_in(value: Any) -> Mapping[str, Any]:
    """The fields of a message that a value is, or holds as JSON; none where it is the content itself."""
    message = opened(value)
    is_message = isinstance(message, Mapping) and not message.keys().isdisjoint(("role", *_FIELDS))
    return message if is_message else {}


def _with_parts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A message whose fields are attributes, which hold no objects: those with its parts as JSON, opened."""
    return {name: parts if is_parts(parts := opened(value)) else value for name, value in fields.items()}


@dataclass
class TracedSpan:
    """A span; one that only log records name has nothing but these."""

    trace: str = ""
    parent: str = ""
    name: str = ""
    flat: Mapping[str, Any] = field(default_factory=dict)
    """Attributes, with dots in their names."""
    events: list[Event] = field(default_factory=list)
    """Those within the span."""
    logs: list[Event] = field(default_factory=list)
    """Those beside it, which count where none within it hold messages: an exporter may write both."""

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """Those of the span, and of events that have the messages of a model call among theirs, by word."""
        flat: dict[str, Any] = {}
        for event in self._read:
            if event.name == _DETAILS:
                flat |= event.attributes
        tree = nested({**flat, **self.flat})
        return {name: tree[name] for name in _READ if name in tree}

    @property
    def _read(self) -> list[Event]:
        return self.events or self.logs

    def text(self, *places: str) -> str:
        """The first of these attributes that is a text, or nothing."""
        values = (_at(self.attributes, place) for place in places)
        return next((value for value in values if value and isinstance(value, str)), "")

    @property
    def kind(self) -> str:
        """The kind of component; empty where the span does not say."""
        kind = self.text(*_KIND).lower()
        return KINDS.get(kind, kind)

    @property
    def has_messages(self) -> bool:
        """Whether there are messages that a model was given, in attributes or in events."""
        return self._given_at is not None or self._has_events

    @property
    def _given_at(self) -> str | None:
        """The attribute with the messages that a model was given."""
        for place in _GIVEN_AND_MADE:
            given = _at(self.attributes, place)
            if isinstance(given, Mapping) or (given is not None and place != "gen_ai.prompt"):  # which was a text once
                return place
        return None

    @property
    def _has_events(self) -> bool:
        return any(event.is_message for event in self._read)

    def chat(self) -> tuple[list[dict[str, Any]], Counter[str]]:
        """What a model call was given and what it said, as OpenAI's messages; and what parts were left out.

        Raises:
            NotRecordedError, ValueError: as :func:`~tod_bias.dialogues.trace_messages.chat_of`.
        """
        place = self._given_at
        if place is None:
            messages = (event.message() for event in self._read if event.is_message)
            return chat_of(message for message in messages if message is not None)
        system, given = (listed(_at(self.attributes, name)) for name in (_INSTRUCTIONS, place))
        first = [{"role": "system", "parts": [part]} for part in system]
        made = self._made(_GIVEN_AND_MADE[place])
        if place == "gen_ai.prompt":
            given, made = ([_with_parts(message) for message in messages] for messages in (given, made))
        return chat_of([*first, *given, *made])

    def _made(self, place: str) -> list[Any]:
        """The messages that came of a model call, of choices the first."""
        made = _at(self.attributes, place)
        if place == "ai.response":
            fields = made if isinstance(made, Mapping) else {}
            message = {"role": "assistant", "content": fields.get("text"), "tool_calls": fields.get("toolCalls")}
            return [message] if fields.get("text") or fields.get("toolCalls") else []
        return listed(made)[:1] if place in _CHOICES else listed(made)


def records_of(export: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The spans and log records of an export of OTLP, or the one that a value is.

    Raises:
        ValueError: it is built otherwise than OTLP says.
    """
    for resources, scopes, entries in _EXPORTS:
        for resource in objects(export, resources):
            for scope in objects(resource, scopes):
                yield from objects(scope, entries)
    if not any(resources in export for resources, *_ in _EXPORTS):
        yield nested(export)


_EXPORTS = (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords"))


def is_log_record(raw: Mapping[str, Any]) -> bool:
    """Whether one of :func:`records_of` is a log record."""
    return "name" not in raw and any(name in raw for name in ("body", "eventName", "event_name"))


def ids_of(raw: Mapping[str, Any]) -> tuple[str, str]:
    """The ids of the trace and of the span, each empty where there is none."""
    context = raw["context"] if isinstance(raw.get("context"), Mapping) else raw
    trace, span = (str(context.get(f"{name}Id") or context.get(f"{name}_id") or "") for name in ("trace", "span"))
    return trace, span


def event_of(raw: Mapping[str, Any]) -> Event:
    """The event that a log record, or a value under a span's ``events``, is."""
    attributes = attributes_of(raw)
    name = raw.get("name") or raw.get("eventName") or raw.get("event_name") or attributes.get("event.name")
    return Event(str(name or ""), attributes, _value(raw.get("body")))


def read_span(raw: Mapping[str, Any], span: TracedSpan) -> None:
    """Fill a span with what its record says.

    Raises:
        ValueError: the record is built otherwise than OpenTelemetry's.
    """
    attributes = attributes_of(raw)
    span.parent, span.name = str(raw.get("parentSpanId") or raw.get("parent_id") or ""), str(raw.get("name") or "")
    span.flat = {name: value for name, value in attributes.items() if name.split(".", 1)[0] in _READ}
    within, listed_events = raw.get("events"), opened(attributes.get("events"))
    events = [event_of(event) for event in within if isinstance(event, Mapping)] if isinstance(within, list) else []
    if isinstance(listed_events, list):
        entries = (entry for entry in listed_events if isinstance(entry, Mapping))
        events += [Event(str(entry.get("event.name")), {}, entry) for entry in entries]
    span.events = [event for event in events if event.is_read]


def objects(record: Any, key: str) -> list[Mapping[str, Any]]:
    """The list of objects under a name; empty where there is none.

    Raises:
        ValueError: it is something else.
    """
    value = (record.get(key) or []) if isinstance(record, Mapping) else None
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise ValueError(f"{key!r} must be a list of objects")
    return value


def attributes_of(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of a span or an event, with dots in their names.

    Raises:
        ValueError: they are neither an object nor OTLP's list.
    """
    attributes = raw.get("attributes") or {}
    if isinstance(attributes, list):
        attributes = {str(entry.get("key")): _value(entry.get("value")) for entry in objects(raw, "attributes")}
    if not isinstance(attributes, Mapping):
        raise ValueError("'attributes' must be an object or a list of keys and values")
    return attributes


def _value(value: Any) -> Any:
    """The value in OTLP's wrapping, such as ``{"stringValue": …}``; ``{}`` is none."""
    if value == {}:
        return None
    kind, content = next(iter(value.items())) if isinstance(value, Mapping) and len(value) == 1 else ("", None)
    if kind == "arrayValue":
        return [_value(item) for item in objects(content, "values")]
    if kind == "kvlistValue":
        return {str(entry.get("key")): _value(entry.get("value")) for entry in objects(content, "values")}
    if kind == "intValue":
        return int(content) if isinstance(content, str) else content
    return content if kind in ("stringValue", "boolValue", "doubleValue", "bytesValue") else value


def _at(tree: Any, place: str) -> Any:
    for word in place.split("."):
        tree = tree.get(word) if isinstance(tree, Mapping) else None
    return tree
