"""Two trainings side by side: with and without the attribute, or before and after a mitigation.

The same entities are scored in both, so differences are paired by entity: under the null hypothesis that the training
makes no difference, an entity's two scores may change places, so its difference may change its sign. Cosines do not
depend on how a latent space is turned, so two trainings can be compared without aligning them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ValidationError

from tod_bias.audit.record import signature_of
from tod_bias.errors import EmbeddingsError, invalid, shortened
from tod_bias.io.documents import check_plain, read_json
from tod_bias.recommenders.embeddings.audit import Associations
from tod_bias.recommenders.embeddings.classification import label_change
from tod_bias.recommenders.embeddings.measurement import resampled_clusters, separated
from tod_bias.recommenders.embeddings.reading import MEANS, comparison_reading
from tod_bias.recommenders.embeddings.sets import numbered
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.intervals import finite, finite_pair, interval
from tod_bias.statistics.permutation import sign_test
from tod_bias.statistics.sums import sums_by

NAME = "comparison.json"


def load_run(folder: str | Path) -> Associations:
    """Read ``associations.json`` and ``entities.parquet``.

    Raises:
        EmbeddingsError: one of them is not there or cannot be read.
    """
    place = Path(folder)
    try:
        record = read_json(place / "associations.json")
        _Record.model_validate(record)
        check_plain(place / "entities.parquet")
        frame = pd.read_parquet(place / "entities.parquet", engine="pyarrow")
        _check_entities(frame, record)
    except ValidationError as error:
        raise _unreadable(place, invalid(error)) from error
    except (OSError, ValueError, OverflowError) as error:
        raise _unreadable(place, str(error)) from error
    return Associations(record, frame)


def _unreadable(place: Path, reason: str) -> EmbeddingsError:
    return EmbeddingsError(
        f"{place}: no results of tod-bias associate can be read ({shortened(reason, 300)}); give folders written with "
        "--out"
    )


class _Ripa(BaseModel):
    usable: bool


class _Flag(BaseModel):
    of: str
    flagged: bool


class _Record(BaseModel):
    """The parts of ``associations.json`` that are read."""

    attribute: str
    ddof: Literal[0, 1]
    directions: dict[str, Any]
    R_RIPA: dict[str, _Ripa]
    sets: dict[str, dict[str, Any] | None]
    flags: list[_Flag]


def _check_entities(frame: pd.DataFrame, record: Mapping[str, Any]) -> None:
    """Raise ValueError unless a frame is a table of tested entities."""
    names = [name for name in record["directions"] if f"cos_{name}" in frame]
    if lacking := [name for name in ("id", "set", "table", "eaa") if name not in frame]:
        raise ValueError(f"entities.parquet has no column {lacking[0]!r}")
    if not set(names) <= set(record["R_RIPA"]) or frame.duplicated(["set", "table", "id"]).any():
        raise ValueError("directions or entities are not those of one audit")
    if not (frame["set"] == "E").any():
        raise ValueError("entities.parquet holds no entity of set E")
    for name in ("eaa", *(f"cos_{name}" for name in names)):
        frame[name].to_numpy(dtype=float)


def compare(
    before: Associations,
    after: Associations,
    *,
    permutations: int = 10_000,
    resamples: int = 1000,
    seed: int = 0,
    names: tuple[str, str] = ("before", "after"),
) -> dict[str, Any]:
    """Return every metric of two audits of the same sets: both values, difference, change in %, interval and p.

    The change in % is 100 (after / before - 1): negative if the association is weaker, in either direction, and below
    -100 if its sign changes.

    Intervals are from a bootstrap over the entities of E and P, p-values from exchanging an entity's two scores, both
    of whole clusters where the first audit has any; both take A and B and the two trainings as they are. DEAA, a
    difference of sums, has no p-value: with sets of unequal size it changes when all entities shift alike. The
    difference of means has one. How much a metric varies between trainings that differ in their seed alone they cannot
    say.

    Args:
        before: the audit that changes are relative to.
        after: the other one.
        permutations: of the tests.
        resamples: of the bootstrap; 0 for none.
        seed: of both.
        names: of the two, for tables and messages.

    Raises:
        EmbeddingsError: the two tested other entities.
    """
    left, right = _aligned(before, after, names)
    first = (left["set"] == "E").to_numpy()
    ddof = int(before.record["ddof"])
    metrics: dict[str, dict[str, Any]] = {}
    clusters = _clusters(left, first)
    columns = {"EAA": "eaa"} | {
        f"R-RIPA {name}": f"cos_{name}"
        for name in before.record["directions"]
        if name in after.record["directions"] and f"cos_{name}" in left and f"cos_{name}" in right
    }
    for label, column in columns.items():
        scores = left[column].to_numpy(dtype=float), right[column].to_numpy(dtype=float)
        result = _changes(scores, first, clusters, label == "EAA", ddof, permutations, resamples, seed)
        for name, entry in result.items():
            metrics[name if label == "EAA" else f"{label} {name}"] = entry
            if label != "EAA":
                key = label.removeprefix("R-RIPA ")
                entry["usable"] = all(run.record["R_RIPA"][key]["usable"] for run in (before, after))
    tested = {name: entry["p_value"] for name, entry in metrics.items() if entry["p_value"] is not None}
    for name, adjusted in holm(tested).items():
        metrics[name]["p_holm"] = adjusted
    labels = {}
    for column in map(str, left.columns):
        if column.startswith("labelled_A_") and column in right:
            pair = left[column].to_numpy(dtype=bool), right[column].to_numpy(dtype=bool)
            parts = {"E": first, "P": ~first}
            labels[column.removeprefix("labelled_A_")] = {
                name: label_change(pair[0][rows], pair[1][rows]) for name, rows in parts.items() if rows.any()
            }
    return {
        "schema": 1,
        "attribute": before.record["attribute"],
        "names": list(names),
        "sets": before.record["sets"],
        "metrics": metrics,
        "labels": labels,
        "reading": comparison_reading(metrics, names[1], after.record["flags"]),
        "permutations": permutations,
        "bootstrap": resamples,
        "seed": seed,
        "signature": signature_of({}),
    }


def _aligned(before: Associations, after: Associations, names: tuple[str, str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    keys = ["set", "table", "id"]
    left, right = (run.entities.set_index(keys) for run in (before, after))
    if set(left.index) != set(right.index):
        only = next(iter(set(left.index) ^ set(right.index)))
        where = names[0] if only in left.index else names[1]
        raise EmbeddingsError(
            f"{names[0]} and {names[1]} tested other entities: id {only[2]!r} of set {only[0]} is in {where} "
            f"alone; audit both with the same sets"
        )
    return left.reset_index(), right.loc[left.index].reset_index()


_SUMS = {
    "E": "GEAA E",
    "P": "GEAA P",
    "difference of sums": "DEAA",
    "difference": MEANS,
    "effect size": "effect size",
}
_MEANS = {"E": "E", "P": "P", "difference": "differential", "effect size": "effect size"}
"""Names of the metrics of EAA, and of a direction."""


def _clusters(frame: pd.DataFrame, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the clusters of E and of P, each (entities,) from 0."""
    labels = np.full(len(frame), None)
    if "cluster" in frame:
        labels = frame["cluster"].astype(object).where(frame["cluster"].notna(), None).to_numpy()
    return numbered(labels[first].tolist()), numbered(labels[~first].tolist())


def _changes(
    scores: tuple[np.ndarray, np.ndarray],
    first: np.ndarray,
    clusters: tuple[np.ndarray, np.ndarray],
    as_sums: bool,
    ddof: int,
    permutations: int,
    resamples: int,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """Changes of the metrics of E, of P, of their difference and of the effect size."""
    e, p = (np.stack([part[rows] for part in scores], axis=1) for rows in (first, ~first))  # (entities, 2)
    rng = np.random.default_rng(seed)
    counts = [resampled_clusters(rng, resamples, codes) for codes in clusters]

    ones = [np.ones((1, len(side))) for side in (e, p)]
    exact, sampled = (_values((e, p), weights, as_sums, ddof) for weights in (ones, counts))
    p_values = _sign_tests((e, p), clusters, permutations, seed)
    fewest = min(int(codes.max()) + 1 for codes in clusters if len(codes))
    result = {}
    for name, label in (_SUMS if as_sums else _MEANS).items():
        if name not in exact:
            continue
        old, new = map(float, exact[name][0])
        draws = sampled[name]
        entry: dict[str, Any] = {
            "before": finite(old),
            "after": finite(new),
            "difference": finite(new - old),
            "change_percent": finite(100 * (new / old - 1)) if old else None,
            "p_value": p_values.get(name),  # none of sums and of the effect size: their intervals say
        }
        if resamples > 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                percent = 100 * (draws[:, 1] / draws[:, 0] - 1)
            entry["ci"] = finite_pair(interval(draws[:, 1] - draws[:, 0], fewest))
            entry["change_percent_ci"] = finite_pair(interval(np.where(np.isfinite(percent), percent, np.nan), fewest))
        result[label] = entry
    return result


def _values(
    sides: tuple[np.ndarray, np.ndarray], weights: list[np.ndarray], as_sums: bool, ddof: int
) -> dict[str, np.ndarray]:
    """The metrics, each (rows, 2), of (entities, 2) scores of E and P that count (rows, entities) times."""
    moments = [
        (np.maximum(weight.sum(axis=1, keepdims=True), 1), weight @ part, weight @ part**2)
        for weight, part in zip(weights, sides, strict=True)
    ]
    *means, effect = separated(moments[0], moments[1], ddof)
    sums = [total * (len(part) / count) for part, (count, total, _) in zip(sides, moments, strict=True)]
    shown = sums if as_sums else means
    if not len(sides[1]):
        return {"E": shown[0]}
    result = {"E": shown[0], "P": shown[1], "difference of sums": sums[0] - sums[1], "difference": means[0] - means[1]}
    return result | {"effect size": effect}


def _sign_tests(
    sides: tuple[np.ndarray, np.ndarray], clusters: tuple[np.ndarray, np.ndarray], permutations: int, seed: int
) -> dict[str, float]:
    """p-values of exchanging the two scores, (entities, 2), on E, on P, and on the difference of their means."""
    changes = {
        name: sums_by(codes, side[:, 1] - side[:, 0], int(codes.max()) + 1)  # a cluster's scores change together
        for name, side, codes in zip(("E", "P"), sides, clusters, strict=True)
        if len(side)
    }
    if "P" in changes:
        # The difference of the two groups' means: each entity weighs by its group's size.
        changes["difference"] = np.concatenate([changes["E"] / len(sides[0]), -changes["P"] / len(sides[1])])
    return {name: sign_test(change, permutations=permutations, seed=seed).p_value for name, change in changes.items()}
