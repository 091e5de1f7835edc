"""Loads the system, the dialogues and the axes of an audit, and chooses its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tod_bias.audit.checks import check_executor, checked_order, clusters_of
from tod_bias.cli.checks import check_access, check_folder, check_metrics, folder_of
from tod_bias.cli.work.axes import load_axes
from tod_bias.cli.work.loading import check_system, load_dialogues, load_system
from tod_bias.config import PLACEBO, AuditConfig
from tod_bias.errors import TodBiasError
from tod_bias.io.cache import CACHE_FILE
from tod_bias.io.folder import check_no_other_run
from tod_bias.report.console import echo
from tod_bias.results import RESULTS, TURNS, VARIANTS
from tod_bias.systems.saved_responses import SavedResponses


@dataclass(frozen=True)
class Audited:
    """Inputs of an audit, and its folder."""

    system: Any
    """A pipeline, or saved responses."""
    dialogues: Sequence[Any]
    axes: Sequence[Any]
    folder: Path
    """Folder for the results."""


def load_audited(config: AuditConfig, out: Path | None, *, is_plan: bool) -> Audited:
    """Load the inputs of an audit, and raise if an option cannot be used.

    Args:
        config: the options.
        out: folder for the results; by default one named after the corpus.
        is_plan: True if no stage is run.

    Raises:
        TodBiasError: an option cannot be used.
    """
    check_metrics(config.analysis.metrics or ())
    check_executor(config.run.executor, config.run.workers)
    if config.axes.perturber is not None and config.run.executor != "local":
        raise TodBiasError("--perturber runs in this process; leave out --executor")
    clusters_of(config.analysis.cluster)
    corpus, responses = config.corpus.corpus, config.run.responses
    whole, dialogues = load_dialogues(config.corpus, config.seed)
    out = check_folder(out, corpus)
    if not is_plan:
        check_no_other_run(out, RESULTS, TURNS, VARIANTS, CACHE_FILE)
    saved = None if responses is None else SavedResponses(responses)
    stages = saved.names if saved else check_system(corpus, config.system, config.corpus.world)
    checked_order(stages, config.analysis.order)
    axes = load_axes(config.axes, config.axes.audited, config.system.device)
    if saved is None:
        system: Any = load_system(corpus, config.system, whole, config.corpus.world, offline=is_plan)
        if not is_plan:
            check_access(system, out, corpus)
    else:
        system = saved
        if config.axes.is_placebo_implied and not _has_placebo(saved):
            axes = [axis for axis in axes if axis.name != PLACEBO]
            echo(f"({responses}: has no responses to the placebo, which is left out)", err=True)
    return Audited(system, dialogues, axes, folder_of(out, corpus))


def _has_placebo(saved: SavedResponses) -> bool:
    """Return whether saved responses include those to the placebo."""
    return any(variant.partition(":")[0] == PLACEBO for variant in saved.variants)
