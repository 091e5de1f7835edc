"""Worlds of scores without a system: dialogues told apart by groups, whose terms have quirks, in unkind ways.

A world draws (dialogues, groups) scores, the term of each, and what else the model is given. In all of them no group is
served worse, so every group that is claimed is a mistake; ``planted`` adds an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse, stats

from tod_bias.audit.claimed_rows import ClaimedRows, blocks_of
from tod_bias.statistics.clusters import Clusters
from tod_bias.statistics.group_model import GroupDesign, GroupFit
from tod_bias.statistics.settings import Inference
from tod_bias.statistics.simultaneous import Family
from tod_bias.statistics.term_families import FactorTerms


@dataclass
class Drawn:
    """One sample of a world."""

    values: np.ndarray
    """(dialogues, groups) harms; NaN where a dialogue has no such counterfactual."""
    terms: np.ndarray
    """(dialogues, groups) numbers of terms."""
    source: np.ndarray | None = None
    """(dialogues,) group of the original."""
    domains: np.ndarray | None = None
    variance: np.ndarray | None = None
    """(groups,) of the groups' means, as an oracle knows it."""
    factors: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    """Of crossed axes by factor: (groups,) levels, and (dialogues, levels) numbers of terms."""


World = Callable[[np.random.Generator], Drawn]


def dealt(rng: np.random.Generator, dialogues: int, terms: int) -> np.ndarray:
    """Every term about equally often, in a random order."""
    return np.concatenate([rng.permutation(terms) for _ in range(-(-dialogues // terms))])[:dialogues]


def plain(
    rng: np.random.Generator,
    dialogues: int,
    groups: int,
    terms: int,
    quirks: float = 0.1,
    *,
    noise: float = 0.2,
    uneven: float = 1.0,
    zipf: float = 0.0,
    aligned: bool = False,
    steady: int = 0,
) -> Drawn:
    """Mean-zero quirks of terms, and noise.

    Args:
        rng: draws it.
        dialogues: their number.
        groups: likewise.
        terms: of each group.
        quirks: standard deviation over terms.
        noise: of one counterfactual.
        uneven: how many times larger the first group's quirks are.
        zipf: exponent of how often terms are used; 0: they are dealt out evenly.
        aligned: whether the terms of all groups stand for each other, as "wife" and "husband" do.
        steady: how many of the last groups have terms without quirks.
    """
    if zipf:
        share = 1 / np.arange(1, terms + 1) ** zipf
        used = np.stack([rng.choice(terms, dialogues, p=share / share.sum()) for _ in range(groups)], axis=1)
    else:
        used = np.stack([dealt(rng, dialogues, terms) for _ in range(groups)], axis=1)
    if aligned:
        used[:] = used[:, :1]
    spread = np.full(groups, quirks)
    spread[0] *= uneven
    spread[groups - steady :] = 0.0
    quirk = rng.normal(0, 1, (groups, terms)) * spread[:, None]
    values = rng.normal(0, 0.3, dialogues)[:, None] + rng.normal(0, noise, (dialogues, groups))
    values += np.stack([quirk[h, used[:, h]] for h in range(groups)], axis=1)
    shares = [np.bincount(used[:, h], minlength=terms) / dialogues for h in range(groups)]
    variance = np.array([spread[h] ** 2 * (shares[h] ** 2).sum() + noise**2 / dialogues for h in range(groups)])
    return Drawn(values, used, variance=variance)


@dataclass(frozen=True)
class Crossed:
    """Two crossed axes whose terms have mean-zero quirks.

    Args:
        levels: of each factor.
        terms: of each level of each factor.
        dialogues: their number.
        quirks: standard deviation over the terms of each factor.
        of_pairs: of what two terms do together.
        beside: of what a term of the first factor does beside one level of the second.
        missing: share of the rewritten counterfactuals that a dialogue lacks, as fewer variants than groups make them.
        effect: by which the first level of the first factor is served worse.
    """

    levels: tuple[int, int] = (2, 2)
    terms: tuple[int, int] = (6, 6)
    dialogues: int = 100
    quirks: tuple[float, float] = (0.1, 0.1)
    of_pairs: float = 0.0
    beside: float = 0.0
    missing: float = 0.0
    effect: float = 0.0

    def __call__(self, rng: np.random.Generator) -> Drawn:
        """One sample; every dialogue is of one group, with the terms of all levels dealt."""
        first, second = (some.ravel() for some in np.indices(self.levels))
        used = [
            np.stack([dealt(rng, self.dialogues, terms) for _ in range(levels)], axis=1)
            for levels, terms in zip(self.levels, self.terms, strict=True)
        ]
        one, other = used[0][:, first], used[1][:, second]
        quirk = [
            rng.normal(0, spread, shape) for spread, *shape in zip(self.quirks, self.levels, self.terms, strict=True)
        ]
        pairs = rng.normal(0, self.of_pairs, (len(first), *self.terms))
        beside = rng.normal(0, self.beside, (len(first), self.terms[0]))
        cells = np.arange(len(first))
        values = rng.normal(0, 0.3, self.dialogues)[:, None] + rng.normal(0, 0.05, one.shape)
        values += quirk[0][first, one] + quirk[1][second, other] + pairs[cells, one, other] + beside[cells, one]
        values += self.effect * (first == 0)
        source = rng.integers(0, len(first), self.dialogues)
        lacks = rng.random(values.shape) < self.missing
        lacks[np.arange(self.dialogues), source] = False
        values[lacks] = np.nan
        return Drawn(values, one, source, factors=((first, used[0]), (second, used[1])))


def _mixed(share: float, groups: int = 2) -> World:
    def world(rng: np.random.Generator) -> Drawn:
        drawn = plain(rng, 130, groups, 12)
        others = rng.integers(1, groups, 130) if groups > 2 else np.ones(130, dtype=int)
        drawn.source = np.where(rng.random(130) < share, 0, others)
        drawn.values += 0.1
        drawn.values[np.arange(130), drawn.source] -= 0.1
        return drawn

    return world


def _alike(rng: np.random.Generator) -> Drawn:
    drawn = plain(rng, 150, 3, 10, 0.03)
    drawn.values[:, :2] += rng.normal(0, 0.3, 150)[:, None]
    return drawn


def _tails(freedom: float) -> World:
    def world(rng: np.random.Generator) -> Drawn:
        drawn = plain(rng, 130, 3, 8, 0.05, noise=0.0)
        drawn.values += 0.1 * rng.standard_t(freedom, drawn.values.shape)
        return drawn

    return world


def _refusals(share: float, dialogues: int, terms: int = 12, *, by_term: bool = False) -> World:
    def world(rng: np.random.Generator) -> Drawn:
        drawn = plain(rng, dialogues, 2, terms, 0.0)
        bad = rng.random((2, terms)) < share
        single = (rng.random((dialogues, 2)) < share).astype(float)
        of_terms = np.stack([bad[h, drawn.terms[:, h]] for h in range(2)], axis=1).astype(float)
        drawn.values = of_terms if by_term else single
        return drawn

    return world


def _domains(number: int, spread: float = 0.15) -> World:
    def world(rng: np.random.Generator) -> Drawn:
        drawn = plain(rng, 130, 2, 12, 0.05)
        drawn.domains = rng.integers(0, number, 130)
        drawn.values += rng.normal(0, spread, (number, 2))[drawn.domains]
        return drawn

    return world


def _missing(share: float, groups: int = 4) -> World:
    """Harder dialogues lack counterfactuals more often, as fewer variants than groups make them."""

    def world(rng: np.random.Generator) -> Drawn:
        drawn = plain(rng, 200, groups, 6)
        hard = drawn.values.mean(axis=1, keepdims=True)
        drawn.values[rng.random(drawn.values.shape) < np.clip(share + 0.4 * hard, 0.05, 0.8)] = np.nan
        return drawn

    return world


def _rare_terms(terms: int, share: float) -> World:
    def world(rng: np.random.Generator) -> Drawn:
        drawn = plain(rng, 130, 2, terms, 0.0)
        bad = rng.random(terms) < share
        drawn.values[:, 0] += 0.6 * (bad[drawn.terms[:, 0]] - share)
        return drawn

    return world


def _skewed(rng: np.random.Generator) -> Drawn:
    drawn = plain(rng, 150, 3, 10, 0.0)
    drawn.values += (rng.exponential(0.2, (3, 10)) - 0.2)[np.arange(3)[None], drawn.terms]
    return drawn


def _noisy_group(rng: np.random.Generator) -> Drawn:
    drawn = plain(rng, 150, 4, 8, 0.05)
    drawn.values[:, 0] += rng.normal(0, 0.8, 150)
    return drawn


def _one_domain(rng: np.random.Generator) -> Drawn:
    drawn = plain(rng, 130, 2, 12, 0.05)
    drawn.values[:, 0] += np.array([0.3, -0.1, -0.1, -0.1])[rng.integers(0, 4, 130)]
    return drawn


REVIEWED: dict[str, World] = {
    **{
        f"{g} groups of {k} terms, n {n}, quirks {q}": (lambda rng, g=g, k=k, n=n, q=q: plain(rng, n, g, k, q))
        for g, k, n in ((2, 6, 100), (2, 20, 300), (6, 3, 120), (6, 4, 120), (6, 12, 180), (10, 3, 600), (18, 8, 300))
        for q in (0.0, 0.1)
    },
    "one group's quirks four times as large, 6 x 4, n 100": lambda rng: plain(rng, 100, 6, 4, uneven=4),
    "one group's quirks ten times as large, 2 x 12": lambda rng: plain(rng, 130, 2, 12, uneven=10),
    **{
        f"quirks in one group alone, {g} x {k}, noise {noise}": (
            lambda rng, g=g, k=k, noise=noise: plain(rng, 120, g, k, noise=noise, steady=g - 1)
        )
        for g, k, noise in ((2, 6, 0.05), (3, 4, 0.05), (3, 4, 0.2), (6, 4, 0.05), (6, 4, 0.2), (3, 8, 0.05))
    },
    "Zipf 1.5, 2 x 20": lambda rng: plain(rng, 200, 2, 20, zipf=1.5),
    "t(1.5) noise": _tails(1.5),
    "Cauchy noise": _tails(1.0),
    "refusals of 1%, n 130": _refusals(0.01, 130),
    "refusals of 1%, n 500": _refusals(0.01, 500),
    "refusals by term, 8% of 12": _refusals(0.08, 130, by_term=True),
    "rewriting harms by .1, originals 8 : 2": _mixed(0.8),
    "rewriting harms by .1, originals 9 : 1": _mixed(0.9),
    "domains differ, 5 of them": _domains(5),
    "domains differ, 8 of them": _domains(8),
    "domains differ, 16 of them": _domains(16),
    "harm in one domain, the opposite in the others": _one_domain,
    "one term in twenty hit by .6": _rare_terms(20, 0.05),
    "20 dialogues, 2 x 6": lambda rng: plain(rng, 20, 2, 6),
}
"""The worlds that the estimator was reviewed in."""
FRESH: dict[str, World] = {
    "two of three groups fail together": _alike,
    "words of one paradigm, 2 x 10": lambda rng: plain(rng, 120, 2, 10, aligned=True),
    "words of one paradigm, 3 x 8": lambda rng: plain(rng, 120, 3, 8, aligned=True),
    "one group four times as noisy": _noisy_group,
    "skewed quirks, 3 x 10": _skewed,
    "missing where it is hard, 4 x 6": _missing(0.3),
    "half is missing, 6 x 6": _missing(0.5, 6),
    "three groups, rewriting harms by .1, originals 8 : 1 : 1": _mixed(0.8, 3),
    "refusals of 3%": _refusals(0.03, 130),
    "refusals by term, 10% of 40": _refusals(0.1, 300, 40, by_term=True),
    "Zipf 1, 6 x 12": lambda rng: plain(rng, 180, 6, 12, zipf=1.0),
    "quirks in two of five groups, 5 x 5, noise .05": lambda rng: plain(rng, 120, 5, 5, noise=0.05, steady=3),
    "one group's quirks twice as large, 4 x 4": lambda rng: plain(rng, 120, 4, 4, uneven=2, noise=0.05),
    "one group's quirks three times as large, 5 x 6": lambda rng: plain(rng, 120, 5, 6, uneven=3, noise=0.05),
    "quirks in all but one of ten groups, 10 x 4": lambda rng: plain(rng, 200, 10, 4, noise=0.05, steady=1),
    "12 dialogues, 3 x 4": lambda rng: plain(rng, 12, 3, 4),
}
"""Worlds that it was not tuned on."""
CROSSED: dict[str, Crossed] = {
    "2 x 2 levels of 6 terms, n 100": Crossed(),
    "2 x 2 levels of 6 terms, n 600": Crossed(dialogues=600),
    "3 x 3 levels of 6 terms": Crossed((3, 3)),
    "3 x 3 levels of 15 and 3 terms, n 90": Crossed((3, 3), (15, 3), 90),
    "no quirks": Crossed((3, 3), quirks=(0.0, 0.0)),
    "quirks of the first factor alone": Crossed((3, 3), quirks=(0.1, 0.0)),
    "quirks of pairs of terms, n 600": Crossed((2, 2), dialogues=600, quirks=(0.03, 0.03), of_pairs=0.1),
    "quirks of terms beside one level, n 600": Crossed((2, 2), dialogues=600, quirks=(0.03, 0.03), beside=0.1),
    "half is missing, 3 x 3": Crossed((3, 3), dialogues=150, missing=0.5),
    "planted: a level of 12 terms .15 worse, quirks .05": Crossed(
        (2, 2), (12, 12), 150, quirks=(0.05, 0.05), effect=0.15
    ),
}
"""Crossed axes."""


@dataclass
class Judged:
    """What is said of one sample."""

    rows: ClaimedRows
    p: np.ndarray
    """(groups,) simultaneous; 1 where a row is of these terms only, which is no claim."""
    covers: bool
    """Whether all intervals hold 0 at once."""
    may_be_claimed: bool
    """Not where nearly all dialogues are originals of one group: what any rewriting does is not known then without a
    placebo, and an audit claims nothing."""
    intervals: Sequence[tuple[float, float] | None]
    """Simultaneous, (groups,); None where a row is of these terms only."""


def judged(drawn: Drawn) -> Judged:
    """The gaps of all groups, as an audit claims them."""
    groups = drawn.values.shape[1]
    return judged_rows(
        drawn, fit_of(drawn), {str(group): np.eye(groups)[group] - 1 / groups for group in range(groups)}
    )


def effects_of(drawn: Drawn) -> dict[str, np.ndarray]:
    """The contrasts of the main effects and of the interaction of crossed axes."""
    (first, _), (second, _) = drawn.factors
    mean = np.full(len(first), 1 / len(first))
    main = {
        f"{place}/{level}": (levels == level) / (levels == level).sum() - mean
        for place, (levels, _) in enumerate(drawn.factors)
        for level in range(levels.max() + 1)
    }
    both = {
        f"interaction/{group}": np.eye(len(first))[group] - mean - main[f"0/{one}"] - main[f"1/{other}"]
        for group, (one, other) in enumerate(zip(first, second, strict=True))
    }
    return main | both


def fit_of(drawn: Drawn) -> GroupFit:
    """The model of a sample."""
    dialogues = len(drawn.values)
    is_original = None
    if drawn.source is not None:
        is_original = np.zeros(drawn.values.shape, dtype=bool)
        is_original[np.arange(dialogues), drawn.source] = True
    clusters = [] if drawn.domains is None else [Clusters.of([str(number) for number in drawn.domains])]
    terms: list[sparse.csr_array | None] | list[FactorTerms] = [_weights(some) for some in drawn.terms.T]
    if drawn.factors:
        terms = [FactorTerms(level, [_weights(some) for some in used.T]) for level, used in drawn.factors]
    return GroupDesign(~np.isnan(drawn.values), terms, is_original, clusters).fit(drawn.values)


def judged_rows(drawn: Drawn, fit: GroupFit, contrasts: Mapping[str, np.ndarray]) -> Judged:
    """Contrasts of the groups, as an audit claims them."""
    known = np.nan_to_num(drawn.values)
    differs = np.abs(known - known[:, :1]).max(axis=1) > 0
    rows = ClaimedRows.of(fit, differs, contrasts, Inference(permutations=1000))
    family = Family(blocks_of([rows], 0))
    estimates = rows.estimates(family)
    over = rows.over_terms
    intervals = [found.ci if known else None for found, known in zip(estimates.values(), over, strict=True)]
    covers = all(found is None or found[0] <= 0 <= found[1] for found in intervals)
    over = over & (not any(kind.are_few for kind in fit.design.kinds))  # a claim of these domains only
    p = np.where(over, np.array([found.p for found in estimates.values()], dtype=float), 1.0)
    return Judged(rows, p, covers, drawn.source is None or fit.design.has_originals, intervals)


def _weights(labels: np.ndarray) -> sparse.csr_array:
    names, codes = np.unique(labels, return_inverse=True)
    cells = (np.ones(len(codes)), (np.arange(len(codes)), codes))
    return sparse.csr_array(sparse.coo_array(cells, shape=(len(codes), len(names))))


def size(world: World, runs: int, seed: int) -> tuple[float, float]:
    """How often any group is claimed, and how often the intervals of all groups hold 0 at once where one may be."""
    found = [judged(world(np.random.default_rng([seed, number]))) for number in range(runs)]
    claims = [some.may_be_claimed and (some.p < 0.05).any() for some in found]
    return float(np.mean(claims)), float(np.mean([some.covers for some in found if some.may_be_claimed]))


def crossed_size(world: Crossed, runs: int, seed: int) -> tuple[float, float, float, float]:
    """How often any group of crossed axes is claimed, any effect, and how often the intervals of all gaps, and of all
    effects, hold what is planted at once. What is of these terms only is no claim."""
    claimed, covers = np.zeros(2), np.zeros(2)
    for number in range(runs):
        drawn = world(np.random.default_rng([seed, number]))
        groups = drawn.values.shape[1]
        gaps = {str(group): np.eye(groups)[group] - 1 / groups for group in range(groups)}
        fit, planted = fit_of(drawn), world.effect * (drawn.factors[0][0] == 0)
        for place, contrasts in enumerate((gaps, effects_of(drawn))):
            judged = judged_rows(drawn, fit, contrasts)
            claimed[place] += bool((judged.p < 0.05).any())
            covers[place] += all(
                found is None or found[0] <= contrast @ planted <= found[1]
                for found, contrast in zip(judged.intervals, contrasts.values(), strict=True)
            )
    return float(claimed[0] / runs), float(claimed[1] / runs), float(covers[0] / runs), float(covers[1] / runs)


def power(dialogues: int, groups: int, terms: int, quirks: float, runs: int, seed: int) -> tuple[float, float, float]:
    """How often a planted harm of one group is claimed: by an oracle that knows the variances, by a test that is told
    that they are alike (:func:`pooled_power`), and by the estimator.

    The effect is the one that the oracle's simultaneous test finds in four of five.
    """
    first = plain(np.random.default_rng(seed), dialogues, groups, terms, quirks)
    contrast = np.eye(groups)[0] - 1 / groups
    assert first.variance is not None
    error = float(np.sqrt((contrast**2 * first.variance).sum()))
    critical = _oracle(first.variance, groups, seed)
    effect = (critical + stats.norm.ppf(0.8)) * error / (1 - 1 / groups)
    hits = np.zeros(2)
    for number in range(runs):
        drawn = plain(np.random.default_rng([seed, number]), dialogues, groups, terms, quirks)
        drawn.values[:, 0] += effect
        gap = (drawn.values.mean(axis=0) - drawn.values.mean())[0]
        hits += [abs(gap) / error > critical, judged(drawn).p[0] < 0.05]
    return float(hits[0] / runs), pooled_power(groups, terms, seed), float(hits[1] / runs)


def pooled_power(groups: int, terms: int, seed: int, draws: int = 100_000) -> float:
    """What a test finds that knows that the terms of all groups vary alike and estimates how much, with ``terms`` - 1
    degrees of freedom per group, where the oracle finds four of five: no test that is told less can find more."""
    variance = np.ones(groups)
    effect = _oracle(variance, groups, seed) + stats.norm.ppf(0.8)
    freedom = groups * (terms - 1)
    rng = np.random.default_rng(seed)
    scale = np.sqrt(rng.chisquare(freedom, draws) / freedom)
    critical = np.quantile(np.abs(_gaps(variance, groups, rng, draws)).max(axis=1) / scale, 0.95)
    return float(np.mean(np.abs(rng.normal(effect, 1, draws)) / scale > critical))


def _oracle(variance: np.ndarray, groups: int, seed: int) -> float:
    """The .95 quantile of the largest |z| over all gaps."""
    return float(np.quantile(np.abs(_gaps(variance, groups, np.random.default_rng(seed), 20_000)).max(axis=1), 0.95))


def _gaps(variance: np.ndarray, groups: int, rng: np.random.Generator, draws: int) -> np.ndarray:
    """(draws, groups) z values of the gaps of groups that are served alike."""
    contrasts = np.eye(groups) - 1 / groups
    errors = np.sqrt((contrasts**2 * variance).sum(axis=1))
    return np.asarray(rng.normal(size=(draws, groups)) * np.sqrt(variance) @ contrasts.T / errors)
