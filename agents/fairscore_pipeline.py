"""A ParlAI agent as a pipeline with the calls that a fairscore teacher makes, so that the numbers are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tod_bias.agents.stage import ParlaiStage
from tod_bias.audit.design import design_counterfactuals
from tod_bias.config import DesignOptions
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.axis import Axis
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stages.replay import Replay
from tod_bias.systems.twin import Twin


def teacher_pipeline(
    agent: str,
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis],
    *,
    batch_size: int = 16,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    **design: Any,
) -> Pipeline:
    """The system that ``attribute`` must run to measure what ``parlai eval_model -t …:Fairscore…Teacher`` measures.

    ParlAI requests a response after the *gold* call and its gold result, whatever the agent's own call was. So does
    this pipeline: ``api_call`` and ``response`` are the agent, ``gold_call`` and ``gold_db`` return what the corpus
    has, rewritten as the dialogue is (they are always twins). Where several turns of a corpus have one history and one
    utterance (Taskmaster's assistants open dialogues alike), they get the call of the last of them; and ParlAI's
    MultiWOZ shows what a row lacks as ``nan``, which our reader leaves out. An agent that reads these things gets
    slightly other numbers there.

    Args:
        agent: as :class:`ParlaiStage` takes it.
        dialogues: the corpus.
        axes: as ``attribute`` takes them; ``placebo`` beside others too.
        batch_size: turns per call of the agent.
        options: ParlAI options of the agent.
        seed: of everything that is drawn.
        design: ``design``, ``draws``, ``variants`` and ``max_per_axis``, as ``attribute`` is given them.

    Raises:
        StageError: there is no such agent.
        NothingToPerturbError: no dialogue can be rewritten.
        AxisError: an unknown axis.
    """
    counterfactual_design = design_counterfactuals(dialogues, axes, DesignOptions.of(design), seed=seed)
    originals = [
        variants.original.rewritten
        for axis, selections in counterfactual_design.selected.items()
        for variants in counterfactual_design.counterfactuals.of(axis, selections)
    ]
    settings = {"batch_size": batch_size, "options": options}
    return Pipeline(
        {
            "api_call": ParlaiStage(agent, output="api_call", **settings),  # type: ignore[arg-type]
            "gold_call": Twin(Replay.gold(originals, "api_call")),
            "gold_db": Twin(Replay.gold(originals, "api_result")),
            "response": ParlaiStage(agent, output="response", api_call="gold_call", db="gold_db", **settings),  # type: ignore[arg-type]
        }
    )
