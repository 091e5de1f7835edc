"""What agents elsewhere connect to in place of an MCP server: the same tools, whose calls are calls of stages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, Tool

from tod_bias.integrations.mcp_servers import McpServer
from tod_bias.integrations.proxy import Proxy

Call = Callable[[str, Mapping[str, Any]], Awaitable[CallToolResult]]
"""Calls a tool by its name and arguments."""


def server_of(name: str, tools: Sequence[Tool], call: Call) -> Server[Any]:
    """A server with some tools, and what they do."""

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=list(tools))

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        return await call(params.name, params.arguments or {})

    return Server(name, on_list_tools=list_tools, on_call_tool=call_tool)


class McpRelay:
    """A server over HTTP, as an ASGI application; no request depends on one before.

    Args:
        name: of the server in whose place it is.
        tools: that it lists.
        call: makes a call, in the context of the request.
    """

    def __init__(self, name: str, tools: Sequence[Tool], call: Call) -> None:
        server = server_of(name, tools, call)
        self._manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
        self._ready = asyncio.Event()
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await asyncio.Event().wait()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        await self._ready.wait()
        await self._manager.asgi_app(scope, receive, send)


class McpRelays:
    """What stands in place of some MCP servers.

    Args:
        servers: by name.
        call: makes a call of a server's tool, by its name and arguments.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        call: Callable[[McpServer, str, Mapping[str, Any]], Awaitable[CallToolResult]],
    ) -> None:
        self._servers, self._call = servers, call
        self._made: dict[str, McpRelay] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def urls(self, key: str) -> dict[str, str]:
        """Their addresses for an agent with a key, by name."""
        if self._loop is not asyncio.get_running_loop():
            self._loop = asyncio.get_running_loop()
            self._made = {
                name: McpRelay(name, list(server.tools.values()), partial(self._call, server))
                for name, server in self._servers.items()
            }
        proxy = Proxy.current()
        proxy.servers[key] = self._made
        return {name: proxy.address_of(key, name) for name in self._made}
