"""A first task for models that read a text and write another: to say what the user said.

python projects/step_by_step/repeating.py .data/ models/repeating.jsonl [CORPUS]

From nothing, such a model learns what calls and responses are like long before it looks at the conversation. Here no
loss but reading's can fall far: what is to be written was read. (Wu, Li and Liang 2022, "Insights into Pre-training via
Simpler Synthetic Tasks": a task as simple as copying gives a large part of what pre-training does.)
"""

import sys

from tod_bias.dialogues.chat import write_chat
from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Turn

DIALOGUES = 3000


def repeating(datapath: str, out: str, corpus_name: str = "google_sgd") -> int:
    """Write conversations of one turn in which the system repeats the user's message: each utterance of some dialogues
    of a train split, once. Return their number."""
    corpus = load_corpus(corpus_name, datapath=datapath, split="train", max_dialogues=DIALOGUES, seed=0)
    said = dict.fromkeys(text for dialogue in corpus for turn in dialogue.turns for text in (turn.user, turn.response))
    texts = [text for text in said if text]
    write_chat((Dialogue(f"p{number}", "", (Turn(text, response=text),)) for number, text in enumerate(texts)), out)
    return len(texts)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: python repeating.py DATAPATH OUT [CORPUS]")
    print(f"{repeating(*sys.argv[1:]):,} utterances")
