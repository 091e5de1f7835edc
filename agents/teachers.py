"""ParlAI's task-oriented system teachers with every dialogue rewritten by Su's Algorithm 1.

    parlai display_data -t tod_bias.agents:PerturbedGoogleSgdTeacher -dp DATAPATH -dt valid --axis gender
    parlai eval_model -t tod_bias.agents:PerturbedGoogleSgdTeacher -m tod_bias.agents:PipelineAgent --axis gender …

For the same axis, seed and draw the dialogues are those that ``tod-bias attribute`` and ``tod-bias perturb`` make.
Dialogues with nothing to rewrite are counted in the log and left out. Every message has in ``dialogue_id``, ``axis``,
``source``, ``target`` and ``term`` which dialogue it belongs to and which rewrite was drawn.

A multiple choice of axes, draws or seeds is a multitask: ``-t
tod_bias.agents:PerturbedGoogleSgdTeacher:draw=0,tod_bias.agents:PerturbedGoogleSgdTeacher:draw=1``.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import parlai.utils.logging as parlai_logging
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.tod.tod_core import TodStructuredEpisode
from parlai.tasks.google_sgd.agents import SystemTeacher as GoogleSgdTeacher

from tod_bias.agents.command import end_with_one_line
from tod_bias.agents.episodes import DIALOGUE_ID, as_shown, episode_to_dialogue, rewrite_episode
from tod_bias.agents.options import add_perturbation_options, axis_of
from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import CorpusError, NothingToPerturbError
from tod_bias.perturb.axis import draw_rewrites
from tod_bias.systems.twin import Rewrite

Item = TypeVar("Item")


class PerturbedTeacher:
    """Mix-in that stands before one of ParlAI's teachers: its options, its corpus, and the rewrites that are drawn."""

    corpus: ClassVar[str]
    """The corpus, as ``tod_bias.load_corpus`` and ParlAI's tasks call it."""

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        if shared is None:
            self._download(opt)
        super().__init__(opt, shared)  # type: ignore[call-arg]

    def _download(self, opt: Opt) -> None:
        """Let ParlAI fetch the corpus where it is not there, as its own teacher would do next.

        Raises:
            CorpusError: it is neither there nor to be had.
        """
        module = importlib.import_module(f"parlai.tasks.{self.corpus}.build")
        try:
            module.build(opt)
        except (RuntimeError, OSError, AssertionError) as error:
            raise CorpusError(
                f"{self.corpus}: not under the datapath {opt['datapath']!r}, and ParlAI cannot download it ({error}); "
                "give --datapath, a folder with the corpus and ParlAI's .built file in its layout"
            ) from error

    @classmethod
    def add_cmdline_args(cls, parser: ParlaiParser, partial_opt: Opt | None = None) -> ParlaiParser:
        """Add the options of the task and of the perturbation."""
        end_with_one_line()
        parser = super().add_cmdline_args(parser, partial_opt)  # type: ignore[misc]
        cls._add_options(parser)
        return parser

    @classmethod
    def _add_options(cls, parser: ParlaiParser) -> None:
        add_perturbation_options(parser)

    def with_rewrites(self, fold: str, pairs: Iterable[tuple[Dialogue, Item]]) -> list[tuple[Dialogue, Item, Rewrite]]:
        """The dialogues that can be rewritten, ordered by id, with the rewrite that is drawn; logs their number.

        Args:
            fold: the split, for messages.
            pairs: every dialogue with what ParlAI has of it.

        Raises:
            AxisError: an unknown axis or group, or a negative draw.
            NothingToPerturbError: no dialogue can be rewritten.
        """
        opt: Opt = self.opt  # type: ignore[attr-defined]
        draw, seed = opt.get("draw") or 0, opt.get("seed") or 0
        axis = axis_of(opt)
        ordered = sorted(pairs, key=lambda pair: pair[0].id)
        rewritten = []
        for dialogue, item in ordered:
            rewrites = draw_rewrites(axis, dialogue, draw + 1, seed)
            if rewrites:
                rewritten.append((dialogue, item, rewrites[draw]))
        if not rewritten:
            raise self._nothing_to_rewrite(fold, len(ordered))
        parlai_logging.info(
            f"axis {axis.name}, seed {seed}, draw {draw}: {len(rewritten)} of {len(ordered)} dialogues rewritten, "
            f"{len(ordered) - len(rewritten)} without a word to rewrite left out"
        )
        return rewritten

    def _nothing_to_rewrite(self, fold: str, dialogues: int) -> NothingToPerturbError:
        opt: Opt = self.opt  # type: ignore[attr-defined]
        return NothingToPerturbError(
            f"{self.corpus}, {fold}: none of {dialogues} dialogues has a word to rewrite on axis "
            f"{opt.get('axis') or 'gender'!r} (source: {opt.get('source') or 'any'}, target: "
            f"{opt.get('target') or 'any'}); choose others"
        )


class PerturbedEpisodes(PerturbedTeacher):
    """Mix-in that stands before one of ParlAI's ``TodStructuredDataParser`` and rewrites its episodes.

    A new one is two lines where the episodes' extras hold a ``dialogue_id``::

        class PerturbedTeacher(PerturbedEpisodes, SystemTeacher):
            corpus = "my_task"
    """

    def setup_episodes(self, fold: str) -> list[TodStructuredEpisode]:
        """The stock task's episodes, rewritten, ordered by dialogue id.

        Raises:
            AxisError: an unknown axis or group, or a negative draw.
            NothingToPerturbError: no dialogue can be rewritten.
        """
        by_fold: dict[str, list[TodStructuredEpisode]] = self.__dict__.setdefault("_perturbed", {})
        if fold not in by_fold:  # ParlAI calls this twice
            by_fold[fold] = self._perturb(fold)
        return by_fold[fold]

    def _stock_episodes(self, fold: str) -> list[TodStructuredEpisode]:
        try:
            episodes: list[TodStructuredEpisode] = super().setup_episodes(fold)  # type: ignore[misc]
        except (OSError, json.JSONDecodeError) as error:
            raise CorpusError(
                f"{self.corpus}: ParlAI cannot read the split {fold!r} ({error}); check --datapath and --datatype"
            ) from error
        return episodes

    def originals(self, fold: str, episodes: Sequence[TodStructuredEpisode]) -> list[Dialogue]:
        """The original dialogue of every episode, from which the rewrite is drawn."""
        return [episode_to_dialogue(episode) for episode in episodes]

    def _identified(self, fold: str) -> Iterator[tuple[TodStructuredEpisode, Dialogue]]:
        """The stock episodes, each with its dialogue's id among its extras, and the dialogue that it shows."""
        episodes = self._stock_episodes(fold)
        for dialogue, episode in zip(self.originals(fold, episodes), episodes, strict=True):
            episode.extras = {**episode.extras, DIALOGUE_ID: dialogue.id}
            yield episode, as_shown(dialogue, episode)

    def _perturb(self, fold: str) -> list[TodStructuredEpisode]:
        episodes = self._stock_episodes(fold)
        pairs = zip(self.originals(fold, episodes), episodes, strict=True)
        return [
            rewrite_episode(episode, rewrite, dialogue.id)
            for dialogue, episode, rewrite in self.with_rewrites(fold, pairs)
        ]

    def setup_data(self, fold: str) -> Iterator[tuple[dict[str, Any], bool]]:
        """The stock teacher's messages, each with its dialogue's id and rewrite."""
        episodes = iter(self.generate_episodes())  # type: ignore[attr-defined]
        fields: dict[str, Any] = {}
        for message, is_first in super().setup_data(fold):  # type: ignore[misc]
            if is_first:
                extras = next(episodes).extras
                fields = {DIALOGUE_ID: extras[DIALOGUE_ID], **extras.get("rewrite", {})}
            yield {**message, **fields}, is_first


class PerturbedCorpusEpisodes(PerturbedEpisodes):
    """Mix-in for tasks whose dialogues tod-bias reads in ParlAI's order with the same texts, one per episode.

    tod-bias reads first: it reports a damaged file in one line, where ParlAI may read without end.
    """

    def read(self, fold: str) -> list[Dialogue]:
        """The dialogues of a split.

        Raises:
            CorpusError: a file is not there, or damaged.
        """
        return load_corpus(self.corpus, datapath=self.opt["datapath"], split=fold)  # type: ignore[attr-defined]

    def _stock_episodes(self, fold: str) -> list[TodStructuredEpisode]:
        self._read = self.read(fold)
        return super()._stock_episodes(fold)

    def originals(self, fold: str, episodes: Sequence[TodStructuredEpisode]) -> list[Dialogue]:
        """The dialogues as tod-bias reads them."""
        return self._read


class PerturbedGoogleSgdTeacher(PerturbedEpisodes, GoogleSgdTeacher):
    """``google_sgd`` with rewritten dialogues."""

    corpus = "google_sgd"

    def originals(self, fold: str, episodes: Sequence[TodStructuredEpisode]) -> list[Dialogue]:
        """The dialogues with *all* API results, which ParlAI drops but on which the candidates depend."""
        dialogues = load_corpus(self.corpus, datapath=self.opt["datapath"], split=fold)
        whole = {dialogue.id: dialogue for dialogue in dialogues}
        return [whole[episode.extras[DIALOGUE_ID]] for episode in episodes]
