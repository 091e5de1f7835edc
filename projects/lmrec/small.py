"""Two draws of a small encoder that was taught nothing, with one tokenizer made of all cities' reviews.

    python small.py runs/unplanted        # once reviews/ is there; writes models/own-0 and models/own-1

Cities whose models begin with one of them share its weights and its tokenizer, and nothing that they could know.
"""

import sys
from pathlib import Path

import pandas as pd
from transformers import set_seed

from tod_bias.recommenders.lmrec.model import new_encoder, new_tokenizer


def main(runs: Path) -> None:
    """Write both folders."""
    texts = [
        text
        for path in sorted((runs / "reviews").glob("*.csv"))
        for text in pd.read_csv(path)["review_text"].astype(str)
    ]
    tokenizer = new_tokenizer(lambda: iter(texts), 2000)
    for draw in (0, 1):
        set_seed(draw)
        encoder = new_encoder(len(tokenizer), layers=1, width=64, heads=2, dropout=0.1, positions=64)
        for part in (encoder, tokenizer):
            part.save_pretrained(runs / "models" / f"own-{draw}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python small.py FOLDER")
    main(Path(sys.argv[1]))
