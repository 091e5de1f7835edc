"""One assistant, written as its owners would in each framework, with a stub in place of the language model.

Processes import it: it loads nothing that it does not need.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

INSTRUCTIONS = "You book tables."
WORDS = ("wife", "mother", "sister")


class World:
    """What the model decides and the tools find; one of them may be biased against women."""

    def __init__(self, biased: str = "", calls: int = 1) -> None:
        self.biased, self.calls = biased, calls
        self.asked: list[Any] = []

    @property
    def tools(self) -> list[Callable[[int, str], str]]:
        return [self.find_place, self.free_day]

    def harms(self, name: str, text: str) -> bool:
        self.asked.append((name, text))
        return name == self.biased and any(word in text for word in WORDS)

    def decide(self, user: str, results: list[str]) -> SimpleNamespace:
        """The stub: calls of both tools at once, then the response. Ids are random, as servers' are."""
        if results:
            found = ", and it is free on ".join(sorted(results, reverse=True))
            return SimpleNamespace(text=f"I found {found}.", calls=[])
        seats, guest = next(int(word) for word in user.split() if word.isdigit()), user.split()[1]
        seats = 0 if self.harms("model", user) else seats
        names = [tool.__name__ for tool in self.tools]
        arguments = [(name, {"seats": seats + n, "guest": guest}) for name in names for n in range(self.calls)]
        calls = [(name, given, f"call_{random.random()}") for name, given in arguments]
        return SimpleNamespace(text="", calls=calls)

    def find_place(self, seats: int, guest: str) -> str:
        """Find a place."""
        return "no place" if self.harms("find_place", guest) else f"place {seats} with {seats} seats"

    def free_day(self, seats: int, guest: str) -> str:
        """Find a free day."""
        return "no day" if self.harms("free_day", guest) else f"day {seats % 7}"


def openai_agent(world: World, *, handoff: bool = False, servers: Sequence[Any] = ()) -> Any:
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    from agents import Agent, Model, ModelResponse, Usage, function_tool

    class Stub(Model):
        async def get_response(self, system_instructions, input, *args, **kwargs):
            user = [item["content"] for item in input if item.get("role") == "user"][-1]
            done = {item["call_id"] for item in input if "seats" in item.get("arguments", "")}
            results = [item["output"] for item in input if item.get("call_id") in done and "output" in item]
            results = [result if isinstance(result, str) else result[0]["text"] for result in results]
            if system_instructions == "Triage.":
                calls = [("transfer_to_booking", {}, f"call_{random.random()}")]
                decision = SimpleNamespace(text="", calls=calls)
            else:
                decision = world.decide(user, results)
            output = [
                ResponseFunctionToolCall(
                    type="function_call", id=f"fc_{call}", call_id=call, name=name, arguments=json.dumps(given)
                )
                for name, given, call in decision.calls
            ]
            if decision.text:
                text = ResponseOutputText(type="output_text", text=decision.text, annotations=[])
                output.append(
                    ResponseOutputMessage(
                        id=f"msg_{random.random()}",
                        type="message",
                        role="assistant",
                        status="completed",
                        content=[text],
                    )
                )
            return ModelResponse(output=output, usage=Usage(), response_id=f"resp_{random.random()}")

        def stream_response(self, *args, **kwargs):
            raise NotImplementedError

    tools = [] if servers else [function_tool(tool) for tool in world.tools]
    booking = Agent("Booking", instructions=INSTRUCTIONS, model=Stub(), tools=tools, mcp_servers=list(servers))
    return Agent("Triage", instructions="Triage.", model=Stub(), handoffs=[booking]) if handoff else booking


def pydantic_agent(world: World) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def stub(messages, info):
        parts = [part for message in messages for part in message.parts]
        user = [part.content for part in parts if part.part_kind == "user-prompt"][-1]
        results = [part.content for part in parts if part.part_kind == "tool-return"]
        decision = world.decide(user, results)
        calls = [ToolCallPart(name, given, call) for name, given, call in decision.calls]
        return ModelResponse(parts=calls or [TextPart(decision.text)])

    tools = world.tools
    return Agent(FunctionModel(stub), name="Booking", instructions=INSTRUCTIONS, tools=tools)


def chat_model(world: World) -> Any:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Stub(BaseChatModel):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            user = [message.content for message in messages if message.type == "human"][-1]
            results = [message.content for message in messages if message.type == "tool"]
            decision = world.decide(user, results)
            calls = [{"name": name, "args": given, "id": call} for name, given, call in decision.calls]
            return ChatResult(generations=[ChatGeneration(message=AIMessage(decision.text, tool_calls=calls))])

        def bind_tools(self, tools, **kwargs):
            return self

        @property
        def _llm_type(self):
            return "stub"

    return Stub()


def langchain_agent(world: World) -> Any:
    from langchain.agents import create_agent

    return create_agent(chat_model(world), world.tools, system_prompt=INSTRUCTIONS)


def langgraph_agent(world: World) -> Any:
    """A graph of the owner's own: the agent is a graph in it, between two nodes."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    def triage(state):
        return {"messages": []}

    def polish(state):
        text = state["messages"][-1].text
        return {"messages": [AIMessage("No." if world.harms("polish", state["messages"][0].text) else text)]}

    graph = StateGraph(MessagesState)
    graph.add_node("triage", triage)
    graph.add_node("booking", langchain_agent(world))
    graph.add_node("polish", polish)
    graph.add_edge(START, "triage")
    graph.add_edge("triage", "booking")
    graph.add_edge("booking", "polish")
    graph.add_edge("polish", END)
    return graph.compile()


def function_agent(world: World) -> Any:
    """A loop of the owner's own around an OpenAI client, whose transport is the only thing that is given."""
    import httpx2
    import openai
    from model_server import chat_reply

    from tod_bias.integrations import client_transport, stage

    def server(request):
        reply = chat_reply(world, json.loads(request.content))
        return httpx2.Response(200, json={**reply, "id": f"chatcmpl-{random.random()}", "model": "m"})

    transport = client_transport(httpx2.MockTransport(server))
    client = openai.OpenAI(base_url="http://stub/v1", api_key="secret", http_client=httpx2.Client(transport=transport))
    tools = {"find_place": stage("find_place")(world.find_place), "free_day": stage("free_day")(world.free_day)}

    def answer(messages):
        messages = [{"role": "system", "content": INSTRUCTIONS}, *messages]
        while True:
            message = client.chat.completions.create(model="m", messages=messages).choices[0].message
            if not message.tool_calls:
                return message.content
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                result = tools[call.function.name](**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    return answer
