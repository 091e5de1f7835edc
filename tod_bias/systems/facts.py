"""Facts of a turn: everything that a person could observe in what the components put out, with the rewrite undone.

The table of turns keeps them as JSON, so that events can be measured after a run and without its references. A text or
value that T rewrote is recorded as T⁻¹ of it, so a rewritten word is no difference between two variants. A text that
the system also put out for the original is recorded as it is: a constant text may hold a word of some group.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from tod_bias.dialogues.calls import MALFORMED, calls_of
from tod_bias.dialogues.chat import CONTENT
from tod_bias.dialogues.string_map import TextMap
from tod_bias.dialogues.text import is_prose, well_formed
from tod_bias.dialogues.values import API_NAME, strings
from tod_bias.systems.outputs import ERROR, Lookup, Outcome, as_text, rows_of
from tod_bias.systems.raised import Raised
from tod_bias.systems.stage import FlowReply, StageCall
from tod_bias.systems.structured import Call, is_reply, named_calls, said_in, structured, without_models
from tod_bias.systems.turns import API_CALL, tool_calls
from tod_bias.systems.twin import Rewrite

UNNAMED = "api_call"
"""The tool of a call without a name."""
_LONGEST_REASON = 200
"""Characters of a reason that are kept."""
_LONGEST_TEXT = 20_000
"""Characters of a text that are kept: a bound on what a component can write into the table."""
_MOST_ITEMS = 100
"""Items of a list that are kept."""
_DEEPEST = 8
"""Levels of a value that are kept; what lies deeper is one text."""
_SHORTEST_NAME = 3
"""Characters of a value by which a response may name a result."""
_SENTENCE = re.compile(r"(?<=[.?!])\s+")


class _Made(NamedTuple):
    """One call of a tool, and the stages that made it and carried it out."""

    tool: str
    by: str
    at: str
    arguments: Mapping[str, Any]
    result: Any
    place: float
    """Place among the steps of a turn; a result comes half a step later."""
    has_result: bool = True


class Restorer:
    """Undoes the rewrite of one variant in what the system put out.

    Args:
        rewrite: T; None for an original, which is recorded as it is.
        originals: the steps of the original's turn.
    """

    def __init__(self, rewrite: Rewrite | None, originals: Iterable[StageCall] = ()) -> None:
        self._rewrite = rewrite
        self._known: set[str] = set()
        self._sentences: set[str] = set()
        self._memo: dict[str, str] = {}
        if rewrite is not None:
            note = TextMap(self._note)
            for step in originals:
                note(without_models(step.argument))
                note(without_models(step.output))

    def __call__(self, value: Any) -> Any:
        """Return a value with T⁻¹ of its strings."""
        value = without_models(value)
        return value if self._rewrite is None else TextMap(self._text)(value)

    def _note(self, text: str) -> str:
        self._known.add(str(text))
        self._sentences.update(_SENTENCE.split(str(text)))
        return text

    def _text(self, text: str) -> str:
        made = self._memo.get(text)
        if made is None:
            made = self._memo[text] = self._restored(text)
        return made

    def _restored(self, text: str) -> str:
        assert self._rewrite is not None
        back = str(self._rewrite.inverse(text))
        if back == text or back in self._known:
            return back
        if text in self._known:
            return str(text)
        parts = _SENTENCE.split(text)
        if self._sentences.isdisjoint(parts):
            return back
        return " ".join(part if part in self._sentences else str(self._rewrite.inverse(part)) for part in parts)


def facts_text(steps: Sequence[StageCall], failure: str, restore: Callable[[Any], Any]) -> str:
    """Return the facts of a turn as JSON, as :class:`tod_bias.metrics.events.facts.Facts` reads them.

    ``calls`` holds tool, the stages that made the call and carried it out, arguments, the reason of a failure, the
    number of results and of those that the response names, and the place of the call among the steps. ``out`` holds
    name, stage, value and place of structured outputs, ``said`` name, stage, text and place of the others, ``response``
    the stage and text that the user reads. The place of a structure that holds this text is null.

    Args:
        steps: all calls of stages, in order.
        failure: reason for which the turn failed; empty if it came to its end.
        restore: undoes the rewrite of the variant in a value.
    """
    steps = [step._replace(argument=restore(step.argument), output=restore(step.output)) for step in steps]
    response = well_formed(as_text(steps[-1].output))[:_LONGEST_TEXT] if steps else ""
    record: dict[str, Any] = {"calls": [], "out": [], "said": []}
    covered: set[int] = set()
    for made in islice(_calls(steps, covered), _MOST_ITEMS):
        _add_call(record, made, response)
    last = len(steps) - 1
    for number, step in enumerate(steps):
        if number not in covered and not _is_end_of_loop(steps, number):
            place = None if number == last else float(number)
            _add_output(record, (step.name, step.name, place), step.output)
    said = response if last in covered or not steps else _read_by_user(steps[-1].output)
    record["response"] = [_speaker(steps, response), well_formed(said)[:_LONGEST_TEXT]]
    if failure:
        record["failure"] = well_formed(failure)[:_LONGEST_REASON]
    return json.dumps(record, ensure_ascii=False)


def _is_end_of_loop(steps: Sequence[StageCall], number: int) -> bool:
    """Return whether a model ends its loop of calls with an empty text: it has put out its calls before."""
    return steps[number].output == "" and any(before.name == steps[number].name for before in steps[:number])


def _calls(steps: Sequence[StageCall], covered: set[int]) -> Iterator[_Made]:
    """Yield the calls of a turn, and note the steps whose outputs are calls or results of calls.

    The calls are the arguments that stages were called with. In a straight pipeline they are in the output of a stage,
    and the next stage's output, unless it is a text, is the result of the last one.
    """
    is_any = bool(tool_calls(steps))
    for number, step in enumerate(steps):
        if number < len(steps) - 1 and isinstance(step.argument, Mapping) and step.argument:
            covered.add(number)
            by = _caller(steps, number)
            calls = calls_of(step.argument)
            if calls is None:
                yield _Made(UNNAMED, by, step.name, {MALFORMED: as_text(step.argument)}, step.output, number - 0.5)
            elif len(calls) == 1:
                arguments = {name: value for name, value in calls[0].items() if name != API_NAME}
                tool = str(calls[0].get(API_NAME) or step.name)  # a stage that is called is its own tool
                yield _Made(tool, by, step.name, arguments, step.output, number - 0.5)
        elif in_output := _calls_in(step):
            covered.add(number)
            if not is_any:
                yield from _straight(steps, number, in_output, covered)


def _caller(steps: Sequence[StageCall], number: int) -> str:
    """Return the stage that makes a call.

    The caller is the last step before that decides: one that is no call itself, or whose output holds calls. If all
    steps are calls, as those of an agent's functions are, the caller is the step with a value of the call's arguments
    in its output that it was not given; or else the agent's own code, so that the call belongs to the tool.
    """
    before = steps[:number][::-1]
    for step in before:
        if not isinstance(step.argument, Mapping) or named_calls(step.output):
            return step.name
    wanted = _leaves(steps[number].argument)
    makers = (step.name for step in before if wanted & (_leaves(step.output) - _leaves(step.argument)))
    return next(makers, steps[number].name)


def _leaves(value: Any) -> frozenset[str]:
    """Return the texts and numbers in a value, as texts."""
    value = structured(value)
    if isinstance(value, Mapping):
        return frozenset().union(*map(_leaves, value.values()))
    if isinstance(value, list):
        return frozenset().union(*map(_leaves, value))
    return frozenset() if value is None or isinstance(value, bool) else frozenset([str(value)])


def _calls_in(step: StageCall) -> list[Call]:
    """Return the calls in the output of a stage."""
    if step.name != API_CALL:
        return named_calls(step.output)
    calls = calls_of(step.output)
    if calls is None:
        return [(UNNAMED, {MALFORMED: as_text(step.output)})]
    return [
        (str(call.get(API_NAME) or UNNAMED), {name: value for name, value in call.items() if name != API_NAME})
        for call in calls
    ]


def _straight(steps: Sequence[StageCall], number: int, calls: Sequence[Call], covered: set[int]) -> Iterator[_Made]:
    step, following = steps[number], steps[number + 1] if number + 2 < len(steps) else None
    has_result = following is not None and not isinstance(following.output, str)
    for tool, arguments in calls[:-1]:
        yield _Made(tool, step.name, step.name, arguments, None, float(number), has_result=False)
    tool, arguments = calls[-1]
    if following is None or not has_result:
        yield _Made(tool, step.name, step.name, arguments, None, float(number), has_result=False)
        return
    covered.add(number + 1)
    yield _Made(tool, step.name, following.name, arguments, following.output, float(number))


def _add_call(record: dict[str, Any], made: _Made, response: str) -> None:
    """Record a call and its result.

    Args:
        record: of the turn.
        made: the call.
        response: of the turn, which may name results.
    """
    rows = rows_of(made.result)
    reason = _failure_of(made.result, rows) if made.has_result else ""
    results = 0 if reason else sum(map(_size, rows))
    named = 0 if reason else sum(_is_named(row, response.lower()) for row in rows)
    tool = well_formed(made.tool)
    record["calls"].append([tool, made.by, made.at, _plain(made.arguments), reason, results, named, made.place])
    if made.has_result and not reason:
        root = tool if tool == made.at else f"{tool}/result"
        _add_output(record, (root, made.at, made.place + 0.5), made.result)


def _add_output(record: dict[str, Any], where: tuple[str, str, float | None], output: Any) -> None:
    """Record an output as a structure or a text.

    Args:
        record: of the turn.
        where: name of the output, stage, and place among the steps; None if the user reads the output, whose text is
            recorded elsewhere.
        output: as the stage put it out.
    """
    root, stage, place = where
    value = structured(output)
    if is_reply(value):
        value = _text_of_reply(value)
    if isinstance(value, str):
        if place is not None:
            record["said"].append([root, stage, well_formed(value)[:_LONGEST_TEXT], place])
    elif value is not None:
        record["out"].append([root, stage, _plain(value), place])


def _text_of_reply(value: Any) -> str:
    """Return the texts in a model's reply, without its calls."""
    return " ".join(str(content) for name, content in said_in(value) if not name)


def _read_by_user(output: Any) -> str:
    """Return what a user reads of an output: of a structure its prose, or else all texts in it."""
    value = structured(output)
    if isinstance(value, str):
        return value
    if is_reply(value):
        return _text_of_reply(value) or as_text(output)
    texts = [text for _, text in strings({"": _plain(value)})]
    return "\n".join([text for text in texts if is_prose(text)] or texts) or as_text(output)


def _speaker(steps: Sequence[StageCall], response: str) -> str:
    """Return the stage that put out what the user reads; empty if none did."""
    named = [step for step in steps if not isinstance(step, FlowReply)]
    if len(named) == len(steps) or not response:
        return named[-1].name if named else ""
    return next((step.name for step in reversed(named) if response in as_text(step.output)), "")


def _plain(value: Any, depth: int = _DEEPEST) -> Any:
    """Return a value as bounded JSON."""
    value = structured(value) if not isinstance(value, str) else value
    if isinstance(value, bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, str):
        return well_formed(value)[:_LONGEST_TEXT]
    if depth and isinstance(value, Mapping):
        return {well_formed(str(key)): _plain(item, depth - 1) for key, item in list(value.items())[:_MOST_ITEMS]}
    if depth and isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value[:_MOST_ITEMS]]
    return well_formed(as_text(value))[:_LONGEST_TEXT]


def _size(row: Mapping[str, Any]) -> int:
    """Return 1 for a row, and the number of values for a list of plain ones."""
    return len(row[CONTENT]) if row.keys() == {CONTENT} and isinstance(row[CONTENT], list | tuple) else 1


def _failure_of(output: Any, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return why a call failed: it raised something, its output is an error, or its look-up has no such row."""
    if isinstance(output, Raised):
        said = " ".join(map(str, output.said)) or output.kind.rpartition(".")[2]
        return well_formed(said)[:_LONGEST_REASON]
    if isinstance(output, Lookup):
        return output.problem if output.outcome in (Outcome.NO_ROW, Outcome.MALFORMED) else ""
    if len(rows) == 1 and rows[0].get(ERROR):
        return well_formed(str(rows[0][ERROR]))[:_LONGEST_REASON]
    return ""


def _is_named(row: Mapping[str, Any], text: str) -> bool:
    """Return whether a response names a result: the first text of the row that is long enough."""
    names = (value for _, value in strings(row) if len(value) >= _SHORTEST_NAME)
    first = next(names, "")
    return bool(first) and first.lower() in text
