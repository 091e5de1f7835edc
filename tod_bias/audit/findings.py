"""Findings of a run: a line for each set of groups and components that a difference belongs to, and one for every other
axis.

Only this module decides which groups, components and events lead. Terminal, page, explorer, gate, comparison and cases
render its findings.

A claim is an event or metric with the smallest set of groups that explains its difference, and the components in which
that arises. Claims of the same groups and components are one finding, which the most telling event leads: a grade, then
events of the output of these components. A claim whose components are all in findings of the same groups is a
consequence of theirs. A claim with another component is a second cause, and a finding of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tod_bias.audit.claims import OTHER_TERMS, SUGGESTIVE, TERMS, is_seen
from tod_bias.audit.examples import example_of
from tod_bias.audit.turns import Turns
from tod_bias.metrics.events import Event, event_of
from tod_bias.metrics.events.event import GENERIC
from tod_bias.metrics.events.facts import root_of
from tod_bias.metrics.events.texts import TextEvent
from tod_bias.perturb.axis import PLACEBO
from tod_bias.results import (
    DIFFERENT,
    DISPARITY,
    EQUIVALENT,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    THESE_TERMS,
    AuditResult,
    AxisResult,
    Consequence,
    Estimate,
    Finding,
    Group,
    Missing,
)
from tod_bias.statistics.power import unseen_rate

_OF_ANY = 1.5
"""An event of all tools together leads if it shows in this many times as many turns as that of one tool."""
_SHORT = {TERMS, OTHER_TERMS}
"""Limiting factors that more dialogues with the same terms do not remove."""
_CHANCE = 0.5
"""Smallest p-value from which a difference that was seen is not shown: naming a group would mislead."""


class _Claim(NamedTuple):
    """Groups that one metric sets apart."""

    row: AxisResult
    groups: tuple[str, ...]
    """The groups that are named, the largest difference first."""

    @property
    def effect(self) -> Estimate:
        """The largest difference."""
        return self.row.apart[self.groups[0]]

    @property
    def of_group(self) -> Group:
        """The row's record of the first group."""
        return self.row.groups[self.groups[0]]

    @property
    def smallest(self) -> frozenset[str]:
        """The smallest set of groups that explains the difference; of two groups both, as either explains it."""
        return frozenset(self.row.groups if len(self.row.groups) == 2 else self.row.smallest or self.groups)

    @property
    def stages(self) -> frozenset[str]:
        """Components in which the difference arises; empty if no declared component accounts for it."""
        return frozenset(self.of_group.main_stages)

    @property
    def is_harm(self) -> bool:
        """True if the groups are served worse by a metric with a better side."""
        return self.row.metric.better != "neither" and (self.effect.value or 0.0) > 0

    @property
    def is_generic(self) -> bool:
        """True if the metric does not say what happens."""
        event = event_of(self.row.metric.name)
        return not self.is_grade and (event is None or event.is_generic)

    @property
    def is_grade(self) -> bool:
        """True if the metric judges whole dialogues."""
        return self.row.metric.is_grade

    def rank(self, stages: frozenset[str]) -> tuple[float, ...]:
        """Return the place among the claims of one finding, the most telling first.

        Args:
            stages: components of the finding.
        """
        event, metric = event_of(self.row.metric.name), self.row.metric
        is_of_stages = event is not None and (event.is_of_turn or metric.stage in stages or not stages)
        could = next((counts[1] for name in self.groups if (counts := self.row.groups[name].counts)), None)
        hits = abs(self.effect.value or 0.0) * (could or self.of_group.dialogues or 0)
        if event is not None and event.is_any:
            hits /= _OF_ANY
        return (
            float(not self.is_grade),
            float(self.is_generic),
            float(len(stages) > 1 and not self.is_harm),
            float(not is_of_stages),
            float(event.level if event else GENERIC),
            float(event.order if event else 0),
            -round(hits, 6),
            float(-event.specificity if event else 0),
        )


@dataclass
class _Line:
    """Claims of the same groups and components."""

    groups: frozenset[str]
    """Smallest set of groups of the first claim."""
    stages: frozenset[str]
    claims: list[_Claim] = field(default_factory=list)

    @property
    def ordered(self) -> list[_Claim]:
        """Claims, the leading one first."""
        return sorted(self.claims, key=lambda claim: claim.rank(self.stages))


Counter = Callable[[str, Event], Mapping[str, tuple[float, float]]]
"""Counts, by group of an axis, how often an event happened and in how many turns it could."""


def findings_of(
    result: AuditResult, turns: Turns | None = None, counts: Counter = lambda axis, event: {}
) -> list[Finding]:
    """Return the findings of a run, the most important first.

    Args:
        result: results with the verdicts of all axes and metrics.
        turns: turns to take examples from; None for findings without examples.
        counts: counts events that are not among the metrics of the results; by default they have no counts.
    """
    findings: list[Finding] = []
    for axis in result.axes:
        if axis == PLACEBO:
            continue
        rows = list(result.axes[axis].values())
        rewritable = result.corpus.rewritable.get(axis) or result.corpus.dialogues
        scale = result.corpus.dialogues / max(1, rewritable)
        findings += list(_differences(rows, turns, counts, result.stages)) or [
            _without_difference(axis, rows, turns, scale)
        ]
    order = [DISPARITY, THESE_TERMS, INCONCLUSIVE, NO_DIFFERENCE, EQUIVALENT]
    return sorted(findings, key=lambda some: order.index(some.verdict))  # else in the order of the axes


def _differences(
    rows: Sequence[AxisResult], turns: Turns | None, counts: Counter, order: Sequence[str]
) -> Iterator[Finding]:
    """Yield a finding for each group of an axis that is treated differently, the largest difference first."""
    for verdict in DIFFERENT:
        claims = [claim for row in rows if row.verdict == verdict and (claim := _claim(row)) is not None]
        if claims:
            break
    else:
        return
    specific = [claim for claim in claims if not claim.is_generic]
    weaker = [claim for row in rows if row.verdict == THESE_TERMS != verdict and (claim := _claim(row)) is not None]
    lines = _lines(specific or claims)
    for line in lines:
        lead, *others = line.ordered
        elsewhere = {claim.row.metric.name for other in lines if other is not line for claim in other.claims}
        others += [claim for claim in weaker if _tells_more(claim, lead, line)]
        consequence = _consequence(lead, others, counts, order, elsewhere)
        for group in lead.groups:
            yield _finding(lead, group, others, turns).model_copy(update={"consequence": consequence})


def _tells_more(claim: _Claim, lead: _Claim, line: _Line) -> bool:
    """Return whether a claim about these terms says more of the same difference than the claim that leads a line."""
    event, led_by = event_of(claim.row.metric.name), event_of(lead.row.metric.name)
    is_same = claim.stages == line.stages and not line.groups.isdisjoint(claim.groups)
    return is_same and event is not None and led_by is not None and event.level < led_by.level


def _claim(row: AxisResult) -> _Claim | None:
    """Return the groups that a metric sets apart, those whose own difference is shown; all of them if none's is."""
    groups = [name for name, effect in row.apart.items() if effect.is_shown] or list(row.apart)
    groups = [name for name in groups if is_seen(row, name, row.metric.better)]
    groups.sort(key=lambda name: -abs(row.apart[name].value or 0.0))
    return _Claim(row, tuple(groups)) if groups else None


def _lines(claims: Sequence[_Claim]) -> list[_Line]:
    """Put claims together that are of the same groups and components.

    Harm comes first, and then claims of few components, so that a claim of several components is recognised as the
    consequence of causes that have findings.
    """
    lines: list[_Line] = []
    ordered = sorted(claims, key=lambda claim: (not claim.is_grade, not claim.is_harm, len(claim.stages) or 9))
    for claim in ordered:
        same = [line for line in lines if not line.groups.isdisjoint(claim.smallest)] or _opposite(claim, lines)
        known = frozenset[str]().union(*(line.stages for line in same))
        if same and claim.stages <= known:
            max(same, key=lambda line: (line.stages == claim.stages, len(line.stages & claim.stages))).claims.append(
                claim
            )
        elif same and len(claim.stages) > 1 and not known.isdisjoint(claim.stages):
            max(same, key=lambda line: len(line.stages & claim.stages)).claims.append(claim)
        else:
            lines.append(_Line(claim.smallest, claim.stages, [claim]))
    return lines


def _opposite(claim: _Claim, lines: Sequence[_Line]) -> list[_Line]:
    """Return the lines of all groups that a claim does not name, if it is no more than what is left by theirs.

    A deviation from most variants has no direction. If each of two groups is treated differently by a component of its
    own, the third is the one that deviates least often, and nothing is done to it.
    """
    event = event_of(claim.row.metric.name)
    rest = frozenset(claim.row.groups) - claim.smallest
    of_rest = [line for line in lines if line.groups <= rest]
    named = frozenset[str]().union(*(line.groups for line in of_rest))
    return of_rest if event is not None and event.takes_majority and named == rest else []


def _finding(lead: _Claim, group: str, others: Sequence[_Claim], turns: Turns | None) -> Finding:
    row, of_group = lead.row, lead.row.groups[group]
    metric = row.metric
    return Finding(
        axis=row.axis,
        verdict=row.verdict,
        group=group,
        compared_with=[other for other in row.groups if other not in row.apart],
        metric=metric.name,
        better=metric.better,
        is_harm=any(claim.is_harm for claim in (lead, *others)),
        also=[claim.row.metric.name for claim in others],
        stage=", ".join(of_group.main_stages),
        repair=of_group.repair,
        effect=row.apart[group],
        what=metric.label,
        is_share=metric.is_share,
        counts=row.counts,
        dialogues=of_group.dialogues or 0,
        example=None if turns is None else example_of(turns, row, group),
    )


def events_beside(finding: Finding, result: AuditResult) -> list[str]:
    """Return further events of a finding's own components, of other fields than the leading one, the largest first.

    They happen in other turns: those of the same turns are one hypothesis. Phrases are left out, as any harm changes
    some.
    """
    lead, rows = event_of(finding.metric), result.axes[finding.axis]
    fields = {_field(lead)} if lead is not None else set()
    names = []
    for name in finding.also:
        event = event_of(name)
        if event is None or event.level or event.is_any or rows[name].metric.stage not in finding.stage.split(", "):
            continue
        is_same = finding.counts == rows[name].counts
        if (field_of := _field(event)) not in fields and not is_same:
            fields.add(field_of)
            names.append(name)
    return names


def _field(event: Event) -> str:
    """Return the field that an event is about, the same in all calls and items; empty for a call or turn as a whole."""
    return event.place[0].removeprefix(root_of(event.place[0])).replace("[0]", "[]") if event.place else ""


def _consequence(
    lead: _Claim, others: Sequence[_Claim], counts: Counter, order: Sequence[str], elsewhere: Collection[str]
) -> Consequence | None:
    """Return an event of a later component that goes with the leading one; None if there is none.

    A claimed harm comes first, then what is nearest to the user: the response, or the output of the last component.

    Args:
        lead: the leading claim.
        others: further claims of the same groups and components.
        counts: counts an event that happens in the same turns as the leading one and has no row of its own.
        order: of the components.
        elsewhere: metrics that are claimed in other components, which have findings of their own.
    """
    leading = {"", lead.row.metric.stage, *lead.stages}  # without a name if it is none that was declared
    claimed = [claim for claim in others if claim.row.metric.stage not in leading and not claim.is_generic]
    harms = [claim.row.metric.name for claim in claimed if claim.is_harm]
    stages = {name: stage for stage, name in lead.row.metric.also.items() if stage not in leading}
    stages |= {claim.row.metric.name: claim.row.metric.stage for claim in claimed}
    named = [(name, event) for name in harms[:1] or stages if (event := event_of(name)) is not None]
    named = [(name, event) for name, event in named if event.level <= TextEvent.level and name not in elsewhere]
    if not named:
        return None
    name, event = max(named, key=lambda pair: _nearness(pair[1], stages[pair[0]], order))
    rows = {claim.row.metric.name: claim.row for claim in claimed}
    groups = rows[name].counts if name in rows else dict(counts(lead.row.axis, event))
    return Consequence(stage=stages[name], metric=name, what=event.label, is_share=event.is_share, counts=groups)


def _nearness(event: Event, stage: str, order: Sequence[str]) -> int:
    """Return the place of an event on the way to the user; that of the response is the last."""
    is_of_response = event.is_of_turn or (isinstance(event, TextEvent) and not event.place[0])
    return len(order) if is_of_response else order.index(stage) if stage in order else -1


def _without_difference(axis: str, rows: Sequence[AxisResult], turns: Turns | None, scale: float) -> Finding:
    """Return the finding of an axis without a claim.

    Args:
        axis: name.
        rows: its results by metric.
        turns: turns to take an example from.
        scale: dialogues of the corpus per dialogue that the axis can rewrite.
    """
    dialogues = max((row.dialogues or 0 for row in rows), default=0)
    equal, of = (0, 0) if turns is None or any(row.unmeasured for row in rows) else turns.equal_turns(axis)
    if equal:
        return Finding(axis=axis, verdict=NO_DIFFERENCE, dialogues=of, turns=equal, bound=unseen_rate(of))
    if _is_equivalent(rows):
        return Finding(axis=axis, verdict=EQUIVALENT, dialogues=dialogues)
    lead = _strongest([claim for row in rows if (claim := _claim(row)) is not None])
    if lead is None:
        return Finding(axis=axis, verdict=INCONCLUSIVE, dialogues=dialogues)
    if (lead.effect.p or 0.0) >= _CHANCE and not lead.row.needs_placebo:
        return Finding(axis=axis, verdict=INCONCLUSIVE, dialogues=dialogues, missing="chance")
    finding = _finding(lead, lead.groups[0], [], turns)
    compared = lead.row.needed.get(lead.groups[0])
    needed = None if compared is None else round(compared * scale)
    return finding.model_copy(update={"verdict": INCONCLUSIVE, "needed": needed, "missing": _missing(lead)})


def _is_equivalent(rows: Sequence[AxisResult]) -> bool:
    """Return whether every telling event, or else every metric, is shown to be within the margin."""
    compared = [row for row in rows if not row.metric.counterfactual]
    decisive = [row for row in compared if not _Claim(row, ()).is_generic] or compared
    return bool(decisive) and all(row.verdict == EQUIVALENT for row in decisive)


def _strongest(claims: Sequence[_Claim]) -> _Claim | None:
    """Return the tested claim that is nearest to being proven, of equals the most telling; None if nothing differs."""
    tested = [claim for claim in claims if claim.effect.p is not None and claim.effect.value]
    specific = [claim for claim in tested if not claim.is_generic]
    candidates = specific or [claim for claim in tested if not claim.row.metric.counterfactual]
    if not candidates:
        return None
    smallest = min(claim.effect.p or 0.0 for claim in candidates)
    # p-values of events in the same turns may differ in the last digits, by the order of their sums
    ties = [claim for claim in candidates if (claim.effect.p or 0.0) <= smallest * (1 + 1e-9)]
    return _lines(ties)[0].ordered[0]


def _missing(claim: _Claim) -> Missing:
    """Return the missing condition for a claim, in addition to dialogues."""
    row, group = claim.row, claim.of_group
    if row.needs_placebo and group.gap.is_shown:
        return "placebo" if group.beyond_placebo is None else "beyond placebo"
    if row.needed.get(claim.groups[0]) is not None or (claim.effect.p or 0.0) >= SUGGESTIVE:
        return ""  # what may well be chance is no reason to look for more terms
    return "terms" if not group.may_be_claimed or _SHORT & set(row.limiting_factors) else ""
