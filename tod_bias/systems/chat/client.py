"""Asking a server that speaks OpenAI's chat API: retries, pace, and what is never shown."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import weakref
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2
import openai
from tenacity import (
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    stop_when_event_set,
    wait_random_exponential,
)

from tod_bias.errors import StageError, UnansweredError, shortened
from tod_bias.io.documents import loads
from tod_bias.systems.chat.replies import bounded, too_long
from tod_bias.systems.chat.settings import ChatSettings
from tod_bias.systems.hosted import EventLoop

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_LONGEST_RETRY_AFTER = 600.0
"""Seconds."""
_SHORTEST_SECRET = 12
"""Characters; a shorter key (``local``, ``test``) is a word that an answer may hold."""
_CONNECT = 10.0
"""Seconds until a server counts as away."""
_LARGEST = 1 << 22
"""Bytes of an answer that are read; a longer one is left there. As objects they take about 100 MB at the most."""
_LARGEST_ERROR = 1 << 16
"""Bytes of an error response that are read."""


class _PassingError(Exception):
    """A failure that may pass."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


@dataclass
class _Pace:
    """Limiter of requests: at most so many a minute, and none before the time that the server names.

    The limit holds for a key and not for a request, so all threads wait for one another; neither the SDK nor tenacity
    has that.
    """

    per_minute: float | None
    next: float = 0.0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def wait(self, halted: threading.Event) -> None:
        with self._lock:
            now = time.monotonic()
            begin = max(now, self.next)
            if self.per_minute is not None:
                self.next = begin + 60.0 / self.per_minute
        if begin > now:
            halted.wait(begin - now)

    def not_before(self, seconds: float) -> None:
        with self._lock:
            self.next = max(self.next, time.monotonic() + seconds)


class _Requests(EventLoop):
    """Event loop for the requests of all threads; no code of an agent blocks it."""

    _current = None


class Client:
    """One server with one key, called from several threads.

    Args:
        settings: address and options of the server.
    """

    def __init__(self, settings: ChatSettings) -> None:
        self.settings = settings
        self._key = ""  # read when it is needed: a plan needs none
        self._loop: EventLoop | None = None
        self._client: Any = None
        self._lock = threading.Lock()
        self._pace = _Pace(settings.requests_per_minute)
        self._has_replied = False
        self._halted = threading.Event()
        self._under_way: set[Future[bytearray | None]] = set()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a client holds a key and is not stored")

    def clean(self, text: str) -> str:
        """A message without the key, should a server have sent it back."""
        return text.replace(self._key, "***") if self._key else text

    def _cleaned(self, value: Any) -> Any:
        """An answer without the key in any of its texts; short keys are words, which answers may hold."""
        if len(self._key) < _SHORTEST_SECRET:
            return value
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, dict):
            return {self.clean(str(name)): self._cleaned(item) for name, item in value.items()}
        return [self._cleaned(item) for item in value] if isinstance(value, list) else value

    def halt(self, *, at_once: bool = False) -> None:
        """Nothing is retried, until :meth:`resume`; ``at_once``: what is under way is given up too."""
        self._halted.set()
        for request in tuple(self._under_way) if at_once else ():
            request.cancel()

    def resume(self) -> None:
        """Failures are retried."""
        self._halted.clear()

    def ask(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The server's answer to one request, as JSON.

        Raises:
            UnansweredError: it has none, for good.
            StageError: it will have none for any request: no server there, a key that it refuses, no such model.
        """
        usual = wait_random_exponential(multiplier=_FIRST_WAIT, max=_LONGEST_WAIT)

        def wait(state: Any) -> float:
            error = state.outcome.exception()
            return (error.retry_after or 0.0) + float(usual(state))  # not all at the same moment

        # The SDK's own retries would not repeat answers that are no chat completion, would wait a minute at the most
        # for a server that names a longer time, and would go on after an interrupt.
        retrying = Retrying(
            stop=stop_after_attempt(self.settings.retries + 1) | stop_when_event_set(self._halted),
            sleep=sleep_using_event(self._halted),
            wait=wait,
            retry=retry_if_exception_type(_PassingError),
            reraise=True,
        )
        try:
            reply: dict[str, Any] = retrying(self._once, body)
        except _PassingError as error:
            raise UnansweredError(f"{error} (tried {self.settings.retries + 1} times)") from None
        self._has_replied = True
        return reply

    def _opened(self) -> tuple[EventLoop, Any]:
        """Return the event loop of this process, and the SDK's client on it."""
        loop = _Requests.current()
        with self._lock:
            if self._loop is not loop:
                self._key = self.settings.key
                at_once = self.settings.concurrency
                limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
                timeout = httpx2.Timeout(None, connect=min(_CONNECT, self.settings.timeout))
                self._client = openai.AsyncOpenAI(
                    api_key=self._key or "none",
                    base_url=self.settings.base_url,
                    max_retries=0,
                    timeout=timeout,
                    http_client=openai.DefaultAsyncHttpxClient(
                        limits=limits, timeout=timeout, follow_redirects=False, event_hooks={"response": [_shorten]}
                    ),
                )
                self._client.organization = self._client.project = None  # of the environment, only the key is sent
                weakref.finalize(self, _close, loop, self._client).atexit = False
                self._loop = loop
            return loop, self._client

    def _read(self, body: bytearray) -> dict[str, Any]:
        """The chat completion in an answer."""
        try:
            reply = self._cleaned(loads(body.decode()))
        except ValueError:
            raise _PassingError("the answer is no JSON") from None
        if problem := problem_of(reply):
            raise _PassingError(f"the answer is not a chat completion: {problem}")
        reply = dict(bounded(reply))
        for call in reply["choices"][0]["message"].get("tool_calls") or ():
            self._clean_arguments(call["function"])
        return reply

    def _clean_arguments(self, function: dict[str, Any]) -> None:
        """Clean a call's arguments as they are read: their text may write the key with escapes."""
        try:
            arguments = loads(function["arguments"]) if isinstance(function.get("arguments"), str) else None
        except ValueError:
            return
        cleaned = self._cleaned(arguments)
        if cleaned != arguments:
            function["arguments"] = json.dumps(cleaned)

    def _once(self, body: Mapping[str, Any]) -> dict[str, Any]:
        loop, client = self._opened()
        self._pace.wait(self._halted)
        request = asyncio.run_coroutine_threadsafe(self._answer(client, body), loop.loop)
        self._under_way.add(request)
        try:
            answer = request.result()
        except CancelledError:
            raise _PassingError("the request was interrupted") from None
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            raise self._connection(error) from None
        except openai.APIStatusError as error:
            raise self._status(error) from None
        except openai.APIError as error:
            raise _PassingError(shortened(self.clean(str(error)), 200)) from None
        except ValueError:  # a body that cannot be unpacked
            raise _PassingError("the answer is no JSON") from None
        finally:
            request.cancel()  # if this thread was interrupted
            self._under_way.discard(request)
        return too_long() if answer is None else self._read(answer)

    async def _answer(self, client: Any, body: Mapping[str, Any]) -> bytearray | None:
        """Return the body of an answer that is sent in chunks; None if it is too large."""
        rest = {name: value for name, value in body.items() if name not in ("model", "messages")}
        late = f"no answer within {self.settings.timeout:g} seconds"
        parts = bytearray()
        try:
            async with (  # a timeout of the SDK bounds the wait for each byte, and not for all of them
                asyncio.timeout(self.settings.timeout),
                client.chat.completions.with_streaming_response.create(
                    model=body["model"], messages=body["messages"], extra_body=rest
                ) as raw,
            ):
                late += "; only a part of it arrived"
                async for part in raw.iter_bytes():
                    parts += part
                    if len(parts) > _LARGEST:
                        return None
        except (TimeoutError, openai.APITimeoutError):
            raise _PassingError(late) from None
        return parts

    def _connection(self, error: Exception) -> Exception:
        cause = error.__cause__ or error
        reason = shortened(self.clean(str(cause) or type(cause).__name__), 200)
        refused = isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol))
        if refused and not self._has_replied:
            return StageError(f"no server answers at {self.settings.shown_url} ({reason}); start it, or mend base_url")
        return _PassingError(f"the connection was lost: {reason}")

    def _status(self, error: Any) -> Exception:
        code = int(error.status_code)
        said = shortened(self.clean(_said(error)), 300)
        where = f"{self.settings.shown_url} (status {code}: {said})"
        if 300 <= code < 400:
            return StageError(f"{self.settings.shown_url} redirects requests (status {code}); mend base_url")
        if code == 401:
            named = self.settings.api_key_env
            advice = f"mend the variable {named}" if named else "name the variable that holds it with api_key_env"
            return StageError(f"the server refuses the key: {where}; {advice}")
        if code == 403:
            return StageError(f"the server refuses to answer: {where}")
        if code == 404:
            return StageError(f"no model {self.settings.model!r}, or no chat API, at {where}; mend model or base_url")
        if code == 429 and "insufficient_quota" in (error.code, error.type):
            return StageError(f"the quota is used up: {where}; run the same command again when there is more")
        if code in (408, 409, 425, 429) or code >= 500:
            seconds = retry_after(error.response.headers)
            if seconds is not None and code in (429, 503):
                self._pace.not_before(seconds)
            return _PassingError(f"status {code}: {said}", seconds)
        return UnansweredError(f"status {code}: {said}")


class _Beginning(httpx2.AsyncByteStream):
    """The beginning of an error response; the library would read it to its end."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = _LARGEST_ERROR
        async for part in self._whole:
            yield part[:left]
            left -= len(part)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._whole.aclose()


async def _shorten(response: Any) -> None:
    """Truncate an error response."""
    if response.status_code >= 300:
        response.stream = _Beginning(response.stream)


def _close(loop: EventLoop, client: Any) -> None:
    """Close a client's connections."""
    asyncio.run_coroutine_threadsafe(client.close(), loop.loop)


def _said(error: Any) -> str:
    body = error.body
    if isinstance(body, Mapping):
        return str(body.get("message") or body.get("detail") or body)
    return str(body or error.response.text or error.message)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server wants to be left alone, from ``Retry-After`` (seconds or a date); None for none."""
    given = headers.get("retry-after")
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(given).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER) if seconds == seconds else None


def problem_of(reply: Any) -> str:
    """Return why a JSON value is not a chat completion; empty if it is one."""
    if not isinstance(reply, Mapping):
        return f"expected an object, got {type(reply).__name__}"
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return "it has no choices"
    message = choices[0].get("message")
    if not isinstance(message, Mapping):
        return "its choice has no message"
    content, calls = message.get("content"), message.get("tool_calls")
    if not isinstance(content, (str, list, type(None))):
        return f"its content is {type(content).__name__}"
    if isinstance(content, list) and not all(isinstance(part, Mapping) for part in content):
        return "its content holds something that is not a content part"
    if not isinstance(calls, (list, type(None))):
        return f"its tool_calls are {type(calls).__name__}"
    return "" if all(map(_names_function, calls or ())) else "a tool call names no function"


def _names_function(call: Any) -> bool:
    function = call.get("function") if isinstance(call, Mapping) else None
    return isinstance(function, Mapping) and isinstance(function.get("name"), str)
