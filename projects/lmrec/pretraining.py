"""Effect of pretraining alone: the audits of unplanted.sh, compared city by city.

    python pretraining.py runs/unplanted        # writes pretraining.json and prints tables

An effect is a number per city: a difference of association (group × category), a share of prices (group × price level)
less its neutral value, an average price of a place less the mean of all places. Cities are the sample: t intervals over
them, of each kind of model and of paired differences between kinds (seeds are averaged first; mean absolute effects are
those of one training, averaged over seeds); p-values adjusted by Benjamini and Hochberg within a family. What one of
the trainings lacks in one of the cities is left out of all, and counted. Kinds that are not there are left out, too.
"""

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from tod_bias.audit.record import signature_of

FAMILIES = ("association", "price_percentage", "average_price")
KINDS = {
    "pretrained": ("pretrained-0", "pretrained-1"),
    "random": ("random-0",),
    "scratch": ("scratch-0", "scratch-1"),
    "masked": ("masked-0",),
    "shared": ("shared-0", "shared-1"),
    "shared, masked": ("shared_masked-0", "shared_masked-1"),
    "own": ("own-0", "own-1"),
    "own, masked": ("own_masked-0", "own_masked-1"),
}
"""``shared`` and ``own``: small ones that were taught nothing, in every city with the same first weights and tokenizer:
MiniLM's, or one of all cities' reviews."""
CONTRASTS = (
    ("pretrained", "random"), ("pretrained", "scratch"), ("masked", "pretrained"), ("shared, masked", "shared"),
    ("own, masked", "own"),
)  # fmt: skip


def effects(folder: Path, family: str) -> pd.Series:
    """City and effect to its value; of two groups that mirror each other the first."""
    table = pd.read_csv(folder / f"{family}.csv")
    table = table[table["city"].notna() & ~table["city"].isin(["all", "over cities"])]
    if family == "association":
        table = table[[label < other for label, other in zip(table["label"], table["other"], strict=True)]]
        name, value = table[["dimension", "category", "label", "other"]], table["difference"]
    elif family == "price_percentage":
        first = table.groupby("dimension")["label"].transform("first")
        count = table.groupby("dimension")["label"].transform("nunique")
        table = table[(count > 2) | (table["label"] == first)]
        name, value = table[["dimension", "label", "price"]], table["value"] - table["neutral"]
    else:
        audited = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
        places = {place for own in audited["places"].values() for place in own}
        table = table[table["substitution"].isin(places)]
        name = table[["substitution"]]
        value = table["value"] - table.groupby("city")["value"].transform("mean")
    keys = name.astype(str).agg(" / ".join, axis=1)
    return pd.Series(value.to_numpy(), index=pd.MultiIndex.from_arrays([table["city"], keys], names=["city", "effect"]))


def over_cities(values: np.ndarray) -> dict[str, float]:
    """Mean, 95 % t interval and p-value over cities, all of which need a value."""
    if np.isnan(values).any():
        raise ValueError("a city has no value")
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, len(values) - 1)) if error > 0 else float(mean == 0)
    return {"value": mean, "low": mean - half, "high": mean + half, "p": p}


def compared(runs: Path, family: str) -> dict[str, object]:
    """Return the effects of a family, by kind of model and as differences."""
    trained = {  # kind to a table of each training: a row a city, a column an effect
        kind: [
            effects(runs / f"audit-{name}", family).unstack("effect")
            for name in names
            if (runs / f"audit-{name}/audit.json").is_file()
        ]
        for kind, names in KINDS.items()
    }
    trained = {kind: own for kind, own in trained.items() if own}
    every = [one for own in trained.values() for one in own]
    if not every or len({tuple(one.index) for one in every}) > 1:
        sys.exit(f"{runs}: expected audits of the same cities, audit-pretrained-0 and so on; finish unplanted.sh")
    whole = [set(one.columns[one.notna().all()]) for one in every]
    common = sorted(set.intersection(*whole))
    lacking = len(set().union(*(one.columns for one in every))) - len(common)
    wide = {kind: pd.concat([one[common] for one in own]).groupby(level="city").mean() for kind, own in trained.items()}
    record: dict[str, object] = {"cities": len(every[0]), "left_out": lacking, "effects": {}}
    contrasts = dict(wide)
    paired = [pair for pair in CONTRASTS if set(pair) <= set(trained)]
    for one, other in paired:
        contrasts[f"{one} - {other}"] = wide[one] - wide[other]
    for name, own in contrasts.items():
        rows = {effect: over_cities(own[effect].to_numpy()) for effect in own.columns}
        adjusted = stats.false_discovery_control([row["p"] for row in rows.values()])
        for row, p in zip(rows.values(), adjusted, strict=True):
            row["p_adjusted"] = float(p)
        record["effects"][name] = rows
    sizes = {  # of one training: a mean of two seeds has less noise, and would look smaller
        kind: pd.concat([one[common].abs().mean(axis=1) for one in own], axis=1).mean(axis=1)
        for kind, own in trained.items()
    }
    record["size"] = {kind: over_cities(own.to_numpy()) for kind, own in sizes.items()}
    for one, other in paired:
        record["size"][f"{one} - {other}"] = over_cities((sizes[one] - sizes[other]).to_numpy())
    arrays = {kind: [one[common].to_numpy() for one in own] for kind, own in trained.items()}
    record["agreement"] = {kind: agreement(own, own) for kind, own in arrays.items()} | {
        f"{one} × {other}": agreement(arrays[one], arrays[other]) for one, other in paired
    }
    return record


def agreement(ones: list[np.ndarray], others: list[np.ndarray]) -> dict[str, float]:
    """Mean correlation of the effects of two trainings on different cities; near 0 where each has its own.

    Cities share nothing but the tokenizer, the weights that a training begins with, and where the seed is the same the
    classifier's first weights: ``same_seed`` is of those trainings, ``other_seeds`` of those that do not share the seed
    (of ``shared`` and ``own`` these begin with other weights, too). The p-value is that of turning the signs of whole
    cities, one-sided: of six there are 32 ways, it is 0.031 at the least.

    Args:
        ones: of each seed an array, city × effect, in the order of the seeds.
        others: of the same cities and effects.
    """
    cities = len(ones[0])
    apart = ~np.eye(cities, dtype=bool)
    signs = np.array([(1, *rest) for rest in product((1, -1), repeat=cities - 1)])
    tables = {
        (row, column): np.corrcoef(one, other)[:cities, cities:]
        for row, one in enumerate(ones)
        for column, other in enumerate(others)
    }
    means = [
        float(np.mean([(table * np.outer(turned, turned))[apart].mean() for table in tables.values()]))
        for turned in signs
    ]
    found = {"value": means[0], "p": float(np.mean([mean >= means[0] - 1e-12 for mean in means]))}
    for name, same in (("same_seed", True), ("other_seeds", False)):
        of_pairs = [table[apart].mean() for (row, column), table in tables.items() if (row == column) is same]
        found |= {name: float(np.mean(of_pairs))} if of_pairs else {}
    return found


def main(runs: Path) -> None:
    result = {family: compared(runs, family) for family in FAMILIES}
    for family, record in result.items():
        print(f"\n## {family}, {record['cities']} cities; {record['left_out']} effects that one lacks are left out")
        print("\n| mean absolute effect | value [95%] | p |\n|---|---|---|")
        for kind, row in record["size"].items():
            print(f"| {kind} | {row['value']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}] | {row['p']:.3f} |")
        print("\n| agreement of cities | correlation | p | other seeds |\n|---|---|---|---|")
        for kind, row in record["agreement"].items():
            separate = f"{row['other_seeds']:+.2f}" if "other_seeds" in row else "–"
            print(f"| {kind} | {row['value']:+.2f} | {row['p']:.3f} | {separate} |")
        for name, rows in record["effects"].items():
            kept = {effect: row for effect, row in rows.items() if row["p_adjusted"] < 0.05}
            print(f"\n{name}: {len(kept)} of {len(rows)} effects with adjusted p < 0.05")
            for effect, row in sorted(kept.items(), key=lambda entry: -abs(entry[1]["value"]))[:8]:
                bounds = f"{row['value']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
                print(f"  {effect}: {bounds}, p {row['p_adjusted']:.3f}")
    made = {**_rounded(result), "signature": signature_of({})}
    (runs / "pretraining.json").write_text(json.dumps(made) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(own) for name, own in value.items()}
    return round(value, 5) if isinstance(value, float) else value


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python pretraining.py FOLDER")
    main(Path(sys.argv[1]))
