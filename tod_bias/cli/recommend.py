"""``tod-bias recommend``: its commands, each of which reads options, calls the library, prints."""

from __future__ import annotations

import typer

from tod_bias.cli.recommend_audit import audit
from tod_bias.cli.recommend_model import evaluate, mitigate, train
from tod_bias.cli.recommend_reviews import sample, statistics

app = typer.Typer(
    name="recommend",
    no_args_is_help=True,
    help="Trains, scores, audits and mitigates LMRec, or audits any recommender's saved lists (Shen 2022, 2023).",
)
for command in (audit, sample, statistics, train, evaluate, mitigate):
    app.command()(command)
