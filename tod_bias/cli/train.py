"""``tod-bias train``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.cli.arguments import check_datapath, check_files, names_of, unused
from tod_bias.cli.options import (
    Corpus,
    Datapath,
    Format,
    MaxDialogues,
    Quiet,
    Seed,
)
from tod_bias.errors import TodBiasError

_READS = 0.01
"""By which share of itself a loss rises at least with the prompts of others, if prompts are read."""


def train(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    arch: Annotated[
        str | None,
        typer.Option(help="From scratch: gpt2 (by default) or llama (causal), bart or t5 (sequence to sequence)."),
    ] = None,
    init: Annotated[str, typer.Option(help="A checkpoint's name or folder to fine-tune, or 'scratch'.")] = "scratch",
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    max_dialogues: MaxDialogues = None,
    held_out: Annotated[int, typer.Option(min=1, help="Training dialogues held out for early stopping.")] = 100,
    parts: Annotated[str, typer.Option(help="Targets: api_call, response or both, by commas.")] = "api_call,response",
    loss: Annotated[
        str | None,
        typer.Option(
            help="Causal models: 'all' tokens count, or 'targets' only. By default all of a text (SimpleTOD), and what "
            "the assistant says in a chat."
        ),
    ] = None,
    form: Annotated[
        Format,
        typer.Option("--format", help="text: SimpleTOD's lines; chat: messages and tool calls in a chat template."),
    ] = Format.text,
    chat_template: Annotated[
        str | None,
        typer.Option(help="For chats: a file, or chatml, which comes with tod-bias; by default the tokenizer's own."),
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(help="For chats: a JSON file of OpenAI's function schemas, or of such lists by domain."),
    ] = None,
    system: Annotated[str, typer.Option(help="For chats: system message (or its file) where there is none.")] = "",
    described: Annotated[
        bool,
        typer.Option(
            help="Causal models: read the system message, which describes the services, before all turns; in random "
            "order at training. The corpus must have some, as google_sgd_described has."
        ),
    ] = False,
    renamed: Annotated[
        float, typer.Option(min=0, max=1, help="With --described: share of services that get other names.")
    ] = 0.0,
    tellings: Annotated[
        int, typer.Option(min=1, help="With --described: copies of each dialogue, with orders and names of their own.")
    ] = 1,
    lora: Annotated[int | None, typer.Option(min=1, help="Train adapters of this rank, not the weights.")] = None,
    merge: Annotated[bool, typer.Option(help="Add the adapters to the weights at the end.")] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the dialogues at the most.")] = 3,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak; from scratch 1e-3 (bart: 3e-4), else 5e-5.")
    ] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens in a batch at the most.")] = 8192,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Stop after so many steps of the schedule.")] = None,
    evaluations: Annotated[int, typer.Option(min=1, help="Validations an epoch.")] = 2,
    patience: Annotated[int, typer.Option(min=1, help="Stop after so many without improvement.")] = 3,
    layers: Annotated[int, typer.Option(min=1, help="From scratch: layers.")] = 4,
    width: Annotated[int, typer.Option(min=1, help="From scratch: hidden size.")] = 256,
    heads: Annotated[int, typer.Option(min=1, help="From scratch: attention heads.")] = 4,
    vocabulary: Annotated[int, typer.Option(min=300, help="From scratch: tokens of the tokenizer.")] = 8192,
    dropout: Annotated[float, typer.Option(min=0, max=0.9, help="From scratch: dropout.")] = 0.1,
    max_length: Annotated[int, typer.Option(min=16, max=1_000_000, help="Tokens in a sequence at the most.")] = 1024,
    positions: Annotated[
        int | None,
        typer.Option(min=16, max=1_000_000, help="From scratch: positions, if more than --max-length."),
    ] = None,
    bf16: Annotated[bool, typer.Option(help="Train in bfloat16.")] = False,
    seed: Seed = 0,
    augment: Annotated[
        str | None,
        typer.Option(
            help="Add training dialogues told as others: axes, and how: crossed (each as every attribute; by default), "
            "draws (one rewrite each) or personas, e.g. gender,age,race:draws."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted training in the same folder.")] = True,
    quiet: Quiet = False,
) -> None:
    """Train or fine-tune a model on the training split of a corpus, as lines of text (SimpleTOD) or as chats."""
    check_datapath(context)
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.sampling import hold_out
    from tod_bias.folder import promised
    from tod_bias.models.settings import TrainingSettings, check_settings
    from tod_bias.studies.augmentation import Augmentation
    from tod_bias.studies.augmentation import augment as augmented

    if init != "scratch":
        why = f"for models from scratch; {init} has its own"
        unused(context, why, "layers", "width", "heads", "vocabulary", "dropout", "positions")
    how = None if augment is None else Augmentation.read(augment)
    settings = TrainingSettings(
        arch=arch,
        init=init,
        format=form.value,
        chat_template=chat_template,
        tools=None if tools is None else str(tools),
        system=_text_of(system),
        described=described,
        renamed=renamed,
        tellings=tellings,
        lora=lora,
        merge=merge,
        parts=tuple(names_of(parts)),  # type: ignore[arg-type]  # checked there
        loss=loss,  # type: ignore[arg-type]  # checked there
        epochs=epochs,
        learning_rate=learning_rate,
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
    check_settings(settings)
    _check_arch(init, arch)
    if form is Format.chat:
        _check_chat(arch if init == "scratch" else None, chat_template, tools)
    promised(out)
    dialogues = load_corpus(corpus, datapath=datapath, split="train", max_dialogues=max_dialogues, seed=seed)

    kept, validation = hold_out(dialogues, held_out, seed)

    from tod_bias.models.training import train as train_model  # heavy imports come after what may go wrong at once

    if how is not None:
        originals = len(kept)
        kept = augmented(kept, how, seed)
        if not quiet:
            typer.echo(f"{len(kept) - originals:,} copies of {originals:,} training dialogues, told as others.")
    record = train_model(kept, validation, out, settings, resume=resume, show_progress=not quiet)
    if not quiet:
        for count, what in zip(record["sequences"], ("training", "validation"), strict=True):
            if left_out := count.get("turns_left_out"):
                typer.echo(f"{left_out} turns of the {what} dialogues are longer than --max-length and were left out.")
        typer.echo(
            f"Trained {record['steps']} steps; lowest validation loss {record['validation_loss']:.4f} nats a token "
            f"at step {record['best_step']}. Model: {out}"
        )
        _say_whether_it_reads(record)


def _say_whether_it_reads(record: Mapping[str, Any]) -> None:
    """What targets cost with another dialogue's prompt, of models where it is measured (not of causal ones)."""
    best: Mapping[str, float] = next((one for one in record["losses"] if one["step"] == record["best_step"]), {})
    if "exchanged" not in best:
        return
    own, other = best["validation"], best["exchanged"]
    typer.echo(f"With the prompts of other dialogues the same targets have {other:.4f} nats a token.")
    if other - own < _READS * own:
        typer.echo(
            f"That is less than {_READS:.0%} more: it hardly reads what it is given, and where nothing is read an "
            "audit finds no difference."
        )


def _check_chat(arch: str | None, template: str | None, tools: Path | None) -> None:
    """Find what no chats can be trained with; what trains them looks again."""
    from tod_bias.models.settings import READERS

    if arch in READERS:
        raise TodBiasError(f"--format chat needs a causal model, and {arch} is none; use --format text")
    if template not in (None, "chatml") and not Path(template).is_file():
        raise TodBiasError(f"--chat-template {template}: cannot be read; expected a file, or chatml")
    check_files(tools)


def _check_arch(init: str, arch: str | None) -> None:
    """Find an architecture that is not the checkpoint's, where its folder says so; the training looks again."""
    from tod_bias.documents import read_json
    from tod_bias.models.settings import check_arch

    file = Path(init) / "config.json"
    if init == "scratch" or arch is None or not file.is_file():
        return
    try:
        content = read_json(file)
        found = None if "auto_map" in content else content.get("model_type")
    except (OSError, ValueError, TypeError, AttributeError):
        return  # said by what loads it
    if found is not None:
        check_arch(init, found, arch)


def _text_of(system: str) -> str:
    """The system message, or the content of the file that is named in its place."""
    from tod_bias.documents import read_text

    if "\n" in system or len(system) > 255 or not system or not Path(system).is_file():
        return system
    try:
        return read_text(system).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TodBiasError(f"--system {system}: cannot be read ({error})") from error
