"""The teachers of every corpus, made when somebody names one: ``KIND`` + task + ``Teacher``.

A teacher is one of ParlAI's system teachers with two mix-ins before it: the kind (rewritten dialogues, all
counterfactuals, counterfactuals in the training split), and how the dialogues of the task are identified.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from parlai.core.tod.tod_core import TodStructuredEpisode, TodStructuredRound

from tod_bias.agents.augmented_teacher import AugmentedTeacher
from tod_bias.agents.episodes import rewrite_fields
from tod_bias.agents.fairscore_teacher import FairscoreTeacher
from tod_bias.agents.teachers import PerturbedEpisodes, PerturbedTeacher
from tod_bias.dialogues import taskmaster
from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.parlai import identified, reading
from tod_bias.dialogues.parlai_episodes import DIALOGUE_ID, METALWOZ, episode_to_dialogue, metalwoz_dialogue


class _GoogleSgd(PerturbedEpisodes):
    corpus = "google_sgd"

    def originals(self, fold: str, episodes: Sequence[TodStructuredEpisode]) -> list[Dialogue]:
        """The dialogues with *all* API results, which ParlAI drops but on which the candidates depend."""
        dialogues = load_corpus(self.corpus, datapath=self.opt["datapath"], split=fold)  # type: ignore[attr-defined]
        whole = {dialogue.id: dialogue for dialogue in dialogues}
        return [whole[episode.extras[DIALOGUE_ID]] for episode in episodes]


class _MultiwozV22(PerturbedEpisodes):
    """Ids are the corpus's file names (``PMUL4398.json``)."""

    corpus = "multiwoz_v22"

    def _stock_episodes(self, fold: str) -> list[TodStructuredEpisode]:
        self._ids: list[str] = []
        return super()._stock_episodes(fold)

    def _get_round(self, dialogue_id: str, raw_episode: Any, turn_id: int) -> tuple[Any, TodStructuredRound]:
        if turn_id == 0:  # ParlAI's task keeps no ids; here they come by in the order of its episodes
            self._ids.append(dialogue_id)
        spoken: tuple[Any, TodStructuredRound] = super()._get_round(dialogue_id, raw_episode, turn_id)  # type: ignore[misc]
        return spoken

    def originals(self, fold: str, episodes: Sequence[TodStructuredEpisode]) -> list[Dialogue]:
        return [episode_to_dialogue(episode, name) for episode, name in zip(episodes, self._ids, strict=True)]


class _Taskmaster2(PerturbedEpisodes):
    """Ids are the corpus's ``conversation_id``."""

    corpus = "taskmaster2"

    def originals(self, fold: str, episodes: Sequence[TodStructuredEpisode]) -> list[Dialogue]:
        rows, _ = self._load_data(fold, self.opt.get("taskmaster2_domains", taskmaster.DOMAINS))  # type: ignore[attr-defined]
        return [
            episode_to_dialogue(episode, name) for episode, name in zip(episodes, rows["conversation_id"], strict=True)
        ]

    def process_call_for_cumlative_standalone_api(
        self, new_call: dict[str, str], cum_calls: dict[str, str]
    ) -> dict[str, str]:
        """The slots of a call so far; a new mapping, as ParlAI's own would let later slots into earlier calls."""
        return dict(super().process_call_for_cumlative_standalone_api(new_call, dict(cum_calls)))  # type: ignore[misc]


class _CorpusEpisodes(PerturbedEpisodes):
    """Tasks whose dialogues tod-bias reads in ParlAI's order with the same texts, one per episode.

    tod-bias reads first: it reports a damaged file in one line, where ParlAI may read without end.
    """

    def _stock_episodes(self, fold: str) -> list[TodStructuredEpisode]:
        self._read = load_corpus(self.corpus, datapath=self.opt["datapath"], split=fold)  # type: ignore[attr-defined]
        return super()._stock_episodes(fold)

    def originals(self, fold: str, episodes: Sequence[TodStructuredEpisode]) -> list[Dialogue]:
        return self._read


class _Taskmaster(_CorpusEpisodes):
    corpus = "taskmaster"


class _Taskmaster3(_CorpusEpisodes):
    corpus = "taskmaster3"


class _MsrE2e(PerturbedEpisodes):
    corpus = "msr_e2e"


class _Multidogo(PerturbedEpisodes):
    corpus = "multidogo"


class _Metalwoz(PerturbedTeacher):
    """Teacher without API calls: messages are those of ParlAI's own teacher, the bot's instructions and then the user's
    words, answered by the bot's. The bot's instructions stay as they are, those of the user are rewritten.
    """

    corpus = METALWOZ

    def setup_data(self, datapath: str) -> Iterator[tuple[dict[str, Any], bool]]:
        """Yield the stock teacher's messages of every dialogue, rewritten, each with its dialogue's id and rewrite.

        Raises:
            AxisError: an unknown axis or group, or a negative draw.
            CorpusError: a file is not there, or not in MetaLWOZ's format.
            NothingToPerturbError: no dialogue can be rewritten.
        """
        fold: str = self.fold  # type: ignore[attr-defined]
        with reading(self.corpus, self.opt["datapath"]):  # type: ignore[attr-defined]
            rows = self.load_data(datapath)  # type: ignore[attr-defined]
            dialogues = identified(map(metalwoz_dialogue, rows), fold)
        for dialogue, row, rewrite in self.with_rewrites(fold, zip(dialogues, rows, strict=True)):
            fields = {
                **{name: row[name] for name in ("bot_role", "bot_prompt", "task_id")},
                **{name: _rewritten(row[name], rewrite) for name in ("user_role", "user_prompt")},
                "utterance_id": row["id"],
                "domain": row["domain_x"],
                DIALOGUE_ID: dialogue.id,
                **rewrite_fields(rewrite),
            }
            for number, turn in enumerate(rewrite(dialogue).turns):
                text = str(turn.user) if number else dialogue.system
                yield {"text": text, "label": str(turn.response), **fields}, number == 0


def _rewritten(value: Any, rewrite: Any) -> Any:
    return str(rewrite(value)) if isinstance(value, str) else value


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "Augmented": ((AugmentedTeacher,), "its training split with counterfactuals"),
    "Fairscore": ((FairscoreTeacher,), "with all counterfactuals"),
    "Perturbed": ((), "with rewritten dialogues"),
}
_TASKS: dict[str, type[PerturbedTeacher]] = {
    "GoogleSgd": _GoogleSgd,
    "Metalwoz": _Metalwoz,
    "MsrE2e": _MsrE2e,
    "Multidogo": _Multidogo,
    "MultiwozV22": _MultiwozV22,
    "Taskmaster": _Taskmaster,
    "Taskmaster2": _Taskmaster2,
    "Taskmaster3": _Taskmaster3,
}


@cache
def teacher_class(kind: str, task: str) -> type:
    """The teacher of a kind and a task; only now its task is loaded, since some need further packages."""
    mixins, what = _KINDS[kind]
    identified = _TASKS[task]
    stock = importlib.import_module(f"parlai.tasks.{identified.corpus}.agents").SystemTeacher
    fields = {"__doc__": f"``{identified.corpus}`` {what}.", "__module__": "tod_bias.agents"}
    return type(f"{kind}{task}Teacher", (*mixins, identified, stock), fields)
