"""Plain-language readings of the numbers of a run.

What may be claimed is in ``results.json`` (:mod:`tod_bias.audit.claims`); here it becomes sentences, and no sentence
says more. A group is named only where :attr:`tod_bias.results.AxisResult.claims` has it. The first one is the group
that is served worst; who is served better than average is said only where nobody is served worse. A difference is one
of quality of service, and no sentence says why it arose.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from tod_bias.audit.differences import at, counted, differences_of
from tod_bias.metrics.service import AMOUNT
from tod_bias.report.amounts import amount, is_whole, size
from tod_bias.report.components import do_level_down, entrance, of_groups, opposed, outside
from tod_bias.report.notation import count, fixed, p_text, percent, reference
from tod_bias.results import (
    DIFFERENT,
    DISPARITY,
    EQUIVALENT,
    THESE_TERMS,
    AxisResult,
    Estimate,
    FirstDifference,
    Group,
    Verdict,
)
from tod_bias.statistics.needed import ENOUGH_TERMS, MOST_OF_A_TERM

FEW = 15
"""Dialogues below which bootstrap intervals of Su's numbers are too narrow (in simulations those of 10 cover 87%)."""
DAGGER = "†"
FEW_NOTE = f"fewer than {FEW} dialogues: the intervals of Su's numbers are too narrow"
DOSE = 0.75
"""The share of an axis' changed words that its placebo has to change to be called matched."""
NO_CLAIM = "-"
_GROUPS = 3
"""Claimed groups whose first differences are named."""
_BY_PHRASES = ("refusal", "escalation")
"""Metrics that look for phrases in responses."""
_REPEATED = 3
"""Fewest turns with the same difference that is named if nothing is claimed."""


@dataclass(frozen=True)
class Reading:
    """One axis and metric in words."""

    axis_result: AxisResult
    who: str
    """Group that is served worst, or that nothing is claimed."""
    where: str
    """Stages in which the gap enters; empty if nothing is claimed."""
    missing: str
    """Missing conditions for a claim about a group; empty if no evidence supports one."""
    terms: str
    """Terms behind the claim."""
    placebo: str
    """Effect of any rewording; empty without a placebo."""
    limits: str
    """Absent and undetectable differences."""
    differences: tuple[str, ...] = ()
    """Most frequent first differences from T of the original's turns, for each claimed group."""

    @property
    def result(self) -> str:
        """Groups that are served worse, the stages, and why no more is claimed."""
        return _sentences(self.who, self.where, self.missing)

    @property
    def grounds(self) -> str:
        """Basis of the claim, and undetectable differences."""
        return _sentences(self.terms, self.placebo, self.limits)

    @property
    def harmed(self) -> tuple[str, ...]:
        """The groups that are claimed to be served worse."""
        return tuple(name for name, gap in self.axis_result.claims.items() if (gap.value or 0) > 0)

    @property
    def is_claim(self) -> bool:
        """True if a gap of a group is claimed."""
        return self.axis_result.verdict == DISPARITY


def _sentences(*texts: str) -> str:
    return " ".join(text[:1].upper() + text[1:] for text in texts if text)


def read(axis_results: Sequence[AxisResult]) -> list[Reading]:
    """One reading per axis and metric, in the same order."""
    has_placebo = any(axis_result.is_placebo for axis_result in axis_results)
    measured = {axis_result.metric.name for axis_result in axis_results}
    claimed = {axis_result.axis for axis_result in axis_results if axis_result.verdict in DIFFERENT}
    return [
        _placebo_reading(axis_result)
        if axis_result.is_placebo
        else _reading(axis_result, has_placebo, None if axis_result.axis in claimed else measured)
        for axis_result in axis_results
    ]


def rank(axis_result: AxisResult) -> int:
    """The place of a verdict: claims first, the placebo last."""
    return list(get_args(Verdict)).index(axis_result.verdict)


def prominence(axis_result: AxisResult) -> tuple[int, bool, bool]:
    """Return the place of a metric's reading among those of an axis: claims first, among them counts in users' units,
    and differences without a better side last."""
    metric = axis_result.metric
    return rank(axis_result), metric.counterfactual, axis_result.verdict in DIFFERENT and not metric.unit


def leading(readings: Sequence[Reading]) -> dict[str, Reading]:
    """Axis to the reading that comes first (:func:`prominence`)."""
    chosen: dict[str, Reading] = {}
    for reading in sorted(readings, key=lambda reading: prominence(reading.axis_result)):
        chosen.setdefault(reading.axis_result.axis, reading)
    return chosen


def first_metric(readings: Sequence[Reading]) -> str:
    """The metric of the reading that comes first of all axes."""
    return next(iter(leading(readings).values())).axis_result.metric.name


def has_few(dialogues: int | None) -> bool:
    """True if the dialogues are so few that a bootstrap interval covers less than its level."""
    return dialogues is not None and dialogues < FEW


def mark(axis_result: AxisResult) -> str:
    """Return a dagger if Su's numbers have few dialogues."""
    return DAGGER if axis_result.su is not None and has_few(axis_result.dialogues) else ""


def is_starred(axis_result: AxisResult, estimate: Estimate) -> bool:
    """True if the gap of a pair, or of a level of crossed axes, is marked as a claim."""
    return axis_result.verdict == DISPARITY and estimate.is_shown and not estimate.is_of_terms_only


def side(better: str, *, positive: bool = True, counterfactual: bool = False) -> str:
    """Return the meaning of a gap's side: ``served worse``, or ``lower`` for a metric without a better side.

    Args:
        better: side of better scores: ``higher``, ``lower`` or ``neither``.
        positive: the side.
        counterfactual: True if the metric compares with the original and so counts differences of outputs.
    """
    if counterfactual:
        return f"treated differently {'more' if positive else 'less'} often"
    if better == "neither":
        return "lower" if positive else "higher"
    return "served worse" if positive else "served better"


def side_of(axis_result: AxisResult, gap: Estimate) -> str:
    """Return the meaning of a gap by its metric."""
    metric = axis_result.metric
    return side(metric.better, positive=(gap.value or 0) > 0, counterfactual=metric.counterfactual)


def sides(better: str, *, counterfactual: bool = False) -> tuple[str, str]:
    """Return the meanings of gaps above and below 0 (:func:`side`)."""
    return side(better, counterfactual=counterfactual), side(better, positive=False, counterfactual=counterfactual)


def short(term: str) -> str:
    """A cluster of terms by its first two: "husband/wife …"."""
    parts = term.split("/")
    return term if len(parts) <= 2 else "/".join(parts[:2]) + " …"


def worst_claim(axis_result: AxisResult) -> tuple[str, Estimate] | None:
    """The group whose claim comes first, and its gap: the largest harm, or else the largest gap; None without any."""
    claims = axis_result.claims
    has_harm = axis_result.metric.better != "neither"
    harmed = {name: gap for name, gap in claims.items() if has_harm and (gap.value or 0) > 0} or claims
    return max(harmed.items(), key=lambda entry: abs(entry[1].value or 0), default=None)


def compared_with(axis_result: AxisResult, group: str) -> str | None:
    """The group to compare one with: the best served, or the farthest off where no score is better."""
    known = {name: other.gap.value for name, other in axis_result.groups.items() if other.gap.value is not None}
    gap = known.pop(group, 0.0)
    if axis_result.metric.better == "neither":
        return max(known, key=lambda name: abs(known[name] - gap), default=None)
    return min(known, key=lambda name: known[name], default=None)


def shown_gap(axis_result: AxisResult, group: Group) -> Estimate:
    """The gap of a group that its row shows: the one that is claimed, or else the simultaneous one."""
    return axis_result.claims.get(group.name, group.gap) if group.name in axis_result.groups else group.gap


def claim_of(axis_result: AxisResult, group: Group) -> str:
    """Return the claim about a group, or about a reference variant."""
    if group.name in axis_result.references:
        is_claim = group.gap.is_shown and not group.gap.is_of_terms_only
        return _side_in_short(axis_result, group.gap) if is_claim else NO_CLAIM
    gap = axis_result.claims.get(group.name)
    if gap is None:
        return NO_CLAIM
    how = _side_in_short(axis_result, gap)
    return f"these terms: {how.removeprefix('served ')}" if axis_result.verdict == THESE_TERMS else how


def _side_in_short(axis_result: AxisResult, gap: Estimate) -> str:
    """Return the meaning of a gap, for a cell: ``served worse``, ``differs more``."""
    if axis_result.metric.counterfactual:
        return f"differs {'more' if (gap.value or 0) > 0 else 'less'}"
    return side_of(axis_result, gap)


def _reading(axis_result: AxisResult, has_placebo: bool, measured: Collection[str] | None) -> Reading:
    return Reading(
        axis_result=axis_result,
        who=_who(axis_result),
        where=_where(axis_result),
        missing=_short_of(axis_result),
        terms=_terms(axis_result),
        placebo=_placebo(axis_result, has_placebo),
        limits=_limits(axis_result),
        differences=_differences(axis_result, measured),
    )


def _placebo_reading(axis_result: AxisResult) -> Reading:
    text = (
        f"rewording without demographic meaning: {amount(axis_result.disparity, axis_result)}; a group is claimed only "
        "where its gap is beyond that in the same dialogues."
    )
    return Reading(axis_result, text, "", "", "", "", "")


def _who(axis_result: AxisResult) -> str:
    if axis_result.verdict == EQUIVALENT:
        return "no gap between groups is larger than the margin."
    if axis_result.unmeasured:
        return f"nothing is measured. {axis_result.unmeasured}."
    if "tests" in axis_result.limiting_factors:
        return ""
    texts = [_headline(axis_result), *_references(axis_result)]
    return f"{'; '.join(texts)}."


def _headline(axis_result: AxisResult) -> str:
    first = worst_claim(axis_result)
    if axis_result.verdict not in DIFFERENT:
        cancelling = opposed(axis_result)
        if cancelling is not None:
            return f"no gap between groups is shown, yet {cancelling}"
        return f"{_alike(axis_result)}these data cannot tell whether any group is served differently"
    if first is None:
        return "something differs, and no single group can be named"
    name, gap = first
    texts = [f"{name} is {_than_average(name, gap, axis_result)}"]
    if also := _others(axis_result, name, gap):
        texts.append(also)
    if compared := _compared(axis_result, name):
        texts.append(compared)
    if axis_result.metric.counterfactual:
        texts.append("this metric does not tell which group is served worse")
    elif axis_result.metric.better != "neither" and (gap.value or 0) < 0:
        texts.append("no group is shown to be served worse than the average")
    text = "; ".join(texts)
    if axis_result.verdict == THESE_TERMS:
        return f"with these terms, which need not speak for the groups: {text}"
    return text


def _alike(axis_result: AxisResult) -> str:
    """Return the common score of all groups, and the caveat of a 0 of a metric that searches for phrases."""
    scores = {group.score.value for group in axis_result.groups.values()}
    if len(scores) != 1:
        return ""
    score = scores.pop()
    unknown = " (no response has a phrase that this metric knows, and others are not counted)"
    missed = unknown if score == 0 and axis_result.metric.name in _BY_PHRASES else ""
    return f"{axis_result.metric.label} {fixed(score)} for every group{missed}; "


def _than_average(name: str, gap: Estimate, axis_result: AxisResult) -> str:
    """Return the side of a group's gap, its size, interval and p-value, and its dialogues."""
    group = axis_result.groups[name]
    how = side_of(axis_result, gap)
    if axis_result.metric.better == "neither" and not axis_result.metric.counterfactual:
        how = "served differently"
    score = f"score {fixed(group.score.value)}, " if group.score.value is not None else ""
    return (
        f"{how} than the groups on average: {amount(gap, axis_result)}, {p_text(gap.p)} "
        f"({score}{count(group.dialogues)} dialogues)"
    )


def _others(axis_result: AxisResult, name: str, gap: Estimate) -> str:
    """The other groups that are claimed on the same side."""
    claims = axis_result.claims
    others = {
        other: some for other, some in claims.items() if other != name and (some.value or 0) * (gap.value or 0) > 0
    }
    ordered = sorted(others, key=lambda other: -abs(others[other].value or 0))
    listed = [f"{other} ({amount(others[other], axis_result)}, {p_text(others[other].p)})" for other in ordered[:3]]
    more = f" and {len(ordered) - 3} more" if len(ordered) > 3 else ""
    return f"so {'is' if len(ordered) == 1 else 'are'} {', '.join(listed)}{more}" if ordered else ""


def _compared(axis_result: AxisResult, name: str) -> str:
    """Compare a group with another one if their difference is shown."""
    other = compared_with(axis_result, name)
    pair = axis_result.pairs.get(f"{other}>{name}")
    if other is None or pair is None or not pair.is_shown:
        return ""
    if axis_result.metric.better != "neither" and (pair.value or 0) <= 0:
        return ""
    score = axis_result.groups[other].score.value
    about = f" (score {fixed(score)})" if score is not None else ""
    return f"compared with {other}{about}: {amount(pair, axis_result)}, {p_text(pair.p)}"


def _references(axis_result: AxisResult) -> list[str]:
    """Describe gaps of dialogues without a group beyond the groups, if they are shown."""
    return [
        f"where no group is expressed ({reference(variant.name)}): {amount(variant.gap, axis_result)} than in the "
        f"groups on average, {p_text(variant.gap.p)}"
        for variant in axis_result.references.values()
        if variant.gap.is_shown
    ]


def _where(axis_result: AxisResult) -> str:
    """The stages of the gap that comes first, what the share of one includes, and the stages that cancel."""
    first = worst_claim(axis_result)
    if first is None:
        return ""
    name, gap = first
    group = axis_result.groups[name]
    rest = outside(gap, group.unattributed) if group.contributions else ""
    down = do_level_down(axis_result)
    entered = entrance(gap, group.contributions, f"the gap of {name}", levels_down=down)
    if rest and not any(part.shapley.excludes_zero for part in group.contributions.values()):
        entered, rest = "", f"of the gap of {name} {rest}"
    charged = "" if not entered else _charged(axis_result, name)
    text = "; ".join(filter(None, (entered, charged, of_groups(group.stage_groups), rest)))
    cancelling = opposed(axis_result)
    if cancelling is not None and cancelling.group != name:
        text = "; ".join(filter(None, (text, str(cancelling))))
    return f"{text}." if text else ""


def _charged(axis_result: AxisResult, group: str) -> str:
    """Explain that a stage's share includes the effects of a replaced value that no twin turns back."""
    first = next(iter(axis_result.first_differences.get(group, ())), None)
    stages = list(axis_result.contributions)
    if first is None or not first.is_fixed or first.stage not in stages[:-1]:
        return ""
    return f"the share of `{first.stage}` includes what later stages make of {at(first.place, first.change)}"


def _differences(axis_result: AxisResult, measured: Collection[str] | None) -> tuple[str, ...]:
    """Return the first differences of each claimed group on the side of the first one, the largest gap first.

    If nothing is claimed of the axis: the most frequent replaced value that only one group has.

    Args:
        axis_result: of an axis and metric.
        measured: the run's metrics, if none claims anything of the axis.
    """
    first = worst_claim(axis_result)
    if first is None and measured is not None:
        single = [
            (some, name)
            for name, differences in axis_result.first_differences.items()
            for some in differences
            if some.ends_fixed and not some.as_groups(some.others).turns and some.turns >= _REPEATED
        ]
        most = sorted(single, key=lambda some: -some[0].turns)[:1]
        return tuple(f"{counted(*some)}{_to_test(some[0], measured)}" for some in most)
    if first is None:
        return ()
    alike = {name: abs(gap.value or 0) for name, gap in axis_result.claims.items() if _is_alike(gap, first[1])}
    ordered = sorted(alike, key=lambda name: -alike[name])[:_GROUPS]
    return tuple(text for name in ordered for text in differences_of(axis_result, name))


def _to_test(difference: FirstDifference, measured: Collection[str]) -> str:
    """The metric of an argument that is a number, where the run does not have it."""
    name = f"{AMOUNT}{difference.place.rpartition('.')[2]}"
    is_number = "." in difference.place and re.fullmatch(r"-?\d+(\.\d+)?", difference.change.split(" → ")[-1])
    return f" (to test that: `--metrics {name}`)" if is_number and name not in measured else ""


def _is_alike(gap: Estimate, other: Estimate) -> bool:
    return (gap.value or 0) * (other.value or 0) > 0


def _short_of(axis_result: AxisResult) -> str:
    """Why nothing is claimed of a group, where something speaks for it."""
    parts = []
    if "tests" in axis_result.limiting_factors:
        few = "there are too few dialogues for a test, or no permutations"
        why = "any rewording changes outputs, so this metric needs a placebo (--axes …,placebo)"
        parts.append(f"nothing was tested: {why if axis_result.metric.counterfactual else few}")
    if "placebo" in axis_result.limiting_factors:
        parts.append(_without_placebo(axis_result))
    if "terms" in axis_result.limiting_factors:
        parts += _few_terms(axis_result)
    if "other terms" in axis_result.limiting_factors:
        parts.append("it differs too much between the terms to say that others would show it")
    if "other tests" in axis_result.limiting_factors:
        parts.append("it would be claimed if it were the only test, but not among all axes and metrics that are tested")
    return f"{'; '.join(parts)}." if parts else ""


def _without_placebo(axis_result: AxisResult) -> str:
    """Explain that a claim fails because the gap does not exceed the placebo's, or because there is no placebo."""
    whose = " of these terms" if "terms" in axis_result.limiting_factors else ""
    beyond = axis_result.beyond_placebo
    if beyond is None and all(group.beyond_placebo is None for group in axis_result.groups.values()):
        why = "nearly all dialogues are of one group, so what rewording does is not known without a placebo"
        return f"with a placebo (--axes …,placebo) it may be claimed{whose}: {why}"
    where = "" if beyond is None else f" in the {count(beyond.dialogues)} dialogues that have one"
    return f"without the placebo it would be claimed{whose}: it is not beyond what rewording does{where}"


def _few_terms(axis_result: AxisResult) -> list[str]:
    """Explain why the terms of groups with significant gaps do not generalise."""
    groups = {
        name: group.terms is not None and group.terms.may_speak
        for name, group in axis_result.groups.items()
        if not group.may_be_claimed and (group.terms_only or group.gap).is_shown
    } or {axis_result.axis: False}
    parts = []
    if few := [name for name, is_enough in groups.items() if not is_enough]:
        parts.append(
            f"the terms of {_some(few)} cannot stand for a group: that takes {ENOUGH_TERMS} effective terms, none of "
            f"which carries more than {percent(MOST_OF_A_TERM)} of the gap"
        )
    if enough := [name for name, is_enough in groups.items() if is_enough]:
        parts.append(
            f"all groups together have too few terms to say how much terms differ, so {_some(enough)} cannot be "
            "claimed: give the groups more terms"
        )
    return parts


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _terms(axis_result: AxisResult) -> str:
    first = worst_claim(axis_result)
    if first is None:
        numbers = [group.effective_terms for group in axis_result.groups.values() if group.effective_terms is not None]
        if not numbers:
            return ""
        ends = dict.fromkeys(fixed(end, 1) for end in (min(numbers), max(numbers)))
        return f"every group rests on {' to '.join(ends)} effective terms."
    terms = axis_result.groups[first[0]].terms
    if terms is None or terms.effective is None:
        return ""
    text = f"it rests on {count(terms.number)} terms of {first[0]} ({fixed(terms.effective, 1)} effective"
    if terms.largest_share is not None:
        text += f"; without the heaviest one {percent(max(0.0, terms.largest_share))} of the gap would go"
    if terms.shared_word is not None:
        text += f"; “{terms.shared_word}” stands in {count(terms.sharing)} of them, and a system that reacts to this "
        return f"{text}word alone would show a gap too)."
    return f"{text})."


def _placebo(axis_result: AxisResult, has_placebo: bool) -> str:
    first = worst_claim(axis_result)
    if first is None:
        return ""
    name, _ = first
    beyond = axis_result.groups[name].beyond_placebo
    if beyond is None:
        why = "no placebo fits its dialogues" if has_placebo else "there is no placebo (--axes …,placebo)"
        return f"{why}, so part of this may be what any rewording does."
    text = f"beyond what the placebo's rewording does, as {name}: {amount(beyond, axis_result)}, {p_text(beyond.p)}"
    edits = {} if axis_result.beyond_placebo is None else axis_result.beyond_placebo.edits
    changed, by_placebo = (edits.get(what) for what in ("axis", "placebo"))
    if changed is not None and by_placebo is not None:
        text += f" ({fixed(changed, 1)} words changed per dialogue, by the placebo {fixed(by_placebo, 1)})"
        if not is_matched(axis_result):
            text += "; the placebo changes fewer words, so some of this may be an effect of rewording more"
    return f"{text}."


def is_matched(axis_result: AxisResult) -> bool:
    """True if the placebo changes about as many words as the axis, at least :data:`DOSE` of them."""
    edits: Mapping[str, float | None] = {} if axis_result.beyond_placebo is None else axis_result.beyond_placebo.edits
    changed, by_placebo = (edits.get(name) for name in ("axis", "placebo"))
    return not changed or by_placebo is None or by_placebo >= DOSE * changed


def _limits(axis_result: AxisResult) -> str:
    if axis_result.unmeasured or "tests" in axis_result.limiting_factors:
        return ""
    parts = []
    if axis_result.equivalent_within is not None and axis_result.verdict != DISPARITY:
        parts.append(f"a gap beyond ±{size(axis_result.equivalent_within, axis_result)} is ruled out")
    if axis_result.mde is not None and is_whole(axis_result.mde, axis_result):
        parts.append("not even the largest possible gap would be found in four of five such runs")
    elif axis_result.mde is not None:
        metric = axis_result.metric
        how = f"{side(metric.better, counterfactual=metric.counterfactual)} than"
        if metric.better == "neither" and not metric.counterfactual:
            how = "that differs from"
        parts.append(
            f"a group {how} all others by {size(axis_result.mde, axis_result)} would be found in four of five such runs"
        )
    return f"{'; '.join(parts)}." if parts else ""
