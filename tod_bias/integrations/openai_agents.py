"""Agents of the OpenAI Agents SDK: models and function tools of an agent and of all that it hands over to."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.tool_context import ToolContext
from pydantic_core import to_jsonable_python

from agents import Agent, FunctionTool, Handoff, Model, RunConfig, Runner, function_span, trace
from tod_bias.errors import StageError
from tod_bias.integrations.adapter import Adapter, Match, identity_of, renumbered, text_of_output
from tod_bias.integrations.mcp_servers import McpServer
from tod_bias.integrations.openai_agents_guardrails import REFUSALS, GuardrailCheck, hosted_guardrails, refusal_of
from tod_bias.integrations.openai_agents_model import HostedModel, items_of
from tod_bias.integrations.openai_agents_tools import hosted_server, hosted_tool
from tod_bias.systems.hosted import AgentRequest

_SERVER_HISTORY = ("session", "previous_response_id", "conversation_id", "auto_previous_response_id")


class OpenAIAgentsAdapter(Adapter):
    """An agent of the SDK; see :class:`~tod_bias.integrations.adapter.Adapter`."""

    framework = "openai-agents"

    def __init__(self, agent: Agent[Any], stages: str | Mapping[str, Match], options: Mapping[str, Any]) -> None:
        if held := [name for name in _SERVER_HISTORY if options.get(name)]:
            raise StageError(f"{held[0]}: keeps the history elsewhere, where it cannot be rewritten; leave it out")
        config = options.get("run_config") or {}
        self._config = config if isinstance(config, RunConfig) else RunConfig(**config)
        self._agents: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
        self._tools: dict[str, FunctionTool] = {}
        self._servers: dict[int, McpServer] = {}
        self._names: list[str] = []
        self._guardrails: list[Any] = []
        self._see(agent)
        self._guardrails += [*(self._config.input_guardrails or ()), *(self._config.output_guardrails or ())]
        self.servers = {tool: server for server in self._servers.values() for tool in server.tools}
        self.known = {"kind": ["model", "tool"], "agent": self._names, "tool": [*self._tools, *self.servers]}
        self.known["server"] = [server.name for server in self._servers.values()]
        self.known["guardrail"] = [guardrail.get_name() for guardrail in self._guardrails]
        self.known["kind"] += ["guardrail"] if self._guardrails else []
        super().__init__(agent, stages, {key: value for key, value in options.items() if key != "run_config"})
        self._hosted = self._host(agent)
        self._config = dataclasses.replace(
            self._config,
            input_guardrails=hosted_guardrails(self, agent, self._config.input_guardrails),
            output_guardrails=hosted_guardrails(self, agent, self._config.output_guardrails),
        )

    def _see(self, agent: Agent[Any]) -> None:
        """Note the names of an agent, its tools, and all that it hands over to."""
        if agent.name in self._names:
            return
        self._names.append(agent.name)
        self._guardrails += [*agent.input_guardrails, *agent.output_guardrails]
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
        """The classes of models, and the functions behind tools and guardrails."""
        functions = [getattr(tool, "__wrapped__", None) or tool.on_invoke_tool for tool in self._tools.values()]
        functions += [guardrail.guardrail_function for guardrail in self._guardrails]
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
                input_guardrails=hosted_guardrails(self, agent, agent.input_guardrails),
                output_guardrails=hosted_guardrails(self, agent, agent.output_guardrails),
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
        """The items of a response, without random ids; of a guardrail's stage, what it found."""
        held = self.fixed[request.fixed]
        if isinstance(held, GuardrailCheck):
            return await held.run(request.content, self.options.get("context"))
        model, arguments = held
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
        with trace("tod-bias", disabled=True), function_span(name, disabled=True):  # nor agents that it runs
            output = await self._tools[name].on_invoke_tool(context, text)
        return to_jsonable_python(output, fallback=str)
