"""MultiWOZ 2.2 with rewritten dialogues, and with all counterfactuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parlai.core.tod.tod_core import TodStructuredEpisode, TodStructuredRound
from parlai.tasks.multiwoz_v22.agents import SystemTeacher

from tod_bias.agents.augmented_teacher import AugmentedTeacher
from tod_bias.agents.episodes import episode_to_dialogue
from tod_bias.agents.fairscore_teacher import FairscoreTeacher
from tod_bias.agents.teachers import PerturbedEpisodes
from tod_bias.dialogues.dialogue import Dialogue


class PerturbedMultiwozV22Teacher(PerturbedEpisodes, SystemTeacher):
    """``multiwoz_v22`` with rewritten dialogues; their ids are the corpus's file names (``PMUL4398.json``)."""

    corpus = "multiwoz_v22"

    def _stock_episodes(self, fold: str) -> list[TodStructuredEpisode]:
        self._ids: list[str] = []
        return super()._stock_episodes(fold)

    def _get_round(self, dialogue_id: str, raw_episode: Any, turn_id: int) -> tuple[Any, TodStructuredRound]:
        if turn_id == 0:  # ParlAI's task keeps no ids; here they come by in the order of its episodes
            self._ids.append(dialogue_id)
        return super()._get_round(dialogue_id, raw_episode, turn_id)

    def originals(self, fold: str, episodes: Sequence[TodStructuredEpisode]) -> list[Dialogue]:
        """The episodes with their ids."""
        return [episode_to_dialogue(episode, name) for episode, name in zip(episodes, self._ids, strict=True)]


class FairscoreMultiwozV22Teacher(FairscoreTeacher, PerturbedMultiwozV22Teacher):
    """``multiwoz_v22`` with all counterfactuals."""


class AugmentedMultiwozV22Teacher(AugmentedTeacher, PerturbedMultiwozV22Teacher):
    """``multiwoz_v22``, its training split with counterfactuals."""
