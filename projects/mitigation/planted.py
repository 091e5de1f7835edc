"""The demo's training split as its models learned it: with the bias planted, for somebody to train on anew.

python planted.py FOLDER        # writes response.jsonl and api_call.jsonl
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "demo"))

from demo_corpus.build import mentions_on
from demo_corpus.planted import corrupt_calls, corrupt_responses

from tod_bias import load_corpus
from tod_bias.dialogues.files import write_jsonl
from tod_bias.perturb import load_axis

SEED = 0


def main(out: Path) -> None:
    """Write both corpora."""
    out.mkdir(parents=True, exist_ok=True)
    gender, age = (mentions_on(load_axis(axis)) for axis in ("gender", "age"))
    dialogues = load_corpus("demo", split="train")
    write_jsonl([corrupt_responses(dialogue, gender, SEED) for dialogue in dialogues], out / "response.jsonl")
    write_jsonl([corrupt_calls(dialogue, age, SEED) for dialogue in dialogues], out / "api_call.jsonl")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python planted.py FOLDER")
    main(Path(sys.argv[1]))
