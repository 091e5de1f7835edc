"""Check if two runs can be compared: the same dialogues, rewritten and scored alike; the systems may differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tod_bias.audit.choices import COPIES, scored_by
from tod_bias.audit.sums import ArmSums, VariantIndex
from tod_bias.audit.turns import AxisTurns, Turns
from tod_bias.errors import TodBiasError
from tod_bias.metrics.behaviour import Behaviour
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import PLACEBO
from tod_bias.results import AuditResult, RunError


@dataclass(frozen=True)
class FinishedRun:
    """A finished run with the sums of its turns."""

    result: AuditResult
    axes: Mapping[str, AxisTurns]
    """Axis to sums; without the placebo, whose variants belong to the other axes."""

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.result.name

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages; none where the run could not replace them."""
        return () if self.result.is_recorded else tuple(self.result.stages)

    @classmethod
    def read(
        cls,
        run: str | Path | AuditResult,
        metrics: Sequence[str | Metric] | None = None,
        axes: Sequence[str] | None = None,
        events: Sequence[Behaviour] = (),
    ) -> FinishedRun:
        """Read a run.

        Args:
            run: its folder, or what :func:`tod_bias.attribute` returned.
            metrics: those that are needed; None: all.
            axes: those that are needed; None: all.
            events: of behaviour, which are counted in the turns of any run.

        Raises:
            RunError: it cannot be read, or lacks an axis.
            MetricError: it has not measured one of the metrics.
        """
        result = run if isinstance(run, AuditResult) else AuditResult.load(run)
        known = [axis for axis in result.axes if axis != PLACEBO]
        for axis in axes or ():
            if axis not in known:
                raise RunError(
                    f"{result.name}: has no axis {axis}; it has {', '.join(known) or 'none but the placebo'}"
                )
        scored = scored_by(result, metrics)
        turns = Turns.of(result)
        sums = {}
        for axis in known if axes is None else axes:
            measured = [metric for metric in scored if metric.name in result.axes[axis] and metric not in events]
            measured += [event for event in events if event.name not in {metric.name for metric in measured}]
            if measured:
                sums[axis] = turns.sums(axis, measured)
        return cls(result, sums)


class MismatchError(TodBiasError):
    """Two runs that cannot be compared; names the first thing that differs."""


class Matched(NamedTuple):
    """One axis of two runs, on the dialogues that both have."""

    before: Mapping[str, ArmSums]
    after: Mapping[str, ArmSums]
    dialogues: tuple[tuple[str, str], ...]
    left_out: int
    """Dialogues that one of the runs lacks, as a call had no output."""


def check_dialogues(before: FinishedRun, after: FinishedRun) -> None:
    """Raises MismatchError where two runs are not on the same dialogues, rewritten with the same seed."""
    first, second = before.result, after.result
    if first.corpus.hash != second.corpus.hash:
        raise MismatchError(
            f"the runs audited different dialogues: {_dialogues(before)}, {_dialogues(after)}; audit both systems on "
            "the same file, with the same --split, --max-dialogues and --seed"
        )
    _same("corpus split", first.corpus.split, second.corpus.split, before, after)
    mine, theirs = settings_of(first), settings_of(second)
    for key, value in mine.items():
        _same(key, value, theirs[key], before, after)


def check_settings(before: FinishedRun, after: FinishedRun, axes: Sequence[str], metrics: Sequence[str]) -> None:
    """See to it that two runs rewrote and scored the same dialogues in the same way.

    Args:
        before: one run.
        after: the other.
        axes: those that are compared.
        metrics: likewise.

    Raises:
        MismatchError: they did not.
    """
    first, second = before.result, after.result
    for key in ("max_per_axis", "variants"):
        _same(key, getattr(first.config.design, key), getattr(second.config.design, key), before, after)
    for key in (*(f"axis {axis}" for axis in axes), "axis placebo"):
        _same(key, first.signature.get(key), second.signature.get(key), before, after)
    for name in metrics:
        for key in ("signature", "better", "scale") if name in first.metrics and name in second.metrics else ():
            mine, theirs = (getattr(result.metrics[name], key) for result in (first, second))
            _same(f"{key} of metric {name}", mine, theirs, before, after)


def check_named(
    before: FinishedRun, after: FinishedRun, what: str, mine: Sequence[str], theirs: Sequence[str], option: str
) -> None:
    """Raise MismatchError unless two runs have the same axes and metrics; the message lists those of both."""
    if set(mine) == set(theirs):
        return
    common = [name for name in mine if name in theirs]
    hint = f"compare those of both with {option} {','.join(common)}" if common else "they share none"
    raise MismatchError(
        f"{what} differ: {before.name} has {', '.join(mine)}, {after.name} has {', '.join(theirs)}; {hint}"
    )


def settings_of(result: AuditResult) -> dict[str, Any]:
    """Return the settings that determine the counterfactuals and the system's input."""
    config = result.config
    return {
        "design": config.design.design,
        "draws": config.design.draws if config.design.design == "draws" else None,
        "seed": config.seed,
        "history": "recorded" if result.is_recorded else config.run.history,
    }


def _same(what: str, mine: Any, theirs: Any, before: FinishedRun, after: FinishedRun) -> None:
    if mine != theirs:
        raise MismatchError(
            f"{what} differs: {_shown(mine)} in {before.name}, {_shown(theirs)} in {after.name}; compare runs of the "
            "same dialogues with the same settings"
        )


def _dialogues(run: FinishedRun) -> str:
    """Return ``84 of chats.jsonl in runs/before``, with the hash that identifies the state of a file."""
    corpus = run.result.corpus
    split = f" ({corpus.split})" if corpus.split else ""
    return f"{corpus.dialogues:,} of {corpus.name or 'no file'}{split} in {run.name} (hash {corpus.hash[:8]})"


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)[:120]


def matched(axis: str, before: FinishedRun, after: FinishedRun) -> Matched:
    """One axis of both runs on their common dialogues, in the order of the first.

    Raises:
        MismatchError: they have no dialogue in common, or one is rewritten differently.
    """
    mine, theirs = before.axes[axis], after.axes[axis]
    place = {dialogue: number for number, dialogue in enumerate(theirs.dialogues)}
    common = [(number, place[dialogue]) for number, dialogue in enumerate(mine.dialogues) if dialogue in place]
    if not common:
        raise MismatchError(f"axis {axis}: {before.name} and {after.name} have no dialogue in common")
    first, second = (np.array(numbers, dtype=int) for numbers in zip(*common, strict=True))
    tables = tuple(
        {name: table.for_dialogues(numbers) for name, table in turns.tables.items()}
        for turns, numbers in ((mine, first), (theirs, second))
    )
    dialogues = tuple(mine.dialogues[number] for number in first)
    _check_variants(axis, [next(iter(some.values())).variants for some in tables], dialogues, before, after)
    left_out = len(set(mine.dialogues) ^ set(theirs.dialogues))
    return Matched(tables[0], tables[1], dialogues, left_out)


def _check_variants(
    axis: str,
    variants: Sequence[VariantIndex],
    dialogues: Sequence[tuple[str, str]],
    before: FinishedRun,
    after: FinishedRun,
) -> None:
    kinds = [[name for name, _ in index.clusters if name != COPIES] for index in variants]
    if kinds[0] != kinds[1]:
        shown = [", ".join(some) or "none" for some in kinds]
        raise MismatchError(
            f"axis {axis}: --cluster differs: {shown[0]} in {before.name}, {shown[1]} in {after.name}; repeat one run "
            "with the other's (its outputs are cached)"
        )
    first, second = (_facts(index) for index in variants)
    for number, (dialogue, _) in enumerate(dialogues):
        if first[number] != second[number]:
            raise MismatchError(
                f"axis {axis}: dialogue {dialogue!r} is rewritten differently: {_described(first[number])} in "
                f"{before.name}, {_described(second[number])} in {after.name}; compare runs with the same lexicons "
                "and --seed"
            )


def _facts(variants: VariantIndex) -> list[tuple[Any, ...]]:
    """How each dialogue is rewritten: its group and term, the counterfactuals' groups and terms, the placebos'."""
    counterfactuals: list[list[Any]] = [[] for _ in range(variants.dialogues)]
    placebos: list[list[str]] = [[] for _ in range(variants.dialogues)]
    for number, target, terms in zip(variants.of, variants.target, variants.terms, strict=True):
        counterfactuals[number].append((variants.groups[target], tuple(sorted(terms))))
    for number, term in zip(variants.placebo, variants.placebo_terms, strict=True):
        placebos[number].append(f"placebo {term}")
    sources = [variants.groups[number] if number >= 0 else "" for number in variants.source]
    return [
        (
            sources[number],
            tuple(sorted(variants.source_terms[number])),
            tuple(counterfactuals[number]),
            tuple(placebos[number]),
        )
        for number in range(variants.dialogues)
    ]


def _described(facts: tuple[Any, ...]) -> str:
    source, _, counterfactuals, placebos = facts
    shown = [f"{target} ({'/'.join(terms)})" for target, terms in counterfactuals] + list(placebos)
    return f"{source or 'no group'} > {', '.join(shown)}"[:160]
