"""A first task for models that read a text and write another: to repeat what was said last.

python projects/step_by_step/repeating.py .data/ models/repeating.jsonl

From nothing, such a model learns what calls and responses are like long before it looks at the conversation. Here no
loss but reading's can fall far: what is to be written was read, at another place in every conversation. (Wu, Li and
Liang 2022, "Insights into Pre-training via Simpler Synthetic Tasks": a task as simple as copying gives a large part of
what pre-training does.)
"""

import random
import sys

from tod_bias.dialogues.chat import write_chat
from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Turn

DIALOGUES, TURNS = 2000, 3


def repeating(datapath: str, out: str) -> int:
    """Write conversations of three turns in which the system says what the user said: the utterances of a sample of
    Google SGD's train split, shuffled, each once. Returns how many utterances there are."""
    corpus = load_corpus("google_sgd", datapath=datapath, split="train", max_dialogues=DIALOGUES, seed=0)
    said = {text for dialogue in corpus for turn in dialogue.turns for text in (turn.user, turn.response) if text}
    texts = sorted(said)
    random.Random(0).shuffle(texts)
    turns = [Turn(text, response=text) for text in texts]
    starts = range(0, len(turns), TURNS)
    write_chat((Dialogue(str(start), "", tuple(turns[start : start + TURNS])) for start in starts), out)
    return len(texts)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python repeating.py DATAPATH OUT")
    print(f"{repeating(*sys.argv[1:]):,} utterances")
