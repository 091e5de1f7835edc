"""Agents of the OpenAI Agents SDK: models and tools of an agent and of all that it hands over to."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.exceptions import (
    InputGuardrailTripwireTriggered,
    ModelRefusalError,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from agents.items import TResponseOutputItem
from agents.mcp import MCPServer
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.tool_context import ToolContext
from mcp.types import CallToolResult, Tool
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from agents import (
    Agent,
    FunctionTool,
    Handoff,
    InputGuardrail,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    Usage,
    function_span,
    trace,
)
from tod_bias.errors import StageError
from tod_bias.integrations.adapter import Adapter, Match, identity_of, refused, text_of_output, tool_call
from tod_bias.integrations.mcp import McpServer
from tod_bias.integrations.model_apis import give_ids, renumbered, with_numbers
from tod_bias.io.canonical import canonical, digest
from tod_bias.systems.hosted import AgentRequest, ask
from tod_bias.systems.stage import place_of

_OF_RUNS = (InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered)
_OF_TOOLS = (ToolInputGuardrailTripwireTriggered, ToolOutputGuardrailTripwireTriggered)
REFUSALS = (*_OF_RUNS, *_OF_TOOLS, ModelRefusalError)
"""Exceptions that end a run with a refusal, of a guardrail or of the model."""


def refusal_of(error: Exception) -> str:
    """Return the response after one of :data:`REFUSALS` ended a run."""
    if isinstance(error, _OF_RUNS):
        return refused(error.guardrail_result.output.output_info)
    if isinstance(error, _OF_TOOLS):
        return refused(error.output.output_info)
    return refused(getattr(error, "refusal", None))


def _before_model(guardrails: Sequence[InputGuardrail[Any]] | None) -> list[InputGuardrail[Any]]:
    """Return copies of guardrails of the input that run before the first request to the model.

    A guardrail that runs concurrently with the model would stop it only sometimes, depending on which is faster.
    """
    return [dataclasses.replace(guardrail, run_in_parallel=False) for guardrail in guardrails or ()]


_OUTPUT = TypeAdapter(list[TResponseOutputItem])


class HostedModel(Model):
    """A model whose requests are calls of a stage."""

    def __init__(self, adapter: Adapter, agent: str, inner: Model) -> None:
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
        identity = digest(canonical([items, fixed]))[:24]
        output = await self._adapter.ask_model(stage, with_numbers(items), fixed, (self._inner, given))
        give_ids(output, identity)
        made = [{"id": FAKE_RESPONSES_ID, **item} if item["type"] == "message" else item for item in output]
        return ModelResponse(output=_OUTPUT.validate_python(made), usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error: streamed runs are not hosted."""
        raise StageError("a streamed run is not hosted; the agent is run with Runner.run")


def items_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message of a chat as items of the Responses API."""
    if message["role"] == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}]
    text = [{"role": message["role"], "content": message["content"]}] if message["content"] else []
    calls = [
        {"type": "function_call", "call_id": call["id"], **call["function"]} for call in message.get("tool_calls", ())
    ]
    return [*text, *calls]


def hosted_tool(adapter: Adapter, agent: str, tool: FunctionTool) -> FunctionTool:
    """Return a copy of an agent's tool that asks its stage, or the tool itself if it has no stage."""
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


_SERVER_HISTORY = ("session", "previous_response_id", "conversation_id", "auto_previous_response_id")


class OpenAIAgentsAdapter(Adapter):
    """An agent of the SDK; see :class:`~tod_bias.integrations.adapter.Adapter`."""

    framework = "openai-agents"

    def __init__(self, agent: Agent[Any], stages: str | Mapping[str, Match], options: Mapping[str, Any]) -> None:
        if held := [name for name in _SERVER_HISTORY if options.get(name)]:
            raise StageError(
                f"{held[0]}: keeps the history on a server, and it cannot be rewritten there; leave the option out"
            )
        config = options.get("run_config") or {}
        self._config = config if isinstance(config, RunConfig) else RunConfig(**config)
        self._agents: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
        self._tools: dict[str, FunctionTool] = {}
        self._servers: dict[int, McpServer] = {}
        self._names: list[str] = []
        self._see(agent)
        self.servers = {tool: server for server in self._servers.values() for tool in server.tools}
        self.known = {"kind": ["model", "tool"], "agent": self._names, "tool": [*self._tools, *self.servers]}
        self.known["server"] = [server.name for server in self._servers.values()]
        super().__init__(agent, stages, {key: value for key, value in options.items() if key != "run_config"})
        self._hosted = self._host(agent)
        self._config = dataclasses.replace(self._config, input_guardrails=_before_model(self._config.input_guardrails))

    def _see(self, agent: Agent[Any]) -> None:
        """Note the names of an agent, its tools, and all that it hands over to."""
        if agent.name in self._names:
            return
        self._names.append(agent.name)
        for tool in agent.tools:
            if not isinstance(tool, FunctionTool):
                raise StageError(
                    f"agent {agent.name!r}: the tool {tool.name!r} runs on the model's server, where no twin can take "
                    "its place; give the agent a function tool instead, or audit saved responses"
                )
            if self._tools.setdefault(tool.name, tool) is not tool:
                raise StageError(f"agent {agent.name!r}: another agent has a tool {tool.name!r} too; rename one")
        for server in agent.mcp_servers:
            if id(server) not in self._servers:
                self._servers[id(server)] = McpServer(server.name, server.create_streams)
        for entry in agent.handoffs:
            target = entry if isinstance(entry, Agent) else entry._agent_ref and entry._agent_ref()
            if isinstance(target, Agent):
                self._see(target)

    def parts(self) -> Sequence[Any]:
        """Return the classes of models, and the functions behind tools."""
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
                tools=[hosted_tool(self, agent.name, tool) for tool in agent.tools if isinstance(tool, FunctionTool)],
                mcp_servers=[
                    hosted_server(self, agent.name, each, self._servers[id(each)]) for each in agent.mcp_servers
                ],
                handoffs=[],
                input_guardrails=_before_model(agent.input_guardrails),
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

    async def run(self, messages: list[dict[str, Any]]) -> str:
        """The final output; a refusal where a guardrail tripped."""
        config = dataclasses.replace(self._config, model=None, tracing_disabled=True)
        items: list[Any] = [item for message in messages for item in items_of(message)]
        try:
            result = await Runner.run(self._hosted, items, run_config=config, **self.options)
        except REFUSALS as error:
            return refusal_of(error)
        if result.interruptions:
            tool = result.interruptions[0].tool_name
            raise StageError(f"the tool {tool!r} waits for a person's approval, which an audit does not have")
        return text_of_output(result.final_output)

    async def call_model(self, request: AgentRequest) -> Any:
        """Return the items of a response, without random ids."""
        model, arguments = self.fixed[request.fixed]
        response = await model.get_response(input=copy.deepcopy(request.content), **arguments)
        items = [item.model_dump(mode="json", exclude_unset=True) for item in response.output]
        if not any(item["type"] == "reasoning" for item in items):  # the server looks for the ids of these
            items = [{key: value for key, value in item.items() if key != "id"} for item in items]
        renumbered([item for item in items if "call_id" in item], "call_id", request.content)
        return items

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the result of a tool, or its message on an error."""
        text = json.dumps(arguments, ensure_ascii=False)
        context = ToolContext(self.options.get("context"), tool_name=name, tool_call_id="call", tool_arguments=text)
        with trace("tod-bias", disabled=True), function_span(name, disabled=True):  # nor agents that it runs
            output = await self._tools[name].on_invoke_tool(context, text)
        return to_jsonable_python(output, fallback=str)
