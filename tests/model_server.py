"""A server of language models whose model is that of :mod:`framework_agents`: OpenAI's APIs and Anthropic's."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from framework_agents import INSTRUCTIONS, World

KEY = "key-of-the-upstream-server"


class ModelServer(ThreadingHTTPServer):
    """Answers any number of requests at once, each after ``latency`` seconds, and notes bodies and times.

    ``note``: a file that gets a line per request.
    """

    request_queue_size = 512
    daemon_threads = True

    def __init__(self, world: World, latency: float, note: Path | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.world, self.latency, self.note = world, latency, note
        self.asked: list[str] = []
        self.times: list[tuple[float, float]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def serving(world: World, latency: float = 0.0, note: Path | None = None) -> Iterator[ModelServer]:
    server = ModelServer(world, latency, note)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are sent apart
    server: ModelServer

    def do_POST(self) -> None:
        begun = time.monotonic()
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        key = self.headers["x-api-key"] or self.headers["authorization"]
        if not str(key).endswith(KEY) or "bad request" in text:
            self.send(400, {"error": {"message": f"bad request with key {key}"}})
            return
        self.server.asked.append(text)
        if self.server.note is not None:
            with self.server.note.open("a") as file:
                file.write("asked\n")
        time.sleep(self.server.latency)
        api = {"completions": chat_reply, "responses": _responses, "messages": _anthropic}[self.path.rpartition("/")[2]]
        reply = api(self.server.world, json.loads(text))
        self.send(200, {**reply, "id": f"reply-{random.random()}", "model": "m"})
        self.server.times.append((begun, time.monotonic()))

    def send(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


def chat_reply(world: World, body: dict[str, Any]) -> dict[str, Any]:
    system, *messages = body["messages"]
    assert system["content"].startswith("You book tables")
    user = [message["content"] for message in messages if message["role"] == "user"][-1]
    made = world.decide(user, [message["content"] for message in messages if message["role"] == "tool"])
    calls = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for name, given, key in made.calls
    ]
    message = {"role": "assistant", "content": made.text or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}
    return {"object": "chat.completion", "created": int(time.time()), "choices": [choice]}


def _responses(world: World, body: dict[str, Any]) -> dict[str, Any]:
    assert body["instructions"] == INSTRUCTIONS
    user = [item["content"] for item in body["input"] if item.get("role") == "user"][-1]
    made = world.decide(user, [item["output"] for item in body["input"] if item.get("type") == "function_call_output"])
    output: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": f"fc_{key}",
            "call_id": key,
            "name": name,
            "arguments": json.dumps(given),
            "status": "completed",
        }
        for name, given, key in made.calls
    ]
    if made.text:
        content = [{"type": "output_text", "text": made.text, "annotations": []}]
        item = {"type": "message", "id": f"msg_{random.random()}", "role": "assistant", "status": "completed"}
        output.append({**item, "content": content})
    return {"object": "response", "created_at": time.time(), "status": "completed", "output": output}


def _anthropic(world: World, body: dict[str, Any]) -> dict[str, Any]:
    assert body["system"] == INSTRUCTIONS
    user = [message["content"] for message in body["messages"] if isinstance(message["content"], str)][-1]
    lists = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    results = [block["content"] for blocks in lists for block in blocks if block["type"] == "tool_result"]
    made = world.decide(user, results)
    content: list[dict[str, Any]] = [
        {"type": "tool_use", "id": key, "name": name, "input": given} for name, given, key in made.calls
    ]
    content += [{"type": "text", "text": made.text}] if made.text else []
    reason = "tool_use" if made.calls else "end_turn"
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": reason, "stop_sequence": None}
