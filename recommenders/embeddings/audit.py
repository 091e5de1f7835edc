"""The whole audit of one training's embeddings: Beattie's steps identify, implement and flag."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tod_bias.io.files import replacing, write_json
from tod_bias.io.folder import writable
from tod_bias.io.progress import progress_bar
from tod_bias.recommenders.embeddings.classification import classify, from_items
from tod_bias.recommenders.embeddings.directions import (
    ALPHA,
    Direction,
    direction_record,
    fit_directions,
    judge_directions,
    split,
    usable_directions,
)
from tod_bias.recommenders.embeddings.measurement import Scores, entity_frame, metrics
from tod_bias.recommenders.embeddings.pairs import paired_associations
from tod_bias.recommenders.embeddings.sets import EntitySets, shared_rows
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.space import Picture, picture
from tod_bias.recommenders.embeddings.vectors import Embeddings
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.crossed import effective_number

if TYPE_CHECKING:
    from tod_bias.recommenders.embeddings.interactions import Interactions

RECORD = "associations.json"
"""File that identifies the folder of an audit."""
SCHEMA = 1
"""Version of ``associations.json``."""


@dataclass(frozen=True)
class Associations:
    """One audit."""

    record: dict[str, Any]
    """The content of ``associations.json``."""
    entities: pd.DataFrame
    """One row an entity of E and P: id, set, EAA with interval, cosine with and label by each direction."""
    directions: Sequence[Direction] = ()
    """Empty where the audit was read from its folder."""
    picture: Picture | None = None

    def save(self, folder: str | Path) -> None:
        """Write ``directions.npz``, ``entities.parquet`` and, last, ``associations.json``."""
        place = writable(folder)
        with replacing(place / "directions.npz") as path, path.open("wb") as stream:
            np.savez(stream, **{part.name: part.vector for part in self.directions})  # type: ignore[arg-type]
        with replacing(place / "entities.parquet") as path:
            self.entities.to_parquet(path, index=False)
        write_json(place / RECORD, self.record)


def audit(
    embeddings: Embeddings,
    sets: EntitySets,
    settings: AuditSettings | None = None,
    *,
    name: str = "embeddings",
    attribute: str = "attribute",
    interactions: Interactions | None = None,
    pairs: np.ndarray | None = None,
    show_progress: bool = False,
) -> Associations:
    """Measure, test and flag the association of E and P with the attribute that A and B define.

    Args:
        embeddings: of users and items, or of one table.
        sets: A, B, E and, if there is one, P.
        settings: usual ones if not given.
        name: of the embeddings, for comparisons.
        attribute: its name, in words.
        interactions: of the same users and items (by id): the items' audience and the users' histories.
        pairs: (pairs, 2) rows of A and of B, such as counterfactual users, for the association within pairs and for
            the directions ``pca`` and ``bolukbasi``, whose pairs are drawn at random if they are left out.
        show_progress: on stderr.

    Raises:
        EmbeddingsError: sets that cannot be used.
    """
    started = time.monotonic()
    chosen = settings or AuditSettings()
    a, b = sets.a.vectors, sets.b.vectors
    parts = split(len(a), len(b), chosen.seed) if min(len(a), len(b)) >= 2 else None
    with progress_bar(3, "directions", show=show_progress) as bar:
        directions, notes = fit_directions(a, b, parts, pairs, chosen.seed)
        verdicts = judge_directions(directions, a, b, parts, pairs, chosen.seed)
        bar.advance()
        bar.describe("permutations and bootstrap")
        usable = usable_directions(verdicts)
        scores = Scores.of(sets, directions)
        measured = metrics(sets, scores, usable, chosen)
        bar.advance()
        bar.describe("classification")
        frame = entity_frame(sets, scores)
        classification = classify(sets, directions, usable, frame, interactions)
        if interactions is not None:
            classification |= from_items(embeddings, sets, interactions, chosen.seed, notes)
        view = picture(a, b, {part.name: part.vectors for part in sets.tested})
        bar.advance()
    sizes = {name: {"entities": len(part), "dimensions": part.dimensions} for name, part in embeddings.tables.items()}
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "attribute": attribute,
        "embeddings": {"source": embeddings.source, **sizes},
        "sets": {part.role: {"name": part.name, "in": part.entities.name, "size": len(part)} for part in sets.all},
        "clusters": _clusters(sets),
        **measured,
        "pairs": None if pairs is None else paired_associations(sets, pairs, chosen),
        "directions": direction_record(directions, verdicts, parts, a, b),
        "classification": classification,
        "latent_space": view and view.record(),
        "notes": [*embeddings.notes, *sets.notes, *notes, *_set_notes(sets)],
        "signature": {
            "version": version("tod-bias"),
            "seed": chosen.seed,
            "permutations": chosen.permutations,
            "bootstrap": chosen.bootstrap,
            "alpha": ALPHA,
            "intervals": "95%, bootstrap over the entities of all four sets, of E and P over their clusters; R-RIPA's "
            "with the direction held fixed; EAA's over A and B (Welch)",
        },
    }
    record["flags"] = flags(record)
    record["seconds"] = round(time.monotonic() - started, 3)
    record["name"] = name
    return Associations(record, frame, directions, view)


def _clusters(sets: EntitySets) -> dict[str, Any] | None:
    """Count the clusters of E and P, and their effective numbers."""
    if sets.clustered_by is None:
        return None
    counts = {part.role: np.bincount(part.clusters) for part in sets.tested}
    return {"by": sets.clustered_by} | {
        role: {"clusters": len(sizes), "effective": round(effective_number(sizes), 2)} for role, sizes in counts.items()
    }


def _set_notes(sets: EntitySets) -> list[str]:
    if (clusters := _clusters(sets)) is None:
        notes = [
            "the items of a set are treated as independent; if they belong to series (books of one series, tracks "
            "of one artist), name the column of the series with --cluster-items"
        ]
    else:
        rests = (
            f"{part.name} on {clusters[part.role]['clusters']} ({clusters[part.role]['effective']} effective)"
            for part in sets.tested
        )
        notes = [f"items of one {sets.clustered_by} are sampled together: {', '.join(rests)}"]
    for tested, defining in product(sets.tested, (sets.a, sets.b)):
        if shared := len(shared_rows(tested, defining)):
            notes.append(
                f"{shared} entities stand in {tested.role} and in {defining.role}: their cosine with themselves (1) "
                "counts towards their association"
            )
    return notes


CENTROID = "centroid"
"""The direction whose R-RIPA is claimed."""


def flags(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the flags (Beattie section 4.3): the association of E, that of P, and their difference.

    Each flag is based on R-RIPA of the centroid difference and has two p-values, the larger of which counts: that of
    users (labels of A and B exchanged), and that of items (signs of E or of P; labels of E and P exchanged). An
    association is flagged if the p-value is below alpha after Holm's correction, and if all usable directions, at least
    one, agree on its sign.
    """
    entry = result["R_RIPA"][CENTROID]
    usable = {name: part for name, part in result["R_RIPA"].items() if part["usable"]}
    entries = []
    for name in ("E", "P", "differential") if "P" in result["sets"] else ("E",):
        p_users, p_items = entry["tests"]["attribute"][name]["p_value"], entry["tests"][name]["p_value"]
        agree = [direction for direction, part in usable.items() if part[name] * entry[name] > 0]
        p_value = max(p_users, p_items)
        entries.append(
            {"of": name, "value": entry[name], "p_users": p_users, "p_items": p_items, "p_value": p_value}
            | {"agree": agree, "oppose": [direction for direction in usable if direction not in agree]}
        )
    for part, adjusted in zip(entries, holm({part["of"]: part["p_value"] for part in entries}).values(), strict=True):
        part["p_holm"] = adjusted
        part["rejected"] = bool(adjusted < result["signature"]["alpha"])
        part["flagged"] = bool(part["rejected"] and part["agree"] and not part["oppose"])
    return entries
