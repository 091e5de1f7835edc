"""``tod-bias evaluate``."""

from __future__ import annotations

from tod_bias.cli.arguments import (
    cache_of,
    check_folder,
    check_metrics,
    check_system,
    folder_of,
    load_dialogues,
    load_system,
)
from tod_bias.cli.options import command
from tod_bias.config import EvaluateConfig, OutputOptions
from tod_bias.io.folder import shown
from tod_bias.models.processes import is_first_process
from tod_bias.report.console import Console


@command("tod-bias evaluate --corpus dialogues.jsonl --pipeline system.yaml --out runs/scores")
def evaluate(*, config: EvaluateConfig, output: OutputOptions) -> None:
    """Joint goal accuracy, BLEU and other scores of a pipeline on a corpus (Su Table 1); writes evaluation.json."""
    corpus, metrics = config.corpus.corpus, config.scores.metrics
    whole, dialogues = load_dialogues(config.corpus, config.seed)
    check_metrics(metrics, alone=True)
    out = check_folder(output.out, corpus)
    check_system(corpus, config.system)

    import tod_bias.audit.evaluation  # heavy imports come after what may go wrong at once
    from tod_bias.dialogues.corpora import split_of

    system = load_system(corpus, config.system, whole)
    folder = folder_of(out, corpus)
    result = tod_bias.audit.evaluation.evaluate(
        system,
        dialogues,
        metrics=metrics,
        history=config.turns.history,
        bootstrap=config.scores.bootstrap,
        seed=config.seed,
        cache=cache_of(folder, config.turns.resume),
        show_progress=not output.quiet,
    )
    if not is_first_process():
        return
    about = result.corpus.model_copy(update={"name": corpus, "split": split_of(corpus, config.corpus.split)})
    result = result.model_copy(update={"corpus": about})
    result.save(folder)
    if not output.quiet:
        from tod_bias.report.evaluation import table

        Console().print(table(result))
        print(f"Results: {shown(folder / 'evaluation.json')}")
