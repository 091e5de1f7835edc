"""OpenAI function schemas: which tools there are, and whether a call's arguments fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tod_bias.dialogues.values import API_NAME, plain
from tod_bias.documents import read_json
from tod_bias.errors import StageError, shortened


class Schemas:
    """Function schemas by name.

    Args:
        tools: a list of ``{"type": "function", "function": {"name": …, "parameters": {…}}}``, or a JSON file of it.

    Raises:
        StageError: the file cannot be read, or an entry is no function schema.
    """

    def __init__(self, tools: str | Path | Sequence[Mapping[str, Any]]) -> None:
        where = f"tools: {tools}" if isinstance(tools, (str, Path)) else "tools"
        if isinstance(tools, (str, Path)):
            try:
                tools = read_json(tools)
            except (OSError, ValueError) as error:
                raise StageError(f"{where}: cannot be read: {shortened(str(error), 200)}") from error
        if not isinstance(tools, list):
            raise StageError(f"{where}: expected a list of function schemas, got {type(tools).__name__}")
        self.tools: tuple[Mapping[str, Any], ...] = tuple(tools)
        """The schemas as they are sent."""
        self._checks: dict[str, Any] = {}
        for number, tool in enumerate(self.tools, start=1):
            name, parameters = _function(tool, f"{where}, entry {number}")
            if name in self._checks:
                raise StageError(f"{where}, entry {number}: the function {name!r} stands twice")
            self._checks[name] = _validator(parameters, f"{where}, function {name!r}")

    def __contains__(self, name: object) -> bool:
        return name in self._checks

    @property
    def names(self) -> tuple[str, ...]:
        """The functions' names, in order."""
        return tuple(self._checks)

    def problem(self, call: Mapping[str, Any]) -> str:
        """What keeps a call's arguments from fitting their schema, one line; empty for nothing.

        Args:
            call: the arguments, with the function's name under ``api_name``; a function that there is.
        """
        arguments = plain({slot: value for slot, value in call.items() if slot != API_NAME})
        found = next(iter(self._checks[str(call[API_NAME])].iter_errors(arguments)), None)
        if found is None:
            return ""
        place = ".".join(map(str, found.absolute_path))
        return f"{place}: {shortened(found.message, 200)}" if place else shortened(found.message, 200)


def _function(tool: Any, where: str) -> tuple[str, Any]:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not function["name"]:
        raise StageError(f'{where}: expected {{"type": "function", "function": {{"name": …, "parameters": {{…}}}}}}')
    return function["name"], function.get("parameters") or {}


def _validator(parameters: Any, where: str) -> Any:
    try:
        import jsonschema
    except ImportError as error:
        raise StageError("tools need the package 'jsonschema': pip install 'tod-bias[chat]'") from error
    kind = jsonschema.validators.validator_for(parameters, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(parameters)
    except jsonschema.SchemaError as error:
        raise StageError(f"{where}: its parameters are no JSON schema: {shortened(error.message, 200)}") from error
    return kind(parameters)
