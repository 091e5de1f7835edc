"""Draws rewritten utterances of a real corpus for a person to read: ``python projects/rewriting/reading.py --help``.

One draw of Algorithm 1 a dialogue, one changed utterance of it; so many an axis. The same options draw the same sample.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

from tod_bias import Dialogue, load_corpus
from tod_bias.perturb import draw_rewrites, load_axis

SHARES = {"gender": 80, "age": 50, "race": 40, "placebo": 30}


def changed(dialogues: list[Dialogue], axis: str, seed: int) -> Iterator[tuple[str, str, str]]:
    """Dialogues in a drawn order: which rewrite, an utterance of it that changed, and what it became."""
    perturber = load_axis(axis)
    rng = random.Random(f"{seed} {axis}")
    for dialogue in rng.sample(dialogues, len(dialogues)):
        for rewrite in draw_rewrites(perturber, dialogue, draws=1, seed=seed):
            texts = [text for turn in dialogue.turns for text in (turn.user, turn.response)]
            pairs = [(text, str(rewrite(text))) for text in texts]
            old, new = rng.choice([pair for pair in pairs if pair[0] != pair[1]])
            yield f"{dialogue.id} {rewrite.source}>{rewrite.target} {rewrite.word}", old, new


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="google_sgd")
    parser.add_argument("--datapath", type=Path, default=Path(".data"))
    parser.add_argument("--split", default="train")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dialogues = load_corpus(options.corpus, datapath=options.datapath, split=options.split)
    number = 0
    for axis, count in SHARES.items():
        for (about, old, new), _ in zip(changed(dialogues, axis, options.seed), range(count), strict=False):
            number += 1
            print(f"{number} [{axis} {about}]\n  - {old}\n  + {new}")


if __name__ == "__main__":
    main()
