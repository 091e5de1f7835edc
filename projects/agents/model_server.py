"""The model's server of the study: an OpenAI-compatible server that computes each distinct request once.

    python model_server.py MODEL PORT REPLIES.jsonl

Frameworks send the same conversation in slightly different words: a tool with an empty description or without one, an
assistant's message without content or with null. The server writes them alike, so that one assistant has one set of
requests, and holds the replies in a file. Requests that wait are computed in one batch. After two rounds of calls in a
turn no tools are offered: a model of this size may repeat a call for ever.
"""

import json
import re
import sys
import threading
import time
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings

CALL = re.compile(r'<tool_call>\s*\{"name":\s*"([^"]*)",\s*"arguments":\s*(.*?)\}\s*</tool_call>', re.DOTALL)
ROUNDS = 2
"""Rounds of calls in a turn."""
NOTHING = "…"
"""Text in place of an empty message, after which some frameworks ask again and others do not."""


def alike(body: dict) -> dict:
    """Messages and tools of a request, the same from every framework."""
    messages = []
    for message in body["messages"]:
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(part["text"] for part in content)
        made = {"role": message["role"].replace("developer", "system"), "content": content or ""}
        calls = [
            {"id": f"call_{number}", "type": "function", "function": spaced(call["function"])}
            for number, call in enumerate(message.get("tool_calls") or ())
        ]
        messages.append(made | ({"tool_calls": calls} if calls else {}))
    last = max(number for number, message in enumerate(messages) if message["role"] == "user")
    rounds = sum("tool_calls" in message for message in messages[last:])
    tools = [{"type": "function", "function": bare(tool["function"])} for tool in body.get("tools") or ()]
    return {"messages": messages, "tools": tools if rounds < ROUNDS else []}


def spaced(call: dict) -> dict:
    """A call with its arguments read, as the chat template wants them."""
    return {"name": call["name"], "arguments": json.loads(call["arguments"])}


def bare(function: dict) -> dict:
    """A tool's name and the properties of its arguments."""
    return {
        "name": function["name"],
        "parameters": {key: function["parameters"][key] for key in ("type", "properties")},
    }


class Writer(Generator):
    """The model, which writes to the end of a message."""

    @cached_property
    def stop_tokens(self) -> tuple[int, ...]:
        return (self.tokenizer.convert_tokens_to_ids("<|im_end|>"),)

    def _texts(self, sequences: list) -> list[str]:
        return [self.tokenizer.decode(output) for output in self._decoder.decode(sequences)]


class Replies:
    """Replies by request, in memory and in a file."""

    def __init__(self, model: str, path: Path) -> None:
        self.writer = Writer(model, GenerationSettings(max_new_tokens=96))
        self.path = path
        self.known = dict(json.loads(line) for line in path.read_text().splitlines()) if path.exists() else {}
        self.requests = 0
        self.waiting: set[str] = set()
        self.changed = threading.Condition()
        threading.Thread(target=self.work, daemon=True).start()

    def to(self, request: dict) -> dict:
        """The reply to a request, when it is made."""
        key = json.dumps(request, sort_keys=True)
        with self.changed:
            self.requests += 1
            if key not in self.known:
                self.waiting.add(key)
                self.changed.notify_all()
                self.changed.wait_for(lambda: key in self.known)
            return self.known[key]

    def work(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting)
            time.sleep(0.1)
            with self.changed:
                keys, self.waiting = sorted(self.waiting), set()
            made = dict(zip(keys, self.written([json.loads(key) for key in keys]), strict=True))
            with self.path.open("a") as file:
                file.writelines(json.dumps(item) + "\n" for item in made.items())
            with self.changed:
                self.known |= made
                self.changed.notify_all()

    def written(self, requests: list[dict]) -> list[dict]:
        prompts = [
            self.writer.tokenizer.apply_chat_template(
                request["messages"], tools=request["tools"] or None, add_generation_prompt=True, tokenize=False
            )
            for request in requests
        ]
        texts = self.writer.generate(prompts)
        return [read(text, request) for text, request in zip(texts, requests, strict=True)]


def read(text: str, request: dict) -> dict:
    """A message's words, and its calls of tools that the request offers."""
    text = text.replace("<|im_end|>", "").strip()
    offered = {tool["function"]["name"] for tool in request["tools"]}
    calls = [
        {"name": name, "arguments": arguments}
        for name, arguments in CALL.findall(text)
        if name in offered and is_object(arguments)
    ]
    return {"content": CALL.sub("", text).strip(), "calls": calls}


def is_object(text: str) -> bool:
    """True if a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def serve(replies: Replies, port: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = replies.to(alike(body))
            number = len(body["messages"])
            calls = [
                {"id": f"call_{number}_{place}", "type": "function", "function": call}
                for place, call in enumerate(reply["calls"])
            ]
            message = {"role": "assistant", "content": None if calls else reply["content"] or NOTHING}
            choice = {"index": 0, "message": message | ({"tool_calls": calls} if calls else {})}
            choice["finish_reason"] = "tool_calls" if calls else "stop"
            usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
            head = {"id": f"chatcmpl-{time.time_ns()}", "object": "chat.completion", "created": int(time.time())}
            self.say(head | {"model": body["model"], "choices": [choice], "usage": usage})

        def do_GET(self) -> None:
            self.say({"requests": replies.requests, "distinct": len(replies.known)})

        def say(self, record: dict) -> None:
            text = json.dumps(record).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    model, port, path = sys.argv[1:]
    serve(Replies(model, Path(path)), int(port))
