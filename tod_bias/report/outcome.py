"""What a run found, typed: the numbers of ``results.json`` as frozen dataclasses.

Everything beyond the contract's minimum is optional here; what a run did not write is ``None`` or empty, and is shown
as missing rather than as 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tod_bias.report.record import RunError

PLACEBO = "placebo"
"""The control axis: rewording without demographic meaning."""

RESIDUAL = "residual"
"""The part of a fairscore that stays when every stage is swapped."""

ATTRIBUTES: Mapping[str, Sequence[str]] = {
    "gender": ("woman", "man", "non-binary"),
    "age": ("child", "young", "middle-aged", "senior", "adult"),
    "race": ("white", "black", "hispanic", "asian", "native-american", "pacific-islander"),
}
"""Attributes in the order in which tables and figures show them (names as in Qian)."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval and, for a fairscore, its permutation p-value."""

    value: float | None = None
    """``None`` where it is undefined or was not computed."""
    low: float | None = None
    """Lower end of the interval."""
    high: float | None = None
    """Upper end of the interval."""
    p_value: float | None = None
    """As it came from the permutation test."""
    p_holm: float | None = None
    """Adjusted for the number of tests (Holm)."""

    @property
    def p(self) -> float | None:
        """The adjusted p-value where there is one, else the plain one."""
        return self.p_value if self.p_holm is None else self.p_holm

    @classmethod
    def read(cls, record: Any, where: str) -> Estimate:
        """Read ``{"value", "ci", "p_value", "p_holm"}``, a bare number, or nothing.

        Raises:
            RunError: something else stands there; ``where`` names the place.
        """
        if not isinstance(record, Mapping):
            return cls(_number(record, where))
        interval = record.get("ci")
        if interval is None:
            interval = (None, None)
        elif not isinstance(interval, Sequence) or len(interval) != 2:
            raise RunError(f"results.json, {where}.ci: expected [low, high], got {interval!r:.40}")
        return cls(
            _number(record.get("value"), f"{where}.value"),
            _number(interval[0], f"{where}.ci"),
            _number(interval[1], f"{where}.ci"),
            _number(record.get("p_value"), f"{where}.p_value"),
            _number(record.get("p_holm"), f"{where}.p_holm"),
        )


@dataclass(frozen=True)
class Effect:
    """What rewriting did to the responses, and where in the pipeline it did so: of one axis, or of one pair."""

    name: str
    """The axis, or the pair as ``source>target``."""
    dialogues: int | None
    """How many dialogues it rests on."""
    bleu_original: float | None
    """BLEU of the original dialogues, 0-1."""
    bleu_perturbed: float | None
    """BLEU of the rewritten dialogues, 0-1."""
    fairscore: Estimate
    """Su eq. 1: relative change of BLEU, without its sign."""
    signed: Estimate
    """The same with its sign; positive where rewritten dialogues are answered worse."""
    contributions: Mapping[str, Estimate] = field(default_factory=dict)
    """Stage to its part of the fairscore, in Su's order; together with the residual they sum to it."""
    residual: Estimate = Estimate()
    """What stays when every stage is swapped: the part of rewriting itself."""
    shapley: Mapping[str, Estimate] = field(default_factory=dict)
    """Stage to its part, averaged over all orders."""
    draws: int | None = None
    """How many rewritings of a dialogue were drawn."""

    @property
    def source(self) -> str:
        """The attribute that a pair rewrites from."""
        return self.name.partition(">")[0]

    @property
    def target(self) -> str:
        """The attribute that a pair rewrites to."""
        return self.name.partition(">")[2]

    @property
    def largest(self) -> tuple[str, Estimate] | None:
        """The stage with the largest part, and that part; ``None`` where nothing is attributed."""
        known = [(stage, part) for stage, part in self.contributions.items() if part.value is not None]
        return max(known, key=lambda item: item[1].value or 0.0, default=None)


@dataclass(frozen=True)
class Axis(Effect):
    """One axis: its corpus value, its pairs, and its arms."""

    mean_over_pairs: Estimate = Estimate()
    """Mean of the pairs' fairscores, which cannot cancel."""
    arms: Mapping[str, float | None] = field(default_factory=dict)
    """Swapped stages, sorted and joined by a comma, to the fairscore of that arm."""
    arms_ci: Mapping[str, Estimate] = field(default_factory=dict)
    """The same with their intervals."""
    pairs: tuple[Effect, ...] = ()
    """Every (source, target) pair."""

    jga_original: float | None = None
    """Joint goal accuracy on the original dialogues, 0-1."""
    jga_perturbed: float | None = None
    """The same on the rewritten ones."""

    @property
    def is_placebo(self) -> bool:
        """Whether this is the control axis."""
        return self.name == PLACEBO

    @property
    def attributes(self) -> list[str]:
        """The attributes that occur, in the order in which they are shown."""
        found = dict.fromkeys(name for pair in self.pairs for name in (pair.source, pair.target))
        known = [name for name in ATTRIBUTES.get(self.name, ()) if name in found]
        return known + [name for name in found if name not in known]

    def arm(self, key: str) -> Estimate:
        """The fairscore of one arm with its interval, as far as the run has them."""
        return self.arms_ci.get(key, Estimate(self.arms.get(key)))

    def pair(self, source: str, target: str) -> Effect | None:
        """The pair that rewrites ``source`` to ``target``."""
        return next((pair for pair in self.pairs if (pair.source, pair.target) == (source, target)), None)


def arm_keys(axes: Sequence[Axis]) -> list[str]:
    """The arms of all axes, those with fewer swapped stages first."""
    keys = {key for axis in axes for key in axis.arms}
    return sorted(keys, key=lambda key: (len(key.split(",")) if key else 0, key))


def read_axes(results: Mapping[str, Any]) -> list[Axis]:
    """The axes of ``results.json`` in its order, the placebo last.

    Raises:
        RunError: a value is not of the type that the contract says; names the place.
    """
    corpus = _mapping(results.get("corpus"), "corpus")
    counts = _mapping(corpus.get("audited") or corpus.get("perturbable"), "corpus.audited")
    stages = tuple(results.get("pipeline") or ())
    axes = [
        _axis(name, _mapping(record, f"axes.{name}"), stages, counts.get(name))
        for name, record in _mapping(results.get("axes"), "axes").items()
    ]
    return sorted(axes, key=lambda axis: axis.is_placebo)


def _axis(name: str, record: Mapping[str, Any], stages: Sequence[str], dialogues: Any) -> Axis:
    where = f"axes.{name}"
    if "fairscore" not in record:
        raise RunError(f"results.json, {where}: holds no fairscore; repeat the run's command to write it again")
    pairs = _mapping(record.get("pairs"), f"{where}.pairs")
    arms = _mapping(record.get("arms"), f"{where}.arms")
    intervals = _mapping(record.get("arms_ci"), f"{where}.arms_ci")
    return Axis(
        **_effect(name, {"dialogues": dialogues, **record}, where, stages),
        mean_over_pairs=Estimate.read(record.get("mean_over_pairs"), f"{where}.mean_over_pairs"),
        jga_original=_number(record.get("jga_original"), f"{where}.jga_original"),
        jga_perturbed=_number(record.get("jga_perturbed"), f"{where}.jga_perturbed"),
        arms={key: _number(value, f"{where}.arms.{key}") for key, value in arms.items()},
        arms_ci={
            key: Estimate.read({"value": arms.get(key), "ci": bounds}, f"{where}.arms_ci.{key}")
            for key, bounds in intervals.items()
        },
        pairs=tuple(
            Effect(**_effect(key, _mapping(pair, f"{where}.pairs.{key}"), f"{where}.pairs.{key}", stages))
            for key, pair in pairs.items()
        ),
    )


def _effect(name: str, record: Mapping[str, Any], where: str, stages: Sequence[str]) -> dict[str, Any]:
    attribution = _mapping(record.get("attribution"), f"{where}.attribution")
    shapley = _mapping(record.get("shapley"), f"{where}.shapley")
    order = attribution.get("order") or stages
    signed = Estimate.read(record.get("signed"), f"{where}.signed")
    if signed.low is None and record.get("signed_ci") is not None:
        signed = Estimate.read({"value": signed.value, "ci": record["signed_ci"]}, f"{where}.signed")
    return {
        "name": name,
        "dialogues": _count(record.get("dialogues"), f"{where}.dialogues"),
        "draws": _count(record.get("draws"), f"{where}.draws"),
        "bleu_original": _number(record.get("bleu_original"), f"{where}.bleu_original"),
        "bleu_perturbed": _number(record.get("bleu_perturbed"), f"{where}.bleu_perturbed"),
        "fairscore": Estimate.read(record.get("fairscore"), f"{where}.fairscore"),
        "signed": signed,
        "contributions": {
            stage: Estimate.read(attribution[stage], f"{where}.attribution.{stage}")
            for stage in order
            if stage in attribution
        },
        "residual": Estimate.read(attribution.get(RESIDUAL), f"{where}.attribution.{RESIDUAL}"),
        "shapley": {
            stage: Estimate.read(shapley[stage], f"{where}.shapley.{stage}") for stage in order if stage in shapley
        },
    }


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RunError(f"results.json, {where}: expected an object, got {value!r:.40}")
    return value


def _number(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RunError(f"results.json, {where}: expected a number, got {value!r:.40}")
    return float(value) if math.isfinite(value) else None


def _count(value: Any, where: str) -> int | None:
    number = _number(value, where)
    return None if number is None else int(number)
