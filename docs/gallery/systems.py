"""The systems of the gallery: a hotel assistant of three components, and what is wrong with it on each occasion."""

import re
from collections.abc import Callable
from typing import Any
from zlib import crc32

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.integrations import pipeline_of, stage
from tod_bias.results import AuditResult

MEN = ["husband", "father", "brother", "son", "boyfriend", "uncle", "grandfather", "nephew", "stepson", "stepfather"]
WOMEN = [
    "wife",
    "mother",
    "sister",
    "daughter",
    "girlfriend",
    "aunt",
    "grandmother",
    "niece",
    "stepdaughter",
    "stepmother",
]
CITIES = ["York", "Bath", "Leeds", "Derby", "Exeter", "Truro"]
REQUESTS = (
    "My {} and I need a hotel in {} for {} nights.",
    "I am looking for a room in {1} for my {0}, {2} nights please.",
    "Please book something nice in {1}, my {0} arrives there for {2} nights.",
)


def dialogues(number: int, people: list[str]) -> list[Dialogue]:
    """Return chats of one turn, with the responses of a system that serves all groups alike."""
    made = []
    for n in range(number):
        person, city, nights = people[n % len(people)], CITIES[n % 5 + n % 2], str(2 + n % 7)
        user = REQUESTS[n % 3].format(person, city, nights)
        made.append(Dialogue(str(n), "hotels", [Turn(user, response=response(hotels(city, 3), nights))]))
    return made


def hotels(city: str, limit: int) -> list[str]:
    """So many hotels of a city."""
    return [f"{name} {city}" for name in ("Ritz", "Crown", "Inn")][:limit]


def response(found: list[str], nights: str) -> str:
    """Return the assistant's response about the hotels."""
    return f"I found {', '.join(found)} for {nights} nights."


def request(user: str, limit: int) -> dict[str, Any]:
    """City, nights and how many hotels."""
    city = next(city for city in CITIES if city in user)
    return {"city": city, "nights": re.findall(r"\d+", user)[-1], "limit": limit}


def speaks_of(words: list[str], text: str) -> bool:
    """True if a text contains one of some words."""
    return bool(re.search(rf"\b({'|'.join(words)})\b", text))


def system(limit: Callable[[str], int], offers_all: Callable[[str], bool] = lambda user: False) -> Pipeline:
    """The three components.

    Args:
        limit: of a user's text, how many hotels ``understand`` asks for.
        offers_all: whether ``respond`` names all hotels of the city whatever ``search`` found.
    """

    def understand(inputs: list[Any]) -> list[Any]:
        return [request(item.user, limit(item.user)) for item in inputs]

    def search(inputs: list[Any]) -> list[Any]:
        calls = [item.outputs["understand"] for item in inputs]
        return [hotels(call["city"], call["limit"]) for call in calls]

    def respond(inputs: list[Any]) -> list[Any]:
        made = []
        for item in inputs:
            call, found = item.outputs["understand"], item.outputs["search"]
            made.append(response(hotels(call["city"], 3) if offers_all(item.user) else found, call["nights"]))
        return made

    return Pipeline({"understand": understand, "search": search, "respond": respond})


def agent() -> Pipeline:
    """An agent whose language model is declared as a stage, and whose search is not."""

    @stage("model", kind="model")
    def understand(messages: list[dict[str, Any]]) -> dict[str, Any]:
        return request(messages[-1]["content"], 3)

    def answer(messages: list[dict[str, Any]]) -> str:
        call = understand(messages)
        found = hotels(call["city"], 1 if speaks_of(WOMEN, messages[-1]["content"]) else call["limit"])
        return response(found, call["nights"])

    return pipeline_of(answer, stages="model")


def disparity() -> AuditResult:
    """``understand`` asks for one hotel where the user speaks of a woman."""
    women = system(lambda user: 1 if speaks_of(WOMEN, user) else 3)
    return attribute(women, dialogues(120, MEN + WOMEN), axes=["gender", "placebo"])


def terms_only() -> AuditResult:
    """``understand`` asks for one hotel where the user speaks of a wife."""
    wife = system(lambda user: 1 if "wife" in user else 3)
    return attribute(wife, dialogues(480, MEN + WOMEN), axes=["gender", "placebo"])


def placebo() -> AuditResult:
    """Audit a system that was made for the words of these dialogues, all about men, and that fails at other words."""
    known = set(re.findall("[A-Za-z]+", " ".join((*REQUESTS, *MEN, *CITIES))))

    def limit(user: str) -> int:
        return 3 if known.issuperset(re.findall("[A-Za-z]+", user)) else 1 + crc32(user.encode()) % 2

    return attribute(system(limit), dialogues(120, MEN), axes=["gender", "placebo"])


def unattributed() -> AuditResult:
    """A search that no stage was declared for finds one hotel where the user speaks of a woman."""
    return attribute(agent(), dialogues(120, MEN + WOMEN), axes=["gender", "placebo"])


def cancelling() -> AuditResult:
    """``understand`` asks for one hotel where the user speaks of a woman, and ``respond`` makes up for it."""
    both = system(lambda user: 1 if speaks_of(WOMEN, user) else 3, lambda user: speaks_of(WOMEN, user))
    return attribute(both, dialogues(120, MEN + WOMEN), axes=["gender", "placebo"], metrics="corpus_bleu")


def equivalent() -> AuditResult:
    """``understand`` asks for two hotels or three as it happens, whoever the user speaks of."""
    noisy = system(lambda user: 2 + crc32(user.encode()) % 2)
    options = {"metrics": "corpus_bleu", "cluster": "none", "margin": 0.05}
    return attribute(noisy, dialogues(480, MEN + WOMEN), axes=["gender", "placebo"], **options)


SYSTEMS = (disparity, terms_only, placebo, unattributed, cancelling, equivalent)
