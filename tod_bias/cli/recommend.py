"""``tod-bias recommend``: commands that read options, call the library and print."""

from __future__ import annotations

from cyclopts import App

recommend = App(
    name="recommend",
    version_flags=(),
    help="Trains, scores, audits and mitigates LMRec, or audits any recommender's saved lists (Shen 2022, 2023).",
    help_epilogue="Example: tod-bias recommend audit --recommendations lists.csv --out runs/lists",
)
for name, module in {
    "audit": "audit",
    "sample": "reviews",
    "statistics": "reviews",
    "train": "model",
    "evaluate": "model",
    "mitigate": "model",
}.items():
    recommend.command(f"tod_bias.cli.recommend_{module}:{name}", name=name)
