"""Plain-language readings of a run: what its numbers support, and what they do not.

The verdict and the adjusted p-values stand in ``results.json`` (:mod:`tod_bias.audit.claims`); here they become
sentences, and no sentence says more than they do. A group or a component is named only where its own adjusted p-value,
or interval, carries it; where the words are too few for a claim about a group, every sentence says so. Words follow the
field: a *disparity* is a measured difference, its harm is one of quality of service, and nothing says why it arose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tod_bias.report.notation import WORDS_FIXED, count, fixed, p_text, percent, with_interval
from tod_bias.results import DIFFERENT, AxisResult, Estimate, Gap, Group
from tod_bias.statistics.needed import ENOUGH_WORDS

ALPHA = 0.05
"""The level of every claim and, as 1 - ALPHA, of every interval."""
FEW = 15
"""Dialogues below which a bootstrap interval is known to be too narrow (in simulations those of 10 cover 87%)."""
DAGGER = "†"
FEW_NOTE = f"fewer than {FEW} dialogues: intervals are too narrow"
MOST = 0.5
"""A component holds "most" of a gap above this share."""
_ROUNDING = 1e-9
DOSE = 0.75
"""The share of an axis' changed words that its placebo has to change to be called matched."""
SHARES = ("disagreement", "call_disagreement", "refusal", "success", "jga", "slot_f1")
"""Metrics on 0 to 1 whose disparities are read as they are."""


@dataclass(frozen=True)
class Reading:
    """One axis and metric in words."""

    outcome: AxisResult
    who: str
    """Who is served how: what is claimed, or that nothing is."""
    where: str
    """Which components it enters in; empty where nothing is claimed."""
    missing: str
    """What a disparity of a group would take that is not there; empty where nothing speaks for one."""
    words: str
    """What it rests on."""
    floor: str
    """What any rewording does; empty without a placebo."""
    limits: str
    """What is shown to be absent, and what could not have been seen."""

    @property
    def found(self) -> str:
        """Who is served how, which components that enters in, and why no more is said."""
        return _sentences(self.who, self.where, self.missing)

    @property
    def grounds(self) -> str:
        """What that rests on, and what could not have been seen."""
        return _sentences(self.words, self.floor, self.limits)

    @property
    def is_claim(self) -> bool:
        """Whether a disparity of a group is claimed."""
        return self.outcome.verdict == "disparity"


def _sentences(*texts: str) -> str:
    return " ".join(text[:1].upper() + text[1:] for text in texts if text)


def read(outcomes: Sequence[AxisResult]) -> list[Reading]:
    """One reading an axis and metric, in the same order."""
    has_floor = any(outcome.is_placebo for outcome in outcomes)
    return [_floor_reading(outcome) if outcome.is_placebo else _reading(outcome, has_floor) for outcome in outcomes]


def has_few(dialogues: int | None) -> bool:
    """Whether so few dialogues are looked at that an interval covers less than it says."""
    return dialogues is not None and dialogues < FEW


def mark(dialogues: int | None) -> str:
    """A dagger where there are few dialogues."""
    return DAGGER if has_few(dialogues) else ""


def is_claimed(estimate: Estimate, *, these_words: bool = False) -> bool:
    """Whether a difference may be named: its adjusted p-value, or the one with words as they are."""
    p = estimate.terms_only_p if these_words else estimate.claimed_p
    return p is not None and p < ALPHA


def is_starred(outcome: AxisResult, estimate: Estimate, words: float | None) -> bool:
    """Whether a number gets the mark of a claim: it speaks for a group, as do the verdict and the words it rests on.

    Args:
        outcome: that it belongs to.
        estimate: with its adjusted p-value.
        words: effective words that it rests on; ``None`` where the run does not say.
    """
    enough = words is None or words >= ENOUGH_WORDS
    return outcome.verdict == "disparity" and enough and is_claimed(estimate)


def words_of_pair(outcome: AxisResult, pair: Gap) -> float | None:
    """Effective words of the attribute that has fewer."""
    words = {group.name: group.effective_terms for group in outcome.groups.values()}
    known = [number for name in (pair.source, pair.target) if (number := words.get(name)) is not None]
    return min(known, default=outcome.effective_terms)


def side(better: str, *, positive: bool = True, counterfactual: bool = False) -> str:
    """What a gap on one side of 0 means: ``served worse``, or ``lower`` for a metric that is neither good nor bad.

    Args:
        better: which scores are, ``higher``, ``lower`` or ``neither``.
        positive: the side.
        counterfactual: whether the metric compares with the original, and so says how often answers are other ones.
    """
    if counterfactual:
        return "told apart more" if positive else "told apart less"
    if better == "neither":
        return "lower" if positive else "higher"
    return "served worse" if positive else "served better"


def sides(better: str, *, counterfactual: bool = False) -> tuple[str, str]:
    """What gaps above and below 0 mean (:func:`side`)."""
    return side(better, counterfactual=counterfactual), side(better, positive=False, counterfactual=counterfactual)


def amount(estimate: Estimate, outcome: AxisResult) -> str:
    """How much a score is lower or higher, with the metric's name: "BLEU 26% lower [21%, 31%]".

    Estimates are positive where the service is worse; the words and the interval here are of the score itself. What is
    more than the originals' whole score is told as its multiple: nothing is 139% lower.
    """
    value = estimate.value or 0.0
    lower = value > 0 if outcome.metric.better != "lower" else value < 0
    sense = "lower" if lower else "higher"
    interval = ""
    bounds = estimate.bounds
    multiple = outcome.scale == "ratio" and max(map(abs, (value, *(bounds or ())))) > 1
    write = percent if outcome.scale == "ratio" and not multiple else fixed
    if bounds is not None:
        low, high = bounds if value > 0 else (-bounds[1], -bounds[0])
        interval = f" [{write(low)}, {write(high)}]{WORDS_FIXED if estimate.is_of_terms_only else ''}"
    if not value:
        return f"{outcome.metric.label} {'not known' if estimate.value is None else 'unchanged'}{interval}"
    if multiple:
        return f"{outcome.metric.label} {sense} by {write(abs(value))}{interval} times the originals'"
    return f"{outcome.metric.label} {write(abs(value))} {sense}{interval}"


def short(word: str) -> str:
    """A cluster of words by its first two: "husband/wife …"."""
    parts = word.split("/")
    return word if len(parts) <= 2 else "/".join(parts[:2]) + " …"


def direction(value: float, outcome: AxisResult) -> str:
    """``worse`` or ``better``; ``otherwise`` for a metric that is neither good nor bad, or does not say for whom."""
    if outcome.metric.better == "neither" or outcome.metric.counterfactual:
        return "otherwise"
    return "worse" if value > 0 else "better"


def _reading(outcome: AxisResult, has_floor: bool) -> Reading:
    return Reading(
        outcome=outcome,
        who=_who(outcome),
        where=_where(outcome),
        missing=_short_of(outcome),
        words=_words(outcome),
        floor=_floor(outcome, has_floor),
        limits=_limits(outcome),
    )


def _floor_reading(outcome: AxisResult) -> Reading:
    text = (
        f"rewording without demographic meaning: {amount(outcome.disparity, outcome)}; what an axis claims is above "
        "that of its own dialogues."
    )
    return Reading(outcome, text, "", "", "", "", "")


def _may_name(outcome: AxisResult, estimate: Estimate, words: float | None) -> bool:
    """Whether a sentence may name a difference: as one of groups or, where the verdict says so, of these words."""
    if outcome.verdict == "these terms only":
        return is_claimed(estimate, these_words=True)
    return is_starred(outcome, estimate, words)


def _who(outcome: AxisResult) -> str:
    few = outcome.verdict == "these terms only"
    if outcome.verdict == "equivalent":
        return "no gap between groups, and no effect of rewriting, is larger than the margin."
    if outcome.unmeasured:
        return f"nothing is measured. {outcome.unmeasured}."
    if "tests" in outcome.limiting_factors:
        return ""
    if outcome.verdict not in DIFFERENT:
        return "these data cannot tell whether there is one."
    parts = []
    disparity = outcome.disparity
    if _may_name(outcome, disparity, outcome.effective_terms) and disparity.value:
        served = direction(disparity.value, outcome)
        parts.append(
            f"rewritten dialogues are answered {served} than the same system answers blind to the rewrite "
            f"({amount(disparity, outcome)}, {_p(disparity, few)})"
        )
    groups = [
        group
        for group in outcome.groups.values()
        if _may_name(outcome, group.gap, group.effective_terms) and group.gap.value
    ]
    worse = sorted((one for one in groups if (one.gap.value or 0) > 0), key=lambda one: -(one.gap.value or 0))
    better = sorted((one for one in groups if (one.gap.value or 0) < 0), key=lambda one: one.gap.value or 0)
    for chosen in (worse, better):
        if chosen:
            shown = ", ".join(
                f"{group.name} ({amount(group.gap, outcome)}{_in_some(group, outcome)})" for group in chosen[:3]
            )
            more = f" and {len(chosen) - 3} more" if len(chosen) > 3 else ""
            parts.append(f"told as {shown}{more}: {_than_average(chosen[0].gap.value or 0, outcome)}")
    if groups and outcome.metric.counterfactual:
        parts.append("which group is served worse this metric does not tell")
    text = "; ".join(parts) or "something differs, and no single group or direction can be named"
    if few:
        return f"with these words, which need not speak for the groups: {text}."
    return f"{text}."


def _in_some(group: Group, outcome: AxisResult) -> str:
    """In how many dialogues a group is looked at, where these are a part of those that the axis rests on."""
    if group.dialogues is None or outcome.dialogues is None or group.dialogues >= outcome.dialogues:
        return ""
    return f" in {count(group.dialogues)} of {count(outcome.dialogues)} dialogues"


def _than_average(gap: float, outcome: AxisResult) -> str:
    if outcome.metric.counterfactual:
        return f"answered otherwise than their originals {'more' if gap > 0 else 'less'} often than on average"
    return f"{direction(gap, outcome)} than on average"


def _where(outcome: AxisResult) -> str:
    """The components of the gap that is claimed and largest."""
    few = outcome.verdict == "these terms only"
    named = _named(outcome)
    if named is None or not outcome.shares:
        return ""
    total, shares, what, _ = named
    whole = total.value or 0.0
    with_it = {name: part for name, part in shares.items() if _told_apart(part, few) and _same_side(part, whole)}
    against = {name: part for name, part in shares.items() if _told_apart(part, few) and not _same_side(part, whole)}
    if not with_it:
        text = f"{what[3:]}: no single component's part is told apart from 0"
    else:
        first = max(with_it, key=lambda name: abs(with_it[name].value or 0))
        share = abs(with_it[first].value or 0) / abs(whole)
        size = f"{fixed(with_it[first].value, sign=True)} of {fixed(whole, sign=True)}"
        if share > MOST + _ROUNDING:
            text = f"{'all' if 0.995 < share < 1.005 else 'most'} {what} enters in `{first}` ({size})"
            text = text if share < 1.005 else f"{what[3:]}: more than all enters in `{first}` ({size})"
        else:
            listed = ", ".join(f"`{name}` ({fixed(part.value, sign=True)})" for name, part in with_it.items())
            text = f"{what[3:]}: it enters in {listed} of {fixed(whole, sign=True)}"
    if against:
        listed = " and ".join(f"`{name}` ({fixed(part.value, sign=True)})" for name, part in against.items())
        text += f"; {listed} {'work' if len(against) > 1 else 'works'} the other way"
    return f"{text}."


def _named(outcome: AxisResult) -> tuple[Estimate, Mapping[str, Estimate], str, Estimate | None] | None:
    """The largest gap or disparity that may be named, its parts, what it is called, and what of a group's is above the
    placebo; None where there is none."""
    if outcome.verdict not in DIFFERENT:
        return None
    named = [
        (group.gap, group.shares, f"of the gap of {group.name}{_in_some(group, outcome)}", group.beyond_placebo)
        for group in outcome.groups.values()
        if _may_name(outcome, group.gap, group.effective_terms) and group.gap.value
    ]
    if _may_name(outcome, outcome.disparity, outcome.effective_terms) and outcome.disparity.value:
        named.append((outcome.disparity, outcome.shares, "of the disparity", None))
    return max(named, key=lambda one: abs(one[0].value or 0), default=None)


def _told_apart(part: Estimate, few: bool) -> bool:
    ci = (part.terms_only.ci if part.terms_only else None) if few else part.ci
    return ci is not None and (ci[0] > 0 or ci[1] < 0)


def _same_side(part: Estimate, whole: float) -> bool:
    return (part.value or 0) * whole > 0


def _short_of(outcome: AxisResult) -> str:
    """Why nothing is claimed of a group, where something speaks for it."""
    parts = []
    if "tests" in outcome.limiting_factors:
        why = "any rewording changes answers, so this metric takes a placebo (--axes …,placebo)"
        parts.append(f"nothing was tested: {why if outcome.metric.counterfactual else 'there are no permutations'}")
    if "placebo" in outcome.limiting_factors:
        beyond = outcome.beyond_placebo
        where = "" if beyond is None else f" in the {count(beyond.dialogues)} dialogues that have one"
        whose = " of these words" if "terms" in outcome.limiting_factors else ""
        parts.append(f"without the placebo it would be claimed{whose}: it is not above what rewording does{where}")
    if "terms" in outcome.limiting_factors and (
        outcome.effective_terms is None or outcome.effective_terms >= ENOUGH_WORDS
    ):
        parts.append(f"too few words stand for {_few_worded(outcome)}; a claim about a group takes {ENOUGH_WORDS}")
    if "other terms" in outcome.limiting_factors:
        parts.append("it differs too much between the words to say that others would show it")
    if "other tests" in outcome.limiting_factors:
        parts.append("by itself it would be claimed, and among all axes and metrics that are tested it is not")
    return f"{'; '.join(parts)}." if parts else ""


def _few_worded(outcome: AxisResult) -> str:
    """The groups with few words whose gaps are found with these words; the axis where it is none of them."""
    found = [
        f"{group.name} ({fixed(group.effective_terms, 1)})"
        for group in outcome.groups.values()
        if group.effective_terms is not None
        and group.effective_terms < ENOUGH_WORDS
        and is_claimed(group.gap, these_words=True)
    ]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "") if found else outcome.axis


def _words(outcome: AxisResult) -> str:
    if outcome.effective_terms is None:
        return ""
    number = fixed(outcome.effective_terms, 1)
    text = f"it rests on {number} effective words"
    if outcome.effective_terms < ENOUGH_WORDS:
        text += f"; a claim about a group takes {ENOUGH_WORDS}"
    known = [term for term in outcome.terms if term.without is not None]
    if known and outcome.disparity.value:
        low, high = min(known, key=lambda one: one.without or 0), max(known, key=lambda one: one.without or 0)
        text += (
            f"; without “{short(low.term)}” the disparity would be {fixed(low.without, sign=True)}, without "
            f"“{short(high.term)}” {fixed(high.without, sign=True)}"
        )
    return f"{text}."


def _floor(outcome: AxisResult, has_floor: bool) -> str:
    beyond = outcome.beyond_placebo
    if beyond is None:
        if outcome.verdict in DIFFERENT:
            why = "no placebo fits its dialogues" if has_floor else "there is no placebo (--axes …,placebo)"
            return f"{why}, so part of this may be what any rewording does."
        return ""
    if beyond.value is None:
        return ""
    whose = ""
    above: Estimate = beyond
    if (named := _named(outcome)) and named[3] is not None:
        whose, above = f"{named[2].removeprefix('of ')} ", named[3]
    text = f"{whose}above placebo rewording of the same {count(beyond.dialogues)} dialogues: "
    text += with_interval(above, sign=True)
    ours, floor = (beyond.edits.get(name) for name in ("axis", "placebo"))
    if ours is not None and floor is not None:
        text += f" ({fixed(ours, 1)} words changed a dialogue, the placebo {fixed(floor, 1)})"
        if not is_matched(outcome):
            text += "; as it changes fewer words, some of this may be what rewording more does"
    return f"{text}."


def is_matched(outcome: AxisResult) -> bool:
    """Whether the placebo changes about as many words as the axis, :data:`DOSE` of them at least."""
    edits = {} if outcome.beyond_placebo is None else outcome.beyond_placebo.edits
    ours, floor = (edits.get(name) for name in ("axis", "placebo"))
    return not ours or floor is None or floor >= DOSE * ours


def _limits(outcome: AxisResult) -> str:
    if outcome.unmeasured or "tests" in outcome.limiting_factors:
        return ""
    parts = []
    unit = "" if outcome.scale == "ratio" else f" of {outcome.metric.label}"
    if outcome.equivalent_within is not None and outcome.verdict != "disparity":
        parts.append(f"a gap beyond ±{fixed(outcome.equivalent_within)}{unit} is ruled out")
    if outcome.mde is not None and outcome.mde >= 1 and _is_share(outcome):
        parts.append("not even the largest disparity there can be would be found in four of five such runs")
    elif outcome.mde is not None:
        parts.append(f"a disparity of {fixed(outcome.mde)}{unit} would be found in four of five such runs")
    elif outcome.effective_terms is not None and outcome.disparity.ci is None:
        parts.append("what could have been found cannot be told from so few words")
    return f"{'; '.join(parts)}." if parts else ""


def _is_share(outcome: AxisResult) -> bool:
    """Whether a disparity of 1 is the largest there can be."""
    return outcome.metric.name in SHARES or (outcome.scale == "ratio" and outcome.metric.better == "higher")


def _p(estimate: Estimate, few: bool) -> str:
    return p_text(estimate.terms_only_p if few else estimate.claimed_p)
