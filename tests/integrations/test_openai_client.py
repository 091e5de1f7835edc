"""Functions whose OpenAI client, plain or async, has a transport that makes its requests a stage; over real HTTP."""

import asyncio
import json
from types import SimpleNamespace

import httpx2
import openai
import pytest

from tod_bias import StageInput
from tod_bias.errors import StageError, UnansweredError
from tod_bias.integrations import client_transport, pipeline_of


@pytest.fixture
def server(json_server):
    """Refuses the first request for now, and answers the others in capitals; notes what it was sent."""
    asked = []

    def reply(path, headers, body):
        asked.append((path, headers["authorization"], body))
        status = 503 if len(asked) == 1 else 400 if "bad" in json.dumps(body) else 200
        made = {"id": f"{len(asked)}", "created": len(asked), "model": "m"}
        if path.endswith("responses"):
            text = {"type": "output_text", "text": body["input"][-1]["content"].upper(), "annotations": []}
            item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
            return status, made | {"object": "response", "output": [item]}
        message = {"role": "assistant", "content": body["messages"][-1]["content"].upper()}
        return status, made | {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}

    return SimpleNamespace(url=json_server(reply), asked=asked)


def address(server):
    return {"base_url": f"{server.url}/v1", "api_key": "secret"}


def said(agent, text):
    pipeline = pipeline_of(agent, "model")
    (item,) = pipeline([StageInput((), text)])
    return item.outputs["reply"], item.steps


def system(messages):
    return [{"role": "system", "content": "Shout."}, *messages]


def test_chat_completions_of_a_plain_client(server):
    client = openai.OpenAI(**address(server), http_client=httpx2.Client(transport=client_transport()))

    def answer(messages):
        return client.chat.completions.create(model="m", messages=system(messages)).choices[0].message.content

    assert answer([{"role": "user", "content": "as it was"}]) == "AS IT WAS"  # not hosted; the client tries again
    reply, steps = said(answer, "hello")
    assert reply == "HELLO"
    assert steps[0].argument.content == [{"role": "user", "content": "hello"}]
    assert "id" not in steps[0].output
    path, key, body = server.asked[-1]
    assert (path, key) == ("/v1/chat/completions", "Bearer secret")
    assert body == {"model": "m", "messages": system([{"role": "user", "content": "hello"}])}
    assert "secret" not in repr(steps)
    with pytest.raises(UnansweredError, match=r"127\.0\.0\.1: HTTP 400"):
        said(answer, "bad")


def test_responses_of_an_async_client(server):
    client = openai.AsyncOpenAI(**address(server), http_client=httpx2.AsyncClient(transport=client_transport()))

    async def answer(messages):
        replies = await asyncio.gather(*(client.responses.create(model="m", input=messages) for _ in range(2)))
        return " ".join(reply.output_text for reply in replies)

    reply, steps = said(answer, "hello")  # the stage tries again after 503
    assert reply == "HELLO HELLO"
    assert [step.name for step in steps] == ["model", "model", "reply"]

    async def kept(messages):
        return (await client.responses.create(model="m", input=messages, previous_response_id="r")).output_text

    with pytest.raises((StageError, UnansweredError), match="has its history on the server"):
        said(kept, "hello")


def test_streamed_requests_are_sent_whole_and_read_as_streams(server):
    client = openai.OpenAI(**address(server), http_client=httpx2.Client(transport=client_transport()))
    async_client = openai.AsyncOpenAI(**address(server), http_client=httpx2.AsyncClient(transport=client_transport()))

    def answer(messages):
        chunks = client.chat.completions.create(
            model="m", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    async def answer_later(messages):
        async with async_client.responses.stream(model="m", input=messages) as events:
            return (await events.get_final_response()).output_text

    for agent in (answer, answer_later):
        reply, steps = said(agent, "hello")
        assert (reply, [step.name for step in steps]) == ("HELLO", ["model", "reply"])
        assert {"stream", "stream_options"}.isdisjoint(server.asked[-1][2])
