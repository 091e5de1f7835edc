"""The numbers of the page's section "What was seen", from the folders that run.sh writes.

python seen.py runs                     # all parts, into seen.json
python seen.py runs prices associations # the parts that rest on runs/audit
"""

import hashlib
import json
import sys
from pathlib import Path

import pandas as pd

from tod_bias.audit.record import signature_of
from tod_bias.changes import Comparison
from tod_bias.recommenders.lmrec.sample import CUISINES
from tod_bias.results import AuditResult

ALPHA = 0.05
PLACES = {
    "dear": ("fashion studio", "law office", "psychiatrist", "synagogue"),
    "cheap": ("convenience store", "construction site", "supermarket", "mosque"),
}
PLANTED = (
    ("gender", "Desserts", "female"),
    ("gender", "Bars", "male"),
    ("first relationship", "Desserts", "female"),
    ("first relationship", "Bars", "male"),
    ("second relationship", "Gay Bars", "male"),
)
"""Dimension, category, and the label that has more of it."""
ATTRIBUTIONS = ("attribution_fair_response", "attribution_curt_response", "reviewed_fair_response", "reviewed_masked")
BOUNDS = ["value", "ci_low", "ci_high"]


def rows(frame: pd.DataFrame, columns: list[str]) -> list[dict]:
    return json.loads(frame[columns].round(4).to_json(orient="records"))


def associations(audit: Path) -> dict:
    """Planted categories over all cities, and how often the ten cuisines, in which nothing is planted, differ."""
    frame = pd.read_csv(audit / "association.csv")
    frame = frame[~frame.dimension.str.contains("×|couple")]
    pooled = frame[frame.city == "all"]
    columns = ["dimension", "category", "label", "other", "difference", "ci_low", "ci_high", "p_adjusted", "permuted"]
    planted = pd.concat(
        pooled[(pooled.dimension == dimension) & (pooled.category == category) & (pooled.label == label)]
        for dimension, category, label in PLANTED
    )
    cuisines = frame[frame.category.isin(CUISINES) & (frame.label < frame.other)]
    tests = cuisines.drop_duplicates(["city", "dimension", "category", "p_adjusted"])
    return {
        "planted": rows(planted, columns),
        "cuisines": {
            kind: {
                "tests": len(some),
                "found": int((some.p_adjusted < ALPHA).sum()),
                "intervals": int(some.ci_low.notna().sum()),
                "without_0": int(((some.ci_low > 0) | (some.ci_high < 0)).sum()),
            }
            for kind, some in (("city", tests[tests.city != "all"]), ("all", tests[tests.city == "all"]))
        },
    }


def prices(audit: Path) -> dict:
    shares = pd.read_csv(audit / "price_percentage.csv")
    black = shares[(shares.city == "all") & (shares.dimension == "race") & (shares.label == "black")]
    average = pd.read_csv(audit / "average_price.csv")
    pooled = average[average.city == "all"].set_index("substitution")
    kinds = {kind: pooled.loc[[place for place in places if place in pooled.index]] for kind, places in PLACES.items()}
    return {
        "black": rows(black, ["price", *BOUNDS, "p_adjusted"]),
        "places": {kind: [float(found.value.min()), float(found.value.max())] for kind, found in kinds.items()},
        "neutral": float(pooled.neutral.iloc[0]),
    }


def attribution(folder: Path) -> dict:
    result = AuditResult.load(folder)
    found = {}
    for axis, by_metric in result.axes.items():
        row = next(iter(by_metric.values()))
        found[axis] = {
            "verdict": row.verdict,
            "fairscore": [row.su.fairscore.value, row.su.fairscore.ci] if row.su else None,
            "su": {name: [part.value, part.ci] for name, part in row.su.contributions.items()} if row.su else None,
            "groups": {
                name: {"gap": group.gap.value, "ci": group.gap.ci, "p": group.gap.p}
                | {"shares": {stage: share.value for stage, share in group.shares.items()}}
                for name, group in row.groups.items()
            },
        }
    return found


def fixes(path: Path) -> list[dict]:
    """Return the fixes that were tried on every finding, what is left of it, and what each costs."""
    return [
        {
            "finding": {name: trial["finding"][name] for name in ("axis", "group", "what", "stage")},
            "fix": f"{trial['fix']} on {trial['stage']}",
            "result": trial["result"],
            "difference": [trial["before"], trial["after"]],
            "quality": trial["quality"] and {name: trial["quality"][name] for name in ("before", "after", "verdict")},
            "helps": trial["helps"],
        }
        for trial in json.loads(path.read_text(encoding="utf-8"))["trials"]
    ]


def compared(path: Path) -> dict:
    """Axis to the change of the groups' gaps by masking at test time."""
    return {
        axis: {name: group.gap.model_dump(mode="json") for name, group in by_metric["corpus_bleu"].groups.items()}
        for axis, by_metric in Comparison.load(path).axes.items()
    }


def made_by(runs: Path) -> dict:
    """Return versions, and a hash of the reviews on which the models were trained."""
    files = sorted((runs / "reviews").glob("*.csv"))
    whole = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    return signature_of({}) | {"reviews": [path.stem for path in files], "sha256": whole}


def quality(folder: Path) -> list[dict]:
    """Scores over all cities."""
    scores = pd.read_csv(folder / "quality.csv")
    return rows(scores[scores.city == "all"], ["score", *BOUNDS])


def mitigation(folder: Path) -> dict:
    """What each remedy costs and brings, in one city."""
    frames = {name: pd.read_csv(folder / f"{name}.csv") for name in ("bias", "quality")}
    columns = ["condition", "score", *BOUNDS]
    return {name: rows(frame[frame.city != "all"], columns) for name, frame in frames.items()}


PARTS = {
    "quality": lambda runs: quality(runs / "quality"),
    "prices": lambda runs: prices(runs / "audit"),
    "associations": lambda runs: associations(runs / "audit"),
    "mitigation": lambda runs: mitigation(runs / "mitigation"),
    "attribution": lambda runs: {name: attribution(runs / name) for name in ATTRIBUTIONS},
    "fixes": lambda runs: fixes(runs / "repair" / "mitigation.json"),
    "compared": lambda runs: compared(runs / "compared" / "compare.json"),
}


def main() -> None:
    runs, kept = Path(sys.argv[1]), Path(__file__).with_name("seen.json")
    found = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    stamps = found.get("made by", {})
    for name in sys.argv[2:] or PARTS:
        found[name] = PARTS[name](runs)
        stamps[name] = made_by(runs)
    kept.write_text(json.dumps({**found, "made by": stamps}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
