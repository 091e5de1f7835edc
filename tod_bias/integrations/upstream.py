"""The server that the requests of a proxied agent are sent to, with the user's own key."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2

from tod_bias.errors import StageError, UnansweredError
from tod_bias.integrations.model_apis import ANTHROPIC, LARGEST, PassingError, ask_again, body_of, reply_in
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
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECTING, sock_read=timeout)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, url: str, body: Any, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """The status and the body of a reply to JSON.

        Raises:
            PassingError: there is none.
            UnansweredError: it takes too long, or is longer than :data:`~tod_bias.integrations.model_apis.LARGEST`.
        """
        content = bytearray()
        try:
            async with self._of_loop.post(
                url, json=body, headers=headers, proxy=_proxy_of(url), allow_redirects=False
            ) as response:
                async for part in response.content.iter_any():
                    content += part
                    if len(content) > LARGEST:
                        raise UnansweredError(f"the reply of a server is longer than {LARGEST >> 20} MB")
        except aiohttp.SocketTimeoutError:  # another try would take as long
            raise UnansweredError(f"{host_of(url)}: sent nothing for {self._timeout.sock_read:g} s") from None
        except aiohttp.ClientConnectorError as error:
            why = error.os_error.strerror or type(error.os_error).__name__
            raise PassingError(f"{host_of(url)}: cannot be reached ({why})") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise PassingError(f"{host_of(url)}: {str(error) or type(error).__name__}") from None
        return response.status, bytes(content)

    @property
    def _of_loop(self) -> aiohttp.ClientSession:
        """The one of the running event loop."""
        if self._loop is not asyncio.get_running_loop():
            self._loop = asyncio.get_running_loop()
            # httpx2's context, as OpenAI's clients verify servers with it too.
            connector = aiohttp.TCPConnector(limit=0, ssl=httpx2.create_ssl_context())
            self._made = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=self._timeout
            )
            weakref.finalize(self, _close, self._loop, self._made).atexit = False
        return self._made


def host_of(url: str) -> str:
    """Return the name of a server in messages: the host, and the port if the address has one."""
    return urlsplit(url).netloc.rpartition("@")[2] or url


@cache
def _proxy_of(url: str) -> str | None:
    """Over which server the environment has requests to an address sent; None for none.

    aiohttp's ``trust_env`` finds it out for each request anew, on threads, which takes longer than the request.
    """
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _close(loop: asyncio.AbstractEventLoop, client: aiohttp.ClientSession) -> None:
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(client.close(), loop)


class Upstream:
    """The server that an agent's requests are sent to.

    Args:
        base_url: address of the server, with ``/v1`` at the end.
        api_key_env: the environment variable that holds the key; None for a server without a key.
        anthropic: server for requests in Anthropic's form; by default the same server.

    Raises:
        StageError: the address is invalid, or the variable is not set.
    """

    def __init__(self, base_url: str, api_key_env: str | None = None, anthropic: Upstream | None = None) -> None:
        given = {"base_url": base_url, **({} if api_key_env is None else {"api_key_env": api_key_env})}
        try:
            settings = ChatSettings.of({"model": "upstream", **given})
            self._key = settings.key
        except StageError as error:
            raise StageError(f"upstream: {error}") from None
        self._base_url, self._key_env, self._anthropic = settings.base_url, api_key_env, anthropic
        self._client = LoopClient(_LONGEST_REPLY)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("it holds a key and is not stored")

    @property
    def addresses(self) -> list[str]:
        """Addresses of all servers that receive requests."""
        return [self._base_url, *(self._anthropic.addresses if self._anthropic else ())]

    def clean(self, text: str) -> str:
        """Return a text with the keys replaced by ``***``."""
        text = self._anthropic.clean(text) if self._anthropic else text
        return text.replace(self._key, "***") if len(self._key) >= _SHORTEST_SECRET else text

    def without_key(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment without variables that hold a key."""
        environment = self._anthropic.without_key(environment) if self._anthropic else environment
        return {
            name: value
            for name, value in environment.items()
            if name != self._key_env and not (self._key and (value == self._key or self.clean(value) != value))
        }

    async def reply_to(self, request: AgentRequest) -> dict[str, Any]:
        """Return the server's reply to a request."""
        body, fixed = body_of(request)
        is_anthropics = fixed["path"] == ANTHROPIC
        server = self._anthropic if is_anthropics and self._anthropic is not None else self
        headers = dict(fixed.get("headers", {}))
        if key := server._key:
            headers |= {"x-api-key": key} if is_anthropics else {"authorization": f"Bearer {key}"}
        try:
            reply = await self._reply(server._base_url + fixed["path"], body, headers, request.content)
        except UnansweredError as error:
            raise UnansweredError(self.clean(str(error))) from None
        whole: dict[str, Any] = json.loads(self.clean(json.dumps(reply)))
        return whole

    @ask_again
    async def _reply(self, url: str, body: Any, headers: Mapping[str, str], content: Any) -> dict[str, Any]:
        return reply_in(host_of(url), *await self._client.post(url, body, headers), content)
