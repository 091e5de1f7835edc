"""``tod-bias words``."""

from __future__ import annotations

from typing import Annotated

import typer

from tod_bias.cli.arguments import check_datapath, folder_of, perturbers_of, unused
from tod_bias.cli.options import (
    AxisLexicons,
    Bootstrap,
    Corpus,
    Datapath,
    MaxDialogues,
    NameSlots,
    Out,
    Protect,
    Quiet,
    Seed,
    Split,
    SplitOption,
)
from tod_bias.report.console import Console


def words(
    context: typer.Context,
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    split: SplitOption = Split.test,
    max_dialogues: MaxDialogues = None,
    axes: Annotated[str, typer.Option(help="Axes, joined by commas; your own as module:name.")] = "gender,age,race",
    lexicon: AxisLexicons = None,
    protect: Protect = None,
    name_slots: NameSlots = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Show instead how much of it guards recognise (coverage.json).")
    ] = False,
    bootstrap: Bootstrap = 1000,
    seed: Seed = 0,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Share of words and dialogues that mention each attribute, speaker by speaker (Su Fig. 2).

    Writes words.csv, words.json and figures/words.svg, or coverage.json, in the place of those that an earlier command
    left in the folder: --out keeps them apart.
    """
    if coverage:
        unused(context, "of the shares of words; --coverage has no intervals", "bootstrap")
    check_datapath(context)
    from tod_bias.dialogues.corpora import load_corpus

    perturbers = perturbers_of(axes, lexicon, protected=protect or (), name_slots=name_slots)
    dialogues = load_corpus(corpus, datapath=datapath, split=split.value, max_dialogues=max_dialogues, seed=seed)
    folder = folder_of(out, corpus)

    if coverage:
        from tod_bias.files import write_json
        from tod_bias.perturb.guards.coverage import coverage as covered
        from tod_bias.perturb.guards.coverage import lines

        found = [covered(dialogues, perturber, seed=seed) for perturber in perturbers]
        write_json(folder / "coverage.json", {one.axis: one.to_json() for one in found})
        if not quiet:
            typer.echo("\n".join([*lines(found), f"Results: {folder / 'coverage.json'}"]))
        return

    import tod_bias.studies.words  # heavy imports come after what may go wrong at once

    about = {"name": corpus, "split": split.value}
    result = tod_bias.studies.words.word_statistics(dialogues, perturbers, bootstrap=bootstrap, seed=seed, corpus=about)
    result.save(folder)
    if not quiet:
        Console().print(tod_bias.studies.words.table(result))
        typer.echo(f"Results: {folder / 'words.csv'}   Figure: {folder / 'figures' / 'words.svg'}")
