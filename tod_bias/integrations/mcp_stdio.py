"""Relay that agents start instead of an MCP server that is a command: it passes messages to a URL.

    python mcp_stdio.py URL

Only the standard library is used, because an agent may start a relay in every turn.
"""

import json
import sys
import threading
from http.client import HTTPConnection
from urllib.parse import urlsplit

_WRITING = threading.Lock()


class Relay:
    """Post each message on its own thread, and write the reply.

    Args:
        url: address of the relay, which serves messages independently.
    """

    def __init__(self, url: str) -> None:
        self._server, self._path = urlsplit(url).netloc, urlsplit(url).path
        self._version: dict[str, str] = {}

    def hand_on(self, line: bytes) -> None:
        """Post a message; its reply is a line on the standard output."""
        connection = HTTPConnection(self._server)
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        connection.request("POST", self._path, line, headers | self._version)
        response = connection.getresponse()
        said = response.read()
        connection.close()
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            return
        if response.status != 200:
            error = {"code": -32603, "message": f"HTTP {response.status}: {said[:200].decode(errors='replace')}"}
            said = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
        elif message["method"] == "initialize" and "result" in (reply := json.loads(said)):
            self._version = {"mcp-protocol-version": reply["result"]["protocolVersion"]}
        with _WRITING:
            sys.stdout.buffer.write(said.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
            sys.stdout.buffer.flush()


def main() -> None:
    """Pass on the messages of standard input until it ends."""
    relay = Relay(sys.argv[1])
    threads = []
    for line in sys.stdin.buffer:  # whatever the locale says of texts
        if line.strip():
            threads.append(threading.Thread(target=relay.hand_on, args=(line,), daemon=True))
            threads[-1].start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
