"""Whom corpora mention (Su, Fig. 2): shares of words by group and speaker, as tables and figures.

``python mentions.py --corpus google_sgd,demo --datapath data --out runs/words`` writes a folder per corpus with
``words.csv``, ``words.json`` and ``figures/words.svg``, and ``figures/corpora.svg``, which compares them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tod_bias import load_corpus
from tod_bias.audit.mentions import word_statistics
from tod_bias.report.console import Console
from tod_bias.report.words import corpora_table, write_corpora, write_shares


def main() -> None:
    """Count, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", required=True, help="corpora, joined by commas")
    parser.add_argument("--datapath", type=Path, help="folder of the corpora, in ParlAI's layout")
    parser.add_argument("--split", default="train")
    parser.add_argument("--axes", default="gender,age,race")
    parser.add_argument("--bootstrap", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("runs/words"))
    given = parser.parse_args()
    results = {}
    for name in given.corpus.split(","):
        dialogues = load_corpus(name, datapath=given.datapath, split=given.split)
        about = {"name": name, "split": given.split}
        results[name] = word_statistics(dialogues, given.axes.split(","), bootstrap=given.bootstrap, corpus=about)
        folder = given.out / Path(name.partition(":")[0]).stem
        folder.mkdir(parents=True, exist_ok=True)
        write_shares(results[name], folder)
        results[name].save(folder)
    write_corpora(results, given.out)
    Console().print(corpora_table(results))


if __name__ == "__main__":
    main()
