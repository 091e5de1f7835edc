"""Exceptions of a hosted agent's tools as outputs, so that an agent that catches them continues."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tod_bias.io.canonical import NotPlainError, canonical, is_portable

_LAST: dict[str, Exception] = {}
"""Kind to its last exception, which may have attributes in addition to its arguments."""


@dataclass(frozen=True)
class Raised:
    """Stands in place of an output where a tool raised something. It is not cached: another run may have more luck."""

    kind: str = field(metadata={"rewrite": False})
    """Its class."""
    said: tuple[Any, ...]
    """Its arguments."""

    @classmethod
    def of(cls, error: Exception) -> Raised:
        """An exception as an output."""
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        _LAST[kind] = error
        return cls(kind, error.args if _is_plain(error.args) else (str(error),))

    def error(self) -> Exception:
        """The exception, for the agent that made the call."""
        last = _LAST[self.kind]
        try:
            error = type(last).__new__(type(last), *self.said)
        except TypeError:  # a class that is made otherwise
            return last
        error.__dict__.update(vars(last))
        error.args = self.said
        return error.with_traceback(last.__traceback__)  # the place where it arose


def _is_plain(values: tuple[Any, ...]) -> bool:
    try:
        return is_portable(canonical(values))
    except NotPlainError:
        return False
