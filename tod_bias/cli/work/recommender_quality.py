"""The quality of recommenders on the test split: ``tod-bias recommend evaluate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tod_bias.cli.recommender_options import LevelOptions, ReviewOptions
from tod_bias.cli.work.recommender_models import with_reviews
from tod_bias.cli.work.recommender_reviews import read_reviews
from tod_bias.io.files import write_json, write_table
from tod_bias.io.folder import claimed
from tod_bias.recommenders.lmrec.mitigation import quality_scores, quality_sheet, rank_held_out
from tod_bias.recommenders.lmrec.templates import Neutraliser
from tod_bias.report.sheets import print_sheets


def score_models(
    folders: Sequence[Path],
    source: ReviewOptions,
    how: LevelOptions,
    out: Path,
    *,
    device: str | None,
    neutralise: bool,
    quiet: bool,
) -> None:
    """Score models on the reviews of their cities, write the scores, and print them.

    Args:
        folders: of the models.
        source: names the reviews.
        how: options of the intervals.
        out: folder for the results.
        device: of the models.
        neutralise: mask what models read.
        quiet: print nothing.

    Raises:
        TodBiasError: a model or reviews cannot be read, or a model has no reviews.
    """
    every = read_reviews(source)
    trained = with_reviews(folders, every, device)
    claimed(out)
    hide = Neutraliser() if neutralise else None
    ranked, splits, cities = {}, {}, {}
    for name, (lmrec, part, seed) in trained.items():
        splits[name], cities[name] = seed, part.city  # other splits hold reviews it was trained on
        ranked[name] = rank_held_out(lmrec, part, seed, hide, show_progress=not quiet)
    frame = quality_scores(ranked, cities, level=how.level, resamples=how.bootstrap, seed=how.seed)
    record = {
        "schema": 1,
        "models": list(map(str, folders)),
        "cities": cities,
        "neutralised": neutralise,
        "level": how.level,
        "resamples": how.bootstrap,
        "seed": how.seed,
        "split_seeds": splits,
        "test_reviews": {name: len(part) for name, part in ranked.items()},
    }
    write_table(out / "quality.csv", frame)
    write_json(out / "quality.json", record)
    if not quiet:
        print_sheets([quality_sheet(frame, how.level)])
        print(f"Results: {out}")
