"""Dialogues from traces: spans of OpenTelemetry (GenAI conventions) and OpenInference, and logs of Inspect.

The spans of one ``gen_ai.conversation.id`` or ``session.id``, else of one trace, are a conversation. A model call
repeats the messages before it, so the call with the most messages holds the conversation; a call within a tool is a
sub-agent's and no conversation of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from tod_bias.dialogues.chat import from_messages
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.text import json_line
from tod_bias.documents import loads
from tod_bias.errors import CorpusError

MODEL, TOOL, AGENT = "model", "tool", "agent"
KINDS = {
    "chat": MODEL,
    "text_completion": MODEL,
    "generate_content": MODEL,
    "llm": MODEL,
    "execute_tool": TOOL,
    "invoke_agent": AGENT,
    "retrieval": "retriever",
    "embeddings": "embedding",
}
"""``gen_ai.operation.name`` or ``openinference.span.kind``, in lower case, to the kind of component; any other is its
own kind."""
_NAMES = {
    MODEL: ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name"),
    TOOL: ("gen_ai.tool.name", "tool.name"),
    AGENT: ("gen_ai.agent.name", "agent.name"),
}
"""Where the name of a component stands; a span of another kind is called by its own name."""
_CONVERSATION = ("gen_ai.conversation.id", "session.id")
_MESSAGES = (
    "gen_ai.system_instructions",
    "gen_ai.input.messages",
    "gen_ai.output.messages",  # of which each is a choice
    "llm.input_messages",
    "llm.output_messages",
)
EXPORT = '{"resourceSpans"'
"""How a line begins that holds a batch of spans."""
_READ = ("gen_ai", "llm", "openinference", "session", "agent", "tool")
"""First words of the attributes that are kept."""
_DETAILS = "gen_ai.client.inference.operation.details"
"""The event that holds the messages of a model call."""
_REDACTED = "__REDACTED__"
"""What OpenInference writes in place of a text that is hidden."""
_FORMS = ("messages", "traj", "turns")
_ANCESTORS = 100
_OPEN = 1_000
"""Calls that wait for their results at the most."""
_WORDS = 12
"""Words of an attribute's name that are told apart."""


class Component(NamedTuple):
    """Something that spans show at work."""

    kind: str
    name: str
    agent: str
    """The agent that called it; empty where the trace does not say."""


@dataclass(frozen=True)
class _Span:
    trace: str
    parent: str
    name: str
    attributes: Mapping[str, Any]

    def text(self, *places: str) -> str:
        """The first of these attributes that is a text, or nothing."""
        values = (_at(self.attributes, place) for place in places)
        return next((value for value in values if value and isinstance(value, str)), "")

    @property
    def kind(self) -> str:
        kind = self.text("gen_ai.operation.name", "openinference.span.kind").lower()
        return KINDS.get(kind, kind)

    @property
    def has_messages(self) -> bool:
        return any(_at(self.attributes, place) is not None for place in ("gen_ai.input.messages", "llm.input_messages"))

    def messages(self) -> list[dict[str, Any]]:
        """What a model call was told and what it said, as OpenAI's messages."""
        system, given, made, phoenix_given, phoenix_made = (_listed(_at(self.attributes, place)) for place in _MESSAGES)
        first = [{"role": "system", "parts": [part]} for part in system]
        return _chat([*first, *(given or phoenix_given), *(made[:1] or phoenix_made)])


class _NotRecordedError(ValueError):
    """A message has no content."""


def is_trace(record: Any) -> bool:
    """Whether a JSON value is an export of traces, a span, or a log of Inspect, and no chat."""
    if not isinstance(record, Mapping) or any(name in record for name in _FORMS):
        return False
    return (
        any(name in record for name in ("resourceSpans", "traceId", "trace_id", "context.trace_id"))
        or (isinstance(record.get("context"), Mapping) and "trace_id" in record["context"])
        or _is_inspect(record)
    )


def _is_inspect(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("eval"), Mapping) and "task" in record["eval"]


class Traces:
    """The spans of one or more files, and the conversations in them."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], _Span] = {}

    def __bool__(self) -> bool:
        return bool(self._spans)

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in what :func:`is_trace` recognised.

        Raises:
            ValueError: it is built otherwise than its convention says.
        """
        if _is_inspect(record):
            self._add_samples(record)
            return
        for resource in _objects(record, "resourceSpans"):
            for scope in _objects(resource, "scopeSpans"):
                for span in _objects(scope, "spans"):
                    self._add_span(span)
        if "resourceSpans" not in record:
            self._add_span(record)

    def _add_span(self, raw: Mapping[str, Any]) -> None:
        raw = _tree(raw)
        context = raw["context"] if isinstance(raw.get("context"), Mapping) else raw
        trace, identity = (
            str(context.get(f"{name}Id") or context.get(f"{name}_id") or "") for name in ("trace", "span")
        )
        parent = str(raw.get("parentSpanId") or raw.get("parent_id") or "")
        span = _Span(trace, parent, str(raw.get("name") or ""), _attributes(raw))
        self._spans[trace, identity or f"#{len(self._spans)}"] = span

    def _add_samples(self, log: Mapping[str, Any]) -> None:
        for sample in _objects(log, "samples"):
            name = f"{log['eval']['task']}_{sample.get('id')}_{sample.get('epoch', 1)}"
            if ("", name) in self._spans:
                raise ValueError(f"sample {name!r} stands in two logs; give one log of a task")
            messages, of = _objects(sample, "messages"), {"conversation": {"id": name}}
            self._spans["", name] = _Span("", "", "", {"gen_ai": {**of, "input": {"messages": messages}}})
            for number, message in enumerate(messages):
                if operation := {"assistant": "chat", "tool": "execute_tool"}.get(str(message.get("role"))):
                    called = message.get("function") or message.get("model") or log["eval"].get("model")
                    span = _Span("", "", str(called), {"gen_ai": {**of, "operation": {"name": operation}}})
                    self._spans["", f"{name} {number}"] = span

    def components(self) -> Counter[Component]:
        """What worked, and in how many spans; of logs of Inspect, in how many messages."""
        counts: Counter[Component] = Counter()
        for span in self._spans.values():
            if kind := span.kind:
                name = span.text(*_NAMES.get(kind, ())) or span.name
                agents = (
                    above.text(*_NAMES[AGENT]) or above.name for above in self._above(span) if above.kind == AGENT
                )
                agent = span.text(*_NAMES[AGENT]) if kind != AGENT else ""
                counts[Component(kind, name, agent or next(agents, ""))] += 1
        return counts

    def _above(self, span: _Span) -> Iterator[_Span]:
        """The spans that a span lies in, from the inmost."""
        for _ in range(_ANCESTORS):
            above = self._spans.get((span.trace, span.parent)) if span.parent else None
            if above is None:
                return
            yield above
            span = above

    def _conversations(self) -> dict[str, list[_Span]]:
        """Id of a conversation to the model calls in it that no tool made."""
        calls = [span for span in self._spans.values() if span.kind == MODEL or span.has_messages]
        within = {id(span) for span in calls if any(above.kind == TOOL for above in self._above(span))}
        outer = {span.trace for span in calls if id(span) not in within}
        names = defaultdict(set)
        for span in self._spans.values():
            if name := span.text(*_CONVERSATION):
                names[span.trace].add(name)
        conversations = defaultdict(list)
        for span in calls:
            if id(span) not in within or span.trace not in outer:
                others = names[span.trace]
                of_trace = next(iter(others)) if len(others) == 1 else span.trace
                conversations[span.text(*_CONVERSATION) or of_trace].append(span)
        return conversations

    def dialogues(self) -> tuple[list[Dialogue], list[str]]:
        """The conversations whose content was recorded, and in words what was left out.

        Raises:
            CorpusError: no conversation can be read; says why.
        """
        read, missing, partial, unreadable = [], 0, 0, []
        conversations = self._conversations()
        for name, calls in conversations.items():
            try:
                messages, is_partial = _longest(calls)
                read.append(from_messages(messages, name))
                partial += is_partial
            except _NotRecordedError:
                missing += 1
            except ValueError as error:
                unreadable.append(f"{name!r:.80}: {error}")
        whole = _without_beginnings(read, {span.trace for span in self._spans.values()})
        repeated, total = len(read) - len(whole), len(conversations)
        notes = {
            f"{missing} of {total} conversations were recorded without their messages and are left out; recording them "
            "in spans is opt-in (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY or the framework's own "
            "setting)": missing,
            f"{len(unreadable)} of {total} conversations cannot be read and are left out; the first is "
            f"{''.join(unreadable[:1])}": len(unreadable),
            f"{repeated} of {total} conversations are the beginning of another one and are left out; a "
            "gen_ai.conversation.id or session.id would join their spans": repeated,
            f"in {partial} of {total} conversations other model calls hold messages of users that the longest call "
            "does not repeat; they are not read": partial,
        }
        said = [note for note, number in notes.items() if number]
        if not whole:
            raise CorpusError("; ".join(said) or "no span there is a model call")
        return whole, said


def _objects(record: Any, key: str) -> list[Mapping[str, Any]]:
    value = (record.get(key) or []) if isinstance(record, Mapping) else None
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise ValueError(f"{key!r} must be a list of objects")
    return value


def _attributes(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Of a span, and of the event in it that some services write messages into."""
    events = raw["events"] if isinstance(raw.get("events"), list) else []
    flat = [_flat(event) for event in events if isinstance(event, Mapping) and event.get("name") == _DETAILS]
    tree = _tree({name: value for attributes in (*flat, _flat(raw)) for name, value in attributes.items()})
    return {name: tree[name] for name in _READ if name in tree}


def _flat(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    attributes = raw.get("attributes") or {}
    if isinstance(attributes, list):
        attributes = {str(entry.get("key")): _value(entry.get("value")) for entry in _objects(raw, "attributes")}
    if not isinstance(attributes, Mapping):
        raise ValueError("'attributes' must be an object or a list of keys and values")
    return attributes


def _value(value: Any) -> Any:
    """The value in OTLP's wrapping, such as ``{"stringValue": …}``."""
    if not isinstance(value, Mapping) or not value:
        return value
    kind, content = next(iter(value.items()))
    if kind == "arrayValue":
        return [_value(item) for item in _objects(content, "values")]
    if kind == "kvlistValue":
        return {str(entry.get("key")): _value(entry.get("value")) for entry in _objects(content, "values")}
    return int(content) if kind == "intValue" and isinstance(content, str) else content


def _tree(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Names with dots as mappings inside of each other."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".", _WORDS)
        place: Any = tree
        for word in path:
            place = place.setdefault(word, {}) if isinstance(place, dict) else None
        if isinstance(place, dict) and not isinstance(place.get(last), dict):
            place[last] = value
    return tree


def _at(tree: Any, place: str) -> Any:
    for word in place.split("."):
        tree = tree.get(word) if isinstance(tree, Mapping) else None
    return tree


def _listed(value: Any) -> list[Any]:
    """A list, which attributes also hold as JSON in a text, or under the names ``0``, ``1`` …"""
    if isinstance(value, str):
        try:
            value = loads(value)
        except ValueError as error:
            raise ValueError(f"messages are no JSON (was the attribute cut off?): {error}") from error
    if isinstance(value, Mapping) and all(name.isdecimal() and len(name) < 9 for name in value):
        value = [value[name] for name in sorted(value, key=int)]
    if value is not None and not isinstance(value, list):
        raise ValueError(f"expected a list of messages or their parts, got {type(value).__name__}")
    return value or []


def _chat(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Messages of any of the conventions as OpenAI's, with ids of calls of their own.

    Raises:
        _NotRecordedError: there are none, or one has no content.
        ValueError: one is built otherwise than its convention says, or a result belongs to no call.
    """
    chat: list[dict[str, Any]] = []
    open_calls: list[_Call] = []  # calls without a result, with their ids here
    for message in messages:
        role, text, calls, results = _parted(message)
        chat += [_answer(open_calls, result) for result in results]
        if calls:
            if chat and chat[-1]["role"] == "assistant" and "tool_calls" not in chat[-1]:
                text = chat.pop()["content"] + text  # some write the text of a call as a message before it
            made = [(identity, name, f"call_{len(chat)}_{n}") for n, (identity, name, _) in enumerate(calls)]
            functions = [{"name": name, "arguments": arguments} for _, name, arguments in calls]
            entries = [{"id": call[2], "function": function} for call, function in zip(made, functions, strict=True)]
            chat.append({"role": "assistant", "content": text, "tool_calls": entries})
            open_calls += made
        elif text or not results:
            chat.append({"role": role, "content": text})
    if "user" not in {message["role"] for message in chat}:
        raise _NotRecordedError
    return chat


_Call = tuple[str, str, Any]
"""Id, name, and arguments or the result."""


def _answer(open_calls: list[_Call], result: _Call) -> dict[str, Any]:
    """The message of a tool's result, which answers the first call of its id, else of its name, else of all."""
    identity, name, content = result
    if len(open_calls) > _OPEN:
        raise ValueError(f"more than {_OPEN:,} calls have no result")
    for number, call in enumerate(open_calls):
        if identity == call[0] if identity and call[0] else name == call[1] or not name:
            return {"role": "tool", "tool_call_id": open_calls.pop(number)[2], "content": content}
    raise ValueError(f"the result of {name or identity or 'a tool'!r:.80} follows no call of it")


def _parted(message: Any) -> tuple[str, str, list[_Call], list[_Call]]:
    """Role, text, calls and results of a message of any of the conventions."""
    message = _inner(message, "message")
    role, parts = str(message.get("role")), message.get("parts", message.get("contents", message.get("content")))
    if isinstance(parts, str):
        parts = [{"type": "text", "text": parts}]
    text, calls, results = "", _called(message), []
    for part in (_inner(part, "message_content") for part in _listed(parts)):
        kind = part.get("type")
        if kind == "text":
            text += _recorded(part, "content", "text")
        elif kind == "tool_call":
            calls.append(_call(part, part.get("arguments")))
        elif kind == "tool_call_response":
            results.append(_call(part, _recorded(part, "response", "result")))
        elif kind not in ("reasoning", "thinking"):
            raise ValueError(f"a message has a part of type {kind!r:.40}; only text, calls and results are read")
    if role == "tool" and not results:
        name, error = message.get("name") or message.get("function"), message.get("error")  # error: of Inspect
        answer = text or (str(error.get("message") or "") if isinstance(error, Mapping) else "")
        return role, "", calls, [_call({"id": message.get("tool_call_id"), "name": name}, answer)]
    return role, text, calls, results


def _called(message: Mapping[str, Any]) -> list[_Call]:
    """The calls under ``tool_calls``, of OpenInference or Inspect."""
    calls = []
    for call in (_inner(call, "tool_call") for call in _listed(message.get("tool_calls"))):
        function = call.get("function")  # of Inspect the name alone
        of = function if isinstance(function, Mapping) else {"name": function, "arguments": call.get("arguments")}
        calls.append(_call({"id": call.get("id"), "name": of.get("name")}, of.get("arguments")))
    return calls


def _call(part: Mapping[str, Any], content: Any) -> _Call:
    return str(part.get("id") or ""), str(part.get("name") or ""), content


def _recorded(part: Mapping[str, Any], *places: str) -> str:
    """A part's content as a text.

    Raises:
        _NotRecordedError: there is none.
    """
    content = next((part[place] for place in places if place in part), _REDACTED)
    if content == _REDACTED:
        raise _NotRecordedError
    return content if isinstance(content, str) else json_line(content).rstrip("\n")


def _inner(item: Any, name: str) -> Mapping[str, Any]:
    """A message, part or call, which OpenInference wraps under a name."""
    if not isinstance(item, Mapping):
        raise ValueError(f"expected an object as message, part or call, got {type(item).__name__}")
    tree = _tree(item)
    inner = tree.get(name)
    return inner if isinstance(inner, Mapping) else tree


def _longest(calls: Sequence[_Span]) -> tuple[list[dict[str, Any]], bool]:
    """The messages of the call that has most, and whether others have users' messages that it has not."""
    chats = []
    for call in calls:
        with suppress(_NotRecordedError):
            chats.append(call.messages())
    if not chats:
        raise _NotRecordedError
    longest = max(reversed(chats), key=len)
    users = [{message["content"] for message in chat if message["role"] == "user"} for chat in (longest, *chats)]
    return longest, any(said - users[0] for said in users)


def _without_beginnings(dialogues: Sequence[Dialogue], traces: Collection[str]) -> list[Dialogue]:
    """The dialogues but those of a single trace whose turns another dialogue begins with."""
    turns = [tuple(json_line(turn.to_json()) for turn in dialogue.turns) for dialogue in dialogues]
    beginnings = {
        short for short, longer in pairwise(sorted(turns)) if len(short) < len(longer) and short == longer[: len(short)]
    }
    return [
        dialogue
        for dialogue, key in zip(dialogues, turns, strict=True)
        if not (dialogue.id in traces and key in beginnings)
    ]
