"""``tod-bias recommend``, whose commands are modules beside this one."""

from __future__ import annotations

from cyclopts import App

from tod_bias.cli.commands.recommend_audit import audit
from tod_bias.cli.commands.recommend_evaluate import evaluate
from tod_bias.cli.commands.recommend_mitigate import mitigate
from tod_bias.cli.commands.recommend_train import train

recommend = App(
    name="recommend",
    version_flags=(),
    help="Trains, scores, audits and mitigates LMRec, or audits any recommender's saved lists (Shen 2022, 2023).",
    help_epilogue="Example: tod-bias recommend audit --recommendations lists.csv --out runs/lists",
)
for _command in (audit, train, evaluate, mitigate):
    recommend.command(_command)
