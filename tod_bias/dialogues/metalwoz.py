"""MetaLWOZ (Lee et al. 2019) from ``DATAPATH/metalwoz/{train,test}/``: ``tasks.txt`` and ``dialogues/DOMAIN.txt``, JSON
lines both.

Its people were told to play a bot and a user, and there are no API calls. The texts and splits are those of ParlAI's
``metalwoz``: ``train`` and ``valid`` are 80 and 10 % of every domain of the folder ``train``
(:func:`~tod_bias.dialogues.sampling.shares_of_subsets`; its last tenth is in no split), ``test`` is all of the folder
``test``, whose domains are others. Dialogues of a task that ``tasks.txt`` has not are left out.

What the bot was told (``bot_role``), with which ParlAI opens every episode in the user's place, is the dialogue's
``system``; the bot speaks first, so the user's first words are empty. The user's last words are left out where the bot
does not answer, as in ParlAI. ParlAI takes the domains in the order of the file system, here it is the order of their
names: the splits hold the same dialogues, in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.distribution import Distribution, checked_as, field, unlike
from tod_bias.dialogues.sampling import shares_of_subsets
from tod_bias.errors import CorpusError, MissingSplitError

METALWOZ = Distribution(
    "metalwoz", "MetaLWOZ", "metalwoz", "Microsoft Research (metalwoz-v1.zip and metalwoz-test-v1.zip)", "metalwoz"
)
_FOLDERS = {"train": "train", "valid": "train", "test": "test"}


def read_metalwoz(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """The dialogues of one of ParlAI's splits.

    Raises:
        CorpusError: a file is not there, or not in MetaLWOZ's format; names the file and the line.
    """
    folder = METALWOZ.lies_in(datapath) / _FOLDERS[split]
    files = sorted((folder / "dialogues").glob("*.txt"))
    if not files:
        raise MissingSplitError(f"{folder / 'dialogues'}: no DOMAIN.txt there; {METALWOZ.advice}")
    tasks = _tasks(folder / "tasks.txt")
    domains = [list(_dialogues(file, tasks)) for file in files]
    if not any(domains):
        raise CorpusError(f"{folder}: holds no dialogue of a task of tasks.txt; {METALWOZ.advice}")
    if split == "test":
        yield from (dialogue for domain in domains for dialogue in domain)
    else:
        yield from shares_of_subsets(domains, split)


def dialogue_of(name: str, domain: str, role: str, turns: list[str]) -> Dialogue:
    """A dialogue of what bot and user say in turn, from the bot's first words to its last."""
    users, bots = ["", *turns[1::2]], turns[::2]
    exchanges = tuple(Turn(user, response=bot) for user, bot in zip(users, bots, strict=False))
    return Dialogue(name, domain, exchanges, role)


def _lines(path: Path) -> list[tuple[int, Any]]:
    lines = list(METALWOZ.lines(path))
    if not lines:
        raise CorpusError(f"{path}: is empty; {METALWOZ.advice}")
    return lines


def _tasks(path: Path) -> dict[str, list[str]]:
    """Task to what the bot is told in it; to several where the task is there several times."""
    roles: dict[str, list[str]] = {}
    for number, record in _lines(path):
        with METALWOZ.reading(path, f"line {number}"):
            roles.setdefault(field(record, "task_id", str), []).append(field(record, "bot_role", str))
    return roles


def _dialogues(path: Path, tasks: Mapping[str, list[str]]) -> Iterator[Dialogue]:
    seen: dict[str, int] = {}
    for number, record in _lines(path):
        with METALWOZ.reading(path, f"line {number}"):
            name, domain, task = (field(record, key, str) for key in ("id", "domain", "task_id"))
            texts = enumerate(field(record, "turns", list), start=1)
            turns = [checked_as(text, str, f"turn {place}") for place, text in texts]
        for role in tasks.get(task, ()):
            yield dialogue_of(unlike(name, seen), domain, role, turns)
