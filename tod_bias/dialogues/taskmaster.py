"""Taskmaster (Byrne et al. 2019): the first from ``DATAPATH/taskmaster-1/``, written by one person or spoken by two;
the second from ``taskmaster-2/``, a JSON file a domain; the third from ``taskmaster-3/``, tickets for films with API
calls.

Turns, API calls and splits are those of ParlAI's ``taskmaster:SystemTeacher``, ``taskmaster2`` and ``taskmaster3`` with
their default options, as their texts say them. Utterances in a row by one speaker are joined by a line feed. Splits are
80, 10 and 10 % of a shuffle (:func:`~tod_bias.dialogues.sampling.tenths`).

In the first two the annotated segments of the user are the slots of the call, those of the assistant its result; what
stands before the first point of a segment's name is the API (a name without one loses its last letter there, as in
ParlAI). The first has a call wherever the user's words have segments. In the second a call gathers the slots of one API
since the dialogue last changed API, and stands only where the assistant's turn has segments.

The third has calls and results of its own. ParlAI's rounds hold one call each: where a turn has several, what the user
says stands with the first and the answer with the last, and between them all are silent (``__SILENCE__``). Dialogues of
the first and third that the assistant opens begin with the user's silence. Fractions that are no texts are read as they
are written; ParlAI's reader (pandas) shows 0.7 as ``0.7000000000000001``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.distribution import Distribution, checked_as, field, field_or, parlai_value
from tod_bias.dialogues.sampling import tenths
from tod_bias.dialogues.text import SILENCE
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import CorpusError

_SOURCE = "google-research-datasets/Taskmaster on GitHub"
FIRST = Distribution("taskmaster", "Taskmaster-1", "taskmaster-1", f"{_SOURCE} (TM-1-2019)", "taskmaster:SystemTeacher")
SECOND = Distribution("taskmaster2", "Taskmaster-2", "taskmaster-2", f"{_SOURCE} (TM-2-2020)", "taskmaster2")
THIRD = Distribution("taskmaster3", "Taskmaster-3", "taskmaster-3", f"{_SOURCE} (TM-3-2020)", "taskmaster3")

FILES = ("self-dialogs", "woz-dialogs")
"""Files of Taskmaster-1, in ParlAI's order, on which its splits depend."""
DOMAINS = ("flights", "food-ordering", "hotels", "movies", "restaurant-search", "sports", "music")
"""Domains of Taskmaster-2, in ParlAI's order."""
SECTIONS = tuple(f"data_{number:02d}" for number in range(20))
"""Sections of Taskmaster-3, in ParlAI's order."""

Turns = Callable[[list[Any]], Iterator[Turn]]


def read_taskmaster(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """The dialogues of one of ParlAI's splits of Taskmaster-1; ``domain`` is the instruction without its number.

    As in ParlAI, dialogues with a speaker who is neither user nor assistant are left out.

    Raises:
        CorpusError: a file is not there, or not in Taskmaster-1's format; names the file and the dialogue.
    """
    return _read(FIRST, FILES, datapath, split, _instruction, _turns_of_segments)


def read_taskmaster2(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """The dialogues of one of ParlAI's splits of Taskmaster-2.

    Raises:
        CorpusError: a domain's file is not there, or not in Taskmaster-2's format; names the file and the dialogue.
    """
    return _read(SECOND, DOMAINS, datapath, split, lambda _, domain: domain, _turns_that_gather)


def read_taskmaster3(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """The dialogues of one of ParlAI's splits of Taskmaster-3; ``domain`` is the ``vertical``.

    Raises:
        CorpusError: a file is not there, or not in Taskmaster-3's format; names the file and the dialogue.
    """
    return _read(THIRD, SECTIONS, datapath, split, lambda record, _: field_or(record, "vertical", ""), _turns_of_calls)


class _OthersSpeakError(Exception):
    """Somebody speaks who is neither user nor assistant."""


def _read(
    corpus: Distribution,
    names: Sequence[str],
    datapath: Path | None,
    split: str,
    domain_of: Callable[[Any, str], str],
    turns_of: Turns,
) -> Iterator[Dialogue]:
    folder = corpus.lies_in(datapath)
    files = [folder / f"{name}.json" for name in names]
    records = [
        (file, number, record) for file in files for number, record in enumerate(corpus.records(file, list), start=1)
    ]
    if not records:
        raise CorpusError(f"{folder}: {', '.join(file.name for file in files)} hold no dialogue; {corpus.advice}")
    for place in tenths(len(records), split):
        file, number, record = records[place]
        try:
            name = field(record, "conversation_id", str)
            turns = tuple(turns_of(field(record, "utterances", list)))
            yield Dialogue(name, domain_of(record, file.stem), turns)
        except _OthersSpeakError:
            continue
        except ValueError as error:
            known = record.get("conversation_id") if isinstance(record, dict) else None
            where = f"dialogue {known!r}" if isinstance(known, str) else f"dialogue {number}"
            raise corpus.damaged(file, where, error) from error


def _instruction(record: Any, _: str) -> str:
    """``restaurant-table-2`` without its number."""
    whole = field(record, "instruction_id", str)
    name, _, number = whole.rpartition("-")
    return name if number.isdigit() and name else whole


def _turns_of_segments(utterances: list[Any]) -> Iterator[Turn]:
    """Taskmaster-1."""
    for number, utterance in enumerate(utterances, start=1):
        if checked_as(utterance, dict, f"utterance {number}").get("speaker") not in ("USER", "ASSISTANT"):
            raise _OthersSpeakError
    response, _, position = _spoken("ASSISTANT", utterances, 0)
    if position:
        yield Turn(SILENCE, response=response)
    while position < len(utterances):
        user, call, position = _spoken("USER", utterances, position)
        response, result, position = _spoken("ASSISTANT", utterances, position)
        yield Turn.with_call(user, call, result, response)


def _turns_that_gather(utterances: list[Any]) -> Iterator[Turn]:
    """Taskmaster-2."""
    gathered: dict[str, str] = {}
    position = 0
    while position < len(utterances):
        start = position
        user, slots, position = _spoken("USER", utterances, position)
        opens = position == 0
        if slots and gathered.get(API_NAME) != slots[API_NAME]:
            gathered = {}
        gathered = {**gathered, **slots}
        response, result, position = _spoken("ASSISTANT", utterances, position)
        if position == start:
            raise _unknown(utterances, position)
        yield Turn.with_call(user, dict(gathered) if result and not opens else {}, result, response)


def _spoken(speaker: str, utterances: list[Any], position: int) -> tuple[str, dict[str, str], int]:
    """Return the utterances of one speaker from ``position`` on, their slots, and the position of the other speaker."""
    texts, slots = [], dict[str, str]()
    for where, utterance in _in_a_row(speaker, utterances, position):
        texts.append(field(utterance, "text", str, where))
        for number, segment in enumerate(field_or(utterance, "segments", [], where), start=1):
            slots |= _slot(segment, f"{where}, segment {number}")
    return "\n".join(texts), slots, position + len(texts)


def _slot(segment: Any, where: str) -> dict[str, str]:
    annotations = field(segment, "annotations", list, where)
    if not annotations:
        raise ValueError(f"{where}: has no annotation")
    name = field(annotations[0], "name", str, where)
    point = name.find(".")  # -1 where there is none
    return {name[point + 1 :]: field(segment, "text", str, where), API_NAME: name[:point]}


def _turns_of_calls(utterances: list[Any]) -> Iterator[Turn]:
    """Taskmaster-3."""
    position = 0
    while position < len(utterances):
        start = position
        user, calls, position = _said_with_calls("user", utterances, position)
        opens = position == 0
        response, more, position = _said_with_calls("assistant", utterances, position)
        if position == start:
            raise _unknown(utterances, position)
        calls = calls + more or [({}, {})]
        users = [SILENCE if opens else user, *[SILENCE] * (len(calls) - 1)]
        responses = [*[SILENCE] * (len(calls) - 1), response]
        for said, (call, result), answer in zip(users, calls, responses, strict=True):
            yield Turn.with_call(said, call, result, answer)


Exchange = tuple[dict[str, str], dict[str, str]]
"""A call and its result."""


def _said_with_calls(speaker: str, utterances: list[Any], position: int) -> tuple[str, list[Exchange], int]:
    """Return the utterances of one speaker from ``position`` on, their calls, and the position of the other speaker."""
    texts, calls = [], list[Exchange]()
    for where, utterance in _in_a_row(speaker, utterances, position):
        texts.append(field(utterance, "text", str, where))
        for number, api in enumerate(field_or(utterance, "apis", [], where), start=1):
            calls.append(_exchange(api, f"{where}, API call {number}"))
    return "\n".join(texts), calls, position + len(texts)


def _in_a_row(speaker: str, utterances: list[Any], position: int) -> Iterator[tuple[str, Any]]:
    """Yield utterances from ``position`` until another speaker begins, each with its place."""
    for number, utterance in enumerate(utterances[position:], start=position + 1):
        where = f"utterance {number}"
        if field(utterance, "speaker", str, where) != speaker:
            return
        yield where, utterance


def _exchange(api: Any, where: str) -> Exchange:
    name = field(api, "name", str, where)
    call, result = (
        {
            slot: parlai_value(value, f"{where}, {part} {slot!r}")
            for slot, value in field(api, part, dict, where).items()
        }
        | {API_NAME: name}
        for part in ("args", "response")
    )
    return call, result


def _unknown(utterances: list[Any], position: int) -> ValueError:
    return ValueError(f"utterance {position + 1}: unknown speaker {utterances[position]['speaker']!r}")
