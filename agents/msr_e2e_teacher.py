"""MSR-E2E with rewritten dialogues, and with all counterfactuals."""

from __future__ import annotations

from pathlib import Path

from parlai.tasks.msr_e2e.agents import DOMAINS, SystemTeacher

from tod_bias.agents.augmented_teacher import AugmentedTeacher
from tod_bias.agents.fairscore_teacher import FairscoreTeacher
from tod_bias.agents.teachers import PerturbedCorpusEpisodes
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.msr_e2e import read_msr_e2e


class PerturbedMsrE2eTeacher(PerturbedCorpusEpisodes, SystemTeacher):
    """``msr_e2e`` with rewritten dialogues; their ids are domain and number (``movie-12``)."""

    corpus = "msr_e2e"

    def read(self, fold: str) -> list[Dialogue]:
        """The dialogues of the chosen domains."""
        return list(read_msr_e2e(Path(self.opt["datapath"]), fold, self.opt.get("msre2e_domains") or DOMAINS))


class FairscoreMsrE2eTeacher(FairscoreTeacher, PerturbedMsrE2eTeacher):
    """``msr_e2e`` with all counterfactuals."""


class AugmentedMsrE2eTeacher(AugmentedTeacher, PerturbedMsrE2eTeacher):
    """``msr_e2e``, its training split with counterfactuals."""
