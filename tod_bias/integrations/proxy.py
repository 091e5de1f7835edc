"""Agents in any language: their requests to language models go through a server on this machine.

An agent gets the server's address and a key. The key says which turn a request belongs to; the request is a call of a
stage, which sends it to the *upstream* server with the user's own key, which the agent never sees.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import weakref
from collections.abc import Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

import httpx2
import uvicorn

from tod_bias.errors import FOREIGN, StageError, TodBiasError, UnansweredError, described
from tod_bias.integrations.adapter import Adapter, Match
from tod_bias.integrations.events import event_stream
from tod_bias.integrations.model_apis import (
    ANTHROPIC,
    LARGEST,
    PATHS,
    body_of,
    facts_of,
    path_of,
    read,
    request_of,
    sent,
    with_ids,
)
from tod_bias.integrations.processes import ProcessPool, new_key, response_in
from tod_bias.systems.chat.settings import ChatSettings
from tod_bias.systems.hosted import AgentRequest, ask

_KEPT_HEADERS = ("anthropic-version", "anthropic-beta")
"""Headers that decide replies."""
_SHORTEST_SECRET = 12
"""Characters; a shorter key (``local``, ``test``) is a word that a reply may hold."""
_LONGEST_REPLY = 120.0
"""Seconds until a reply of the upstream server is given up."""
_CONNECTING = 10.0
"""Seconds until a server counts as away."""
_KEEP_ALIVE = 600
"""Seconds that a client may leave a connection open."""
_ROUTES = ", ".join(f"POST /v1{path}" for path in PATHS)


@dataclass(eq=False)
class ProxyTurn:
    """A turn of an agent whose requests arrive by a key."""

    adapter: ProxyAdapter
    context: Context = field(default_factory=copy_context)
    """In which its calls of stages are made."""
    error: TodBiasError | None = None
    """Why a request got no reply."""


class _RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Proxy:
    """The server, on the event loop of hosted agents; it listens to this machine alone."""

    _current: Proxy | None = None

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.turns: dict[str, ProxyTurn] = {}
        """Turns under way, by the key of their agent."""
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=_KEEP_ALIVE,
            server_header=False,
            proxy_headers=False,
        )
        listening.listen(config.backlog)
        self._serving = self.loop.create_task(uvicorn.Server(config).serve(sockets=[listening]))

    @classmethod
    def current(cls) -> Proxy:
        """The one of the running event loop."""
        if cls._current is None or cls._current.loop is not asyncio.get_running_loop():
            cls._current = cls()
        return cls._current

    def environment(self, key: str) -> dict[str, str]:
        """The variables by which clients find the server."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": key,
        }

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            turn = self._turn_of(headers)
            path = path_of(scope["path"])
            if path is None or scope["method"] != "POST":
                raise _RefusedError(404, f"{scope['method']} {scope['path'][:100]}: the proxy serves {_ROUTES}")
            body = await _body(receive)
            reply = await self.loop.create_task(self._reply(turn, path, body, headers), context=turn.context)
            await _respond(send, 200, *_encoded(path, body, reply))
        except _RefusedError as error:
            content = {"type": "error", "error": {"type": "invalid_request_error", "message": str(error)}}
            await _respond(send, error.status, "application/json", json.dumps(content).encode())

    def _turn_of(self, headers: Mapping[str, str]) -> ProxyTurn:
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ").strip()
        turn = self.turns.get(key)
        if turn is None:
            raise _RefusedError(
                401, "the key is of no turn that an agent is in now; use the OPENAI_API_KEY of the agent's environment"
            )
        return turn

    async def _reply(self, turn: ProxyTurn, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> Any:
        try:
            reply = await turn.adapter.reply(path, body, headers)
            if not isinstance(reply, dict):
                raise UnansweredError(f"a stage returned no reply but {type(reply).__name__}")
            return reply
        except asyncio.CancelledError:
            raise _RefusedError(400, "this turn was left out") from None
        except FOREIGN as error:
            known = error if isinstance(error, TodBiasError) else UnansweredError(described(error))
            turn.error = turn.error or known
            raise _RefusedError(400, str(known)) from None


async def _body(receive: Any) -> dict[str, Any]:
    """The JSON object in a request."""
    data, more = bytearray(), True
    while more:
        message = await receive()
        data += message.get("body", b"")
        more = message.get("more_body", False)
        if len(data) > LARGEST:
            raise _RefusedError(413, f"the request is longer than {LARGEST >> 20} MB")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise _RefusedError(400, "the request is no JSON object")
    return body


def _encoded(path: str, body: Mapping[str, Any], reply: Mapping[str, Any]) -> tuple[str, bytes]:
    whole = with_ids(path, reply)
    if not body.get("stream"):
        return "application/json", json.dumps(whole).encode()
    return "text/event-stream", event_stream(path, whole, body.get("stream_options"))


async def _respond(send: Any, status: int, kind: str, body: bytes) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Client:
    """An HTTP client for any number of requests at once, made anew where the event loop is another."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def of_loop(self) -> httpx2.AsyncClient:
        """The one of the running event loop."""
        if self._loop is not asyncio.get_running_loop():
            self._loop = asyncio.get_running_loop()
            self._made = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=None), **self._options)
            weakref.finalize(self, _close, self._loop, self._made).atexit = False
        return self._made


def _close(loop: asyncio.AbstractEventLoop, client: httpx2.AsyncClient) -> None:
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(client.aclose(), loop)


class Upstream:
    """The server that an agent's requests are sent to.

    Args:
        base_url: up to and with ``/v1``.
        api_key_env: the environment variable that holds the key; None for a server that wants none.

    Raises:
        StageError: the address can be none, or the variable is not set.
    """

    def __init__(self, base_url: str, api_key_env: str | None = None) -> None:
        given = {"base_url": base_url, **({} if api_key_env is None else {"api_key_env": api_key_env})}
        try:
            settings = ChatSettings.of({"model": "upstream", **given})
            self._key = settings.key
        except StageError as error:
            raise StageError(f"upstream: {error}") from None
        self.base_url, self._key_env = settings.base_url, api_key_env
        self._client = _Client(timeout=httpx2.Timeout(_LONGEST_REPLY, connect=_CONNECTING))

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("it holds a key and is not stored")

    def clean(self, text: str) -> str:
        """A text without the key."""
        return text.replace(self._key, "***") if len(self._key) >= _SHORTEST_SECRET else text

    def without_key(self, environment: Mapping[str, str]) -> dict[str, str]:
        """An environment without the key."""
        return {
            name: value
            for name, value in environment.items()
            if name != self._key_env and not (self._key and (value == self._key or self.clean(value) != value))
        }

    async def reply_to(self, request: AgentRequest) -> dict[str, Any]:
        """The server's reply."""
        client = self._client.of_loop
        body, fixed = body_of(request)
        headers = dict(fixed.get("headers", {}))
        if self._key:
            headers |= (
                {"x-api-key": self._key} if fixed["path"] == ANTHROPIC else {"authorization": f"Bearer {self._key}"}
            )
        made = client.build_request("POST", self.base_url + fixed["path"], headers=headers, json=body)
        try:
            reply = await sent(fixed["path"], made, client, request.content)
        except httpx2.HTTPError as error:
            raise UnansweredError(self.clean(f"{made.url.host}: {str(error) or type(error).__name__}")) from None
        except UnansweredError as error:
            raise UnansweredError(self.clean(str(error))) from None
        whole: dict[str, Any] = json.loads(self.clean(json.dumps(reply)))
        return whole


class ProxiedAgent(Protocol):
    """An agent elsewhere."""

    async def respond(self, messages: list[dict[str, Any]], turn: ProxyTurn) -> str:
        """Its response; while it makes it, the turn's requests arrive."""


class CommandAgent:
    """An agent that is a command: a pool of processes, each of which serves one turn at a time.

    Args:
        command: that starts a process.
        folder: where it runs.
        upstream: whose key its environment must not hold.
    """

    def __init__(self, command: str, folder: Path, upstream: Upstream) -> None:
        self.name = command

        def environment(key: str) -> dict[str, str]:
            own = upstream.without_key(os.environ)
            direct = {name: ",".join(filter(None, (own.get(name), "127.0.0.1"))) for name in ("NO_PROXY", "no_proxy")}
            return {**own, **direct, "PYTHONUNBUFFERED": "1", **Proxy.current().environment(key)}

        self._pool = ProcessPool(command, folder, environment)

    async def respond(self, messages: list[dict[str, Any]], turn: ProxyTurn) -> str:
        """The response of one of its processes; one that does not come to its end is replaced."""
        turns = Proxy.current().turns
        process = await self._pool.take()
        turns[process.key] = turn
        try:
            response = await process.respond(messages)
        except BaseException:
            self._pool.drop(process)
            raise
        finally:
            del turns[process.key]
        self._pool.give_back(process)
        return response


class UrlAgent:
    """An agent that is a server of the user's on this machine, which gets the address and the key with each turn.

    Args:
        url: where turns are posted.
    """

    def __init__(self, url: str) -> None:
        if not re.match(r"https?://[^/\s]", url):
            raise StageError(f"url: expected an address such as http://localhost:8000/turn, got {url!r:.100}")
        self.name = url
        self._client = _Client(timeout=httpx2.Timeout(None, connect=_CONNECTING))

    async def respond(self, messages: list[dict[str, Any]], turn: ProxyTurn) -> str:
        """Its response."""
        proxy, key = Proxy.current(), new_key()
        proxy.turns[key] = turn
        body = {"messages": messages, "base_url": f"{proxy.url}/v1", "api_key": key}
        try:
            request = self._client.of_loop.build_request(
                "POST", self.name, json=body, headers={"authorization": f"Bearer {key}"}
            )
            response = await self._client.of_loop.send(request, stream=True)
            content = await read(response)
        except httpx2.HTTPError as error:
            raise UnansweredError(f"{self.name}: {str(error) or type(error).__name__}") from None
        finally:
            del proxy.turns[key]
        if response.status_code != 200:
            raise UnansweredError(f"{self.name}: HTTP {response.status_code}")
        return response_in(content, self.name)


class ProxyAdapter(Adapter):
    """An agent elsewhere; see :class:`~tod_bias.integrations.adapter.Adapter`.

    Args:
        agent: where it is.
        stages: stage to the requests that belong to it: patterns of ``model``, ``system`` (the system prompt),
            ``tool`` (one that the request offers), or the ``kind`` ``model``; all must fit.
        upstream: where its requests are sent.
    """

    framework = "proxy"
    facts = ("kind", "model", "system", "tool")
    settle = 0.005

    def __init__(self, agent: ProxiedAgent, stages: Mapping[str, Match], upstream: Upstream) -> None:
        super().__init__(agent, stages, {})
        self._upstream = upstream
        self.seen: list[dict[str, list[str]]] | None = None
        """What stages can match of each request, for who wants to see it."""

    def names(self) -> Mapping[str, Sequence[str] | None]:
        """Kinds; models, prompts and tools show when requests come."""
        return {"kind": ["model"], **dict.fromkeys(self.facts[1:])}

    def _signature(self) -> str:
        """Of the server; requests hold all else that decides outputs."""
        return f"proxy {self._upstream.base_url}"

    async def run(self, messages: list[dict[str, Any]]) -> str:
        """The agent's response."""
        turn = ProxyTurn(self)
        try:
            response: str = await self.agent.respond(messages, turn)
        except TodBiasError as error:
            raise turn.error or type(error)(self._upstream.clean(str(error))) from None
        if turn.error is not None:
            raise turn.error
        return response

    async def reply(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        """What a model replies to a request of the agent."""
        facts = facts_of(path, body)
        if self.seen is not None:
            self.seen.append(facts)
        rest = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
        kept = {name: headers[name] for name in _KEPT_HEADERS if name in headers}
        request = request_of(path, rest, **({"headers": kept} if kept else {}))
        stage = next((stage for stage, match in self.stages.items() if _fits(facts, match)), None)
        return await (self.call_model(request) if stage is None else ask(stage, request))

    async def call_model(self, request: AgentRequest) -> Any:
        """What the upstream server replies."""
        return await self._upstream.reply_to(request)


def _fits(facts: Mapping[str, Sequence[str]], match: Match) -> bool:
    return all(any(fnmatchcase(value, pattern) for value in facts[fact]) for fact, pattern in match.items())
