"""What a run found, typed: the numbers of ``results.json`` (schema 2) as frozen dataclasses.

What a run did not write is ``None`` or empty, and is shown as missing rather than as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tod_bias.errors import TodBiasError
from tod_bias.report.record import RunError
from tod_bias.report.values import Estimate, mapping, real, sequence, whole

FLOOR = "floor"
"""The verdict of the placebo."""
RESIDUAL = "residual"
"""The part of Su's fairscore that stays when every component is swapped."""


DIFFERENT = ("disparity", "these words only")
"""Verdicts that a difference is there, of groups or of these words."""


def claims_of(results: Mapping[str, Any], axis: str) -> list[str]:
    """Metrics by which a run claims something on an axis."""
    return [name for name, record in results["axes"][axis].items() if record.get("verdict") in DIFFERENT]


def check_claims(results: Mapping[str, Any], axes: Sequence[str], metric: str) -> None:
    """See to it that a run found something by a metric on some of the axes.

    Raises:
        TodBiasError: nothing, so that there is nothing to mend.
    """
    claimed = {axis: claims_of(results, axis) for axis in axes if axis in results["axes"]}
    if any(metric in by for by in claimed.values()):
        return
    others = "; ".join(f"{axis} by {', '.join(by)}" for axis, by in claimed.items() if by)
    hint = f"; other metrics do: {others} (--metric)" if others else ""
    raise TodBiasError(f"the run claims no disparity by {metric} on these axes, so there is nothing to mend{hint}")


@dataclass(frozen=True)
class Metric:
    """What was measured."""

    name: str
    label: str
    """In sentences and tables."""
    better: str
    """``higher``, ``lower`` or ``neither``."""
    signature: str = ""
    counterfactual: bool = False
    """Whether it compares a telling with its original: 0 for who is told as there, whoever is served worse."""


@dataclass(frozen=True)
class Group:
    """How dialogues are served when they are told as one attribute."""

    name: str
    score: Estimate
    """On the metric's own scale."""
    gap: Estimate
    """Disparity, less the mean of all that the same dialogues are told as; positive: served worse."""
    above: Estimate | None
    """What of the gap is above that of placebo rewording; ``None`` without a placebo."""
    contributions: Mapping[str, Estimate]
    """Component to its part of the gap."""
    dialogues: int | None
    words: float | None
    """Effective words that stand for the group."""


@dataclass(frozen=True)
class Pair:
    """Told as ``target`` against told as ``source``, on the dialogues that are told as both."""

    name: str
    """``source>target``."""
    gap: Estimate
    """Positive: the target is served worse."""
    contributions: Mapping[str, Estimate]
    dialogues: int | None

    @property
    def source(self) -> str:
        """The attribute that is compared with."""
        return self.name.partition(">")[0]

    @property
    def target(self) -> str:
        """The attribute that is compared."""
        return self.name.partition(">")[2]


@dataclass(frozen=True)
class Effect:
    """Of crossed attributes: a level of one of them, or what a group is served beyond its two levels."""

    factor: str
    """``interaction`` for the latter."""
    level: str
    gap: Estimate
    contributions: Mapping[str, Estimate]
    dialogues: int | None


@dataclass(frozen=True)
class Word:
    """A cluster of words."""

    name: str
    dialogues: int | None
    part: float | None
    """What it adds to the disparity."""
    without: float | None
    """The disparity without it."""


@dataclass(frozen=True)
class Su:
    """Su's own numbers: absolute, along one order."""

    fairscore: Estimate
    total: Estimate | None
    """The paper's bar, v({db})."""
    contributions: Mapping[str, Estimate]
    """In the order of the swaps."""
    residual: Estimate


@dataclass(frozen=True)
class Outcome:
    """One axis, measured by one metric."""

    axis: str
    metric: Metric
    scale: str
    """``ratio``: parts of the originals' score; ``difference``: in the metric's own units."""
    verdict: str
    dialogues: int | None
    words: float | None
    """Effective words."""
    words_number: int | None
    clusters: Mapping[str, int]
    """Further clusters and how many of them there are."""
    original: Estimate
    rewritten: Estimate
    disparity: Estimate
    artefact: Estimate
    contributions: Mapping[str, Estimate]
    interactions: Mapping[str, Estimate]
    above: Estimate | None
    """The disparity above that of the placebo in the same dialogues."""
    above_dialogues: int | None
    changed: Mapping[str, float | None]
    """Words changed a dialogue, by the ``axis`` and by its ``placebo``; empty without a placebo."""
    groups: tuple[Group, ...]
    pairs: tuple[Pair, ...]
    strongest: tuple[Word, ...]
    """Words with the largest parts."""
    arms: Mapping[str, float | None]
    """Swapped components, sorted and joined by a comma, to the score."""
    spread: float | None
    """Root mean square of the groups' gaps, less what noise adds."""
    detectable: float | None
    """The smallest disparity that is found in 80% of such runs."""
    equivalent_within: float | None
    """The margin within which all gaps are shown to lie."""
    su: Su | None = field(default=None)
    references: tuple[Group, ...] = ()
    """Told as nobody: without an introduction, or with a neutral one; compared with, and nothing is claimed of them."""
    effects: tuple[Effect, ...] = ()
    """Of crossed attributes."""
    unmeasured: str = ""
    """Why nothing is measured; empty where something is."""
    short_of: tuple[str, ...] = ()
    """What a disparity of a group would take that is not there (:mod:`tod_bias.audit.claims`)."""

    @property
    def is_whole(self) -> bool:
        """Whether every group is looked at in all dialogues of the axis."""
        return all(group.dialogues == self.dialogues for group in self.groups)

    @property
    def is_floor(self) -> bool:
        """Whether this is the placebo."""
        return self.verdict == FLOOR

    @property
    def key(self) -> str:
        """Axis and metric in one word, for file names and links."""
        return f"{self.axis}_{self.metric.name}"


def read_outcomes(results: Mapping[str, Any]) -> list[Outcome]:
    """All axes of a run, each by all metrics, the placebo last.

    Raises:
        RunError: a value is not of the type that the contract says; the message names the place.
    """
    metrics = {
        name: Metric(
            name,
            str(one.get("label", name)),
            str(one.get("better", "higher")),
            str(one.get("signature", "")),
            one.get("counterfactual") is True,
        )
        for name, one in ((name, mapping(one, f"metrics.{name}")) for name, one in _items(results, "metrics"))
    }
    found = [
        _outcome(axis, metrics.get(name, Metric(name, name, "higher")), mapping(record, f"axes.{axis}.{name}"))
        for axis, by_metric in _items(results, "axes")
        for name, record in mapping(by_metric, f"axes.{axis}").items()
    ]
    return sorted(found, key=lambda outcome: outcome.is_floor)


def _items(results: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    return list(mapping(results.get(name), name).items())


def _outcome(axis: str, metric: Metric, record: Mapping[str, Any]) -> Outcome:
    where = f"axes.{axis}.{metric.name}"
    if "disparity" not in record:
        raise RunError(f"results.json, {where}: holds no disparity; repeat the run's command to write it again")
    disparity = mapping(record["disparity"], f"{where}.disparity")
    clusters = mapping(disparity.get("clusters"), f"{where}.disparity.clusters")
    words = mapping(record.get("words"), f"{where}.words")
    known = ("dialogues", "words", "words_effective")
    above = record.get("above_placebo")

    def estimate(name: str) -> Estimate:
        return Estimate.read(record.get(name), f"{where}.{name}")

    return Outcome(
        axis=axis,
        metric=metric,
        scale=str(record.get("scale", "ratio")),
        verdict=str(record.get("verdict", "")),
        dialogues=whole(clusters.get("dialogues"), f"{where}.disparity.clusters.dialogues"),
        words=real(clusters.get("words_effective"), f"{where}.disparity.clusters.words_effective"),
        words_number=whole(clusters.get("words"), f"{where}.disparity.clusters.words"),
        clusters={
            name: number
            for name, value in clusters.items()
            if name not in known and (number := whole(value, f"{where}.disparity.clusters.{name}")) is not None
        },
        original=estimate("original"),
        rewritten=estimate("rewritten"),
        disparity=estimate("disparity"),
        artefact=estimate("artefact"),
        contributions=_estimates(record.get("contributions"), f"{where}.contributions"),
        interactions=_estimates(record.get("interactions"), f"{where}.interactions"),
        above=None if above is None else estimate("above_placebo"),
        above_dialogues=whole(mapping(above, where).get("dialogues"), f"{where}.above_placebo.dialogues"),
        changed={
            name: real(value, f"{where}.above_placebo.words_changed.{name}")
            for name, value in mapping(mapping(above, where).get("words_changed"), f"{where}.above_placebo").items()
        },
        groups=_groups(record, "groups", where),
        references=_groups(record, "references", where),
        effects=tuple(
            _effect(factor, level, one, f"{where}.effects.{factor}.{level}")
            for factor, by_level in mapping(record.get("effects"), f"{where}.effects").items()
            for level, one in mapping(by_level, f"{where}.effects.{factor}").items()
        ),
        pairs=tuple(
            _of_pair(name, mapping(one, f"{where}.pairs.{name}"), f"{where}.pairs.{name}")
            for name, one in mapping(record.get("pairs"), f"{where}.pairs").items()
        ),
        strongest=tuple(
            _word(mapping(one, f"{where}.words.strongest"), f"{where}.words.strongest")
            for one in sequence(words.get("strongest"), f"{where}.words.strongest")
        ),
        arms={
            key: real(value, f"{where}.arms.{key}")
            for key, value in mapping(record.get("arms"), f"{where}.arms").items()
        },
        spread=real(mapping(record.get("spread"), f"{where}.spread").get("value"), f"{where}.spread"),
        detectable=real(disparity.get("mde"), f"{where}.disparity.mde"),
        equivalent_within=real(disparity.get("equivalent_within"), f"{where}.disparity.equivalent_within"),
        short_of=tuple(str(one) for one in sequence(record.get("short_of"), f"{where}.short_of")),
        unmeasured=str(record.get("unmeasured") or ""),
        su=_su(mapping(record.get("su"), f"{where}.su"), f"{where}.su"),
    )


def _groups(record: Mapping[str, Any], kind: str, where: str) -> tuple[Group, ...]:
    return tuple(
        _group(name, mapping(one, f"{where}.{kind}.{name}"), f"{where}.{kind}.{name}")
        for name, one in mapping(record.get(kind), f"{where}.{kind}").items()
    )


def _effect(factor: str, level: str, value: Any, where: str) -> Effect:
    record = mapping(value, where)
    return Effect(
        factor=factor,
        level=level,
        gap=Estimate.read(record, where),
        contributions=_estimates(record.get("contributions"), f"{where}.contributions"),
        dialogues=whole(record.get("dialogues"), f"{where}.dialogues"),
    )


def _group(name: str, record: Mapping[str, Any], where: str) -> Group:
    gap = mapping(record.get("gap"), f"{where}.gap")
    above = gap.get("above_placebo")
    return Group(
        name=name,
        score=Estimate.read(record.get("score"), f"{where}.score"),
        gap=Estimate.read(gap, f"{where}.gap"),
        above=None if above is None else Estimate.read(above, f"{where}.gap.above_placebo"),
        contributions=_estimates(record.get("contributions"), f"{where}.contributions"),
        dialogues=whole(record.get("dialogues"), f"{where}.dialogues"),
        words=real(record.get("words_effective"), f"{where}.words_effective"),
    )


def _of_pair(name: str, record: Mapping[str, Any], where: str) -> Pair:
    return Pair(
        name=name,
        gap=Estimate.read(record, where),
        contributions=_estimates(record.get("contributions"), f"{where}.contributions"),
        dialogues=whole(record.get("dialogues"), f"{where}.dialogues"),
    )


def _word(record: Mapping[str, Any], where: str) -> Word:
    return Word(
        name=str(record.get("word", "")),
        dialogues=whole(record.get("dialogues"), f"{where}.dialogues"),
        part=real(record.get("part"), f"{where}.part"),
        without=real(record.get("without"), f"{where}.without"),
    )


def _su(record: Mapping[str, Any], where: str) -> Su | None:
    if not record:
        return None
    shares = mapping(record.get("attribution"), f"{where}.attribution")
    return Su(
        fairscore=Estimate.read(record.get("fairscore"), f"{where}.fairscore"),
        total=Estimate.read(record["total"], f"{where}.total") if "total" in record else None,
        contributions={
            name: Estimate.read(shares.get(name), f"{where}.attribution.{name}")
            for name in map(str, sequence(shares.get("order"), f"{where}.attribution.order"))
        },
        residual=Estimate.read(shares.get(RESIDUAL), f"{where}.attribution.{RESIDUAL}"),
    )


def _estimates(record: Any, where: str) -> dict[str, Estimate]:
    return {name: Estimate.read(one, f"{where}.{name}") for name, one in mapping(record, where).items()}
