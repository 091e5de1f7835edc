"""The proxy: a server on this machine for the requests that agents in any language make to language models.

An agent gets the server's address and a key, which says to which of its turns a request belongs.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from tod_bias.errors import FOREIGN, TodBiasError, UnansweredError, described
from tod_bias.integrations.events import encoded_reply
from tod_bias.integrations.model_apis import LARGEST, PATHS, path_of

_KEEP_ALIVE = 600
"""Seconds that a client may leave a connection open."""
_MCP = "/mcp/"
_ROUTES = "POST " + ", ".join(f"/v1{path}" for path in PATHS)


@dataclass(eq=False)
class ProxyTurn:
    """A turn of an agent whose requests arrive by a key."""

    reply: Callable[[str, dict[str, Any], Mapping[str, str]], Awaitable[Any]]
    """Reply to a request, given the path of its API, its body and headers."""
    context: Context = field(default_factory=copy_context)
    """Context in which the turn calls stages."""
    error: TodBiasError | None = None
    """Reason for which a request got no reply."""

    def __post_init__(self) -> None:
        self.context.run(_TURN.set, self)

    def fail(self, error: BaseException) -> TodBiasError:
        """Record why the turn cannot end."""
        known = error if isinstance(error, TodBiasError) else UnansweredError(described(error))
        self.error = self.error or known
        return known


_TURN: ContextVar[ProxyTurn | None] = ContextVar("tod_bias_proxy_turn", default=None)


def current_turn() -> ProxyTurn | None:
    """The turn to which the code that runs here belongs."""
    return _TURN.get()


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
        self.servers: dict[str, Mapping[str, Callable[..., Awaitable[None]]]] = {}
        """ASGI applications that replace MCP servers, by an agent's key and the server's name."""
        # With its protocol named, as asyncio sends small parts at once (TCP_NODELAY) on such sockets only.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
            "OPENAI_API_BASE": f"{self.url}/v1",  # its former name, which LlamaIndex and LangChain read
            "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": key,
        }

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            return
        if scope["path"].startswith(_MCP):
            await self._serve_tools(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            turn = self._turn_of(headers)
            path = path_of(scope["path"])
            if path is None or scope["method"] != "POST":
                raise _RefusedError(404, f"{scope['method']} {scope['path'][:100]}: the proxy serves {_ROUTES}")
            body = await _body(receive)
            reply = await self.loop.create_task(self._reply(turn, path, body, headers), context=turn.context)
            await _respond(send, 200, *encoded_reply(path, body, reply))
        except _RefusedError as error:
            content = {"type": "error", "error": {"type": "invalid_request_error", "message": str(error)}}
            await _respond(send, error.status, "application/json", json.dumps(content).encode())

    async def _serve_tools(self, scope: Any, receive: Any, send: Any) -> None:
        key, _, name = scope["path"].removeprefix(_MCP).partition("/")
        server = self.servers.get(key, {}).get(name)
        if server is None:
            await _respond(send, 404, "text/plain", b"there is no such MCP server; its address is MCP_NAME_URL")
            return
        turn = self.turns.get(key)
        context = Context() if turn is None else turn.context
        await self.loop.create_task(server(scope, receive, send), context=context)  # type: ignore[arg-type]

    def address_of(self, key: str, server: str) -> str:
        """Return the address at which an agent reaches the replacement of an MCP server."""
        return f"{self.url}{_MCP}{key}/{server}"

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
            reply = await turn.reply(path, body, headers)
            if not isinstance(reply, dict):
                raise UnansweredError(f"a stage returned no reply but {type(reply).__name__}")
            return reply
        except asyncio.CancelledError:
            raise _RefusedError(400, "this turn was left out") from None
        except FOREIGN as error:
            raise _RefusedError(400, str(turn.fail(error))) from None


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


async def _respond(send: Any, status: int, kind: str, body: bytes) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
