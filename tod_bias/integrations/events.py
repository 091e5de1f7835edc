"""Replies of language models as the server-sent events that clients of a streamed request read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tod_bias.integrations.model_apis import ANTHROPIC, CHAT, with_ids

Event = dict[str, Any]


def encoded_reply(path: str, body: Mapping[str, Any], reply: Mapping[str, Any]) -> tuple[str, bytes]:
    """The content type and the body of the response to a request, streamed if it asks for that.

    Args:
        path: of the API.
        body: of the request.
        reply: of a model, without ids.
    """
    whole = with_ids(path, body, reply)
    if not body.get("stream"):
        return "application/json", json.dumps(whole).encode()
    return "text/event-stream", event_stream(path, whole, body.get("stream_options"))


def event_stream(path: str, reply: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> bytes:
    """A whole reply as the body of a streamed response, each part of it in one event.

    Args:
        path: of the API.
        reply: as the API gives it when it is not streamed.
        options: the request's ``stream_options``.
    """
    if path == CHAT:
        events = [*_chunks(reply, is_counted=bool((options or {}).get("include_usage")))]
        return b"".join([*map(_data, events), b"data: [DONE]\n\n"])
    made = _of_message(reply) if path == ANTHROPIC else _of_response(reply)
    numbered = ({**event, **({} if path == ANTHROPIC else {"sequence_number": n})} for n, event in enumerate(made))
    return b"".join(b"event: " + event["type"].encode() + b"\n" + _data(event) for event in numbered)


def _data(event: Event) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _chunks(reply: Mapping[str, Any], *, is_counted: bool) -> Iterator[Event]:
    """Yield the events of a chat completion."""
    chunk = {**reply, "object": "chat.completion.chunk"}
    usage = chunk.pop("usage")
    for choice in reply["choices"]:
        message = choice["message"]
        delta = {name: value for name, value in message.items() if value is not None}
        if calls := message.get("tool_calls"):
            delta["tool_calls"] = [{"index": number, **call} for number, call in enumerate(calls)]
        index = choice.get("index", 0)
        yield {**chunk, "choices": [{"index": index, "delta": delta, "finish_reason": None}]}
        reason = choice.get("finish_reason") or ("tool_calls" if calls else "stop")
        yield {**chunk, "choices": [{"index": index, "delta": {}, "finish_reason": reason}]}
    if is_counted:
        yield {**chunk, "choices": [], "usage": usage}


def _of_response(reply: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events of OpenAI's Responses API."""
    begun = {**reply, "output": [], "status": "in_progress"}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for number, item in enumerate(reply["output"]):
        place = {"output_index": number, "item_id": item.get("id")}
        empty = {name: type(value)() for name, value in item.items() if name in ("content", "arguments")}
        yield {"type": "response.output_item.added", "output_index": number, "item": {**item, **empty}}
        if item["type"] == "function_call":
            arguments = item["arguments"]
            yield {"type": "response.function_call_arguments.delta", **place, "delta": arguments}
            yield {
                "type": "response.function_call_arguments.done",
                **place,
                "name": item["name"],
                "arguments": arguments,
            }
        for index, part in enumerate(item.get("content") or () if item["type"] == "message" else ()):
            yield from _of_part(part, {**place, "content_index": index})
        yield {"type": "response.output_item.done", "output_index": number, "item": item}
    yield {"type": "response.completed", "response": {**reply, "status": "completed"}}


def _of_part(part: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events of a part of a message in OpenAI's Responses API."""
    kind, key = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
    extra: Event = {"logprobs": []} if kind == "output_text" else {}
    yield {"type": "response.content_part.added", **place, "part": {**part, key: ""}}
    yield {"type": f"response.{kind}.delta", **place, "delta": part[key], **extra}
    yield {"type": f"response.{kind}.done", **place, key: part[key], **extra}
    yield {"type": "response.content_part.done", **place, "part": part}


def _of_message(reply: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events of Anthropic's Messages API."""
    end = {name: reply.get(name) for name in ("stop_reason", "stop_sequence")}
    yield {"type": "message_start", "message": {**reply, "content": [], **dict.fromkeys(end)}}
    for index, block in enumerate(reply["content"]):
        empty, deltas = {**block}, []
        if block["type"] == "text":
            empty["text"], deltas = "", [{"type": "text_delta", "text": block["text"]}]
        elif block["type"] == "tool_use":
            empty["input"], deltas = {}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        elif block["type"] == "thinking":
            empty |= {"thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block.get("signature", "")},
            ]
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": end, "usage": reply["usage"]}
    yield {"type": "message_stop"}
