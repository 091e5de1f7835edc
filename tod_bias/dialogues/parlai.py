"""Any task-oriented corpus of ParlAI, read through ParlAI's own teacher: ``parlai:TASK`` (extra ``parlai``).

A round of a :class:`parlai.core.tod.tod_core.TodStructuredEpisode` is a turn: what the user says, the API call, its
result and what the system says. Values are the texts that ParlAI makes of them. ``metalwoz`` has no API calls: what
the bot was told is the system message, and the bot speaks first.

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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import FOREIGN, CorpusError, described

if TYPE_CHECKING:
    from parlai.core.tod.tod_core import TodStructuredEpisode

PREFIX = "parlai:"
METALWOZ = "metalwoz"
DIALOGUE_ID = "dialogue_id"
"""Key of an episode's ``extras`` that holds the dialogue's id, as in ParlAI's ``google_sgd``."""
_DATATYPES = {"train": "train:evalmode", "valid": "valid", "test": "test"}  # plain "train" shuffles and never ends


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
    with reading(task, datapath), _offline():
        teacher = _teacher_class(task, where)(_options(task, datapath, split))
        dialogues = (
            [metalwoz_dialogue(row) for row in teacher.load_data(teacher.opt["datafile"])]
            if task == METALWOZ
            else list(map(episode_to_dialogue, teacher.episodes))
        )
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


@contextmanager
def _offline() -> Iterator[None]:
    """Keep ParlAI from fetching a corpus, and from deleting an older version of it, inside the block."""
    from unittest import mock  # takes as long to import as the rest of this package

    from parlai.core import build_data

    def refuse(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("the corpus is not there, or of another version")

    names = ("download", "download_from_google_drive", "download_multiprocess", "remove_dir")
    stand_ins: dict[str, Any] = dict.fromkeys(names, refuse)
    with mock.patch.multiple(build_data, **stand_ins):
        yield


def _teacher_class(task: str, where: str) -> type[Any]:
    """Return the task's teacher of the system's part."""
    from parlai.core.tod.tod_agents import TodStructuredDataParser

    module = f"parlai.tasks.{task}.agents"
    if not re.fullmatch(r"\w+", task) or importlib.util.find_spec(f"parlai.tasks.{task}") is None:
        raise CorpusError(f"{where}: ParlAI has no task {task!r}; `parlai display_data --help` lists them")
    names = vars(importlib.import_module(module))
    teacher = names.get("SystemTeacher")
    if teacher is None or not (task == METALWOZ or issubclass(teacher, TodStructuredDataParser)):
        raise CorpusError(f"{where}: not a task-oriented task of ParlAI: it has no system teacher of TOD rounds")
    return teacher  # type: ignore[no-any-return]


def is_task_oriented(task: str) -> bool:
    """Return True if :func:`read_parlai` can read the task."""
    try:
        _teacher_class(task, task)
    except CorpusError:
        return False
    return True


def _options(task: str, datapath: Path, split: str) -> Any:
    from parlai.core.params import ParlaiParser

    return ParlaiParser(True, False).parse_kwargs(
        task=f"{task}:SystemTeacher", datapath=str(datapath), datatype=_DATATYPES[split], loglevel="error"
    )


def slot_texts(slots: Mapping[str, Any]) -> dict[str, str]:
    """Return a call or result of an episode with every value as the text that ParlAI makes of it."""
    from parlai.core.tod.tod_core import SerializationHelpers

    return {str(name): str(SerializationHelpers.maybe_inner_list_join(value)) for name, value in slots.items()}


def episode_to_dialogue(episode: TodStructuredEpisode, dialogue_id: str | None = None) -> Dialogue:
    """Return an episode as a dialogue, without the ``[DONE]`` round that ParlAI adds.

    ParlAI keeps only the first result of a call.

    Args:
        episode: of ParlAI.
        dialogue_id: the dialogue's id; by default the one in the episode's ``extras``, or empty.
    """
    from parlai.core.tod.tod_core import STANDARD_DONE

    name = dialogue_id if dialogue_id is not None else str(episode.extras.get(DIALOGUE_ID, ""))
    rounds = episode.rounds
    if rounds and rounds[-1].user_utt == STANDARD_DONE:
        rounds = rounds[:-1]
    turns = tuple(
        Turn.with_call(
            user=spoken.user_utt,
            call=slot_texts(spoken.api_call_machine),
            result=slot_texts(spoken.api_resp_machine),
            response=spoken.sys_utt,
        )
        for spoken in rounds
    )
    return Dialogue(name, episode.domain, turns)


def metalwoz_dialogue(row: Mapping[str, Any]) -> Dialogue:
    """Return a dialogue of ParlAI's ``metalwoz``; the user's last words are left out if the bot does not answer."""
    turns = list(row["turns"])
    spoken = zip(["", *turns[1::2]], turns[::2], strict=False)
    exchanges = tuple(Turn(user, response=bot) for user, bot in spoken)
    return Dialogue(str(row["id"]), row["domain_x"], exchanges, row["bot_role"])


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
