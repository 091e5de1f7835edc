"""Descriptions of a system's APIs in its system message: a line for each API and one for each slot of a call.

So a service that a model was not trained on can be read, not only recalled (Rastogi et al. 2020, section 4)::

    ReserveRestaurant! (restaurant_name*, city*, time*, party_size=2): Reserve a table at a restaurant
    city: City in which the restaurant is located

A star marks a required slot, ``=`` the default of an optional slot, and ``!`` an API that changes something, so that
the user is asked first. Services are separated by an empty line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_ANY = "dontcare"
_VALUES = 60
"""Characters of a slot's possible values at the most."""


def describe(services: Iterable[Mapping[str, Any]]) -> str:
    """Services as Google SGD's ``schema.json`` describes them, in its order; slots that no call has are left out."""
    return "\n\n".join("\n".join(_lines(service)) for service in services)


def _lines(service: Mapping[str, Any]) -> Iterator[str]:
    of_calls: set[str] = set()
    for intent in service["intents"]:
        optional = intent["optional_slots"]
        slots = [f"{slot.strip()}*" for slot in intent["required_slots"]]
        slots += [slot if usual in ("", _ANY) else f"{slot}={usual}" for slot, usual in optional.items()]
        of_calls.update(slot.strip() for slot in (*intent["required_slots"], *optional))
        mark = "!" if intent["is_transactional"] else ""
        yield f"{intent['name']}{mark} ({', '.join(slots)}): {intent['description']}"
    for slot in service["slots"]:
        if slot["name"].strip() in of_calls:
            values = _shortened(slot["possible_values"]) if slot["is_categorical"] else ""
            yield f"{slot['name'].strip()}: {slot['description']}{values}"


def _shortened(values: Sequence[str]) -> str:
    """The first of a slot's possible values; none of mere numbers, or of yes and no."""
    if all(value in ("True", "False", _ANY) or value.isdigit() for value in values):
        return ""
    text = " | ".join(values)
    return f" [{text}]" if len(text) <= _VALUES else f" [{text[:_VALUES].rpartition(' |')[0]} | …]"
