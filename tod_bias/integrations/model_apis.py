"""Requests to models over HTTP: what of them is rewritten, and what of replies differs from call to call.

OpenAI's chat completions, Responses, embeddings and moderations, and Anthropic's messages.
"""

from __future__ import annotations

import base64
import copy
import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tod_bias.errors import StageError, UnansweredError, shortened
from tod_bias.io.canonical import canonical, digest
from tod_bias.systems.hosted import AgentRequest

CHAT, RESPONSES, ANTHROPIC = "/chat/completions", "/responses", "/messages"
EMBEDDINGS, MODERATIONS = "/embeddings", "/moderations"
CONVERSATIONS = (CHAT, RESPONSES, ANTHROPIC)
"""The APIs of language models, below the base URL."""
PATHS = (*CONVERSATIONS, EMBEDDINGS, MODERATIONS)
_KINDS = {EMBEDDINGS: "embedding", MODERATIONS: "moderation"}
"""Kinds of requests that are not to a language model."""
KINDS = ("model", *_KINDS.values())
LARGEST = 1 << 23
"""Bytes of a request or reply."""
_CONTENT = {CHAT: "messages", RESPONSES: "input", ANTHROPIC: "messages", EMBEDDINGS: "input", MODERATIONS: "input"}
"""Field of a request that is rewritten."""
_PASSING = ("id", "created", "created_at", "completed_at", "usage", "system_fingerprint", "service_tier")
_SERVER_HISTORY = ("previous_response_id", "conversation")
_USAGE: dict[str, dict[str, Any]] = {
    CHAT: {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    RESPONSES: {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    },
    ANTHROPIC: {"input_tokens": 0, "output_tokens": 0},
    EMBEDDINGS: {"prompt_tokens": 0, "total_tokens": 0},
    MODERATIONS: {},
}
_NUMBERED = re.compile(r"(msg|fc)_\d{1,6}")
"""An id of an item that :func:`_stable` made."""


def path_of(url_path: str) -> str | None:
    """Return the API of a URL's path; None if it is none."""
    return next((path for path in PATHS if url_path.endswith(path)), None)


_SENT_OTHERWISE = ("stream", "stream_options", "encoding_format")
_LABELS = ("metadata", "user", "safety_identifier", "prompt_cache_key")
"""Fields that identify the caller or session, often at random, and do not affect the reply; they are not sent."""


def request_of(path: str, body: Mapping[str, Any], **fixed: Any) -> AgentRequest:
    """Return the rewritten parts of a request: its messages without system prompts, or its texts.

    The request is sent without streaming, and asks for embeddings as numbers.

    Args:
        path: of its API.
        body: what was sent.
        fixed: further JSON that affects the reply and is not rewritten.

    Raises:
        StageError: the history is on the server, or there are no messages.
    """
    rest = {name: value for name, value in body.items() if name not in (*_SENT_OTHERWISE, *_LABELS)}
    messages = rest.pop(_CONTENT[path], None)
    if path not in CONVERSATIONS:
        return AgentRequest(messages, json.dumps({"path": path, **fixed, "body": rest}, ensure_ascii=False))
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise StageError(f"a request to {path} holds no list of messages under {_CONTENT[path]!r}")
    messages = with_numbers(messages)
    if any(body.get(name) for name in _SERVER_HISTORY) or any(
        message.get("type") == "item_reference" for message in messages
    ):
        raise StageError("a request has its history on the server: send all messages with each request")
    system = [(place, message) for place, message in enumerate(messages) if _is_system(message)]
    others = [message for message in messages if not _is_system(message)]
    return AgentRequest(others, json.dumps({"path": path, **fixed, "system": system, "body": rest}, ensure_ascii=False))


def check_texts(path: str, request: AgentRequest) -> None:
    """Look at what a request that belongs to a stage holds.

    Raises:
        StageError: numbers of tokens in place of texts, which no twin can rewrite.
    """
    texts = request.content if isinstance(request.content, list) else [request.content]
    if not all(isinstance(text, str | dict) for text in texts):
        raise StageError(
            f"a request to {path} holds no texts under {_CONTENT[path]!r}; numbers of tokens cannot be rewritten "
            "(LangChain sends texts with check_embedding_ctx_length=False)"
        )


def body_of(request: AgentRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """The body of a request, and what else it holds that is fixed."""
    fixed = json.loads(request.fixed)
    if fixed["path"] not in CONVERSATIONS:
        return {**fixed.pop("body"), _CONTENT[fixed["path"]]: request.content}, fixed
    messages = [_without_number(message) for message in request.content]
    for place, message in fixed.pop("system"):
        messages.insert(place, message)
    return {**fixed.pop("body"), _CONTENT[fixed["path"]]: messages}, fixed


def facts_of(path: str, body: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the facts that stages match: the kind, the model, the system prompt and the names of the offered tools."""
    facts = {"kind": [_KINDS.get(path, "model")], "model": [str(body.get("model", ""))]}
    if path not in CONVERSATIONS:
        return facts
    messages = filter(_is_system, _dicts(body.get(_CONTENT[path])))
    prompts = [body.get("system"), body.get("instructions"), *(message.get("content") for message in messages)]
    tools = [tool.get("function", tool) for tool in body.get("tools") or () if isinstance(tool, dict)]
    return {
        **facts,
        "system": ["\n".join(text for prompt in prompts if (text := _text(prompt)))],
        "offers": [str(tool.get("name") or tool.get("type")) for tool in tools if isinstance(tool, dict)],
    }


def with_ids(path: str, request: Mapping[str, Any], reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply with the fields that clients expect in addition to the content. Ids of replies and calls differ
    between requests, because states of graphs hold one message per id."""
    identity = digest(json.dumps(request))[:24]
    whole = copy.deepcopy(dict(reply))
    messages = [choice.get("message") or {} for choice in _dicts(whole.get("choices"))]
    give_ids([*messages, *_dicts(whole.get("output")), whole], identity)
    if path == EMBEDDINGS and request.get("encoding_format") == "base64":
        for item in _dicts(whole.get("data")):
            if isinstance(item.get("embedding"), list):
                item["embedding"] = _bytes_of(item["embedding"])
    return {**whole, "id": f"reply_{identity}", "created": 0, "created_at": 0, "usage": _USAGE[path]}


def _bytes_of(embedding: Sequence[float]) -> str:
    """An embedding as OpenAI's clients ask for it."""
    return base64.b64encode(struct.pack(f"<{len(embedding)}f", *embedding)).decode()


def give_ids(messages: Sequence[dict[str, Any]], identity: str) -> None:
    """Give the calls of a reply ids that no other reply has: agents may leave earlier calls out of a request, and some
    refuse an id that they know.

    Args:
        messages: of the reply; changed.
        identity: of its request.
    """
    for number, (holder, key) in enumerate(_ids(messages)):
        holder[key] = f"call_{identity}_{number}"


def with_numbers(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages whose calls have numbers in place of ids, in the order in which they come."""
    numbered, numbers = copy.deepcopy(list(messages)), dict[str, int]()
    for holder, key in _ids(numbered):
        holder[key] = f"call_{numbers.setdefault(str(holder[key]), len(numbers))}"
    return numbered


def _ids(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the places of the ids of calls in messages of any of the APIs."""
    for message in messages:
        blocks = _dicts(message.get("content"))
        holders = [message, *_dicts(message.get("tool_calls")), *blocks]
        for holder in holders:
            for key in ("call_id", "tool_call_id", "tool_use_id"):
                if isinstance(holder.get(key), str):
                    yield holder, key
            if isinstance(holder.get("id"), str) and ("function" in holder or holder.get("type") == "tool_use"):
                yield holder, "id"


class PassingError(UnansweredError):
    """A server is away or busy; a later request may get a reply."""


ask_again: Any = retry(
    retry=retry_if_exception_type(PassingError),
    wait=wait_random_exponential(max=20),
    stop=stop_after_attempt(4),
    reraise=True,
)
"""Decorates a coroutine function that sends a request."""


def reply_in(host: str, status: int, body: bytes, content: Any) -> dict[str, Any]:
    """Return the reply of a server, without the parts that differ from call to call.

    Args:
        host: name of the server in messages.
        status: of HTTP.
        body: as it came.
        content: the request's messages or texts.

    Raises:
        PassingError: the server is busy.
        UnansweredError: the body is not a reply.
    """
    if status != 200:
        said = f"{host}: HTTP {status}: {shortened(body.decode(errors='replace'), 200)}"
        raise (PassingError if status == 429 or status >= 500 else UnansweredError)(said)
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        raise UnansweredError(f"{host}: the reply is no JSON object")
    return _stable(reply, content)


def _stable(reply: Mapping[str, Any], content: Any) -> dict[str, Any]:
    """A reply whose random ids are numbers."""
    stable = {name: value for name, value in reply.items() if name not in _PASSING}
    for choice in _dicts(stable.get("choices")):
        renumbered(_dicts((choice.get("message") or {}).get("tool_calls")), "id", content)
    items = _dicts(stable.get("output"))
    renumbered([item for item in items if "call_id" in item], "call_id", content)
    for number, item in enumerate(items, start=len(content)):
        if item.get("type") != "reasoning" and "id" in item:
            item["id"] = f"{'msg' if item.get('type') == 'message' else 'fc'}_{number}"
    blocks = _dicts(stable.get("content"))
    renumbered([block for block in blocks if block.get("type") == "tool_use"], "id", content)
    return stable


def _without_number(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without the placeholder id that its server would not know."""
    if "type" in message and _NUMBERED.fullmatch(str(message.get("id", ""))):
        return {name: value for name, value in message.items() if name != "id"}
    return message


def _is_system(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("system", "developer")


def _dicts(value: Any) -> Sequence[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Return the text of a prompt, which may be split into parts."""
    if isinstance(value, str):
        return value
    return "\n".join(str(part.get("text", "")) for part in _dicts(value))


def renumbered(calls: Sequence[dict[str, Any]], key: str, before: Any) -> None:
    """Give the calls that a model made ids that count on from those in its request, in place of random ones.

    Args:
        calls: of its output; changed.
        key: under which a call has its id.
        before: the request's messages.
    """
    number = canonical(before).count(f'"{key}"')
    for place, call in enumerate(calls):
        call[key] = f"call_{number + place}"
