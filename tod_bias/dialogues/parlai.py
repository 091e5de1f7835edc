"""Any task-oriented corpus of ParlAI, read through ParlAI's own teacher: ``parlai:TASK`` (extra ``parlai``).

Nothing is fetched: the corpus must be in ParlAI's data path (``parlai display_data -t TASK -dp DATAPATH`` fetches it).
ParlAI reads some corpora in the order of the file system. Here dialogues are ordered by their texts, and numbered in
that order if ParlAI keeps no ids, so that samples and ids are the same on every machine.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import FOREIGN, CorpusError, described

PREFIX = "parlai:"


def read_parlai(task: str, datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """Yield the dialogues of a split of one of ParlAI's tasks.

    Args:
        task: name of the task, such as ``msr_e2e``.
        datapath: ParlAI's data path.
        split: ``train``, ``valid`` or ``test``.

    Raises:
        CorpusError: ParlAI is missing, it has no such task, the task is not task-oriented, or its corpus is not in the
            data path or damaged.
    """
    where = f"corpus {PREFIX + task!r}"
    if importlib.util.find_spec("parlai") is None:
        raise CorpusError(f"{where}: ParlAI is not installed; see docs/how-to/parlai.md")
    if datapath is None or not datapath.is_dir():
        raise CorpusError(f"{where}: expected --datapath, a folder in ParlAI's layout, got {datapath}")
    with reading(task, datapath):
        from tod_bias.dialogues.parlai_episodes import dialogues_of_task

        dialogues = dialogues_of_task(task, datapath, split, where)
    yield from sorted(identified(dialogues, split), key=lambda dialogue: (dialogue.domain, _by_number(dialogue.id)))


@contextmanager
def reading(task: str, datapath: str | Path) -> Iterator[None]:
    """Turn what ParlAI raises inside the block into one line.

    Raises:
        CorpusError: something was raised.
    """
    try:
        # ParlAI prints what it builds, and its builder of MultiDoGO leaves files open
        with warnings.catch_warnings(), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            yield
    except CorpusError:
        raise
    except (*FOREIGN, SystemExit) as error:
        raise CorpusError(
            f"corpus {PREFIX + task!r}: ParlAI cannot read it in {datapath} ({described(error)}); fetch it with "
            f"`parlai display_data -t {task} -dp FOLDER` and give --datapath FOLDER"
        ) from error


def identified(dialogues: Iterable[Dialogue], split: str) -> list[Dialogue]:
    """Return the dialogues, in their order, with an id each that no other one has.

    A dialogue without an id is ``DOMAIN-SPLIT-N``, the N-th of its domain by its texts. Of dialogues with one id all
    but the first by their texts get a number: ``ID-2``.
    """
    named = list(dialogues)
    places: dict[str, list[int]] = defaultdict(list)
    for place, dialogue in enumerate(named):
        places[dialogue.id or f"{dialogue.domain}-{split}-".removeprefix("-")].append(place)
    for name, same in places.items():
        same.sort(key=lambda place: _content(named[place]))
        for number, place in enumerate(same, start=1):
            new = f"{name}{number}" if not named[place].id else name if number == 1 else f"{name}-{number}"
            named[place] = replace(named[place], id=new)
    return named


def _content(dialogue: Dialogue) -> tuple[str | bytes, ...]:
    return dialogue.domain, dialogue.system, *(turn.digest for turn in dialogue.turns)


def _by_number(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key of an id in which numbers are compared as numbers."""
    return tuple((int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name))
