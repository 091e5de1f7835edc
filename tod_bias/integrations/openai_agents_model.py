"""Models of the OpenAI Agents SDK whose requests are calls of stages."""

from __future__ import annotations

from typing import Any

from agents.items import TResponseOutputItem
from agents.models.fake_id import FAKE_RESPONSES_ID
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from agents import Model, ModelResponse, Usage
from tod_bias.canonical import canonical, digest
from tod_bias.errors import StageError
from tod_bias.integrations.adapter import Adapter
from tod_bias.integrations.model_apis import give_ids, with_numbers
from tod_bias.systems.stage import place_of

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
        """Not hosted."""
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
