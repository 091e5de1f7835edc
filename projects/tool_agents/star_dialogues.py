"""What the study takes of STAR: dialogues through one task, and the APIs of their subject as short tools.

    python projects/tool_agents/star_dialogues.py DATAPATH tools.json   # writes the tools of every task

`--corpus star_dialogues:single` reads the dialogues, where this folder is on PYTHONPATH.
"""

import dataclasses
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.star import read_star, star_functions
from tod_bias.files import write_json

LINKS = re.compile(r"\s*\([^()]*https?:[^()]*\)")


def single(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """Dialogues of two turns and more through one task, with calls and responses; without the wizards' video links."""
    for dialogue in read_star(datapath, split):
        called = any(turn.calls for turn in dialogue.turns)
        said = sum(bool(turn.response) for turn in dialogue.turns)
        if "," not in dialogue.domain and called and said > 1:
            yield dataclasses.replace(dialogue, system=LINKS.sub("", dialogue.system))


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
    write_json(sys.argv[2], tools_by_task(sys.argv[1]))
