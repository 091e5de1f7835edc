"""The cache: outputs of stages and models in an SQLite file that survives a killed run, and the keys they stand under.

A key is a digest of a call's canonical JSON form and of the signature of what was called. A stage with a ``signature``
of its own has that; any other is known by its source (its file, and its author's files that this one imports) and by
its plain state: arguments, attributes, the variables that a function closes over. What has neither is not cached from
one run to the next.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
import re
import sqlite3
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, cast

from tod_bias.errors import TodBiasError
from tod_bias.files import check_plain_file
from tod_bias.sqlite import BESIDE, opened, said

FILE = "cache.sqlite"
"""Its name in a run's folder."""
_TABLE = "outputs (key TEXT PRIMARY KEY, output TEXT) WITHOUT ROWID"
_CHUNK = 500
"""Keys in one query; SQLite takes at least 999 parameters."""
LONGEST = 1 << 20
"""Characters of a text, more than any model reads."""
LARGEST = 1 << 23
"""Characters of any output, written as JSON."""
_DEPTH = 100
"""How deep lists and mappings may stand in each other."""
_MOST_VALUES = 1_000_000
"""Values in one output."""


class NotPlainError(Exception):
    """A value has no canonical form that another process could read; its argument is the type, or says why."""

    advice = "give it an attribute 'signature' that says what decides its outputs"


class Cache:
    """Key to text, in memory or, with a path, in an SQLite file that threads and processes may share.

    Raises:
        TodBiasError: the file is no SQLite file, holds anything but outputs or cannot be written, or it is a link, a
            pipe or a device.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._memory: dict[str, str] = {}
        self._database: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self.path = path
        if path is None:
            return
        for ending in ("", *BESIDE):
            check_plain_file(f"{path}{ending}")
        is_new = not Path(path).exists()
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._database = opened(path, timeout=60, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
            self._database.commit()
            schema = [str(sql) for (sql,) in self._database.execute("SELECT sql FROM sqlite_master LIMIT 2")]
        except (sqlite3.Error, OSError) as error:
            if is_new:  # an empty file is no use to anybody
                with suppress(OSError):
                    Path(path).unlink(missing_ok=True)
            raise self._unusable(error) from error
        if schema != [f"CREATE TABLE {_TABLE}"]:
            self._database.close()
            raise TodBiasError(f"{path}: holds more than outputs, or another table; remove it or choose another --out")

    def get(self, keys: Iterable[str]) -> dict[str, str]:
        """The texts of those keys that are known."""
        wanted = list(keys)
        texts = {key: self._memory[key] for key in wanted if key in self._memory}
        if self._database is not None:
            missing = [key for key in wanted if key not in texts]
            try:
                with self._lock:
                    for chunk in _chunks(missing):
                        marks = ",".join("?" * len(chunk))
                        rows = self._database.execute(f"SELECT key, output FROM outputs WHERE key IN ({marks})", chunk)
                        texts.update(rows)
            except sqlite3.Error as error:
                raise self._unusable(error) from error
            if odd := next((type(text).__name__ for text in texts.values() if type(text) is not str), None):
                kind = {"NoneType": "nothing", "bytes": "bytes"}.get(odd, "a number")
                raise TodBiasError(f"{self.path}: is damaged: an output in it is {kind}, no text; remove it")
        return texts

    def put(self, texts: Mapping[str, str]) -> None:
        """Keep texts, in the file where there is one; all of them or, where the process dies, none."""
        if self._database is None:
            self._memory.update(texts)
            return
        try:
            with self._lock, self._database:
                self._database.executemany("INSERT OR REPLACE INTO outputs VALUES (?, ?)", texts.items())
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def clear(self) -> None:
        """Forget all of them. The file stays: another process that has it open goes on with it."""
        self._memory.clear()
        if self._database is not None:
            try:
                with self._lock, self._database:
                    self._database.execute("DELETE FROM outputs")
            except sqlite3.Error as error:
                raise self._unusable(error) from error

    def remember(self, texts: Mapping[str, str]) -> None:
        """Keep texts in memory only: another process has written them to its file."""
        self._memory.update(texts)

    def _unusable(self, error: Exception) -> TodBiasError:
        advice = "make room, what is cached stays" if "full" in str(error) else "remove it or choose another --out"
        return TodBiasError(f"{self.path}: cannot be used as a cache ({said(error)}); {advice}")


def clear(path: str | Path) -> None:
    """Empty a cache file, where there is one; a file that cannot be read as a cache is removed.

    Raises:
        TodBiasError: it cannot be changed now.
    """
    if not os.path.lexists(path):
        return
    check_plain_file(path)
    try:
        Cache(path).clear()
    except TodBiasError as error:
        if isinstance(error.__cause__, sqlite3.OperationalError | OSError):  # locked, no room
            raise
        for file in Path(path).parent.glob(f"{Path(path).name}*"):
            file.unlink()


def _chunks(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + _CHUNK] for start in range(0, len(keys), _CHUNK))


# --- canonical form of values ---

_OPAQUE = '{"$id":'
_alive: dict[int, Any] = {}
"""Values that have no canonical form, by their ids: kept alive, so that no other value gets the same id."""


def canonical(value: Any) -> str:
    """A value as JSON: equal for equal values, and different for values that differ in type or order.

    A value that holds what cannot be written as JSON (a data frame, an object of one's own that is no dataclass) is
    equal to itself only.

    Raises:
        NotPlainError: it is nested too deeply, holds itself, or is too large.
    """
    if type(value) is str:
        return json.dumps(value)
    return _dumped(_Plain(strict=False)(value, 0))


def is_portable(text: str) -> bool:
    """Whether a canonical form means the same in every process."""
    return _OPAQUE not in text


def encoded(value: Any) -> str:
    """A value as one line of JSON that :func:`decoded` reads.

    Raises:
        NotPlainError: it holds something of a type that cannot be written as JSON, or is too large.
    """
    return _dumped(_Plain(strict=True)(value, 0))


def _dumped(plain: Any) -> str:
    try:
        return json.dumps(plain, separators=(",", ":"))
    except ValueError as error:  # a whole number with thousands of digits
        raise NotPlainError("it holds a whole number of thousands of digits") from error


def problem_of(value: Any) -> str:
    """Why a value is no usable output: nested too deeply, or too large; empty where nothing is wrong."""
    if type(value) is str:
        return f"it holds {len(value)} characters, more than {LONGEST}" if len(value) > LONGEST else ""
    try:
        length = len(canonical(value))
    except NotPlainError as error:
        return str(error)
    return f"it holds {length} characters as JSON, more than {LARGEST}" if length > LARGEST else ""


def digest(text: str) -> str:
    """A name for a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _Plain:
    """Makes JSON of a value. What JSON has no form for is a mapping with one key that begins with ``$``."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._count = 0

    def __call__(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str or value is None or kind is bool or kind is int or kind is float:
            return value
        self._count += 1
        if depth > _DEPTH:
            raise NotPlainError(f"it is nested more than {_DEPTH} deep, or holds itself")
        if self._count > _MOST_VALUES:
            raise NotPlainError(f"it holds more than {_MOST_VALUES} values")
        if kind is list:
            return [self(item, depth + 1) for item in value]
        if kind is dict:
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: self(item, depth + 1) for key, item in value.items()}
            return {"$dict": [[self(key, depth + 1), self(item, depth + 1)] for key, item in value.items()]}
        if kind is tuple:
            return {"$tuple": [self(item, depth + 1) for item in value]}
        if isinstance(value, str) and not isinstance(value, Enum):
            return str(value)
        return self._object(value, depth)

    def _object(self, value: Any, depth: int) -> Any:
        kind = type(value)
        state: Any = None
        if isinstance(value, Enum):
            state = value.name
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            state = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            if hasattr(value, "__dict__") and vars(value).keys() - state.keys():
                return self._opaque(value)  # it holds more than its fields
        elif isinstance(value, tuple) and "_fields" in vars(kind):
            state = cast("Any", value)._asdict()
        elif kind is SimpleNamespace:
            state = vars(value)
        elif (array := _array(value)) is not None:
            return {"$array": array}
        if state is None or (self._strict and _known_class(kind.__module__, kind.__qualname__) is not kind):
            return self._opaque(value)
        return {"$object": [kind.__module__, kind.__qualname__, self(state, depth + 1)]}

    def _opaque(self, value: Any) -> Any:
        if self._strict:
            raise NotPlainError(type(value).__name__)
        _alive[id(value)] = value
        return {"$id": id(value)}


_NUMBERS = "biuf"
"""Kinds of numpy's types whose values are JSON."""


def _array(value: Any) -> list[Any] | None:
    """Type, shape (None of a scalar) and content of a numpy array."""
    np = sys.modules.get("numpy")  # it need not be loaded to see that a value is none of its
    if np is None or not (type(value) is np.ndarray or isinstance(value, np.generic)):
        return None
    if value.dtype.kind not in _NUMBERS:
        return None
    return [value.dtype.str, list(value.shape) if type(value) is np.ndarray else None, value.tolist()]


def decoded(text: str) -> Any:
    """The value that :func:`encoded` wrote; equal to it, types included. Nothing in it can run.

    Raises:
        NotPlainError: it holds an object of a class that this process does not know.
    """
    try:
        return _value(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotPlainError(str(error)) from error


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    tag = next(iter(plain), "")
    if not tag.startswith("$"):
        return {key: _value(item) for key, item in plain.items()}
    content = plain[tag]
    if tag == "$tuple":
        return tuple(_value(item) for item in content)
    if tag == "$dict":
        return {_value(key): _value(item) for key, item in content}
    if tag == "$array":
        import numpy as np

        if np.dtype(content[0]).kind not in _NUMBERS:
            raise NotPlainError("array")
        return np.array(content[2], content[0]).reshape(content[1] or ())[() if content[1] is None else ...]
    if tag == "$object":
        return _restored(_known_class(content[0], content[1]), _value(content[2]))
    raise NotPlainError(tag)


def _known_class(module: str, name: str) -> type | None:
    """A class that this process has loaded already: a cache never makes it load anything."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = None if value is None else vars(value).get(part)
    return value if isinstance(value, type) else None


def _restored(kind: Any, state: Any) -> Any:
    """An object of a class by its state, without calling anything of the class."""
    if kind is SimpleNamespace:
        return SimpleNamespace(**state)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[state]
    if isinstance(kind, type) and issubclass(kind, tuple) and "_fields" in vars(kind):
        return tuple.__new__(kind, state.values())
    if not dataclasses.is_dataclass(kind) or {field.name for field in dataclasses.fields(kind)} != set(state):
        raise NotPlainError(str(kind))
    made: Any = object.__new__(cast("type[Any]", kind))
    for name, item in state.items():
        object.__setattr__(made, name, item)
    return made


# --- signatures of what has none of its own ---

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PACKAGE = str(Path(__file__).parent)


def derived_signature(called: Any) -> str:
    """A hash of the source and the plain state of a function or object.

    What it reads from elsewhere while it runs, a file or a service, does not show: then it should have a signature.

    Raises:
        NotPlainError: its source cannot be read, or it holds state that is not plain.
    """
    return digest(json.dumps(_state(called, ())))[:16]


def _state(value: Any, path: tuple[int, ...]) -> Any:
    """What decides what a value does, as JSON: its plain content, or the source and state of functions and objects."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return [type(value).__name__, value if isinstance(value, str) else repr(value)]
    if id(value) in path or len(path) > 20:
        raise NotPlainError("it refers to itself")
    path = (*path, id(value))
    kind = type(value)
    if kind in (list, tuple):
        return [_state(item, path) for item in value]
    if kind is dict:
        return [[_state(key, path), _state(item, path)] for key, item in value.items()]
    if isinstance(value, os.PathLike):
        return ["path", os.fspath(value)]
    if isinstance(value, re.Pattern):
        return ["pattern", value.pattern, value.flags]
    if isinstance(value, FunctionType):
        return _function(value, path)
    if isinstance(value, MethodType):
        return [_state(value.__func__, path), _state(value.__self__, path)]
    if isinstance(value, functools.partial):
        return ["partial", *(_state(part, path) for part in (value.func, value.args, value.keywords))]
    if isinstance(value, type):
        closed = [item for _, held in sorted(vars(value).items()) for item in _read_by(held) if id(item) not in path]
        return ["class", value.__module__, value.__qualname__, _source(value), [_state(item, path) for item in closed]]
    if isinstance(value, ModuleType) or inspect.isbuiltin(value):
        return ["named", value.__name__]
    signature = getattr(value, "signature", None)  # of any object that says what decides what it does
    if isinstance(signature, str) and signature:
        return ["signature", kind.__module__, kind.__qualname__, signature]
    return _attributes(value, path)


def _function(function: FunctionType, path: tuple[int, ...]) -> Any:
    """A function's own code, what it closes over, its defaults, and the values of its module that it reads."""
    name = [function.__module__, function.__qualname__, _source(function)]
    values = [item for item in _read_by(function) if id(item) not in path]
    return [*name, _code(function.__code__), [_state(item, path) for item in values]]


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


def _attributes(value: Any, path: tuple[int, ...]) -> Any:
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
