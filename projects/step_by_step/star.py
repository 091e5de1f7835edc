"""STAR (Mosig et al. 2020) from ``DATAPATH/star/``: people and wizards, 24 tasks, queries with their results.

A turn is what the user says, the wizard's queries with what the knowledge base returned, and what the wizard said then
(``pick_suggestion`` or ``utter``; ``request_suggestions`` is a draft that nobody saw). A query's constraints are JSON
values: ``api.is_equal_to("x")`` is ``"x"``, ``api.is_one_of([…])`` is a list, and the other comparisons are mappings:

====================  ====================
``is_at_least(5)``    ``{"min": 5}``
``is_at_most(5)``     ``{"max": 5}``
``is_greater_than(5)``  ``{"above": 5}``
``is_less_than(5)``   ``{"below": 5}``
``contains("x")``     ``{"contains": "x"}``
``is_not("x")``       ``{"not": "x"}``
``contains_not("x")``  ``{"not_contains": "x"}``
====================  ====================

Of several constraints on one slot, comparisons are put together and otherwise the last counts; empty ones are left out.
The result is the item that the wizard saw; how many others there were (``TotalItems``) is left out.

**Splits are by task**, so that no task is in two: :data:`HELD_OUT` names those of ``valid`` (12.6% of the dialogues)
and ``test`` (12.5%), all others are ``train`` (66.5%). Some dialogues go through several tasks; the 560 (8.4%) that go
through tasks of two splits are in none. :func:`read_star_folder` gives all 6,652. 447 dialogues have no utterance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.distribution import Distribution, reason
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import CorpusError
from tod_bias.io.documents import loads

STAR = Distribution("star", "STAR", "star", "RasaHQ/STAR on GitHub")
HELD_OUT = {
    "valid": ("hotel_book", "hotel_search", "spaceship_access_codes", "spaceship_life_support"),
    "test": ("apartment_schedule", "apartment_search", "doctor_followup", "doctor_schedule"),
}
"""The tasks of a split; all others are ``train``. Chosen so that few dialogues go through tasks of two."""
_SPOKEN = ("pick_suggestion", "utter")


def read_star(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """The dialogues whose tasks are all of one split, in order of their numbers.

    ``domain`` is the task, or the tasks joined by a comma; ``system`` what the wizard was told to do.

    Raises:
        CorpusError: no such folder, or a file that is not in STAR's format; names it and the event.
    """
    for dialogue in read_star_folder(STAR.lies_in(datapath)):
        if split_of(dialogue.domain.split(", ")) == split:
            yield dialogue


def split_of(tasks: Sequence[str]) -> str:
    """Return the split of all the tasks; ``""`` if they are in several."""
    splits = {next((split for split, held in HELD_OUT.items() if task in held), "train") for task in tasks}
    return splits.pop() if len(splits) == 1 else ""


def read_star_folder(folder: Path) -> Iterator[Dialogue]:
    """Read all dialogues, whatever their tasks.

    Raises:
        CorpusError: as :func:`read_star`.
    """
    files = sorted((folder / "dialogues").glob("*.json"), key=lambda path: (len(path.name), path.name))
    if not files:
        raise CorpusError(f"{folder / 'dialogues'}: no .json file there; expected STAR's dialogues, 1.json and so on")
    for file in files:
        record = STAR.records(file, dict)
        with STAR.reading(file):
            scenario = record["Scenario"]
            tasks = sorted({str(entry["Task"]) for entry in scenario["WizardCapabilities"]})
            turns = tuple(_turns(record["Events"]))
            dialogue = Dialogue(str(record["DialogueID"]), ", ".join(tasks), turns, scenario["WizardTask"].strip())
        yield dialogue


def _add_result(steps: list[Step], event: Mapping[str, Any]) -> None:
    item = {slot: value for slot, value in (event.get("Item") or {}).items() if slot != "APIName"}
    if not steps or steps[-1].results:
        raise ValueError("a result without its query")
    steps[-1] = Step(steps[-1].call, (item,))


def _add(event: Mapping[str, Any], user: list[str], steps: list[Step], response: list[str]) -> None:
    """Add what an event says, calls or returns to its turn."""
    agent, action = event.get("Agent"), event.get("Action")
    if (agent, action) == ("User", "utter"):
        user.append(event["Text"])
    elif (agent, action) == ("Wizard", "query"):
        steps.append(Step(call_of(event["APIName"], event["Constraints"])))
    elif (agent, action) == ("KnowledgeBase", "return_item"):
        _add_result(steps, event)
    elif agent == "Wizard" and action in _SPOKEN:
        response.append(event["Text"])


def _turns(events: Sequence[Mapping[str, Any]]) -> Iterator[Turn]:
    user: list[str] = []
    steps: list[Step] = []
    response: list[str] = []
    for number, event in enumerate(events, start=1):
        action = (event.get("Agent"), event.get("Action"))
        opens = action == ("User", "utter") and bool(steps or response)
        if opens or (action == ("Wizard", "query") and response):
            yield Turn("\n".join(user), steps=steps, response="\n".join(response))
            user, steps, response = [], [], []
        try:
            _add(event, user, steps, response)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"event {number}: {reason(error)}") from error
    if user or steps or response:
        yield Turn("\n".join(user), steps=steps, response="\n".join(response))


_EXPRESSION = re.compile(r"api\.(\w+)\((.*)\)", re.DOTALL)
_COMPARISONS = {
    "is_at_least": "min",
    "is_at_most": "max",
    "is_greater_than": "above",
    "is_less_than": "below",
    "contains": "contains",
    "is_not": "not",
    "contains_not": "not_contains",
}
_CONSTANTS = {"True": True, "False": False, "null": None, "": None}


def call_of(api: str, constraints: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """A query as a call: ``api_name`` and the constraints as JSON values.

    Raises:
        ValueError: a constraint compares in an unknown way.
    """
    call: dict[str, Any] = {API_NAME: api}
    for constraint in constraints:
        for slot, text in constraint.items():
            value, before = constraint_value(text), call.get(slot)
            if value is None:
                continue
            merged = isinstance(value, dict) and isinstance(before, dict)
            call[slot] = {**before, **value} if merged else value  # type: ignore[dict-item]
    return call


def constraint_value(text: str) -> Any:
    """A constraint as a JSON value; None for an empty one.

    Raises:
        ValueError: it compares in an unknown way.

    >>> constraint_value('api.is_at_most(5)'), constraint_value('"5"'), constraint_value('api.is_one_of(["a"])')
    ({'max': 5}, '5', ['a'])
    """
    match = _EXPRESSION.fullmatch(text.strip())
    if match is None:
        return _literal(text)
    name, value = match[1], _literal(match[2])
    if value is None or name == "is_equal_to":
        return value
    if name == "is_one_of":
        return value if isinstance(value, list) else [value]
    if name not in _COMPARISONS:
        raise ValueError(f"unknown comparison {name!r}; expected is_equal_to, is_one_of, {', '.join(_COMPARISONS)}")
    return {_COMPARISONS[name]: value}


def _literal(text: str) -> Any:
    text = text.strip()
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        return loads(text)
    except ValueError:  # typed by hand: a PIN with a leading zero, quotes inside of quotes
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def star_functions(datapath: str | Path) -> list[dict[str, Any]]:
    """The APIs as OpenAI's function schemas, for a policy that calls tools.

    Types are those of ``apis/apis/*.json``; a comparison of a number or a choice is allowed as the module says. Nothing
    that the recorded queries leave out is required.

    Args:
        datapath: the folder that holds ``star/``.

    Raises:
        CorpusError: a file is not there or not in STAR's format.
    """
    folder = STAR.lies_in(Path(datapath)) / "apis" / "apis"
    return [_function(path.stem, path) for path in sorted(folder.glob("*.json"))]


def _function(name: str, path: Path) -> dict[str, Any]:
    with STAR.reading(path):
        properties = {slot["Name"]: _property(slot) for slot in STAR.records(path, dict)["input"]}
    description = f"{name.replace('_', ' ').capitalize()}."
    parameters = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _property(slot: Mapping[str, Any]) -> dict[str, Any]:
    named = {"description": slot.get("ReadableName", slot["Name"])}
    kind = slot["Type"]
    if kind == "Boolean":
        return {"type": "boolean", **named}
    if kind == "Integer":
        bounds = {bound: {"type": "number"} for bound in ("min", "max", "above", "below", "not")}
        compared = {"type": "object", "properties": bounds, "additionalProperties": False}
        return {"anyOf": [{"type": "integer"}, compared], **named}
    categories = slot.get("Categories")
    if not isinstance(categories, list):
        return {"type": ["string", "integer"], **named}  # account numbers and codes are recorded as either
    if kind == "RequestType":
        return {"type": "string", "enum": categories, **named}
    value = {"type": "string", "enum": categories}
    compared = {"type": "object", "properties": {"contains": value, "not": value, "not_contains": value}}
    return {
        "anyOf": [value, {"type": "array", "items": value}, {**compared, "additionalProperties": False}],
        **named,
    }
