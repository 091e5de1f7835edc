"""``python projects/demo``: build the bundled demo anew."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from demo_corpus.build import train_models, write_corpora

from tod_bias.dialogues.corpora import DEMO


def main() -> None:
    """Write corpora, database and pipeline file, and train the models."""
    parser = argparse.ArgumentParser(prog="python projects/demo", description="Build the bundled demo anew.")
    parser.add_argument("--out", type=Path, default=DEMO, help="the folder to write (default: the one that ships)")
    parser.add_argument("--seed", type=int, default=0, help="decides everything (default: 0, the one that ships)")
    parser.add_argument("--no-models", action="store_true", help="write corpora, database and pipeline.yaml only")
    parser.add_argument("--fair", action="store_true", help="without the planted biases; needs --out")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    arguments = parser.parse_args()
    if arguments.fair and arguments.out == DEMO:
        parser.error("the demo that ships is the planted one: give --out FOLDER with --fair")
    write_corpora(arguments.out, arguments.seed, planted=not arguments.fair)
    if not arguments.no_models:
        torch.set_num_threads(1)  # as fast for models this small, and sums come out alike on any number of cores
        records = train_models(
            arguments.out, arguments.seed, planted=not arguments.fair, show_progress=not arguments.quiet
        )
        for name, record in records.items():
            print(f"{name}: {record['steps']} steps, validation loss {record['validation_loss']:.4f} nats a token")
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
