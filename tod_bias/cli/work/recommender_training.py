"""The training of LMRec, a model per city: ``tod-bias recommend train``."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.recommender_options import ReviewOptions
from tod_bias.cli.work.recommender_reviews import read_reviews
from tod_bias.errors import RecommenderError, repeated
from tod_bias.io.files import subfolder
from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig
from tod_bias.recommenders.lmrec.templates import Neutraliser, load_templates


def train_cities(
    source: ReviewOptions,
    templates: Path | None,
    config: RecommenderTrainConfig,
    out: Path,
    *,
    resume: bool,
    quiet: bool,
) -> None:
    """Train a model on the reviews of each city.

    Args:
        source: names the reviews.
        templates: folder of the user's own words to mask.
        config: options of the training.
        out: folder for the model; with several cities, a folder each in it.
        resume: continue an earlier training in the folder.
        quiet: print nothing.

    Raises:
        TodBiasError: reviews cannot be read, or two cities have one name.
    """
    hide = Neutraliser(load_templates(templates))
    every = read_reviews(source)
    names = [part.city for part in every]
    if doubled := repeated(names):
        raise RecommenderError(f"two cities are called {doubled!r}; name them apart with --reviews CITY=FILE")
    if len(every) > 1 and (odd := [name for name in names if Path(name).name != name]):
        raise RecommenderError(f"the city {odd[0]!r}: its model goes into a folder of this name; give it another one")

    from tod_bias.recommenders.lmrec import model, search  # heavy: after what may go wrong at once

    train_model = model.train if config.search == 1 else search.search
    for part in every:
        folder = subfolder(out, part.city) if len(every) > 1 else out
        record = train_model(part, folder, config, neutraliser=hide, resume=resume, show_progress=not quiet)
        if not quiet:
            print(
                f"{part.city}: {len(part.venues)} venues, {len(part):,} reviews, {record['steps']} steps; lowest "
                f"validation loss {record['validation_loss']:.4f} nats per review at step {record['best_step']}. "
                f"Model: {folder}"
            )
