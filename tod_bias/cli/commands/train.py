"""``tod-bias train``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from tod_bias.cli.checks import check_datapath, refuse
from tod_bias.cli.options import command
from tod_bias.config import DEMO, IN_FILE, CorpusSource, OutputOptions, Positive, ResumeOptions, SampleOptions
from tod_bias.io.documents import read_json
from tod_bias.io.folder import claimed
from tod_bias.models.processes import is_first_process
from tod_bias.models.settings import SCRATCH, TrainConfig, check_arch

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
    if config.init != "scratch":
        refuse(config, SCRATCH, f"for models from scratch; {config.init} has its own")
    _check_arch(config.init, config.arch)
    from tod_bias.cli.work.training_dialogues import load_training

    claimed(output.out)
    loaded = load_training(
        source, source.max_dialogues, source.held_out, source.augment, config.seed, show_progress=not output.quiet
    )

    from tod_bias.models.training import train as train_model  # heavy imports come after what may go wrong at once

    record = train_model(*loaded, output.out, config, resume=output.resume, show_progress=not output.quiet)
    if not output.quiet and is_first_process():
        _print(record, output.out)


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
