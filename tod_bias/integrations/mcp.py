"""Servers of the Model Context Protocol (MCP), whose tools are stages of an agent, and relays that replace the servers.

The output of a tool may depend on the calls before it: a basket holds the items that were put into it. A session is
therefore used only by calls that have the same calls before them in their turn. If there is no such session, a fresh
one is opened and makes those calls first. Tools that a server declares to be read-only (``readOnlyHint``) leave a
session as it is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, Tool

from tod_bias.dialogues.dialogue import arguments_of, flat_call
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import FOREIGN, StageError, described
from tod_bias.integrations.proxy import Proxy
from tod_bias.io.canonical import canonical
from tod_bias.systems.hosted import EventLoop, ask, current_run, is_hosted

log = logging.getLogger(__name__)

_IDLE_SESSIONS = 16
"""Sessions that are held open for later calls; of more, those that have waited longest are closed."""
_LONGEST_CALL = 120.0
"""Seconds that a tool may take."""
_CONNECTING = 60.0
"""Seconds that a server may take to list its tools."""
_RESULT = {"content", "structured_content", "is_error"}
"""Fields of a result that an agent receives; the other fields describe the server."""


class _Session:
    """Connection that its own task opens and closes, as the protocol's library requires."""

    def __init__(self) -> None:
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def open(self, target: Any) -> None:
        """Connect.

        Args:
            target: what :class:`mcp.Client` takes: an address, a command's parameters, or a transport.
        """
        self._task = asyncio.create_task(self._hold(target))
        self.client = await self._ready

    async def _hold(self, target: Any) -> None:
        try:
            async with Client(target, read_timeout_seconds=_LONGEST_CALL) as client:
                self._ready.set_result(client)
                await self._closing.wait()
        except FOREIGN as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                log.debug("MCP: %s", described(error))

    def close(self) -> None:
        """Let the connection go."""
        self._closing.set()


def command_target(command: str, folder: Path) -> StdioServerParameters:
    """Return the target of :class:`McpServer` for a server that is a command.

    Args:
        command: with its arguments, in shell syntax; no shell runs it.
        folder: where it runs.
    """
    try:
        program, *arguments = shlex.split(command)
    except ValueError as error:
        raise StageError(f"command {command!r}: expected a program and its arguments ({error})") from None
    return StdioServerParameters(command=program, args=arguments, env=dict(os.environ), cwd=folder)


class McpServer:
    """The tools of an MCP server, each call in a session that has seen the same calls before.

    Args:
        name: what stages and messages call it.
        connect: makes what :class:`mcp.Client` takes: an address, a command's parameters, or a transport.

    Raises:
        StageError: it cannot be reached.
    """

    def __init__(self, name: str, connect: Callable[[], Any]) -> None:
        if is_hosted():
            raise StageError(f"MCP server {name!r}: of an agent that is made in a run; name that agent in handoffs")
        self.name, self._connect = name, connect
        self._idle: list[tuple[str, _Session]] = []
        """Open sessions with the calls that they have seen, the one used last at the end."""
        try:
            listed = EventLoop.current().run(self._listed(), _CONNECTING)
        except TimeoutError:
            raise StageError(f"MCP server {name!r}: did not list its tools within {_CONNECTING:g} s") from None
        except FOREIGN as error:
            raise StageError(f"MCP server {name!r}: {described(error)}") from error
        self.tools: dict[str, Tool] = {tool.name: tool for tool in listed}
        self.writers = frozenset(
            tool.name for tool in listed if not (tool.annotations and tool.annotations.read_only_hint)
        )
        """Tools that may change what later calls return."""

    async def _listed(self) -> list[Tool]:
        session = await self._opened()
        page = await session.client.list_tools()
        tools = list(page.tools)
        while page.next_cursor:
            page = await session.client.list_tools(cursor=page.next_cursor)
            tools += page.tools
        self._keep_open(session, "[]")
        return tools

    def check(self, stages: Mapping[str, str | None]) -> None:
        """Check that calls that belong together are made in one session.

        Args:
            stages: the stage of each tool, or None.

        Raises:
            StageError: tools that change what others return are partly in stages and partly not.
        """
        declared = sorted(tool for tool in self.writers if stages[tool] is not None)
        if declared and (others := sorted(self.writers.difference(declared))):
            raise StageError(
                f"MCP server {self.name!r}: {declared[0]!r} is in a stage and {others[0]!r} is not, but either may "
                f"change what the other returns; put both into stages, such as {{'server': {self.name!r}}}, or declare "
                "readOnlyHint in the server"
            )

    async def ask(self, stage: str | None, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call the stage of a tool from within an agent, or the tool itself if it has no stage."""
        made = flat_call(name, arguments)
        if stage is not None:
            return CallToolResult.model_validate(await ask(stage, made))
        before = current_run().undeclared
        output = await self.call(name, arguments, before)
        before.append(made)
        return CallToolResult.model_validate(output)

    async def call(self, name: str, arguments: Mapping[str, Any], before: Sequence[Any]) -> Any:
        """Return the result of a tool, as the protocol's JSON.

        Args:
            name: the tool's.
            arguments: its arguments.
            before: arguments of the turn's calls before this one, of any stage.
        """
        seen = [call for call in before if isinstance(call, Mapping) and call.get(API_NAME) in self.writers]
        if (session := self._take(canonical(seen))) is not None:
            try:
                return await self._call(session, name, arguments, seen)
            except FOREIGN as error:  # servers end sessions that nobody has used for a while
                log.debug("MCP server %s: %s", self.name, described(error))
        return await self._call(await self._opened(seen), name, arguments, seen)

    async def _opened(self, seen: Sequence[Mapping[str, Any]] = ()) -> _Session:
        """A fresh session in which some calls are made."""
        session = _Session()
        try:
            await session.open(self._connect())
            for call in seen:
                await session.client.call_tool(call[API_NAME], arguments_of(call))
        except BaseException:
            session.close()
            raise
        return session

    async def _call(
        self, session: _Session, name: str, arguments: Mapping[str, Any], seen: list[Mapping[str, Any]]
    ) -> Any:
        try:
            result = await session.client.call_tool(name, dict(arguments))
        except BaseException:
            self._idle = [(key, other) for key, other in self._idle if other is not session]
            session.close()
            raise
        self._keep_open(session, canonical([*seen, flat_call(name, arguments)] if name in self.writers else seen))
        return result.model_dump(mode="json", by_alias=True, exclude_none=True, include=_RESULT)

    def _take(self, key: str) -> _Session | None:
        """An open session that has seen these calls; for the caller alone, where calls may change it."""
        for place, (seen, session) in enumerate(self._idle):
            if seen == key:
                del self._idle[place]
                if not self.writers:
                    self._idle.append((key, session))
                return session
        return None

    def _keep_open(self, session: _Session, key: str) -> None:
        """Hold a session for later calls."""
        if (key, session) not in self._idle:
            self._idle.append((key, session))
        for _, oldest in self._idle[:-_IDLE_SESSIONS]:
            oldest.close()
        del self._idle[:-_IDLE_SESSIONS]


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
    """Relays that replace some MCP servers.

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
