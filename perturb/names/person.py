"""A person who is named in a dialogue."""

from __future__ import annotations

from dataclasses import dataclass

from tod_bias.perturb.names.resources import by_first, by_last


@dataclass(frozen=True)
class Person:
    """Somebody who is named in a dialogue."""

    first: str
    """The first name, as it is usually written."""
    last: str = ""
    """Last name; empty if none is given."""
    origin: str = "text"
    """Source in which the person was found first: ``slot``, ``text`` or ``id``."""
    user: bool = False
    """True for the user: by a slot of the user's name, their introduction, or an address by the system."""

    @property
    def name(self) -> str:
        """First and last name in lower case."""
        return f"{self.first} {self.last}".strip().lower()

    @property
    def gender(self) -> str:
        """``man``, ``woman`` or empty if the first name does not determine it."""
        known = by_first().get(self.first.lower())
        return "" if known is None else known.gender

    @property
    def race(self) -> str:
        """Race by first and last name; empty if they determine none, or two."""
        first, last = by_first().get(self.first.lower()), by_last().get(self.last.lower())
        races = {known.race for known in (first, last) if known is not None and known.race}
        return races.pop() if len(races) == 1 else ""
