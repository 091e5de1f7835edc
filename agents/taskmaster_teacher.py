"""Taskmaster-1, -2 and -3 with rewritten dialogues, and with all counterfactuals."""

from __future__ import annotations

from collections.abc import Sequence

from parlai.core.tod.tod_core import TodStructuredEpisode
from parlai.tasks.taskmaster.agents import SystemTeacher as FirstTeacher
from parlai.tasks.taskmaster2.agents import DOMAINS, SystemTeacher
from parlai.tasks.taskmaster3.agents import SystemTeacher as ThirdTeacher

from tod_bias.agents.augmented_teacher import AugmentedTeacher
from tod_bias.agents.episodes import episode_to_dialogue
from tod_bias.agents.fairscore_teacher import FairscoreTeacher
from tod_bias.agents.teachers import PerturbedCorpusEpisodes, PerturbedEpisodes
from tod_bias.dialogues.dialogue import Dialogue


class PerturbedTaskmasterTeacher(PerturbedCorpusEpisodes, FirstTeacher):
    """``taskmaster:SystemTeacher`` with rewritten dialogues; their ids are the corpus's ``conversation_id``."""

    corpus = "taskmaster"


class PerturbedTaskmaster2Teacher(PerturbedEpisodes, SystemTeacher):
    """``taskmaster2`` with rewritten dialogues; their ids are the corpus's ``conversation_id``."""

    corpus = "taskmaster2"

    def originals(self, fold: str, episodes: Sequence[TodStructuredEpisode]) -> list[Dialogue]:
        """The episodes with the ids that ParlAI's task leaves out."""
        rows, _ = self._load_data(fold, self.opt.get("taskmaster2_domains", DOMAINS))
        return [
            episode_to_dialogue(episode, name) for episode, name in zip(episodes, rows["conversation_id"], strict=True)
        ]

    def process_call_for_cumlative_standalone_api(
        self, new_call: dict[str, str], cum_calls: dict[str, str]
    ) -> dict[str, str]:
        """The slots of a call so far; a new mapping, as ParlAI's own would let later slots into earlier calls."""
        gathered = super().process_call_for_cumlative_standalone_api(new_call, dict(cum_calls))
        return dict(gathered)


class PerturbedTaskmaster3Teacher(PerturbedCorpusEpisodes, ThirdTeacher):
    """``taskmaster3`` with rewritten dialogues; their ids are the corpus's ``conversation_id``."""

    corpus = "taskmaster3"


class FairscoreTaskmaster2Teacher(FairscoreTeacher, PerturbedTaskmaster2Teacher):
    """``taskmaster2`` with all counterfactuals."""


class FairscoreTaskmasterTeacher(FairscoreTeacher, PerturbedTaskmasterTeacher):
    """``taskmaster`` with all counterfactuals."""


class FairscoreTaskmaster3Teacher(FairscoreTeacher, PerturbedTaskmaster3Teacher):
    """``taskmaster3`` with all counterfactuals."""


class AugmentedTaskmaster2Teacher(AugmentedTeacher, PerturbedTaskmaster2Teacher):
    """``taskmaster2``, its training split with counterfactuals."""


class AugmentedTaskmasterTeacher(AugmentedTeacher, PerturbedTaskmasterTeacher):
    """``taskmaster``, its training split with counterfactuals."""


class AugmentedTaskmaster3Teacher(AugmentedTeacher, PerturbedTaskmaster3Teacher):
    """``taskmaster3``, its training split with counterfactuals."""
