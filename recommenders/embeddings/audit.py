"""The whole audit of one training's embeddings: Beattie's steps identify, implement and flag."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tod_bias.errors import EmbeddingsError, StatisticsError
from tod_bias.files import replacing
from tod_bias.folder import writable
from tod_bias.progress import progress_bar
from tod_bias.recommenders.embeddings.association import check_ddof, eaa, eaa_interval, separation
from tod_bias.recommenders.embeddings.bootstrap import Intervals, bootstrap
from tod_bias.recommenders.embeddings.classification import (
    Histories,
    accuracy,
    audience_deciles,
    disparity,
    group_difference,
    group_scores,
    history_centroids,
    predict_users,
)
from tod_bias.recommenders.embeddings.direction import (
    Direction,
    Split,
    centroid_direction,
    check_size,
    cosine_table,
    csvc_direction,
    most_biased,
    pca_direction,
    random_pairs,
    split,
    svc_direction,
    usual_sizes,
)
from tod_bias.recommenders.embeddings.sets import EntitySets
from tod_bias.recommenders.embeddings.significance import ALPHA, Verdict, direction_tests
from tod_bias.recommenders.embeddings.space import Picture, picture
from tod_bias.recommenders.embeddings.vectors import Embeddings, Entities, unit
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.permutation import Alternative, TestResult, check_alternative, group_test, sign_test
from tod_bias.statistics.ranks import subsample_rank_sum
from tod_bias.studies.results import Results

if TYPE_CHECKING:
    from tod_bias.recommenders.latent_factor.interactions import Interactions

SCHEMA = 1
"""Version of ``associations.json``."""
TOP_ITEMS = 3
"""Items of a user's history that describe the user (Beattie section 5.2.4)."""


@dataclass(frozen=True)
class AuditSettings:
    """What the numbers depend on, beside embeddings and sets."""

    attribute: str = "attribute"
    """Its name, in words."""
    alternative: Alternative = "two-sided"
    permutations: int = 10_000
    bootstrap: int = 1000
    ddof: int = 0
    """Of the standard deviations in the effect sizes."""
    csvc: tuple[int, ...] | None = None
    """Most biased entities a side, one direction each; None for the usual sizes."""
    svc_sample: int | None = None
    """Entities a side of the SVC direction; None for all training entities."""
    pairs: np.ndarray | None = None
    """(pairs, 2) rows of A and of B for the PCA direction; None draws them at random."""
    top_items: int = TOP_ITEMS
    alpha: float = ALPHA
    seed: int = 0

    def __post_init__(self) -> None:
        try:
            check_alternative(self.alternative)
        except StatisticsError as error:
            raise EmbeddingsError(str(error)) from error
        check_ddof(self.ddof)
        if self.permutations < 1 or self.bootstrap < 0 or self.top_items < 1:
            raise EmbeddingsError("permutations and top items must be 1 or more, bootstrap 0 or more")


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


@dataclass(frozen=True)
class _Scores:
    """What all tests need: unit vectors, EAA, cosines."""

    e: np.ndarray
    p: np.ndarray
    a: np.ndarray
    b: np.ndarray
    eaa_e: np.ndarray
    eaa_p: np.ndarray
    directions: Sequence[Direction] = field(default=())

    def along(self, side: np.ndarray) -> np.ndarray:
        """(entities, directions)."""
        return np.stack([side @ part.vector for part in self.directions], axis=1)


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
        directions, notes = _directions(a, b, parts, chosen)
        bar.advance()
        bar.describe("significance of directions")
        verdicts = _verdicts(directions, a, b, parts, chosen)
        bar.advance()
        bar.describe("permutations")
        nothing = np.zeros((0, a.shape[1]))
        e, p = sets.e.vectors, sets.p.vectors if sets.p is not None else nothing
        values = [eaa(part, a, b) if len(part) else np.zeros(0) for part in (e, p)]
        e_unit, p_unit, a_unit, b_unit = (unit(part) if len(part) else part for part in (e, p, a, b))
        scores = _Scores(e_unit, p_unit, a_unit, b_unit, values[0], values[1], directions)
        tests = _tests(scores, chosen)
        bar.advance()
        bar.describe("bootstrap")
        bounds = bootstrap(
            e_unit,
            p_unit,
            a_unit,
            b_unit,
            [part.vector for part in directions],
            resamples=chosen.bootstrap,
            ddof=chosen.ddof,
            seed=chosen.seed,
        )
        bar.advance()
        bar.describe("classification")
        frame = _frame(sets, scores, eaa_interval(np.concatenate([e, p]), a, b))
        classification = _classification(
            embeddings, sets, directions, verdicts, frame, chosen, interactions, audience, notes
        )
        bar.advance()
        view = picture(a, b, _others(sets), rows=_rows(picture_of, a, b))
        bar.advance()
    result = Associations(
        schema=SCHEMA,
        attribute=chosen.attribute,
        embeddings={
            "source": embeddings.source,
            **{
                name: {"entities": len(part), "dimensions": part.dimensions} for name, part in embeddings.tables.items()
            },
        },
        sets={part.role: {"name": part.name, "in": part.entities.name, "size": len(part)} for part in sets.all},
        **_metrics(sets, scores, tests, bounds, verdicts, chosen),
        directions=_direction_record(directions, verdicts, parts, a, b),
        classification=classification,
        latent_space=_space_record(view),
        notes=[*embeddings.notes, *notes, *_set_notes(sets)],
        signature={
            "version": version("tod-bias"),
            "seed": chosen.seed,
            "permutations": chosen.permutations,
            "bootstrap": chosen.bootstrap,
            "alpha": chosen.alpha,
            "intervals": "95%, bootstrap over the entities of all four sets; R-RIPA's with the direction held fixed; "
            "EAA's over A and B (Welch)",
        },
    )
    result["flags"] = flags(result)
    result["seconds"] = round(time.monotonic() - started, 3)
    result.turns, result.directions, result.picture = frame, directions, view
    return result


def _rows(other: Picture | None, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    if other is None or max(other.rows_a.max(), -1) >= len(a) or max(other.rows_b.max(), -1) >= len(b):
        return None
    return other.rows_a, other.rows_b


def _others(sets: EntitySets) -> dict[str, np.ndarray]:
    return {part.name: part.vectors for part in (sets.e, sets.p) if part is not None}


def _directions(
    a: np.ndarray, b: np.ndarray, parts: Split | None, chosen: AuditSettings
) -> tuple[list[Direction], list[str]]:
    """The directions in use: the centroid difference of all of A and B, classifiers of the training part."""
    found, notes = [centroid_direction(a, b)], []
    if parts is not None:
        train_a, train_b = a[parts.train_a], b[parts.train_b]
        rng = np.random.default_rng(chosen.seed)
        most = chosen.svc_sample or len(a) + len(b)
        found.append(svc_direction(*(side[rng.permutation(len(side))[:most]] for side in (train_a, train_b))))
        sizes = usual_sizes(min(len(train_a), len(train_b))) if chosen.csvc is None else chosen.csvc
        found += [csvc_direction(train_a, train_b, size) for size in sizes]
    else:
        notes.append("A or B holds one entity: no classifier was trained, and no direction was tested")
    random = chosen.pairs is None
    pairs = random_pairs(len(a), len(b), seed=chosen.seed) if chosen.pairs is None else chosen.pairs
    found.append(pca_direction(a, b, pairs, random=random))
    notes += [f"direction {part.name}: {part.warning}" for part in found if part.warning]
    return found, notes


def _verdicts(
    directions: Sequence[Direction], a: np.ndarray, b: np.ndarray, parts: Split | None, chosen: AuditSettings
) -> dict[str, Verdict | None]:
    """Tests on held-out entities; what was fitted on all entities is fitted again without them."""
    if parts is None or min(len(parts.test_a), len(parts.test_b)) < 2:
        return dict.fromkeys(part.name for part in directions)
    level = chosen.alpha / (3 * len(directions))
    found: dict[str, Verdict | None] = {}
    for part in directions:
        vector = part.vector
        if part.name == "centroid":
            vector = centroid_direction(a[parts.train_a], b[parts.train_b]).vector
        elif part.name == "pca":
            vector = _held_out_pca(a, b, parts, chosen)
        p_values = direction_tests(vector, a[parts.test_a], b[parts.test_b], seed=chosen.seed)
        found[part.name] = Verdict(p_values, level)
    return found


def _held_out_pca(a: np.ndarray, b: np.ndarray, parts: Split, chosen: AuditSettings) -> np.ndarray:
    train_a, train_b = a[parts.train_a], b[parts.train_b]
    if chosen.pairs is None:
        return pca_direction(train_a, train_b, random_pairs(len(train_a), len(train_b), seed=chosen.seed)).vector
    kept = np.isin(chosen.pairs[:, 0], parts.train_a) & np.isin(chosen.pairs[:, 1], parts.train_b)
    pairs = chosen.pairs[kept] if kept.any() else chosen.pairs
    return pca_direction(a, b, pairs).vector


@dataclass(frozen=True)
class _Tests:
    entities: TestResult | None
    """Labels of E and P exchanged: DEAA, then R-RIPA's differential a direction."""
    attribute: TestResult
    """Labels of A and B exchanged: GEAA(E), GEAA(P), DEAA."""
    signs: tuple[TestResult, TestResult | None]
    """Signs of the cosines of E and of P: R-RIPA a direction."""
    rank_sum: dict[str, Any] | None
    rank_sums: tuple[dict[str, Any], ...]


def _tests(scores: _Scores, chosen: AuditSettings) -> _Tests:
    options: dict[str, Any] = {"permutations": chosen.permutations, "alternative": chosen.alternative}
    along_e, along_p = scores.along(scores.e), scores.along(scores.p)
    both = len(scores.p) > 0
    entities = None
    if both:
        columns = np.column_stack(
            [np.concatenate([scores.eaa_e, scores.eaa_p]), np.concatenate([along_e, along_p])]
        )  # (E then P, 1 + directions)
        entities = group_test(columns, len(scores.e), seed=chosen.seed, **options)
    # The sum over E of cos(ε, u) is û · sum(ê), for every u of A and B.
    totals = [scores.e.sum(axis=0), scores.p.sum(axis=0), scores.e.sum(axis=0) - scores.p.sum(axis=0)]
    people = np.concatenate([scores.a, scores.b])
    attribute = group_test(people @ np.stack(totals, axis=1), len(scores.a), seed=chosen.seed + 1, **options)
    signs = (
        sign_test(along_e, seed=chosen.seed + 2, **options),
        sign_test(along_p, seed=chosen.seed + 3, **options) if both else None,
    )
    rank: dict[str, Any] = {"alternative": chosen.alternative, "seed": chosen.seed + 4}
    return _Tests(
        entities,
        attribute,
        signs,
        subsample_rank_sum(scores.eaa_e, scores.eaa_p, **rank) if both else None,
        tuple(
            subsample_rank_sum(along_e[:, number], along_p[:, number], **rank) if both else {}
            for number in range(along_e.shape[1])
        ),
    )


def _metrics(
    sets: EntitySets,
    scores: _Scores,
    tests: _Tests,
    bounds: Intervals,
    verdicts: Mapping[str, Verdict | None],
    chosen: AuditSettings,
) -> dict[str, Any]:
    both = sets.p is not None
    second = scores.eaa_p
    geaa = {"E": float(scores.eaa_e.sum())} | ({"P": float(second.sum())} if both else {})
    attribute = {"null": "labels of A and B exchanged"}
    of_groups = {
        "GEAA": {name: tests.attribute.record(number) | attribute for number, name in enumerate(("E", "P")[: 1 + both])}
    }
    found: dict[str, Any] = {
        "EAA": {key: float(value) for key, value in zip(_keys(sets), [*scores.eaa_e, *second], strict=True)},
        "GEAA": geaa,
        "DEAA": geaa["E"] - geaa["P"] if both else None,
        "effect_size": _number(separation(scores.eaa_e, second, chosen.ddof)) if both else None,
        "ddof": chosen.ddof,
        "p_value": tests.entities.p_value if tests.entities else None,
        "alternative": chosen.alternative,
        "permutations": tests.entities.permutations if tests.entities else tests.attribute.permutations,
        "exact": tests.entities.exact if tests.entities else tests.attribute.exact,
        "intervals": {
            "GEAA": {"E": _pair(bounds.geaa_e)} | ({"P": _pair(bounds.geaa_p)} if both else {}),
            "DEAA": _pair(bounds.deaa) if both else None,
            "effect_size": _pair(bounds.effect_size) if both else None,
        },
        "tests": of_groups,
        "R_RIPA": _r_ripa(sets, scores, tests, bounds, verdicts, chosen),
    }
    if tests.entities is not None:
        found["tests"]["DEAA"] = {
            "entities": tests.entities.record() | {"null": "labels of E and P exchanged"},
            "attribute": tests.attribute.record(2) | attribute,
            "rank_sum": tests.rank_sum,
        }
    return found


def _keys(sets: EntitySets) -> list[str]:
    """Ids, with the name of the table before them where E and P lie in different ones."""
    tested = [sets.e] if sets.p is None else [sets.e, sets.p]
    mixed = len({part.entities.name for part in tested}) > 1
    return [f"{part.entities.name}:{name}" if mixed else name for part in tested for name in part.ids]


def _r_ripa(
    sets: EntitySets,
    scores: _Scores,
    tests: _Tests,
    bounds: Intervals,
    verdicts: Mapping[str, Verdict | None],
    chosen: AuditSettings,
) -> dict[str, Any]:
    along_e, along_p = scores.along(scores.e), scores.along(scores.p)
    both = sets.p is not None
    found = {}
    for number, part in enumerate(scores.directions):
        verdict = verdicts[part.name]
        interval = {key: _pair(value) for key, value in bounds.directions[number].items()}
        value_e = float(along_e[:, number].mean())
        value_p = float(along_p[:, number].mean()) if both else None
        entry: dict[str, Any] = {
            "E": value_e,
            "P": value_p,
            "differential": value_e - value_p if value_p is not None else None,
            "effect_size": _number(separation(along_e[:, number], along_p[:, number], chosen.ddof)) if both else None,
            "p_value": float(tests.entities.p_values[number + 1]) if tests.entities else None,
            "usable": bool(verdict and verdict.significant),
            "intervals": interval if both else {"E": interval["E"]},
            "tests": {
                "E": tests.signs[0].record(number) | {"null": "cosines of E symmetric about 0"},
            },
        }
        if tests.entities is not None and tests.signs[1] is not None:
            entry["tests"]["P"] = tests.signs[1].record(number) | {"null": "cosines of P symmetric about 0"}
            entry["tests"]["differential"] = tests.entities.record(number + 1) | {"null": "labels of E and P exchanged"}
            entry["tests"]["rank_sum"] = tests.rank_sums[number]
        found[part.name] = entry
    return found


def _direction_record(
    directions: Sequence[Direction],
    verdicts: Mapping[str, Verdict | None],
    parts: Split | None,
    a: np.ndarray,
    b: np.ndarray,
) -> dict[str, Any]:
    cosines = cosine_table(directions)
    found = {}
    for number, part in enumerate(directions):
        verdict = verdicts[part.name]
        entry: dict[str, Any] = {
            "significant": bool(verdict and verdict.significant),
            "tests": verdict.record() if verdict else {},
            "cosines": {
                other.name: float(cosines[number, place]) for place, other in enumerate(directions) if place != number
            },
            "method": part.method,
        }
        if part.warning:
            entry["warning"] = part.warning
        if part.classifier is not None and parts is not None:
            # The training accuracy of a CSVC is on the most biased entities alone, as in the paper.
            trained = _trained_on(part, a[parts.train_a], b[parts.train_b])
            entry["accuracy"] = {
                "train": accuracy(part.classifier, *trained),
                "test": accuracy(part.classifier, a[parts.test_a], b[parts.test_b]),
            }
        found[part.name] = entry
    return found


def _trained_on(part: Direction, train_a: np.ndarray, train_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not part.name.startswith("csvc_"):
        return train_a, train_b
    rows_a, rows_b = most_biased(train_a, train_b, int(part.name.removeprefix("csvc_")))
    return train_a[rows_a], train_b[rows_b]


def _frame(sets: EntitySets, scores: _Scores, bounds: np.ndarray) -> pd.DataFrame:
    tested = [sets.e] if sets.p is None else [sets.e, sets.p]
    frame = pd.DataFrame(
        {
            "id": [name for part in tested for name in part.ids],
            "table": [part.entities.name for part in tested for _ in range(len(part))],
            "set": [part.role for part in tested for _ in range(len(part))],
            "eaa": np.concatenate([scores.eaa_e, scores.eaa_p]),
            "eaa_low": bounds[0],
            "eaa_high": bounds[1],
        }
    )
    vectors = np.concatenate([scores.e, scores.p])
    for part in scores.directions:
        frame[f"cos_{part.name}"] = vectors @ part.vector
        if part.classifier is not None:
            frame[f"labelled_A_{part.name}"] = part.classifier.predict(vectors)
    return frame


def _classification(
    embeddings: Embeddings,
    sets: EntitySets,
    directions: Sequence[Direction],
    verdicts: Mapping[str, Verdict | None],
    frame: pd.DataFrame,
    chosen: AuditSettings,
    interactions: Interactions | None,
    audience: np.ndarray | None,
    notes: list[str],
) -> dict[str, Any]:
    table = sets.e.entities
    shares = audience
    if shares is None and interactions is not None and table.name == "items" and sets.a.entities.name == "users":
        shares = _audience(interactions, sets, table)
    found: dict[str, Any] = {}
    usable_rows = ~table.is_zero
    for part in directions:
        if part.classifier is None:
            continue
        verdict = verdicts[part.name]
        entry: dict[str, Any] = {"usable": bool(verdict and verdict.significant)}
        labelled = frame[f"labelled_A_{part.name}"].to_numpy()
        if sets.p is not None:
            first = (frame["set"] == "E").to_numpy()
            entry["groups"] = group_scores(labelled, first)
            entry["groups_mann_whitney"] = group_difference(labelled, first)
            truth = None
            if shares is not None and sets.p.entities is table:
                truth_shares = shares[np.concatenate([sets.e.rows, sets.p.rows])]
                known = ~np.isnan(truth_shares)
                if known.any():
                    truth = truth_shares[known] > 0.5
                    labelled, first = labelled[known], first[known]
            names = np.where(first, "E", "P")
            if len(set(names.tolist())) == 2:
                entry["disparity"] = disparity(labelled, names.tolist(), truth)
        if shares is not None:
            everything = part.classifier.predict(table.vectors[usable_rows])
            entry["audience_deciles"] = audience_deciles(everything, shares[usable_rows])
        found[part.name] = entry
    if interactions is not None and {"users", "items"} <= set(embeddings.tables) and sets.a.entities.name == "users":
        top = _top(interactions, embeddings, chosen.top_items)
        items = embeddings.tables["items"].vectors
        histories = Histories(*(history_centroids(items, top, part.rows) for part in (sets.a, sets.b)))
        if min(len(histories.a), len(histories.b)) >= 2:
            found["users_from_items"] = predict_users(histories, chosen.seed) | {"top_items": chosen.top_items}
        else:
            notes.append("fewer than two users of A or B have interactions: users were not predicted from items")
    return found


def _audience(interactions: Interactions, sets: EntitySets, items: Entities) -> np.ndarray:
    """Share of A among each item's users that are in A or B, in the order of the embeddings' items."""
    a, b = set(sets.a.ids), set(sets.b.ids)
    side = np.array([1 if name in a else 2 if name in b else 0 for name in interactions.user_ids])
    count = len(interactions.item_ids)
    counts = [np.bincount(interactions.item[side[interactions.user] == part], minlength=count) for part in (1, 2)]
    total = counts[0] + counts[1]
    share_a = np.divide(counts[0], total, out=np.full(count, np.nan), where=total > 0)
    known = dict(zip(interactions.item_ids, share_a.tolist(), strict=True))
    return np.array([known.get(name, math.nan) for name in items.ids])


def _top(interactions: Interactions, embeddings: Embeddings, count: int) -> list[np.ndarray]:
    users, items = embeddings.tables["users"], embeddings.tables["items"]
    found = [np.zeros(0, dtype=int)] * len(users)
    rows = items.rows_by_id
    for name, top in zip(interactions.user_ids, interactions.top_items(count), strict=True):
        place = users.rows_by_id.get(name)
        if place is not None:
            known = [rows[interactions.item_ids[item]] for item in top if interactions.item_ids[item] in rows]
            found[place] = np.array([row for row in known if not items.is_zero[row]], dtype=int)
    return found


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
    if "DEAA" in result["tests"]:
        for null in ("entities", "attribute"):
            p_values[f"DEAA {null}"] = result["tests"]["DEAA"][null]["p_value"]
    for name, entry in result["R_RIPA"].items():
        if entry["usable"] and entry["p_value"] is not None:
            p_values[f"R-RIPA {name}"] = entry["p_value"]
    alpha = result["signature"]["alpha"]
    return [
        {"test": name, "p_value": p_values[name], "p_holm": adjusted, "flagged": bool(adjusted < alpha)}
        for name, adjusted in holm(p_values).items()
    ]


def _pair(bounds: np.ndarray) -> list[float] | None:
    return None if np.isnan(bounds).any() else [float(bounds[0]), float(bounds[1])]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
