"""Latent spaces for tests: random ones, and ones with a planted association."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tod_bias.recommenders.embeddings.audit import Associations, audit
from tod_bias.recommenders.embeddings.directions import centroid_direction
from tod_bias.recommenders.embeddings.measurement import Scores, make_tests
from tod_bias.recommenders.embeddings.sets import EntitySets, resolve_sets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.vectors import Embeddings


def planted(strength, *, people=120, things=40, dimensions=16, seed=0):
    """Users of A and B and items of E and P; E is moved towards A and P towards B by ``strength``."""
    rng = np.random.default_rng(seed)
    axis = np.zeros(dimensions)
    axis[0] = 1
    a, b = rng.normal(size=(2, people, dimensions)) + np.array([axis, -axis])[:, None, :] * 1.0
    e, p = rng.normal(size=(2, things, dimensions)) + np.array([axis, -axis])[:, None, :] * strength
    return a, b, e, p


@dataclass(frozen=True)
class Space:
    """Users around a common mean of length 1, items that are popular (along that mean) and come in series."""

    users: tuple[int, int] = (100, 100)
    spreads: tuple[float, float] = (1.0, 1.0)
    apart: float = 0.0
    """Half the distance of the centroids of A and B, along the attribute."""
    popular: tuple[float, float] = (1.0, 1.0)
    leans: tuple[float, float] = (0.0, 0.0)
    """Means of E and of P along the attribute."""
    series: tuple[tuple[int, ...], tuple[int, ...]] = ((1,) * 60, (1,) * 60)
    """Items of each series of E and of P."""
    icc: float = 0.0
    """Share of an item's variance that its series shares."""
    dimensions: int = 16

    def drawn(self, rng):
        """Users of A and of B, items of E and of P, and the series of the items."""
        mean, axis = np.eye(self.dimensions)[:2]
        a, b = (
            mean + sign * self.apart * axis + spread * rng.normal(size=(count, self.dimensions))
            for count, spread, sign in zip(self.users, self.spreads, (1, -1), strict=True)
        )
        items, labels = [], []
        for popular, lean, sizes, name in zip(self.popular, self.leans, self.series, "ep", strict=True):
            codes = np.repeat(np.arange(len(sizes)), sizes)
            shared = rng.normal(size=(len(sizes), self.dimensions)) * np.sqrt(self.icc)
            single = rng.normal(size=(len(codes), self.dimensions)) * np.sqrt(1 - self.icc)
            items.append(popular * mean + lean * axis + shared[codes] + single)
            labels += [f"{name}{code}" for code in codes]
        return a, b, *items, labels

    def audited(self, seed: int, *, clustered: bool = False, bootstrap: int = 0) -> Associations:
        """The audit of one draw of it, with or without its series as clusters."""
        a, b, e, p, labels = self.drawn(np.random.default_rng([17, seed]))
        settings = AuditSettings(permutations=199, bootstrap=bootstrap, seed=seed)
        return audited(a, b, e, p, settings, labels if clustered else None)

    def p_values(self, seed: int, *, clustered: bool = False, permutations: int = 199) -> dict[str, float]:
        """What the claims rest on, of one draw of it: the larger p-value of E, of P and of their difference."""
        a, b, e, p, labels = self.drawn(np.random.default_rng([17, seed]))
        scores = Scores.of(entity_sets(a, b, e, p, labels if clustered else None)[1], [centroid_direction(a, b)])
        tests, of_directions = make_tests(scores, AuditSettings(permutations=permutations, seed=seed))
        items = of_directions["centroid"]
        values = {name: max(items[name]["p_value"], users["p_value"]) for name, users in items["attribute"].items()}
        return values | {"EAA": max(tests["mean_difference"][null]["p_value"] for null in ("entities", "attribute"))}


SPREAD_ONLY = Space(users=(40, 400), spreads=(1.0, 0.35), popular=(1.5, 0.5))
"""A is scattered and B is not, E is popular and P is not; nothing lies along an attribute."""
TEN_SERIES = ((10,) * 10, (10,) * 10)


def entity_sets(a, b, e, p, labels=None) -> tuple[Embeddings, EntitySets]:
    """Four sets of vectors as embeddings and sets; ``labels`` are the series of the items, E first."""
    vectors = Embeddings.of(users=np.concatenate([a, b]), items=np.concatenate([e, p]))
    users, items = len(a) + len(b), len(e) + len(p)
    specs = {"A": list(range(len(a))), "B": list(range(len(a), users))}
    specs |= {"E": list(range(len(e))), "P": list(range(len(e), items))}
    series = {"clusters": {"series": {str(row): label for row, label in enumerate(labels)}}} if labels else {}
    return vectors, resolve_sets(specs | series, vectors, cluster_items="series" if labels else None)


def audited(a, b, e, p, settings, labels=None) -> Associations:
    """The audit of four sets of vectors."""
    return audit(*entity_sets(a, b, e, p, labels), settings)


def flagged(result: Associations) -> set[str]:
    """What an audit claims: of E, of P, of their difference."""
    return {flag["of"] for flag in result.record["flags"] if flag["flagged"]}


def eaa_rejects(result: Associations) -> bool:
    """Whether both of the paper's tests of the difference of mean EAA reject, each by itself."""
    tests = result.record["tests"]["mean_difference"]
    return max(tests[null]["p_value"] for null in ("entities", "attribute")) <= 0.05
