"""``tod-bias train`` and ``evaluate``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from tod_bias.cli.options import (
    cache_of,
    check_datapath,
    check_folder,
    check_metrics,
    check_system,
    command,
    folder_of,
    load_dialogues,
    load_system,
    refuse,
)
from tod_bias.config import (
    DEMO,
    IN_FILE,
    CorpusSource,
    EvaluateConfig,
    OutputOptions,
    Positive,
    ResumeOptions,
    SampleOptions,
)
from tod_bias.errors import TodBiasError
from tod_bias.io.folder import claimed, shown
from tod_bias.models.processes import is_first_process
from tod_bias.models.settings import SCRATCH, TrainConfig, check_arch
from tod_bias.report.console import Console

_MOST_TIMES = 1000
_READS = 0.01
"""Relative rise of the loss with other dialogues' prompts from which a model counts as reading its prompts."""


class TrainingDialogues(SampleOptions, CorpusSource):
    """Dialogues to train on."""

    corpus: str = DEMO
    """As for attribute. One training learns from several, joined by commas: google_sgd,taskmaster2:8 shows each
    dialogue of Taskmaster-2 eight times per epoch. --max-dialogues and held_out apply to each."""
    held_out: Annotated[Positive, IN_FILE] = 100
    """Training dialogues of each corpus held out for early stopping."""
    augment: str | None = None
    """Add counterfactual training dialogues: axes, and how: crossed (each for every group; by default), draws (one
    rewrite each) or personas, e.g. gender,age,race:draws."""


class TrainOutput(ResumeOptions, OutputOptions):
    """Folder for the model."""

    title = "Output"

    out: Path
    """Folder for the model."""


@command("tod-bias train --init gpt2 --corpus dialogues.jsonl --epochs 2 --out models/mine")
def train(*, source: TrainingDialogues, config: TrainConfig, output: TrainOutput) -> None:
    """Train or fine-tune a model on the training split of a corpus, in SimpleTOD fashion."""
    check_datapath(source)
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.sampling import hold_out
    from tod_bias.mitigation.augmentation import Augmentation
    from tod_bias.mitigation.augmentation import augment as augmented

    if config.init != "scratch":
        refuse(config, SCRATCH, f"for models from scratch; {config.init} has its own")
    how = None if source.augment is None else Augmentation.read(source.augment)
    _check_arch(config.init, config.arch)
    claimed(output.out)
    training, validation = [], []
    for corpus, times in _mixture(source.corpus):
        dialogues = load_corpus(
            corpus, datapath=source.datapath, split="train", max_dialogues=source.max_dialogues, seed=config.seed
        )
        originals, held_out = hold_out(dialogues, source.held_out, config.seed)
        learned = originals if how is None else augmented(originals, how, config.seed)
        training += learned * times
        validation += held_out
        if how is not None and not output.quiet and is_first_process():
            print(f"{len(learned) - len(originals):,} counterfactuals of {len(originals):,} training dialogues.")

    from tod_bias.models.training import train as train_model  # heavy imports come after what may go wrong at once

    record = train_model(training, validation, output.out, config, resume=output.resume, show_progress=not output.quiet)
    if not output.quiet and is_first_process():
        _print(record, output.out)


def _mixture(corpora: str) -> list[tuple[str, int]]:
    """The corpora of a training, each with how often its dialogues are shown per epoch.

    Raises:
        TodBiasError: an entry without a name, or a number that is not 1 to 1000.
    """
    mixture = []
    for entry in corpora.split(","):
        parts = re.fullmatch(r"(.+?)(?::(-?[\d.]+))?", entry.strip())
        times = "1" if parts is None else parts[2] or "1"
        if parts is None or not times.isdigit() or not 1 <= int(times) <= _MOST_TIMES:
            raise TodBiasError(
                f"--corpus {corpora}: expected NAME or NAME:N, with a whole number N from 1 to {_MOST_TIMES}, "
                f"joined by commas; got {entry.strip()!r}"
            )
        mixture.append((parts[1], int(times)))
    return mixture


def _print(record: Mapping[str, Any], out: Path) -> None:
    """Print the results of a training."""
    print(
        f"Trained {record['steps']} steps; lowest validation loss {record['validation_loss']:.4f} nats per token "
        f"at step {record['best_step']}. Model: {out}"
    )
    if "exchanged" not in record:
        return
    loss, exchanged = record["validation_loss"], record["exchanged"]
    print(f"With the prompts of other dialogues the same targets have {exchanged:.4f} nats per token.")
    if exchanged - loss < _READS * loss:
        print(
            f"This is less than {_READS:.0%} more: the model hardly reads its input, and an audit of such a model "
            f"finds no difference."
        )


def _check_arch(init: str, arch: str | None) -> None:
    """Raise if an architecture is not the checkpoint's, if its folder names one; the training checks again."""
    from tod_bias.io.documents import read_json

    file = Path(init) / "config.json"
    if init == "scratch" or arch is None or not file.is_file():
        return
    try:
        content = read_json(file)
        known = None if "auto_map" in content else content.get("model_type")
    except (OSError, ValueError, TypeError, AttributeError):
        return  # said by what loads it
    if known is not None:
        check_arch(init, known, arch)


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
        from tod_bias.report.terminal import evaluation_table

        Console().print(evaluation_table(result))
        print(f"Results: {shown(folder / 'evaluation.json')}")
