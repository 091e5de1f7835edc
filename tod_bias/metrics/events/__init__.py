"""Kinds of events, one class each; a new kind is a class in a new file of this folder."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from tod_bias.metrics.events.event import Event

__all__ = ["Event", "event_of", "kinds"]


@cache
def kinds() -> dict[str, type[Event]]:
    """Return all kinds of events by the first part of their names."""
    for module in iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    by_name: dict[str, type[Event]] = {}
    waiting = [Event]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if "kind" in vars(kind) and kind.__module__.startswith(__name__):
                by_name[kind.kind] = kind
    return dict(sorted(by_name.items(), key=lambda entry: (entry[1].level, entry[1].order, entry[0])))


def event_of(name: str) -> Event | None:
    """Return the event of a name; None if it is none."""
    kind, colon, place = name.partition(":")
    known = kinds().get(kind)
    return None if known is None else known.parsed(place) if colon else known.parsed("")
