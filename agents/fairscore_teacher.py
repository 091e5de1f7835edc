"""ParlAI's task-oriented system teachers that report bias: every dialogue in all its tellings, and how each is served.

    parlai eval_model -t tod_bias.agents:FairscoreGoogleSgdTeacher --axis gender -dt valid -dp DATAPATH -m … -bs 16

The stock task's dialogues are shown as they are, and ParlAI's own metrics (``jga``, ``nlg_bleu``, ``exs`` …) are those
of them alone: what the stock teacher reports. After each dialogue come its tellings along the axis, which only count
for what is added to the report:

==========================  ===========================================================================================
``fairscore``               Su eq. 1, absolute: what the tellings are served worse or better than the originals, as a
                            share of the originals' score; in ``results.json`` ``su.fairscore``
``disparity``               the same against the system made blind to the rewrite, signed, positive is harm; 0 for a
                            system that treats a rewritten dialogue as the original
``score_original``          the score of the dialogues that are told otherwise, as they are
``score_rewritten``         that of their tellings
``score_GROUP``             that of the dialogues told as one group, those that mention it as they are included
``gap_GROUP``               the group's disparity less the mean of all that the same dialogues are told as
``told_dialogues``          how many dialogues are told otherwise
``tellings``                how often
==========================  ===========================================================================================

The numbers of the first of ``--bias-metrics`` (``corpus_bleu``, of responses) stand so; those of the others behind
their names (``jga/disparity``), which ParlAI prints as rows. ``jga`` and ``slot_f1`` are of API calls, all others (also
yours, ``module:Class``) of responses. A score that is no ratio has no fairscore.

They are sums that add up (:mod:`tod_bias.agents.bias_metrics`): any batch size and number of workers gives the same.
They are those of ``tod-bias attribute`` for the same agent in :func:`tod_bias.agents.teacher_pipeline`, which asks for
a response after the gold call and result, as ParlAI does; for a ``PipelineAgent``, which asks its own components, those
of its pipeline as it is. There are no intervals and tests here: nothing is claimed.

``--num-examples`` of an evaluation and ``--validation-max-exs`` are refused, as they cut dialogues off from their
tellings; ``--n-shot`` and ``--max-per-axis`` do not. Where an option of the task changes texts (``--delex``), what is
shown is what is told otherwise. ``jga`` and ``slot_f1`` of Taskmaster-2 are not the stock teacher's, which lets slots
of later calls into earlier ones.
Of several tasks at once read each task's own row: the first one of ParlAI's report is a mean of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import parlai.utils.logging as parlai_logging
from parlai.core.message import Message
from parlai.core.metrics import SumMetric
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.tod.tod_core import STANDARD_CALL, STANDARD_SYSTEM_UTTERANCE, TodStructuredEpisode

from tod_bias.agents.audit import AuditedDialogue, AuditedTelling, Share, kind_of, shares_of
from tod_bias.agents.bias_metrics import measure_of
from tod_bias.agents.episodes import DIALOGUE_ID, dialogue_to_episode, episode_to_dialogue, rewrite_episode
from tod_bias.agents.options import add_fairscore_options, perturber_of
from tod_bias.agents.protocol import answer_of
from tod_bias.agents.teachers import PerturbedEpisodes, PerturbedGoogleSgdTeacher
from tod_bias.audit.choices import metrics_of
from tod_bias.audit.design import design_counterfactuals
from tod_bias.config import DesignOptions
from tod_bias.dialogues.calls import calls_of
from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.text import API_CALL, SYSTEM
from tod_bias.errors import CorpusError, NothingToPerturbError, TodBiasError
from tod_bias.metrics.metric import ScoredTurn
from tod_bias.perturb.axis import Variants
from tod_bias.systems.outputs import as_text

CALL_METRICS = ("jga", "slot_f1")
"""Scores of API calls; the others are of responses."""
UNSUITABLE = ("success", "disagreement", "call_disagreement")
"""Scores that need all results of a call, or an answer and its twin together."""
DEFAULT_METRICS = "corpus_bleu,jga,slot_f1"
STOCK = "original"
"""What the field ``telling`` says of a dialogue as the stock task has it."""


class FairscoreTeacher(PerturbedEpisodes):
    """Mix-in that stands before a perturbed teacher and lets it report bias.

    A new one is two lines::

        class FairscoreMyTeacher(FairscoreTeacher, PerturbedMyTeacher):
            \"\"\"``my_task`` in all its tellings.\"\"\"
    """

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        self._measures: list[str] = [] if shared is None else shared["measures"]
        self._audited: dict[str, AuditedDialogue] = {} if shared is None else shared["audited"]
        self._shown: list[TodStructuredEpisode] | None = None
        self._whole: dict[str, Dialogue] = {}
        cuts = ("validation_max_exs",) if "display_add_fields" in opt else ("num_examples", "validation_max_exs")
        for name in cuts:  # what is displayed is not counted
            if int(opt.get(name, -1)) > 0:
                raise TodBiasError(
                    f"{name.replace('_', '-')} is {opt[name]}: it shows dialogues without all of their tellings, and "
                    "the numbers would be wrong; use --max-per-axis with --unperturbed drop"
                )
        super().__init__(opt, shared)

    def share(self) -> dict[str, Any]:
        """What the copies of a batch have in common."""
        shared: dict[str, Any] = super().share()  # type: ignore[misc]
        return {**shared, "audited": self._audited, "measures": self._measures}

    @classmethod
    def _add_options(cls, parser: ParlaiParser) -> None:
        add_fairscore_options(parser, DEFAULT_METRICS)

    # what is shown -------------------------------------------------------------------------------------------------

    def _perturb(self, fold: str) -> list[TodStructuredEpisode]:
        """The stock episodes, each with its dialogue's id; told otherwise once ParlAI has chosen among them."""
        episodes = []
        for episode, dialogue in self._identified(fold):
            if dialogue.id in self._whole:
                raise CorpusError(f"{self.corpus}, {fold}: two dialogues have the id {dialogue.id!r}; ids must differ")
            self._whole[dialogue.id] = dialogue
            episodes.append(episode)
        return episodes

    def generate_episodes(self) -> list[TodStructuredEpisode]:
        """Every chosen dialogue as it is, followed by its tellings; in the corpus's order, so that tellings that are
        dealt out are those of ``tod-bias attribute``.

        Raises:
            AxisError: an unknown axis or attribute.
            NothingToPerturbError: no dialogue can be told otherwise.
            TodBiasError: a number or metric that makes no sense.
        """
        if self._shown is None:
            opt: Opt = self.opt  # type: ignore[attr-defined]
            _design(opt)
            self._measures += _measures(opt.get("bias_metrics") or DEFAULT_METRICS)
            self._shown = self._tell(super().generate_episodes())  # type: ignore[misc]
        return self._shown

    def _tell(self, episodes: Sequence[TodStructuredEpisode]) -> list[TodStructuredEpisode]:
        opt: Opt = self.opt  # type: ignore[attr-defined]
        fold: str = self.fold  # type: ignore[attr-defined]
        corpus = load_corpus(self.corpus, datapath=opt["datapath"], split=fold)
        place = {dialogue.id: number for number, dialogue in enumerate(corpus)}
        stock = {episode.extras[DIALOGUE_ID]: episode for episode in episodes}
        dialogues = [self._whole[name] for name in sorted(stock, key=lambda name: (place.get(name, len(place)), name))]
        perturber = perturber_of(opt)
        try:
            design = design_counterfactuals(dialogues, [perturber], _design(opt), seed=opt.get("seed") or 0)
        except NothingToPerturbError as error:
            raise self._nothing(fold, len(dialogues)) from error
        drawn = design.selected[perturber.name]
        runs = zip(
            drawn, design.counterfactuals.of(perturber.name, drawn), shares_of([some for _, some in drawn]), strict=True
        )
        told: dict[str, list[TodStructuredEpisode]] = {}
        for (dialogue, _), retold, shares in runs:
            own = (shares[0], *shares[1])
            shown = _episodes(retold, stock[dialogue.id], self._whole[dialogue.id])
            tellings = [
                AuditedTelling(episode_to_dialogue(episode).turns, share, run.rewrite)
                for episode, run, share in zip(shown, (retold.original, *retold.groups), own, strict=True)
            ]
            names = [episode.extras["telling"] for episode in shown]
            self._audited[dialogue.id] = AuditedDialogue(names[0], dict(zip(names, tellings, strict=True)))
            told[dialogue.id] = [episode for episode in shown if episode.extras["telling"] != STOCK]
        count = sum(len(audited.tellings) - 1 for audited in self._audited.values())
        parlai_logging.info(
            f"axis {perturber.name}, seed {opt.get('seed') or 0}: {len(told)} of {len(dialogues)} dialogues told "
            f"otherwise, in {count} tellings"
        )
        kept = [one.id for one in dialogues if one.id in told or opt.get("unperturbed") != "drop"]
        return [episode for name in kept for episode in (stock[name], *told.get(name, ()))]

    def setup_data(self, fold: str) -> Iterator[tuple[dict[str, Any], bool]]:
        """The messages, each with its dialogue's id, its telling and its turn; -1 for the one before the first turn."""
        episodes = iter(self.generate_episodes())
        telling, number = STOCK, 0
        for message, is_first in super().setup_data(fold):
            number = 0 if is_first else number + 1
            if is_first:
                telling = next(episodes).extras.get("telling", STOCK)
            yield {**message, "telling": telling, "turn": (number - 1) // 2}, is_first

    # what is counted -----------------------------------------------------------------------------------------------

    def observe(self, observation: Message) -> Message:
        """ParlAI's own metrics of a dialogue as it is; of a telling the bias alone."""
        action = None if getattr(self, "lastY", None) is None else self.last_act  # type: ignore[attr-defined]
        if action is None or action["telling"] == STOCK:
            seen: Message = super().observe(observation)  # type: ignore[misc]
            return seen
        self.lastY = None
        self.metrics.clear_recent()  # type: ignore[attr-defined]
        self._audit(action, observation)
        observation.pop("metrics", None)  # the agent's own, which ParlAI would have counted
        observation["metrics"] = self.metrics.report_recent()  # type: ignore[attr-defined]
        return observation

    def custom_evaluation(self, teacher_action: Message, labels: Any, model_response: Message) -> None:
        """ParlAI's own metrics, and what a dialogue as it is adds to the bias."""
        super().custom_evaluation(teacher_action, labels, model_response)  # type: ignore[misc]
        self._audit(teacher_action, model_response)

    def _audit(self, action: Message, reply: Message) -> None:
        audited = self._audited.get(action[DIALOGUE_ID])
        if audited is None or action["telling"] not in audited.tellings:
            return
        name, turn = action["telling"], action["turn"]
        telling = audited.tellings[name]
        if turn < 0:
            key = "told_dialogues" if name == audited.original else "tellings"
            self.metrics.add(key, SumMetric(1))  # type: ignore[attr-defined]
        if not 0 <= turn < len(telling.turns):  # ParlAI's own first message, and its last round
            return
        is_call = action["type"] == STANDARD_CALL
        if not is_call and action["type"] != STANDARD_SYSTEM_UTTERANCE:
            return
        answer = answer_of(reply.get("text") or "", API_CALL if is_call else SYSTEM)
        counted = [(telling.shares.said, _told(answer, telling.turns[turn], is_call))]
        if name == audited.original:
            for other in audited.tellings.values():
                if other.rewrite is not None:
                    counted.append((other.shares.blind, _told(other.rewrite(answer), other.turns[turn], is_call)))
        for place, measure in enumerate(self._measures):
            if (measure in CALL_METRICS) == is_call:
                self._add("" if place == 0 else f"{measure}/", measure, counted)

    def _add(self, prefix: str, measure: str, counted: Sequence[tuple[Sequence[Share], ScoredTurn]]) -> None:
        score = measure_of(measure)
        rows = np.asarray(score.statistics([told for _, told in counted]), dtype=float)
        found: dict[str, dict[str, np.ndarray]] = {}
        for (shares, _), row in zip(counted, rows, strict=True):
            for key, of, weight in shares:
                if key != "fairscore" or score.scale == "ratio":
                    sums = found.setdefault(key, {})
                    sums[of] = sums[of] + weight * row if of in sums else weight * row
        for key, sums in found.items():
            self.metrics.add(prefix + key, kind_of(key)(measure, sums))  # type: ignore[attr-defined]


class FairscoreGoogleSgdTeacher(FairscoreTeacher, PerturbedGoogleSgdTeacher):
    """``google_sgd`` in all its tellings."""


def _measures(names: str) -> list[str]:
    """The names of the scores, each as :func:`tod_bias.metrics.choice.metric` takes it."""
    found = [name.strip() for name in names.split(",") if name.strip()]
    metrics_of(found)
    for name in found:
        if name in UNSUITABLE:
            raise TodBiasError(
                f"--bias-metrics: {name} cannot be told from one answer in ParlAI; use `tod-bias attribute`, or another"
            )
    return found


def _told(answer: Any, gold: Turn, is_call: bool) -> ScoredTurn:
    """A turn of which the agent's call or its response is known; scores read either."""
    calls = calls_of(answer) if is_call else ()
    return ScoredTurn(
        user=str(gold.user),
        calls=None if calls is None else tuple(calls),
        results=(),
        response="" if is_call else as_text(answer),
        gold=gold,
    )


def _episodes(retold: Variants, stock: TodStructuredEpisode, whole: Dialogue) -> list[TodStructuredEpisode]:
    """The episodes of the original and of its tellings; an introduced dialogue is another one than the stock task's."""
    base = retold.original.dialogue
    original, name = stock, STOCK
    if base.turns != whole.turns:
        original, name = dialogue_to_episode(base, stock), retold.original.variant
        if name == STOCK:  # a perturber of one's own that arranges dialogues
            name = "arranged"
    original.extras = {**original.extras, "telling": name}
    shown = [original]
    for run in retold.groups:
        assert run.rewrite is not None
        episode = rewrite_episode(original, run.rewrite, base.id)
        episode.extras["telling"] = run.variant
        shown.append(episode)
    return shown


def _design(opt: Opt) -> DesignOptions:
    return DesignOptions.of(
        {
            "design": opt.get("design") or "crossed",
            "draws": _draws(opt),
            "variants": opt.get("tellings"),
            "max_per_axis": opt.get("max_per_axis"),
        }
    )


def _draws(opt: Opt) -> int:
    given = opt.get("draws")
    return 3 if given is None else int(given)
