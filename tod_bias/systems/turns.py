"""A turn as the system answered it: as history for the turns after it, and as metrics read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tod_bias.dialogues.calls import calls_of
from tod_bias.dialogues.chat import beside
from tod_bias.dialogues.dialogue import Step, Turn
from tod_bias.dialogues.task import Task
from tod_bias.errors import StageError
from tod_bias.metrics.metric import ScoredTurn
from tod_bias.systems.outputs import as_text, rows_of, tool_content
from tod_bias.systems.stage import FlowReply, StageCall

API_CALL, DB, TOOLS = "api_call", "db", "tools"
"""Names of stages that make a call, look it up, or carry out the one that they are called with."""


def scored_turn(
    gold: Turn,
    steps: Sequence[StageCall],
    response: str,
    names: Sequence[str],
    *,
    is_after_service: bool = False,
    failure: str = "",
    task: Task | None = None,
) -> ScoredTurn:
    """Return the turn as metrics read it.

    The calls are the output of ``api_call`` if the system has such a stage (none if it was not called), else the calls
    that stages received, in order. The results are those of these calls, or of ``db``. A call that cannot be read makes
    the turn's calls None. The system makes calls at all where it has ``api_call`` or ``tools``, or calls a stage with a
    call in this turn; for a flow with other names, :func:`with_calls` marks the turns without calls.

    Args:
        gold: the corpus's turn, rewritten where the dialogue is.
        steps: all calls of the turn.
        response: the system's response.
        names: the system's stages.
        is_after_service: whether the corpus makes a call in an earlier turn of the dialogue.
        failure: why the turn failed; empty for a turn that came to its end.
        task: task of a world, rewritten where the dialogue is.
    """
    with_results = tool_calls(steps)
    outputs = {step.name: step.output for step in steps}
    calls: list[Mapping[str, Any]] | None
    if API_CALL in names:
        calls = calls_of(outputs.get(API_CALL))
    else:
        calls = (
            None
            if any(call is None for call, _ in with_results)
            else [call for call, _ in with_results if call is not None]
        )
    results = [output for _, output in with_results] if with_results else [outputs.get(DB)]
    return ScoredTurn(
        user=str(gold.user),
        calls=None if calls is None else tuple(calls),
        results=tuple(row for output in results for row in rows_of(output)),
        response=str(response),
        gold=gold,
        has_calls=bool(with_results) or API_CALL in names or TOOLS in names,
        malformed=as_text(outputs.get(API_CALL)) if calls is None else "",
        steps=sum(not isinstance(step, FlowReply) for step in steps),
        is_after_service=is_after_service,
        failure=failure,
        task=task,
    )


def with_calls(turns: list[ScoredTurn], *, known: bool = False) -> list[ScoredTurn]:
    """A system that has made a call makes calls: its turns without one lack it, and count.

    Args:
        turns: as the system answered them.
        known: whether the system has made a call elsewhere.
    """
    if not known and not any(turn.has_calls for turn in turns):
        return turns
    return [turn if turn.has_calls else replace(turn, has_calls=True) for turn in turns]


def system_turn(gold: Turn, steps: Sequence[StageCall], *, is_complete: bool = True) -> Turn:
    """Return the turn as the system made it; parts without a stage are taken from the corpus.

    The calls are those that a stage received (the tools of a loop). In a straight pipeline it is the output of
    ``api_call``, with the output of ``db`` as its result. The response is the output of the last stage.

    Args:
        gold: the corpus's turn.
        steps: all calls of the turn.
        is_complete: whether the turn has ended; if not, the response is the corpus's.

    Raises:
        StageError: a call or a result is not JSON.
    """
    response = as_text(steps[-1].output) if is_complete and steps else gold.response
    try:
        return Turn(gold.user, steps=_system_steps(gold, steps), response=response)
    except ValueError as error:
        raise StageError(f"the system's turn cannot become history: {error}") from error


def _system_steps(gold: Turn, steps: Sequence[StageCall]) -> tuple[Step, ...]:
    made = [(call, output) for call, output in tool_calls(steps) if call]
    if made:
        return tuple(_step(call, output) for call, output in made)
    outputs = {step.name: step.output for step in steps}
    if API_CALL not in outputs and DB not in outputs:
        return gold.steps
    calls = list(calls_of(outputs[API_CALL]) or ()) if API_CALL in outputs else list(gold.calls)
    rows = rows_of(outputs[DB]) if DB in outputs else gold.api_results
    if not calls:
        return (Step({}, rows),)
    result = outputs.get(DB)
    last = Step(calls[-1], rows) if result is None else _step(calls[-1], result)  # a result belongs to the last call
    return (*(Step(call) for call in calls[:-1]), last)


def _step(call: Mapping[str, Any], output: Any) -> Step:
    """Return a call with its result: the rows, and the text that a model read."""
    rows = rows_of(output)
    return Step(call, rows, content=beside(rows, tool_content(output)))


def tool_calls(steps: Sequence[StageCall]) -> list[tuple[Mapping[str, Any] | None, Any]]:
    """Return the calls that stages before the last were called with, and their outputs; None for a malformed call.

    A call is a mapping that holds just one; other arguments are none.
    """
    pairs: list[tuple[Mapping[str, Any] | None, Any]] = []
    for step in steps[:-1]:
        if isinstance(step.argument, Mapping) and step.argument:
            calls = calls_of(step.argument)
            if calls is None:
                pairs.append((None, step.output))
            elif len(calls) == 1:
                pairs.append((calls[0], step.output))
    return pairs
