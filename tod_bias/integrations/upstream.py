"""The server that the requests of a proxied agent are sent to, with the user's own key."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Mapping
from typing import Any

import httpx2

from tod_bias.errors import StageError, UnansweredError
from tod_bias.integrations.model_apis import ANTHROPIC, body_of, sent
from tod_bias.systems.chat.settings import ChatSettings
from tod_bias.systems.hosted import AgentRequest

_SHORTEST_SECRET = 12
"""Characters; a shorter key (``local``, ``test``) is a word that a reply may hold."""
_LONGEST_REPLY = 120.0
"""Seconds until a reply is given up."""
_CONNECTING = 10.0
"""Seconds until a server counts as away."""


class LoopClient:
    """An HTTP client for any number of requests at once, made anew where the event loop is another.

    Args:
        timeout: seconds until a reply is given up; None for never.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self._timeout = httpx2.Timeout(timeout, connect=_CONNECTING)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def of_loop(self) -> httpx2.AsyncClient:
        """The one of the running event loop."""
        if self._loop is not asyncio.get_running_loop():
            self._loop = asyncio.get_running_loop()
            self._made = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=None), timeout=self._timeout)
            weakref.finalize(self, _close, self._loop, self._made).atexit = False
        return self._made


def _close(loop: asyncio.AbstractEventLoop, client: httpx2.AsyncClient) -> None:
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(client.aclose(), loop)


class Upstream:
    """The server that an agent's requests are sent to.

    Args:
        base_url: up to and with ``/v1``.
        api_key_env: the environment variable that holds the key; None for a server that wants none.

    Raises:
        StageError: the address can be none, or the variable is not set.
    """

    def __init__(self, base_url: str, api_key_env: str | None = None) -> None:
        given = {"base_url": base_url, **({} if api_key_env is None else {"api_key_env": api_key_env})}
        try:
            settings = ChatSettings.of({"model": "upstream", **given})
            self._key = settings.key
        except StageError as error:
            raise StageError(f"upstream: {error}") from None
        self.base_url, self._key_env = settings.base_url, api_key_env
        self._client = LoopClient(_LONGEST_REPLY)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("it holds a key and is not stored")

    def clean(self, text: str) -> str:
        """A text without the key."""
        return text.replace(self._key, "***") if len(self._key) >= _SHORTEST_SECRET else text

    def without_key(self, environment: Mapping[str, str]) -> dict[str, str]:
        """An environment without the key."""
        return {
            name: value
            for name, value in environment.items()
            if name != self._key_env and not (self._key and (value == self._key or self.clean(value) != value))
        }

    async def reply_to(self, request: AgentRequest) -> dict[str, Any]:
        """The server's reply."""
        client = self._client.of_loop
        body, fixed = body_of(request)
        headers = dict(fixed.get("headers", {}))
        if self._key:
            headers |= (
                {"x-api-key": self._key} if fixed["path"] == ANTHROPIC else {"authorization": f"Bearer {self._key}"}
            )
        made = client.build_request("POST", self.base_url + fixed["path"], headers=headers, json=body)
        try:
            reply = await sent(fixed["path"], made, client, request.content)
        except httpx2.HTTPError as error:
            raise UnansweredError(self.clean(f"{made.url.host}: {str(error) or type(error).__name__}")) from None
        except UnansweredError as error:
            raise UnansweredError(self.clean(str(error))) from None
        whole: dict[str, Any] = json.loads(self.clean(json.dumps(reply)))
        return whole
