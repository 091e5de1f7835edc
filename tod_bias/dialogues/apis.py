"""A corpus's APIs as OpenAI's function schemas: its own where it has some, else as they were called."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.star import star_functions
from tod_bias.dialogues.tau_bench import tau_bench_functions


def corpus_functions(corpus: str, datapath: str | Path | None, dialogues: Iterable[Dialogue]) -> list[dict[str, Any]]:
    """The APIs of a corpus: of ``star`` and ``tau_bench`` (airline) what they say themselves, else :func:`called`.

    Raises:
        CorpusError: the corpus's own schemas cannot be read.
    """
    if corpus == "star" and datapath is not None:
        return star_functions(datapath)
    if corpus == "tau_bench" and datapath is not None:
        return tau_bench_functions(datapath, "airline")
    return called(dialogues)


_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def called(dialogues: Iterable[Dialogue]) -> list[dict[str, Any]]:
    """Schemas of the calls in dialogues: every API's slots with the types they had; required is what every call has."""
    slots: dict[str, dict[str, set[str]]] = {}
    always: dict[str, set[str]] = {}
    for step in (step for dialogue in dialogues for turn in dialogue.turns for step in turn.steps if step.name):
        named = slots.setdefault(step.name, {})
        always[step.name] = always.get(step.name, set(step.arguments)) & set(step.arguments)
        for slot, value in step.arguments.items():
            kind = "string" if isinstance(value, str) else _TYPES.get(type(value), "null")
            named.setdefault(slot, set()).add(kind)
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"{name}.",
                "parameters": {
                    "type": "object",
                    "properties": {slot: {"type": _type(kinds)} for slot, kinds in named.items()},
                    "required": sorted(always[name]),
                },
            },
        }
        for name, named in sorted(slots.items())
    ]


def _type(kinds: set[str]) -> str | list[str]:
    return next(iter(kinds)) if len(kinds) == 1 else sorted(kinds)
