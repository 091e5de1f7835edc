"""One dialogue as one copy of an agent sees it: from ParlAI's observations to stage inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tod_bias.agents.protocol import (
    DONE,
    GOAL,
    SCHEMAS,
    slots_from_parlai,
    slots_to_parlai,
    split_prefix,
    without_prefix,
)
from tod_bias.dialogues.dialogue import Turn
from tod_bias.dialogues.parlai_episodes import slot_texts
from tod_bias.dialogues.text import API_CALL, API_RESULT, SYSTEM, USER
from tod_bias.errors import StageError
from tod_bias.systems.execution import HistoryMode
from tod_bias.systems.stage import StageCall, StageInput
from tod_bias.systems.turns import system_turn


class RequestKind(Enum):
    """Kind of request in an observation."""

    CALL = "the API call of a turn, requested by USER:"
    RESPONSE = "the response of a turn, requested by APIRESP:"
    EXCHANGE = "the whole turn, requested by plain text"


@dataclass(frozen=True)
class Request:
    """Request of one observation to an agent: outputs of its pipeline, or a reply without a call."""

    kind: RequestKind | None
    """None if :attr:`reply` is the answer."""
    item: StageInput | None = None
    """Input of the stages."""
    conversation: Conversation | None = None
    """Records the outputs of the stages; None for a line without a dialogue."""
    reply: str = ""
    """The whole reply, where no stage is called."""


@dataclass
class _CurrentTurn:
    """The turn in progress: what the teacher has shown of it, and the outputs of the stages."""

    user: str
    shown_call: Mapping[str, str] | str | None = None
    shown_result: Mapping[str, str] | str | None = None
    shown_response: str | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    is_plain: bool = False


class Conversation:
    """Turns ParlAI's observations into stage inputs and keeps the dialogue's history.

    Args:
        agent: the agent's name, for errors.
        history: ``gold``: the turns before are the teacher's (its texts and labels, as ParlAI's own agents have them
            by default); ``system``: the users' and the teacher's lines with the agent's own outputs.
        from_teacher: stages (``api_call``, ``db``) whose output is the teacher's gold call or result.
        whole_turns: answer ``USER:`` with the whole turn, as plain text is (someone is typing).
    """

    def __init__(
        self,
        agent: str,
        history: HistoryMode = "gold",
        *,
        from_teacher: Iterable[str] = (),
        whole_turns: bool = False,
    ) -> None:
        self._agent = agent
        self._mode = history
        self._from_teacher = tuple(from_teacher)
        self._whole_turns = whole_turns
        self.restart()

    def restart(self) -> None:
        """Forget the dialogue: the next observation begins a new one."""
        self._turns: list[Turn] = []
        self._open: _CurrentTurn | None = None
        self._ended = False
        self._is_last = False

    def observe(self, message: Mapping[str, Any]) -> Request:
        """Return the request of a message.

        Raises:
            StageError: a line that no system answers, ``APIRESP:`` before any ``USER:``, or no gold although the
                history needs it.
        """
        text = message.get("text")
        prefix, content = split_prefix(text or "")
        if self._is_last or prefix == SCHEMAS:
            self.restart()
        self._is_last = bool(message.get("episode_done"))
        if text is None:
            return Request(None)
        if prefix == SCHEMAS and f"\n{USER} " in content:
            raise StageError(f"{self._agent} answers one line at a time; got several (--mutators flatten?): {text!r}")
        if prefix == SCHEMAS:
            return Request(None, reply=f"{SCHEMAS} ")
        if prefix == USER and content == DONE:
            self._ended = True
            return Request(None, reply=f"{API_CALL} ")
        if prefix in (USER, None):
            return self._user(message, content, is_plain=prefix is None or self._whole_turns)
        if prefix == API_RESULT:
            return self._result(message, content)
        what = "a user simulator's task" if prefix == GOAL else "no line for a system"
        raise StageError(
            f"{self._agent} answers {SCHEMAS}, {USER} and {API_RESULT} of a system teacher; got {what}: {text!r}"
        )

    def _user(self, message: Mapping[str, Any], content: str, *, is_plain: bool) -> Request:
        self._close()
        label = _label(message)
        call = None if label is None or is_plain else shown_slots(message, without_prefix(label, API_CALL))
        self._open = _CurrentTurn(content, shown_call=call, is_plain=is_plain)
        if not is_plain:
            return Request(RequestKind.CALL, self._input({}), self)
        return Request(RequestKind.EXCHANGE, self._input({name: {} for name in self._from_teacher}), self)

    def _result(self, message: Mapping[str, Any], content: str) -> Request:
        if self._ended:
            return Request(None, reply=f"{SYSTEM} ")
        turn = self._open
        if turn is None:
            raise StageError(f"{self._agent}: {API_RESULT} came before any {USER} line")
        label = _label(message)
        turn.shown_result = shown_slots(message, content)
        turn.shown_response = None if label is None else without_prefix(label, SYSTEM)
        turn.outputs = {**turn.outputs, **{name: self._shown_by_teacher(turn, name) for name in self._from_teacher}}
        return Request(RequestKind.RESPONSE, self._input(turn.outputs), self)

    def _shown_by_teacher(self, turn: _CurrentTurn, name: str) -> Mapping[str, str] | str:
        value = turn.shown_result if name == "db" else turn.shown_call
        if value is None:
            raise StageError(
                f"{self._agent} answers from the gold API call, which this teacher does not show (no labels); "
                "use PipelineAgent, which makes its own"
            )
        return value

    @property
    def gold_lookup(self) -> tuple[Mapping[str, str] | str | None, Mapping[str, str] | str | None]:
        """The gold call of the turn in progress and its gold result, each None until the teacher shows it."""
        return (self._open.shown_call, self._open.shown_result) if self._open else (None, None)

    def _input(self, outputs: Mapping[str, Any]) -> StageInput:
        user = self._open.user if self._open else ""
        return StageInput(tuple(self._turns), user, outputs)

    def record(self, outputs: Mapping[str, Any]) -> None:
        """Record the outputs of the stages for the turn in progress."""
        if self._open is not None:
            self._open.outputs = dict(outputs)

    def _close(self) -> None:
        """Add the turn in progress to the history."""
        turn, self._open = self._open, None
        if turn is None:
            return
        needs_gold = self._mode == "gold" and not turn.is_plain
        if needs_gold and (turn.shown_call is None or turn.shown_response is None):
            raise StageError(
                f"{self._agent}: --history gold needs the labels of the turns before, which this teacher or world "
                "does not show; use --history system"
            )
        shown = Turn.with_call(
            turn.user, _mapping(turn.shown_call), _mapping(turn.shown_result), turn.shown_response or ""
        )
        if needs_gold:
            self._turns.append(shown)
            return
        steps = [StageCall(name, None, output) for name, output in turn.outputs.items()]
        self._turns.append(system_turn(shown, steps, is_complete=not turn.outputs.keys() <= {"api_call", "db"}))


def shown_slots(message: Mapping[str, Any], text: str) -> Mapping[str, str] | str:
    """Return the call or result in a line of the teacher.

    ParlAI's text is not escaped, so a value that holds `` ; `` or `` = `` can be read back only from the message's
    ``slots``, which are used if they agree with the text.
    """
    slots = message.get("slots")
    if isinstance(slots, Mapping):
        texts = slot_texts(slots)
        if slots_to_parlai(texts) == text:
            return texts
    return slots_from_parlai(text)


def _label(message: Mapping[str, Any]) -> str | None:
    labels = message.get("labels") or message.get("eval_labels")
    return labels[0] if labels else None


def _mapping(slots: Mapping[str, str] | str | None) -> Mapping[str, str]:
    return slots if isinstance(slots, Mapping) else {}
