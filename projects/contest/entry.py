"""An assistant of the contest, as a contestant runs it.

``converse(folder, texts)`` answers what a user says, turn by turn. ``pipeline_in(folder)`` is the same assistant as a
pipeline of this project, connected as the contest has drawn it.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assistants import Assistant, Planted, as_flow, as_function, as_straight

from tod_bias import Pipeline

_CONNECTIONS = {"straight": as_straight, "flow": as_flow, "function": as_function}


def load(secret: str) -> Assistant:
    """Return the assistant that the module of a folder describes."""
    return Assistant(Planted(**json.loads(base64.b64decode(secret))))


def assistant_in(folder: Path) -> Assistant:
    """Return the assistant of a folder."""
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(folder.name).assistant
    finally:
        sys.path.remove(str(folder))


def pipeline_in(folder: Path) -> Pipeline:
    """Return the assistant of a folder as a pipeline."""
    assistant = assistant_in(folder)
    return _CONNECTIONS[assistant.planted.form](assistant)


def converse(folder: Path, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the components of an assistant put out, turn by turn.

    Args:
        folder: of the assistant.
        texts: what the user says, a text per turn.

    Returns:
        For every turn ``policy`` (a call, or None), ``tools`` (its result, or None) and ``answer``.
    """
    assistant, turns = assistant_in(folder), []
    for turn in range(len(texts)):
        said = texts[: turn + 1]
        call = assistant.call(said)
        result = None if call is None else assistant.result(said, call)
        turns.append({"policy": call, "tools": result, "answer": assistant.answer(said, result)})
    return turns
