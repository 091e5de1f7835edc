"""MetaLWOZ with rewritten dialogues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parlai.tasks.metalwoz.agents import SystemTeacher

from tod_bias.agents.episodes import DIALOGUE_ID, rewrite_fields
from tod_bias.agents.teachers import PerturbedTeacher
from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, turns_to_text
from tod_bias.dialogues.metalwoz import dialogue_of

_USER_INSTRUCTIONS = ("user_role", "user_prompt")
"""Fields of a message with the user's instructions, which are rewritten like the dialogue."""


class PerturbedMetalwozTeacher(PerturbedTeacher, SystemTeacher):
    """``metalwoz`` with rewritten dialogues; their ids are the corpus's.

    It is no task of API calls: messages are what ParlAI's own teacher shows, the bot's instructions and then the
    user's words, answered by the bot's. The bot's instructions stay as they are.
    """

    corpus = "metalwoz"

    def setup_data(self, datapath: str) -> Iterator[tuple[dict[str, Any], bool]]:
        """The stock teacher's messages of every dialogue, rewritten, each with its dialogue's id and rewrite.

        Raises:
            AxisError: an unknown axis or group, or a negative draw.
            CorpusError: a file is not there, or not in MetaLWOZ's format.
            NothingToPerturbError: no dialogue can be rewritten.
        """
        known: dict[Any, list[Dialogue]] = {}  # read first: what is damaged is named in one line
        for dialogue in load_corpus(self.corpus, datapath=self.opt["datapath"], split=self.fold):
            known.setdefault(_content(dialogue), []).append(dialogue)
        rows = self.load_data(datapath)
        for dialogue, row, rewrite in self.with_rewrites(
            self.fold, [(_dialogue_of_row(row, known), row) for row in rows]
        ):
            rewritten = rewrite(dialogue)
            instructions = {
                name: str(rewrite(row[name])) if isinstance(row[name], str) else row[name]
                for name in _USER_INSTRUCTIONS
            }
            fields = {
                **{name: row[name] for name in ("bot_role", "bot_prompt", "task_id")},
                **instructions,
                "utterance_id": row["id"],
                "domain": row["domain_x"],
                DIALOGUE_ID: dialogue.id,
                **rewrite_fields(rewrite),
            }
            for number, turn in enumerate(rewritten.turns):
                text = str(turn.user) if number else dialogue.system
                yield {"text": text, "label": str(turn.response), **fields}, number == 0


def _dialogue_of_row(row: dict[str, Any], known: dict[Any, list[Dialogue]]) -> Dialogue:
    """The dialogue of one of ParlAI's rows, whose ids need not be unique."""
    name = str(row["id"])
    same = known[_content(dialogue_of(name, row["domain_x"], row["bot_role"], list(row["turns"])))]
    return same.pop(next((place for place, dialogue in enumerate(same) if dialogue.id.startswith(name)), 0))


def _content(dialogue: Dialogue) -> tuple[str, str, str]:
    return dialogue.domain, dialogue.system, turns_to_text(dialogue.turns)
