"""The requests of an OpenAI client as a stage of a hosted function."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2

from tod_bias.integrations.events import encoded_reply
from tod_bias.integrations.model_apis import (
    CONVERSATIONS,
    PassingError,
    ask_again,
    body_of,
    path_of,
    reply_in,
    request_of,
)
from tod_bias.systems.hosted import AgentRequest, ask, ask_from_thread, is_hosted

MODEL = "model"
"""The stage of all requests that go through :func:`client_transport`."""
_held: dict[str, tuple[httpx2.Request, Any]] = {}
"""A request with its address and headers, and what sends it, by what is fixed of its body."""


class client_transport(httpx2.BaseTransport, httpx2.AsyncBaseTransport):  # noqa: N801  # used like a function
    """Makes the requests of an OpenAI client the stage ``model`` of a hosted function; others are sent as they are.

    ``OpenAI(http_client=httpx2.Client(transport=client_transport()))``, and so with ``AsyncOpenAI`` and
    ``httpx2.AsyncClient``: chat completions and Responses, streamed (in one piece) and not.

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
        return _response(request, ask_from_thread(MODEL, agent_request))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of an async client."""
        self._inner = self._inner or httpx2.AsyncHTTPTransport()
        agent_request = _request_of(request, self._inner) if is_hosted() else None
        if agent_request is None:
            return await self._inner.handle_async_request(request)
        return _response(request, await ask(MODEL, agent_request))


def _request_of(request: httpx2.Request, inner: Any) -> AgentRequest | None:
    """Split a request into what is rewritten and what is not; None if it is not to a model."""
    path = path_of(request.url.path)
    if path not in CONVERSATIONS:
        return None
    agent_request = request_of(path, json.loads(request.read()), url=str(request.url))
    _held[agent_request.fixed] = (request, inner)
    return agent_request


async def reply_to(agent_request: AgentRequest) -> Any:
    """The server's reply, without what differs from request to request."""
    request, inner = _held[agent_request.fixed]
    body, _ = body_of(agent_request)
    headers = {name: value for name, value in request.headers.items() if name != "content-length"}
    request = httpx2.Request(request.method, request.url, headers=headers, json=body)
    return await _sent(request, inner, agent_request.content)


@ask_again
async def _sent(request: httpx2.Request, inner: Any, content: Any) -> dict[str, Any]:
    try:
        if isinstance(inner, httpx2.BaseTransport):
            response = await asyncio.to_thread(inner.handle_request, request)
            body = await asyncio.to_thread(response.read)
        else:
            response = await inner.handle_async_request(request)
            body = await response.aread()
    except httpx2.TransportError as error:
        raise PassingError(f"{request.url.host}: {str(error) or type(error).__name__}") from None
    return reply_in(request.url.host, response.status_code, body, content)


def _response(request: httpx2.Request, reply: dict[str, Any]) -> httpx2.Response:
    path = path_of(request.url.path) or ""
    kind, content = encoded_reply(path, json.loads(request.content), reply)
    return httpx2.Response(200, headers={"content-type": kind}, content=content)
