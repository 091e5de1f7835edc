"""Draws renamed turns of a real corpus for a person to read: ``python projects/rewriting/reading_names.py --help``.

One telling a dialogue, one turn of it that changed, with the call and what it found where these changed too. The same
options draw the same sample.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from tod_bias import Dialogue, Turn, load_corpus
from tod_bias.perturb import load_axis

AXES = ("names_gender", "names_race")
SPLITS = ("train", "valid", "test")


def dialogues_of(corpora: Sequence[str], datapath: Path) -> list[Dialogue]:
    """Return the dialogues of all splits of the corpora, such as ``star:read_star`` of projects/step_by_step."""
    return [
        one for corpus in corpora for split in SPLITS for one in load_corpus(corpus, datapath=datapath, split=split)
    ]


def strings(turn: Turn) -> Iterator[str]:
    """Yield all utterances and all strings in calls and results, each once."""
    yield from dict.fromkeys(text for pairs in (turn.utterances, turn.values) for _, text in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--datapath", type=Path, default=Path(".data"))
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dialogues = dialogues_of(options.corpora, options.datapath)
    rng = random.Random(options.seed)
    number = 0
    for place, axis in enumerate(AXES):
        perturber = load_axis(axis)
        told = perturber.select(dialogues, seed=options.seed, variants=1)
        rng.shuffle(told)
        wanted = options.turns * (place + 1) // len(AXES)
        for dialogue, (candidate,) in told:
            if number == wanted:
                break
            change = perturber.rewrite(dialogue, candidate)
            pairs = [[(old, str(change(old))) for old in strings(turn)] for turn in dialogue.turns]
            changed = [turn for turn in pairs if any(old != new for old, new in turn)]
            if changed:
                number += 1
                print(f"{number} [{axis} {dialogue.id} {candidate.term} > {candidate.form}]")
                for old, new in rng.choice(changed):
                    print(f"  + {new}" if old != new else f"    {old}")


if __name__ == "__main__":
    main()
