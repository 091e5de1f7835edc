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
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import parlai.utils.logging as parlai_logging
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.tod.tod_core import TodStructuredEpisode

from tod_bias.agents.episodes import as_shown, rewritten_episode
from tod_bias.agents.options import DRAW_OPTIONS, Options, add_options, axis_of
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.parlai import identified, reading
from tod_bias.dialogues.parlai_episodes import DIALOGUE_ID, episode_to_dialogue
from tod_bias.errors import CorpusError, NothingToPerturbError
from tod_bias.perturb.axis import draw_rewrites
from tod_bias.systems.twin import Rewrite

Item = TypeVar("Item")


class PerturbedTeacher:
    """Mix-in, listed before one of ParlAI's teachers: its options, its corpus, and the rewrites that are drawn."""

    corpus: ClassVar[str]
    """The corpus, as ``tod_bias.load_corpus`` and ParlAI's tasks call it."""
    options: ClassVar[tuple[str, Options]] = ("perturbation", DRAW_OPTIONS)
    """Title of the options and the options, in addition to those of ParlAI's teacher."""

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        if shared is None:
            self._download(opt)
        super().__init__(opt, shared)  # type: ignore[call-arg]

    def _download(self, opt: Opt) -> None:
        """Let ParlAI fetch a missing corpus, as its own teacher would do next.

        Raises:
            CorpusError: the corpus is missing and cannot be fetched.
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
        parser = super().add_cmdline_args(parser, partial_opt)  # type: ignore[misc]
        add_options(parser, *cls.options)
        return parser

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
    """Mix-in, listed before one of ParlAI's ``TodStructuredDataParser``, that rewrites its episodes.

    A new teacher takes two lines::

        class PerturbedTeacher(PerturbedEpisodes, SystemTeacher):
            corpus = "my_task"
    """

    @classmethod
    def add_cmdline_args(cls, parser: ParlaiParser, partial_opt: Opt | None = None) -> ParlaiParser:
        """Add the options; ``--api-jga-record`` is off by default, as it adds a row per API and set of slots."""
        parser = super().add_cmdline_args(parser, partial_opt)
        parser.set_defaults(api_jga_record=False)
        return parser

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
        with reading(self.corpus, self.opt["datapath"]):  # type: ignore[attr-defined]
            episodes: list[TodStructuredEpisode] = super().setup_episodes(fold)  # type: ignore[misc]
        return episodes

    def originals(self, fold: str, episodes: Sequence[TodStructuredEpisode]) -> list[Dialogue]:
        """Return the original dialogue of every episode, from which the rewrite is drawn: as ``parlai:TASK`` has it."""
        return identified(map(episode_to_dialogue, episodes), fold)

    def _perturb(self, fold: str) -> list[TodStructuredEpisode]:
        episodes = self._stock_episodes(fold)
        pairs = zip(self.originals(fold, episodes), episodes, strict=True)
        return [
            rewritten_episode(episode, rewrite(episode_to_dialogue(episode, dialogue.id)), rewrite)
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


class CounterfactualEpisodes(PerturbedEpisodes):
    """Mix-in of teachers that show the stock task's dialogues and counterfactuals of those that ParlAI chose."""

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        self._shown: list[TodStructuredEpisode] | None = None
        self._dialogues: dict[str, Dialogue] = {}
        super().__init__(opt, shared)

    def _perturb(self, fold: str) -> list[TodStructuredEpisode]:
        """The stock episodes, each with its dialogue's id; they are rewritten once ParlAI has chosen among them."""
        episodes = self._stock_episodes(fold)
        for dialogue, episode in zip(self.originals(fold, episodes), episodes, strict=True):
            if dialogue.id in self._dialogues:
                raise CorpusError(f"{self.corpus}, {fold}: two dialogues have the id {dialogue.id!r}; ids must differ")
            episode.extras = {**episode.extras, DIALOGUE_ID: dialogue.id}
            self._dialogues[dialogue.id] = as_shown(dialogue, episode)
        return episodes

    def generate_episodes(self) -> list[TodStructuredEpisode]:
        """The chosen dialogues and their counterfactuals.

        Raises:
            AxisError: an unknown axis or group.
            NothingToPerturbError: no dialogue can be rewritten.
            TodBiasError: another option that makes no sense.
        """
        if self._shown is None:  # ParlAI calls this twice
            self._shown = self.with_counterfactuals(super().generate_episodes())  # type: ignore[misc]
        return self._shown

    def with_counterfactuals(self, episodes: list[TodStructuredEpisode]) -> list[TodStructuredEpisode]:
        """Return the episodes to show, given those that ParlAI chose."""
        raise NotImplementedError
