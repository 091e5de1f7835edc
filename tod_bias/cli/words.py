"""``tod-bias words``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen

from tod_bias.cli.arguments import folder_of, load_axes, load_dialogues
from tod_bias.cli.options import command
from tod_bias.config import (
    DEMO,
    BootstrapOptions,
    CorpusOptions,
    LexiconOptions,
    Names,
    OutputOptions,
    Seeded,
)
from tod_bias.errors import TodBiasError, repeated
from tod_bias.report.console import Console


class WordsAxes(LexiconOptions):
    """The axes whose terms are counted."""

    axes: Annotated[Names, MinLen(1)] = ("gender", "age", "race")
    """Axes, joined by commas; your own as module:name."""


class CountedCorpora(CorpusOptions):
    """Corpora to count in."""

    corpus: str = DEMO
    """As for attribute; several, joined by commas, are shown side by side."""


class WordsConfig(Seeded):
    """Corpora, axes and settings of the counts."""

    corpus: CountedCorpora = CountedCorpora()
    axes: WordsAxes = WordsAxes()
    intervals: BootstrapOptions = BootstrapOptions()


@command("tod-bias words --corpus demo,dialogues.jsonl --axes gender --out runs/words")
def words(*, config: WordsConfig, output: OutputOptions) -> None:
    """Count the words and dialogues that mention each group, by speaker (Su Fig. 2).

    Writes words.csv, words.json and figures/words.svg, which replace those of an earlier command in the folder. Several
    corpora get a subfolder each, and figures/corpora.svg compares them.
    """
    axes = load_axes(config.axes)
    names = list(dict.fromkeys(name.strip() for name in config.corpus.corpus.split(",")))
    if not all(names):
        raise TodBiasError(f"--corpus {config.corpus.corpus}: a name is missing before or after a comma")
    if doubled := repeated(Path(name).stem for name in names):
        raise TodBiasError(
            f"--corpus: two corpora are called {doubled!r}, and each has a folder by its name; rename one"
        )
    corpora = {}
    for name in names:
        _, corpora[name] = load_dialogues(config.corpus.model_copy(update={"corpus": name}), config.seed)
    folder = folder_of(output.out, config.corpus.corpus if len(names) == 1 else "corpora")

    import tod_bias.audit.mentions  # heavy imports come after what may go wrong at once
    from tod_bias.report.words import write_corpora, write_shares

    results = {}
    for name, dialogues in corpora.items():
        results[name] = tod_bias.audit.mentions.word_statistics(
            dialogues,
            axes,
            bootstrap=config.intervals.bootstrap,
            seed=config.seed,
            corpus={"name": name, "split": config.corpus.split},
        )
        place = _folder_of(folder, name, names)
        write_shares(results[name], place)
        results[name].save(place)
    if len(names) > 1:
        write_corpora(results, folder)
    if not output.quiet:
        _print(results, folder)


def _folder_of(folder: Path, name: str, names: Sequence[str]) -> Path:
    """Where the results of one of the corpora go."""
    return folder if len(names) == 1 else folder / Path(name).stem


def _print(results: Mapping[str, Any], folder: Path) -> None:
    from tod_bias.report.words import corpora_table, table

    (first, *others) = results.values()
    Console().print(corpora_table(results) if others else table(first))
    names = ("words.csv", "words.svg") if not others else ("*/words.csv", "corpora.svg")
    print(f"Results: {folder / names[0]}   Figure: {folder / 'figures' / names[1]}")
