"""Taskmaster-2 (Byrne et al. 2019) from ``DATAPATH/taskmaster-2/``: a JSON file a domain.

Turns, API calls and splits are those of ParlAI's ``taskmaster2`` with its default options, as its texts say them. The
annotated segments of the user are the slots of the call, those of the assistant its result; a call gathers the slots of
one API since the dialogue last changed API, and stands only where the assistant's turn has segments. Utterances in a
row by one speaker are joined by a line feed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tod_bias.dialogues.datapath import corpus_folder, read_json
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import CorpusError

FOLDER = "taskmaster-2"
DOMAINS = ("flights", "food-ordering", "hotels", "movies", "restaurant-search", "sports", "music")
"""In ParlAI's order, on which its splits depend."""
_SPLIT_SEED = 42


def read_taskmaster2(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """The dialogues of one of ParlAI's splits: 80, 10 and 10 % of a shuffle with its seed 42.

    Raises:
        CorpusError: a domain's file is not there, or not in Taskmaster-2's format; names the file and the dialogue.
    """
    import numpy as np  # after the command line is read: it makes --help slow

    folder = corpus_folder(datapath, "taskmaster2", FOLDER)
    found = [(domain, record) for domain in DOMAINS for record in read_json(folder / f"{domain}.json", list)]
    order = np.random.RandomState(_SPLIT_SEED).permutation(len(found))
    tenth = len(found) // 10
    bounds = {"train": (0, 8 * tenth), "valid": (8 * tenth, 9 * tenth), "test": (9 * tenth, len(found))}
    for number in order[slice(*bounds[split])]:
        domain, record = found[number]
        try:
            yield Dialogue(record["conversation_id"], domain, tuple(_turns(record["utterances"])))
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            name = record.get("conversation_id") if isinstance(record, Mapping) else None
            raise CorpusError(
                f"{folder / domain}.json, dialogue {name!r}: not in Taskmaster-2's format ({error!r})"
            ) from error


def _turns(utterances: Sequence[Mapping[str, Any]]) -> Iterator[Turn]:
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
            raise TypeError(f"unknown speaker {utterances[position]['speaker']!r}")
        yield Turn(user, dict(gathered) if result and not opens else {}, result, response)


def _spoken(speaker: str, utterances: Sequence[Mapping[str, Any]], position: int) -> tuple[str, dict[str, str], int]:
    """What one speaker says in a row from ``position``, its slots, and where the other one begins."""
    texts: list[str] = []
    slots: dict[str, str] = {}
    while position < len(utterances) and utterances[position]["speaker"] == speaker:
        texts.append(utterances[position]["text"])
        for segment in utterances[position].get("segments", ()):
            api, _, slot = segment["annotations"][0]["name"].partition(".")
            slots |= {slot or api: segment["text"], API_NAME: api}
        position += 1
    return "\n".join(texts), slots, position
