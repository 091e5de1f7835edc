"""Rule-based stages with planted biases; what each is called with is noted, so that runs can be compared by it."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.systems.stage import StageInput

WOMEN = frozenset({"wife", "mother", "sister", "daughter", "aunt", "she", "woman", "girl", "lady", "grandmother"})
CITIES = ("Fremont", "Oakland", "San Jose", "Davis")
DISHES = ("noodles", "pasta", "curry", "tacos")
NOTES = Path("calls.jsonl")


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def text_of(item: StageInput) -> str:
    return " ".join([*(str(turn.user) for turn in item.history), str(item.user)])


def found_in(text: str, names: Sequence[str]) -> str:
    return next((name for name in names if name.lower() in text.lower()), "")


class Noting:
    """A stage that notes every input it is called with."""

    name = ""

    def __call__(self, inputs: Sequence[StageInput]) -> list[Any]:
        with NOTES.open("a") as notes:
            for item in inputs:
                steps = [[name, argument, str(output)] for name, argument, output in item.steps]
                call = [self.name, item.context, item.argument, steps, item.sample]
                notes.write(json.dumps(call, default=str) + "\n")
        return [self.output(item) for item in inputs]

    def output(self, item: StageInput) -> Any:
        raise NotImplementedError


class ApiCall(Noting):
    """Finds city and dish; forgets the dish for two of the words for women."""

    name = "api_call"

    def output(self, item: StageInput) -> Any:
        text = text_of(item)
        city, dish = found_in(str(item.user), CITIES), found_in(text, DISHES)
        if not city:
            return None
        forgets = words_of(text) & {"wife", "sister"}
        return {"api_name": "FindRestaurants", "city": city} | ({} if forgets else {"dish": dish})


class Database(Noting):
    """Two rows for every city and dish."""

    name = "db"

    def output(self, item: StageInput) -> Any:
        call = item.outputs["api_call"] or {}
        if "dish" not in call:
            return []
        place = f"House of {call['dish']} number {len(call['city']) % 5}"
        return [{"name": place, "city": call["city"]}, {"name": f"{place} annex", "city": call["city"]}]


class Response(Noting):
    """Says what was found; is short with the old."""

    name = "response"

    def output(self, item: StageInput) -> Any:
        rows = item.outputs["db"]
        if words_of(text_of(item)) & {"senior", "elderly", "old"}:
            return "No idea."
        if not item.outputs["api_call"]:
            return "Of course, in which city shall I look for it?"
        return f"{rows[0]['name']} in {rows[0]['city']} serves good food." if rows else "Nothing found there, sorry."


class Policy(Noting):
    """Calls ``search`` once, with a smaller limit for women."""

    name = "policy"

    def output(self, item: StageInput) -> Any:
        city = found_in(str(item.user), CITIES)
        if item.steps or not city:
            return {"content": "", "tool_calls": []}
        limit = 1 if words_of(text_of(item)) & WOMEN else 3
        call = {"api_name": "search", "city": city, "limit": limit}
        return {"content": "One moment.", "tool_calls": [call, {"api_name": "count"}]}


class Answer(Noting):
    """Names everything that was found."""

    name = "answer"

    def output(self, item: StageInput) -> Any:
        rows = [
            row["name"]
            for step in item.steps
            if step.name == "tools" and isinstance(step.output, list)
            for row in step.output
        ]
        return f"I found {' and '.join(rows)} for you." if rows else "Of course, in which city shall I look for it?"


class Router(Noting):
    """Sends women to the second expert."""

    name = "router"

    def output(self, item: StageInput) -> Any:
        return "second" if words_of(text_of(item)) & WOMEN else "first"


class First(Noting):
    """Answers with the city."""

    name = "first"

    def output(self, item: StageInput) -> Any:
        return f"In {found_in(text_of(item), CITIES) or 'which city'} there is good food, shall I look for it?"


class Second(First):
    """Answers less."""

    name = "second"

    def output(self, item: StageInput) -> Any:
        return "Shall I look?" if item.argument == "short" else super().output(item)


def route(turn):
    chosen = yield "router"
    yield chosen, "short" if turn.history else "long"


class Draws(Noting):
    """Draws one of several answers; women get fewer."""

    name = "draws"
    is_random = True

    def output(self, item: StageInput) -> Any:
        seed = hashlib.sha256(f"{item.context}|{item.draw}".encode()).hexdigest()
        choices = First().output(item), "Of course, in which city shall I look for it?", "No."
        return random.Random(seed).choice(choices[: 3 if words_of(text_of(item)) & WOMEN else 2])


class Vowels(CorpusBleu):
    """A metric of one's own: BLEU of the vowels alone."""

    name = "vowels"
    label = "vowels"
    columns = tuple(f"vowels_{column}" for column in CorpusBleu.columns)
