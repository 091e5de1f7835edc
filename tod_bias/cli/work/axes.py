"""Axes that options name, or that a run has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.config import AuditConfig, AxisNames, AxisOptions, LexiconOptions, Options, TermOptions
from tod_bias.errors import TodBiasError
from tod_bias.perturb.axis import PLACEBO
from tod_bias.perturb.loading import check_shipped, idle_options, is_from_user, load_axis

if TYPE_CHECKING:
    from tod_bias.results import AuditResult


def axes_of(run: Path, result: AuditResult, given: Options, config: AuditConfig) -> tuple[str, ...]:
    """Return the requested axes; by default those of a run, without the placebo.

    Raises:
        AxisError: no axes were requested, and the run names an axis that is not shipped.
    """
    if "axes" in given.given():
        return config.axes.axes
    if any(map(is_from_user, config.axes.axes)):  # a run of this machine
        known = {*result.axes} - {PLACEBO}
        return tuple(name for name in config.axes.axes if is_from_user(name) or name in known)
    names = tuple(axis for axis in result.axes if axis != PLACEBO)
    for name in names:
        for part in name.split(","):
            check_shipped(part, str(run))
    return names


def load_axes(options: LexiconOptions, names: Sequence[str] | None = None, device: str | None = None) -> list[Any]:
    """Return the axes of the options.

    Args:
        options: settings of the axes.
        names: the requested axes, by default all axes of the options; lexicons of other axes are ignored.
        device: device of a neural perturber.

    Raises:
        TodBiasError: an axis or a lexicon is unknown, or no axis uses an option that is given.
    """
    every = options.axes if names is None else names
    files = lexicons(options, every)
    introductions = options.introductions if isinstance(options, AxisOptions) else None
    how: dict[str, Any] = {"model": options.perturber if isinstance(options, AxisOptions) else None}
    check_used(every, {**how, "introductions": introductions})
    kinds = {} if introductions is None else _kinds(every, files, introductions)
    how["device"] = device
    return [load_axis(axis, lexicon=files.get(axis), introductions=kinds.get(axis), **how) for axis in every]


def check_used(axes: Sequence[str], options: Mapping[str, object]) -> None:
    """Raise if no axis uses a given option.

    Raises:
        TodBiasError: names the option, its purpose and the axes.
    """
    for name in idle_options(axes, options):
        raise TodBiasError(f"{_IDLE[name]}, and the axes are {', '.join(axes)}; leave it out")


def lexicons(options: TermOptions, axes: Sequence[str]) -> dict[str, str]:
    """Return the lexicon file of each axis that has one.

    Args:
        options: lexicons as they were given; if they name axes too, lexicons of those that are not wanted are left out.
        axes: the axes that are wanted.

    Raises:
        TodBiasError: a lexicon is not given as AXIS=FILE, its axis is unknown, or its axis has two lexicons.
    """
    known = {*axes, *(options.axes if isinstance(options, AxisNames) else ())}
    files: dict[str, str] = {}
    for text in options.lexicon:
        axis, equals, file = text.partition("=")
        if not (equals and file) or axis not in known:
            raise TodBiasError(f"--lexicon {text}: expected AXIS=FILE, with one of --axes {','.join(axes)}")
        if axis in files:
            raise TodBiasError(f"--lexicon {text}: axis {axis} has a lexicon already, {files[axis]}")
        files[axis] = file
    return {axis: file for axis, file in files.items() if axis in axes}


_IDLE = {
    "introductions": "--introductions: for axes persona_…",
    "model": "--perturber: a model rewrites terms, not names, introductions or the placebo",
}


def _kinds(axes: Sequence[str], files: Mapping[str, str], wanted: Sequence[str]) -> dict[str, list[str]]:
    """Return the kinds of introductions of each axis that were requested; an axis without any of them keeps all.

    Raises:
        TodBiasError: no axis has one of the kinds.
    """
    known: dict[str, frozenset[str]] = {
        axis: load_axis(axis, lexicon=files.get(axis)).kinds for axis in axes if "persona_" in axis
    }
    unknown = [kind for kind in wanted if not any(kind in kinds for kinds in known.values())]
    if unknown:
        possible = ", ".join(sorted(set().union(*known.values()))) or "none, as no axis is persona_…"
        raise TodBiasError(f"--introductions {','.join(wanted)}: no axis has {unknown[0]!r}; expected {possible}")
    return {axis: some for axis, kinds in known.items() if (some := [kind for kind in wanted if kind in kinds])}
