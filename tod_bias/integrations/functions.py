"""Agents that are plain functions of messages: the functions that they call are marked as stages."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from tod_bias.errors import StageError, UnansweredError, meant
from tod_bias.integrations.adapter import Adapter, Match, place, tool_call
from tod_bias.integrations.openai_client import MODEL, reply_to
from tod_bias.systems.hosted import AgentRequest, ask, ask_from_thread, is_hosted

F = TypeVar("F", bound=Callable[..., Any])
_marked: dict[str, Callable[..., Any]] = {}
"""Functions that are stages, by name."""
_kinds: dict[str, str] = {MODEL: "model"}
"""Kinds of the stages, by name."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def stage(name: str, *, kind: Literal["tool", "model"] = "tool") -> Callable[[F], F]:
    """Mark a function, plain or async, that an agent calls as a stage; called elsewhere, it is as it was.

    Arguments and what it returns must be JSON.

    Args:
        name: the stage's.
        kind: ``tool``: its calls count as those of the turn, for metrics such as ``call_disagreement``.

    Raises:
        StageError: the function takes arguments without a name, or an object whose method it is.
    """

    def mark(function: F) -> F:
        signature = inspect.signature(function)
        if any(parameter.kind not in _NAMED for parameter in signature.parameters.values()):
            raise StageError(f"stage {name!r}: its function must name its parameters, without * and **")
        if next(iter(signature.parameters), "") == "self":
            raise StageError(f"stage {name!r}: mark the method of an object: self.find = stage({name!r})(self.find)")

        def argument(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            given = dict(signature.bind(*args, **kwargs).arguments)
            return AgentRequest(given, name) if kind == "model" else tool_call(name, given)

        @functools.wraps(function)
        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            return await (ask(name, argument(args, kwargs)) if is_hosted() else function(*args, **kwargs))

        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            return ask_from_thread(name, argument(args, kwargs)) if is_hosted() else function(*args, **kwargs)

        _marked[name] = function
        _kinds[name] = kind
        return asynchronous if inspect.iscoroutinefunction(function) else plain  # type: ignore[return-value]

    return mark


class FunctionAdapter(Adapter):
    """A function of OpenAI's messages that returns a text; see :class:`~tod_bias.integrations.adapter.Adapter`."""

    framework = "function"

    def read_stages(self, stages: str | Mapping[str, Match]) -> dict[str, Match]:
        """The names of marked functions, joined by ``+``; ``model`` may be the client's transport."""
        names = stages.split("+") if isinstance(stages, str) else list(stages)
        for name in names:
            if name not in _marked and name != MODEL:
                pair = sorted(_marked)[:2]
                yaml = "{" + ", ".join(f"{stage}: {{}}" for stage in pair) + "}"
                two = f"; give stages={'+'.join(pair)!r}, in YAML stages: {yaml}, for two of them" if pair[1:] else ""
                raise StageError(
                    f"stages: no function is marked @stage({name!r}); marked are {', '.join(sorted(_marked)) or 'none'}"
                    f"{meant(name, _marked)}{two}"
                )
        self.functions = {name: _marked[name] for name in names if name in _marked}
        return {name: {} for name in names}

    def kind_of(self, stage: str, match: Match) -> str:
        """Return the kind with which the function is marked."""
        return _kinds[stage]

    def parts(self) -> Sequence[Any]:
        """The marked functions."""
        return list(self.functions.values())

    async def run(self, messages: list[dict[str, Any]]) -> str:
        """The function's text; a plain function runs on a thread.

        Raises:
            UnansweredError: it returned anything else.
        """
        response = await _called(self.agent, messages, **self.options)
        if not isinstance(response, str):
            raise UnansweredError(f"agent {place(self.agent)}: expected a text, got {type(response).__name__}")
        return response

    async def call_model(self, request: AgentRequest) -> Any:
        """Call a marked function, or a server."""
        if request.fixed in self.functions:
            return await _called(self.functions[request.fixed], **request.content)
        return await reply_to(request)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a marked function."""
        return await _called(self.functions[name], **arguments)


async def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    output = await asyncio.to_thread(function, *args, **kwargs)
    return await output if inspect.isawaitable(output) else output
