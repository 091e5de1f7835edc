"""Episodes of ParlAI's task-oriented tasks, as dialogues; loads ParlAI.

A round of a :class:`parlai.core.tod.tod_core.TodStructuredEpisode` is a turn: what the user says, the API call, its
result and what the system says. Values are the texts that ParlAI makes of them. ``metalwoz`` has no API calls: what
the bot was told is the system message, and the bot speaks first.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from parlai.core import build_data
from parlai.core.params import ParlaiParser
from parlai.core.tod.tod_agents import TodStructuredDataParser
from parlai.core.tod.tod_core import STANDARD_DONE, SerializationHelpers, TodStructuredEpisode

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import CorpusError

METALWOZ = "metalwoz"
DIALOGUE_ID = "dialogue_id"
"""Key of an episode's ``extras`` that holds the dialogue's id, as in ParlAI's ``google_sgd``."""
_DATATYPES = {"train": "train:evalmode", "valid": "valid", "test": "test"}  # plain "train" shuffles and never ends


def dialogues_of_task(task: str, datapath: Path, split: str, where: str) -> list[Dialogue]:
    """Return the dialogues of a split of a task, in ParlAI's order and with its ids.

    Args:
        task: name of the task.
        datapath: ParlAI's data path.
        split: ``train``, ``valid`` or ``test``.
        where: the corpus, in messages.

    Raises:
        CorpusError: ParlAI has no such task, or it is not task-oriented.
    """
    with _offline():
        teacher = _teacher_class(task, where)(_options(task, datapath, split))
        if task == METALWOZ:
            return [metalwoz_dialogue(row) for row in teacher.load_data(teacher.opt["datafile"])]
        return list(map(episode_to_dialogue, teacher.episodes))


@contextmanager
def _offline() -> Iterator[None]:
    """Keep ParlAI from fetching a corpus, and from deleting an older version of it, inside the block."""

    def refuse(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("the corpus is not there, or of another version")

    names = ("download", "download_from_google_drive", "download_multiprocess", "remove_dir")
    stand_ins: dict[str, Any] = dict.fromkeys(names, refuse)
    with mock.patch.multiple(build_data, **stand_ins):
        yield


def _teacher_class(task: str, where: str) -> type[Any]:
    """Return the task's teacher of the system's part."""
    module = f"parlai.tasks.{task}.agents"
    if not re.fullmatch(r"\w+", task) or importlib.util.find_spec(f"parlai.tasks.{task}") is None:
        raise CorpusError(f"{where}: ParlAI has no task {task!r}; `parlai display_data --help` lists them")
    names = vars(importlib.import_module(module))
    teacher = names.get("SystemTeacher")
    if teacher is None or not (task == METALWOZ or issubclass(teacher, TodStructuredDataParser)):
        raise CorpusError(f"{where}: not a task-oriented task of ParlAI: it has no system teacher of TOD rounds")
    return teacher  # type: ignore[no-any-return]


def is_task_oriented(task: str) -> bool:
    """Return True if :func:`~tod_bias.dialogues.parlai.read_parlai` can read the task."""
    try:
        _teacher_class(task, task)
    except CorpusError:
        return False
    return True


def _options(task: str, datapath: Path, split: str) -> Any:
    return ParlaiParser(True, False).parse_kwargs(
        task=f"{task}:SystemTeacher", datapath=str(datapath), datatype=_DATATYPES[split], loglevel="error"
    )


def slot_texts(slots: Mapping[str, Any]) -> dict[str, str]:
    """Return a call or result of an episode with every value as the text that ParlAI makes of it."""
    return {str(name): str(SerializationHelpers.maybe_inner_list_join(value)) for name, value in slots.items()}


def episode_to_dialogue(episode: TodStructuredEpisode, dialogue_id: str | None = None) -> Dialogue:
    """Return an episode as a dialogue, without the ``[DONE]`` round that ParlAI adds.

    ParlAI keeps only the first result of a call.

    Args:
        episode: of ParlAI.
        dialogue_id: the dialogue's id; by default the one in the episode's ``extras``, or empty.
    """
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
