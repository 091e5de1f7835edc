"""Findings of a run: one for each group that is treated differently, and one for every other axis.

Only this module decides which group and metric lead. Terminal, page, explorer, gate, comparison and cases render its
findings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tod_bias.audit.turns import Behaviours, Turns
from tod_bias.dialogues.text import first_change, window
from tod_bias.io.documents import loads
from tod_bias.metrics.behaviour import (
    ANY,
    ASKS_BACK,
    CALLS,
    EMPTY,
    FAILED,
    FAILS,
    FOUND,
    MEAN,
    MISSING,
    NAMED,
    OF_ARGUMENTS,
    REFUSES,
    SILENT,
    VALUE,
    WORDS,
    Behaviour,
)
from tod_bias.perturb.axis import PLACEBO
from tod_bias.results import (
    ALPHA,
    DIFFERENT,
    DISPARITY,
    EQUIVALENT,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    THESE_TERMS,
    AuditResult,
    AxisResult,
    Estimate,
    Example,
    Finding,
    Group,
    Missing,
)
from tod_bias.statistics.power import affected_within, units_needed
from tod_bias.statistics.simultaneous import p_value
from tod_bias.systems.acts import Act, read_acts

_ORDER = (MISSING, MEAN, VALUE, FAILS, FAILED, REFUSES, ASKS_BACK, SILENT, FOUND, EMPTY, NAMED, CALLS)
"""Events in the order in which a user recognises them: acts of the system before their outcomes."""
_OTHERS = len(_ORDER)
_LAST = (WORDS, "length", "disagreement")
"""Metrics that say least about what happens."""
_LEADING = 0.6
"""Share of the largest gap from which a group counts as treated differently.

Gaps are measured from the mean of all groups. With six groups of which two are harmed alike, each other group has half
as large a gap on the other side, and must not count.
"""
_LONGEST = 160
"""Characters of a text in an example."""


class _Claim(NamedTuple):
    """A group that is claimed by one metric."""

    row: AxisResult
    group: str
    gap: Estimate

    @property
    def size(self) -> float:
        """Distance of the group from the mean of all groups, without sign."""
        return abs(self.gap.value or 0.0)

    @property
    def of_group(self) -> Group:
        """The row's record of the group."""
        return self.row.groups[self.group]

    @property
    def is_shown_alone(self) -> bool:
        """True if the group's own test is significant, without correction for the other rows."""
        gap = self.gap
        if not self.row.groups[self.group].may_be_claimed or None in (gap.value, gap.se, gap.df):
            return False
        return p_value(gap.value or 0.0, gap.se or 0.0, gap.df or 0.0) < ALPHA

    @property
    def is_harm(self) -> bool:
        """True if the group is served worse, or differently by a metric without a better side."""
        return self.row.metric.better == "neither" or (self.gap.value or 0.0) > 0

    @property
    def rank(self) -> tuple[float, ...]:
        """Place among the claims of one group, the most telling first."""
        name, counts = self.row.metric.name, self.row.groups[self.group].counts
        event = Behaviour.of(name)
        kind = _ORDER.index(event.kind) if event is not None and event.kind in _ORDER else _OTHERS
        hits = self.size * (counts[1] if counts else self.row.groups[self.group].dialogues or 0)
        is_any = event is not None and event.is_any
        return (
            0.0 if self.row.verdict == DISPARITY else 1.0,
            kind + (name in _LAST),
            -round(hits, 6),
            float(is_any),
        )


def findings_of(result: AuditResult, turns: Turns | None = None) -> list[Finding]:
    """Return the findings of a run, the most important first.

    Args:
        result: results with the verdicts of all axes and metrics.
        turns: turns to take examples from; None for findings without examples.
    """
    findings: list[Finding] = []
    for axis in result.axes:
        if axis == PLACEBO:
            continue
        rows = list(result.axes[axis].values())
        frame = None if turns is None else turns.system_rows(axis)
        differences = _differences(rows, frame)
        findings += differences or [_without_difference(axis, rows, frame)]
    order = [DISPARITY, THESE_TERMS, INCONCLUSIVE, NO_DIFFERENCE, EQUIVALENT]
    return sorted(findings, key=lambda some: order.index(some.verdict))  # else in the order of the axes


def _differences(rows: Sequence[AxisResult], frame: pd.DataFrame | None) -> list[Finding]:
    """Return a finding for each group of an axis that is treated differently."""
    by_group: dict[str, list[_Claim]] = {}
    for row in rows:
        for claim in _leading(row):
            by_group.setdefault(claim.group, []).append(claim)
    if not by_group:
        return []
    if any(claim.is_harm for claims in by_group.values() for claim in claims):  # others are served better by that
        by_group = {name: [claim for claim in claims if claim.is_harm] for name, claims in by_group.items()}
    leads = {name: sorted(claims, key=lambda claim: claim.rank) for name, claims in by_group.items() if claims}
    best = min(claims[0].rank[0] for claims in leads.values())
    leading = [_finding(claims[0], claims[1:], frame) for claims in leads.values() if claims[0].rank[0] == best]
    return sorted(leading, key=lambda finding: -abs(finding.effect.value or 0.0))


def _leading(row: AxisResult) -> list[_Claim]:
    """Return the claims of the groups farthest from the mean by one metric.

    If the corrected test of any gap in a row is significant, the groups are not served alike. Every other group of the
    row then needs only its own, uncorrected test at the same level, as in closed testing.
    """
    if row.verdict not in DIFFERENT:
        return []
    claims = [_Claim(row, name, gap) for name, gap in row.claims.items()]
    if row.verdict == DISPARITY:
        rest = [_Claim(row, name, some.gap) for name, some in row.groups.items() if name not in row.claims]
        claims += [claim for claim in rest if claim.is_shown_alone]
    most = max((claim.size for claim in claims), default=0.0)
    return [claim for claim in claims if claim.size >= _LEADING * most]


def _finding(lead: _Claim, others: Sequence[_Claim], frame: pd.DataFrame | None) -> Finding:
    row, group = lead.row, lead.of_group
    name = row.metric.name
    return Finding(
        axis=row.axis,
        verdict=row.verdict,
        group=lead.group,
        compared_with=[other for other in row.groups if other != lead.group],
        metric=name,
        also=[claim.row.metric.name for claim in others],
        stage=", ".join(group.main_stages),
        repair=group.repair,
        effect=lead.gap,
        what=row.metric.label,
        counts={key: some.counts for key, some in row.groups.items() if some.counts is not None},
        dialogues=group.dialogues or 0,
        example=None if frame is None else _example(frame, row, lead),
    )


def _without_difference(axis: str, rows: Sequence[AxisResult], frame: pd.DataFrame | None) -> Finding:
    """Return the finding of an axis without a claim."""
    dialogues = max((row.dialogues or 0 for row in rows), default=0)
    turns = 0 if frame is None or any(row.unmeasured for row in rows) else _equal_turns(frame)
    if turns:
        bound = affected_within(0, turns)
        return Finding(axis=axis, verdict=NO_DIFFERENCE, dialogues=dialogues, turns=turns, bound=bound)
    decisive = [row for row in rows if row.metric.name not in _LAST]
    if decisive and all(row.verdict == EQUIVALENT for row in decisive):
        return Finding(axis=axis, verdict=EQUIVALENT, dialogues=dialogues)
    lead = _strongest(rows)
    if lead is None:
        return Finding(axis=axis, verdict=INCONCLUSIVE, dialogues=dialogues)
    finding = _finding(lead, [], frame)
    return finding.model_copy(update={"verdict": INCONCLUSIVE, "needed": _needed(lead), "missing": _missing(lead)})


def _equal_turns(frame: pd.DataFrame) -> int:
    """Return the number of counterfactual turns if all are equal to the original's; 0 if any differs."""
    compared = frame[frame["role"] == "group"]
    return len(compared) if compared["first_difference"].isna().all() else 0


def _strongest(rows: Sequence[AxisResult]) -> _Claim | None:
    """Return the group and metric that are nearest to a claim; None if nothing differs."""
    unproven = [
        _Claim(row, name, group.gap)
        for row in rows
        if row.metric.name not in _LAST
        for name, group in row.groups.items()
        if group.gap.p is not None and group.gap.value
    ]
    if not unproven:
        return None
    smallest = min(claim.gap.p or 0.0 for claim in unproven)
    ties = [claim for claim in unproven if (claim.gap.p or 0.0) <= smallest * (1 + 1e-9)]
    return min(ties, key=lambda claim: (claim.rank[1:], -(claim.gap.value or 0.0)))


def _missing(claim: _Claim) -> Missing:
    """Return the missing condition for a claim, in addition to dialogues."""
    row, group = claim.row, claim.of_group
    if not row.needs_placebo or not group.gap.is_shown:
        return ""
    return "placebo" if group.beyond_placebo is None else "beyond placebo"


def _needed(claim: _Claim) -> int | None:
    """Return how many dialogues would show a difference of the observed size; None if no number would."""
    group = claim.of_group
    error = claim.gap.se
    of_dialogues = group.terms_only.se if group.terms_only is not None else None
    if not error or not of_dialogues or not claim.size or not group.dialogues:
        return None
    fixed = math.sqrt(max(0.0, error**2 - of_dialogues**2))
    needed = units_needed(claim.size, group.dialogues, of_dialogues, fixed, alpha=0.01)
    return int(needed) if math.isfinite(needed) and needed < 1e6 else None


# examples ----------------------------------------------------------------------------------------------------------


def _example(frame: pd.DataFrame, row: AxisResult, claim: _Claim) -> Example | None:
    """Return a turn of the group that shows the finding, while its original does not.

    If all originals are of the group, the original shows the finding and a counterfactual does not.
    """
    event = Behaviour.of(row.metric.name)
    if event is None:
        chosen = frame[(frame["group"] == claim.group) & frame["first_difference"].notna() & (frame["role"] == "group")]
        return _shown(frame, chosen.index, None) if len(chosen) else None
    happened = Behaviours(frame).columns(event)[:, 0]
    is_original = (frame["role"] == "original").to_numpy()
    key = frame["dialogue"].astype(str) + "\x1f" + frame["turn"].astype(str)
    of_original = dict(zip(key[is_original], happened[is_original], strict=True))
    difference = happened - np.array([of_original.get(place, np.nan) for place in key])
    sign = math.copysign(1.0, claim.gap.value or 1.0) * (-1.0 if event.better == "higher" else 1.0)
    if event.better == "neither":
        scores = {name: group.score.value or 0.0 for name, group in row.groups.items()}
        mean = sum(scores.values()) / max(1, len(scores))
        sign = math.copysign(1.0, scores[claim.group] - mean)
    is_group = (frame["group"] == claim.group).to_numpy() & ~is_original
    shows = np.flatnonzero(is_group & (difference * sign > 0))
    if len(shows):
        return _shown(frame, frame.index[shows], event)
    opposite = np.flatnonzero((frame["source"] == claim.group).to_numpy() & ~is_original & (difference * sign < 0))
    return _shown(frame, frame.index[opposite], event) if len(opposite) else None


def _shown(frame: pd.DataFrame, chosen: Iterable[int], event: Behaviour | None) -> Example | None:
    """Return the shortest of some turns with its original; turns with a rewritten user message are preferred."""
    rows = frame.loc[list(chosen)]
    originals = frame[(frame["role"] == "original") & frame["dialogue"].isin(rows["dialogue"])]
    said = dict(zip(zip(originals["dialogue"], originals["turn"], strict=True), originals["user"], strict=True))
    places = zip(rows["dialogue"], rows["turn"], rows["user"], strict=True)
    is_same = [said.get((dialogue, turn)) == user for dialogue, turn, user in places]
    length = rows["user"].astype(str).str.len().to_numpy()
    row = rows.iloc[int((length + _LONGEST * 10 * np.array(is_same)).argmin())]
    same = originals[(originals["dialogue"] == row["dialogue"]) & (originals["turn"] == row["turn"])]
    if same.empty:
        return None
    original = same.iloc[0]
    before, after = _what_differs(original, row, event)
    user, user_original = _messages(frame, row, said)
    return Example(
        dialogue=str(row["dialogue"]),
        turn=int(row["turn"]),
        variant=str(row["variant"]),
        user=user,
        user_original=user_original,
        original=before,
        counterfactual=after,
    )


def _messages(frame: pd.DataFrame, row: pd.Series, said: Mapping[tuple[str, int], str]) -> tuple[str, str]:
    """Return the user's message in a variant and in its original.

    If the message is the same in both, the last earlier message that is rewritten comes before it.
    """
    user, original = str(row["user"]), str(said[row["dialogue"], row["turn"]])
    if user == original:
        earlier = frame[
            (frame["dialogue"] == row["dialogue"])
            & (frame["variant"] == row["variant"])
            & (frame["turn"] < row["turn"])
        ].sort_values("turn", ascending=False)
        for turn, text in zip(earlier["turn"], earlier["user"], strict=True):
            before = said.get((row["dialogue"], turn), text)
            if before != text:
                user, original = f"{text} … {user}", f"{before} … {original}"
                break
    user, original = " ".join(user.split()), " ".join(original.split())
    place = first_change(user, original)
    return window(user, place, _LONGEST), window(original, place, _LONGEST)


def _what_differs(original: pd.Series, row: pd.Series, event: Behaviour | None) -> tuple[str, str]:
    """Return the system's behaviour in the original and in the variant."""
    responses = (_response(original), _response(row))
    if event is None:
        first = _first_change(row)
        is_of_response = first is not None and first[0].strip("…") in " ".join(str(original["response"]).split())
        return responses if first is None or is_of_response else first
    if event.kind == FAILED:
        return responses[0], _short(str(row["failure"] or "")) or responses[1]
    shown = {**dict.fromkeys(OF_ARGUMENTS, _argument), **dict.fromkeys((FAILS, EMPTY, FOUND, CALLS), _outcome)}
    if event.kind not in shown:
        return responses
    was, became = (shown[event.kind](read_acts(str(some["acts"] or "")), event) for some in (original, row))
    return (was, became) if was != became else responses


def _response(row: pd.Series) -> str:
    return _short(str(row["response"] or "")) or "no response"


def _first_change(row: pd.Series) -> tuple[str, str] | None:
    """Return the outputs of the first different step, for the original and for the variant; None if no step differs."""
    if not isinstance(row["first_difference"], str):
        return None
    place, was, became = loads(row["first_difference"])["changes"][0]
    return f"{place} {was}" if place else str(was), "missing" if became is None else str(became)


def _argument(acts: Sequence[Act], event: Behaviour) -> str:
    """Return an argument of the calls of an event's tool."""
    calls = [act for act in acts if event.tool in (ANY, act.tool)]
    if not calls:
        return "no call"
    values = [_short(str(call.arguments[event.argument])) for call in calls if event.argument in call.arguments]
    return f"{event.argument} {', '.join(values)}" if values else f"{event.argument} missing"


def _outcome(acts: Sequence[Act], event: Behaviour) -> str:
    """Return the outcome of the calls of an event's tool."""
    calls = [act for act in acts if event.tool in (ANY, act.tool)]
    if not calls:
        return f"calls {acts[0].tool}" if acts else "no call"
    call = calls[0]
    if call.failure:
        return f"{call.tool} fails ({_short(call.failure)})"
    return f"{call.tool}: {call.results} result{'' if call.results == 1 else 's'}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
