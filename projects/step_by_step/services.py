"""Score a model of Google SGD on dialogues whose services all occur in training, and on the others.

python projects/step_by_step/services.py runs/step_by_step/evaluation_smollm2 .data/ evaluations/sgd_services.json

RUN is what `tod-bias evaluate` wrote; the table is printed, and its numbers go to the third file. Google SGD is made to
show the difference: its dev and test splits hold services that its train split does not (Rastogi et al. 2020, section
3). 95% intervals are over dialogues.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tod_bias.audit.record import signature_of
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


def scores(frame: pd.DataFrame, resamples: int = 1000, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Score to its value and interval, of rows of ``turns.parquet``."""
    owners, names = pd.factorize(frame["dialogue"])

    def estimate(columns: list[str], score: Any) -> dict[str, Any]:
        sums = sums_by(owners, frame[columns].to_numpy(dtype=float), len(names))
        low, high = interval(resample(sums, score, resamples, seed), len(names))
        return {"value": float(score(sums.sum(axis=0)[None])[0]), "ci": [float(low), float(high)]}

    values = {"BLEU": estimate(list(BLEU.columns), BLEU.score)}
    for name, columns in RATIOS.items():
        values[name] = estimate([f"calls_{column}" for column in columns], lambda sums: sums[..., 0] / sums[..., 1])
    return values


def main(run: Path, datapath: Path, out: Path) -> None:
    """Print both columns as a table in Markdown, and write their numbers."""
    evaluation = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    corpus = evaluation["corpus"]
    trained = set().union(*services(datapath, "train").values())
    of: Mapping[str, set[str]] = services(datapath, FOLDERS.get(corpus["split"], corpus["split"]))
    frame = pd.read_parquet(run / "turns.parquet")
    seen = frame["dialogue"].map(lambda name: of[name] <= trained)
    parts = {"all services in training": frame[seen], "one or more not": frame[~seen], "all dialogues": frame}
    found = {
        name: {"dialogues": part["dialogue"].nunique(), "turns": len(part), "scores": scores(part)}
        for name, part in parts.items()
        if len(part)
    }
    heads = [f"{name} ({part['dialogues']} dialogues, {part['turns']:,} turns)" for name, part in found.items()]
    print("| | " + " | ".join(heads) + " |\n" + "|---" * (1 + len(heads)) + "|")
    for score in [*RATIOS, "BLEU"]:
        estimates = [part["scores"][score] for part in found.values()]
        cells = ("{:.3f} [{:.3f}, {:.3f}]".format(one["value"], *one["ci"]) for one in estimates)
        print(f"| {score} | " + " | ".join(cells) + " |")
    made = {"corpus": corpus, "services": found, "signature": evaluation["signature"], "made by": signature_of({})}
    out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python services.py RUN DATAPATH FILE.json")
    main(*map(Path, sys.argv[1:]))
