"""Check if a run measures anything: a metric without its references, equal or empty outputs, calls of unknown tools.

A system that does nothing has equal scores for all groups and would pass any limit. Such a score is reported with the
reason, and claims neither a difference nor equivalence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tod_bias.metrics.metric import Metric, ScoredTurn
from tod_bias.results import AuditResult, FailedTurns
from tod_bias.systems.outputs import as_text

SMALLEST = 0.02
"""Smallest score of the originals for metrics whose gaps are shares of it; shares of less are noise."""
_ENOUGH = 2
"""So many different values are several; no more are held."""


@dataclass(frozen=True)
class Seen:
    """Facts about the turns of a run that show if anything is measured."""

    users: frozenset[str] = frozenset()
    """Up to two different utterances of users; likewise the others."""
    responses: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    has_references: bool = False
    """True if any turn has a reference response."""
    has_gold_calls: bool = False
    """True if any turn has a gold call."""

    @classmethod
    def of(cls, turns: Iterable[ScoredTurn]) -> Seen:
        """Collect the facts of turns, in all arms."""
        texts: tuple[set[str], set[str], set[str]] = (set(), set(), set())
        references = gold_calls = False
        for turn in turns:
            for values, read in zip(texts, (_user, _response, _calls), strict=True):
                if len(values) < _ENOUGH:
                    values.add(read(turn))
            references = references or bool(turn.gold.response.strip())
            gold_calls = gold_calls or bool(turn.gold.calls)
        users, responses, calls = map(frozenset, texts)
        return cls(users, responses, calls, references, gold_calls)

    def __or__(self, other: Seen) -> Seen:
        """Combine the facts of two sets of turns."""
        return Seen(
            self.users | other.users,
            self.responses | other.responses,
            self.calls | other.calls,
            self.has_references or other.has_references,
            self.has_gold_calls or other.has_gold_calls,
        )


def _user(turn: ScoredTurn) -> str:
    return str(turn.user)


def _response(turn: ScoredTurn) -> str:
    return turn.response.strip()


def _calls(turn: ScoredTurn) -> str:
    return "malformed" if turn.calls is None else as_text(list(turn.calls))


def why_unmeasured(metric: Metric, seen: Seen, original: float | None) -> str:
    """Return why a metric measures nothing on an axis, and what to do; empty if it measures something.

    Args:
        metric: with ``reads`` (``responses``, ``calls``, or empty for both) and ``needs`` (``references``, ``gold
            calls``, or empty).
        seen: of all turns of the axis.
        original: the metric's score of the originals; None if it is not finite.
    """
    if why := why_lacking(metric, seen):
        return why
    if why := _why_unchanged(metric.label, metric.reads, seen):
        return why
    if metric.scale == "ratio" and metric.better == "higher" and original is not None and original < SMALLEST:
        return f"{metric.label} of the originals is {original:.3f}, close to 0, and a gap is a share of it: choose "
        "another metric, or references that the system can approach"
    return ""


def why_lacking(metric: Metric, seen: Seen) -> str:
    """Return what a metric needs and no turn of an axis has, and what to do; empty if nothing is missing."""
    missing = {"references": not seen.has_references, "gold calls": not seen.has_gold_calls}
    if not missing.get(metric.needs):
        return ""
    what = {"references": "reference responses"}.get(metric.needs, metric.needs)
    return (
        f"{metric.label} needs {what}, and no turn has one: add them to the corpus, or choose a metric that needs "
        "none, such as --metrics disagreement"
    )


def _why_unchanged(label: str, reads: str, seen: Seen) -> str:
    """Explain that the input of a metric is the same in every turn, though users' messages differ."""
    has_several_users = len(seen.users) >= _ENOUGH
    same_responses = has_several_users and len(seen.responses) < _ENOUGH
    same_calls = has_several_users and len(seen.calls) < _ENOUGH
    if reads != "calls" and seen.responses == {""} and (reads == "responses" or same_calls):
        return f"{label}: every response is empty: see why the system says nothing"
    if not {"responses": same_responses, "calls": same_calls}.get(reads, same_responses and same_calls):
        return ""
    what = {"responses": "response", "calls": "turn's calls"}.get(reads, "output")
    example = next(iter(seen.calls if reads == "calls" else seen.responses)) or "none"
    return f"{label}: every {what} is the same ({example[:60]!r}): see what the system does"


def why_all_fail(failed: Mapping[str, FailedTurns], allowed: float) -> str:
    """Return why nothing is measured if calls fail for all groups alike; empty if some group is served.

    Failures of one group are a finding and do not void the run.

    Args:
        failed: of the originals and of every group, how many turns had a failed call.
        allowed: share of a group's turns that may fail.
    """
    if not failed or not all(some.share > allowed for some in failed.values()):
        return ""
    turns, of = sum(some.turns for some in failed.values()), sum(some.of for some in failed.values())
    reasons: Counter[str] = Counter()
    for some in failed.values():
        reasons.update(some.reasons)
    most = reasons.most_common(1)[0][0]
    return f"calls fail for all groups alike, in {turns} of {of} turns ({most}): fix that first"


def reasons_in(result: AuditResult) -> list[str]:
    """Why a run measures nothing, each reason once with the axes that it is true of; empty for a run that does."""
    axes: dict[str, list[str]] = {}
    for row in result.rows:
        if row.unmeasured:
            axes.setdefault(row.unmeasured, []).append(row.axis)
    return [
        why if len(set(some)) == len(result.axes) else f"axis {', '.join(dict.fromkeys(some))}: {why}"
        for why, some in axes.items()
    ]
