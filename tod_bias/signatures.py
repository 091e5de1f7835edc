"""Signatures of components that have none of their own: what decides what they put out.

A function or object is known by its source (its file, and its author's files that this one imports) and by its plain
state: arguments, attributes, the variables that a function closes over. What has neither is not cached from one run to
the next.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
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
    return digest(json.dumps(_state(called, ())))[:16]


_Path = tuple[int, ...]
"""Ids of the values that a value lies in."""


def _state(value: Any, path: _Path) -> Any:
    """What decides what a value does, as JSON: its plain content, or the source and state of functions and objects."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return [type(value).__name__, value if isinstance(value, str) else repr(value)]
    if id(value) in path or len(path) > 20:
        raise NotPlainError("it refers to itself")
    path = (*path, id(value))
    if form := _FORMS.get(type(value)):
        return form(value, path)
    if isinstance(value, os.PathLike):
        return ["path", os.fspath(value)]
    if isinstance(value, type):
        return _class(value, path)
    if isinstance(value, ModuleType) or inspect.isbuiltin(value):
        return ["named", value.__name__]
    signature = getattr(value, "signature", None)  # of any object that says what decides what it does
    if isinstance(signature, str) and signature:
        return ["signature", type(value).__module__, type(value).__qualname__, signature]
    return _attributes(value, path)


def _items(values: Sequence[Any], path: _Path) -> Any:
    return [_state(item, path) for item in values]


def _class(value: type, path: _Path) -> Any:
    read = [item for _, held in sorted(vars(value).items()) for item in _read_by(held) if id(item) not in path]
    return ["class", value.__module__, value.__qualname__, _source(value), _items(read, path)]


def _function(function: FunctionType, path: _Path) -> Any:
    """A function's own code, what it closes over, its defaults, and the values of its module that it reads."""
    name = [function.__module__, function.__qualname__, _source(function)]
    values = [item for item in _read_by(function) if id(item) not in path]
    return [*name, _code(function.__code__), _items(values, path)]


_FORMS: dict[type, Callable[[Any, _Path], Any]] = {
    list: _items,
    tuple: _items,
    dict: lambda value, path: [_items(entry, path) for entry in value.items()],
    re.Pattern: lambda value, path: ["pattern", value.pattern, value.flags],
    FunctionType: _function,
    MethodType: lambda value, path: _items([value.__func__, value.__self__], path),
    functools.partial: lambda value, path: ["partial", *_items([value.func, value.args, value.keywords], path)],
}
"""How the values of a type are written."""


def _read_by(function: Any) -> Iterator[Any]:
    """What a function of one's own reads beside its arguments; other functions of its file are in its source."""
    function = getattr(function, "__func__", getattr(function, "fget", function))
    if not isinstance(function, FunctionType) or str(function.__code__.co_filename).startswith((*_INSTALLED, _PACKAGE)):
        return
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # an empty cell
            yield cell.cell_contents
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


def _attributes(value: Any, path: _Path) -> Any:
    """The attributes of an object whose class and bases are its author's own (or this package's) Python."""
    kind = type(value)
    for base in kind.__mro__:
        if base is object or base.__module__ in ("abc", "typing"):
            continue
        if vars(base).get("__slots__") or not _has_source(base):
            raise NotPlainError(f"an attribute of it holds what is not plain ({kind.__name__})")
    state = sorted(getattr(value, "__dict__", {}).items())
    return [_state(kind, path), [[name, _state(item, path)] for name, item in state]]


def _has_source(kind: type) -> bool:
    try:
        return _source(kind) != "installed"
    except NotPlainError:
        return False


def _source(value: Any) -> str:
    """A hash of the file that a function or class is written in, and of its author's files that this one imports."""
    module = sys.modules.get(value.__module__)
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
