"""ParlAI's task-oriented system teachers that report bias: every dialogue with all its counterfactuals.

    parlai eval_model -t tod_bias.agents:FairscoreGoogleSgdTeacher --axis gender -dt valid -dp DATAPATH -m … -bs 16

The stock task's dialogues are shown as they are. After each dialogue come its counterfactuals along the axis. ParlAI's
table has a row for each of ``--bias-metrics``, and below it one for each group:

===============================  ======================================================================================
``METRIC/score``                 the score of the originals, of dialogues that can be rewritten
``METRIC/fairscore``             Su eq. 1: the absolute difference between the scores of counterfactuals and originals,
                                 as a share of the originals' score; ``su.fairscore`` in ``results.json``
``METRIC/ci_from``, ``ci_to``    the 95 % interval of the fairscore, over dialogues
``METRIC/GROUP/score``           the score of the dialogues that express the group, rewritten or as they are
``METRIC/GROUP/gap``             the group's gap from the mean of groups on the same dialogues, as in ``results.json``;
                                 positive is harm
===============================  ======================================================================================

``--bias-report full`` adds ParlAI's own metrics (``jga``, ``nlg_bleu``, ``exs`` …), which are of the stock dialogues
alone, as the stock teacher reports them, and

===============================  ======================================================================================
``METRIC/disparity``             the score of the system's equivariant twin minus that of the system, on the
                                 counterfactuals; 0 for a system that treats a counterfactual as the original
``METRIC/score_rewritten``       the score of the counterfactuals
``rewritten_dialogues``          number of dialogues with counterfactuals
``variants``                     number of counterfactuals
===============================  ======================================================================================

``jga`` and ``slot_f1`` score API calls. All other metrics, including your own (``module:Class``), score responses. Only
metrics whose scale is ``ratio`` have a fairscore. A warning says if the originals' score is so close to 0 that shares
of it are noise.

All numbers are computed from sums over turns (:mod:`tod_bias.agents.bias_metrics`), so batch size and number of workers
do not change them. They equal those of ``tod-bias attribute`` for the same system. For a ``PipelineAgent``, which calls
its own stages, the system is its pipeline. For any other agent it is :func:`tod_bias.agents.teacher_pipeline`, which
requests a response after the gold call and result, as ParlAI does. Gaps have no intervals and no tests, so the report
supports no claim.

``--num-examples`` of an evaluation and ``--validation-max-exs`` raise an error, because they would separate dialogues
from their counterfactuals; use ``--n-shot`` or ``--max-per-axis``. If an option of the task changes texts
(``--delex``), the changed texts are rewritten. ``jga`` and ``slot_f1`` of Taskmaster-2 differ from the stock teacher's,
which lets slots of later calls into earlier ones. If several tasks are evaluated at once, read each task's own row: the
first row of ParlAI's report is their mean.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import parlai.utils.logging as parlai_logging
from parlai.core.message import Message
from parlai.core.metrics import SumMetric
from parlai.core.opt import Opt
from parlai.core.tod.tod_core import STANDARD_CALL, STANDARD_SYSTEM_UTTERANCE, TodStructuredEpisode

from tod_bias.agents.bias_metrics import Addend, AuditedVariant, SystemAndTwin, addends_of, measure_of, metric_of
from tod_bias.agents.episodes import dialogue_to_episode, rewritten_episode
from tod_bias.agents.options import AXIS_OPTIONS, axis_of
from tod_bias.agents.protocol import output_of
from tod_bias.agents.teachers import CounterfactualEpisodes
from tod_bias.audit.checks import metrics_of, why_noise
from tod_bias.audit.design import design_counterfactuals
from tod_bias.audit.plan import planned_variants
from tod_bias.audit.variant_index import VariantIndex
from tod_bias.config import DesignOptions
from tod_bias.dialogues.calls import calls_of
from tod_bias.dialogues.corpora import corpus_of_task, load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.parlai_episodes import DIALOGUE_ID, episode_to_dialogue
from tod_bias.dialogues.text import API_CALL, SYSTEM
from tod_bias.errors import NothingToPerturbError, TodBiasError
from tod_bias.metrics.metric import ScoredTurn
from tod_bias.perturb.axis import Variants
from tod_bias.statistics.settings import Inference
from tod_bias.systems.outputs import as_text

CALL_METRICS = ("jga", "slot_f1")
"""Metrics of API calls; all others are metrics of responses."""
UNSUITABLE = ("success", "disagreement", "call_disagreement")
"""Metrics that need all results of a call, or an output together with its twin's."""
DEFAULT_METRICS = "corpus_bleu,jga,slot_f1"
BOUNDS = ("ci_from", "ci_to")
"""The bounds of the fairscore's interval in the report."""
COUNTS = ("rewritten_dialogues", "variants")
"""Numbers of originals and of counterfactuals in the report."""
SHORT = ("score", "fairscore", *BOUNDS, "gap")
"""The columns of the short report."""
STOCK = "original"
"""The field ``variant`` of a dialogue as the stock task has it."""


class FairscoreTeacher(CounterfactualEpisodes):
    """Mix-in, listed before a perturbed teacher, that reports bias.

    A new teacher takes two lines::

        class FairscoreMyTeacher(FairscoreTeacher, PerturbedMyTeacher):
            \"\"\"``my_task`` with all counterfactuals.\"\"\"
    """

    options = (
        "fairscore",
        {
            **AXIS_OPTIONS,
            "--design": {
                "default": "crossed",
                "choices": ("crossed", "draws"),
                "help": "crossed: rewrite every dialogue once for each group; draws: Su's random draws (Algorithm 1)",
            },
            "--draws": {"type": int, "default": 3, "help": "counterfactuals per dialogue, for --design draws"},
            "--variants": {"type": int, "help": "maximum number of counterfactuals per dialogue; by default all"},
            "--max-per-axis": {"type": int, "help": "maximum number of dialogues to rewrite, drawn with --seed"},
            "--bias-metrics": {
                "default": DEFAULT_METRICS,
                "help": "metrics of the counterfactuals, joined by commas",
            },
            "--bias-report": {
                "default": "short",
                "choices": ("short", "full"),
                "help": "short: scores, fairscores and gaps; full: all numbers, also ParlAI's own (as with "
                "--api-jga-record true)",
            },
            "--unperturbed": {
                "default": "keep",
                "choices": ("keep", "drop"),
                "help": "dialogues that cannot be rewritten: keep them for ParlAI's own metrics, or drop them",
            },
        },
    )

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        self._measures: list[str] = [] if shared is None else shared["measures"]
        self._audited: dict[str, dict[str, AuditedVariant]] = {} if shared is None else shared["audited"]
        self._variants: list[VariantIndex] = [] if shared is None else shared["variants"]
        self._warned: set[str] = set()
        cuts = ("validation_max_exs",) if "display_add_fields" in opt else ("num_examples", "validation_max_exs")
        for name in cuts:  # what is displayed is not counted
            if int(opt.get(name, -1)) > 0:
                raise TodBiasError(
                    f"{name.replace('_', '-')} is {opt[name]}: some dialogues would lack counterfactuals, "
                    "and the numbers would be wrong; use --max-per-axis with --unperturbed drop"
                )
        super().__init__(opt, shared)

    def share(self) -> dict[str, Any]:
        """Return the state that the copies of a batch share."""
        shared: dict[str, Any] = super().share()  # type: ignore[misc]
        return {**shared, "audited": self._audited, "measures": self._measures, "variants": self._variants}

    # what is shown -------------------------------------------------------------------------------------------------

    def with_counterfactuals(self, episodes: list[TodStructuredEpisode]) -> list[TodStructuredEpisode]:
        """Return every chosen dialogue as it is, followed by its counterfactuals.

        Dialogues are in the corpus's order, so that they are dealt the same groups as by ``tod-bias attribute``.
        """
        opt: Opt = self.opt  # type: ignore[attr-defined]
        fold: str = self.fold  # type: ignore[attr-defined]
        self._measures += _measures(opt.get("bias_metrics") or DEFAULT_METRICS)
        given = {name: opt.get(name) for name in ("design", "draws", "variants", "max_per_axis")}
        options = DesignOptions.of({name: value for name, value in given.items() if value is not None})
        stock = {episode.extras[DIALOGUE_ID]: episode for episode in episodes}
        dialogues = self._in_corpus_order(fold, stock)
        axis, seed = axis_of(opt), opt.get("seed") or 0
        try:
            design = design_counterfactuals(dialogues, [axis], options, seed=seed)
        except NothingToPerturbError as error:
            raise self._nothing_to_rewrite(fold, len(dialogues)) from error
        selected = design.selected[axis.name]
        counterfactuals = design.counterfactuals.of(axis.name, selected)
        self._variants.append(planned_variants(axis, selected))
        addends = addends_of([candidates for _, candidates in selected])
        rewritten = {
            dialogue.id: self._counterfactuals(stock[dialogue.id], variants, sums)
            for (dialogue, _), variants, sums in zip(selected, counterfactuals, addends, strict=True)
        }
        count = sum(len(audited) - 1 for audited in self._audited.values())
        parlai_logging.info(
            f"axis {axis.name}, seed {seed}: {len(rewritten)} of {len(dialogues)} dialogues rewritten, "
            f"{count} counterfactuals"
        )
        if opt.get("unperturbed") == "drop":
            dialogues = [dialogue for dialogue in dialogues if dialogue.id in rewritten]
        return [episode for dialogue in dialogues for episode in (stock[dialogue.id], *rewritten.get(dialogue.id, ()))]

    def _counterfactuals(
        self, stock: TodStructuredEpisode, variants: Variants, addends: Sequence[SystemAndTwin]
    ) -> list[TodStructuredEpisode]:
        """Return the episodes after the stock episode of a dialogue; all its variants are audited from now on."""
        name = stock.extras[DIALOGUE_ID]
        shown = _episodes(variants, stock, self._dialogues[name])
        self._audited[name] = {
            episode.extras["variant"]: AuditedVariant(episode_to_dialogue(episode).turns, run.rewrite, *sums)
            for episode, run, sums in zip(shown, (variants.original, *variants.groups), addends, strict=True)
        }
        return [episode for episode in shown if episode.extras["variant"] != STOCK]

    def _in_corpus_order(self, fold: str, names: Collection[str]) -> list[Dialogue]:
        """Return the dialogues of these ids in the corpus's order, unknown ones last."""
        name = corpus_of_task(self.corpus)  # type: ignore[attr-defined]
        corpus = load_corpus(name, datapath=self.opt["datapath"], split=fold)  # type: ignore[attr-defined]
        place = {dialogue.id: number for number, dialogue in enumerate(corpus)}
        return [self._dialogues[name] for name in sorted(names, key=lambda name: (place.get(name, len(place)), name))]

    def setup_data(self, fold: str) -> Iterator[tuple[dict[str, Any], bool]]:
        """Yield the messages with the ids of their dialogues, their variants and turns; -1 is before the first turn."""
        episodes = iter(self.generate_episodes())
        variant, number = STOCK, 0
        for message, is_first in super().setup_data(fold):
            number = 0 if is_first else number + 1
            if is_first:
                variant = next(episodes).extras.get("variant", STOCK)
            yield {**message, "variant": variant, "turn": (number - 1) // 2}, is_first

    # what is reported ----------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """Return the metrics that ``--bias-report`` selects; at the end, warn once if fairscores and gaps are noise."""
        report: dict[str, Any] = super().report()  # type: ignore[misc]
        opt: Opt = self.opt  # type: ignore[attr-defined]
        seed = Inference(seed=opt.get("seed") or 0).seed_of(axis_of(opt).name)
        for measure in self._measures:
            whole = report.get(f"{measure}/fairscore")
            if whole is not None:
                report |= {f"{measure}/{name}": whole.bound(place, seed) for place, name in enumerate(BOUNDS)}
        counted = sum(float(report[name].value()) for name in COUNTS if name in report)
        is_complete = counted == sum(map(len, self._audited.values()))
        if is_complete:
            self._warn(report)
        if opt.get("bias_report") == "full" or opt.get("api_jga_record"):
            return report
        # ParlAI shows the progress of a run by its own number of examples
        return {name: value for name, value in report.items() if _is_short(name) or (name == "exs" and not is_complete)}

    def _warn(self, report: Mapping[str, Any]) -> None:
        for measure in self._measures:
            score = report.get(f"{measure}/score")
            why = "" if score is None else why_noise(measure_of(measure), score.value())
            if why and measure not in self._warned:
                self._warned.add(measure)
                parlai_logging.warning(why)

    # what is counted -----------------------------------------------------------------------------------------------

    def observe(self, observation: Message) -> Message:
        """Count ParlAI's own metrics for a dialogue as it is, and only the bias for a counterfactual."""
        action = None if getattr(self, "lastY", None) is None else self.last_act  # type: ignore[attr-defined]
        if action is None or action["variant"] == STOCK:
            seen: Message = super().observe(observation)  # type: ignore[misc]
            return seen
        self.lastY = None
        self.metrics.clear_recent()  # type: ignore[attr-defined]
        self._audit(action, observation)
        observation.pop("metrics", None)  # the agent's own, which ParlAI would have counted
        observation["metrics"] = self.metrics.report_recent()  # type: ignore[attr-defined]
        return observation

    def custom_evaluation(self, teacher_action: Message, labels: Any, model_response: Message) -> None:
        """Count ParlAI's own metrics, and the contribution of a dialogue as it is to the bias."""
        super().custom_evaluation(teacher_action, labels, model_response)  # type: ignore[misc]
        self._audit(teacher_action, model_response)

    def _audit(self, action: Message, reply: Message) -> None:
        variants = self._audited.get(action[DIALOGUE_ID], {})
        variant, turn = variants.get(action["variant"]), action["turn"]
        if variant is None:
            return
        if turn < 0:
            key = "rewritten_dialogues" if variant.rewrite is None else "variants"
            self.metrics.add(key, SumMetric(1))  # type: ignore[attr-defined]
        if not 0 <= turn < len(variant.turns):  # ParlAI's own first message, and its last round
            return
        is_call = action["type"] == STANDARD_CALL
        if not is_call and action["type"] != STANDARD_SYSTEM_UTTERANCE:
            return
        output = output_of(reply.get("text") or "", API_CALL if is_call else SYSTEM)
        scored = [(variant.system, _scored_turn(output, variant.turns[turn], is_call))]
        if variant.rewrite is None:  # what the output becomes in every counterfactual
            scored += [
                (other.twin, _scored_turn(other.rewrite(output), other.turns[turn], is_call))
                for other in variants.values()
                if other.rewrite is not None
            ]
        for measure in self._measures:
            if (measure in CALL_METRICS) == is_call:
                self._add(measure, scored)

    def _add(self, measure: str, scored: Sequence[tuple[Sequence[Addend], ScoredTurn]]) -> None:
        score = measure_of(measure)
        rows = np.asarray(score.statistics([turn for _, turn in scored]), dtype=float)
        sums_of: dict[str, dict[str, np.ndarray]] = {}
        for (addends, _), row in zip(scored, rows, strict=True):
            for key, name, weight in addends:
                if key != "fairscore" or score.scale == "ratio":
                    sums = sums_of.setdefault(key, {})
                    sums[name] = sums[name] + weight * row if name in sums else weight * row
        for key, sums in sums_of.items():
            self.metrics.add(f"{measure}/{key}", metric_of(key, measure, sums, self._variants[0]))  # type: ignore[attr-defined]


def _is_short(name: str) -> bool:
    row, _, column = name.rpartition("/")
    return bool(row) and column in SHORT


def _measures(names: str) -> list[str]:
    """Return the names of the metrics, each as :func:`tod_bias.metrics.choice.metric` takes it."""
    measures = [name.strip() for name in names.split(",") if name.strip()]
    metrics_of(measures)
    for name in measures:
        if name in UNSUITABLE:
            raise TodBiasError(
                f"--bias-metrics: {name} cannot be computed from one output in ParlAI; use `tod-bias attribute`, or "
                "another metric"
            )
    return measures


def _scored_turn(output: Any, gold: Turn, is_call: bool) -> ScoredTurn:
    """Make a turn with the agent's call or its response; scores read either."""
    calls = calls_of(output) if is_call else ()
    return ScoredTurn(
        user=str(gold.user),
        calls=None if calls is None else tuple(calls),
        results=(),
        response="" if is_call else as_text(output),
        gold=gold,
    )


def _episodes(variants: Variants, stock: TodStructuredEpisode, dialogue: Dialogue) -> list[TodStructuredEpisode]:
    """Return the episodes of the original and of its counterfactuals.

    On an axis of introductions, the original differs from the stock task's dialogue.
    """
    base = variants.original.dialogue
    original, name = stock, STOCK
    if base.turns != dialogue.turns:
        original, name = dialogue_to_episode(base, stock), variants.original.variant
        if name == STOCK:  # a custom axis that arranges dialogues
            name = "arranged"
    episodes = [original, *(rewritten_episode(original, run.rewritten, run.rewrite) for run in variants.groups)]
    for episode, variant in zip(episodes, (name, *(run.variant for run in variants.groups)), strict=True):
        episode.extras = {**episode.extras, "variant": variant}
    return episodes
