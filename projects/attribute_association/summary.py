"""Table over the runs of run.sh, as Markdown: python summary.py FOLDER."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path


def row(name: str, folder: Path) -> str:
    comparison = json.loads((folder / "comparison.json").read_text())["metrics"]
    deaa, effect = comparison["DEAA"], comparison["effect size"]
    before, after = (json.loads((place / "associations.json").read_text()) for place in (folder, folder / "compared"))
    claim = next(flag for flag in after["flags"] if flag["of"] == "differential")
    low, high = deaa["change_percent_ci"] or (float("nan"), float("nan"))
    cells = [
        name,
        f"{deaa['before']:+.2f}",
        f"{deaa['after']:+.2f}",
        f"{deaa['change_percent']:+.0f}% [{low:+.0f}, {high:+.0f}]",
        f"{effect['before']:+.2f}",
        f"{effect['after']:+.2f}",
        *(f"{claim[name]:.4f}" for name in ("p_items", "p_users", "p_holm")),
        flagged(before),
        flagged(after),
    ]
    return "| " + " | ".join(cells) + " |"


def flagged(run: dict) -> str:
    names = {"E": run["sets"]["E"]["name"], "P": run["sets"]["P"]["name"], "differential": "difference"}
    return ", ".join(names[flag["of"]] for flag in run["flags"] if flag["flagged"]) or "nothing"


def pair_row(name: str, folder: Path) -> str:
    """Cosine with the centroid difference, and whether all tests reject, of both directions from random pairs."""
    cells = [name]
    for place in (folder, folder / "compared"):
        if (place / "associations.json").exists():
            directions = json.loads((place / "associations.json").read_text())["directions"]
            for method in ("pca", "bolukbasi"):
                usable = "usable" if directions[method]["significant"] else "fails"
                cells.append(f"{directions[method]['cosines']['centroid']:+.3f}, {usable}")
    return "| " + " | ".join([*cells, *["-"] * (5 - len(cells))]) + " |"


def print_table(heads: list[str], rows: Iterable[str]) -> None:
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads), *rows, sep="\n")


def main(out: Path) -> None:
    heads = ["run", "DEAA with", "DEAA without", "change [95%]", "effect with", "effect without"]
    heads += [f"without: {name}" for name in ("p, items", "p, users", "p (Holm)")]
    heads += ["with: flagged", "without: flagged"]
    runs = {f"strength 0.7, seed {seed}": out / f"seed_{seed}" for seed in range(3)}
    runs |= {f"strength {strength}, seed 0": out / f"strength_{strength}" for strength in ("0.2", "0")}
    print_table(heads, (row(name, folder) for name, folder in runs.items()))
    heads = [f"{method}, {when}" for when in ("with", "without") for method in ("pca", "bolukbasi")]
    print("\nDirections from random pairs: cosine with the centroid difference, and the three tests.\n")
    rows = [pair_row(name, folder) for name, folder in (runs | {"control": out / "control"}).items()]
    print_table(["run", *heads], rows)
    control = json.loads((out / "control" / "associations.json").read_text())
    claim = next(flag for flag in control["flags"] if flag["of"] == "differential")
    usable = [name for name, entry in control["directions"].items() if entry["significant"]]
    print(
        f"\nControl (region, not seen): DEAA {control['DEAA']:+.3f}, effect size {control['effect_size']:+.2f}; "
        f"p over items {claim['p_items']:.3f}, over users {claim['p_users']:.3f}; "
        f"usable directions: {', '.join(usable) or 'none'}."
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
