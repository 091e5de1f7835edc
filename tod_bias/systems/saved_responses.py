"""The responses of a system that cannot be run again, from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import ORIGINAL_VARIANT, Step
from tod_bias.errors import StageError
from tod_bias.io.documents import loads, text_lines
from tod_bias.metrics.grade import Grade

SYSTEM = "system"
"""Name of the one component of a system that is known by its saved responses."""
_FIELDS = ("id", "turn", "variant", "user", "response", "steps")


@dataclass(frozen=True)
class SavedTurn:
    """Response and calls of a system in one turn."""

    response: str
    steps: tuple[Step, ...] = ()
    """The calls that it made, with their results."""
    user: str | None = None
    """User's message, if the file has it; it must equal the variant's."""


class SavedResponses:
    """Responses by dialogue, variant and turn.

    Lines of ``{"id": …, "turn": 0, "variant": …, "response": …, "steps": […]}``: ``variant`` is as ``tod-bias export``
    names it, ``original`` for the dialogue as it is; ``id`` is that of the original dialogue or of the variant;
    ``steps`` may be left out. ``user``, the user's message, may be added and is then compared. The system is one
    component, because nothing else is known about it.

    Args:
        path: the file.

    Raises:
        StageError: the file cannot be read, a line has another form, or a response occurs twice; names the line.
    """

    names = (SYSTEM,)
    """Components that contributions are attributed to."""
    grades: Sequence[Grade] = ()
    """Judgements of whole dialogues; there are none of saved responses."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.responses: dict[tuple[str, str, int], SavedTurn] = {}
        """(dialogue, variant, turn) to what was saved of it."""
        digest = blake2b(digest_size=8)
        try:
            for number, line in text_lines(self.path):
                digest.update(line.encode("utf-8", "surrogatepass"))
                try:
                    key, saved = _read(loads(line, unique=True))
                except ValueError as error:
                    raise StageError(f"{self.path}, line {number}: {error}") from error
                if key in self.responses:
                    name, variant, turn = key
                    raise StageError(f"{self.path}, line {number}: turn {turn} of {name!r} as {variant!r} stands twice")
                self.responses[key] = saved
        except (OSError, UnicodeDecodeError) as error:
            raise StageError(f"{self.path}: cannot be read as responses: {error}") from error
        if not self.responses:
            raise StageError(f"{self.path}: holds no response")
        self.signature = f"saved responses:{len(self.responses)}|hash:{digest.hexdigest()}"

    @property
    def variants(self) -> list[str]:
        """The variants that have responses, in the order of the file."""
        return list(dict.fromkeys(variant for _, variant, _ in self.responses))


def _read(record: Any) -> tuple[tuple[str, str, int], SavedTurn]:
    if not isinstance(record, Mapping):
        raise ValueError(f"expected an object, got {type(record).__name__}")
    if {"messages", "original"} <= set(record):
        raise ValueError(
            "this is a counterfactual; save the system's response to it, a line {id, turn, variant, response}"
        )
    if unknown := sorted(set(record) - set(_FIELDS)):
        raise ValueError(f"unknown field {unknown[0]!r}; a response has {', '.join(_FIELDS)}")
    name, turn, variant = record.get("id"), record.get("turn"), record.get("variant", ORIGINAL_VARIANT)
    response, steps = record.get("response"), record.get("steps") or []
    for what, value, kind in (("id", name, str), ("variant", variant, str), ("response", response, str)):
        if not isinstance(value, kind):
            raise ValueError(f"{what!r} must be a text, got {value!r:.60}")
    if type(turn) is not int or turn < 0:
        raise ValueError(f"'turn' must be a number from 0, got {turn!r:.60}")
    if not isinstance(steps, list):
        raise ValueError(f"'steps' must be a list, got {type(steps).__name__}")
    key = str(name).removesuffix(f"#{variant}"), str(variant), turn
    user = record.get("user")
    if user is not None and not isinstance(user, str):
        raise ValueError(f"'user' must be a text, got {user!r:.60}")
    return key, SavedTurn(str(response), tuple(Step.from_json(step) for step in steps), user)
