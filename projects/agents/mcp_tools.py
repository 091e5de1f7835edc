"""The assistant's tools as an MCP server."""

import asyncio

from assistant import TOOLS, look_up
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def list_tools(context: object, params: object) -> types.ListToolsResult:
    reads = types.ToolAnnotations(read_only_hint=True)
    tools = [
        types.Tool(name=function["name"], input_schema=function["parameters"], annotations=reads) for function in TOOLS
    ]
    return types.ListToolsResult(tools=tools)


async def call_tool(context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = look_up(params.name, params.arguments or {})
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def main() -> None:
    server = Server("tools", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
