"""Search of LMRec's hyper-parameters by validation loss (Shen 2023 §3.2).

Shen selects the head's width, its dropout and the learning rate from the sets below, by the final validation loss of
each city. Here some combinations are drawn at random, because 112 trainings a city are rarely worth their time
(Bergstra and Bengio 2012).
"""

from __future__ import annotations

import random
import shutil
from itertools import product
from pathlib import Path
from typing import Any

from tod_bias.io.documents import read_json
from tod_bias.io.files import subfolder, write_json
from tod_bias.io.folder import writable
from tod_bias.recommenders.lmrec.model import train
from tod_bias.recommenders.lmrec.reviews import Reviews
from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig
from tod_bias.recommenders.lmrec.templates import Neutraliser

SEARCHED = {
    "hidden": (256, 512, 1024, 2048),
    "dropout": (0.0, 0.2, 0.4, 0.6),
    "learning_rate": (9e-6, 1e-5, 3e-5, 5e-5, 7e-5, 9e-5, 1e-4),
}
"""Values of Shen 2023 §3.2. Learning rates are those of fine-tuning BERT; others are in the same proportion to the
usual rate, which is 3e-5 there."""
USUAL = 3e-5
TRIALS = "search"
"""Folder of the combinations within a model's folder."""
RECORD = "search.json"


def combinations(settings: RecommenderTrainConfig) -> list[RecommenderTrainConfig]:
    """Return the settings to try, ``settings.search`` of them: as given first, then seeded draws without repetition.

    Settings that were given keep their value in all of them.
    """
    first = settings.with_usual_rate().model_copy(update={"search": 1})
    usual = settings.model_copy(update={"learning_rate": None}).with_usual_rate().learning_rate or USUAL
    fixed = settings.model_fields_set | ({"hidden"} if settings.head_layers == 1 else set())
    values = {name: (getattr(first, name),) if name in fixed else tried for name, tried in SEARCHED.items()}
    if "learning_rate" not in fixed:
        values["learning_rate"] = tuple(round(rate * usual / USUAL, 10) for rate in SEARCHED["learning_rate"])
    given = tuple(getattr(first, name) for name in values)
    others = [some for some in product(*values.values()) if some != given]
    drawn = random.Random(settings.seed).sample(others, min(len(others), settings.search - 1))
    return [first, *(first.model_copy(update=dict(zip(values, some, strict=True))) for some in drawn)]


def search(
    reviews: Reviews,
    out: str | Path,
    settings: RecommenderTrainConfig,
    *,
    neutraliser: Neutraliser | None = None,
    resume: bool = True,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Train each of some combinations, keep the model with the lowest validation loss, and return its record.

    Arguments and errors are those of :func:`tod_bias.recommenders.lmrec.model.train`. ``search.json`` in ``out`` lists
    all combinations with their losses; an interrupted search continues with ``resume``.
    """
    folder = writable(out)
    options: dict[str, Any] = {"neutraliser": neutraliser, "resume": resume, "show_progress": show_progress}
    trials: list[dict[str, Any]] = []
    best: tuple[float, Path] | None = None
    for number, tried in enumerate(combinations(settings)):
        place = subfolder(subfolder(folder, TRIALS), str(number))
        record = _finished(place, tried) if resume else None
        record = train(reviews, place, tried, **options) if record is None else record
        loss = float(record["validation_loss"])
        trials.append({name: getattr(tried, name) for name in SEARCHED} | {"validation_loss": loss})
        if best is None or loss < best[0]:
            best = loss, place
    assert best is not None
    shutil.copytree(best[1], folder, dirs_exist_ok=True)
    shutil.rmtree(folder / TRIALS)
    write_json(folder / RECORD, {"seed": settings.seed, "trials": trials})
    result: dict[str, Any] = dict(read_json(folder / "training.json"))
    return result


def _finished(place: Path, settings: RecommenderTrainConfig) -> dict[str, Any] | None:
    """Return the record of a complete training with these settings; None if there is none."""
    try:
        record = dict(read_json(place / "training.json"))
    except (OSError, ValueError):
        return None
    return record if record.get("settings") == settings.model_dump(mode="json") else None
