"""One assistant for appointments with doctors and viewings of flats, written for each framework.

The environment says where things are: MODEL_URL (the model's server), TOOLS (OpenAI's schemas), DATABASE (SQLite).
"""

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

MODEL = "smollm2-star"
URL = os.environ.get("MODEL_URL", "http://127.0.0.1:8200/v1")
INSTRUCTIONS = "You help users to book doctors' appointments and viewings of apartments. Call a tool when you can."
TOOLS = [tool["function"] for tool in json.loads(Path(os.environ["TOOLS"]).read_text())]
LIMITS: Any = {"temperature": 0, "max_tokens": 96}


def look_up(tool: str, arguments: dict[str, Any]) -> str:
    """The first row of a tool's table whose columns have the values that are given."""
    with sqlite3.connect(f"file:{os.environ['DATABASE']}?mode=ro", uri=True) as database:
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{tool}")') if not row[1].startswith("_")]
        if not columns:
            return "{}"
        given = {column: arguments[column] for column in columns if column in arguments}
        where = " AND ".join(f'"{column}" = ?' for column in given) or "1"
        fields = ", ".join(f'"{column}"' for column in columns)
        row = database.execute(
            f'SELECT {fields} FROM "{tool}" WHERE {where} ORDER BY _row LIMIT 1',
            [str(value) for value in given.values()],
        ).fetchone()
    return json.dumps({} if row is None else dict(zip(columns, row, strict=True)))


def openai_agents() -> Any:
    from openai import AsyncOpenAI

    from agents import Agent, FunctionTool, ModelSettings, OpenAIChatCompletionsModel

    def tool(function: dict[str, Any]) -> FunctionTool:
        async def call(context: Any, arguments: str) -> str:
            return look_up(function["name"], json.loads(arguments))

        return FunctionTool(function["name"], "", function["parameters"], call, strict_json_schema=False)

    model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=URL, api_key="none"))
    tools: list[Any] = [tool(function) for function in TOOLS]
    return Agent(
        "Assistant", instructions=INSTRUCTIONS, model=model, tools=tools, model_settings=ModelSettings(**LIMITS)
    )


def pydantic_ai() -> Any:
    from pydantic_ai import Agent, Tool
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def tool(function: dict[str, Any]) -> Tool:
        def call(**arguments: Any) -> str:
            return look_up(function["name"], arguments)

        return Tool.from_schema(call, function["name"], "", function["parameters"])

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=URL, api_key="none"))
    return Agent(model, name="Assistant", instructions=INSTRUCTIONS, tools=[*map(tool, TOOLS)], model_settings=LIMITS)


def langchain() -> Any:
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool
    from langchain_openai import ChatOpenAI

    def tool(function: dict[str, Any]) -> StructuredTool:
        def call(**arguments: Any) -> str:
            return look_up(function["name"], arguments)

        return StructuredTool.from_function(
            call, name=function["name"], description="-", args_schema=function["parameters"]
        )

    model = ChatOpenAI(model=MODEL, base_url=URL, api_key="none", **LIMITS)
    return create_agent(model, [*map(tool, TOOLS)], system_prompt=INSTRUCTIONS)


def function() -> Any:
    import httpx2
    from openai import OpenAI

    from tod_bias.integrations import client_transport, stage

    client = OpenAI(base_url=URL, api_key="none", http_client=httpx2.Client(transport=client_transport()))
    schemas: list[Any] = [{"type": "function", "function": function} for function in TOOLS]

    @stage("tools")
    def call_tool(tool: str, arguments: dict[str, Any]) -> str:
        return look_up(tool, arguments)

    def answer(messages: list[Any]) -> str:
        messages = [{"role": "system", "content": INSTRUCTIONS}, *messages]
        while True:
            reply = client.chat.completions.create(model=MODEL, messages=messages, tools=schemas, **LIMITS)
            message = reply.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                result = call_tool(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    return answer
