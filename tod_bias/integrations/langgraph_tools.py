"""Tool nodes of LangGraph whose tools are stages."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import Runnable
from langgraph.prebuilt import ToolNode

from tod_bias.errors import StageError
from tod_bias.integrations.adapter import Adapter, tool_call
from tod_bias.systems.hosted import ask

_FAILED = "failed with"
"""Under this name stands what a tool that failed says to the model."""


def hosted_tools(adapter: Adapter, node: ToolNode, agent: str) -> ToolNode:
    """A copy of a tool node of a graph whose tools ask their stages.

    Raises:
        StageError: a tool that belongs to a stage reads the graph's state.
    """
    inner, plain = node._awrap_tool_call, node._wrap_tool_call

    async def unstaged(request: Any, handler: Any) -> Any:
        assert inner is not None
        try:
            return await inner(request, handler)
        except NotImplementedError:  # see update_of
            if plain is None:
                raise
        loop = asyncio.get_running_loop()
        return await asyncio.to_thread(
            plain,
            request,
            lambda changed: asyncio.run_coroutine_threadsafe(handler(changed), loop).result(),
        )

    async def call(request: Any, handler: Any) -> Any:
        name = request.tool_call["name"]
        stage = adapter.stage_of(kind="tool", tool=name, agent=agent)
        made = tool_call(name, request.tool_call["args"])
        if stage is None or made is None:
            return await (handler(request) if inner is None else unstaged(request, handler))
        output = await ask(stage, made)
        has_failed = isinstance(output, dict) and output.keys() == {_FAILED}
        content, status = (output[_FAILED], "error") if has_failed else (output, "success")
        return ToolMessage(content, name=name, tool_call_id=request.tool_call["id"], status=status)

    for name, injected in node._injected_args.items():
        if injected.state and adapter.stage_of(kind="tool", tool=name, agent=agent) is not None:
            raise StageError(
                f"tool {name!r} reads the graph's state, which a call does not hold; make its node a stage: "
                f'{{"tools": {{"node": {node.name!r}}}}}'
            )
    tools, errors = list(node.tools_by_name.values()), node._handle_tool_errors
    return ToolNode(
        tools, name=node.name, handle_tool_errors=errors, messages_key=node._messages_key, awrap_tool_call=call
    )


async def update_of(node: Runnable[Any, Any], state: Any, config: Any) -> Any:
    """What a node returns; on a thread where middleware of ``create_agent`` cannot be awaited, as it is not async."""
    try:
        return await node.ainvoke(state, config)
    except NotImplementedError:
        return await asyncio.to_thread(node.invoke, state, config)


async def output_of(node: ToolNode, name: str, arguments: dict[str, Any], config: Any) -> Any:
    """The content of a tool's message; what :func:`hosted_tools` hands on as an error where the tool failed.

    Raises:
        StageError: the tool returns no message.
    """
    with_call = AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "call", "type": "tool_call"}])
    (message,) = await update_of(node, [with_call], config)
    if not isinstance(message, ToolMessage):
        raise StageError(f"tool {name!r}: returns a {type(message).__name__}; make its node a stage")
    return {_FAILED: message.content} if message.status == "error" else message.content
