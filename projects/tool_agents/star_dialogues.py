"""Dialogues of STAR that the study uses: one task each, and the APIs of their subject as short tools.

    python projects/tool_agents/star_dialogues.py DATAPATH FOLDER

writes tools.json, the tools that dialogues of each task are offered in training, and test_tools.json, those of the test
split in one list.

`--corpus star_dialogues:single` and `star_dialogues:named` read the dialogues. This folder and projects/step_by_step
must be on PYTHONPATH.
"""

import dataclasses
import random
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from star import HELD_OUT, read_star, star_functions

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.io.files import write_json
from tod_bias.perturb.names.resources import dealt

USERS = ("CustomerName", "GuestName", "HostName", "PatientName", "RenterName", "UserName")
"""Slots with the name of a person; the slot Name is a doctor's, a flat's or a venue's."""
SCRIPTED = {"alexis": "woman", "angela": "woman", "ben": "man", "john": "man", "mark": "man"}
LINKS = re.compile(r"\s*\([^()]*https?:[^()]*\)")


def single(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """Dialogues of two turns and more through one task, with calls and responses; without the wizards' video links."""
    for dialogue in read_star(datapath, split):
        called = any(turn.calls for turn in dialogue.turns)
        said = sum(bool(turn.response) for turn in dialogue.turns)
        if "," not in dialogue.domain and called and said > 1:
            yield dataclasses.replace(dialogue, system=LINKS.sub("", dialogue.system))


def named(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """:func:`single`, with the five names that STAR's scripts gave its users spread over those that the axes deal out.

    Five names stand for their five bearers, whatever is found for them. Here a dialogue's user has a name of the same
    gender, drawn by the dialogue's number, wherever the user's name stands: in utterances, calls and results. Doctors
    keep theirs. Dialogues in which no call names the user are left out.
    """
    for dialogue in single(datapath, split):
        values = (
            str(value)
            for turn in dialogue.turns
            for call in turn.calls
            for slot, value in call.items()
            if slot in USERS
        )
        here = sorted({value.strip().lower() for value in values} & SCRIPTED.keys())
        draw = random.Random(dialogue.id)
        taken: dict[str, str] = {}
        for name in here:
            taken[name] = draw.choice([other for other in dealt(SCRIPTED[name]) if other not in taken.values()])
        if here:
            pattern = re.compile(rf"(?<![Dd]r\. )(?<![Dd]r )(?<!octor )\b({'|'.join(here)})\b", re.IGNORECASE)
            yield Dialogue.from_json(renamed(dialogue.to_json(), pattern, taken))


def renamed(value: Any, pattern: re.Pattern[str], taken: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return pattern.sub(lambda match: taken[match[0].lower()], value)
    if isinstance(value, dict):
        return {slot: renamed(item, pattern, taken) for slot, item in value.items()}
    return [renamed(item, pattern, taken) for item in value] if isinstance(value, list) else value


def short(function: dict) -> dict:
    """A tool with its slots' names, types, and choices where they are two or three; the full ones take 1,000 tokens."""
    inner = function["function"]
    slots = {}
    for name, slot in inner["parameters"]["properties"].items():
        kind = slot.get("type", "string")
        slots[name] = {"type": kind if isinstance(kind, str) else "string"}
        if 1 < len(slot.get("enum", ())) < 4:
            slots[name] = {"enum": slot["enum"]}
        elif any(option.get("type") == "integer" for option in slot.get("anyOf", ())):
            slots[name] = {"type": "integer"}
    parameters = {"type": "object", "properties": slots}
    return {"type": "function", "function": {"name": inner["name"], "parameters": parameters}}


def tools_by_task(datapath: str) -> dict[str, list[dict]]:
    """The tools that a dialogue of each task is offered: those of its subject, such as both of apartments."""
    functions = {function["function"]["name"]: short(function) for function in star_functions(datapath)}
    return {
        task: [tool for name, tool in functions.items() if name.split("_")[0] == task.split("_")[0]]
        for task in functions
    }


if __name__ == "__main__":
    offered = tools_by_task(sys.argv[1])
    write_json(Path(sys.argv[2], "tools.json"), offered)
    held_out = {tool["function"]["name"]: tool for task in HELD_OUT["test"] for tool in offered[task]}
    write_json(Path(sys.argv[2], "test_tools.json"), list(held_out.values()))
