"""Arguments of tools, checked by their JSON schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import jsonschema
import referencing
import referencing.exceptions
from jsonschema.validators import validator_for

from tod_bias.errors import StageError, shortened


class Arguments:
    """Checks a tool's arguments by its JSON schema.

    Args:
        name: the tool's.
        parameters: the JSON schema of its arguments.

    Raises:
        StageError: this is no JSON schema.
    """

    def __init__(self, name: str, parameters: Mapping[str, Any]) -> None:
        self._name = name
        try:
            self._validator = _validator(json.dumps(dict(parameters), default=repr))
        except jsonschema.SchemaError as error:
            raise StageError(
                f"schema of tool {name!r}: {_place(error.absolute_path)}{shortened(error.message, 200)}"
            ) from error

    def problem(self, arguments: Mapping[str, Any]) -> str:
        """Return why arguments are invalid, in one line; empty if they are valid.

        Raises:
            StageError: the schema has an unresolved reference.
        """
        try:
            error = jsonschema.exceptions.best_match(self._validator.iter_errors(arguments))
        except (ArithmeticError, RecursionError) as problem:  # numbers and depths that no schema foresees
            return f"they cannot be checked: {shortened(str(problem), 200)}"
        except referencing.exceptions.Unresolvable as missing:
            raise StageError(f"schema of tool {self._name!r}: refers to what is not in it: {missing}") from missing
        return "" if error is None else f"{_place(error.absolute_path)}{shortened(error.message, 300)}"


@lru_cache(maxsize=1000)
def _validator(schema: str) -> Any:
    """Return the cached validator of a schema given as JSON; tools are made again for every variant of a world."""
    parameters = json.loads(schema)
    kind = validator_for(parameters, default=jsonschema.Draft202012Validator)
    kind.check_schema(parameters)
    return kind(parameters, registry=referencing.Registry())  # nothing is fetched


def _place(path: Iterable[Any]) -> str:
    place = ".".join(map(str, path))
    return f"{place}: " if place else ""
