"""Table over the runs of run.sh, as Markdown: python summary.py FOLDER."""

import json
import sys
from pathlib import Path


def row(name: str, folder: Path) -> str:
    comparison = json.loads((folder / "comparison.json").read_text())["metrics"]
    deaa, effect = comparison["DEAA"], comparison["effect size"]
    after = json.loads((folder / "compared" / "associations.json").read_text())
    claim = next(flag for flag in after["flags"] if flag["of"] == "differential")
    low, high = deaa["change_percent_ci"] or (float("nan"), float("nan"))
    cells = [
        name,
        f"{deaa['before']:+.2f}",
        f"{deaa['after']:+.2f}",
        f"{deaa['change_percent']:+.0f}% [{low:+.0f}, {high:+.0f}]",
        f"{effect['before']:+.2f}",
        f"{effect['after']:+.2f}",
        f"{claim['p_holm']:.3f}",
        "yes" if claim["flagged"] else "no",
    ]
    return "| " + " | ".join(cells) + " |"


def main(out: Path) -> None:
    heads = ["run", "DEAA with", "DEAA without", "change [95%]", "effect with", "effect without"]
    heads += ["without: p (Holm)", "without: flagged"]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for seed in range(3):
        print(row(f"strength 0.7, seed {seed}", out / f"seed_{seed}"))
    for strength in ("0.2", "0"):
        print(row(f"strength {strength}, seed 0", out / f"strength_{strength}"))
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
