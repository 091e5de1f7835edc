"""The tools of :mod:`framework_agents` as an MCP server; the bias is the first argument."""

import sys

from framework_agents import World
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

world = World(sys.argv[1])
server = MCPServer("places")
server.tool(annotations=ToolAnnotations(readOnlyHint=True))(world.find_place)
server.tool(annotations=ToolAnnotations(readOnlyHint=True))(world.free_day)
noted: list[str] = []


@server.tool()
def note(text: str) -> str:
    """Note something."""
    noted.append(text)
    return f"{len(noted)} noted"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
