"""Regression cases of a run: ``tod-bias cases``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tod_bias.cli.work.axes import axes_of, lexicons, load_axes
from tod_bias.config import AuditConfig, DialogueOverrides, is_axis_file
from tod_bias.dialogues.corpora import check_shipped, load_corpus
from tod_bias.dialogues.sampling import sample
from tod_bias.errors import TodBiasError
from tod_bias.perturb.axis_file import read_axis_file
from tod_bias.report import cases as pages
from tod_bias.report.console import Console, echo
from tod_bias.results import AuditResult
from tod_bias.testing.case_choice import cases_of
from tod_bias.testing.cases import check_replaced, read_cases, write_cases


def choose_cases(
    run: Path,
    result: AuditResult,
    config: AuditConfig,
    overrides: DialogueOverrides,
    worst: int,
    only: Sequence[str],
    out: Path,
    *,
    quiet: bool,
) -> None:
    """Choose cases, write them, and print the worst.

    Args:
        run: folder.
        result: of the run.
        config: the options of the run, and those that are given now.
        overrides: the options that are given now.
        worst: number of cases.
        only: turns to take instead.
        out: file for the cases.
        quiet: print nothing.

    Raises:
        TodBiasError: the corpus cannot be read, or the file is none of cases.
    """
    if config.corpus.world is not None:
        raise TodBiasError(
            f"{run}: a world's tasks are no cases, since a file cannot hold their databases; audit again with the "
            "run's command, and hold the new run against this one: tod-bias check NEW --baseline OLD"
        )
    check_replaced(out)
    about = result.corpus
    name = config.corpus.corpus if config.corpus.given_of("corpus") else about.name
    if not config.corpus.given_of("corpus"):
        check_shipped(name, str(run))
    whole = load_corpus(name, datapath=config.corpus.datapath, split=about.split or "test")
    names = axes_of(run, result, overrides, config)
    axes = load_axes(config.axes, names, config.system.device)
    choice = cases_of(
        run,
        sample(whole, about.dialogues, result.config.seed),
        most=worst,
        axes=axes,
        options=_options_of_axes(config, names, axes),
        only=only,
    )
    chosen: Sequence[Any] = choice.cases
    if only and out.is_file():
        chosen = [*(case for case in read_cases(out) if case.id not in only), *chosen]
    write_cases(chosen, out)
    if quiet:
        return
    if chosen:
        Console().print(pages.written([case.to_json() for case in chosen]))
    for axis, number in choice.left_out.items():
        echo(f"axis {axis}: {number} left out, as a file cannot hold how they are rewritten")
    why = "" if chosen else f" ({run} has no finding whose turns can be shown)"
    print(f"{len(chosen)} case{'s' * (len(chosen) != 1)}: {out}{why}")


def _options_of_axes(config: AuditConfig, names: Sequence[str], axes: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return how each axis was made, so that a case can be run without the folder of its run."""
    how = config.axes
    files = lexicons(how, names)
    options: dict[str, dict[str, Any]] = {}
    for name, axis in zip(names, axes, strict=True):
        if is_axis_file(name):
            of_file, settings = read_axis_file(name)
            options[axis.name] = {"axis": of_file, **settings}
        else:
            options[axis.name] = {
                "axis": name,
                "lexicon": files.get(name),
                "model": how.perturber,
                "introductions": sorted(axis.kinds) or None if how.introductions else None,
            }
    return options
