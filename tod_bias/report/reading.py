"""Plain-language readings of a run: what its numbers support, and what they do not.

The verdict and the adjusted p-values are in ``results.json`` (:mod:`tod_bias.audit.claims`); here they become
sentences, and no sentence says more than they do. A group or a stage is named only where its own adjusted p-value, or
interval, supports it; where the terms are too few for a claim about a group, every sentence says so. A *disparity* is a
measured difference, its harm is one of quality of service, and no sentence says why it arose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tod_bias.report.notation import TERMS_ONLY, count, fixed, p_text, percent, with_interval
from tod_bias.results import DIFFERENT, AxisResult, Estimate, Gap, Group
from tod_bias.statistics.needed import ENOUGH_TERMS

ALPHA = 0.05
"""The level of every claim and, as 1 - ALPHA, of every interval."""
FEW = 15
"""Dialogues below which a bootstrap interval is known to be too narrow (in simulations those of 10 cover 87%)."""
DAGGER = "†"
FEW_NOTE = f"fewer than {FEW} dialogues: intervals are too narrow"
MOST = 0.5
"""A stage contributes "most" of a gap above this share."""
_ROUNDING = 1e-9
DOSE = 0.75
"""The share of an axis' changed words that its placebo has to change to be called matched."""
SHARES = ("disagreement", "call_disagreement", "refusal", "success", "jga", "slot_f1")
"""Metrics on 0 to 1 whose disparities are read as they are."""


@dataclass(frozen=True)
class Reading:
    """One axis and metric in words."""

    axis_result: AxisResult
    who: str
    """Which groups are served worse or better: what is claimed, or that nothing is."""
    where: str
    """Which stages it enters in; empty where nothing is claimed."""
    missing: str
    """What a claim about a group lacks; empty where no evidence speaks for one."""
    terms: str
    """The terms that it rests on."""
    placebo: str
    """What any rewording does; empty without a placebo."""
    limits: str
    """What is shown to be absent, and what could not have been seen."""

    @property
    def result(self) -> str:
        """Which groups are served worse or better, which stages that enters in, and why no more is claimed."""
        return _sentences(self.who, self.where, self.missing)

    @property
    def grounds(self) -> str:
        """What that rests on, and what could not have been seen."""
        return _sentences(self.terms, self.placebo, self.limits)

    @property
    def is_claim(self) -> bool:
        """Whether a disparity of a group is claimed."""
        return self.axis_result.verdict == "disparity"


def _sentences(*texts: str) -> str:
    return " ".join(text[:1].upper() + text[1:] for text in texts if text)


def read(axis_results: Sequence[AxisResult]) -> list[Reading]:
    """One reading per axis and metric, in the same order."""
    has_placebo = any(axis_result.is_placebo for axis_result in axis_results)
    return [
        _placebo_reading(axis_result) if axis_result.is_placebo else _reading(axis_result, has_placebo)
        for axis_result in axis_results
    ]


def has_few(dialogues: int | None) -> bool:
    """Whether the dialogues are so few that an interval covers less than it says."""
    return dialogues is not None and dialogues < FEW


def mark(dialogues: int | None) -> str:
    """A dagger where there are few dialogues."""
    return DAGGER if has_few(dialogues) else ""


def is_claimed(estimate: Estimate, *, terms_only: bool = False) -> bool:
    """Whether a difference may be named, by its adjusted p-value or by that of these terms only."""
    p = estimate.p
    return p is not None and p < ALPHA


def is_starred(axis_result: AxisResult, estimate: Estimate, terms: float | None) -> bool:
    """Whether a number gets the mark of a claim: its p-value, the verdict and its effective terms support one.

    Args:
        axis_result: the results that the number belongs to.
        estimate: with its adjusted p-value.
        terms: effective terms that it rests on; ``None`` where the run does not say.
    """
    enough = terms is None or terms >= ENOUGH_TERMS
    return axis_result.verdict == "disparity" and enough and is_claimed(estimate)


def terms_of_pair(axis_result: AxisResult, pair: Gap) -> float | None:
    """Effective terms of the group that has fewer."""
    terms = {group.name: group.effective_terms for group in axis_result.groups.values()}
    known = [number for name in (pair.source, pair.target) if (number := terms.get(name)) is not None]
    return min(known, default=axis_result.effective_terms)


def side(better: str, *, positive: bool = True, counterfactual: bool = False) -> str:
    """What a gap on one side of 0 means: ``served worse``, or ``lower`` for a metric that is neither good nor bad.

    Args:
        better: which scores are, ``higher``, ``lower`` or ``neither``.
        positive: the side.
        counterfactual: whether the metric compares with the original, and so says how often outputs differ.
    """
    if counterfactual:
        return f"treated differently {'more' if positive else 'less'} often"
    if better == "neither":
        return "lower" if positive else "higher"
    return "served worse" if positive else "served better"


def sides(better: str, *, counterfactual: bool = False) -> tuple[str, str]:
    """What gaps above and below 0 mean (:func:`side`)."""
    return side(better, counterfactual=counterfactual), side(better, positive=False, counterfactual=counterfactual)


def amount(estimate: Estimate, axis_result: AxisResult) -> str:
    """How much a score is lower or higher, with the metric's name: "BLEU 26% lower [21%, 31%]".

    Estimates are positive where the service is worse; wording and interval here are of the score itself. What is more
    than the originals' whole score is written as its multiple: nothing is 139% lower.
    """
    value = estimate.value or 0.0
    lower = value > 0 if axis_result.metric.better != "lower" else value < 0
    sense = "lower" if lower else "higher"
    interval = ""
    bounds = estimate.ci
    multiple = axis_result.scale == "ratio" and max(map(abs, (value, *(bounds or ())))) > 1
    write = percent if axis_result.scale == "ratio" and not multiple else fixed
    if bounds is not None:
        low, high = bounds if value > 0 else (-bounds[1], -bounds[0])
        interval = f" [{write(low)}, {write(high)}]{TERMS_ONLY if estimate.is_of_terms_only else ''}"
    if not value:
        return f"{axis_result.metric.label} {'not known' if estimate.value is None else 'unchanged'}{interval}"
    if multiple:
        return f"{axis_result.metric.label} {sense} by {write(abs(value))}{interval} times the originals'"
    return f"{axis_result.metric.label} {write(abs(value))} {sense}{interval}"


def short(term: str) -> str:
    """A cluster of terms by its first two: "husband/wife …"."""
    parts = term.split("/")
    return term if len(parts) <= 2 else "/".join(parts[:2]) + " …"


def direction(value: float, axis_result: AxisResult) -> str:
    """``worse`` or ``better``; ``differently`` for a metric that is neither, or that compares with originals."""
    if axis_result.metric.better == "neither" or axis_result.metric.counterfactual:
        return "differently"
    return "worse" if value > 0 else "better"


def _reading(axis_result: AxisResult, has_placebo: bool) -> Reading:
    return Reading(
        axis_result=axis_result,
        who=_who(axis_result),
        where=_where(axis_result),
        missing=_short_of(axis_result),
        terms=_terms(axis_result),
        placebo=_placebo(axis_result, has_placebo),
        limits=_limits(axis_result),
    )


def _placebo_reading(axis_result: AxisResult) -> Reading:
    text = (
        f"rewording without demographic meaning: {amount(axis_result.disparity, axis_result)}; an axis claims only "
        "what is above that in its own dialogues."
    )
    return Reading(axis_result, text, "", "", "", "", "")


def _may_name(axis_result: AxisResult, estimate: Estimate, terms: float | None) -> bool:
    """Whether a sentence may name a difference: as one of groups or, where the verdict says so, of these terms."""
    if axis_result.verdict == "these terms only":
        return is_claimed(estimate, terms_only=True)
    return is_starred(axis_result, estimate, terms)


def _named_groups(axis_result: AxisResult) -> list[Group]:
    """The groups whose gap a sentence may name, in their order."""
    return [
        group
        for group in axis_result.groups.values()
        if _may_name(axis_result, group.gap, group.effective_terms) and group.gap.value
    ]


def _names_disparity(axis_result: AxisResult) -> bool:
    return _may_name(axis_result, axis_result.disparity, axis_result.effective_terms) and bool(
        axis_result.disparity.value
    )


def _who(axis_result: AxisResult) -> str:
    if axis_result.verdict == "equivalent":
        return "no gap between groups, and no effect of rewriting, is larger than the margin."
    if axis_result.unmeasured:
        return f"nothing is measured. {axis_result.unmeasured}."
    if "tests" in axis_result.limiting_factors:
        return ""
    if axis_result.verdict not in DIFFERENT:
        return "these data cannot tell whether there is a disparity."
    few = axis_result.verdict == "these terms only"
    parts = []
    disparity = axis_result.disparity
    if _names_disparity(axis_result):
        how = direction(disparity.value or 0, axis_result)
        parts.append(
            f"rewritten dialogues are answered {how} than by the system's twin "
            f"({amount(disparity, axis_result)}, {_p(disparity, few)})"
        )
    groups = _named_groups(axis_result)
    parts += _on_either_side(groups, axis_result)
    if groups and axis_result.metric.counterfactual:
        parts.append("this metric does not tell which group is served worse")
    text = "; ".join(parts) or "something differs, and no single group or direction can be named"
    if few:
        return f"with these terms, which need not speak for the groups: {text}."
    return f"{text}."


def _on_either_side(groups: Sequence[Group], axis_result: AxisResult) -> list[str]:
    """The groups with a positive gap, and those with a negative one, largest first."""
    texts = []
    ordered = sorted(groups, key=lambda group: -abs(group.gap.value or 0))
    for positive in (True, False):
        chosen = [group for group in ordered if ((group.gap.value or 0) > 0) == positive]
        if chosen:
            listed = ", ".join(
                f"{group.name} ({amount(group.gap, axis_result)}{_in_some(group, axis_result)})" for group in chosen[:3]
            )
            more = f" and {len(chosen) - 3} more" if len(chosen) > 3 else ""
            texts.append(f"{listed}{more}: {_than_average(chosen[0].gap.value or 0, axis_result)}")
    return texts


def _in_some(group: Group, axis_result: AxisResult) -> str:
    """In how many dialogues a group is looked at, where these are a part of those that the axis rests on."""
    if group.dialogues is None or axis_result.dialogues is None or group.dialogues >= axis_result.dialogues:
        return ""
    return f" in {count(group.dialogues)} of {count(axis_result.dialogues)} dialogues"


def _than_average(gap: float, axis_result: AxisResult) -> str:
    if axis_result.metric.counterfactual:
        return f"treated differently from the originals {'more' if gap > 0 else 'less'} often than on average"
    return f"{direction(gap, axis_result)} than on average"


def _where(axis_result: AxisResult) -> str:
    """The stages of the gap that is claimed and largest."""
    named = _named(axis_result)
    if named is None or not axis_result.shares:
        return ""
    total, shares, what, _ = named
    whole = total.value or 0.0
    few = axis_result.verdict == "these terms only"
    clear = {name: share for name, share in shares.items() if _excludes_zero(share, few)}
    towards = {name: share for name, share in clear.items() if _same_side(share, whole)}
    against = {name: share for name, share in clear.items() if name not in towards}
    text = _enters_in(towards, whole, what)
    if against:
        listed = " and ".join(f"`{name}` ({fixed(share.value, sign=True)})" for name, share in against.items())
        text += f"; {listed} {'work' if len(against) > 1 else 'works'} the other way"
    return f"{text}."


def _enters_in(shares: Mapping[str, Estimate], whole: float, what: str) -> str:
    """Which stages a gap or disparity enters in; ``shares`` are those on its side whose intervals leave out 0."""
    if not shares:
        return f"{what[3:]}: the interval of no single stage's contribution leaves out 0"
    first = max(shares, key=lambda name: abs(shares[name].value or 0))
    share = abs(shares[first].value or 0) / abs(whole)
    if share <= MOST + _ROUNDING:
        listed = ", ".join(f"`{name}` ({fixed(part.value, sign=True)})" for name, part in shares.items())
        return f"{what[3:]}: it enters in {listed} of {fixed(whole, sign=True)}"
    size = f"{fixed(shares[first].value, sign=True)} of {fixed(whole, sign=True)}"
    if share >= 1.005:
        return f"{what[3:]}: more than all enters in `{first}` ({size})"
    return f"{'all' if share > 0.995 else 'most'} {what} enters in `{first}` ({size})"


def _named(axis_result: AxisResult) -> tuple[Estimate, Mapping[str, Estimate], str, Estimate | None] | None:
    """The largest gap or disparity that may be named, its contributions, what it is called, and what of a group's is
    above the placebo; None where there is none."""
    if axis_result.verdict not in DIFFERENT:
        return None
    named = [
        (group.gap, group.shares, f"of the gap of {group.name}{_in_some(group, axis_result)}", group.beyond_placebo)
        for group in _named_groups(axis_result)
    ]
    if _names_disparity(axis_result):
        named.append((axis_result.disparity, axis_result.shares, "of the disparity", None))
    return max(named, key=lambda entry: abs(entry[0].value or 0), default=None)


def _excludes_zero(share: Estimate, few: bool) -> bool:
    ci = share.ci
    return ci is not None and (ci[0] > 0 or ci[1] < 0)


def _same_side(share: Estimate, whole: float) -> bool:
    return (share.value or 0) * whole > 0


def _short_of(axis_result: AxisResult) -> str:
    """Why nothing is claimed of a group, where something speaks for it."""
    parts = []
    if "tests" in axis_result.limiting_factors:
        why = "any rewording changes outputs, so this metric needs a placebo (--axes …,placebo)"
        parts.append(f"nothing was tested: {why if axis_result.metric.counterfactual else 'there are no permutations'}")
    if "placebo" in axis_result.limiting_factors:
        beyond = axis_result.beyond_placebo
        where = "" if beyond is None else f" in the {count(beyond.dialogues)} dialogues that have one"
        whose = " of these terms" if "terms" in axis_result.limiting_factors else ""
        parts.append(f"without the placebo it would be claimed{whose}: it is not above what rewording does{where}")
    if "terms" in axis_result.limiting_factors and (
        axis_result.effective_terms is None or axis_result.effective_terms >= ENOUGH_TERMS
    ):
        parts.append(f"too few terms express {_few_terms(axis_result)}; a claim about a group takes {ENOUGH_TERMS}")
    if "other terms" in axis_result.limiting_factors:
        parts.append("it differs too much between the terms to say that others would show it")
    if "other tests" in axis_result.limiting_factors:
        parts.append("it would be claimed if it were the only test, but not among all axes and metrics that are tested")
    return f"{'; '.join(parts)}." if parts else ""


def _few_terms(axis_result: AxisResult) -> str:
    """The groups with few terms whose gaps are significant with these terms; the axis where it is none of them."""
    names = [
        f"{group.name} ({fixed(group.effective_terms, 1)})"
        for group in axis_result.groups.values()
        if group.effective_terms is not None
        and group.effective_terms < ENOUGH_TERMS
        and is_claimed(group.gap, terms_only=True)
    ]
    if not names:
        return axis_result.axis
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _terms(axis_result: AxisResult) -> str:
    if axis_result.effective_terms is None:
        return ""
    number = fixed(axis_result.effective_terms, 1)
    text = f"it rests on {number} effective terms"
    if axis_result.effective_terms < ENOUGH_TERMS:
        text += f"; a claim about a group takes {ENOUGH_TERMS}"
    return f"{text}."


def _placebo(axis_result: AxisResult, has_placebo: bool) -> str:
    beyond = axis_result.beyond_placebo
    if beyond is None:
        if axis_result.verdict in DIFFERENT:
            why = "no placebo fits its dialogues" if has_placebo else "there is no placebo (--axes …,placebo)"
            return f"{why}, so part of this may be what any rewording does."
        return ""
    if beyond.value is None:
        return ""
    whose = ""
    above: Estimate = beyond
    if (named := _named(axis_result)) and named[3] is not None:
        whose, above = f"{named[2].removeprefix('of ')} ", named[3]
    text = f"{whose}above placebo rewording of the same {count(beyond.dialogues)} dialogues: "
    text += with_interval(above, sign=True)
    changed, by_placebo = (beyond.edits.get(name) for name in ("axis", "placebo"))
    if changed is not None and by_placebo is not None:
        text += f" ({fixed(changed, 1)} words changed per dialogue, by the placebo {fixed(by_placebo, 1)})"
        if not is_matched(axis_result):
            text += "; the placebo changes fewer words, so some of this may be an effect of rewording more"
    return f"{text}."


def is_matched(axis_result: AxisResult) -> bool:
    """Whether the placebo changes about as many words as the axis, :data:`DOSE` of them at least."""
    edits = {} if axis_result.beyond_placebo is None else axis_result.beyond_placebo.edits
    changed, by_placebo = (edits.get(name) for name in ("axis", "placebo"))
    return not changed or by_placebo is None or by_placebo >= DOSE * changed


def _limits(axis_result: AxisResult) -> str:
    if axis_result.unmeasured or "tests" in axis_result.limiting_factors:
        return ""
    parts = []
    unit = "" if axis_result.scale == "ratio" else f" of {axis_result.metric.label}"
    if axis_result.equivalent_within is not None and axis_result.verdict != "disparity":
        parts.append(f"a gap beyond ±{fixed(axis_result.equivalent_within)}{unit} is ruled out")
    if axis_result.mde is not None and axis_result.mde >= 1 and _is_share(axis_result):
        parts.append("not even the largest possible disparity would be found in four of five such runs")
    elif axis_result.mde is not None:
        parts.append(f"a disparity of {fixed(axis_result.mde)}{unit} would be found in four of five such runs")
    elif axis_result.effective_terms is not None and axis_result.disparity.ci is None:
        parts.append("so few terms do not show how large a disparity the run could have found")
    return f"{'; '.join(parts)}." if parts else ""


def _is_share(axis_result: AxisResult) -> bool:
    """Whether a disparity of 1 is the largest possible."""
    return axis_result.metric.name in SHARES or (axis_result.scale == "ratio" and axis_result.metric.better == "higher")


def _p(estimate: Estimate, few: bool) -> str:
    return p_text(estimate.p)
