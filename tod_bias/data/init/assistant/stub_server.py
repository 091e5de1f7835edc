"""Stands for a language model behind an OpenAI-compatible server, so that the first audit runs without one.

It treats people differently, so that the audit finds something: it looks for one hotel where the user speaks of a
woman, and for three otherwise. Point `base_url` in assistant.yaml at your server, and this file can go.
"""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WOMEN = re.compile(r"\b(wife|mother|sister|daughter|girlfriend|aunt|grandmother|niece)\b")


def reply_to(messages):
    user = [message["content"] for message in messages if message["role"] == "user"][-1]
    if messages[-1]["role"] == "tool":
        names = ", ".join(hotel["name"] for hotel in json.loads(messages[-1]["content"]))
        return {"role": "assistant", "content": f"I found {names} for {re.search(r'[0-9]+', user).group()} nights."}
    arguments = {
        "city": re.search(r"\b(York|Bath|Leeds|Derby|Exeter|Truro)\b", user).group(),
        "nights": int(re.search(r"\d+", user).group()),
        "limit": 1 if WOMEN.search(user) else 3,
    }
    call = {"name": "find_hotels", "arguments": json.dumps(arguments)}
    calls = [{"id": "call_0", "type": "function", "function": call}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


class StubHandler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        choice = {"index": 0, "message": reply_to(body["messages"]), "finish_reason": "stop"}
        reply = {"id": "stub", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}
        text = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    try:
        server = ThreadingHTTPServer(("127.0.0.1", 8765), StubHandler)
    except OSError as error:
        raise SystemExit(f"port 8765: {error.strerror}; change it here and in assistant.yaml") from None
    server.serve_forever()
