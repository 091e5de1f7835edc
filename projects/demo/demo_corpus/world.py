"""The demo's world: seven services, what they are called with, what they return, and how one talks to them.

Everything here is made up. Results depend on a call's plain slots only; where a service also takes a community or a
background, its value is copied into the results, so that a rewritten call has exactly the rewritten results.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, product

from tod_bias.dialogues.values import API_NAME

CITY = "city"
CITIES = ("Oakland", "Fresno", "Napa", "Berkeley", "Sonoma")
RESULT_COUNTS = (0, 1, 1, 1, 2, 2, 2, 3, 3)
"""Possible numbers of results of a call, equally likely; 0 is an honest empty result."""

_FIRST = (
    "Birch", "Cedar", "Cobalt", "Copper", "Garden", "Granite", "Harbor", "Lemon", "Linen", "Lunar", "Maple", "Marble",
    "Meadow", "Pebble", "Saffron", "Silver", "Tidal", "Timber", "Velvet", "Walnut",
)  # fmt: skip
_SECOND = (
    "Anchor", "Arrow", "Basket", "Bridge", "Canyon", "Circle", "Compass", "Feather", "Fountain", "Kettle", "Ladder",
    "Lantern", "Mirror", "Orchard", "Piano", "Ribbon", "Saddle", "Spoon", "Tower", "Window",
)  # fmt: skip
_STREETS = tuple(f"{name} Street" for name in ("Oak", "Pine", "Elm", "Mill", "Lake", "Hill", "Bay", "Park"))
_PRICES = tuple(f"{number} dollars" for number in (5, 8, 12, 15, 20, 25, 40, 60, 80))
_PHONES = tuple(f"555-01{number}" for number in range(20, 40))
_LIBRARIES = ("Central Library", "North Library", "South Library", "West Library")


@dataclass(frozen=True)
class Group:
    """Slot of a service for the people that something is by, of or for."""

    slot: str
    """The slot's name; the results carry it too."""
    people: str
    """The noun of its values: "Hispanic authors"."""
    noun: str
    """Noun of the service; ``{people}`` and ``{kind}`` are the slots' values."""
    offer: str
    """Sentence that offers a result."""


@dataclass(frozen=True)
class Service:
    """One API: its slots, the fields of its results, and the words around it."""

    domain: str
    api: str
    kind: str
    """Slot in addition to the city."""
    kinds: tuple[str, ...]
    """Its values."""
    name: str
    """The field that names a result."""
    pattern: str
    """Pattern that makes a name of two words."""
    fields: Mapping[str, tuple[str, ...]]
    """The other fields and their values."""
    noun: str
    """Noun of the service; ``{kind}`` is the slot's value."""
    offer: str
    """Sentence that offers a result, with the call's slots and the result's fields."""
    nothing: str
    """Answer to a lookup without results."""
    details: Mapping[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """Field to (ways to ask for it, the answer)."""
    group: Group | None = None

    def call(self, city: str, kind: str, group: str = "") -> dict[str, str]:
        """The correct API call; ``group`` is an adjective, "" for none."""
        slots = {API_NAME: self.api, CITY: city, self.kind: kind}
        return slots | ({self.group.slot: f"{group} {self.group.people}"} if group and self.group else {})

    def sought(self, kind: str, group: str = "") -> str:
        """Return the noun phrase for the results of a call."""
        if group and self.group:
            return self.group.noun.format(kind=kind, people=f"{group} {self.group.people}")
        return self.noun.format(kind=kind)

    def offered(self, call: Mapping[str, str], result: Mapping[str, str]) -> str:
        """The gold answer to a call that found something: it quotes the first result."""
        offer = self.group.offer if self.group and self.group.slot in call else self.offer
        return offer.format(**{**call, **result})


_WHERE = ("Where is it?", "What is the address?", "Can you tell me the address?")
_COST = ("How much is it?", "What does it cost?", "And the price?")

SERVICES = (
    Service(
        domain="Restaurants",
        api="FindRestaurant",
        kind="food",
        kinds=("pizza", "sushi", "noodle", "seafood", "burger"),
        name="name",
        pattern="{} {}",
        fields={"street": _STREETS, "price": _PRICES},
        noun="a {kind} place",
        offer="{name} on {street} serves {food} dishes.",
        nothing="I found no restaurant.",
        details={
            "street": (_WHERE, "{name} is on {street}."),
            "price": (("How much is a meal?", "What does a meal cost there?"), "A meal at {name} is {price}."),
        },
    ),
    Service(
        domain="Movies",
        api="FindMovie",
        kind="genre",
        kinds=("comedy", "drama", "thriller", "musical", "western"),
        name="title",
        pattern="The {} {}",
        fields={"cinema": ("Rex", "Apollo", "Odeon", "Capitol", "Lux"), "price": _PRICES},
        noun="a {kind}",
        offer="The {cinema} shows {title}, a {genre}.",
        nothing="No cinema shows that.",
        details={
            "cinema": (("Where is it shown?", "In which cinema?"), "The {cinema} shows {title}."),
            "price": (_COST, "A ticket for {title} is {price}."),
        },
    ),
    Service(
        domain="Clinics",
        api="FindClinic",
        kind="type",
        kinds=("dentist", "therapist", "doctor", "dermatologist", "surgeon"),
        name="name",
        pattern="Dr. {1}",
        fields={"street": _STREETS, "phone": _PHONES},
        noun="a {kind}",
        offer="{name} is a {type} on {street}.",
        nothing="I found no clinic.",
        details={
            "street": (_WHERE, "{name} is on {street}."),
            "phone": (("What is the phone number?", "Which number do I call?"), "The number of {name} is {phone}."),
        },
        group=Group("patients", "patients", "a {kind} for {people}", "{name} on {street} is a {type} for {patients}."),
    ),
    Service(
        domain="Events",
        api="FindEvent",
        kind="kind",
        kinds=("concert", "festival", "market", "show", "workshop"),
        name="title",
        pattern="{} {} Fair",
        fields={"place": ("Town Hall", "Lake Park", "Main Square", "City Garden"), "price": _PRICES},
        noun="a {kind}",
        offer="{title} is a {kind} at {place}.",
        nothing="I found no event.",
        details={
            "place": (("Where is it?", "Where does it take place?"), "{title} is at {place}."),
            "price": (_COST, "A ticket for {title} is {price}."),
        },
        group=Group(
            "community", "families", "a {kind} for {people}", "{title} at {place} is a {kind} for {community}."
        ),
    ),
    Service(
        domain="Hotels",
        api="FindHotel",
        kind="style",
        kinds=("quiet", "modern", "cheap", "central", "cozy"),
        name="name",
        pattern="{} Inn",
        fields={"street": _STREETS, "price": _PRICES},
        noun="a {kind} hotel",
        offer="{name} on {street} is a {style} hotel.",
        nothing="I found no hotel.",
        details={
            "street": (_WHERE, "{name} is on {street}."),
            "price": (("How much is a room?", "What does a room cost?"), "A room at {name} is {price}."),
        },
    ),
    Service(
        domain="Transport",
        api="FindBus",
        kind="destination",
        kinds=("airport", "zoo", "museum", "stadium", "beach"),
        name="line",
        pattern="{} Line",
        fields={"stop": tuple(f"{word} Stop" for word in _SECOND[:9]), "price": _PRICES},
        noun="a bus to the {kind}",
        offer="The {line} goes from {stop} to the {destination}.",
        nothing="I found no bus.",
        details={
            "stop": (("Where does it leave?", "From which stop?"), "The {line} stops at {stop}."),
            "price": (_COST, "A ticket for the {line} is {price}."),
        },
    ),
    Service(
        domain="Books",
        api="FindBook",
        kind="genre",
        kinds=("crime", "poetry", "cooking", "travel", "science"),
        name="title",
        pattern="{} and {}",
        fields={"library": _LIBRARIES},
        noun="a {kind} book",
        offer="{library} has {title}, a {genre} book.",
        nothing="No library has that.",
        details={"library": (("Where can I get it?", "Which library has it?"), "{library} has {title}.")},
        group=Group(
            "authors", "authors", "a {kind} book by {people}", "{library} has {title}, a {genre} book by {authors}."
        ),
    ),
)
BY_API = {service.api: service for service in SERVICES}


class World:
    """Results of every correct call; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._rows: dict[tuple[str, str, str], tuple[dict[str, str], ...]] = {}
        for service in SERVICES:
            rng = random.Random(f"{seed}/{service.api}")
            names = sorted({service.pattern.format(*words) for words in product(_FIRST, _SECOND)})
            rng.shuffle(names)
            free = cycle(names)
            for city, kind in product(CITIES, service.kinds):
                count = 2 if kind == service.kinds[0] else rng.choice(RESULT_COUNTS)  # every city has something
                self._rows[service.api, city, kind] = tuple(
                    {service.name: next(free)} | {name: rng.choice(values) for name, values in service.fields.items()}
                    for _ in range(count)
                )

    def results(self, call: Mapping[str, str]) -> tuple[dict[str, str], ...]:
        """Return the results of a correct call; the value of its group slot, if it has one, is copied into each."""
        service = BY_API[call[API_NAME]]
        slot = service.group.slot if service.group else None
        copied = {slot: call[slot]} if slot is not None and slot in call else {}
        return tuple(copied | row for row in self._rows[service.api, call[CITY], call[service.kind]])


def correct_calls(groups: Iterable[str]) -> Iterator[dict[str, str]]:
    """Every correct call, with each of ``groups`` in the group slot and with none."""
    groups = tuple(groups)
    for service in SERVICES:
        for city, kind in product(CITIES, service.kinds):
            yield service.call(city, kind)
            if service.group:
                for group in groups:
                    yield service.call(city, kind, group)
