"""How good a model of Google SGD is on dialogues whose services all occur in training, and on the others.

python projects/step_by_step/services.py runs/step_by_step/evaluation_smollm2 .data/

RUN is what `tod-bias evaluate` wrote. Google SGD is made to show the difference: its dev and test splits hold services
that its train split does not (Rastogi et al. 2020, section 3). 95% intervals are over dialogues.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tod_bias.metrics.choice import metric
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.sums import sums_by

FOLDERS = {"valid": "dev"}
"""A split to its folder, where the names differ."""
BLEU = metric("corpus_bleu")
RATIOS = {
    "JGA as ParlAI counts": ("correct_parlai", "turns"),
    "JGA over the turns that call": ("call_correct_parlai", "call_turns"),
    "slot recall": ("slots_gold_right", "slots_gold"),
}


def services(datapath: Path, split: str) -> dict[str, set[str]]:
    """Dialogue to its services, of one of ParlAI's folders of Google SGD."""
    files = sorted((datapath / "google_sgd" / split).glob("dialogues_*.json"))
    if not files:
        sys.exit(f"{datapath / 'google_sgd' / split}: no dialogues_*.json of Google SGD")
    records = (record for path in files for record in json.loads(path.read_text(encoding="utf-8")))
    return {record["dialogue_id"]: set(record["services"]) for record in records}


def scores(frame: pd.DataFrame, resamples: int = 1000, seed: int = 0) -> dict[str, tuple[float, tuple[float, float]]]:
    """Score to its value and interval, of rows of ``turns.parquet``."""
    owners, names = pd.factorize(frame["dialogue"])

    def estimate(columns: list[str], score: Any) -> tuple[float, tuple[float, float]]:
        sums = sums_by(owners, frame[columns].to_numpy(dtype=float), len(names))
        low, high = interval(resample(sums, score, resamples, seed), len(names))
        return float(score(sums.sum(axis=0)[None])[0]), (float(low), float(high))

    values = {"BLEU": estimate(list(BLEU.columns), BLEU.score)}
    for name, columns in RATIOS.items():
        values[name] = estimate([f"calls_{column}" for column in columns], lambda sums: sums[..., 0] / sums[..., 1])
    return values


def main(run: Path, datapath: Path) -> None:
    """Print both columns as a table in Markdown."""
    split = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))["corpus"]["split"]
    trained = set().union(*services(datapath, "train").values())
    of: Mapping[str, set[str]] = services(datapath, FOLDERS.get(split, split))
    frame = pd.read_parquet(run / "turns.parquet")
    seen = frame["dialogue"].map(lambda name: of[name] <= trained)
    columns = {"all services in training": frame[seen], "one or more not": frame[~seen], "all dialogues": frame}
    columns = {name: part for name, part in columns.items() if len(part)}
    found = {name: scores(part) for name, part in columns.items()}
    heads = [f"{name} ({part['dialogue'].nunique()} dialogues, {len(part):,} turns)" for name, part in columns.items()]
    print("| | " + " | ".join(heads) + " |\n" + "|---" * (1 + len(heads)) + "|")
    for score in [*RATIOS, "BLEU"]:
        cells = (
            f"{value:.3f} [{low:.3f}, {high:.3f}]" for value, (low, high) in (one[score] for one in found.values())
        )
        print(f"| {score} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python services.py RUN DATAPATH")
    main(*map(Path, sys.argv[1:]))
