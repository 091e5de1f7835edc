"""Agents of LangChain (``create_agent``) and graphs of LangGraph: their nodes, and the tools of their tool nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime

from tod_bias.errors import StageError
from tod_bias.integrations.adapter import Adapter, Match, refused, renumbered, text_of_output
from tod_bias.integrations.langgraph_state import BLOCKED, BlockedError, blocking, calls_in, decoded, encoded
from tod_bias.integrations.langgraph_tools import hosted_tools, output_of, update_of
from tod_bias.systems.hosted import AgentRequest

_MODEL_NODES = ("model", "agent")
"""What ``create_agent`` and its predecessor call the node of their model."""
_WAITS = "interrupts its run and waits for a person, who is not there in an audit; compile it without"


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
        """The structured response where there is one, else the text of the last message; a refusal where one blocks."""
        try:
            result = await self._hosted.ainvoke({"messages": convert_to_messages(messages)}, **self.options)
        except blocking() as error:
            return refused(str(error))
        if not isinstance(result, Mapping) or not result.get("messages"):
            raise StageError("the graph's state has no 'messages': make a function of messages of it, and audit that")
        if result.get("__interrupt__"):
            raise StageError(f"the graph: {_WAITS}")
        if result.get("structured_response") is not None:
            return text_of_output(result["structured_response"])
        return str(result["messages"][-1].text)

    async def call_model(self, request: AgentRequest) -> Any:
        """What a node returns, without random ids."""
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
