"""MSR-E2E (Li et al. 2018) from ``DATAPATH/msr_e2e/``: a table of tabs a domain, ``movie_all.tsv`` and so on.

A row is an utterance: the dialogue's number, the utterance's, the time, who speaks (``user``, ``agent``), the text, and
any number of dialogue acts (``inform(city=seattle;date=tonight)``). Turns, API calls and splits are those of ParlAI's
``msr_e2e`` with its default options, as its texts say them. What the user informs or requests are slots of the call,
what the agent informs or offers (``multiple_choice``) is its result; slots without a value and ``other`` are left out.
A call holds all the user's slots so far, and stands only where there is a result. Utterances in a row by one
speaker are joined by a line feed; dialogues that the agent opens begin with the user's silence (``__SILENCE__``).

Numbers count dialogues of a domain, so ids are ``movie-12``. Splits are 80, 10 and 10 % of every domain
(:func:`~tod_bias.dialogues.sampling.shares_of_subsets`); ParlAI counts an empty dialogue at the beginning of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.distribution import Distribution, unlike
from tod_bias.dialogues.sampling import shares_of_subsets
from tod_bias.dialogues.text import SILENCE
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import CorpusError

MSR_E2E = Distribution("msr_e2e", "MSR-E2E", "msr_e2e", "xiul-msr/e2e_dialog_challenge on GitHub (data)", "msr_e2e")
DOMAINS = ("movie", "restaurant", "taxi")
"""In ParlAI's order."""
_SPEAKERS = {"user": ("inform", "request"), "agent": ("inform", "multiple_choice")}
"""Who speaks, and how their acts that hold slots begin."""
_ACTS = ("inform(", "request(", "multiple_choice(")
_FIELDS = 5
"""Columns before the acts."""


@dataclass(frozen=True)
class _Utterance:
    speaker: str
    text: str
    acts: tuple[str, ...]


def read_msr_e2e(datapath: Path | None, split: str, domains: Sequence[str] = DOMAINS) -> Iterator[Dialogue]:
    """The dialogues of one of ParlAI's splits.

    Args:
        datapath: that holds ``msr_e2e/``.
        split: ``train``, ``valid`` or ``test``.
        domains: which, and in which order.

    Raises:
        CorpusError: a domain's file is not there, or not in MSR-E2E's format; names the file and the line.
    """
    folder = MSR_E2E.lies_in(datapath)
    read = [list(_dialogues(folder / f"{domain}_all.tsv", domain)) for domain in domains]
    for dialogue in shares_of_subsets([[None, *dialogues] for dialogues in read], split):
        if dialogue is not None:
            yield dialogue


def _dialogues(path: Path, domain: str) -> Iterator[Dialogue]:
    """The dialogues of a file in order: rows that follow each other and have one number."""
    seen: dict[str, int] = {}
    name: str | None = None
    spoken: list[_Utterance] = []
    for session, utterance in _utterances(path):
        if session != name:
            if name is not None:
                yield _dialogue(name, domain, spoken, seen)
            name, spoken = session, []
        spoken.append(utterance)
    if name is None:
        raise CorpusError(f"{path}: holds no utterance; {MSR_E2E.advice}")
    yield _dialogue(name, domain, spoken, seen)


def _utterances(path: Path) -> Iterator[tuple[str, _Utterance]]:
    """Every row with the number of its dialogue."""
    for number, row in MSR_E2E.rows(path, "\t", _FIELDS):
        with MSR_E2E.reading(path, f"line {number}"):
            if row[3] not in _SPEAKERS:
                raise ValueError(f"unknown speaker {row[3]!r}; expected user or agent")
            spoken = _Utterance(row[3], row[4], tuple(row[5:]))
        yield row[0], spoken


def _dialogue(name: str, domain: str, utterances: Sequence[_Utterance], seen: dict[str, int]) -> Dialogue:
    turns = []
    gathered: dict[str, str] = {}
    response, result, position = _spoken("agent", utterances, 0, domain)
    if position:
        turns.append(Turn.with_call(SILENCE, {}, result, response))
    while position < len(utterances):
        user, slots, position = _spoken("user", utterances, position, domain)
        gathered |= slots
        response, result, position = _spoken("agent", utterances, position, domain)
        turns.append(Turn.with_call(user, dict(gathered) if result else {}, result, response))
    return Dialogue(unlike(f"{domain}-{name}", seen), domain, tuple(turns))


def _spoken(
    speaker: str, utterances: Sequence[_Utterance], position: int, domain: str
) -> tuple[str, dict[str, str], int]:
    """What one speaker says in a row from ``position``, its slots, and where the other one begins."""
    texts: list[str] = []
    slots: dict[str, str] = {}
    while position < len(utterances) and utterances[position].speaker == speaker:
        texts.append(utterances[position].text)
        for act in utterances[position].acts:
            if act.startswith(_SPEAKERS[speaker]):
                slots |= _slots(act, domain)
        position += 1
    return "\n".join(texts), slots, position


def _slots(act: str, domain: str) -> dict[str, str]:
    """The slots of one act; acts inside of another are taken apart as ParlAI does."""
    for name in _ACTS:
        act = act.replace(name, "")
    pairs = (part.partition("=") for part in act[:-1].split(";"))
    slots = {slot: value for slot, equals, value in pairs if equals and slot != "other"}
    return {**slots, API_NAME: domain} if slots else {}
