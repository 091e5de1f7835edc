"""A server of JSON that the tests of integrations share."""

import json
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


def handler_of(reply):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, content = reply(self.path, self.headers, body)
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    return Handler


@pytest.fixture
def json_server():
    """Start a server that answers path, headers and body with a status and a JSON value; return its address."""
    with ExitStack() as servers:

        def start(reply):
            server = servers.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler_of(reply)))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            servers.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield start
