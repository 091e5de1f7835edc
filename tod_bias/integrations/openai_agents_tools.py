"""Tools of the OpenAI Agents SDK, its own and those of MCP servers, whose calls are calls of stages."""

from __future__ import annotations

import copy
from typing import Any

from agents.mcp import MCPServer
from mcp.types import CallToolResult, Tool

from agents import FunctionTool
from tod_bias.integrations.adapter import Adapter, tool_call
from tod_bias.integrations.mcp_servers import McpServer
from tod_bias.systems.hosted import ask


def hosted_tool(adapter: Adapter, agent: str, tool: FunctionTool) -> FunctionTool:
    """A copy of a tool of an agent that asks its stage; the tool itself where it belongs to none."""
    stage = adapter.stage_of(kind="tool", tool=tool.name, agent=agent)
    if stage is None:
        return tool
    hosted, invoke = copy.copy(tool), tool.on_invoke_tool

    async def call(context: Any, arguments: str) -> Any:
        made = tool_call(tool.name, arguments)
        return await (invoke(context, arguments) if made is None else ask(stage, made))

    hosted.on_invoke_tool = call
    return hosted


def hosted_server(adapter: Adapter, agent: str, server: MCPServer, seen: McpServer) -> MCPServer:
    """A copy of an agent's MCP server whose tools ask their stages.

    Args:
        adapter: of the agent.
        agent: its name.
        server: the agent's.
        seen: the same server, as its tools were listed.
    """
    facts = {"kind": "tool", "agent": agent, "server": server.name}
    stages = {tool: adapter.stage_of(tool=tool, **facts) for tool in seen.tools}
    seen.check(stages)

    async def list_tools(context: Any = None, agent: Any = None) -> list[Tool]:
        return await server._apply_tool_filter(list(seen.tools.values()), context, agent)

    async def call_tool(name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        return await seen.ask(stages[name], name, arguments or {})

    hosted = copy.copy(server)
    hosted.list_tools, hosted.call_tool = list_tools, call_tool  # type: ignore[method-assign, assignment]
    return hosted
