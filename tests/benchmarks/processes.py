"""CPU time of each process of a run, and how much of it is the models' own.

``torchrun --standalone --nproc_per_node 2 tests/benchmarks/processes.py --out runs/two`` takes the options of
``tod-bias attribute``. What a process spends besides the models' prompts, every process does for itself: with p
processes a run takes ``rest + models / p`` at the best.
"""

from __future__ import annotations

import os
import sys
import time

spent = 0.0


def main() -> None:
    from tod_bias.cli.application import main as command
    from tod_bias.models.generator import Generator

    loaded = time.process_time()
    texts = Generator._texts

    def timed(self, sequences):
        global spent
        begun = time.process_time()
        try:
            return texts(self, sequences)
        finally:
            spent += time.process_time() - begun

    Generator._texts = timed
    try:
        command(["attribute", *sys.argv[1:], "--quiet"])
    except SystemExit as end:
        everything = time.process_time()
        line = f"process {os.environ.get('RANK', '0')}: {everything:.1f} s of CPU, {spent:.1f} of them models, "
        print(f"{line}{everything - spent:.1f} everything else ({loaded:.1f} loading libraries)", flush=True)
        raise SystemExit(end.code) from None


if __name__ == "__main__":
    main()
