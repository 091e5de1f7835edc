"""``tod-bias words``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen

from tod_bias.cli.arguments import folder_of, load_axes, load_dialogues, refuse
from tod_bias.cli.options import command
from tod_bias.config import BootstrapOptions, CorpusOptions, LexiconOptions, Names, Options, OutputOptions, Seeded
from tod_bias.report.console import Console


class WordsAxes(LexiconOptions):
    """The axes whose terms are counted."""

    axes: Annotated[Names, MinLen(1)] = ("gender", "age", "race")
    """Axes, joined by commas; your own as module:name."""


class WordsConfig(Seeded):
    """What is counted, and how."""

    corpus: CorpusOptions = CorpusOptions()
    axes: WordsAxes = WordsAxes()
    intervals: BootstrapOptions = BootstrapOptions()


class WordsOptions(Options):
    """Options of the command itself."""

    coverage: bool = False
    """Show instead how much of it guards recognise (coverage.json)."""


@command("tod-bias words --corpus dialogues.jsonl --axes gender --out runs/words")
def words(*, config: WordsConfig, how: WordsOptions, output: OutputOptions) -> None:
    """Share of words and dialogues that mention each group, speaker by speaker (Su Fig. 2).

    Writes words.csv, words.json and figures/words.svg, or coverage.json, in the place of those that an earlier command
    left in the folder: --out keeps them apart.
    """
    if how.coverage:
        refuse(config, ("bootstrap",), "of the shares of words; --coverage has no intervals")
    axes = load_axes(config.axes)
    _, dialogues = load_dialogues(config.corpus, config.seed)
    folder = folder_of(output.out, config.corpus.corpus)
    if how.coverage:
        _coverage(dialogues, axes, folder, config.seed, output.quiet)
        return

    import tod_bias.audit.mentions  # heavy imports come after what may go wrong at once

    about = {"name": config.corpus.corpus, "split": config.corpus.split}
    result = tod_bias.audit.mentions.word_statistics(
        dialogues, axes, bootstrap=config.intervals.bootstrap, seed=config.seed, corpus=about
    )
    result.save(folder)
    if not output.quiet:
        Console().print(tod_bias.audit.mentions.table(result))
        print(f"Results: {folder / 'words.csv'}   Figure: {folder / 'figures' / 'words.svg'}")


def _coverage(dialogues: Sequence[Any], axes: Sequence[Any], folder: Path, seed: int, quiet: bool) -> None:
    """How much of the terms guards recognise."""
    from tod_bias.files import write_json
    from tod_bias.perturb.guards.coverage import coverage, table

    recognised = [coverage(dialogues, axis, seed=seed) for axis in axes]
    write_json(folder / "coverage.json", {row.axis: row.to_json() for row in recognised})
    if not quiet:
        print(f"{table(recognised)}\nResults: {folder / 'coverage.json'}")
