"""Acts of a system in a turn: the calls of its tools with their arguments and outcomes.

The table of turns keeps them as JSON, so that what a system does can be measured after a run without its references.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tod_bias.dialogues.calls import MALFORMED, calls_of
from tod_bias.dialogues.chat import CONTENT
from tod_bias.dialogues.text import well_formed
from tod_bias.dialogues.values import API_NAME, strings
from tod_bias.systems.outputs import ERROR, Lookup, Outcome, rows_of
from tod_bias.systems.stage import StageCall
from tod_bias.systems.turns import API_CALL, DB, tool_calls

UNNAMED = "api_call"
"""The tool of a call without a name."""
_LONGEST = 200
"""Characters of a reason that are kept."""
_SHORTEST_NAME = 3
"""Characters of a value by which a response may name a result."""


@dataclass(frozen=True)
class Act:
    """One call of a tool."""

    tool: str
    arguments: Mapping[str, Any]
    """Argument to its value; values that are neither numbers, truth values nor texts are JSON texts."""
    failure: str = ""
    """Reason of a failure; empty for a call that was carried out."""
    results: int = 0
    """Number of results."""
    named: int = 0
    """Number of results that the response names."""


def acts_of(steps: Sequence[StageCall], response: str) -> list[Act]:
    """Return the calls of a turn.

    The calls are the arguments that stages were called with; in a straight pipeline they are the output of
    ``api_call``, with the output of ``db`` as the result of the last one.

    Args:
        steps: all calls of stages, in order.
        response: what the user reads.
    """
    pairs: list[tuple[Mapping[str, Any] | None, Any]] = tool_calls(steps)
    outputs = {step.name: step.output for step in steps}
    if not pairs and API_CALL in outputs:
        calls = calls_of(outputs[API_CALL])
        known = [None] if calls is None else list(calls)
        results = [None] * (len(known) - 1) + [outputs.get(DB)]
        pairs = [*zip(known, results, strict=True)] if known else []
    text = response.lower()
    return [_act(call, output, text) for call, output in pairs]


def _act(call: Mapping[str, Any] | None, output: Any, text: str) -> Act:
    call = {API_NAME: MALFORMED} if call is None else call
    rows = rows_of(output)
    arguments = {name: _plain(value) for name, value in call.items() if name != API_NAME}
    failure = _failure_of(output, rows)
    return Act(
        tool=well_formed(str(call.get(API_NAME) or UNNAMED)),
        arguments=arguments,
        failure=failure,
        results=0 if failure else sum(map(_size, rows)),
        named=0 if failure else sum(_is_named(row, text) for row in rows),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    return well_formed(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _size(row: Mapping[str, Any]) -> int:
    """Return 1 for a row, and the number of values for a list of plain ones."""
    return len(row[CONTENT]) if row.keys() == {CONTENT} and isinstance(row[CONTENT], list | tuple) else 1


def _failure_of(output: Any, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return why a call failed: its output is an error, or its look-up has no such row."""
    if isinstance(output, Lookup):
        return output.problem if output.outcome in (Outcome.NO_ROW, Outcome.MALFORMED) else ""
    if len(rows) == 1 and rows[0].get(ERROR):
        return well_formed(str(rows[0][ERROR]))[:_LONGEST]
    return ""


def _is_named(row: Mapping[str, Any], text: str) -> bool:
    """Return whether a response names a result: the first text of the row that is long enough."""
    names = (value for _, value in strings(row) if len(value) >= _SHORTEST_NAME)
    first = next(names, "")
    return bool(first) and first.lower() in text


def acts_text(acts: Iterable[Act]) -> str:
    """Return acts as JSON: ``[[tool, arguments, failure, found, named], …]``."""
    record = [[act.tool, dict(act.arguments), act.failure, act.results, act.named] for act in acts]
    return json.dumps(record, ensure_ascii=False)


@lru_cache(maxsize=1 << 14)
def read_acts(text: str) -> tuple[Act, ...]:
    """Return the acts of :func:`acts_text`; the rows of a run repeat texts.

    Raises:
        ValueError: the text is none that a run writes.
    """
    acts = []
    for entry in json.loads(text) if text else ():
        if not (isinstance(entry, list) and len(entry) == 5 and isinstance(entry[1], dict)):
            raise ValueError(f"{entry!r:.60} is no act")
        tool, arguments, failure, results, named = entry
        acts.append(Act(str(tool), arguments, str(failure), int(results), int(named)))
    return tuple(acts)
