"""ParlAI's task-oriented system teachers whose training split is told as others too (counterfactual augmentation).

    parlai train_model -t tod_bias.agents:AugmentedGoogleSgdTeacher --augment gender,age,race -m … -mf … -dp DATAPATH

Training episodes come as the stock task has them, then the copies of ``tod-bias train --augment`` for the same axes,
kind and seed: every message of a copy says in ``dialogue_id`` (``12/gender:woman``), ``axis``, ``source``, ``target``
and ``word`` what it is a copy of. The other splits are the stock task's, so that validation is of real dialogues.
"""

from __future__ import annotations

from typing import Any

import parlai.utils.logging as parlai_logging
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.tod.tod_core import SerializationHelpers, TodStructuredEpisode

from tod_bias.agents.command import add_option
from tod_bias.agents.episodes import DIALOGUE_ID, dialogue_to_episode, rewrite_goals, said_of
from tod_bias.agents.teachers import PerturbedEpisodes, PerturbedGoogleSgdTeacher
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.mitigation.augmentation import Augmentation
from tod_bias.systems.execution import Run

DEFAULT = "gender,age,race"


class AugmentedTeacher(PerturbedEpisodes):
    """Mix-in that stands before a perturbed teacher and adds its rewritten dialogues to the training split.

    A new one is two lines::

        class AugmentedMyTeacher(AugmentedTeacher, PerturbedMyTeacher):
            \"\"\"``my_task``, its training split told as others too.\"\"\"
    """

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        self._shown: list[TodStructuredEpisode] | None = None
        self._whole: dict[str, Dialogue] = {}
        super().__init__(opt, shared)

    @classmethod
    def _add_options(cls, parser: ParlaiParser) -> None:
        group = parser.add_argument_group("tod-bias augmentation")
        add_option(
            group,
            "--augment",
            default=DEFAULT,
            help="axes, and how: crossed (each dialogue as every attribute; by default), draws (one rewrite each) or "
            "personas, e.g. gender,age,race:draws",
        )
        add_option(group, "--seed", type=int, default=0, help="seed of what is drawn")

    def _perturb(self, fold: str) -> list[TodStructuredEpisode]:
        """The stock episodes, each with its dialogue's id; told as others once ParlAI has chosen among them."""
        found = list(self._identified(fold))
        self._whole = {dialogue.id: dialogue for _, dialogue in found}
        return [episode for episode, _ in found]

    def generate_episodes(self) -> list[TodStructuredEpisode]:
        """The chosen dialogues, and in the training split their copies after them.

        Raises:
            AxisError: an unknown axis.
            NothingToPerturbError: no dialogue can be told otherwise.
            TodBiasError: an unknown kind of augmentation.
        """
        if self._shown is None:  # ParlAI asks twice
            opt: Any = self.opt  # type: ignore[attr-defined]
            how = Augmentation.read(opt.get("augment") or DEFAULT)
            chosen: list[TodStructuredEpisode] = super().generate_episodes()  # type: ignore[misc]
            is_training = self.fold == "train"  # type: ignore[attr-defined]
            self._shown = chosen + (self._copies(chosen, how, opt.get("seed") or 0) if is_training else [])
        return self._shown

    def _copies(self, chosen: list[TodStructuredEpisode], how: Augmentation, seed: int) -> list[TodStructuredEpisode]:
        by_id = {episode.extras[DIALOGUE_ID]: episode for episode in chosen}
        told = how.copies([self._whole[name] for name in by_id], seed)
        copies = [_copy(by_id[dialogue.id], run) for dialogue, run in told]
        parlai_logging.info(f"{len(copies)} copies of {len(chosen)} training dialogues, told as others")
        return copies


def _copy(episode: TodStructuredEpisode, run: Run) -> TodStructuredEpisode:
    """One telling of an episode; an introduction changes no goal where nobody is renamed."""
    told: Dialogue = run.rewritten
    made = dialogue_to_episode(told, episode)
    made.extras = {**made.extras, DIALOGUE_ID: f"{told.id}/{run.variant}"}
    if run.rewrite is not None:
        made.goal_calls_machine = rewrite_goals(episode, run.rewrite)
        made.goal_calls_utt = SerializationHelpers.list_of_maps_to_str(made.goal_calls_machine)
        made.extras["rewrite"] = said_of(run.rewrite)
    return made


class AugmentedGoogleSgdTeacher(AugmentedTeacher, PerturbedGoogleSgdTeacher):
    """``google_sgd``, its training split told as others too."""
