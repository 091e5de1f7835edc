"""Checks of the user's choices before an audit calls a stage, and of whether the run measured anything.

A system that does nothing has equal scores for all groups and would pass any limit. Such a score is reported with the
reason (no references, equal or empty outputs, calls of unknown tools). The verdict is then neither a difference nor
equivalence.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import MetricError, StageError, TodBiasError, shortened
from tod_bias.io.imports import guarded, import_object, is_import
from tod_bias.metrics.choice import metric, metric_of, shipped
from tod_bias.metrics.grade import PREFIX, Grade
from tod_bias.metrics.metric import Metric, ScoredTurn
from tod_bias.results import AuditResult, FailedTurns
from tod_bias.systems.outputs import as_text

log = logging.getLogger(__name__)

ClusterOf = Callable[[Dialogue], str]
"""A kind of clusters: which one a dialogue belongs to."""
EXECUTORS = ("local", "ray")
"""Places that can run chunks: this process, or the workers of a Ray cluster."""
COPIES = "equal dialogues"
"""The kind of clusters of dialogues that are the same but for their ids."""
TEMPLATES = "template"
"""The kind of clusters of dialogues that are filled in from one template (:mod:`tod_bias.audit.templates`)."""
DERIVED_KINDS = (COPIES, TEMPLATES)
"""Kinds of clusters that are found in the corpus, without an option."""


def metrics_of(metrics: Sequence[str | Metric] | str | Metric) -> list[Metric]:
    """Return the metrics of a run, given by name or as objects.

    Raises:
        TodBiasError: a metric is unknown or repeated, or none is given.
    """
    if isinstance(metrics, str):
        metrics = [name.strip() for name in metrics.split(",") if name.strip()]
    elif not isinstance(metrics, Sequence):
        metrics = [metrics]
    by_name: dict[str, Metric] = {}
    for entry in metrics:
        loaded = metric(entry) if isinstance(entry, str) else metric_of(entry)
        if loaded.name in by_name:
            raise TodBiasError(f"metric {loaded.name!r} is given twice")
        by_name[loaded.name] = loaded
    if not by_name:
        raise TodBiasError("no metric: give at least one, e.g. corpus_bleu")
    return list(by_name.values())


class UserClusters:
    """A kind of clusters: ``module:function`` names a function of a dialogue that returns a text or a number.

    Raises:
        TodBiasError: the function does not exist, raises, or returns something else.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._where = f"cluster {name!r}"
        self._function = import_object(name, self._where)
        if not callable(self._function):
            raise TodBiasError(f"{self._where}: expected a function of a dialogue, got {self._function!r}")

    def __call__(self, dialogue: Dialogue) -> str:
        """Return the cluster of a dialogue."""
        with guarded(self._where):
            cluster = self._function(dialogue)
        if not isinstance(cluster, str | int):
            got = shortened(repr(cluster), 100)
            raise TodBiasError(f"{self._where}: expected a text or a number for dialogue {dialogue.id!r}, got {got}")
        return str(cluster)


def clusters_of(cluster: Sequence[str | tuple[str, ClusterOf]] | str) -> list[tuple[str, ClusterOf]]:
    """Kinds of clusters, by name.

    Raises:
        TodBiasError: one is unknown.
    """
    if isinstance(cluster, str):
        cluster = [name.strip() for name in cluster.split(",") if name.strip()]
    if list(cluster) == ["none"]:
        return []
    kinds: list[tuple[str, ClusterOf]] = []
    for entry in cluster:
        if not isinstance(entry, str):
            kinds.append(entry)
        elif entry == "domain":
            kinds.append((entry, lambda dialogue: dialogue.domain))
        elif is_import(entry):
            kinds.append((entry, UserClusters(entry)))
        else:
            raise TodBiasError(f"unknown cluster {entry!r}; expected domain, module:function of a dialogue, or none")
    return kinds


def content_of(dialogue: Dialogue) -> str:
    """Return all utterances and calls of a dialogue, whatever its id, and its task."""
    return repr((dialogue.system, dialogue.turns, *(() if dialogue.task is None else (dialogue.task.id,))))


def with_copies(kinds: Sequence[tuple[str, ClusterOf]], dialogues: Sequence[Dialogue]) -> list[tuple[str, ClusterOf]]:
    """Return kinds of clusters, with that of equal dialogues if there are any: copies of one are one."""
    copies = len(dialogues) - len(set(map(content_of, dialogues)))
    if not copies:
        return list(kinds)
    log.warning(
        "%d of %d dialogues: copies of another one, word for word; equal dialogues count as one", copies, len(dialogues)
    )
    return [*kinds, (COPIES, content_of)]


def check_clusters(kinds: Sequence[tuple[str, ClusterOf]], dialogues: Sequence[Dialogue]) -> None:
    """Raise for requested kinds of clusters that carry no information.

    Raises:
        TodBiasError: all dialogues are in one cluster.
    """
    for name, cluster_of in kinds:
        labels = {cluster_of(dialogue) for dialogue in dialogues}
        if dialogues and len(labels) < 2:
            raise TodBiasError(
                f"cluster {name!r}: all dialogues are in one cluster ({next(iter(labels))!r:.40}), so it cannot be "
                f"used; leave it out, or name a function that separates dialogues"
            )


def checked_order(names: Sequence[str], order: Sequence[str] | str | None) -> tuple[str, ...]:
    """The components in the order in which Su's attribution swaps them.

    Args:
        names: of the system's components.
        order: all of them, as a list or joined by commas; None: ``db, api_call, response`` where these are they, else
            as they are asked.

    Raises:
        StageError: ``order`` does not name every component once.
    """
    if order is None:
        return SU_ORDER if set(names) == set(SU_ORDER) else tuple(names)
    if isinstance(order, str):
        order = [name.strip() for name in order.split(",")]
    if sorted(order) != sorted(names):
        raise StageError(f"order {','.join(order)!r} must name every stage once; the stages are {', '.join(names)}")
    return tuple(order)


SU_ORDER = ("db", "api_call", "response")
"""Su's order: first the database mismatch is resolved, then the API call adjusted; the response model gets the
remainder."""


def scored_by(result: AuditResult, metrics: Sequence[str | Metric] | None) -> list[Metric]:
    """The metrics of a run.

    Args:
        result: of the run.
        metrics: those wanted, by name, ``module:Class`` or object; None: all of the run's, which must be shipped ones.

    Raises:
        MetricError: the run has not measured one of them.
        TodBiasError: one is the user's own, and is not given as an object or ``module:Class``.
    """
    measured = list(result.metrics)
    if metrics is None:
        return [shipped(name, result.name) for name in measured]
    scored = metrics_of([_measured_grade(entry, result) for entry in metrics]) if metrics else []
    for chosen in scored:
        if chosen.name not in measured:
            raise MetricError(f"{result.name}: has not measured {chosen.name}; it has {', '.join(measured)}")
    return scored


def _measured_grade(entry: str | Metric, result: AuditResult) -> str | Metric:
    """Return the grade of that name that a run has measured, whose sums need no judge; any other entry as it is."""
    info = result.metrics.get(entry) if isinstance(entry, str) else None
    if info is None or not info.is_grade:
        return entry
    grade = Grade(_has_judged, str(entry).removeprefix(PREFIX), info.label)
    grade.signature = info.signature
    return grade


def _has_judged(turns: Sequence[Any]) -> float:
    raise TodBiasError("a finished run has judged its dialogues; run attribute to judge others")


SMALLEST = 0.02
"""Smallest score of the originals for metrics whose gaps are shares of it; shares of less are noise."""
_ENOUGH = 2
"""Number of different values that are kept; two show that a value varies."""


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
    if metric.equal_denominators:  # an event is counted where something differs
        return ""
    if why := why_lacking(metric, seen):
        return why
    if why := _why_unchanged(metric.label, metric.reads, seen):
        return why
    return why_noise(metric, original)


def why_noise(metric: Metric, original: float | None) -> str:
    """Return why gaps as shares of the originals' score are noise, and what to do; empty if they are not."""
    if metric.scale != "ratio" or metric.better != "higher" or original is None or not original < SMALLEST:
        return ""
    return (
        f"{metric.label} of the originals is {original:.3f}, close to 0, and a gap is a share of it: choose "
        "another metric, or references that the system can approach"
    )


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
    """Return the reasons for which a run measures nothing, each with its axes; empty if the run measures something."""
    axes: dict[str, list[str]] = {}
    for row in result.rows:
        if row.unmeasured:
            axes.setdefault(row.unmeasured, []).append(row.axis)
    return [
        why if len(set(some)) == len(result.axes) else f"axis {', '.join(dict.fromkeys(some))}: {why}"
        for why, some in axes.items()
    ]


def check_executor(executor: str, workers: int | None) -> None:
    """Raise TodBiasError for an unknown executor, and for workers without one."""
    if executor not in EXECUTORS:
        raise TodBiasError(f"unknown executor {executor!r}; expected one of {', '.join(EXECUTORS)}")
    if workers is not None and (executor == "local" or type(workers) is not int or workers < 1):
        raise TodBiasError(f"workers: executor 'ray' has them, 1 or more; got {workers!r} with {executor!r}")
