"""People in a dialogue, from its slots (:mod:`~tod_bias.perturb.names.slot_people`) and its texts
(:mod:`~tod_bias.perturb.names.text_people`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.names.person import Person
from tod_bias.perturb.names.resources import by_first, by_last
from tod_bias.perturb.names.slot_people import in_slots
from tod_bias.perturb.names.slots import NameSlots, is_thing, name_slots
from tod_bias.perturb.names.text_people import LETTERS, in_text


def people(dialogue: Dialogue, slots: NameSlots | None = None) -> tuple[Person, ...]:
    """The people who are named in a dialogue, each once: users first, then who is named most, then who is named first.

    Args:
        dialogue: any.
        slots: which slots hold names; the package's where left out (:func:`~tod_bias.perturb.names.slots.name_slots`).
    """
    known = name_slots() if slots is None else slots
    named_in: list[Person] = []
    expects_name = False
    for turn in dialogue.turns:
        for number, (speaker, text) in enumerate(turn.utterances):
            if text:
                named_in += in_text(text, speaker, expects_name=expects_name and number == 0)
        for step in turn.steps:
            for record in (step.call, *step.results):
                named_in += in_slots(record, known)
        expects_name = "name" in turn.response
    if any(person.origin == "text" for person in named_in):
        things = [value.lower() for turn in dialogue.turns for slot, value in turn.values if is_thing(slot, known)]
        named_in = [person for person in named_in if person.origin != "text" or not _is_among(person, things)]
    return _merged(named_in)


def _is_among(person: Person, things: Sequence[str]) -> bool:
    """True if the name is a thing's, or a person's in a slot of things (a singer, a doctor)."""
    if person.last:
        return any(person.name in value for value in things)
    first = person.first.lower()
    return not person.user and any(first in value and first in LETTERS.findall(value) for value in things)


def _merged(named_in: Iterable[Person]) -> tuple[Person, ...]:
    """Each person once; a first name alone is whoever bears it with a last name."""
    merged: dict[tuple[str, str], list[Any]] = {}
    for person in named_in:
        first, last = person.first.lower(), person.last.lower()
        key = (first, last)
        if key not in merged:
            if not last:
                key = next((known for known in merged if known[0] == first), key)
            elif (first, "") in merged:  # now the last name is known
                held = merged.pop((first, ""))
                held[0] = Person(held[0].first, person.last, held[0].origin, held[0].user)
                merged[key] = held
        held = merged.setdefault(key, [person, 0, len(merged)])
        held[1] += 1
        if person.user and not held[0].user:
            held[0] = Person(held[0].first, held[0].last, held[0].origin, True)
    ranked = sorted(merged.values(), key=lambda held: (not held[0].user, -held[1], held[2]))
    return tuple(
        replace(held[0], first=_spelt(held[0].first, by_first()), last=_spelt(held[0].last, by_last()))
        for held in ranked
    )


def _spelt(name: str, known: Mapping[str, Any]) -> str:
    """Return a name in its usual spelling if it was typed in lower case, capitals or a mixture."""
    if name[:1].isupper() and name[1:2].islower():
        return name
    return known[name.lower()].name if name.lower() in known else name.title()
