"""The run of ``tod-bias evaluate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tod_bias.audit.evaluation import evaluate
from tod_bias.cli.checks import cache_of, folder_of
from tod_bias.config import EvaluateConfig
from tod_bias.dialogues.corpora import split_of
from tod_bias.io.folder import shown
from tod_bias.models.processes import is_first_process
from tod_bias.report.console import Console
from tod_bias.report.terminal import evaluation_table


def run_evaluation(config: EvaluateConfig, system: Any, dialogues: Sequence[Any], out: Path, *, quiet: bool) -> None:
    """Score a system, write evaluation.json, and print the scores.

    Args:
        config: the options.
        system: the pipeline.
        dialogues: a sample of the corpus.
        out: folder for the results.
        quiet: print nothing.
    """
    corpus = config.corpus.corpus
    folder = folder_of(out, corpus)
    result = evaluate(
        system,
        dialogues,
        metrics=config.scores.metrics,
        history=config.turns.history,
        bootstrap=config.scores.bootstrap,
        seed=config.seed,
        cache=cache_of(folder, config.turns.resume),
        show_progress=not quiet,
    )
    if not is_first_process():
        return
    about = result.corpus.model_copy(update={"name": corpus, "split": split_of(corpus, config.corpus.split)})
    result = result.model_copy(update={"corpus": about})
    result.save(folder)
    if not quiet:
        Console().print(evaluation_table(result))
        print(f"Results: {shown(folder / 'evaluation.json')}")
