"""Counts the words of the shipped lexicons in Google SGD: ``python projects/rewriting/frequencies.py --help``.

Writes perturb/lexicons/frequencies.txt: occurrences per million words of the utterances of users and system.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tod_bias import load_corpus
from tod_bias.perturb.lexicon import FOLDER, axes, load_lexicon, read_lexicon
from tod_bias.perturb.placebo import FREQUENCIES, per_million
from tod_bias.perturb.rewrite import tokens

HEAD = """\
# Occurrences per million words in the utterances of users and system of Google SGD (Rastogi et al. 2020), train split:
# the words of every shipped lexicon, and the forms of neutral.tsv. Written by projects/rewriting/frequencies.py.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datapath", type=Path, default=Path(".data"))
    options = parser.parse_args()
    lexicons = (read_lexicon(FOLDER / "neutral.tsv"), *map(load_lexicon, axes()))
    forms = {tokens(form) for lexicon in lexicons for _, _, form in lexicon.forms()}
    phrases = {" ".join(form) for form in forms} | {word for form in forms for word in form}
    dialogues = load_corpus("google_sgd", datapath=options.datapath, split="train")
    texts = (text for dialogue in dialogues for turn in dialogue.turns for _, text in turn.utterances)
    frequencies = per_million(texts, phrases)
    lines = [f"{phrase}\t{frequencies[phrase]:.3g}" for phrase in sorted(phrases & frequencies.keys())]
    FREQUENCIES.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
