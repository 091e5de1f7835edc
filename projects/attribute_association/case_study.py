"""Beattie's case study on synthetic interactions: a two-tower recommender with and without users' gender.

python case_study.py audit OUT [--seed 0] [--strength 0.7]   # trains both models, audits and compares them
python case_study.py train OUT [--seed 0] [--strength 0.7]   # trains the model without gender, and writes its files
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cyclopts import App
from synthetic import STRENGTH, synthetic_interactions
from two_tower import TwoTowerConfig, train_two_tower

from tod_bias.io.files import subfolder, write_json, write_table
from tod_bias.io.folder import writable
from tod_bias.recommenders.embeddings.audit import Associations, audit
from tod_bias.recommenders.embeddings.comparison import compare
from tod_bias.recommenders.embeddings.readers import save_embeddings
from tod_bias.recommenders.embeddings.sets import resolve_sets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.study import write_audit
from tod_bias.recommenders.embeddings.vectors import Embeddings

SETS = {
    "A": {"in": "users", "where": {"gender": "female"}},
    "B": {"in": "users", "where": {"gender": "male"}},
    "E": {"in": "items", "where": {"genre": "crime"}},
    "P": {"in": "items", "where": {"genre": "sport"}},
}


PEOPLE = {
    "A": {"in": "counterfactual_users", "where": {"gender": "female"}},
    "B": {"in": "counterfactual_users", "where": {"gender": "male"}},
}
"""Every user as a woman and as a man, of a model that reads gender."""


def counterfactual_users(embeddings: Embeddings, settings: AuditSettings) -> Associations:
    """Audit a model that reads gender on pairs of the same user as a woman and as a man."""
    sets = resolve_sets(SETS | PEOPLE, embeddings)
    count = len(sets.a)
    pairs = np.column_stack([np.arange(count), np.arange(count)])
    return audit(embeddings, sets, settings, attribute="gender", name="counterfactual users", pairs=pairs)


def case_study(
    out: Path, settings: AuditSettings, strength: float = STRENGTH
) -> tuple[Associations, Associations, dict[str, Any]]:
    """Train the model with and without gender, audit both, and compare them.

    The results of the first model are written to ``out``, those of the second to ``out/compared``, and those of the
    first one on counterfactual users to ``out/counterfactual``.

    Returns:
        The audits of the model with gender and of the one without it, and their comparison.
    """
    interactions = synthetic_interactions(strength=strength, seed=settings.seed)
    runs = []
    for name, attribute in (("with gender", "gender"), ("without gender", None)):
        embeddings, _ = train_two_tower(interactions, TwoTowerConfig(attribute=attribute, seed=settings.seed))
        if attribute is not None:
            write_audit(counterfactual_users(embeddings, settings), subfolder(writable(out), "counterfactual"))
        sets = resolve_sets(SETS, embeddings)
        runs.append(audit(embeddings, sets, settings, attribute="gender", name=name, interactions=interactions))
    comparison = compare(
        *runs,
        permutations=settings.permutations,
        resamples=settings.bootstrap,
        seed=settings.seed,
        names=("with gender", "without gender"),
    )
    write_audit(runs[1], subfolder(out, "compared"))
    write_audit(runs[0], out, comparison)
    return runs[0], runs[1], comparison


app = App()


@app.command(name="audit")
def audited(out: Path, *, seed: int = 0, strength: float = STRENGTH) -> None:
    """Run the case study and print what changes without gender."""
    _, _, comparison = case_study(writable(out), AuditSettings(seed=seed), strength)
    for sentence in comparison["reading"]:
        print(f"- {sentence}")


@app.command
def train(out: Path, *, seed: int = 0, strength: float = STRENGTH) -> None:
    """Train without gender; write embeddings.npz, interactions.csv, users.csv, items.csv and training.json."""
    interactions = synthetic_interactions(strength=strength, seed=seed)
    embeddings, record = train_two_tower(interactions, TwoTowerConfig(seed=seed))
    place = writable(out)
    save_embeddings(embeddings, place / "embeddings.npz")
    users, items = np.array(interactions.user_ids), np.array(interactions.item_ids)
    frame = {"user": users[interactions.user], "item": items[interactions.item], "weight": interactions.weight}
    write_table(place / "interactions.csv", pd.DataFrame(frame))
    write_table(place / "users.csv", interactions.users)
    write_table(place / "items.csv", interactions.items)
    write_json(place / "training.json", record)


if __name__ == "__main__":
    app()
