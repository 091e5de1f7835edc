"""The requests of an OpenAI client as a stage of a hosted function."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tod_bias.errors import StageError, UnansweredError, shortened
from tod_bias.integrations.adapter import renumbered
from tod_bias.systems.hosted import AgentRequest, ask, ask_from_thread, is_hosted

MODEL = "model"
"""The stage of all requests that go through :func:`client_transport`."""
_MESSAGES = {"/chat/completions": "messages", "/responses": "input"}
_PASSING = ("id", "created", "created_at", "completed_at", "usage", "system_fingerprint", "service_tier")
_SERVER_HISTORY = ("previous_response_id", "conversation")
_held: dict[str, tuple[httpx2.Request, Any]] = {}
"""A request with its address and headers, and what sends it, by what is fixed of its body."""


class client_transport(httpx2.BaseTransport, httpx2.AsyncBaseTransport):  # noqa: N801  # used like a function
    """Makes the requests of an OpenAI client the stage ``model`` of a hosted function; others are sent as they are.

    ``OpenAI(http_client=httpx2.Client(transport=client_transport()))``, and so with ``AsyncOpenAI`` and
    ``httpx2.AsyncClient``: chat completions and Responses, not streamed.

    Args:
        inner: what sends requests; left out, HTTP.
    """

    def __init__(self, inner: httpx2.BaseTransport | httpx2.AsyncBaseTransport | None = None) -> None:
        self._inner: Any = inner

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of a plain client."""
        self._inner = self._inner or httpx2.HTTPTransport()
        agent_request = _request_of(request, self._inner) if is_hosted() else None
        if agent_request is None:
            return self._inner.handle_request(request)
        return _response(ask_from_thread(MODEL, agent_request))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of an async client."""
        self._inner = self._inner or httpx2.AsyncHTTPTransport()
        agent_request = _request_of(request, self._inner) if is_hosted() else None
        if agent_request is None:
            return await self._inner.handle_async_request(request)
        return _response(await ask(MODEL, agent_request))


def _request_of(request: httpx2.Request, inner: Any) -> AgentRequest | None:
    """What of a request is rewritten, and what is not; None of one that is for no model."""
    key = next((key for ending, key in _MESSAGES.items() if request.url.path.endswith(ending)), None)
    if key is None:
        return None
    body = json.loads(request.read())
    if body.get("stream") or any(body.get(name) for name in _SERVER_HISTORY):
        raise StageError("a request is streamed or has its history on the server: send all messages, not streamed")
    messages = body.pop(key)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    body["system"] = [message for message in messages if message.get("role") in ("system", "developer")]
    fixed = json.dumps({"url": str(request.url), **body}, ensure_ascii=False)
    _held[fixed] = (request, inner)
    return AgentRequest([message for message in messages if message not in body["system"]], fixed)


@retry(
    retry=retry_if_exception_type(httpx2.TransportError),
    wait=wait_random_exponential(max=20),
    stop=stop_after_attempt(4),
    reraise=True,
)
async def _sent(request: httpx2.Request, inner: Any) -> httpx2.Response:
    if isinstance(inner, httpx2.BaseTransport):
        response = await asyncio.to_thread(inner.handle_request, request)
        response.read()
    else:
        response = await inner.handle_async_request(request)
        await response.aread()
    if response.status_code == 429 or response.status_code >= 500:
        raise httpx2.TransportError(f"HTTP {response.status_code}: {shortened(response.text, 200)}")
    return response


async def reply_to(agent_request: AgentRequest) -> Any:
    """The server's reply, without what differs from request to request."""
    request, inner = _held[agent_request.fixed]
    body = json.loads(agent_request.fixed)
    del body["url"]
    key = next(key for ending, key in _MESSAGES.items() if request.url.path.endswith(ending))
    body[key] = [*body.pop("system"), *agent_request.content]
    headers = {name: value for name, value in request.headers.items() if name != "content-length"}
    response = await _sent(httpx2.Request(request.method, request.url, headers=headers, json=body), inner)
    if response.status_code != 200:
        raise UnansweredError(f"{request.url.host}: HTTP {response.status_code}: {shortened(response.text, 200)}")
    reply = {name: value for name, value in response.json().items() if name not in _PASSING}
    for choice in reply.get("choices", ()):
        renumbered(choice["message"].get("tool_calls") or (), "id", agent_request.content)
    renumbered(
        [item for item in reply.get("output", ()) if item["type"] == "function_call"], "call_id", agent_request.content
    )
    return reply


def _response(reply: dict[str, Any]) -> httpx2.Response:
    return httpx2.Response(200, json={**reply, "id": "reply", "created": 0, "created_at": 0})
