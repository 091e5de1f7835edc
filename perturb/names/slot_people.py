"""People who are named in the slots of calls and results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from tod_bias.perturb.names.forms import WORD
from tod_bias.perturb.names.person import Person
from tod_bias.perturb.names.resources import by_first, listed
from tod_bias.perturb.names.slots import NameSlots

_SEPARATOR = re.compile(r"\s*(?:,|;|&|/|\band\b)\s*", re.IGNORECASE)
_NAME = re.compile(rf"{WORD}(?:['’]{WORD})?(?:\s+(?:[A-Za-z]\.?\s+)?{WORD}(?:['’]{WORD})?)?")
_IN_ID = re.compile(r"(?<![^\W_])([a-z]+)_([a-z]+)_\d{2,}(?![^\W_])")
_IN_EMAIL = re.compile(r"(?<![^\W_])([A-Za-z]+)[._]([A-Za-z]+?)\d*@")


def in_slots(record: Mapping[str, Any], slots: NameSlots) -> list[Person]:
    """Return the people in the slots of a call or a result that hold names, ids or e-mail addresses."""
    people: list[Person] = []
    parts: dict[str, list[str]] = {"first": [], "last": []}
    for slot, value in record.items():
        if isinstance(value, str):
            kind = slots.kind(slot)
            if kind in parts:
                parts[kind].append(value.strip())
            elif kind in ("id", "email"):
                people += in_ids(value, only_known=False)
            elif kind:
                people += named(value, user=kind == "user")
        elif value.__class__ is dict or isinstance(value, Mapping):
            people += in_slots(value, slots)
        elif value.__class__ is list:
            for item in value:
                if isinstance(item, str | Mapping):
                    people += in_slots({slot: item}, slots)
    pairs = zip_longest(parts["first"], parts["last"][: len(parts["first"])], fillvalue="")
    return people + [Person(first, last, "slot") for first, last in pairs if _NAME.fullmatch(first)]


def named(value: str, *, user: bool, origin: str = "slot") -> Iterator[Person]:
    """The people in a value of a slot of names: ``"Angela"``, ``"angela brown"``, ``"Ben, John and Mark"``."""
    for part in _SEPARATOR.split(value.strip(" .!?\"'")):
        if _NAME.fullmatch(part):
            words = part.split()
            first, last = words[0], words[-1] if len(words) > 1 else ""
            if first.lower() in by_first() or (last and first.lower() not in listed("not last")):
                yield Person(first, last, origin, user)


def in_ids(text: str, *, only_known: bool) -> Iterator[Person]:
    """Yield the people in ids and e-mail addresses, such as ``mia_li_2554``.

    Args:
        text: any.
        only_known: leave out those whose first name is in no list.
    """
    for pattern in (_IN_ID, _IN_EMAIL):
        for match in pattern.finditer(text):
            if not only_known or match[1].lower() in by_first():
                yield Person(match[1].capitalize(), match[2].capitalize(), "id", True)
