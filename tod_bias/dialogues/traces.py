"""Dialogues from traces: spans of OpenTelemetry, whatever wrote their attributes, and logs of Inspect.

The spans of one ``gen_ai.conversation.id`` or ``session.id``, else of one trace, are a conversation. A model call
repeats the messages before it, so the call with the most messages holds the conversation; a call within a tool is a
sub-agent's and no conversation of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from tod_bias.dialogues.chat import from_messages
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.text import json_line
from tod_bias.dialogues.trace_messages import NotRecordedError, counted
from tod_bias.dialogues.trace_spans import (
    AGENT,
    MODEL,
    TOOL,
    TracedSpan,
    event_of,
    ids_of,
    is_log_record,
    objects,
    read_span,
    records_of,
)
from tod_bias.errors import CorpusError

_NAMES = {
    MODEL: ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name"),
    TOOL: ("gen_ai.tool.name", "tool.name", "traceloop.entity.name", "ai.toolCall.name"),
    AGENT: ("gen_ai.agent.name", "agent.name", "traceloop.entity.name", "ai.telemetry.functionId"),
}
"""Where the name of a component stands; a span of another kind is called by its own name."""
_CONVERSATION = (
    "gen_ai.conversation.id",
    "session.id",
    "traceloop.association.properties.session_id",
    "ai.telemetry.metadata.sessionId",
)
EXPORTS = ('{"resourceSpans"', '{"resourceLogs"')
"""How a line begins that holds a batch of spans or log records."""
_FORMS = ("messages", "traj", "turns")
_ANCESTORS = 100


class Component(NamedTuple):
    """Something that spans show at work."""

    kind: str
    name: str
    agent: str
    """The agent that called it; empty where the trace does not say."""


def is_trace(record: Any) -> bool:
    """Whether a JSON value is an export of traces, a span, or a log of Inspect, and no chat."""
    if not isinstance(record, Mapping) or any(name in record for name in _FORMS):
        return False
    return (
        any(name in record for name in ("resourceSpans", "resourceLogs", "traceId", "trace_id", "context.trace_id"))
        or (isinstance(record.get("context"), Mapping) and "trace_id" in record["context"])
        or _is_inspect(record)
    )


def _is_inspect(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("eval"), Mapping) and "task" in record["eval"]


class Traces:
    """The spans of one or more files, and the conversations in them."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], TracedSpan] = {}
        self._loose = 0

    def __bool__(self) -> bool:
        return bool(self._spans or self._loose)

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in what :func:`is_trace` recognised.

        Raises:
            ValueError: it is built otherwise than its convention says.
        """
        if _is_inspect(record):
            self._add_samples(record)
            return
        for raw in records_of(record):
            trace, identity = ids_of(raw)
            if is_log_record(raw):
                event = event_of(raw)
                if event.is_read and identity:
                    self._spans.setdefault((trace, identity), TracedSpan(trace)).logs.append(event)
                self._loose += event.is_read and not identity
            else:
                read_span(raw, self._spans.setdefault((trace, identity or f"#{len(self._spans)}"), TracedSpan(trace)))

    def _add_samples(self, log: Mapping[str, Any]) -> None:
        for sample in objects(log, "samples"):
            name = f"{log['eval']['task']}_{sample.get('id')}_{sample.get('epoch', 1)}"
            if ("", name) in self._spans:
                raise ValueError(f"sample {name!r} stands in two logs; give one log of a task")
            messages, of = objects(sample, "messages"), {"gen_ai.conversation.id": name}
            self._spans["", name] = TracedSpan(flat={**of, "gen_ai.input.messages": messages})
            for number, message in enumerate(messages):
                if operation := {"assistant": "chat", "tool": "execute_tool"}.get(str(message.get("role"))):
                    called = message.get("function") or message.get("model") or log["eval"].get("model")
                    span = TracedSpan(name=str(called), flat={**of, "gen_ai.operation.name": operation})
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

    def _above(self, span: TracedSpan) -> Iterator[TracedSpan]:
        """The spans that a span lies in, from the inmost."""
        for _ in range(_ANCESTORS):
            above = self._spans.get((span.trace, span.parent)) if span.parent else None
            if above is None:
                return
            yield above
            span = above

    def _conversations(self) -> dict[str, list[TracedSpan]]:
        """Id of a conversation to the model calls in it that no tool made."""
        spans = self._spans.values()
        calls = [span for span in spans if span.kind == MODEL or (span.kind != TOOL and span.has_messages)]
        within = {id(span) for span in calls if any(above.kind == TOOL for above in self._above(span))}
        outer = {span.trace for span in calls if id(span) not in within}
        names = defaultdict(set)
        for span in spans:
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
        read, missing, partial, with_parts, unreadable = [], 0, 0, 0, []
        parts: Counter[str] = Counter()
        conversations = self._conversations()
        for name, calls in conversations.items():
            try:
                messages, left_out, is_partial = _longest(calls)
                read.append(from_messages(messages, name))
                partial += is_partial
                parts += left_out
                with_parts += bool(left_out)
            except NotRecordedError:
                missing += 1
            except ValueError as error:
                unreadable.append(f"{name!r:.80}: {error}")
        whole = _without_beginnings(read, {span.trace for span in self._spans.values()})
        repeated, total = len(read) - len(whole), len(conversations)
        notes = {
            f"{missing} of {total} conversations were recorded without their messages and are left out; recording them "
            "is opt-in (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true or SPAN_ONLY, or the framework's own "
            "setting), and log records that hold them are to be given too": missing,
            f"{len(unreadable)} of {total} conversations cannot be read and are left out; the first is "
            f"{''.join(unreadable[:1])}": len(unreadable),
            f"{repeated} of {total} conversations are the beginning of another one and are left out; a "
            "gen_ai.conversation.id or session.id would join their spans": repeated,
            f"in {partial} of {total} conversations other model calls hold messages of users that the longest call "
            "does not repeat; they are not read": partial,
            f"in {with_parts} of {total} conversations messages have parts that are no text; they are read without "
            f"these: {counted(parts)}": with_parts,
            f"{self._loose} messages in log records that name no span are left out": self._loose,
        }
        said = [note for note, number in notes.items() if number]
        if not whole:
            raise CorpusError("; ".join(said) or "no span there is a model call")
        return whole, said


def _longest(calls: Sequence[TracedSpan]) -> tuple[list[dict[str, Any]], Counter[str], bool]:
    """The messages of the call that has most, its parts left out, and whether others have users' messages beyond them.

    Of spans that hold messages those of model calls count; an agent's, say, where there are none.
    """
    holding = [call for call in calls if call.has_messages]
    chats = []
    for call in [call for call in holding if call.kind == MODEL] or holding:
        with suppress(NotRecordedError):
            chats.append(call.chat())
    if not chats:
        raise NotRecordedError
    longest, left_out = max(reversed(chats), key=lambda chat: len(chat[0]))
    users = [{message["content"] for message in chat if message["role"] == "user"} for chat, _ in chats]
    in_longest = {message["content"] for message in longest if message["role"] == "user"}
    return longest, left_out, any(said - in_longest for said in users)


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
