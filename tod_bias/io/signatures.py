"""Signatures of components that declare none: what decides their outputs.

A function or object is identified by its name, its source (its file, and its author's files that this one imports) and
its plain state: the attributes of an object, the defaults and variables that a function closes over, and data of its
module that it reads. State is read at one level. A component that cannot be identified in this way is not cached from
one run to the next.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tod_bias.io.canonical import NotPlainError, digest, encoded

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PACKAGE = __name__.partition(".")[0]
"""Name of this package. Its modules lie in several folders, so that a path would not tell."""


def derived_signature(called: Any) -> str:
    """Return a hash of the name, the source and the plain state of a function, class or object.

    Files and services that it reads while it runs are not part of it: such a component should declare a signature.

    Raises:
        NotPlainError: its source cannot be read, or it holds state that is not plain.
    """
    return digest(json.dumps(_identity(called)))[:16]


def _identity(called: Any) -> Any:
    """Return a name, a source and a state as JSON."""
    if isinstance(called, functools.partial):
        return ["partial", _identity(called.func), *map(_plain, called.args), *map(_plain, called.keywords.items())]
    if isinstance(called, MethodType):
        return ["method", called.__func__.__qualname__, _identity(called.__self__)]
    if isinstance(called, type):
        return _class(called)
    if inspect.isbuiltin(called):
        return ["built in", called.__module__, called.__qualname__]
    function = inspect.unwrap(called) if callable(called) else called  # of a function with a cache, say
    if isinstance(function, FunctionType):
        # Two functions on one line differ in nothing but their code.
        name = [function.__module__, function.__qualname__, _source(function), _code(function.__code__)]
        return [*name, _data_read_by(function), *map(_plain, _closed_over(function))]
    kind = type(called)
    if any(vars(base).get("__slots__") for base in kind.__mro__) or not hasattr(called, "__dict__"):
        raise NotPlainError(f"an attribute of it holds what is not plain ({kind.__name__})")
    return [_class(kind), *map(_plain, sorted(vars(called).items()))]


def _class(kind: type) -> Any:
    """Return the identity of a class.

    Raises:
        NotPlainError: a function made it, so its methods may close over anything.
    """
    if "<locals>" in kind.__qualname__:
        raise NotPlainError(f"its class {kind.__qualname__} is made in a function")
    methods = [value for value in vars(kind).values() if isinstance(value, FunctionType)]
    return [kind.__module__, kind.__qualname__, _source(kind), *map(_data_read_by, methods)]


def _plain(value: Any) -> Any:
    """Return state as JSON: data, and functions, classes and objects that their source or signature identifies.

    Raises:
        NotPlainError: it is anything else.
    """
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):  # an attribute and its name
        return [value[0], _plain(value[1])]
    if isinstance(value, os.PathLike):
        return ["path", os.fspath(value)]
    signature = getattr(value, "signature", None)
    if isinstance(signature, str) and signature and not isinstance(value, type):
        return ["signature", type(value).__module__, type(value).__qualname__, signature]
    if isinstance(value, FunctionType | type | functools.partial) or inspect.isbuiltin(value):
        return _identity(value)
    return encoded(value)


def _closed_over(function: FunctionType) -> Iterator[Any]:
    """Yield the defaults of a function and the variables of enclosing functions that it reads."""
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # an empty cell
            yield cell.cell_contents


def _data_read_by(function: FunctionType) -> dict[str, str]:
    """Return the plain values of a module that a function reads, such as a prompt that the module read from a file."""
    data = {}
    for name in sorted(_names(function.__code__) & function.__globals__.keys()):
        with suppress(NotPlainError):  # modules, functions and classes are in the source; a client decides nothing
            data[name] = encoded(function.__globals__[name])
    return data


def _names(code: CodeType) -> set[str]:
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def _code(code: CodeType) -> Any:
    constants = [_code(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), constants]


def _source(value: FunctionType | type) -> str:
    """Return a hash of the file in which a function or class is written, and of its author's files that it imports.

    Raises:
        NotPlainError: the file does not exist, as for code typed into an interpreter.
    """
    module = sys.modules.get(value.__module__)
    if module is None or not _is_source(getattr(module, "__file__", None)):
        raise NotPlainError(f"the source of {value.__qualname__} cannot be read")
    return "|".join(_hash_of_file(name, Path(name).stat().st_mtime_ns) for name in _files(module))


def _is_source(file: Any) -> bool:
    return isinstance(file, str) and file.endswith(".py") and Path(file).is_file()


def _files(module: ModuleType) -> list[str]:
    """Return the files of a module and of the modules that it imports, without installed ones and this package's."""
    files = {str(module.__file__)}
    waiting = [module] if _is_of_user(module) else []
    while waiting:
        for held in list(vars(waiting.pop()).values()):
            name = held.__name__ if isinstance(held, ModuleType) else getattr(held, "__module__", None)
            other = sys.modules.get(name) if isinstance(name, str) else None
            file = str(getattr(other, "__file__", None))
            if other is not None and file not in files and _is_source(file) and _is_of_user(other):
                files.add(file)
                waiting.append(other)
    return sorted(files)


def _is_of_user(module: ModuleType) -> bool:
    """Return True if a module is the user's own: neither installed nor of this package."""
    is_ours = module.__name__.partition(".")[0] == _PACKAGE
    return not is_ours and not str(module.__file__).startswith(_INSTALLED)


@functools.lru_cache(maxsize=1024)
def _hash_of_file(file: str, written: int) -> str:
    return digest(Path(file).read_bytes().decode("latin-1"))
