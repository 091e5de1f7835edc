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
from parlai.core.tod.tod_core import TodStructuredEpisode

from tod_bias.agents.episodes import rewritten_episode
from tod_bias.agents.options import AXIS_OPTIONS
from tod_bias.agents.teachers import CounterfactualEpisodes
from tod_bias.dialogues.parlai_episodes import DIALOGUE_ID
from tod_bias.mitigation.augmentation import Augmentation

DEFAULT = "gender,age,race"


class AugmentedTeacher(CounterfactualEpisodes):
    """Mix-in, listed before a perturbed teacher, that adds counterfactuals to the training split.

    A new teacher takes two lines::

        class AugmentedMyTeacher(AugmentedTeacher, PerturbedMyTeacher):
            \"\"\"``my_task``, its training split with counterfactuals.\"\"\"
    """

    options = (
        "augmentation",
        {
            "--augment": {
                "default": DEFAULT,
                "help": "axes, and how: crossed (each dialogue rewritten for every group; by default), draws (one "
                "rewrite each) or personas, e.g. gender,age,race:draws",
            },
            "--seed": AXIS_OPTIONS["--seed"],
        },
    )

    def with_counterfactuals(self, episodes: list[TodStructuredEpisode]) -> list[TodStructuredEpisode]:
        """The chosen dialogues, and in the training split their counterfactuals after them."""
        opt: Any = self.opt  # type: ignore[attr-defined]
        how = Augmentation.read(opt.get("augment") or DEFAULT)
        if self.fold != "train":  # type: ignore[attr-defined]
            return episodes
        by_id = {episode.extras[DIALOGUE_ID]: episode for episode in episodes}
        counterfactuals = []
        for dialogue, run in how.copies([self._dialogues[name] for name in by_id], opt.get("seed") or 0):
            episode = rewritten_episode(by_id[dialogue.id], run.rewritten, run.rewrite)
            episode.extras[DIALOGUE_ID] = f"{dialogue.id}/{run.variant}"
            counterfactuals.append(episode)
        parlai_logging.info(f"{len(counterfactuals)} counterfactuals of {len(episodes)} training dialogues")
        return episodes + counterfactuals
