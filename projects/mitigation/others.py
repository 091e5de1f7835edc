"""More of the demo's test dialogues than ship: others than those that the mend was chosen on.

python others.py FILE.jsonl        # 600 dialogues
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "demo"))

from demo_corpus.build import SIZES
from demo_corpus.dialogues import demo_dialogues

from tod_bias.dialogues.files import write_jsonl

SEED, COUNT = 0, 600


def main(out: Path) -> None:
    """Write them; a larger split begins with the smaller one, so those that ship are left out."""
    shipped = SIZES["test"]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_jsonl(list(islice(demo_dialogues("test", shipped + COUNT, SEED), shipped, None)), out)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python others.py FILE.jsonl")
    main(Path(sys.argv[1]))
