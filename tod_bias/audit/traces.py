"""Traces of the variants of dialogues: the original, its counterfactuals, references and placebos, in every arm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple, Protocol

from tod_bias.perturb.axis import Variants
from tod_bias.systems.execution import Run, Trace, TurnTrace
from tod_bias.systems.stage import StageCall
from tod_bias.systems.twin import Rewrite


class VariantTraces(NamedTuple):
    """Traces of one run of the system in all variants of a dialogue along one axis."""

    original: Trace
    rewritten: Sequence[Trace]
    """Traces of the groups, the references, then of the placebo."""


class ExecutedVariants(NamedTuple):
    """Traces of the system in all variants of a dialogue along one axis."""

    variants: Variants
    samples: Sequence[VariantTraces]
    """One, or several where stages draw their outputs."""
    repeats: Sequence[tuple[Trace, Trace]] = ()
    """Pairs of runs of the original from different draws, if stages draw their outputs; no draw is in two pairs."""


class Runner(Protocol):
    """Runner of dialogues, or source of their outputs."""

    parted: set[str]
    """The stages whose twins put out anything else."""

    @property
    def whole_arm(self) -> int | None:
        """Number of the arm of the whole system's twin, which is made here; None if there is none."""

    @property
    def is_sampled(self) -> bool:
        """True if any stage draws its outputs."""

    def __call__(self, runs: Sequence[Run]) -> Sequence[Trace]:
        """Return the traces of all runs."""


def executed(
    runner: Runner, by_axis: Mapping[str, Sequence[Variants]], samples: int
) -> dict[str, list[ExecutedVariants]]:
    """Run the variants of the dialogues of one chunk, by axis.

    Where stages draw their outputs, the originals are run once more than there are samples if there is only one: the
    A/A run, in which only the draws differ.
    """
    originals = {_key(variants.original): variants.original for variants in chain(*by_axis.values())}
    rewritten = [run for variants in chain(*by_axis.values()) for run in variants.rewritten]
    draws = max(samples, 2) if runner.is_sampled else samples
    runs = [replace(run, sample=draw) for draw in range(draws) for run in originals.values()]
    runs += [replace(run, sample=sample) for sample in range(samples) for run in rewritten]
    traces = iter(runner(runs))
    of_originals = [{key: next(traces) for key in originals} for _ in range(draws)]
    of_rewritten = [_by_axis(traces, by_axis) for _ in range(samples)]
    _add_whole(runner.whole_arm, by_axis, of_originals, of_rewritten)
    return {
        axis: list(_of_axis(axis, some, of_originals, of_rewritten, runner.is_sampled))
        for axis, some in by_axis.items()
    }


def _by_axis(traces: Iterator[Trace], by_axis: Mapping[str, Sequence[Variants]]) -> dict[str, list[list[Trace]]]:
    """The next traces, those of each dialogue's rewritten variants, by axis."""
    return {
        axis: [list(islice(traces, len(variants.rewritten))) for variants in some] for axis, some in by_axis.items()
    }


def _add_whole(
    arm: int | None,
    by_axis: Mapping[str, Sequence[Variants]],
    of_originals: Sequence[Mapping[tuple[str, str], Trace]],
    of_rewritten: Sequence[Mapping[str, Sequence[Sequence[Trace]]]],
) -> None:
    """Add the arm of the whole system's twin, T(f(T⁻¹ x̃)): what the system did with the original, rewritten."""
    if arm is None:
        return
    # not strict: of one sample, two draws of the originals are made
    for originals, rewritten in zip(of_originals, of_rewritten, strict=False):
        for axis, some in by_axis.items():
            for variants, traces in zip(some, rewritten[axis], strict=True):
                original = originals[_key(variants.original)]
                for run, trace in zip(variants.rewritten, traces, strict=True):
                    if run.rewrite is not None:
                        ways = (
                            TurnTrace((arm,), rewritten_calls(turn[0].calls, run.rewrite), turn[0].failure)
                            for turn in original
                        )
                        trace[:] = [(*turn, way) for turn, way in zip(trace, ways, strict=True)]


def rewritten_calls(calls: Sequence[StageCall], rewrite: Rewrite) -> tuple[StageCall, ...]:
    """Return calls with T of their arguments and outputs."""
    return tuple(call._replace(argument=rewrite(call.argument), output=rewrite(call.output)) for call in calls)


def _of_axis(
    axis: str,
    some: Sequence[Variants],
    of_originals: Sequence[Mapping[tuple[str, str], Trace]],
    of_rewritten: Sequence[Mapping[str, Sequence[Sequence[Trace]]]],
    is_sampled: bool,
) -> Iterator[ExecutedVariants]:
    """The variants along an axis with their traces: those of the originals by draw, the others by sample."""
    for place, variants in enumerate(some):
        of_original = [drawn[_key(variants.original)] for drawn in of_originals]
        of_variants = [sample[axis][place] for sample in of_rewritten]
        yield _executed(variants, of_original, of_variants, is_sampled=is_sampled)


def _executed(
    variants: Variants,
    of_original: Sequence[Trace],
    of_rewritten: Sequence[Sequence[Trace]],
    *,
    is_sampled: bool,
) -> ExecutedVariants:
    """The traces of one dialogue: those of the original by draw, those of the others by sample."""
    # more originals than samples are drawn if there is only one sample
    samples = [VariantTraces(*traces) for traces in zip(of_original, of_rewritten, strict=False)]
    repeats = list(zip(of_original[::2], of_original[1::2], strict=False)) if is_sampled else []
    return ExecutedVariants(variants, samples, repeats)


def _key(run: Run) -> tuple[str, str]:
    """Return the key of an original: a dialogue with an introduction differs on every axis."""
    return run.dialogue.id, run.variant
