"""Other people's code by name: ``module:name``, wherever a corpus, an axis, a metric or a stage is named."""

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

from tod_bias.errors import FOREIGN, TodBiasError, described

PATTERN = r"^\w+(\.\w+)*:\w+$"
"""What ``module:name`` looks like."""


def is_import(name: str) -> bool:
    """Whether a name is of the form ``module:name``."""
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
        raise error(f"{where}: module {module_name!r} has no {attribute!r}") from reason


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
            raise error(f"{where}: cannot import {name!r}: {reason}") from reason
        except FOREIGN as reason:
            raise error(f"{where}: cannot import {name!r}: {described(reason)}") from reason


def made(spec: str, where: str, folder: Path | None = None, error: type[TodBiasError] = TodBiasError) -> Any:
    """The object that ``module:name`` names; a class or a function without arguments is called for it.

    Raises:
        TodBiasError: it cannot be imported, or calling it fails; it is of the class ``error``.
    """
    found = import_object(spec, where, folder, error)
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        return found
    try:
        return found()
    except TodBiasError:
        raise
    except FOREIGN as reason:
        raise error(f"{where}: {spec} cannot be made without arguments: {described(reason)}") from reason


@contextmanager
def importable(folder: Path | None) -> Iterator[None]:
    """Modules in ``folder`` and in the current folder can be imported inside of the block."""
    before = list(sys.path)
    sys.path[:0] = [*([] if folder is None else [str(folder.resolve())]), str(Path.cwd())]
    try:
        yield
    finally:
        sys.path[:] = before
