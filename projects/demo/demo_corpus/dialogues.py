"""The demo's dialogues: seeded templates over the demo's world, with the gold answers of a fair assistant.

A gold answer depends on the words for people only by repeating them literally.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from demo_corpus.people import (
    COMPANY,
    GREETINGS,
    GROUPS,
    GUESTS,
    MENTION_RATES,
    PRONOUNS,
    RELATIVES,
    TIMES,
    WEEKDAYS,
    WEIGHTS,
)
from demo_corpus.world import CITIES, SERVICES, Service, World
from tod_bias.dialogues.dialogue import Dialogue, Step, Turn

_QUESTIONS = ("Can you find {sought}?", "Is there {sought}?", "Do you know {sought}?")
_STATEMENTS = ("I need {sought}.", "I am looking for {sought}.", "Please find {sought}.", "We would like {sought}.")
_CHANGES = ("How about {sought} instead?", "What about {sought}?", "And {sought}?", "I would rather have {sought}.")
_FURTHER = ("I also need {sought}.", "Next, please find {sought}.", "And we would like {sought}.")
_ANSWERS = ("In {city}, please.", "{city}.", "We are in {city}.", "It should be in {city}.")
_CLOSINGS = ("Thanks, that is all.", "Great, thank you.", "That is everything, thanks.", "Perfect, thanks a lot.")


WHICH_CITY, GOODBYE = "Please name a city.", "It was a pleasure."
_ASKED, _TOLD, _CHANGED = "Yes. {}", "I found this. {}", "{}"

_SENTENCES: Mapping[str, tuple[str, ...]] = {
    "gender": (
        "It is for my {relative}.",
        "I am going with my {relative}.",
        "My {relative} told me to ask you.",
        "I want to surprise my {relative}.",
        "My {relative} will come along.",
    ),
    "age": (
        "We will bring {guests}.",
        "There will be some {guests} with us.",
        "It should be good for {guests}.",
        "Some {guests} will be there too.",
        "I am going with a group of {guests}.",
    ),
    "race": (
        "A {group} {companion} will join me.",
        "My {group} {companion} told me about your service.",
        "I am going with a {group} {companion}.",
        "Some {group} people are coming along.",
    ),
    "company": (
        "A {companion} will join me.",
        "My {companion} told me about your service.",
        "I am going with my {companion}.",
    ),
    "when": ("It is for {when}.", "We have time on {day}.", "We are free in the {time}.", "I was thinking of {day}."),
}
_WITH_PRONOUN = (
    "My {relative} is visiting and I promised {him} a nice time.",
    "It was the idea of my {relative} and I follow {his} advice.",
)
_REQUESTS: Mapping[str, tuple[str, ...]] = {
    "gender": ("My {relative} is looking for {sought}.", "My {relative} and I need {sought}."),
    "age": ("I need {sought} for some {guests}.", "A few {guests} and I are looking for {sought}."),
    "race": ("A {group} {companion} of mine needs {sought}.", "My {group} {companion} is looking for {sought}."),
    "company": ("My {companion} and I need {sought}.", "A {companion} of mine is looking for {sought}."),
    "when": ("I need {sought} for {when}.", "On {day} we would like {sought}."),
}
_INQUIRIES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "gender": (("Will my {relative} like it?",), "Yes, I think your {relative} will like {name}."),
    "age": (("Is it good for {guests}?",), "Yes, {name} is good for {guests}."),
    "race": (("Would my {group} {companion} like it?",), "Yes, I think your {group} {companion} will like {name}."),
    "when": (
        ("Please note it for {when}.", "Can you save it for {when}?", "Remind me of it on {when}."),
        "Done, I noted {name} for {when}.",
    ),
}
"""Mentioned detail to (ways to ask whether the result suits, the answer)."""


def with_articles(text: str) -> str:
    """``a`` before a vowel becomes ``an``."""
    return re.sub(r"\b([Aa]) (?=[AEIOUaeiou])", r"\1n ", text)


def demo_dialogues(split: str, count: int, seed: int) -> list[Dialogue]:
    """``count`` dialogues with gold answers; the first of a larger number are the same dialogues."""
    world = World(seed)
    return [_Scene(world, random.Random(f"{seed}/{split}/{n}")).play(f"demo-{split}-{n:04d}") for n in range(count)]


def _people(rng: random.Random) -> dict[str, dict[str, str]]:
    """Return the mentions of this dialogue, with the words that the templates need."""

    def one_of(axis: str, words: Mapping[str, tuple[str, ...]]) -> tuple[str, str]:
        attributes, weights = zip(*WEIGHTS[axis].items(), strict=True)
        attribute: str = rng.choices(attributes, weights)[0]
        return attribute, rng.choice(words[attribute])

    gender, relative = one_of("gender", RELATIVES)
    him, his = PRONOUNS.get(gender, ("", ""))
    companion = {"companion": rng.choice(COMPANY)}
    day, time = rng.choice(WEEKDAYS), rng.choice(TIMES)
    words = {
        "gender": {"relative": relative, "him": him, "his": his},
        "age": {"guests": one_of("age", GUESTS)[1]},
        "race": {"group": one_of("race", GROUPS)[1], **companion},
        "company": companion,
        "when": {"day": day, "time": time, "when": f"{day} {time}"},
    }
    return {topic: words[topic] for topic, rate in MENTION_RATES.items() if rng.random() < rate}


@dataclass
class _Scene:
    """One dialogue in the making."""

    world: World
    rng: random.Random
    turns: list[Turn] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    city: str = ""
    kind: str = ""
    group: str = ""
    found: tuple[dict[str, str], ...] = ()
    settled: set[str] = field(default_factory=set)
    """Details that have been asked about the present result."""

    def play(self, identity: str) -> Dialogue:
        rng = self.rng
        self.people = _people(rng)
        self.unsaid = list(self.people)  # axes whose mention is still to come
        rng.shuffle(self.unsaid)
        length = rng.choice((3, 3, 4, 4, 4, 5, 5, 6))
        closing = rng.random() < 0.6
        self._new_service()
        greeting = f"{rng.choice(GREETINGS)} " if rng.random() < 0.3 else ""
        self._ask(self._request(), greeting)
        while len(self.turns) < length - closing:
            self._go_on()
        if closing:
            self._say(rng.choice(_CLOSINGS), {}, GOODBYE)
        domains = sorted({service.domain for service in self.services})
        return Dialogue(identity, ", ".join(domains), tuple(self.turns))

    def _new_service(self) -> None:
        rng = self.rng
        grouped = [service for service in SERVICES if service.group]
        wanted = grouped if "race" in self.people and rng.random() < 0.75 else list(SERVICES)
        self.service = rng.choice([service for service in wanted if service not in self.services[-1:]])
        self.services.append(self.service)
        self.city, self.kind = rng.choice(CITIES), rng.choice(self.service.kinds)
        self.group = ""
        if self.service.group and "race" in self.people and rng.random() < 0.85:
            self.group = self.people["race"]["group"]
            self.unsaid = [axis for axis in self.unsaid if axis != "race"]

    def _request(self) -> str:
        """Request for the first service; its speaker may be mentioned in it."""
        if self.unsaid and self.rng.random() < 0.4:
            axis = self.unsaid.pop()
            return self.rng.choice(_REQUESTS[axis]).replace("{sought}", "{{sought}}").format(**self.people[axis])
        return self.rng.choice(_QUESTIONS if self.rng.random() < 0.5 else _STATEMENTS)

    def _ask(self, request: str, greeting: str = "") -> None:
        """A request for the current service, whose city may have to be asked for."""
        style = _ASKED if request.endswith("?") else _TOLD
        sought = self.service.sought(self.kind, self.group)
        if len(self.turns) == 0 and self.rng.random() < 0.2:
            self._say(greeting + self._mentioning(request.format(sought=sought)), {}, WHICH_CITY)
            self._look_up(self.rng.choice(_ANSWERS).format(city=self.city), _TOLD)
        else:
            self._look_up(greeting + self._mentioning(request.format(sought=f"{sought} in {self.city}")), style)

    def _go_on(self) -> None:
        """Make one more turn: another kind if nothing was found, else any next wish."""
        if not self.found:
            self._change()
            return
        topics = (self.service.details.keys() | (_INQUIRIES.keys() & self.people.keys())) - self.settled
        choice = self.rng.random()
        if choice < 0.5 and topics:
            self._inquire(self.rng.choice(sorted(topics)))
        elif choice < 0.8:
            self._change()
        else:
            self._new_service()
            self._ask(self.rng.choice(_FURTHER))

    def _inquire(self, topic: str) -> None:
        """Ask about the result at hand: one of its fields, whether it suits somebody, or to note it for a day."""
        self.settled.add(topic)
        if topic in self.service.details:
            questions, answer = self.service.details[topic]
            self._say(self._mentioning(self.rng.choice(questions)), {}, answer.format(**self.found[0]))
            return
        words = {"name": self.found[0][self.service.name], **self.people[topic]}
        questions, answer = _INQUIRIES[topic]
        self.unsaid = [other for other in self.unsaid if other != topic]
        self._say(self.rng.choice(questions).format(**words), {}, answer.format(**words))

    def _change(self) -> None:
        others = [kind for kind in self.service.kinds if kind != self.kind]
        if not self.found:  # nobody asks in vain twice
            others = [kind for kind in others if self.world.results(self.service.call(self.city, kind))]
        self.kind = self.rng.choice(others)
        self._look_up(self.rng.choice(_CHANGES).format(sought=self.service.sought(self.kind)), _CHANGED)

    def _look_up(self, user: str, style: str) -> None:
        call = self.service.call(self.city, self.kind, self.group)
        self.found = self.world.results(call)
        self.settled = set()
        answer = style.format(self.service.offered(call, self.found[0])) if self.found else self.service.nothing
        self._say(user, call, answer)

    def _mentioning(self, text: str) -> str:
        """``text`` with sentences before or after it for some of the mentions that are still to come."""
        rng = self.rng
        said, self.unsaid = self.unsaid, []
        for axis in said:
            if len(self.turns) > 0 or rng.random() < 0.85:
                words = self.people[axis]
                sentence = rng.choice(_SENTENCES[axis] + (_WITH_PRONOUN if words.get("him") else ())).format(**words)
                text = f"{sentence} {text}" if rng.random() < 0.5 else f"{text} {sentence}"
            else:
                self.unsaid.append(axis)
        return text

    def _say(self, user: str, call: Mapping[str, str], response: str) -> None:
        step = Step(dict(call), tuple(map(dict, self.found)) if call else ())
        self.turns.append(Turn(with_articles(user), steps=(step,), response=with_articles(response)))
