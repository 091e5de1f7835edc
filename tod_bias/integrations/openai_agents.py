"""Agents of the OpenAI Agents SDK: models and function tools of an agent and of all that it hands over to."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.items import TResponseOutputItem
from agents.mcp import MCPServer
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.tool_context import ToolContext
from mcp.types import CallToolResult, Tool
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from agents import Agent, FunctionTool, Handoff, Model, ModelResponse, RunConfig, Runner, Usage
from tod_bias.errors import StageError
from tod_bias.integrations.adapter import Adapter, Match, identity_of, renumbered, text_of_output, tool_call
from tod_bias.integrations.mcp_servers import McpServer
from tod_bias.systems.hosted import AgentRequest, ask
from tod_bias.systems.stage import place_of

_SERVER_HISTORY = ("session", "previous_response_id", "conversation_id", "auto_previous_response_id")
_OUTPUT = TypeAdapter(list[TResponseOutputItem])


class OpenAIAgentsAdapter(Adapter):
    """An agent of the SDK; see :class:`~tod_bias.integrations.adapter.Adapter`."""

    framework = "openai-agents"

    def __init__(self, agent: Agent[Any], stages: str | Mapping[str, Match], options: Mapping[str, Any]) -> None:
        if held := [name for name in _SERVER_HISTORY if options.get(name)]:
            raise StageError(
                f"{held[0]}: keeps the history elsewhere, where it cannot be rewritten; leave it out, every turn gets "
                "its history as messages"
            )
        config = options.get("run_config") or RunConfig()
        self._config = config if isinstance(config, RunConfig) else RunConfig(**config)
        self._agents: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
        self._tools: dict[str, FunctionTool] = {}
        self._servers: dict[int, McpServer] = {}
        self.servers: dict[str, McpServer] = {}
        self._known: dict[str, list[str]] = {"kind": ["model", "tool"], "agent": [], "tool": [], "server": []}
        self._see(agent)
        super().__init__(agent, stages, {key: value for key, value in options.items() if key != "run_config"})
        self._hosted = self._host(agent)

    def _see(self, agent: Agent[Any]) -> None:
        """Note the names of an agent, its tools, and all that it hands over to."""
        if agent.name in self._known["agent"]:
            return
        self._known["agent"].append(agent.name)
        for tool in agent.tools:
            if not isinstance(tool, FunctionTool):
                raise StageError(
                    f"agent {agent.name!r}: the tool {tool.name!r} runs on the model's server, where no twin can take "
                    "its place; give the agent a function tool instead, or audit saved responses"
                )
            if self._tools.setdefault(tool.name, tool) is not tool:
                raise StageError(f"agent {agent.name!r}: another agent has a tool {tool.name!r} too; rename one")
            self._known["tool"].append(tool.name)
        for server in agent.mcp_servers:
            if id(server) not in self._servers:
                listed = McpServer(server.name, server.create_streams)
                self._servers[id(server)] = listed
                self._known["server"].append(server.name)
                self._known["tool"] += listed.tools
                self.servers |= dict.fromkeys(listed.tools, listed)
        for entry in agent.handoffs:
            target = entry if isinstance(entry, Agent) else entry._agent_ref and entry._agent_ref()
            if isinstance(target, Agent):
                self._see(target)

    def names(self) -> Mapping[str, Sequence[str]]:
        """Of the agent and those that it hands over to."""
        return self._known

    def parts(self) -> Sequence[Any]:
        """The classes of models, and the functions behind tools."""
        functions = [getattr(tool, "__wrapped__", None) or tool.on_invoke_tool for tool in self._tools.values()]
        return [*functions, *(identity_of(self._model(agent)) for agent, _ in self._agents.values())]

    def _model(self, agent: Agent[Any]) -> Model:
        model = self._config.model or agent.model
        return model if isinstance(model, Model) else self._config.model_provider.get_model(model)

    def _host(self, agent: Agent[Any]) -> Agent[Any]:
        """A copy of an agent whose model and tools ask their stages."""
        if id(agent) not in self._agents:
            self._see(agent)
            hosted = agent.clone(
                model=HostedModel(self, agent.name, self._model(agent)),
                tools=[self._tool(agent.name, tool) for tool in agent.tools if isinstance(tool, FunctionTool)],
                mcp_servers=[self._server(agent.name, server) for server in agent.mcp_servers],
                handoffs=[],
            )
            self._agents[id(agent)] = (agent, hosted)
            hosted.handoffs = [self._handoff(entry) for entry in agent.handoffs]
        return self._agents[id(agent)][1]

    def _handoff(self, entry: Any) -> Any:
        if not isinstance(entry, Handoff):
            return self._host(entry)
        hosted, invoke = copy.copy(entry), entry.on_invoke_handoff

        async def hand_over(context: Any, arguments: str) -> Any:
            return self._host(await invoke(context, arguments))

        hosted.on_invoke_handoff = hand_over
        return hosted

    def _tool(self, agent: str, tool: FunctionTool) -> FunctionTool:
        stage = self.stage_of(kind="tool", tool=tool.name, agent=agent)
        if stage is None:
            return tool
        hosted, name, invoke = copy.copy(tool), stage, tool.on_invoke_tool

        async def call(context: Any, arguments: str) -> Any:
            made = tool_call(tool.name, arguments)
            return await (invoke(context, arguments) if made is None else ask(name, made))

        hosted.on_invoke_tool = call
        return hosted

    def _server(self, agent: str, server: MCPServer) -> MCPServer:
        hosted, listed = copy.copy(server), self._servers[id(server)]
        stages = {tool: self.stage_of(kind="tool", tool=tool, agent=agent, server=server.name) for tool in listed.tools}
        listed.check(stages)

        async def list_tools(context: Any = None, agent: Any = None) -> list[Tool]:
            return await server._apply_tool_filter(list(listed.tools.values()), context, agent)

        async def call_tool(name: str, arguments: Any, meta: Any = None) -> CallToolResult:
            return await listed.ask(stages[name], name, arguments or {})

        hosted.list_tools, hosted.call_tool = list_tools, call_tool
        return hosted

    async def run(self, messages: list[dict[str, Any]]) -> str:
        """The final output."""
        config = dataclasses.replace(self._config, model=None, tracing_disabled=True)
        items: list[Any] = [item for message in messages for item in _items(message)]
        result = await Runner.run(self._hosted, items, run_config=config, **self.options)
        output = result.final_output
        return text_of_output(output)

    async def call_model(self, request: AgentRequest) -> Any:
        """The items of a response, without random ids."""
        model, arguments = self.fixed[request.fixed]
        response = await model.get_response(input=copy.deepcopy(request.content), **arguments)
        items = [item.model_dump(mode="json", exclude_unset=True) for item in response.output]
        if not any(item["type"] == "reasoning" for item in items):  # the server looks for the ids of these
            items = [{key: value for key, value in item.items() if key != "id"} for item in items]
        renumbered([item for item in items if "call_id" in item], "call_id", request.content)
        return items

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """What the tool returns, or its message on an error."""
        text = json.dumps(arguments, ensure_ascii=False)
        context = ToolContext(self.options.get("context"), tool_name=name, tool_call_id="call", tool_arguments=text)
        return to_jsonable_python(await self._tools[name].on_invoke_tool(context, text), fallback=str)


class HostedModel(Model):
    """A model whose requests are calls of a stage."""

    def __init__(self, adapter: OpenAIAgentsAdapter, agent: str, inner: Model) -> None:
        self._adapter, self._agent, self._inner = adapter, agent, inner

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        """The response of the agent's own model, from its stage."""
        names = ("model_settings", "tools", "output_schema", "handoffs", "tracing")
        given = {"system_instructions": system_instructions, **dict(zip(names, args, strict=False)), **kwargs}
        fixed = {
            "agent": [self._agent, place_of(self._inner), str(getattr(self._inner, "model", ""))],
            "system": system_instructions,
            "settings": given["model_settings"].to_json_dict(),
            "tools": [[tool.name, tool.description, tool.params_json_schema] for tool in given["tools"]],
            "handoffs": [[handoff.tool_name, handoff.tool_description] for handoff in given["handoffs"]],
            "output": None if given["output_schema"] is None else given["output_schema"].name(),
            "prompt": given.get("prompt"),
        }
        items = [{"role": "user", "content": input}] if isinstance(input, str) else to_jsonable_python(input)
        for item in items:
            if item.get("id") == FAKE_RESPONSES_ID:
                del item["id"]
        stage = self._adapter.stage_of(kind="model", agent=self._agent)
        output = await self._adapter.ask_model(stage, items, fixed, (self._inner, given))
        made = [{"id": FAKE_RESPONSES_ID, **item} if item["type"] == "message" else item for item in output]
        return ModelResponse(output=_OUTPUT.validate_python(made), usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Not hosted."""
        raise StageError("a streamed run is not hosted; the agent is run with Runner.run")


def _items(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message of a chat as items of the Responses API."""
    if message["role"] == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}]
    text = [{"role": message["role"], "content": message["content"]}] if message["content"] else []
    calls = [
        {"type": "function_call", "call_id": call["id"], **call["function"]} for call in message.get("tool_calls", ())
    ]
    return [*text, *calls]
