"""Agents of PydanticAI: the model and the tools of an agent."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset, ModelRetry, RunContext, RunUsage, ToolReturn
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ContentFilterError
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_core import to_jsonable_python

from tod_bias.errors import StageError
from tod_bias.integrations.adapter import (
    Adapter,
    Match,
    identity_of,
    place,
    refused,
    text_of_output,
    tool_call,
)
from tod_bias.integrations.model_apis import renumbered
from tod_bias.systems.hosted import AgentRequest, ask
from tod_bias.systems.stage import place_of

_CHANGING = {"timestamp", "run_id", "conversation_id", "usage", "metadata", "provider_response_id", "model_name"}


def stable(value: Any) -> Any:
    """Messages without what differs from run to run."""
    if isinstance(value, dict):
        return {key: stable(item) for key, item in value.items() if key not in _CHANGING}
    return [stable(item) for item in value] if isinstance(value, list) else value


def _places(content: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Return the places of instructions in messages."""
    parts = [part for message in content for part in message["parts"] if part["part_kind"] == "system-prompt"]
    messages = [message for message in content if message.get("instructions")]
    return [*((part, "content") for part in parts), *((message, "instructions") for message in messages)]


def taken_instructions(content: list[dict[str, Any]]) -> list[str]:
    """Take the instructions out of messages; their numbers stay."""
    texts = []
    for holder, key in _places(content):
        texts.append(holder[key])
        holder[key] = f"{len(texts)}"
    return texts


def with_instructions(content: list[dict[str, Any]], texts: list[str]) -> list[dict[str, Any]]:
    """The messages with their instructions."""
    content = json.loads(json.dumps(content))
    for (holder, key), text in zip(_places(content), texts, strict=True):
        holder[key] = text
    return content


def model_message(message: dict[str, Any], before: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A message of a chat as PydanticAI's."""
    text = message["content"]
    if message["role"] == "user":
        return {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": text}]}
    if message["role"] == "tool":
        calls = {call["id"]: call["function"]["name"] for earlier in before for call in earlier.get("tool_calls", ())}
        identity = message["tool_call_id"]
        part = {"part_kind": "tool-return", "tool_name": calls[identity], "content": text, "tool_call_id": identity}
        return {"kind": "request", "parts": [part]}
    parts = [{"part_kind": "text", "content": text}] if text else []
    for call in message.get("tool_calls", ()):
        named = {"tool_name": call["function"]["name"], "args": call["function"]["arguments"]}
        parts.append({"part_kind": "tool-call", "tool_call_id": call["id"], **named})
    return {"kind": "response", "parts": parts}


_RETRY = "retry with"
"""Key of the message of a tool that asks the model to call it otherwise."""
Held = tuple[Any, RunContext[Any], Any]
"""A toolset, the context of a call, and the tool in it."""


@dataclasses.dataclass
class HostedToolset(WrapperToolset[Any]):
    """Tools whose calls are calls of stages."""

    adapter: Adapter
    held: dict[str, Held]
    """Objects that :func:`output_of` needs, by the tool's name; filled in."""

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: Any) -> Any:
        """Return the result of the tool, from its stage."""
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
    """Return the result of a tool, as JSON; a request to be called otherwise is returned in the form that
    :class:`HostedToolset` passes on.

    Raises:
        StageError: the tool returns more than a value.
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


_HISTORY = ("conversation", "message_history", "conversation_id")


class PydanticAIAdapter(Adapter):
    """An agent of PydanticAI; see :class:`~tod_bias.integrations.adapter.Adapter`."""

    framework = "pydantic-ai"

    def __init__(self, agent: Agent[Any, Any], stages: str | Mapping[str, Match], options: Mapping[str, Any]) -> None:
        if held := [name for name in _HISTORY if options.get(name)]:
            raise StageError(f"{held[0]}: leave it out; every turn gets its history as messages")
        self._functions = {
            name: tool.function
            for toolset in agent.toolsets
            if isinstance(toolset, FunctionToolset)
            for name, tool in toolset.tools.items()
        }
        all_known = all(isinstance(toolset, FunctionToolset) for toolset in agent.toolsets)
        tools = list(self._functions) if all_known else ["*"]  # other toolsets' have any name
        self.known = {"kind": ["model", "tool"], "agent": [place(agent)], "tool": tools}
        self._tools: dict[str, Held] = {}
        super().__init__(agent, stages, options)

    def parts(self) -> Sequence[Any]:
        """The functions behind tools, and the model's class."""
        model = self.agent.model
        of_model: list[Any] = [identity_of(model)] if isinstance(model, Model) else []
        if isinstance(model, FunctionModel):
            of_model.append(model.function)
        return [*self._functions.values(), *of_model]

    async def run(self, messages: list[dict[str, Any]]) -> str:
        """The output; a refusal where the provider's filter ended the run."""
        *before, last = messages
        history = ModelMessagesTypeAdapter.validate_python([model_message(message, before) for message in before])
        capabilities = [*self.options.get("capabilities", ()), Interception(self, self._tools)]
        options = {**self.options, "capabilities": capabilities}
        try:
            result = await self.agent.run(last["content"], message_history=history, **options)
        except ContentFilterError:
            return refused(None)
        if isinstance(result.output, DeferredToolRequests):
            raise StageError("a tool is deferred or waits for a person's approval, which an audit does not have")
        return text_of_output(result.output)

    async def call_model(self, request: AgentRequest) -> Any:
        """A response, without what differs from request to request."""
        model, settings, parameters, texts = self.fixed[request.fixed]
        messages = ModelMessagesTypeAdapter.validate_python(with_instructions(request.content, list(texts)))
        response = await model.request(messages, settings, parameters)
        (output,) = stable(ModelMessagesTypeAdapter.dump_python([response], mode="json"))
        calls = [part for part in output["parts"] if part["part_kind"] == "tool-call"]
        renumbered(calls, "tool_call_id", request.content)
        return output

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the result of the tool."""
        return await output_of(self._tools[name], name, arguments)


@dataclasses.dataclass
class Interception(AbstractCapability[Any]):
    """Makes the requests of a run calls of stages."""

    adapter: Adapter
    tools: dict[str, Held]

    def get_wrapper_model(self, model: Model) -> Model:
        """The model whose requests are calls."""
        return HostedPydanticModel(self.adapter, model)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """The tools whose calls are calls of stages."""
        return HostedToolset(toolset, self.adapter, self.tools)


class HostedPydanticModel(WrapperModel):
    """A model whose requests are calls of a stage."""

    def __init__(self, adapter: Adapter, inner: Model) -> None:
        super().__init__(inner)
        self._adapter = adapter

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> ModelResponse:
        """The response of the agent's own model, from its stage."""
        inner, agent = self.wrapped, place(self._adapter.agent)
        content = stable(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))
        texts = taken_instructions(content)
        settings, parameters = to_jsonable_python((model_settings, model_request_parameters), fallback=repr)
        fixed = [agent, place_of(inner), inner.model_name, settings, parameters, texts]
        held = (inner, model_settings, model_request_parameters, texts)
        stage = self._adapter.stage_of(kind="model", agent=agent)
        output = await self._adapter.ask_model(stage, content, fixed, held)
        (response,) = ModelMessagesTypeAdapter.validate_python([output])
        return response

    @asynccontextmanager
    async def request_stream(self, messages: Any, model_settings: Any, model_request_parameters: Any, *_: Any) -> Any:
        """The same response, for who wants it as a stream."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)
