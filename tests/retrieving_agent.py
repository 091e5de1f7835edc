"""An assistant that has questions moderated, looks for a text by its embedding, and has Claude answer with it."""

import json
import os
import sys
from urllib.request import Request, urlopen

import openai

client = openai.OpenAI()
TEXTS = ["The table is by the window.", "The table is by the door."]


def ask_claude(question):
    body = {"model": "claude", "max_tokens": 99, "messages": [{"role": "user", "content": question}]}
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
    url = f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages"
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as response:
        return json.load(response)["content"][0]["text"]


def answer(question):
    if client.moderations.create(model="moderation", input=question).results[0].flagged:
        return "I cannot help with this."
    vector, *vectors = (
        item.embedding for item in client.embeddings.create(model="embedding", input=[question, *TEXTS]).data
    )
    scores = [sum(a * b for a, b in zip(vector, other, strict=True)) for other in vectors]
    return ask_claude(f"{TEXTS[scores.index(max(scores))]} {question}")


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps({"content": answer(json.loads(line)["messages"][-1]["content"])}), flush=True)
