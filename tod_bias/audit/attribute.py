"""The main job in three calls: design counterfactuals, run the system on them, analyse what it put out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tod_bias.audit.analysis import analyse
from tod_bias.audit.choices import checked_order
from tod_bias.audit.design import design_counterfactuals
from tod_bias.audit.run import Measures, run
from tod_bias.config import AuditConfig
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import IncompleteError, TodBiasError
from tod_bias.io.cache import FILE
from tod_bias.io.folder import claimed
from tod_bias.perturb.axis import Axis
from tod_bias.results import AuditResult
from tod_bias.systems.pipeline import Pipeline


def attribute(
    pipeline: Pipeline,
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis] | str = ("gender",),
    *,
    config: AuditConfig | None = None,
    out: str | Path | None = None,
    cache: str | Path | None = None,
    show_progress: bool = False,
    **settings: Any,
) -> AuditResult:
    """Measure how differently a pipeline serves original and rewritten dialogues, and split that over its stages.

    Args:
        pipeline: the system; the output of the last stage called is the response.
        dialogues: those without a term to rewrite are counted and left out.
        axes: names (``gender``, ``age``, ``race``, ``placebo``) or axis objects. With ``placebo`` among them every
            other axis gets a placebo with as many edits in the same dialogues, and claims what is above it.
        config: every option; by default all at their defaults (:class:`~tod_bias.config.AuditConfig`).
        out: the run's folder: outputs are cached there as they come, results are written there at the end.
        cache: SQLite file for outputs, where they shall lie elsewhere than in ``out``.
        show_progress: on stderr.
        settings: single options by name, over those of ``config``: ``metrics="jga"``, ``design="draws"``, ``seed=1``.
            ``metrics`` takes objects as well as names, ``cluster`` pairs of a name and a function of a dialogue.

    Returns:
        The content of ``results.json``, with the frame of turns as ``.turns``.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        IncompleteError: that holds for some of the axes, or a metric has no value on the originals of one; it carries
            the result of the others, which names what it lacks under ``left_out``.
        StageError: a stage broke its contract or left too many calls without an output, or ``order`` does not name
            every stage once.
        AxisError: an unknown axis, or one given twice.
        TodBiasError: an unknown option, metric or cluster, or a value that an option cannot have.
    """
    if not isinstance(pipeline, Pipeline):
        raise TodBiasError(f"the system must be a Pipeline, got {type(pipeline).__name__}: Pipeline({{name: stage}})")
    dialogues = list(dialogues)
    measures, settings = Measures.of(config, settings, dialogues)
    names = [axes] if isinstance(axes, str) else [axis for axis in axes if isinstance(axis, str)]
    if names and (isinstance(axes, str) or len(names) == len(axes)):
        settings = {"axes": names, **settings}
    config = AuditConfig.with_settings(config, settings)
    order = checked_order(pipeline.names, config.analysis.order)
    folder = None if out is None else claimed(out)
    if folder is not None and cache is None:
        cache = folder / FILE
    design = design_counterfactuals(dialogues, axes, config.design, seed=config.seed)
    outputs = run(pipeline, design, measures, config.run, cache=cache, show_progress=show_progress)
    try:
        result = analyse(outputs, design, measures, config, order=order, show_progress=show_progress)
    except IncompleteError as error:
        if folder is not None:
            error.result.save(folder)
        raise
    if folder is not None:
        result.save(folder)
    return result
