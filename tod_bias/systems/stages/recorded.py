"""A system that cannot be run again: what it answered to each telling, from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Step
from tod_bias.documents import loads, text_lines
from tod_bias.errors import StageError
from tod_bias.systems.stage import StageInput

ORIGINAL = "original"
"""The telling that is the dialogue as it is."""
_FIELDS = ("id", "turn", "telling", "user", "response", "steps")


@dataclass(frozen=True)
class Recorded:
    """What a system answered in one turn."""

    response: str
    steps: tuple[Step, ...] = ()
    """The calls that it made, with their results."""
    user: str | None = None
    """What was said to it, where the file says so: it must be what the telling says."""


class RecordedAnswers:
    """Answers by dialogue, telling and turn.

    Lines of ``{"id": …, "turn": 0, "telling": …, "response": …, "steps": […]}``: ``telling`` is as
    ``tod-bias export`` names it, ``original`` for the dialogue as it is; ``id`` is the original
    dialogue's, or that of the telling; ``steps`` may be left out, and
    ``user``, what the user said, may be added, to be compared. As nothing else is known of the system, it is one
    component, and no other can be swapped.

    Args:
        path: the file.

    Raises:
        StageError: it cannot be read, a line is none of these, or an answer stands twice; names the line.
    """

    keep_answers = False

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.answers: dict[tuple[str, str, int], Recorded] = {}
        """(dialogue, telling, turn) to the answer."""
        digest = blake2b(digest_size=8)
        try:
            for number, line in text_lines(self.path):
                digest.update(line.encode("utf-8", "surrogatepass"))
                try:
                    key, answer = _read(loads(line, unique=True))
                except ValueError as error:
                    raise StageError(f"{self.path}, line {number}: {error}") from error
                if key in self.answers:
                    name, telling, turn = key
                    raise StageError(f"{self.path}, line {number}: turn {turn} of {name!r} as {telling!r} stands twice")
                self.answers[key] = answer
        except (OSError, UnicodeDecodeError) as error:
            raise StageError(f"{self.path}: cannot be read as answers: {error}") from error
        if not self.answers:
            raise StageError(f"{self.path}: holds no answer")
        self.signature = f"answers:{len(self.answers)}|hash:{digest.hexdigest()}"

    @property
    def tellings(self) -> list[str]:
        """The tellings that were answered, in the order of the file."""
        return list(dict.fromkeys(telling for _, telling, _ in self.answers))

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """Raises StageError: what is recorded belongs to dialogues and tellings, not to questions."""
        raise StageError(f"{self.path}: recorded answers are looked up by dialogue and telling; only attribute can")


def _read(record: Any) -> tuple[tuple[str, str, int], Recorded]:
    if not isinstance(record, Mapping):
        raise ValueError(f"expected an object, got {type(record).__name__}")
    if {"messages", "original"} <= set(record):
        raise ValueError("this is a telling; save what the system answers to it, a line {id, turn, telling, response}")
    if unknown := sorted(set(record) - set(_FIELDS)):
        raise ValueError(f"unknown field {unknown[0]!r}; an answer has {', '.join(_FIELDS)}")
    name, turn, telling = record.get("id"), record.get("turn"), record.get("telling", ORIGINAL)
    response, steps = record.get("response"), record.get("steps") or []
    for what, value, kind in (("id", name, str), ("telling", telling, str), ("response", response, str)):
        if not isinstance(value, kind):
            raise ValueError(f"{what!r} must be a text, got {value!r:.60}")
    if type(turn) is not int or turn < 0:
        raise ValueError(f"'turn' must be a number from 0, got {turn!r:.60}")
    if not isinstance(steps, list):
        raise ValueError(f"'steps' must be a list, got {type(steps).__name__}")
    key = str(name).removesuffix(f"#{telling}"), str(telling), turn
    user = record.get("user")
    if user is not None and not isinstance(user, str):
        raise ValueError(f"'user' must be a text, got {user!r:.60}")
    return key, Recorded(str(response), tuple(Step.from_json(step) for step in steps), user)
