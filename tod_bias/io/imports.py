"""The user's own code: by its name ``module:name``, wherever one is asked for, and while it runs."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tod_bias.errors import FOREIGN, TodBiasError, described, meant

PATTERN = r"^\w+(\.\w+)*:\w+$"
"""Pattern of ``module:name``."""


def is_import(name: str) -> bool:
    """True if a name has the form ``module:name``."""
    return re.match(PATTERN, name) is not None


def import_object(spec: str, where: str, folder: Path | None = None, error: type[TodBiasError] = TodBiasError) -> Any:
    """Import ``module:name``, looking into ``folder`` and the current folder too.

    Args:
        spec: the module and the name in it.
        where: what asks for it, for the message.
        folder: looked into first.
        error: what is raised.

    Raises:
        TodBiasError: no such module or name, or the module cannot be run; it is of the class ``error``.
    """
    module_name, _, attribute = spec.partition(":")
    module = import_module(module_name, where, folder, error)
    try:
        return getattr(module, attribute)
    except AttributeError as reason:
        near = meant(attribute, [*vars(module), *getattr(module, "__all__", ())])
        raise error(f"{where}: module {module_name!r} has no {attribute!r}{near}") from reason


def import_module(
    name: str, where: str, folder: Path | None = None, error: type[TodBiasError] = TodBiasError
) -> ModuleType:
    """Import a module, looking into ``folder`` and the current folder too.

    Raises:
        TodBiasError: no such module, or it cannot be run; it is of the class ``error``.
    """
    with importable(folder):
        try:
            return importlib.import_module(name)
        except ImportError as reason:
            raise error(f"{where}: cannot import {name!r}: {reason}{_places(reason, folder)}") from reason
        except FOREIGN as reason:
            raise error(f"{where}: cannot import {name!r}: {described(reason)}") from reason


def _places(reason: ImportError, folder: Path | None) -> str:
    """Name the folders in which a missing module was looked for, and a module with nearly its name."""
    if not isinstance(reason, ModuleNotFoundError) or not reason.name or "." in reason.name:
        return ""
    folders = dict.fromkeys([*([] if folder is None else [folder.resolve()]), Path.cwd()])
    near = meant(reason.name, (path.stem for place in folders for path in place.glob("*.py")))
    return f" in {' or '.join(map(str, folders))}, nor installed{near}"


def made(spec: str, where: str, folder: Path | None = None, error: type[TodBiasError] = TodBiasError) -> Any:
    """The object that ``module:name`` names; a class or a function without arguments is called for it.

    Raises:
        TodBiasError: it cannot be imported, or calling it fails; it is of the class ``error``.
    """
    value = import_object(spec, where, folder, error)
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return value
    with guarded(f"{where}: {spec} cannot be made without arguments", error):
        return value()


@contextmanager
def importable(folder: Path | None) -> Iterator[None]:
    """Modules in ``folder`` and in the current folder can be imported inside of the block."""
    before = list(sys.path)
    sys.path[:0] = [*([] if folder is None else [str(folder.resolve())]), str(Path.cwd())]
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def guarded(where: str, error: type[TodBiasError] = TodBiasError) -> Iterator[None]:
    """Turn exceptions of the user's code inside the block into one line that names the code.

    Args:
        where: name of the code in the message.
        error: class of the error that is raised.

    Raises:
        TodBiasError: the code raised an exception.
    """
    try:
        yield
    except TodBiasError:
        raise
    except FOREIGN as reason:
        raise error(f"{where}: {described(reason)}") from reason
