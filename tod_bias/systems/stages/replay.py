"""Recorded outputs as a stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import StageError
from tod_bias.systems.outputs import Lookup, Outcome
from tod_bias.systems.stage import Stage, StageInput


class Replay(Stage):
    """Puts out what was recorded for the same context; for tests, and for a system that cannot be run again.

    Args:
        outputs: context text (:attr:`StageInput.context`) to output.
        missing: output for a context without a record; without it such a context is an error.
    """

    def __init__(self, outputs: Mapping[str, Any], *, missing: Any = ...) -> None:
        self._outputs = dict(outputs)
        self._missing = missing

    @classmethod
    def gold(
        cls, dialogues: Iterable[Dialogue], part: Literal["api_call", "api_result", "response"], *, missing: Any = ...
    ) -> Replay:
        """A stage that puts out the gold call, result or response of every turn of a corpus.

        On rewritten dialogues it knows nothing; ``Twin(Replay.gold(…))`` is the perfectly fair and correct stage.
        """
        return cls(
            {
                StageInput(dialogue.turns[:number], turn.user).context: _gold(turn, part)
                for dialogue in dialogues
                for number, turn in enumerate(dialogue.turns)
            },
            missing=missing,
        )

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """One recorded output an input.

        Raises:
            StageError: nothing was recorded for a context.
        """
        outputs = [self._outputs.get(item.context, self._missing) for item in inputs]
        for item, output in zip(inputs, outputs, strict=True):
            if output is ...:
                raise StageError(f"Replay: nothing was recorded for the context that ends in {item.user!r}")
        return outputs


def _gold(turn: Turn, part: str) -> Any:
    if part == "api_result":
        if turn.api_results:  # Taskmaster-1 has turns with results and no call
            return Lookup(Outcome.ROWS, turn.api_results)
        return Lookup(Outcome.EMPTY if turn.api_call else Outcome.NO_CALL)
    return getattr(turn, part)
