"""Who answers: a name for a component that stays the same while it would answer the same.

An answer that is kept on disk is only used again for the component that gave it. One with a ``signature`` of its own
is known by that. Any other is known by its source (the file it is written in, and its author's files that this one
imports) and by its arguments (the object's attributes, a function's defaults and the variables it closes over). What it
reads from elsewhere while it answers, a file or a service, does not show: such a component should have a signature.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import inspect
import logging
import os
import re
import sys
import sysconfig
import uuid
from hashlib import blake2b
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tod_bias.systems.sameness import Same, digest_of, frozen
from tod_bias.systems.stage import place_of
from tod_bias.systems.twin import untwinned

_BY_REPR = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
    range,
    complex,
)
"""Values that their representation tells apart."""


class UnidentifiedError(Exception):
    """A component cannot be told from others; its argument says why."""


def identity_of(component: Any) -> str:
    """A component's name for what it has answered.

    Raises:
        UnidentifiedError: it has no signature, and its source or an attribute of it has no name.
    """
    component = untwinned(component)
    parts = _described(component, ())
    return f"{place_of(component)}|{digest_of(frozen(parts)).hex()[:16]}"


def _described(value: Any, path: tuple[int, ...]) -> Any:
    """Plain values that decide what a component does."""
    if id(value) in path or len(path) > 20:
        raise UnidentifiedError("it refers to itself")
    path = (*path, id(value))
    signature = None if isinstance(value, type) else getattr(value, "signature", None)
    if isinstance(signature, str):
        return ("signature", place_of(value), signature)
    if isinstance(value, MethodType):
        return ("method", value.__func__.__qualname__, _described(value.__self__, path))
    if isinstance(value, functools.partial):
        return (
            "partial",
            _described(value.func, path),
            _described(list(value.args), path),
            _described(value.keywords, path),
        )
    if isinstance(value, FunctionType):
        return ("function", place_of(value), _source(value), *_made_of(value, path, with_globals=True))
    if isinstance(value, type):
        return ("class", place_of(value), _source(value), _methods(value, path))
    if isinstance(value, (BuiltinFunctionType, ModuleType)):
        return ("named", str(getattr(value, "__module__", "")), value.__name__)
    if isinstance(value, _BY_REPR):
        return ("value", type(value).__qualname__, repr(value))
    if isinstance(value, (list, tuple)):
        return [_described(item, path) for item in value]
    if isinstance(value, dict):
        return [(_described(key, path), _described(item, path)) for key, item in value.items()]
    if isinstance(value, re.Pattern):
        return ("pattern", value.pattern, value.flags)
    if isinstance(value, os.PathLike):
        return ("path", os.fspath(value))
    if isinstance(value, logging.Logger):
        return ("logger", value.name)
    plain = frozen(value)
    if not isinstance(plain, Same):
        if type(digest_of(plain)) is not bytes:
            raise UnidentifiedError(f"an attribute of it holds what has no name ({type(value).__name__})")
        return plain
    return ("object", _described(type(value), path), _attributes(value, path))


def _made_of(function: FunctionType, path: tuple[int, ...], *, with_globals: bool) -> tuple[Any, ...]:
    """A function's own code, what it closes over, its defaults, and the values of its module that it reads."""
    cells = [_cell(cell, path) for cell in function.__closure__ or ()]
    given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    defaults = [_described(item, path) for item in given]
    read: list[Any] = []
    if with_globals:
        for name in sorted(_names(function.__code__)):
            held = function.__globals__.get(name)
            if isinstance(held, FunctionType):  # its file is looked at; here, which of the file's functions it is
                read.append((name, place_of(held), _code(held.__code__)))
            elif name in function.__globals__ and not isinstance(held, (type, ModuleType, BuiltinFunctionType)):
                read.append((name, _described(held, path)))
    return _code(function.__code__), cells, defaults, read


def _code(code: CodeType) -> Any:
    inner = [_code(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return code.co_code, list(code.co_names), inner


def _names(code: CodeType) -> set[str]:
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def _methods(kind: type, path: tuple[int, ...]) -> list[Any]:
    """What the methods of a class close over; a class that is installed is its file's."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    if file.startswith((*_INSTALLED, _OWN)):
        return []
    found = []
    for name, held in sorted(vars(kind).items()):
        function = getattr(held, "__func__", getattr(held, "fget", held))
        if isinstance(function, FunctionType) and id(function) not in path:
            found.append((name, *_made_of(function, (*path, id(function)), with_globals=True)))
    return found


def _cell(cell: Any, path: tuple[int, ...]) -> Any:
    try:
        held = cell.cell_contents
    except ValueError:  # an empty cell
        return "empty"
    if isinstance(held, (FunctionType, type)) and id(held) in path:
        return "itself"
    return _described(held, path)


def _attributes(value: Any, path: tuple[int, ...]) -> Any:
    kinds = [kind for kind in type(value).__mro__ if kind is not object]
    for kind in kinds:
        if not _is_plain(kind):  # what such an object holds does not show in its attributes
            raise UnidentifiedError(f"{type(value).__name__} is not plain Python")
    slots = [name for kind in kinds for name in _slots(kind) if hasattr(value, name)]
    held = {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}
    return [(name, _described(item, path)) for name, item in sorted(held.items())]


_HEAP = 1 << 9
"""Flag of a type that was made while the program ran, as every class of Python is."""


def _is_plain(kind: type) -> bool:
    """Whether a class is written in Python: some of C stand in modules that are."""
    if not kind.__flags__ & _HEAP or _source(kind).startswith("compiled"):
        return False
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if not _is_source(file):
        return True
    return re.search(rf"\bclass\s+{re.escape(kind.__name__)}\b|dataclass|namedtuple", _text_of(str(file))) is not None


@functools.lru_cache(maxsize=256)
def _text_of(file: str) -> str:
    return Path(file).read_text(encoding="utf-8", errors="replace")


def _slots(kind: type) -> tuple[str, ...]:
    names = vars(kind).get("__slots__", ())
    return tuple(
        name for name in ((names,) if isinstance(names, str) else names) if name not in ("__dict__", "__weakref__")
    )


def _source(value: Any) -> str:
    """A hash of the file that a function or class is written in, and of its author's files that this one imports.

    Of its own lines where there is no file.
    """
    module = sys.modules.get(value.__module__)
    file = getattr(module, "__file__", None)
    if module is not None and _is_source(file):
        return "|".join(_hash_of_file(name, Path(name).stat().st_mtime_ns) for name in _files(module))
    if module is not None and (file is not None or value.__module__ in sys.builtin_module_names):
        return f"compiled {file}"
    try:
        return blake2b(inspect.getsource(value).encode(), digest_size=8).hexdigest()
    except (OSError, TypeError) as error:
        raise UnidentifiedError(f"the source of {value.__qualname__} is not to be had") from error


def _is_source(file: Any) -> bool:
    return isinstance(file, str) and file.endswith(".py") and Path(file).is_file()


_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OWN = str(Path(__file__).parents[1])


def _files(module: ModuleType) -> list[str]:
    """The module's file, and those of the modules it imports that are neither installed nor of this package."""
    found = {str(module.__file__)}
    waiting = [module]
    while waiting:
        for held in list(vars(waiting.pop()).values()):
            name = held.__name__ if isinstance(held, ModuleType) else getattr(held, "__module__", None)
            other = sys.modules.get(name) if isinstance(name, str) else None
            file = str(getattr(other, "__file__", None))
            if other is None or file in found or not _is_source(file) or file.startswith((*_INSTALLED, _OWN)):
                continue
            found.add(file)
            waiting.append(other)
    return sorted(found)


@functools.lru_cache(maxsize=1024)
def _hash_of_file(file: str, written: int) -> str:
    return blake2b(Path(file).read_bytes(), digest_size=8).hexdigest()
