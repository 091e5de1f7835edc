"""Python functions as the tools of a system, on the state that the earlier calls of the dialogue made.

::

    stages:
      policy: {stage: "tod_bias.stages:ToolCalls", …}
      tools: {stage: "tod_bias.stages:Tools", functions: my_tools}
      answer: {stage: "tod_bias.stages:Answer", …}
    flow: tool_loop

with ``my_tools.py`` in the same folder::

    def new_state():
        return {"orders": {}}

    def order(state, dish: str, seats: int = 1) -> dict:
        \"\"\"Order a dish.\"\"\"
        state["orders"][dish] = seats
        return {"ordered": dish, "all": list(state["orders"])}
"""

from __future__ import annotations

import copy
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from tod_bias.dialogues.calls import MALFORMED, calls_of
from tod_bias.dialogues.dialogue import arguments_of
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import FOREIGN, StageError, TodBiasError, described, shortened
from tod_bias.io.canonical import NotPlainError
from tod_bias.io.imports import import_object, is_import
from tod_bias.io.signatures import derived_signature
from tod_bias.systems import functions as tools
from tod_bias.systems.arguments import Arguments
from tod_bias.systems.outputs import ERROR
from tod_bias.systems.stage import Stage, StageInput

_UNKNOWN = "unknown tool"
_UNFIT = "the function does not take the arguments of"
"""Prefix of the errors for calls that no function takes."""
_REMEMBERED = 256
"""States that are in memory at once."""


class Tools(Stage):
    """Runs functions by name; their results are JSON values.

    A flow calls it with a call (``yield "tools", call``); without an argument it takes the calls of the latest output
    of the turn that has some, several calls give a list of results, and none gives None. A call of no tool, arguments
    that are not JSON or violate the schema, and an exception give ``{"error": "one line"}``, which the model sees, and
    the run continues. A failed call leaves the state unchanged.

    Functions whose first parameter is named ``state`` (or stands before a ``/``) get the state of the dialogue: a new
    one on which the calls in the history and those of this turn before it are carried out first, in
    order. So the same call after the same calls gives the same result, in whatever order and batch it is asked, as long
    as the functions depend on nothing else.

    Args:
        functions: a module (name, or a ``.py`` file beside the pipeline file) whose public functions are the tools, or
            name to function or ``module:function``.
        schemas: OpenAI's function schemas, as a list or the path of a JSON file; then these are the tools. Left out:
            what the module's function ``schemas`` gives, else types and docstrings of the functions.
        state: makes the state at a dialogue's beginning, ``module:function``; left out: the module's ``new_state``,
            else ``{}``.
        data: a file, folder or JSON value, given to ``new_state`` and ``schemas`` as their argument. What is in the
            files is part of its signature.

    Raises:
        StageError: a module, function, file or schema cannot be used.
    """

    def __init__(
        self,
        functions: str | Path | ModuleType | Mapping[str, Any],
        schemas: str | Path | Sequence[Any] | None = None,
        *,
        state: str | Callable[..., Any] | None = None,
        data: Any = None,
    ) -> None:
        by_name = tools.functions_of(functions)
        module = None if isinstance(functions, Mapping) else tools.module_of(functions)
        self._data = data
        self._has_data = data is not None
        if isinstance(state, str):
            if not is_import(state):
                raise StageError(f"state: expected module:function, got {state!r}")
            state = import_object(state, "state", None, StageError)
        made: Any = state or getattr(module, tools.NEW_STATE, None) or _nothing
        if not callable(made):
            raise StageError(f"state: expected a function, got {type(made).__name__}")
        self._new_state: Callable[..., Any] = made
        self.schemas = self._schemas(schemas, getattr(module, tools.SCHEMAS, None), by_name)
        """OpenAI's function schemas of the tools."""
        named = {entry["function"]["name"]: entry["function"].get("parameters", {}) for entry in self.schemas}
        if missing := [name for name in named if name not in by_name]:
            place = functions if isinstance(functions, str | Path) else "functions"
            remedy = "write it there, or look recorded results up (tod-bias export --database)"
            raise StageError(f"schemas: {place} has no {missing[0]!r}, only {', '.join(by_name)}; {remedy}")
        self._functions = {name: by_name[name] for name in named}
        for name, parameters in named.items():
            tools.check_fit(name, by_name[name], parameters)
        self._arguments = {name: Arguments(name, parameters) for name, parameters in named.items()}
        self._stateful = {name for name, function in self._functions.items() if tools.takes_state(name, function)}
        self._problems: dict[str, str] = {}
        self._states: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def _schemas(
        self, given: str | Path | Sequence[Any] | None, hook: Any, by_name: Mapping[str, Callable[..., Any]]
    ) -> list[dict[str, Any]]:
        if given is None and hook is not None:
            given = self._made("schemas", hook)
        if given is not None:
            return tools.read_schemas(given)
        return [tools.schema_of(name, function) for name, function in by_name.items()]

    def _made(self, what: str, function: Callable[..., Any]) -> Any:
        try:
            return function(self._data) if self._has_data else function()
        except TodBiasError:
            raise
        except FOREIGN as error:
            raise StageError(f"{what}: cannot be made: {described(error)}") from error

    @cached_property
    def signature(self) -> str:  # type: ignore[override]
        """Identify everything that determines the results: the functions' sources, the schemas, the data; empty if a
        function holds state that is not plain."""
        try:
            return self.derived_signature()
        except NotPlainError:
            return ""

    def derived_signature(self) -> str:
        """The signature.

        Raises:
            NotPlainError: a function holds state that is not plain.
        """
        parts = [f"{name}={derived_signature(function)}" for name, function in self._functions.items()]
        parts.append(f"state={derived_signature(self._new_state)}")
        parts.append(json.dumps(self.schemas, sort_keys=True, default=str))
        parts.append(_content(self._data))
        digest = blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return f"tools:{','.join(self._functions)}|hash:{digest}"

    def check_offered(self, schemas: Sequence[Mapping[str, Any]], by: str) -> None:
        """Raise if a tool that a model is offered is no function of this stage, or has other arguments.

        Args:
            schemas: OpenAI's function schemas.
            by: the stage that offers them.

        Raises:
            StageError: one is not; names it.
        """
        for entry in schemas:
            function = entry["function"]
            name = function["name"]
            if name not in self._functions:
                raise StageError(
                    f"stage {by!r} offers the tool {name!r}, which has no function; the functions are "
                    f"{', '.join(self._functions)}"
                )
            try:
                tools.check_fit(name, self._functions[name], function.get("parameters", {}))
            except StageError as error:
                raise StageError(f"stage {by!r}: {error}") from error

    runs_tools = True

    def outcome(self, output: Any) -> str:
        """``unknown function``, ``unfit arguments``, ``failed call`` or nothing: what the engine counts."""
        if not isinstance(output, Mapping) or output.keys() != {ERROR}:
            return ""
        text = str(output[ERROR])
        kinds = {_UNKNOWN: "unknown function", _UNFIT: "unfit arguments"}
        return next((what for begin, what in kinds.items() if text.startswith(begin)), "failed call")

    def tool(self, item: StageInput, output: Any) -> str:
        """The tool that was called."""
        return item.tool

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """One result an input.

        Raises:
            StageError: a function gives what is no JSON, or the state cannot be made.
        """
        return [self._output(item) for item in inputs]

    def _output(self, item: StageInput) -> Any:
        before = [call for turn in item.history for call in turn.calls]
        for step in item.steps:
            if isinstance(step.argument, Mapping):
                before += calls_of(step.argument) or []
        if item.argument is not None:
            calls = calls_of(item.argument)
            if calls is None:
                return {ERROR: f"the call cannot be read: {shortened(str(item.argument), 200)}"}
        else:
            calls = item.calls
        results = []
        keys = [key for call in before if (key := self._key(call))]
        for call in calls:
            results.append(self._result(call, keys))
            if key := self._key(call):
                keys.append(key)
        return None if not results else results[0] if len(results) == 1 else results

    def _key(self, call: Mapping[str, Any]) -> str:
        """The text of a call that may change the state; empty for any other."""
        if call.get(API_NAME) not in self._stateful:
            return ""
        key = json.dumps(dict(call), ensure_ascii=False)
        problem = self._problems.get(key)
        if problem is None:
            problem = self._problem(call)
            with self._lock:
                if len(self._problems) > 100 * _REMEMBERED:
                    self._problems.clear()
                self._problems[key] = problem
        return "" if problem else key

    def _problem(self, call: Mapping[str, Any]) -> str:
        name = call.get(API_NAME, "")
        if name not in self._functions:
            return f"{_UNKNOWN} {name!r:.100}; there are {', '.join(self._functions)}"
        arguments = _arguments(call)
        if arguments.keys() == {MALFORMED}:
            return f"the arguments of {name} are no JSON object: {shortened(str(arguments[MALFORMED]), 200)}"
        problem = self._arguments[name].problem(arguments)
        unfit = tools.binding_problem(self._functions[name], arguments, has_state=name in self._stateful)
        if unfit:
            return f"{_UNFIT} {name}: {problem or unfit}"
        return problem and f"the arguments of {name} do not fit its schema: {problem}"

    def _result(self, call: Mapping[str, Any], keys: Sequence[str]) -> Any:
        if problem := self._problem(call):
            return {ERROR: problem}
        name = str(call[API_NAME])
        state = self._state_after(tuple(keys)) if name in self._stateful else None
        key = (*keys, json.dumps(dict(call), ensure_ascii=False))
        result, after = self._run(name, _arguments(call), state)
        if name in self._stateful:
            self._remember(key, after)
        return result

    def _state_after(self, keys: tuple[str, ...]) -> Any:
        """Return the state after these calls; callers must not change it."""
        done = len(keys)
        with self._lock:
            while done and keys[:done] not in self._states:
                done -= 1
            if not done and () not in self._states:
                self._states[()] = self._made("new_state", self._new_state)
            state = self._states[keys[:done]]
            self._states.move_to_end(keys[:done])
        for key in keys[done:]:
            call = json.loads(key)
            _, state = self._run(call.pop(API_NAME), call, state)
        self._remember(keys, state)
        return state

    def _remember(self, keys: tuple[str, ...], state: Any) -> None:
        with self._lock:
            self._states[keys] = state
            self._states.move_to_end(keys)
            while len(self._states) > _REMEMBERED:
                oldest = next(iter(self._states))
                if not oldest:  # the new state stays
                    self._states.move_to_end(oldest)
                    continue
                del self._states[oldest]

    def _run(self, name: str, arguments: dict[str, Any], state: Any) -> tuple[Any, Any]:
        """Return the result of a function, and the state after it."""
        function = self._functions[name]
        try:
            if name in self._stateful:
                after = copy.deepcopy(state)
                given = function(after, **arguments)
            else:
                after, given = state, function(**arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever it is, the model sees it
            text = shortened(str(error), 300)
            return {ERROR: f"{type(error).__name__}: {text}" if text else type(error).__name__}, state
        try:
            return json.loads(json.dumps(given, allow_nan=False)), after
        except (TypeError, ValueError, RecursionError) as error:
            raise StageError(f"tool {name!r}: expected it to return JSON, got {shortened(str(error), 200)}") from error


def _nothing() -> dict[str, Any]:
    return {}


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, in new containers and strings."""
    arguments: dict[str, Any] = json.loads(json.dumps(arguments_of(call)))
    return arguments


def _content(data: Any) -> str:
    """Return the content of a file, or of all files in a folder, which identifies the data."""
    if not isinstance(data, (str, Path)) or not Path(data).exists():
        return json.dumps(data, sort_keys=True, default=str)
    path = Path(data)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    digest = blake2b(digest_size=16)
    for file in files:
        digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
