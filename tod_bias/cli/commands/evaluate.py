"""``tod-bias evaluate``."""

from __future__ import annotations

from tod_bias.cli.checks import check_folder, check_metrics
from tod_bias.cli.options import command
from tod_bias.config import EvaluateConfig, OutputOptions


@command("tod-bias evaluate --corpus dialogues.jsonl --pipeline system.yaml --out runs/scores")
def evaluate(*, config: EvaluateConfig, output: OutputOptions) -> None:
    """Joint goal accuracy, BLEU and other scores of a pipeline on a corpus (Su Table 1); writes evaluation.json."""
    from tod_bias.cli.work import loading

    corpus = config.corpus.corpus
    whole, dialogues = loading.load_dialogues(config.corpus, config.seed)
    check_metrics(config.scores.metrics, alone=True)
    out = check_folder(output.out, corpus)
    loading.check_system(corpus, config.system)

    from tod_bias.cli.work.evaluate import run_evaluation  # heavy imports come after what may go wrong at once

    system = loading.load_system(corpus, config.system, whole)
    run_evaluation(config, system, dialogues, out, quiet=output.quiet)
