"""MultiDoGO (Peskov et al. 2019) from ``DATAPATH/multidogo/``: customers and agents in six domains.

Turns, API calls and splits are those of ParlAI's ``multidogo`` with its default options, as its texts say them. What is
read is ``processed/DOMAIN/turn/SPLIT/*.json``, which ParlAI's builder makes; where a domain has none, the same is made
of the corpus as it is handed out: ``paper_splits/splits_annotated_at_turn_level/DOMAIN/SPLIT.tsv`` holds the customers'
slots, ``unannotated/DOMAIN.tsv`` what is said. Dialogues of which only one of both is there are left out.

The slots of what the customer says are those of the call, beside the domain as its API; the call is there in every
turn. Those of the first utterance are left out, as are further values of a slot in one utterance. Utterances in a row
by one speaker are joined by a line feed, in the last turn by nothing; dialogues that the agent opens begin with the
customer's silence (``__SILENCE__``). All this is ParlAI's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.distribution import Distribution, checked_as, field, field_or, parlai_value, unlike
from tod_bias.dialogues.text import SILENCE
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import CorpusError

MULTIDOGO = Distribution(
    "multidogo",
    "MultiDoGO",
    "multidogo",
    "awslabs/multi-domain-goal-oriented-dialogues-dataset on GitHub",
    "multidogo",
)
DOMAINS = ("airline", "fastfood", "finance", "insurance", "media", "software")
"""In ParlAI's order."""
_RAW = Path("multi-domain-goal-oriented-dialogues-dataset-master", "data")
_SPOKEN, _LABELLED = Path("unannotated"), Path("paper_splits", "splits_annotated_at_turn_level")
_FILES = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}

Conversation = Mapping[str, Any]
"""``"0"``, ``"1"`` … to utterances: ``text``, ``role`` and, where they are annotated, ``slots``."""


def read_multidogo(datapath: Path | None, split: str, domains: Sequence[str] = DOMAINS) -> Iterator[Dialogue]:
    """The dialogues of a split, domain by domain.

    Args:
        datapath: that holds ``multidogo/``.
        split: ``train``, ``valid`` or ``test``.
        domains: which, and in which order.

    Raises:
        CorpusError: a domain's files are not there, or not in MultiDoGO's format; names the file and the dialogue.
    """
    seen: dict[str, int] = {}
    for path, name, domain, conversation in conversations(MULTIDOGO.lies_in(datapath), split, domains):
        with MULTIDOGO.reading(path, f"dialogue {name!r}"):
            dialogue = Dialogue(unlike(name, seen), domain, tuple(_turns(_in_order(conversation), domain)))
        yield dialogue


def conversations(
    folder: Path, split: str, domains: Sequence[str] = DOMAINS
) -> Iterator[tuple[Path, str, str, Conversation]]:
    """The conversations in which all utterances are there: file, id, domain, utterances.

    Args:
        folder: ``multidogo/``.
        split: ``train``, ``valid`` or ``test``.
        domains: which, and in which order.

    Raises:
        CorpusError: as :func:`read_multidogo`.
    """
    for domain in domains:
        for path, name, conversation in _of_domain(folder, domain, split):
            with MULTIDOGO.reading(path, f"dialogue {name!r}"):
                utterances = checked_as(conversation, dict, "its utterances").items()
                roles = ["role" in checked_as(spoken, dict, f"utterance {number!r}") for number, spoken in utterances]
            if roles and all(roles):
                yield path, name, domain, conversation


def _of_domain(folder: Path, domain: str, split: str) -> Iterator[tuple[Path, str, Any]]:
    processed = folder / "processed" / domain / "turn" / split
    files = sorted(processed.glob("*.json"), key=lambda path: (len(path.name), path.name))
    for path in files:
        for name, conversation in MULTIDOGO.records(path, dict).items():
            yield path, name, conversation
    if files:
        return
    labelled = folder / _RAW / _LABELLED / domain / _FILES[split]
    if not labelled.is_file():
        raise CorpusError(f"{processed}: no .json file there, and no {labelled}; {MULTIDOGO.advice}")
    for name, conversation in _joined(labelled, folder / _RAW / _SPOKEN / f"{domain}.tsv").items():
        yield labelled, name, conversation


def _in_order(conversation: Conversation) -> list[tuple[str, str, dict[str, str]]]:
    """Who says what with which slots."""
    utterances = []
    for number in range(len(conversation)):
        spoken, where = field(conversation, str(number), dict), f"utterance {number}"
        slots = field_or(spoken, "slots", {}, where).items()
        values = {slot: parlai_value(value, f"{where}, slot {slot!r}") for slot, value in slots}
        utterances.append((field(spoken, "role", str, where), field(spoken, "text", str, where), values))
    return utterances


def _turns(spoken: Sequence[tuple[str, str, dict[str, str]]], domain: str) -> Iterator[Turn]:
    call: dict[str, str] = {API_NAME: domain}
    result: dict[str, str] = {}
    users: list[str] = []
    responses: list[str] = []
    before = ""
    for number, (role, text, slots) in enumerate(spoken):
        if before == "agent" and role != "agent":
            yield Turn.with_call("\n".join(users), call, result, "\n".join(responses))
            users, call, result, responses = [], {API_NAME: domain}, {}, []
        if role == "customer":
            users.append(text)
            call |= slots if number else {}
        else:
            if not number:
                users.append(SILENCE)
            responses.append(text)
            result |= slots
        before = role
    yield Turn.with_call("".join(users), call, result, "".join(responses))


# the corpus as it is handed out ---------------------------------------------------------------------------------------


def _joined(labelled: Path, spoken: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The conversations of both files, as ParlAI's builder writes them."""
    texts = _spoken(spoken)
    joined: dict[str, dict[str, dict[str, Any]]] = {}
    for line, row in MULTIDOGO.rows(labelled, "\t", 6):
        name = row[0]
        if name not in joined and name in texts:
            joined[name] = dict(texts[name])
        if name not in joined:
            continue
        with MULTIDOGO.reading(labelled, f"line {line}"):
            number = str(int(float(row[1])))
            joined[name][number] = {**joined[name].get(number, {}), "slots": _slots(row[3], row[4])}
    return joined


def _spoken(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Conversation to its utterances; where one is at several places of the file, those of the last."""
    by_dialogue: dict[str, dict[str, dict[str, Any]]] = {}
    last = None
    for line, row in MULTIDOGO.rows(path, ",", 5):
        name = row[0][4:-2]  # acs-…-1
        if name != last:
            by_dialogue[name], last = {}, name
        with MULTIDOGO.reading(path, f"line {line}"):
            by_dialogue[name][str(int(row[1]))] = {"text": row[3], "role": row[4]}
    return by_dialogue


_SIGNS = re.compile(r"[^\w\s]")


def _slots(text: str, labels: str) -> dict[str, str]:
    """A label for every word of the text, signs left out: the last word of each label but ``O``."""
    words, names = _SIGNS.sub("", text).split(" "), labels.split(" ")
    if len(names) < len(words):
        raise ValueError(f"{len(words)} words but {len(names)} labels")
    return {name: word for word, name in zip(words, names, strict=False) if name != "O"}
