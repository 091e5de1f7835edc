"""Asking trained models: filled templates in, the tidy frame out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from tod_bias.errors import RecommenderError
from tod_bias.models.checkpoints import fingerprint
from tod_bias.recommenders.lmrec.masking import Neutraliser
from tod_bias.recommenders.lmrec.model import K, LMRec
from tod_bias.recommenders.lmrec.recommendations import Recommendations, tidy
from tod_bias.recommenders.lmrec.saved import NEUTRAL, NO_GROUP
from tod_bias.recommenders.lmrec.templates import Query, TemplateSet, load_templates
from tod_bias.recommenders.lmrec.training import training_settings


def recommend_templates(
    folders: Sequence[str | Path],
    *,
    templates: str | Path | None = None,
    top: int = K,
    device: str | None = None,
    neutralise: bool = False,
    show_progress: bool = False,
) -> tuple[Recommendations, dict[str, Any]]:
    """Return the template audit's recommendations of some trained models, one per city, and their source.

    Several models of one city (trained with other seeds, for example) count as cities; their folders' names are added.

    Raises:
        RecommenderError: two models of one city in folders of the same name.
    """
    words = load_templates(templates)
    models = [LMRec.load(folder, device=device) for folder in folders]
    cities = distinct_names(
        [model.city or Path(folder).name for model, folder in zip(models, folders, strict=True)], folders
    )
    how: dict[str, Any] = {
        "top": top,
        "hide": Neutraliser(words) if neutralise else None,
        "show_progress": show_progress,
    }
    result = tidy(pd.concat([ask(model, words, city=city, **how) for model, city in zip(models, cities, strict=True)]))
    source = {
        "models": {city: fingerprint(str(folder)) for city, folder in zip(cities, folders, strict=True)},
        "templates": str(templates) if templates else "Shen",
        "top": top,
        "neutralised": neutralise,
    }
    notes = _of_training(models, folders, neutralise=neutralise)
    return replace(result, notes=(*result.notes, *notes)), source


def _of_training(models: Sequence[LMRec], folders: Sequence[str | Path], *, neutralise: bool) -> Iterator[str]:
    """Yield notes on the audit from the models' trainings."""
    if not neutralise and any(model.model.config.masked for model in models):
        yield (
            "trained with masked names, relations and places, but queried with them: findings about these words "
            "show the effect of the initial weights, because no review contained the words"
        )
    begun = [str(training_settings(folder).get("init", "scratch")) for folder in folders]
    for encoder in sorted({encoder for encoder in begun if encoder != "scratch" and begun.count(encoder) > 1}):
        yield (
            f"{begun.count(encoder)} of {len(begun)} models began with the same weights, {encoder}: findings over "
            f"them hold for these weights, and may be accidental"
        )


def distinct_names(cities: Sequence[str], folders: Sequence[str | Path]) -> list[str]:
    """Return names for some models: their city, with the folder's name if several are of one city.

    Raises:
        RecommenderError: two models of one city in folders of the same name.
    """
    names = [
        f"{city} ({Path(folder).name})" if list(cities).count(city) > 1 else city
        for city, folder in zip(cities, folders, strict=True)
    ]
    if alike := [str(folder) for name, folder in zip(names, folders, strict=True) if names.count(name) > 1]:
        raise RecommenderError(
            f"two models of one city in folders of one name: {alike[0]} and {alike[1]}; name a city's folders apart, "
            "for instance leeds-0 and leeds-1"
        )
    return names


def ask(
    model: LMRec,
    words: TemplateSet,
    *,
    city: str,
    top: int = K,
    hide: Neutraliser | None = None,
    show_progress: bool = False,
) -> pd.DataFrame:
    """The top items for every filled template of one model, and for every neutralised template once.

    Args:
        model: the recommender.
        words: templates and the words that fill them.
        city: written into the frame.
        top: items a query.
        hide: masks every query before it is asked (test-side neutralisation).
        show_progress: on stderr.

    Raises:
        RecommenderError: the model knows fewer than ``top`` venues.
    """
    queries, labels = _labelled(words, Neutraliser(words))
    texts = [hide(query.text) if hide else query.text for query in queries]
    ranked = model.rank(texts, top, show_progress=show_progress)
    flat = ranked.ravel()
    part = {
        "kind": [query.kind for query in queries],
        "template": [query.template for query in queries],
        "substitution": [query.substitution for query in queries],
        "second": [query.second for query in queries],
        "query": texts,
        "label": labels,
    }
    frame = pd.DataFrame(part).loc[pd.RangeIndex(len(queries)).repeat(top)].reset_index(drop=True)
    return frame.assign(
        city=city,
        rank=list(range(1, top + 1)) * len(queries),
        item=[model.venues[number].name for number in flat],
        item_id=[model.venues[number].id for number in flat],
        price=[model.venues[number].price for number in flat],
        categories=[model.venues[number].categories for number in flat],
    )


def _labelled(words: TemplateSet, hide: Neutraliser) -> tuple[list[Query], list[str]]:
    """All filled templates with their labels, and behind them every neutralised template once."""
    queries = list(words.queries())
    labels = ["; ".join(f"{name}={label}" for name, label in query.labels.items()) or NO_GROUP for query in queries]
    neutral: dict[tuple[str, str], Query] = {}
    for query in queries:
        neutral.setdefault((query.kind, hide(query.text)), query)
    queries += [Query(kind, query.template, text, "[MASK]") for (kind, text), query in neutral.items()]
    return queries, labels + [NEUTRAL] * len(neutral)
