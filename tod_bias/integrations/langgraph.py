"""Agents of LangChain (``create_agent``) and graphs of LangGraph: their nodes, and the tools of their tool nodes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime
from langgraph.types import Command, Send
from pydantic import BaseModel

from tod_bias.errors import StageError
from tod_bias.integrations.adapter import Adapter, Match, refused, text_of_output, tool_call
from tod_bias.integrations.model_apis import renumbered
from tod_bias.systems.hosted import AgentRequest, ask

BLOCKED = "blocked"
"""Key under which the output of a node explains why it blocks the run."""
_CHANGING = ("id", "response_metadata", "usage_metadata")
_classes: dict[str, type] = {}
"""Classes of the owner's objects in states, by their places."""


class BlockedError(Exception):
    """A node that is a stage blocks the run."""


def blocking() -> tuple[type[Exception], ...]:
    """Return the exceptions with which a node ends a run, LangChain's middleware and its like among stages."""
    middleware = sys.modules.get("langchain.agents.middleware")
    return (BlockedError,) if middleware is None else (BlockedError, middleware.PIIDetectionError)


def encoded(value: Any, node: str) -> Any:
    """A state or an update as JSON, without random ids.

    Args:
        value: the state or update.
        node: whose it is.

    Raises:
        StageError: it holds what is no JSON.
    """
    if isinstance(value, RemoveMessage):
        raise StageError(f"node {node!r}: removes messages by their ids, which is not hosted; leave it out of stages")
    if isinstance(value, BaseMessage):
        made = message_to_dict(value)
        data = {key: item for key, item in made["data"].items() if key not in _CHANGING}
        return {"message": made["type"], "data": {**data, "additional_kwargs": {}}}
    if isinstance(value, Command):
        return {"command": [encoded(part, node) for part in (value.graph, value.update, value.goto)]}
    if isinstance(value, Send):
        return {"send": [value.node, encoded(value.arg, node)]}
    if isinstance(value, Mapping):
        return {str(key): encoded(item, node) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(item, node) for item in value]
    if isinstance(value, BaseModel) or is_dataclass(value):
        return {"object": _class_name(value), "fields": encoded(_fields(value), node)}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise StageError(f"node {node!r}: its state or update holds a {type(value).__name__}, which is no JSON")


def _class_name(value: Any) -> str:
    """Return the name by which :func:`_class_of` finds the class of an object."""
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    _classes[name] = type(value)
    return name


def _class_of(name: str) -> type:
    """A class of pydantic or of data that is there already: nothing is imported for a name in a cache.

    Raises:
        StageError: it is not there.
    """
    module, _, path = name.partition(":")
    known: Any = _classes.get(name, sys.modules.get(module))
    if name not in _classes:
        for part in path.split("."):
            known = getattr(known, part, None)
    if isinstance(known, type) and (issubclass(known, BaseModel) or is_dataclass(known)):
        return known
    raise StageError(f"a cached state holds a {name!r:.100}, which is not there now; start in another folder")


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object."""
    names = value.model_fields_set if isinstance(value, BaseModel) else {each.name for each in fields(value)}
    return {name: getattr(value, name) for name in sorted(names) if hasattr(value, name)}


def _object(kind: type, values: Mapping[str, Any]) -> Any:
    """An object of such fields; its ``__init__`` and its checks are not run."""
    if issubclass(kind, BaseModel):
        return kind.model_construct(**values)
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def decoded(value: Any) -> Any:
    """Return the state or update that a JSON value encodes."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"message", "data"}:
        return messages_from_dict([{"type": value["message"], "data": value["data"]}])[0]
    if value.keys() == {"command"}:
        graph, update, goto = map(decoded, value["command"])
        return Command(graph=graph, update=update, goto=goto)
    if value.keys() == {"send"}:
        return Send(value["send"][0], decoded(value["send"][1]))
    if value.keys() == {"object", "fields"}:
        values = {key: decoded(item) for key, item in value["fields"].items()}
        return _object(_class_of(value["object"]), values)
    return {key: decoded(item) for key, item in value.items()}


def calls_in(value: Any) -> list[dict[str, Any]]:
    """The tool calls in an encoded update, in order."""
    if isinstance(value, list):
        return [call for item in value for call in calls_in(item)]
    if not isinstance(value, dict):
        return []
    return list(value.get("tool_calls") or ()) + [call for item in value.values() for call in calls_in(item)]


_FAILED = "failed with"
"""Key of the message of a failed tool to the model."""


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
    """Return the update of a node, on a thread if middleware of ``create_agent`` is not async."""
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


_MODEL_NODES = ("model", "agent")
"""Names that ``create_agent`` and its predecessor give to the node of their model."""
_WAITS = "interrupts its run and waits for a person, and an audit has none; compile it without interrupts"


class LangGraphAdapter(Adapter):
    """A compiled graph; see :class:`~tod_bias.integrations.adapter.Adapter`."""

    framework = "langgraph"

    def __init__(self, agent: Pregel[Any], stages: str | Mapping[str, Match], options: Mapping[str, Any]) -> None:
        self._nodes: dict[str, Runnable[Any, Any]] = {}
        self._tool_nodes: dict[str, ToolNode] = {}
        self.known = {"kind": [], "agent": [], "node": [], "tool": []}
        self._see(agent, agent.get_name())
        super().__init__(agent, stages, options)
        runtime = Runtime(context=self.options.get("context"))  # for a node that is called without its graph
        self._config: Any = {"configurable": {"__pregel_runtime": runtime}}
        self._hosted = self._graph(agent, agent.get_name())

    def _see(self, graph: Pregel[Any], name: str) -> None:
        """Note the nodes of a graph and of the graphs in it."""
        if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
            raise StageError(f"graph {name!r}: {_WAITS}")
        self.known["agent"].append(name)
        for node, held in graph.nodes.items():
            if node == "__start__":
                continue
            self.known["node"].append(node)
            if isinstance(held.bound, Pregel):
                self._see(held.bound, node)
                continue
            self._nodes[node] = held.bound
            if isinstance(held.bound, ToolNode):
                self.known["tool"] += held.bound.tools_by_name
                self._tool_nodes |= dict.fromkeys(held.bound.tools_by_name, held.bound)
            kind = "tool" if isinstance(held.bound, ToolNode) else "model" if node in _MODEL_NODES else "node"
            self.known["kind"] += [kind, "node"]

    def parts(self) -> Sequence[Any]:
        """The nodes, and of tool nodes the tools."""
        nodes = [node for node in self._nodes.values() if not isinstance(node, ToolNode)]
        return [*nodes, *(node.tools_by_name[name] for name, node in self._tool_nodes.items())]

    def _graph(self, graph: Pregel[Any], name: str) -> Any:
        """A copy of a graph whose nodes and tools ask their stages."""
        nodes = dict(graph.nodes)
        for node, held in graph.nodes.items():
            if node == "__start__":
                continue
            kind = "model" if node in _MODEL_NODES else "node"
            stage = self.stage_of(kind="node", node=node) or self.stage_of(kind=kind, node=node, agent=name)
            bound = held.bound
            if stage is not None and not isinstance(bound, ToolNode):
                self._nodes[node] = bound
                bound = self._node(node, stage)
            elif isinstance(bound, Pregel):
                bound = self._graph(bound, node)
            elif isinstance(bound, ToolNode):
                stage = self.stage_of(node=node)
                bound = self._node(node, stage) if stage is not None else hosted_tools(self, bound, name)
            elif kind == "model":
                bound = RunnableLambda(_never, partial(update_of, bound), name=node)
            nodes[node] = held.copy({"bound": bound})
        return graph.copy({"nodes": nodes, "checkpointer": None})

    def _node(self, node: str, stage: str) -> Runnable[Any, Any]:
        async def call(state: Any) -> Any:
            output = await self.ask_model(stage, encoded(state, node), node, node)
            if isinstance(output, Mapping) and BLOCKED in output:
                raise BlockedError(output[BLOCKED])
            return decoded(output)

        return RunnableLambda(_never, call, name=node)

    async def run(self, messages: list[dict[str, Any]]) -> str:
        """Return the structured response if there is one, else the text of the last message; a refusal if a node
        blocks."""
        try:
            result = await self._hosted.ainvoke({"messages": convert_to_messages(messages)}, **self.options)
        except blocking() as error:
            return refused(str(error))
        if not isinstance(result, Mapping) or not result.get("messages"):
            raise StageError(
                "the graph's state has no 'messages': wrap it in a function of messages, and audit that function"
            )
        if result.get("__interrupt__"):
            raise StageError(f"the graph: {_WAITS}")
        if result.get("structured_response") is not None:
            return text_of_output(result["structured_response"])
        return str(result["messages"][-1].text)

    async def call_model(self, request: AgentRequest) -> Any:
        """Return the output of a node, without random ids."""
        node = self.fixed[request.fixed]
        var_child_runnable_config.set(self._config)  # for get_stream_writer and the like in it
        try:
            update = await update_of(self._nodes[node], decoded(request.content), self._config)
        except blocking() as error:
            return {BLOCKED: str(error)}
        except KeyError as error:
            if error.args != ("__pregel_scratchpad",):  # what an interrupt looks up
                raise
            raise StageError(f"node {node!r}: {_WAITS}") from None
        output = encoded(update, node)
        renumbered(calls_in(output), "id", request.content)
        return output

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """The content of the tool's message."""
        return await output_of(self._tool_nodes[name], name, arguments, self._config)


def _never(state: Any) -> Any:
    raise StageError("a hosted graph is run by ainvoke")
