"""The comparison of trainings with and without mitigation: ``tod-bias recommend mitigate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tod_bias.cli.recommender_options import LevelOptions, ReviewOptions
from tod_bias.cli.work.recommender_models import with_reviews
from tod_bias.cli.work.recommender_reviews import read_reviews
from tod_bias.errors import RecommenderError
from tod_bias.io.files import write_table, write_text
from tod_bias.io.folder import claimed
from tod_bias.recommenders.lmrec import mitigation
from tod_bias.recommenders.lmrec.mitigation import CityModels
from tod_bias.recommenders.lmrec.model import training_settings
from tod_bias.recommenders.lmrec.reviews import Reviews
from tod_bias.recommenders.lmrec.templates import load_templates
from tod_bias.report.canvas import to_svg
from tod_bias.report.sheets import print_sheets
from tod_bias.statistics.settings import Inference


def compare_trainings(
    folders: Mapping[str, Sequence[Path]],
    source: ReviewOptions,
    how: LevelOptions,
    audit: tuple[Path | None, int],
    out: Path,
    *,
    device: str | None,
    quiet: bool,
) -> None:
    """Compare quality and bias, write the results, and print them.

    Args:
        folders: kind of training (``plain``, ``masked``, ``augmented``) to its models.
        source: names the reviews.
        how: options of the intervals.
        audit: folder of the user's own templates, and the number of ranks that count.
        out: folder for the results.
        device: of the models.
        quiet: print nothing.

    Raises:
        TodBiasError: a model or reviews cannot be read, or a model has no counterpart.
    """
    templates, top = audit
    trainings = _trainings(folders, read_reviews(source), device)
    out = claimed(out)
    inference = Inference(level=how.level, resamples=how.bootstrap, seed=how.seed)
    words = load_templates(templates)
    result = mitigation.compare(trainings, words=words, top=top, how=inference, show_progress=not quiet)
    write_table(out / "quality.csv", result.quality)
    write_table(out / "bias.csv", result.bias)
    write_text(out / "mitigation.svg", to_svg(mitigation.figure(result)))
    if not quiet:
        print_sheets([mitigation.mitigation_sheet(result, how.level)])
        print(f"Results: {out}")


def _trainings(
    models: Mapping[str, Sequence[Path]], reviews: Sequence[Reviews], device: str | None
) -> list[CityModels]:
    """Return the models by city and seed.

    Raises:
        RecommenderError: a model was not trained so, or has no counterpart of its city and seed.
    """
    options = {"plain": "--model", "masked": "--masked-model", "augmented": "--augmented-model"}
    matched: dict[str, dict[tuple[str, int], Any]] = {}
    names: dict[tuple[str, int], str] = {}
    for kind, folders in models.items():
        for folder in folders:
            settings = training_settings(folder)
            if kind != "plain" and not settings.get("mask" if kind == "masked" else "augment"):
                raise RecommenderError(f"{folder}: was not trained with --{'mask' if kind == 'masked' else 'augment'}")
        for name, (lmrec, part, seed) in with_reviews(folders, reviews, device).items():
            key = (part.city, seed)
            if key in matched.setdefault(kind, {}):
                raise RecommenderError(f"{options[kind]}: two models of {part.city} with seed {seed}; give one")
            matched[kind][key] = (lmrec, part)
            names.setdefault(key, name)
    for kind in matched:
        for key in matched["plain"].keys() ^ matched[kind].keys():
            given, without = (kind, "plain") if key in matched[kind] else ("plain", kind)
            raise RecommenderError(
                f"{options[given]} has a model of {key[0]} with seed {key[1]}, and {options[without]} has none; test "
                "reviews differ by seed, so give models of one seed"
            )
    return [
        CityModels(names[key], part, key[1], {kind: matched[kind][key][0] for kind in matched})
        for key, (_, part) in matched["plain"].items()
    ]
