"""Plain-language readings of a run: what its numbers support, and what they do not.

A sentence says that responses differ only where three things hold together: the permutation test rejects "no
difference" (Holm-adjusted p below 0.05), the 95% interval of the signed score leaves out 0, and the fairscore is above
that of the placebo axis (the 95% interval of the difference leaves out 0). Where one fails, the sentence says which.
Words follow the field: a *disparity* is a measured difference, its harm here is one of quality of service, and no
sentence says why it arose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tod_bias.report.notation import fixed, p_text, percent
from tod_bias.report.outcome import Axis, Effect, Estimate
from tod_bias.statistics.adjustment import holm

ALPHA = 0.05
"""The level of every test and, as 1 - ALPHA, of every interval."""

FEW = 15
"""Dialogues below which a bootstrap interval is known to be too narrow (in simulations those of 10 cover 87%)."""

DAGGER = "†"
FEW_NOTE = f"fewer than {FEW} dialogues: intervals are too narrow"

MOST = 0.5
"""A stage holds "most" of a fairscore from this share on."""


class Support(Enum):
    """How far the numbers carry the statement that responses differ."""

    SUPPORTED = "disparity supported"
    """Test, interval and placebo agree."""
    NO_FLOOR = "difference, no placebo"
    """Test and interval agree; without a placebo axis it may be the effect of any rewording."""
    AT_FLOOR = "not above placebo"
    """A difference, but no larger than that of rewording without demographic meaning."""
    UNSUPPORTED = "no difference supported"
    """Test or interval leave "no difference" standing."""
    FLOOR = "placebo floor"
    """The placebo axis itself."""
    UNDEFINED = "undefined"
    """No fairscore: BLEU of the original dialogues is 0."""

    @property
    def is_claim(self) -> bool:
        """Whether a difference may be claimed, above the floor as far as that is known."""
        return self in (Support.SUPPORTED, Support.NO_FLOOR)


@dataclass(frozen=True)
class Reading:
    """What one axis, read against the placebo, supports."""

    axis: Axis
    """The axis."""
    support: Support
    """How far a difference is supported."""
    excess: Estimate | None
    """Fairscore above the placebo's, with its interval; ``None`` without a placebo."""
    verdict: str
    """What rewriting does to the responses and where most of it enters; to follow the axis' name and a colon."""
    pairs: str
    """One sentence about the pairs that stand out; ``""`` where none does."""

    @property
    def text(self) -> str:
        """The axis' name, the verdict, and the sentence about pairs."""
        return f"{self.axis.name}: {self.verdict} {self.pairs}".rstrip()

    @property
    def is_claim(self) -> bool:
        """Whether a difference is supported, of the whole axis or of single pairs."""
        return self.support.is_claim or bool(self.pairs)

    @property
    def is_disparity(self) -> bool:
        """Whether that difference is above the placebo's; never without a placebo."""
        return self.is_claim and self.excess is not None

    @property
    def headline(self) -> str:
        """The support in a few words."""
        return "single pairs differ" if self.pairs and not self.support.is_claim else self.support.value

    def share(self, part: Estimate) -> float | None:
        """A part's share of the fairscore; ``None`` where that is not told apart from 0."""
        total = self.axis.fairscore.value
        if part.value is None or not total or not (self.support.is_claim or self.support is Support.AT_FLOOR):
            return None
        return part.value / total


def placebo_of(axes: Sequence[Axis]) -> Axis | None:
    """The placebo axis of a run, where it has one with a fairscore."""
    return next((axis for axis in axes if axis.is_placebo and axis.fairscore.value is not None), None)


def read(axes: Sequence[Axis]) -> list[Reading]:
    """One reading an axis, in the same order."""
    placebo = placebo_of(axes)
    return [_read(axis, placebo) for axis in axes]


def has_few(effect: Effect) -> bool:
    """Whether an effect rests on so few dialogues that its interval covers less than it says."""
    return effect.dialogues is not None and effect.dialogues < FEW


def excess(effect: Effect, placebo: Effect | None) -> Estimate | None:
    """Fairscore of ``effect`` minus that of the placebo, with a 95% interval; ``None`` where it cannot be had.

    The interval is recovered from the two intervals (MOVER: Zou & Donner 2008, Statistics in Medicine 27): with
    estimates a, b and limits l, u, it is a - b - sqrt((a - l_a)^2 + (u_b - b)^2) to a - b + sqrt((u_a - a)^2 + (b -
    l_b)^2). It takes the two as independent; on shared dialogues that errs on the wide side.
    """
    if placebo is None:
        return None
    ours, floor = effect.fairscore, placebo.fairscore
    if ours.value is None or floor.value is None:
        return None
    difference = ours.value - floor.value
    if ours.low is None or ours.high is None or floor.low is None or floor.high is None:
        return Estimate(difference)
    below = math.hypot(max(ours.value - ours.low, 0.0), max(floor.high - floor.value, 0.0))
    above = math.hypot(max(ours.high - ours.value, 0.0), max(floor.value - floor.low, 0.0))
    return Estimate(difference, difference - below, difference + above)


def support(effect: Effect, placebo: Effect | None) -> Support:
    """How far the numbers of one effect carry "responses differ"; see the module's text for the three conditions."""
    if effect.fairscore.value is None:
        return Support.UNDEFINED
    p_value = effect.fairscore.p
    if p_value is None or p_value >= ALPHA or not _leaves_out_zero(effect):
        return Support.UNSUPPORTED
    above = excess(effect, placebo)
    if above is None:
        return Support.NO_FLOOR
    return Support.SUPPORTED if above.low is not None and above.low > 0 else Support.AT_FLOOR


def adjusted_pairs(axis: Axis) -> tuple[Effect, ...]:
    """The pairs of an axis with p-values adjusted for their number (Holm 1979), where the run did not do so."""
    adjusted = holm(
        {
            pair.name: pair.fairscore.p_value
            for pair in axis.pairs
            if pair.fairscore.p_value is not None and pair.fairscore.p_holm is None
        }
    )
    return tuple(
        replace(pair, fairscore=replace(pair.fairscore, p_holm=adjusted[pair.name])) if pair.name in adjusted else pair
        for pair in axis.pairs
    )


def _leaves_out_zero(effect: Effect) -> bool:
    signed = effect.signed
    if signed.low is not None and signed.high is not None:
        return signed.low > 0 or signed.high < 0
    # The fairscore is an absolute value, so that its interval says little; it is all there is here.
    return effect.fairscore.low is not None and effect.fairscore.low > 0


def _read(axis: Axis, placebo: Axis | None) -> Reading:
    found = support(axis, None if axis.is_placebo else placebo)
    above = None if axis.is_placebo else excess(axis, placebo)
    if axis.is_placebo and found is not Support.UNDEFINED:
        return Reading(axis, Support.FLOOR, None, _floor(axis), "")
    pairs = _pairs(axis, placebo, found)
    p_value = p_text(axis.fairscore.p)
    match found:
        case Support.UNDEFINED:
            body = "no fairscore, because BLEU of the original dialogues is 0 or nothing was rewritten."
        case Support.UNSUPPORTED:
            extent = "over all pairs together, no" if pairs else "no"
            body = f"{extent} difference is supported ({_why_not(axis)}), which does not show that there is none."
        case Support.AT_FLOOR:
            body = f"{_direction(axis, p_value)}, but {_floor_failure(axis, placebo)}: no disparity is supported."
        case Support.NO_FLOOR:
            body = (
                f"{_direction(axis, p_value)}; {_where(axis)}; without a placebo axis, all of this may be the effect "
                "of any rewording."
            )
        case _:
            body = f"{_direction(axis, p_value, _floor_success(placebo))}; {_where(axis)}."
    return Reading(axis, found, above, body, pairs)


def _direction(effect: Effect, *evidence: str) -> str:
    signed = effect.signed.value
    if signed is None:
        change = f"BLEU changes by {percent(effect.fairscore.value)}"
        return f"rewritten dialogues are answered differently ({', '.join([change, *evidence])})"
    word, comparative = ("worse", "lower") if signed > 0 else ("better", "higher")
    change = f"BLEU {percent(abs(signed))} {comparative}"
    return f"rewritten dialogues are answered {word} ({', '.join([change, *evidence])})"


def _floor(axis: Axis) -> str:
    return (
        f"rewording without demographic meaning changes BLEU by {percent(axis.fairscore.value)} "
        f"({p_text(axis.fairscore.p)}); only what is above this floor can be read as demographic."
    )


def _floor_success(placebo: Axis | None) -> str:
    return f"above the placebo's {percent(placebo.fairscore.value)}" if placebo else "no placebo"


def _floor_failure(axis: Axis, placebo: Axis | None) -> str:
    floor = percent(placebo.fairscore.value) if placebo else ""
    above = excess(axis, placebo)
    if above is not None and above.value is not None and above.value > 0:
        return f"not clearly more than after placebo rewording ({floor})"
    return f"no more than after placebo rewording ({floor})"


def _why_not(axis: Axis) -> str:
    reasons = [f"fairscore {fixed(axis.fairscore.value)}", p_text(axis.fairscore.p)]
    if axis.fairscore.p is not None and axis.fairscore.p < ALPHA:
        reasons.append("but the interval reaches 0")
    return ", ".join(reasons)


def _where(axis: Axis) -> str:
    """Where the fairscore enters: stages whose interval is above 0, then those that take some of it back."""
    total = axis.fairscore.value
    positive = {name: part for name, part in axis.contributions.items() if part.low is not None and part.low > 0}
    negative = [name for name, part in axis.contributions.items() if part.high is not None and part.high < 0]
    if not total or not axis.contributions:
        return "it is not attributed to stages"
    if not positive:
        text = "no single stage's part is told apart from 0"
    else:
        first = max(positive, key=lambda name: positive[name].value or 0.0)
        share = (positive[first].value or 0.0) / total
        parts = ", ".join(f"`{name}` ({fixed(part.value)})" for name, part in positive.items())
        if share >= MOST:
            text = f"most of it enters in `{first}` ({fixed(positive[first].value)} of {fixed(total)})"
        else:
            text = f"it enters in {parts} of {fixed(total)} in all"
        text += _order_matters(axis, first)
    if negative:
        text += (
            f"; {' and '.join(f'`{name}`' for name in negative)} {'take' if len(negative) > 1 else 'takes'} some back"
        )
    residual = axis.residual
    if residual.value is not None and residual.low is not None and residual.low > 0 and residual.value > total / 10:
        text += f"; {fixed(residual.value)} stays with every stage swapped, so it is not due to a stage"
    return text


def _order_matters(axis: Axis, first: str) -> str:
    known = {name: part.value for name, part in axis.shapley.items() if part.value is not None}
    if not known:
        return ""
    other = max(known, key=lambda name: known[name])
    return "" if other == first else f" in this order, though most in `{other}` as the mean over orders"


def _pairs(axis: Axis, placebo: Axis | None, found: Support) -> str:
    claimed = [pair for pair in adjusted_pairs(axis) if support(pair, placebo).is_claim]
    worse = sorted((p for p in claimed if (p.signed.value or 0) > 0), key=lambda p: -(p.signed.value or 0))
    better = sorted((p for p in claimed if (p.signed.value or 0) < 0), key=lambda p: p.signed.value or 0)
    if not worse and not better:
        return ""
    stages = {pair.largest[0] if pair.largest and (pair.largest[1].low or 0.0) > 0 else "" for pair in claimed}
    parts = [f"{_list(group)} answered {word}" for group, word in ((worse, "worse"), (better, "better")) if group]
    text = f"By pair: {'; '.join(parts)}"
    if worse and better:
        text += f"; opposite directions {'partly ' if found.is_claim else ''}cancel in the corpus value"
    elif not found.is_claim:
        text += "; the corpus value does not show it"
    if len(stages) == 1 and "" not in stages:
        text += f"; the largest part of {'each' if len(claimed) > 1 else 'it'} enters in `{stages.pop()}`"
    return text + "."


def _list(pairs: Sequence[Effect], most: int = 2) -> str:
    shown = [f"{pair.name} ({fixed(pair.signed.value, sign=True)})" for pair in pairs[:most]]
    rest = len(pairs) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
