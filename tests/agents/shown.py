"""What ParlAI's tasks show of a corpus, to compare with what the core reads."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parlai.core.loader import load_teacher_module
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser

from tod_bias.agents.protocol import slots_to_parlai
from tod_bias.dialogues.dialogue import Dialogue

Texts = list[tuple[str, str, str, str]]
"""User, call, result and response of every round."""


def teacher_of(datapath: Path, task: str, datatype: str = "valid", **options: Any) -> Any:
    """A teacher of ParlAI over a split, in the order of its task."""
    datatype = "train:evalmode" if datatype == "train" else datatype  # else it never ends
    opt = ParlaiParser(True, False).parse_kwargs(
        task=task, datapath=str(datapath), datatype=datatype, loglevel="error", **options
    )
    with files_left_open():
        return load_teacher_module(task)(Opt(opt))


@contextmanager
def files_left_open() -> Iterator[None]:
    """Say nothing of the files that ParlAI's builder of MultiDoGO does not close."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def episodes_of(datapath: Path, task: str, split: str, **options: Any) -> list[Any]:
    """The episodes of a system teacher."""
    return list(teacher_of(datapath, task, split, **options).episodes)


def texts_of(episode: Any) -> Texts:
    """What ParlAI shows of an episode, without the round that it adds; values that are not there are left out."""
    return [
        (spoken.user_utt, spoken.api_call_utt, _without_nan(spoken.api_resp_utt), spoken.sys_utt)
        for spoken in episode.rounds[:-1]
    ]


def _without_nan(slots: str) -> str:
    return " ; ".join(part for part in slots.split(" ; ") if not part.endswith(" = nan"))


def texts_of_dialogue(dialogue: Dialogue) -> Texts:
    """The same of a dialogue that the core has read."""
    return [
        (turn.user, slots_to_parlai(turn.api_call), slots_to_parlai(turn.api_result), turn.response)
        for turn in dialogue.turns
    ]


def messages_of(teacher: Any) -> list[list[tuple[str, str]]]:
    """Texts and labels of a plain teacher, episode by episode."""
    episodes: list[list[tuple[str, str]]] = []
    begins = True
    for message in teacher:
        labels = message.get("labels") or message["eval_labels"]
        if begins:
            episodes.append([])
        episodes[-1].append((message["text"], *labels))
        begins = message["episode_done"]
    return episodes


def messages_of_dialogues(dialogues: Iterable[Dialogue]) -> list[list[tuple[str, str]]]:
    """The same of dialogues without calls: what the system was told stands where the user says nothing first."""
    return [
        [(turn.user if number else dialogue.system, turn.response) for number, turn in enumerate(dialogue.turns)]
        for dialogue in dialogues
        if dialogue.turns
    ]
