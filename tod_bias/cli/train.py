"""``tod-bias train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tod_bias.cli.arguments import names_of
from tod_bias.cli.options import (
    Arch,
    Corpus,
    Datapath,
    MaxDialogues,
    Quiet,
    Seed,
)


def train(
    arch: Annotated[Arch, typer.Option(help="gpt2 (causal), bart or t5 (sequence to sequence).")],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    init: Annotated[str, typer.Option(help="A checkpoint's name or folder to fine-tune, or 'scratch'.")] = "scratch",
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    max_dialogues: MaxDialogues = None,
    held_out: Annotated[int, typer.Option(min=1, help="Training dialogues held out for early stopping.")] = 100,
    parts: Annotated[str, typer.Option(help="Targets: api_call, response or both, by commas.")] = "api_call,response",
    loss: Annotated[str, typer.Option(help="gpt2: 'all' tokens count (SimpleTOD) or 'targets' only.")] = "all",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the dialogues at the most.")] = 3,
    learning_rate: Annotated[float | None, typer.Option(help="Peak; 1e-3 from scratch, else 5e-5.")] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens in a batch at the most.")] = 8192,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Stop after so many steps of the schedule.")] = None,
    evaluations: Annotated[int, typer.Option(min=1, help="Validations an epoch.")] = 2,
    patience: Annotated[int, typer.Option(min=1, help="Stop after so many without improvement.")] = 3,
    layers: Annotated[int, typer.Option(min=1, help="From scratch: layers.")] = 4,
    width: Annotated[int, typer.Option(min=1, help="From scratch: hidden size.")] = 256,
    heads: Annotated[int, typer.Option(min=1, help="From scratch: attention heads.")] = 4,
    vocabulary: Annotated[int, typer.Option(min=300, help="From scratch: tokens of the tokenizer.")] = 8192,
    dropout: Annotated[float, typer.Option(min=0, max=0.9, help="From scratch: dropout.")] = 0.1,
    max_length: Annotated[int, typer.Option(min=16, help="Tokens in a sequence at the most.")] = 1024,
    positions: Annotated[
        int | None, typer.Option(min=16, help="From scratch: positions of the model, if more than --max-length.")
    ] = None,
    bf16: Annotated[bool, typer.Option(help="Train in bfloat16.")] = False,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted training in the same folder.")] = True,
    quiet: Quiet = False,
) -> None:
    """Train or fine-tune a stage model in SimpleTOD fashion, on the training split of a corpus."""
    from tod_bias.dialogues.corpora import load_corpus

    dialogues = load_corpus(corpus, datapath=datapath, split="train", max_dialogues=max_dialogues, seed=seed)

    from tod_bias.models.settings import TrainingSettings
    from tod_bias.models.training import hold_out
    from tod_bias.models.training import train as train_model

    usual = 1e-3 if init == "scratch" else 5e-5
    settings = TrainingSettings(
        arch=arch.value,
        init=init,
        parts=tuple(names_of(parts)),  # type: ignore[arg-type]  # checked there
        loss=loss,  # type: ignore[arg-type]  # checked there
        epochs=epochs,
        learning_rate=usual if learning_rate is None else learning_rate,
        batch_tokens=batch_tokens,
        max_length=max_length,
        max_steps=max_steps,
        evaluations=evaluations,
        patience=patience,
        bf16=bf16,
        seed=seed,
        vocabulary=vocabulary,
        layers=layers,
        width=width,
        heads=heads,
        dropout=dropout,
        positions=positions,
    )
    kept, validation = hold_out(dialogues, held_out, seed)
    record = train_model(kept, validation, out, settings, resume=resume, show_progress=not quiet)
    if not quiet:
        typer.echo(
            f"Trained {record['steps']} steps; lowest validation loss {record['validation_loss']:.4f} nats a token "
            f"at step {record['best_step']}. Model: {out}"
        )
