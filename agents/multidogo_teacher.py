"""MultiDoGO with rewritten dialogues, and with all counterfactuals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from parlai.tasks.multidogo.agents import DOMAINS, SystemTeacher

from tod_bias.agents.augmented_teacher import AugmentedTeacher
from tod_bias.agents.fairscore_teacher import FairscoreTeacher
from tod_bias.agents.teachers import PerturbedCorpusEpisodes
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.multidogo import conversations, read_multidogo


class PerturbedMultidogoTeacher(PerturbedCorpusEpisodes, SystemTeacher):
    """``multidogo`` with rewritten dialogues; their ids are the corpus's ``conversationId``."""

    corpus = "multidogo"

    def read(self, fold: str) -> list[Dialogue]:
        """The dialogues of the chosen domains."""
        domains = self.opt.get("multidogo_domains") or DOMAINS
        wanted = [domains] if isinstance(domains, str) else domains
        return list(read_multidogo(Path(self.opt["datapath"]), fold, wanted))

    def _iterate_over_conversations(self, domains: Sequence[str], intent: str) -> Iterator[tuple[str, str, Any]]:
        """ParlAI's conversations in the order of their files' names, where its own is that of the file system."""
        for _, name, domain, conversation in conversations(Path(self.dpath), self.fold, domains):
            yield name, domain, conversation


class FairscoreMultidogoTeacher(FairscoreTeacher, PerturbedMultidogoTeacher):
    """``multidogo`` with all counterfactuals."""


class AugmentedMultidogoTeacher(AugmentedTeacher, PerturbedMultidogoTeacher):
    """``multidogo``, its training split with counterfactuals."""
