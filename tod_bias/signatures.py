"""Signatures of components that have none of their own: what decides what they put out.

A function or object is known by its source (its file, and its author's files that this one imports) and by its plain
state: arguments, attributes, the variables that a function closes over. Objects and functions of the frameworks that
agents are made with are known by their package's version in place of the source; connections that they hold decide
nothing. What has neither is not cached from one run to the next.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tod_bias.canonical import NotPlainError, digest

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PACKAGE = str(Path(__file__).parent)


def derived_signature(called: Any) -> str:
    """A hash of the source and the plain state of a function or object.

    What it reads from elsewhere while it runs, a file or a service, does not show: then it should have a signature.

    Raises:
        NotPlainError: its source cannot be read, or it holds state that is not plain.
    """
    return digest(json.dumps(_state(called, {})))[:16]


_Seen = dict[int, tuple[int, Any]]
"""Ids of the values that were written already, to their numbers and the values."""
_MOST = 100_000
"""Values that one object may hold."""
_FRAMEWORKS = re.compile(r"(agents|anthropic|langchain(_\w+)?|langgraph|mcp|openai|pydantic|pydantic_ai)(\.|$)")
"""Modules whose objects are known by the version of their package, and their state."""
_CONNECTIONS = re.compile(
    r"(_?asyncio|_?contextvars|_?ssl|_?thread(ing)?|anyio|concurrent|httpcore|httpx2?|langsmith|logging|pydantic_core"
    r"|sniffio|_?weakref)(\.|$)"
)
"""Modules whose objects decide nothing where those of a framework hold them."""
_DECIDES_NOTHING = re.compile(r"api_key|^core_schema$")
"""Names of what objects of frameworks hold: a key may be another tomorrow, and pydantic's schemas hold addresses."""


def _state(value: Any, seen: _Seen) -> Any:
    """What decides what a value does, as JSON: its plain content, or the source and state of functions and objects."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return [type(value).__name__, value if isinstance(value, str) else repr(value)]
    if id(value) in seen:
        return ["again", seen[id(value)][0]]
    if len(seen) > _MOST:
        raise NotPlainError(f"it holds more than {_MOST:,} values")
    seen[id(value)] = len(seen), value
    if form := _FORMS.get(type(value)):
        return form(value, seen)
    if (name := _named(value)) is not None:
        return name
    if isinstance(value, type):
        return _class(value, seen)
    if type(value).__module__ == "functools" and hasattr(value, "__wrapped__"):  # a function with a cache
        return _state(value.__wrapped__, seen)
    if _is_frameworks(type(value).__module__):
        return _framework_object(value, seen)
    return _attributes(value, seen)


def _named(value: Any) -> list[str] | None:
    """What is known by a name; None for anything else."""
    kind = type(value)
    if isinstance(value, os.PathLike):
        return ["path", os.fspath(value)]
    if isinstance(value, Enum):
        return ["member", kind.__qualname__, value.name]
    if isinstance(value, ModuleType) or inspect.isbuiltin(value):
        return ["named", value.__name__]
    if kind.__module__ == "dataclasses":  # what stands for a default that a factory makes
        return ["named", kind.__qualname__]
    signature = getattr(value, "signature", None)  # of any object that says what decides what it does
    if isinstance(signature, str) and signature and not isinstance(value, type):
        return ["signature", kind.__module__, kind.__qualname__, signature]
    return None


def _items(values: Iterable[Any], seen: _Seen) -> Any:
    return [_state(item, seen) for item in values]


def _class(value: type, seen: _Seen) -> Any:
    read = [item for _, held in sorted(vars(value).items()) for item in _read_by(held) if id(item) not in seen]
    return ["class", value.__module__, value.__qualname__, _source(value), _items(read, seen)]


def _function(function: FunctionType, seen: _Seen) -> Any:
    """A function's own code, what it closes over, its defaults, and the values of its module that it reads."""
    name = [function.__module__, function.__qualname__, _source(function)]
    if _is_frameworks(str(function.__module__)):
        return [*name, _version(function.__module__), [_held(item, seen) for item in _closed_over(function)]]
    values = [item for item in _read_by(function) if id(item) not in seen]
    return [*name, _code(function.__code__), _items(values, seen)]


_FORMS: dict[type, Callable[[Any, _Seen], Any]] = {
    list: _items,
    tuple: _items,
    dict: lambda value, seen: [_items(entry, seen) for entry in value.items()],
    re.Pattern: lambda value, seen: ["pattern", value.pattern, value.flags],
    FunctionType: _function,
    MethodType: lambda value, seen: _items([value.__func__, value.__self__], seen),
    functools.partial: lambda value, seen: ["partial", *_items([value.func, value.args, value.keywords], seen)],
}
"""How the values of a type are written."""


@functools.cache
def _is_frameworks(module: str) -> bool:
    """Whether a module is of an installed framework: a package of the user's own may be called ``agents`` too."""
    file = str(getattr(sys.modules.get(module), "__file__", None))
    installed = _distribution_of(module.partition(".")[0]) if _FRAMEWORKS.match(module) else None
    return installed is not None and file.startswith(str(installed.locate_file("")))


_distributions = functools.cache(packages_distributions)  # it reads the list of files of every installed package


@functools.cache
def _distribution_of(package: str) -> Distribution | None:
    names = _distributions().get(package)
    return distribution(names[0]) if names else None


def _framework_object(value: Any, seen: _Seen) -> Any:
    """An object of a framework: its class, the version of its package, and what it holds but for connections."""
    kind = type(value)
    return ["framework", kind.__module__, kind.__qualname__, _version(kind.__module__), _fields(value, seen)]


def _fields(value: Any, seen: _Seen) -> Any:
    """What an object holds whose class is a framework's or derives from one."""
    kind = type(value)
    slots = {name for base in kind.__mro__ for name in _names_in(vars(base).get("__slots__"))}
    fields = {name: getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)}
    fields |= {**getattr(value, "__dict__", {}), **(getattr(value, "__pydantic_private__", None) or {})}
    written = [name for name in sorted(fields) if not _DECIDES_NOTHING.search(name)]
    written = [name for name in written if not isinstance(getattr(kind, name, None), functools.cached_property)]
    return [[name, _held(fields[name], seen)] for name in written]


def _names_in(slots: Any) -> Iterable[str]:
    return [slots] if isinstance(slots, str) else slots or ()


def _held(item: Any, seen: _Seen) -> Any:
    """What something of a framework holds."""
    kind = type(item)
    if kind in (set, frozenset):
        return ["set", *sorted(json.dumps(_held(inner, seen)) for inner in item)]
    if kind in _FORMS or not _CONNECTIONS.match(kind.__module__):
        return _state(item, seen)
    return ["connection", kind.__module__, kind.__qualname__, str(item) if kind.__name__ == "URL" else ""]


def _version(module: str) -> str:
    """The version of the framework that a module is of."""
    installed = _distribution_of(module.partition(".")[0])
    return "" if installed is None else installed.version


def _closed_over(function: FunctionType) -> Iterator[Any]:
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # an empty cell
            yield cell.cell_contents


def _read_by(function: Any) -> Iterator[Any]:
    """What a function of one's own reads beside its arguments; other functions of its file are in its source."""
    function = getattr(function, "__func__", getattr(function, "fget", function))
    if not isinstance(function, FunctionType) or str(function.__code__.co_filename).startswith((*_INSTALLED, _PACKAGE)):
        return
    yield from _closed_over(function)
    for name in sorted(_names(function.__code__) & function.__globals__.keys()):
        held = function.__globals__[name]
        if not (isinstance(held, (FunctionType, type, ModuleType)) or inspect.isbuiltin(held)):
            yield held


def _names(code: CodeType) -> set[str]:
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def _code(code: CodeType) -> Any:
    constants = [_code(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), constants]


def _attributes(value: Any, seen: _Seen) -> Any:
    """The attributes of an object whose class is its author's own (or this package's) Python, and its bases too, or of
    a framework."""
    kind = type(value)
    versions = []
    for base in kind.__mro__:
        if base is object or base.__module__ in ("abc", "typing"):
            continue
        if _is_frameworks(base.__module__):
            versions.append(_version(base.__module__))
        elif vars(base).get("__slots__") or not _has_source(base):
            raise NotPlainError(f"an attribute of it holds what is not plain ({kind.__name__})")
    if versions:
        return [_state(kind, seen), versions, _fields(value, seen)]
    state = sorted(getattr(value, "__dict__", {}).items())
    return [_state(kind, seen), [[name, _state(item, seen)] for name, item in state]]


def _has_source(kind: type) -> bool:
    try:
        return _source(kind) != "installed"
    except NotPlainError:
        return False


def _source(value: Any) -> str:
    """A hash of the file that a function or class is written in, and of its author's files that this one imports."""
    module = sys.modules.get(value.__module__)
    if value.__module__ == "builtins":
        return "installed"
    if module is not None and _is_source(file := getattr(module, "__file__", None)):
        if str(file).startswith(_INSTALLED) and not str(file).startswith(_PACKAGE):
            return "installed"
        return "|".join(_hash_of_file(name, Path(name).stat().st_mtime_ns) for name in _files(module))
    try:
        return digest(inspect.getsource(value))
    except (OSError, TypeError) as error:
        raise NotPlainError(f"the source of {value.__qualname__} cannot be read") from error


def _is_source(file: Any) -> bool:
    return isinstance(file, str) and file.endswith(".py") and Path(file).is_file()


def _files(module: ModuleType) -> list[str]:
    """The module's file, and those of the modules it imports that are neither installed nor of this package."""
    files = {str(module.__file__)}
    waiting = [module]
    while waiting:
        for held in list(vars(waiting.pop()).values()):
            name = held.__name__ if isinstance(held, ModuleType) else getattr(held, "__module__", None)
            other = sys.modules.get(name) if isinstance(name, str) else None
            file = str(getattr(other, "__file__", None))
            if other is None or file in files or not _is_source(file) or file.startswith((*_INSTALLED, _PACKAGE)):
                continue
            files.add(file)
            waiting.append(other)
    return sorted(files)


@functools.lru_cache(maxsize=1024)
def _hash_of_file(file: str, written: int) -> str:
    return digest(Path(file).read_bytes().decode("latin-1"))
