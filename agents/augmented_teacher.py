"""ParlAI's task-oriented system teachers whose training split has counterfactuals too (counterfactual augmentation).

    parlai train_model -t tod_bias.agents:AugmentedGoogleSgdTeacher --augment gender,age,race -m … -mf … -dp DATAPATH

Training episodes come as the stock task has them, then the counterfactuals of ``tod-bias train --augment`` for the
same axes, kind and seed: every message of a counterfactual has in ``dialogue_id`` (``12/gender:woman``), ``axis``,
``source``, ``target`` and ``term`` the dialogue and its rewrite. The other splits are the stock task's, so validation
is of real dialogues.
"""

from __future__ import annotations

from typing import Any

import parlai.utils.logging as parlai_logging
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.tod.tod_core import SerializationHelpers, TodStructuredEpisode

from tod_bias.agents.command import add_option
from tod_bias.agents.episodes import DIALOGUE_ID, dialogue_to_episode, rewrite_fields, rewrite_goals
from tod_bias.agents.teachers import PerturbedEpisodes, PerturbedGoogleSgdTeacher
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.mitigation.augmentation import Augmentation
from tod_bias.systems.execution import Run

DEFAULT = "gender,age,race"


class AugmentedTeacher(PerturbedEpisodes):
    """Mix-in that stands before a perturbed teacher and adds counterfactuals to the training split.

    A new one is two lines::

        class AugmentedMyTeacher(AugmentedTeacher, PerturbedMyTeacher):
            \"\"\"``my_task``, its training split with counterfactuals.\"\"\"
    """

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        self._shown: list[TodStructuredEpisode] | None = None
        self._dialogues: dict[str, Dialogue] = {}
        super().__init__(opt, shared)

    @classmethod
    def _add_options(cls, parser: ParlaiParser) -> None:
        group = parser.add_argument_group("tod-bias augmentation")
        add_option(
            group,
            "--augment",
            default=DEFAULT,
            help="axes, and how: crossed (each dialogue rewritten for every group; by default), draws (one rewrite "
            "each) or personas, e.g. gender,age,race:draws",
        )
        add_option(group, "--seed", type=int, default=0, help="seed of the rewrites that are drawn")

    def _perturb(self, fold: str) -> list[TodStructuredEpisode]:
        """The stock episodes, each with its dialogue's id; they are rewritten once ParlAI has chosen among them."""
        identified = list(self._identified(fold))
        self._dialogues = {dialogue.id: dialogue for _, dialogue in identified}
        return [episode for episode, _ in identified]

    def generate_episodes(self) -> list[TodStructuredEpisode]:
        """The chosen dialogues, and in the training split their counterfactuals after them.

        Raises:
            AxisError: an unknown axis.
            NothingToPerturbError: no dialogue can be rewritten.
            TodBiasError: an unknown kind of augmentation.
        """
        if self._shown is None:  # ParlAI calls this twice
            opt: Any = self.opt  # type: ignore[attr-defined]
            how = Augmentation.read(opt.get("augment") or DEFAULT)
            chosen: list[TodStructuredEpisode] = super().generate_episodes()  # type: ignore[misc]
            is_training = self.fold == "train"  # type: ignore[attr-defined]
            self._shown = chosen + (self._counterfactuals(chosen, how, opt.get("seed") or 0) if is_training else [])
        return self._shown

    def _counterfactuals(
        self, chosen: list[TodStructuredEpisode], how: Augmentation, seed: int
    ) -> list[TodStructuredEpisode]:
        by_id = {episode.extras[DIALOGUE_ID]: episode for episode in chosen}
        runs = how.copies([self._dialogues[name] for name in by_id], seed)
        episodes = [_counterfactual(by_id[dialogue.id], run) for dialogue, run in runs]
        parlai_logging.info(f"{len(episodes)} counterfactuals of {len(chosen)} training dialogues")
        return episodes


def _counterfactual(episode: TodStructuredEpisode, run: Run) -> TodStructuredEpisode:
    """One variant of an episode; an introduction without a rewrite changes no goal."""
    dialogue: Dialogue = run.rewritten
    variant = dialogue_to_episode(dialogue, episode)
    variant.extras = {**variant.extras, DIALOGUE_ID: f"{dialogue.id}/{run.variant}"}
    if run.rewrite is not None:
        variant.goal_calls_machine = rewrite_goals(episode, run.rewrite)
        variant.goal_calls_utt = SerializationHelpers.list_of_maps_to_str(variant.goal_calls_machine)
        variant.extras["rewrite"] = rewrite_fields(run.rewrite)
    return variant


class AugmentedGoogleSgdTeacher(AugmentedTeacher, PerturbedGoogleSgdTeacher):
    """``google_sgd``, its training split with counterfactuals."""
