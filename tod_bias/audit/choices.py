"""Choices of a user about a run (metrics, clusters, the order of stages), checked before a stage is called."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import MetricError, StageError, TodBiasError, shortened
from tod_bias.io.imports import guarded, import_object, is_import
from tod_bias.metrics.choice import metric, metric_of, shipped
from tod_bias.metrics.metric import Metric
from tod_bias.results import AuditResult

if TYPE_CHECKING:
    from tod_bias.audit.chunks import ClusterOf

log = logging.getLogger(__name__)

COPIES = "equal dialogues"
"""The kind of clusters of dialogues that are the same but for their ids."""


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
    """Return all utterances and calls of a dialogue, whatever its id."""
    return repr((dialogue.system, dialogue.turns))


def with_copies(kinds: Sequence[tuple[str, ClusterOf]], dialogues: Sequence[Dialogue]) -> list[tuple[str, ClusterOf]]:
    """Return kinds of clusters, with that of equal dialogues if there are any: copies of one are one."""
    copies = len(dialogues) - len(set(map(content_of, dialogues)))
    if not copies:
        return list(kinds)
    log.warning(
        "%d of %d dialogues repeat another one word for word; equal dialogues count as one", copies, len(dialogues)
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
    scored = metrics_of(metrics) if metrics else []
    for chosen in scored:
        if chosen.name not in measured:
            raise MetricError(f"{result.name}: has not measured {chosen.name}; it has {', '.join(measured)}")
    return scored


def all_metrics(result: AuditResult, given: Sequence[str | Metric] = ()) -> list[Metric]:
    """All metrics of a run, in its order.

    Args:
        result: of the run.
        given: by name, ``module:Class`` or object; those that are not shipped must be among them.

    Raises:
        MetricError: the run has not measured one of them.
        TodBiasError: one of the run's is neither shipped nor among them.
    """
    by_name = {chosen.name: chosen for chosen in scored_by(result, given)} if given else {}
    return [by_name[name] if name in by_name else shipped(name, result.name) for name in result.metrics]
