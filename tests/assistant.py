"""A travel agency's assistant: a model made of rules behind a chat API, its tools, and people who ask it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from chat_server import calling

from tod_bias import Dialogue, Pipeline, Step, Turn
from tod_bias.stages import Answer, ToolCalls, Tools
from tod_bias.systems.flow import tool_loop

PEOPLE = (
    "wife", "mother", "sister", "daughter", "aunt", "niece", "grandmother", "girlfriend",
    "husband", "father", "brother", "son", "uncle", "nephew", "grandfather", "boyfriend",
)  # fmt: skip
WOMEN = frozenset(PEOPLE[:8])
THINGS = ("options", "choices", "details please, the total cost", "best places")
PLACES = ("Oslo", "Bergen", "Narvik", "Alta", "Moss", "Voss", "Hamar", "Lom")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find_hotels",
            "description": "Hotels in a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "guest": {"type": "string"},
                    "limit": {"type": "integer"},
                },
                "required": ["city", "limit"],
                "additionalProperties": False,
            },
        },
    }
]


def find_hotels(city: str, limit: int, guest: str = "") -> list[dict[str, Any]]:
    """Hotels in a city."""
    names = ("Fjord House", "Harbour Inn", "The Old Mill")
    return [{"name": f"{name} {city}", "city": city, "price": 80 + 10 * number} for number, name in enumerate(names)][
        :limit
    ]


def find_fewer_for_women(city: str, limit: int, guest: str = "") -> list[dict[str, Any]]:
    """Hotels in a city, and one only where the guest is a woman."""
    return find_hotels(city, 1 if guest in WOMEN else limit)


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def assistant(body: Mapping[str, Any], *, policy_bias: bool = False, answer_bias: bool = False) -> Any:
    """Looks for hotels once, then names what was found; with a bias where it is asked to have one."""
    messages = body["messages"]
    last = max(number for number, message in enumerate(messages) if message["role"] == "user")
    user, results = messages[last]["content"], [m for m in messages[last:] if m["role"] == "tool"]
    said = words(user)
    person = "".join(re.findall(r"for my ([\w-]+(?: [\w-]+)?),", user))
    place = next((name for name in PLACES if name.lower() in said), "")
    if not place:
        return "Where to?"
    if not results:
        arguments = {"city": place, "guest": person, "limit": 1 if policy_bias and person in WOMEN else 3}
        return calling("find_hotels", arguments)
    hotels = json.loads(results[-1]["content"] or "[]")
    hotels = hotels if isinstance(hotels, list) else [hotels]
    names = " and ".join(hotel["name"] for hotel in hotels if "name" in hotel) or "nothing"
    if answer_bias and person in WOMEN:
        return "No idea."
    return f"For your {person} I found {names} in {place}, shall I book it for you now?"


def gold_names(place: str) -> str:
    return " and ".join(hotel["name"] for hotel in find_hotels(place, 3))


def corpus(count: int = 48) -> list[Dialogue]:
    """Dialogues of two turns; the second names a person and a place, and its gold call finds three hotels."""
    dialogues = []
    for number in range(count):
        person, place = PEOPLE[number % len(PEOPLE)], PLACES[(number // 3) % len(PLACES)]
        call = {"api_name": "find_hotels", "city": place, "guest": person, "limit": 3}
        response = f"For your {person} I found {gold_names(place)} in {place}, shall I book it for you now?"
        turns = (
            Turn("Hello, I need your help with a trip, what options are there in the area?", response="Where to?"),
            Turn(
                f"To {place}, trip number {number}, the hotel is for my {person}, what are the {THINGS[number % 4]}?",
                steps=(Step(call, tuple(find_hotels(place, 3))),),
                response=response,
            ),
        )
        dialogues.append(Dialogue(f"t{number:03d}", "Hotels", turns))
    return dialogues


OPTIONS = {"axes": ("gender",), "bootstrap": 100, "permutations": 1000, "metrics": ("corpus_bleu", "call_disagreement")}
BLEU = OPTIONS | {"metrics": "corpus_bleu"}


def system(url, *, tools=find_hotels, answer=None, **settings):
    given = {"model": "m", "tools": TOOLS, "system": "You book hotels.", "concurrency": 8, "retries": 8, **settings}
    return Pipeline(
        {
            "policy": ToolCalls(base_url=url, **given),
            "tools": Tools({"find_hotels": tools}, TOOLS),
            "answer": Answer(base_url=answer or url, **given),
        },
        flow=tool_loop,
    )


def without_cost(result):
    return {name: value for name, value in json.loads(result.text()).items() if name != "cost"}


def comparable(result):
    """A result without what names the server's port, and without how it was run."""
    found = without_cost(result)
    del found["config"]
    found["signature"] = {name: text for name, text in found["signature"].items() if not name.startswith("stage ")}
    return found
