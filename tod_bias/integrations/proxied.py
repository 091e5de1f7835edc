"""Agents in any language, as commands and servers: their requests to language models go through the proxy.

A request is a call of a stage, which sends it to the *upstream* server with the user's own key, which the agent never
sees.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tod_bias.errors import FOREIGN, StageError, TodBiasError, UnansweredError, shortened
from tod_bias.integrations.adapter import Adapter, Match
from tod_bias.integrations.model_apis import KINDS, check_texts, facts_of, request_of
from tod_bias.integrations.processes import ProcessPool, new_key, response_in
from tod_bias.integrations.proxy import Proxy, ProxyTurn, current_turn
from tod_bias.integrations.upstream import LoopClient, Upstream
from tod_bias.systems.hosted import AgentRequest, ask

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from tod_bias.integrations.mcp import McpServer

STDIO = (sys.executable, "-I", "-S", str(Path(__file__).parent / "mcp_stdio.py"))
"""Command that replaces an MCP server that is a command; it starts fast, because it imports no packages."""
_FORWARDED_HEADERS = ("anthropic-version", "anthropic-beta")
"""Headers that decide replies."""


class ProxiedAgent(Protocol):
    """An agent elsewhere."""

    mcp_urls: Callable[[str], dict[str, str]]
    """An agent's key to the addresses of MCP servers by name."""

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
            variables = upstream.without_key(os.environ)
            direct = {
                name: ",".join(filter(None, (variables.get(name), "127.0.0.1"))) for name in ("NO_PROXY", "no_proxy")
            }
            return {
                **variables,
                **direct,
                "PYTHONUNBUFFERED": "1",
                **Proxy.current().environment(key),
                **self._tools(key),
            }

        self.mcp_urls: Callable[[str], dict[str, str]] = lambda key: {}
        self._pool = ProcessPool(command, folder, environment)

    def _tools(self, key: str) -> dict[str, str]:
        variables = {}
        for name, url in self.mcp_urls(key).items():
            variables[f"MCP_{name.upper()}_URL"] = url
            variables[f"MCP_{name.upper()}_COMMAND"] = shlex.join([*STDIO, url])
        return variables

    async def respond(self, messages: list[dict[str, Any]], turn: ProxyTurn) -> str:
        """Return the response of one of the processes; a process that does not end its turn is replaced."""
        turns = Proxy.current().turns
        process = await self._pool.take()
        turns[process.key] = turn
        try:
            response = await process.respond(messages)
        except BaseException:
            self._pool.drop(process)
            Proxy.current().servers.pop(process.key, None)
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
        self.mcp_urls: Callable[[str], dict[str, str]] = lambda key: {}
        self._client = LoopClient()

    async def respond(self, messages: list[dict[str, Any]], turn: ProxyTurn) -> str:
        """Its response."""
        proxy, key = Proxy.current(), new_key()
        proxy.turns[key] = turn
        body = {"messages": messages, "base_url": f"{proxy.url}/v1", "api_key": key, "mcp": self.mcp_urls(key)}
        try:
            status, content = await self._client.post(self.name, body, {"authorization": f"Bearer {key}"})
        finally:
            del proxy.turns[key]
            proxy.servers.pop(key, None)
        if status != 200:
            said = shortened(content.decode(errors="replace").strip(), 120)
            raise UnansweredError(f"{self.name}: HTTP {status}{f': {said}' if said else ''}")
        return response_in(content, self.name)


class ProxyAdapter(Adapter):
    """An agent elsewhere; see :class:`~tod_bias.integrations.adapter.Adapter`.

    Args:
        agent: its address or command.
        stages: stage to the requests that belong to it: patterns of ``model``, ``system`` (the system prompt),
            ``offers`` (a tool that the request offers); stage to calls of MCP servers: patterns of ``tool`` and
            ``server``; or the ``kind`` ``model``, ``embedding``, ``moderation`` or ``tool``; all must fit.
        upstream: where its requests are sent.
        servers: MCP servers that it reaches over the proxy, by name.

    Raises:
        StageError: a stage matches nothing, or two servers have a tool of the same name.
    """

    framework = "proxy"
    facts = ("kind", "model", "system", "offers", "tool", "server")
    settle = 0.005

    def __init__(
        self,
        agent: ProxiedAgent,
        stages: Mapping[str, Match],
        upstream: Upstream,
        servers: Mapping[str, McpServer] | None = None,
    ) -> None:
        servers = servers or {}
        self.servers: dict[str, McpServer] = {}
        for server in servers.values():
            if shared := sorted(self.servers.keys() & server.tools):
                raise StageError(f"mcp: two servers have a tool {shared[0]!r}; rename it in one")
            self.servers |= dict.fromkeys(server.tools, server)
        self.known = {"kind": [*KINDS, *(["tool"] if servers else [])], **{fact: ["*"] for fact in self.facts[1:4]}}
        self.known |= {"tool": [*self.servers], "server": [*servers]}
        super().__init__(agent, stages, {})
        for server in servers.values():
            server.check({tool: self.stage_of(kind="tool", tool=tool, server=server.name) for tool in server.tools})
        if servers:
            from tod_bias.integrations.mcp import McpRelays

            agent.mcp_urls = McpRelays(servers, self.call_server).urls
        self._upstream = upstream
        self.seen: list[dict[str, list[str]]] | None = None
        """Facts that stages can match of each request and call, if they are collected."""

    def kind_of(self, stage: str, match: Match) -> str:
        """Return ``"model"``: every call through the proxy is a model's."""
        return "model"

    def _signature(self) -> str:
        """Signature of the server; requests hold everything else that determines outputs."""
        return f"proxy {' '.join(self._upstream.addresses)}"

    async def run(self, messages: list[dict[str, Any]]) -> str:
        """The agent's response."""
        turn = ProxyTurn(self.reply)
        try:
            response: str = await self.agent.respond(messages, turn)
        except TodBiasError as error:
            raise turn.error or type(error)(self._upstream.clean(str(error))) from None
        if turn.error is not None:
            raise turn.error
        return response

    async def call_server(self, server: McpServer, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Return the result of a tool to the agent."""
        turn = current_turn()
        if turn is None:
            raise UnansweredError(f"{tool}: called outside of a turn")
        if self.seen is not None:
            self.seen.append({"kind": ["tool"], "server": [server.name], "tool": [tool]})
        try:
            stage = self.stage_of(kind="tool", tool=tool, server=server.name)
            return await server.ask(stage, tool, arguments)
        except FOREIGN as error:
            raise turn.fail(error) from None

    async def reply(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        """Return the reply of a model to a request of the agent."""
        facts = facts_of(path, body)
        if self.seen is not None:
            self.seen.append(facts)
        passed_on = {name: headers[name] for name in _FORWARDED_HEADERS if name in headers}
        request = request_of(path, body, **({"headers": passed_on} if passed_on else {}))
        stage = next((stage for stage, match in self.stages.items() if _fits(facts, match)), None)
        if stage is None:
            return await self.call_model(request)
        check_texts(path, request)
        return await ask(stage, request)

    async def call_model(self, request: AgentRequest) -> Any:
        """Return the reply of the upstream server."""
        return await self._upstream.reply_to(request)


def _fits(facts: Mapping[str, Sequence[str]], match: Match) -> bool:
    return all(any(fnmatchcase(value, pattern) for value in facts.get(fact, ())) for fact, pattern in match.items())
