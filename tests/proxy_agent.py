"""The assistant of :mod:`framework_agents` as its owner's process, with the stock client: chat, streamed, or responses.

The first argument is the API, or ``none`` where no model is asked; the second is how the process misbehaves for the
table for 3.
"""

import json
import os
import sys
import time

from framework_agents import INSTRUCTIONS, World

PARAMETERS = {"type": "object", "properties": {"seats": {"type": "integer"}, "guest": {"type": "string"}}}
TOOLS = [{"name": name, "parameters": PARAMETERS} for name in ("find_place", "free_day")]
SCHEMAS = [{"type": "function", "function": tool} for tool in TOOLS]


def chat(client, messages, stream):
    messages = [{"role": "system", "content": INSTRUCTIONS}, *messages]
    while True:
        if stream:
            with client.chat.completions.stream(model="m", messages=messages, tools=SCHEMAS) as events:
                message = events.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(model="m", messages=messages, tools=SCHEMAS).choices[0].message
        if not message.tool_calls:
            return message.content
        calls = [{"id": c.id, "type": "function", "function": c.function.to_dict()} for c in message.tool_calls]
        messages.append({"role": "assistant", "tool_calls": calls})
        for call in message.tool_calls:
            result = getattr(World(), call.function.name)(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def responses(client, messages, stream):
    tools = [{"type": "function", **tool} for tool in TOOLS]
    given = {"model": "m", "instructions": INSTRUCTIONS, "tools": tools}
    items = list(messages)
    while True:
        if stream:
            with client.responses.stream(**given, input=items) as events:
                response = events.get_final_response()
        else:
            response = client.responses.create(**given, input=items)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        items += [item.to_dict() for item in response.output]
        for call in calls:
            output = getattr(World(), call.name)(**json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})


def answer(client, api, messages):
    """The response of a turn by an API, ``+stream`` with it or not."""
    name, _, how = api.partition("+")
    return (responses if name == "responses" else chat)(client, messages, how == "stream")


def misbehave(how):
    if how == "raises":
        raise KeyError("table 3")
    if how == "hangs":
        time.sleep(60)
    if how == "dies":
        os._exit(3)
    if how == "mumbles":
        print("I am thinking.", flush=True)
    if how == "misspeaks":
        print('{"text": "Hello."}', flush=True)


if __name__ == "__main__":
    with open("environment.jsonl", "a") as file:
        file.write(json.dumps(dict(os.environ)) + "\n")
    api = sys.argv[1]
    if api != "none":
        import openai  # takes a second

        client = openai.OpenAI()
    for line in sys.stdin:
        messages = json.loads(line)["messages"]
        if "for 3 " in messages[-1]["content"]:
            misbehave(*sys.argv[2:] or [""])
        content = "Hello." if api == "none" else answer(client, api, messages)
        print(json.dumps({"content": content}), flush=True)
