"""The whole audit of one training's embeddings: Beattie's steps identify, implement and flag."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.audit.results import Results
from tod_bias.files import replacing
from tod_bias.folder import writable
from tod_bias.progress import progress_bar
from tod_bias.recommenders.embeddings.association import eaa, eaa_interval
from tod_bias.recommenders.embeddings.bootstrap import bootstrap
from tod_bias.recommenders.embeddings.direction import Direction, check_size, split
from tod_bias.recommenders.embeddings.identification import direction_record, fit_directions, judge_directions
from tod_bias.recommenders.embeddings.labelling import classify, from_items
from tod_bias.recommenders.embeddings.measurement import Scores, entity_frame, make_tests, metrics
from tod_bias.recommenders.embeddings.sets import EntitySets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.space import Picture, picture
from tod_bias.recommenders.embeddings.vectors import Embeddings, unit
from tod_bias.statistics.adjustment import holm

if TYPE_CHECKING:
    import pandas as pd

    from tod_bias.recommenders.latent_factor.interactions import Interactions

SCHEMA = 1
"""Version of ``associations.json``."""


class Associations(Results):
    """The content of ``associations.json``, with a row an entity beside it."""

    record_name = "associations.json"
    frame_name = "entities.parquet"
    directions: Sequence[Direction]
    """The bias directions themselves; written to ``directions.npz``."""
    picture: Picture | None

    @property
    def entities(self) -> pd.DataFrame:
        """One row an entity of E and P: id, set, EAA with interval, cosine with and label by each direction."""
        return self.turns

    def save(self, folder: str | Path) -> None:
        """Write ``directions.npz``, ``entities.parquet`` and, last, ``associations.json``."""
        place = writable(folder)
        with replacing(place / "directions.npz") as path, path.open("wb") as stream:
            np.savez(stream, **{part.name: part.vector for part in self.directions})  # type: ignore[arg-type]
        super().save(place)


def audit(
    embeddings: Embeddings,
    sets: EntitySets,
    settings: AuditSettings | None = None,
    *,
    interactions: Interactions | None = None,
    audience: np.ndarray | None = None,
    picture_of: Picture | None = None,
    show_progress: bool = False,
) -> Associations:
    """Measure, test and flag the association of E and P with the attribute that A and B define.

    Args:
        embeddings: of users and items, or of one table.
        sets: A, B, E and, if there is one, P.
        settings: usual ones if not given.
        interactions: of the same users and items (by id): the items' audience and the users' histories.
        audience: (items,) share of A in each item's audience, instead of what the interactions say.
        picture_of: picture of another training, whose most biased entities this one's picture is fitted on too.
        show_progress: on stderr.

    Raises:
        EmbeddingsError: sets or settings that cannot be used.
    """
    started = time.monotonic()
    chosen = settings or AuditSettings()
    a, b = sets.a.vectors, sets.b.vectors
    parts = split(len(a), len(b), chosen.seed) if min(len(a), len(b)) >= 2 else None
    if parts is not None:
        for size in chosen.csvc or ():
            check_size(size, len(parts.train_a), len(parts.train_b))
    with progress_bar(6, "directions", show=show_progress) as bar:
        directions, notes = fit_directions(a, b, parts, chosen)
        bar.advance()
        bar.describe("significance of directions")
        verdicts = judge_directions(directions, a, b, parts, chosen)
        bar.advance()
        bar.describe("permutations")
        scores = _scores(sets, directions)
        tests = make_tests(scores, chosen)
        bar.advance()
        bar.describe("bootstrap")
        bounds = bootstrap(
            *(scores.e, scores.p, scores.a, scores.b),
            [part.vector for part in directions],
            resamples=chosen.bootstrap,
            ddof=chosen.ddof,
            seed=chosen.seed,
        )
        bar.advance()
        bar.describe("classification")
        tested = np.concatenate([part.vectors for part in (sets.e, sets.p) if part is not None])
        frame = entity_frame(sets, scores, eaa_interval(tested, a, b))
        usable = {name for name, verdict in verdicts.items() if verdict and verdict.significant}
        classification = classify(sets, directions, usable, frame, interactions, audience)
        if interactions is not None:
            classification |= from_items(embeddings, sets, interactions, chosen, notes)
        bar.advance()
        view = picture(a, b, _others(sets), rows=_rows(picture_of, a, b))
        bar.advance()
    result = Associations(
        schema=SCHEMA,
        attribute=chosen.attribute,
        embeddings=_sizes(embeddings),
        sets={part.role: {"name": part.name, "in": part.entities.name, "size": len(part)} for part in sets.all},
        **metrics(sets, scores, tests, bounds, verdicts, chosen),
        directions=direction_record(directions, verdicts, parts, a, b),
        classification=classification,
        latent_space=_space_record(view),
        notes=[*embeddings.notes, *notes, *_set_notes(sets)],
        signature=_signature(chosen),
    )
    result["flags"] = flags(result)
    result["seconds"] = round(time.monotonic() - started, 3)
    result.turns, result.directions, result.picture = frame, directions, view
    return result


def _scores(sets: EntitySets, directions: Sequence[Direction]) -> Scores:
    a, b, e = (part.vectors for part in (sets.a, sets.b, sets.e))
    if sets.p is None:
        none = np.zeros((0, a.shape[1]))
        return Scores(unit(e), none, unit(a), unit(b), eaa(e, a, b), np.zeros(0), directions)
    p = sets.p.vectors
    return Scores(unit(e), unit(p), unit(a), unit(b), eaa(e, a, b), eaa(p, a, b), directions)


def _rows(other: Picture | None, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    if other is None or max(other.rows_a.max(), -1) >= len(a) or max(other.rows_b.max(), -1) >= len(b):
        return None
    return other.rows_a, other.rows_b


def _others(sets: EntitySets) -> dict[str, np.ndarray]:
    return {part.name: part.vectors for part in (sets.e, sets.p) if part is not None}


def _sizes(embeddings: Embeddings) -> dict[str, Any]:
    sizes = {name: {"entities": len(part), "dimensions": part.dimensions} for name, part in embeddings.tables.items()}
    return {"source": embeddings.source, **sizes}


def _signature(chosen: AuditSettings) -> dict[str, Any]:
    return {
        "version": version("tod-bias"),
        "seed": chosen.seed,
        "permutations": chosen.permutations,
        "bootstrap": chosen.bootstrap,
        "alpha": chosen.alpha,
        "intervals": "95%, bootstrap over the entities of all four sets; R-RIPA's with the direction held fixed; "
        "EAA's over A and B (Welch)",
    }


def _space_record(view: Picture | None) -> dict[str, Any] | None:
    if view is None:
        return None
    return {
        "fitted_on": {"A": len(view.rows_a), "B": len(view.rows_b)},
        "explained_variance": list(view.explained),
        "first_component_cosine_to_centroid": view.cosine,
    }


def _set_notes(sets: EntitySets) -> list[str]:
    notes = []
    for tested in (sets.e, sets.p):
        for defining in (sets.a, sets.b):
            if tested is not None and tested.entities.name == defining.entities.name:
                shared = len(np.intersect1d(tested.rows, defining.rows))
                if shared:
                    notes.append(
                        f"{shared} entities stand in {tested.role} and in {defining.role}: their cosine with "
                        f"themselves (1) counts towards their association"
                    )
    return notes


def flags(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Which tests flag (Beattie section 4.3): p-values below alpha after Holm's correction over all of them."""
    p_values: dict[str, float] = {}
    for name in result["GEAA"]:
        p_values[f"GEAA {name}"] = result["tests"]["GEAA"][name]["p_value"]
    if "mean_difference" in result["tests"]:
        for null in ("entities", "attribute"):
            p_values[f"mean difference {null}"] = result["tests"]["mean_difference"][null]["p_value"]
    for name, entry in result["R_RIPA"].items():
        if entry["usable"] and entry["p_value"] is not None:
            p_values[f"R-RIPA {name}"] = entry["p_value"]
    alpha = result["signature"]["alpha"]
    return [
        {"test": name, "p_value": p_values[name], "p_holm": adjusted, "flagged": bool(adjusted < alpha)}
        for name, adjusted in holm(p_values).items()
    ]
