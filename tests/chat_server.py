"""A server that speaks OpenAI's chat API, with a model made of rules, and with faults where a test wants them."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Rule = Callable[[Mapping[str, Any]], Any]
"""Body of a request to a message (a text or a mapping)."""


def completion(message: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    """A chat completion as OpenAI writes it."""
    if isinstance(message, str):
        message = {"content": message}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model", ""),
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def calling(name: str, arguments: Mapping[str, Any] | str, number: int = 0) -> dict[str, Any]:
    """A message that calls a tool; ids are random, as servers make them."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": f"call_{time.monotonic_ns()}_{number}", "type": "function"}
    return {"content": None, "tool_calls": [call | {"function": {"name": name, "arguments": text}}]}


class ChatServer:
    """Runs in threads of this process; use it in a ``with`` block.

    Args:
        rule: answers.
        fault: of the number of a request and its body: a status, a pair of status and headers, ``cut``, ``garbage``, a
            JSON value that is sent instead, ``drip``, ``drip headers`` (byte by byte), ``endless``, ``endless
            failure``, or None.
        latency: seconds an answer.
        key: what a client must send; empty for nothing.
    """

    def __init__(
        self, rule: Rule, *, fault: Callable[[int, Any], Any] | None = None, latency: float = 0.0, key: str = ""
    ) -> None:
        self.received: list[dict[str, Any]] = []
        """Bodies of all requests."""
        self.answered: Counter[str] = Counter()
        """Bodies, as text, that were answered well."""
        self.headers: list[dict[str, str]] = []
        self.sent = 0
        """Bytes of endless answers."""
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet: two wait 40 ms for each other (Nagle, delayed acknowledgement)

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with server._lock:
                    server.received.append(body)
                    server.headers.append({name.lower(): value for name, value in self.headers.items()})
                    number = len(server.received)
                if latency:
                    time.sleep(latency)
                if self.path != "/v1/chat/completions":
                    return self.give(404, {"error": {"message": f"no {self.path}"}})
                if key and self.headers["authorization"] != f"Bearer {key}":
                    said = f"Incorrect API key provided: {self.headers['authorization']}"
                    return self.give(401, {"error": {"message": said, "code": "invalid_api_key"}})
                wrong = fault(number, body) if fault else None
                if wrong is None:
                    self.give(200, completion(rule(body), body))
                    with server._lock:
                        server.answered[json.dumps(body, sort_keys=True)] += 1
                    return None
                return self.wrong(wrong)

            def wrong(self, wrong: Any) -> None:
                if wrong == "cut":
                    self.close_connection = True
                    self.connection.close()
                elif wrong in ("drip", "drip headers", "endless", "endless failure"):
                    self.flow(wrong)
                elif wrong == "garbage":
                    self.give(200, b"<html>not <json")
                elif isinstance(wrong, int):
                    self.give(wrong, {"error": {"message": f"fault {wrong}"}})
                elif isinstance(wrong, tuple):
                    self.give(wrong[0], {"error": {"message": f"fault {wrong[0]}"}}, wrong[1])
                else:
                    self.give(200, wrong)

            def flow(self, wrong: str) -> None:
                self.close_connection = True
                status = b"400 Bad Request" if wrong == "endless failure" else b"200 OK"
                head = b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\n"
                is_slow = wrong.startswith("drip")
                if wrong != "drip headers":
                    self.connection.sendall(head + b"\r\n")
                with suppress(OSError):
                    for _ in range(200):  # twenty seconds, or 200 MB
                        part = b"H" if wrong == "drip headers" else b" " if is_slow else b" " * 10**6
                        self.connection.sendall(part)
                        server.sent += len(part)
                        time.sleep(0.1 if is_slow else 0)

            def give(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"content-type": "application/json", **(headers or {})}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ChatServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()
