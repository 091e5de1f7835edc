"""Python functions as tools: found by name, described by OpenAI's function schemas."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

from tod_bias.errors import StageError
from tod_bias.io.documents import read_json
from tod_bias.io.imports import import_module, import_object, is_import

STATE = "state"
"""Name of the first parameter of a tool that receives the state of the dialogue instead of an argument. A
positional-only first parameter receives the state under any name, and then ``state`` is an argument."""
NEW_STATE = "new_state"
"""The name of the function in a module of tools that makes the state at a dialogue's beginning."""
SCHEMAS = "schemas"
"""The name of the function in a module of tools that gives their schemas, where signatures do not."""
_HOOKS = (NEW_STATE, SCHEMAS)


def functions_of(functions: str | Path | ModuleType | Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Tools by name.

    Args:
        functions: a module's name, its ``.py`` file or the module itself: what its ``__all__`` names, or else the
            public functions that are written in it, or else those that it imports from other code of the user's; or
            name to function, or to ``module:function``.

    Raises:
        StageError: the module or function does not exist, or a function cannot be called with keywords.
    """
    if isinstance(functions, Mapping):
        by_name = {str(name): _function(name, value) for name, value in functions.items()}
    else:
        module = module_of(functions)
        names = getattr(module, "__all__", None)
        if names is None:
            public = [name for name, value in vars(module).items() if _is_public(name, value, module)]
            names = public or [name for name, value in vars(module).items() if _is_imported(name, value)]
        by_name = {name: value for name, value in vars(module).items() if name in names and name not in _HOOKS}
        by_name = {name: value for name, value in by_name.items() if callable(value)}
    if not by_name:
        raise StageError("functions: there are none; name a module with public functions, or a mapping of names")
    for name, function in by_name.items():
        _check(name, function)
    return by_name


def module_of(module: str | Path | ModuleType) -> ModuleType:
    """A module by name or file.

    Raises:
        StageError: it cannot be imported.
    """
    if isinstance(module, ModuleType):
        return module
    text = str(module)
    folder = None
    if text.endswith(".py"):
        folder, text = Path(text).parent, Path(text).stem
    return import_module(text, "functions", folder, StageError)


def _is_public(name: str, value: Any, module: ModuleType) -> bool:
    return not name.startswith("_") and inspect.isroutine(value) and value.__module__ == module.__name__


def _is_imported(name: str, value: Any) -> bool:
    """Return whether a value is a public function of another module that is not Python's own."""
    origin = getattr(value, "__module__", None) or "builtins"
    return not name.startswith("_") and inspect.isroutine(value) and origin.split(".")[0] not in sys.stdlib_module_names


def _function(name: Any, value: Any) -> Callable[..., Any]:
    where = f"functions: {name!r}"
    if isinstance(value, str):
        if not is_import(value):
            raise StageError(f"{where}: expected a function or module:function, got {value!r}")
        value = import_object(value, where, None, StageError)
    if not callable(value):
        raise StageError(f"{where}: expected a function, got {type(value).__name__}")
    return typing.cast(Callable[..., Any], value)


def _check(name: str, function: Callable[..., Any]) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise StageError(f"functions: {name!r}: a tool is a plain function; async functions and generators are not")
    for number, parameter in enumerate(_parameters(name, function).values()):
        if number and parameter.kind is parameter.POSITIONAL_ONLY:
            raise StageError(f"functions: {name!r}: {parameter.name!r} cannot be given by name; only the state can be")


def _parameters(name: str, function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise StageError(f"functions: {name!r}: its parameters cannot be read: {error}; wrap it in a def") from error


def takes_state(name: str, function: Callable[..., Any]) -> bool:
    """True if the first parameter of a tool is the state."""
    first = next(iter(_parameters(name, function).values()), None)
    return first is not None and (first.name == STATE or first.kind is first.POSITIONAL_ONLY)


def check_fit(name: str, function: Callable[..., Any], parameters: Mapping[str, Any]) -> None:
    """Raise if a function does not take an argument of its schema, or requires an argument that the schema lacks.

    A schema without ``properties`` says nothing of arguments, and fits.

    Raises:
        StageError: it does not; names the argument.
    """
    properties = parameters.get("properties")
    if not isinstance(properties, Mapping) or not properties.keys():
        return
    taken = list(_parameters(name, function).values())[takes_state(name, function) :]
    named = [
        parameter for parameter in taken if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken)
    names = [parameter.name for parameter in named]
    if not is_open and (unknown := [argument for argument in properties if argument not in names]):
        raise StageError(
            f"schemas: {name!r} offers the argument {unknown[0]!r}, which the function does not take; it takes "
            f"{', '.join(names) or 'none'}; make the schema and the function fit each other"
        )
    is_closed = not any(key in parameters for key in ("$ref", "allOf", "anyOf", "oneOf", "patternProperties"))
    required = [
        parameter.name
        for parameter in named
        if parameter.default is parameter.empty and parameter.name not in properties
    ]
    if is_closed and required:
        raise StageError(
            f"schemas: {name!r} does not offer {required[0]!r}, which the function requires; it offers "
            f"{', '.join(properties)}; make the schema and the function fit each other"
        )


def binding_problem(function: Callable[..., Any], arguments: Mapping[str, Any], *, has_state: bool) -> str:
    """Return why a function cannot be called with keyword arguments; empty if it can."""
    try:
        inspect.signature(function).bind(*([None] if has_state else []), **arguments)
    except TypeError as error:
        return str(error)
    return ""


def schema_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """OpenAI's function schema of a function: types of its annotations, the first paragraph of its docstring.

    Raises:
        StageError: an annotation has no JSON type.
    """
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    required: list[str] = []
    is_open = False
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        hints = {}
    for number, parameter in enumerate(_parameters(name, function).values()):
        is_state = number == 0 and takes_state(name, function)
        if is_state or parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            is_open = True
            continue
        schema = _type_schema(name, parameter, hints.get(parameter.name, typing.Any))
        definitions |= schema.pop("$defs", {})
        properties[parameter.name] = schema
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": is_open}
    if definitions:
        parameters["$defs"] = definitions
    description = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _type_schema(name: str, parameter: inspect.Parameter, annotation: Any) -> dict[str, Any]:
    try:
        return dict(TypeAdapter(annotation).json_schema())
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise StageError(
            f"functions: {name!r}: the annotation of {parameter.name!r} has no JSON type ({annotation!r}); use str, "
            "int, float, bool, list, dict, Literal …, or give schemas"
        ) from error


def read_schemas(schemas: str | Path | Sequence[Any]) -> list[dict[str, Any]]:
    """A list of OpenAI's function schemas, or the JSON file that holds it.

    Raises:
        StageError: the file cannot be read, or is not such a list; names the entry.
    """
    where = "schemas"
    content: Any = schemas
    if isinstance(schemas, (str, Path)):
        where = str(schemas)
        try:
            content = read_json(schemas)
        except (OSError, ValueError) as error:
            raise StageError(f"{where}: cannot be read as JSON: {error}") from error
    if not isinstance(content, (list, tuple)):
        raise StageError(f"{where}: expected a list of function schemas, got {type(content).__name__}")
    return [_entry(entry, f"{where}, entry {number}") for number, entry in enumerate(content, start=1)]


def _entry(entry: Any, where: str) -> dict[str, Any]:
    function = entry.get("function", entry) if isinstance(entry, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise StageError(f'{where}: expected {{"type": "function", "function": {{"name": …, "parameters": …}}}}')
    if not isinstance(function.get("parameters", {}), Mapping):
        raise StageError(f"{where}: 'parameters' must be a JSON schema, got {function['parameters']!r:.60}")
    return {"type": "function", "function": dict(function)}
