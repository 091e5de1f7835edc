"""Tools of PydanticAI whose calls are calls of stages."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic_ai import ModelRetry, RunContext, RunUsage, ToolReturn
from pydantic_ai.toolsets import WrapperToolset
from pydantic_core import to_jsonable_python

from tod_bias.errors import StageError
from tod_bias.integrations.adapter import Adapter, place, tool_call
from tod_bias.systems.hosted import ask

_RETRY = "retry with"
"""Under this name stands the message of a tool that asks the model to call it otherwise."""
Held = tuple[Any, RunContext[Any], Any]
"""A toolset, the context of a call, and the tool in it."""


@dataclasses.dataclass
class HostedToolset(WrapperToolset[Any]):
    """Tools whose calls are calls of stages."""

    adapter: Adapter
    held: dict[str, Held]
    """What :func:`output_of` needs, by the tool's name; filled in."""

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: Any) -> Any:
        """What the tool returns, from its stage."""
        stage = self.adapter.stage_of(kind="tool", tool=name, agent=place(self.adapter.agent))
        call = tool_call(name, to_jsonable_python(tool_args))
        if stage is None or call is None:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        self.held.setdefault(name, (self.wrapped, ctx, tool))
        output = await ask(stage, call)
        if isinstance(output, dict) and output.keys() == {_RETRY}:
            raise ModelRetry(output[_RETRY])
        return output


async def output_of(held: Held, name: str, arguments: dict[str, Any]) -> Any:
    """What a tool returns, as JSON; what :class:`HostedToolset` hands on where it asks to be called otherwise.

    Raises:
        StageError: it returns more than a value.
    """
    toolset, context, tool = held
    context = dataclasses.replace(
        context, messages=[], prompt=None, run_step=0, retry=0, tool_call_id="call", usage=RunUsage()
    )
    try:
        output = await toolset.call_tool(name, tool.args_validator.validate_python(arguments), context, tool)
    except ModelRetry as retry:
        return {_RETRY: retry.message}
    if isinstance(output, ToolReturn):
        raise StageError(f"tool {name!r}: returns a ToolReturn, which is not hosted; return its value")
    return to_jsonable_python(output)
