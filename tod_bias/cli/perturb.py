"""``tod-bias perturb``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.cli.arguments import check_design, check_used, names_of, perturbers_of, unused
from tod_bias.cli.options import (
    Datapath,
    Design,
    DesignOption,
    Device,
    Introductions,
    MaxDialogues,
    MaxPerAxis,
    NameSlots,
    PerturberOption,
    Protect,
    Quiet,
    Seed,
    Split,
    SplitOption,
    Tellings,
)
from tod_bias.documents import awaited, bounded_lines
from tod_bias.errors import TodBiasError
from tod_bias.files import write_lines
from tod_bias.folder import writable
from tod_bias.report.console import echo

_WHOLE = (
    "design", "tellings", "max_per_axis", "introductions", "datapath", "split", "max_dialogues", "draws",
)  # fmt: skip
"""Parameters that are of whole dialogues."""


def perturb(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Text, a line each; standard input if not given.")] = None,
    axis: Annotated[str, typer.Option(help="gender, age, race, placebo, another axis, or module:name.")] = "gender",
    source: Annotated[str | None, typer.Option(help="Attribute whose words are rewritten.")] = None,
    target: Annotated[str | None, typer.Option(help="Attribute they are rewritten to.")] = None,
    scope: Annotated[
        str | None, typer.Option(help="With --corpus: all words of the source 'attribute', or the drawn 'word' only.")
    ] = None,
    lexicon: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A lexicon in the place of the axis's own; AXIS=FILE with --axes."),
    ] = None,
    protect: Protect = None,
    name_slots: NameSlots = None,
    perturber: PerturberOption = None,
    corpus: Annotated[str | None, typer.Option(help="Rewrite whole dialogues of this corpus (Algorithm 1).")] = None,
    axes: Annotated[
        str | None,
        typer.Option(help="With --corpus: all tellings that attribute runs on these axes, for --answers."),
    ] = None,
    design: DesignOption = Design.crossed,
    tellings: Tellings = None,
    max_per_axis: MaxPerAxis = None,
    introductions: Introductions = None,
    chat: Annotated[bool, typer.Option("--chat", help="With --axes: dialogues as OpenAI messages.")] = False,
    datapath: Datapath = None,
    split: SplitOption = Split.test,
    max_dialogues: MaxDialogues = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="With --corpus: rewrites drawn a dialogue, 1; with --axes 3.")
    ] = None,
    device: Device = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="File (lines) or folder (--corpus); else standard output.")] = None,
    quiet: Quiet = False,
) -> None:
    """Rewrite text along a demographic axis, a line in, a line out; or whole dialogues by Algorithm 1."""
    from tod_bias.dialogues.text import json_line
    from tod_bias.perturb.loading import load_axis

    if lexicon and axes is None and len(lexicon) > 1:
        raise TodBiasError(f"--lexicon {lexicon[1]}: --axis {axis} has one already, {lexicon[0]}")
    options: dict[str, Any] = {"lexicon": Path(lexicon[0]) if lexicon else None, "protected": protect or ()}
    if perturber is None:
        unused(context, "where the model of --perturber runs; give that, or leave it out", "device")
    if corpus is None:
        if axes is not None or chat:
            raise TodBiasError("--axes and --chat go with --corpus: they tell whole dialogues")
        if source is None or target is None:
            raise TodBiasError("give --source and --target, e.g. --axis gender --source woman --target man")
        if scope is not None:
            raise TodBiasError("--scope goes with --corpus; a line of text is rewritten as a whole")
        if name_slots is not None:
            raise TodBiasError("--name-slots goes with --corpus; a line of text has no slots")
        why = "for whole dialogues; give --corpus, or leave it out"
        unused(context, why, *_WHOLE)
        check_used([axis], {"model": perturber})
        rewriter = load_axis(axis, model=perturber, device=device, **options)
        rewriter.rewrite_texts([], source, target)  # what is wrong is said before the text is read
        texts = [[line] for line in _lines(file)] if perturber is None else [list(_lines(file))]
        _write((line for some in texts for line in rewriter.rewrite_texts(some, source, target)), out, named=True)
        _tell_counts(rewriter, quiet)
        return
    if file is not None:
        raise TodBiasError("--corpus names the dialogues: leave out FILE")
    if axes is not None:
        unused(context, "one axis; --axes names all of them", "axis")
        check_design(context, design.value)
        if source or target or scope:
            raise TodBiasError("--axes tells everybody: leave out --source, --target and --scope")
        from tod_bias.audit.export import export_counterfactuals
        from tod_bias.config import DesignOptions
        from tod_bias.dialogues.corpora import load_corpus

        dialogues = load_corpus(corpus, datapath=datapath, split=split.value, max_dialogues=max_dialogues, seed=seed)
        perturbers = perturbers_of(
            axes, lexicon, introductions, protected=protect or (), model=perturber, device=device, name_slots=name_slots
        )
        how = {"design": design.value, "draws": draws or 3, "variants": tellings, "max_per_axis": max_per_axis}
        records = export_counterfactuals(
            dialogues,
            perturbers,
            DesignOptions.of(how),
            seed=seed,
            chat=chat,
            left_out=lambda reason: echo(f"({reason})", err=True),
        )
        _write(map(json_line, records), out / "tellings.jsonl" if out else None)
        if out and not quiet:
            typer.echo(f"Tellings: {out / 'tellings.jsonl'}   {_NEXT}", err=True)
        return
    if chat:
        raise TodBiasError("--chat goes with --axes, which tells everybody, not with --axis: --axes gender,placebo")
    unused(
        context,
        "for --axes; with --axis a dialogue is told at random",
        "design",
        "tellings",
        "max_per_axis",
    )
    check_used([axis], {"model": perturber, "name_slots": name_slots, "introductions": introductions})
    rewriter = load_axis(
        axis,
        scope=scope,
        sources=[source] if source else None,
        targets=[target] if target else None,
        model=perturber,
        device=device,
        name_slots=name_slots,
        introductions=names_of(introductions) if introductions else None,
        **options,
    )
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.perturb.axis import variant_names

    dialogues = load_corpus(corpus, datapath=datapath, split=split.value, max_dialogues=max_dialogues, seed=seed)
    made = rewriter.rewrites(dialogues, draws or 1, seed)

    def rewritten() -> Iterator[str]:
        for dialogue, rewrites in zip(dialogues, made, strict=True):
            names = variant_names(rewrites)
            for number, (change, telling) in enumerate(zip(rewrites, names, strict=True)):
                record = change(dialogue).to_json() | {"id": f"{dialogue.id}#{rewriter.name}{number}"}
                facts = {"axis": change.axis, "source": change.source, "target": change.target, "words": [change.word]}
                yield json_line(record | {"original": dialogue.id, "telling": telling, **facts})

    _write(rewritten(), out / "dialogues.jsonl" if out else None)
    if not quiet:
        left_out = sum(not rewrites for rewrites in made)
        message = f"{len(dialogues)} dialogues read, {left_out} without a word to rewrite on axis {axis} left out"
        typer.echo(message, err=True)
    _tell_counts(rewriter, quiet)


_NEXT = (
    "Next: save the system's answers to them, a line {id, turn, telling, response} each, for tod-bias attribute "
    "--answers FILE with the same options"
)


def _tell_counts(perturber: Any, quiet: bool) -> None:
    counts = perturber.model_counts
    if counts is not None and not quiet:
        message = f"{counts['by_model']} of {counts['texts']} texts with a mention rewritten by the model, the others "
        typer.echo(message + "by the lexicon (see perturb/README.md)", err=True)


def _lines(file: Path | None) -> Iterator[str]:
    if file is None:
        try:
            yield from bounded_lines(sys.stdin)
        except (OSError, UnicodeDecodeError) as error:
            raise TodBiasError(f"standard input: cannot be read: {error}") from error
        return
    try:
        with open(file, encoding="utf-8-sig", newline="", opener=awaited) as stream:
            yield from bounded_lines(stream)
    except (OSError, UnicodeDecodeError) as error:
        raise TodBiasError(f"{file}: cannot be read: {error}") from error


def _write(lines: Iterator[str], path: Path | None, *, named: bool = False) -> None:
    if path is None:
        for line in lines:
            sys.stdout.write(line)
        return
    first = list(islice(lines, 1))  # what cannot be read is found before anything is made
    if not path.exists():
        writable(path.parent)
    write_lines(path, chain(first, lines), named=named)
