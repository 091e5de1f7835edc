"""Counts the words of the shipped lexicons in Google SGD's train split: ``python tests/perturb/frequencies.py --help``.

Writes perturb/lexicons/frequencies.txt: occurrences per million words of the utterances of users and system.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tod_bias import load_corpus
from tod_bias.perturb.lexicon import FOLDER, axes, load_lexicon, read_lexicon
from tod_bias.perturb.placebo import FREQUENCIES, count
from tod_bias.perturb.rewrite import tokens

HEAD = """\
# Occurrences per million words in the utterances of users and system of Google SGD (Rastogi et al. 2020), train split:
# the words of every shipped lexicon, and the forms of neutral.tsv. Written by tests/perturb/frequencies.py.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datapath", type=Path, default=Path(".data"))
    options = parser.parse_args()
    neutral = read_lexicon(FOLDER / "neutral.tsv")
    forms = [
        form.text
        for lexicon in (neutral, *map(load_lexicon, axes()))
        for paradigm in lexicon.paradigms
        for cell in paradigm.cells.values()
        for alternative in cell
        for form in alternative
    ]
    phrases = {" ".join(tokens(form)) for form in forms} | {word for form in forms for word in tokens(form)}
    dialogues = load_corpus("google_sgd", datapath=options.datapath, split="train")
    texts = [text for dialogue in dialogues for turn in dialogue.turns for _, text in turn.utterances]
    lines = [f"{phrase}\t{value:.3g}" for phrase, value in sorted(count(texts, phrases).items())]
    FREQUENCIES.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
