"""``tod-bias cases``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tod_bias.cli.arguments import (
    axes_of,
    chosen_metric,
    config_of,
    lexicons,
    load_axes,
    load_system,
    refuse,
)
from tod_bias.cli.options import command
from tod_bias.config import GENERATION, AuditConfig, Options, OutputOptions, Positive, RunOverrides
from tod_bias.report.console import Console, echo


class CasesOptions(Options):
    """Which cases are written."""

    title = "Cases"

    worst: Positive = 50
    """So many cases, every axis its share."""
    metric: str | None = None
    """Says what is harm, by name or as module:Class; by default the one that claims most."""
    stage: str | None = None
    """Only harm that enters at this stage."""
    only: tuple[str, ...] = ()
    """A turn that tod-bias view names, in place of the worst; may be repeated. Cases that are in --out stay."""


class CasesOutput(OutputOptions):
    """Where cases go."""

    out: Path = Path("cases.jsonl")
    """The file (JSON lines)."""


@command("tod-bias cases runs/mine --worst 20 --out cases.jsonl")
def cases(run: Path, /, *, which: CasesOptions, output: CasesOutput, overrides: RunOverrides) -> None:
    """Write the dialogues that are served worst as regression cases, for tod-bias check --cases and pytest --tod-bias.

    One turn of one counterfactual each, by the stage that the harm enters at; a case needs no corpus and no run. Each
    is cut down to the turns it takes by the run's pipeline or models, where the run is your own or they are given
    (cached outputs of the run are not called again); else all turns up to the marked one stay.

    Args:
        run: A finished run's folder.
    """
    config = config_of(run, overrides)
    if not config.system.is_named:
        refuse(overrides, GENERATION, "for a system that is run; give --pipeline or --model, or leave it out")
    from tod_bias.folder import unwritten
    from tod_bias.results import AuditResult

    unwritten(run)
    result = AuditResult.load(run)
    from tod_bias.dialogues.corpora import check_shipped, load_corpus  # heavy imports come after what may go wrong
    from tod_bias.dialogues.sampling import sample
    from tod_bias.report import cases as pages
    from tod_bias.testing.cases import check_replaced, read_cases, write_cases
    from tod_bias.testing.worst import worst_cases

    check_replaced(output.out)
    about = result.corpus
    name = config.corpus.corpus if config.corpus.given_of("corpus") else about.name
    if not config.corpus.given_of("corpus"):
        check_shipped(name, str(run))
    whole = load_corpus(name, datapath=config.corpus.datapath, split=about.split or "test")
    names = axes_of(run, result, overrides, config)
    axes = load_axes(config.axes, names)
    metric = which.metric or chosen_metric(config)
    worst = worst_cases(
        run,
        sample(whole, about.dialogues, result.config.seed),
        most=which.worst,
        axes=axes,
        metric=metric,
        stage=which.stage,
        options=_options(config, names, axes),
        only=which.only,
    )
    chosen: Sequence[Any] = worst.cases
    strange: Sequence[Any] = []
    is_run = bool(chosen) and config.system.is_named
    if is_run:
        system = load_system(name, config.system, whole)
        chosen, strange = _minimised(run, system, chosen, axes, metric, show_progress=not output.quiet)
    if which.only and output.out.is_file():
        chosen = [*(case for case in read_cases(output.out) if case.id not in which.only), *chosen]
    write_cases(chosen, output.out)
    if output.quiet:
        return
    if chosen:
        Console().print(pages.written([case.to_json() for case in chosen]))
    for text in _notes(worst, is_run, strange):
        echo(text)
    print(f"{len(chosen)} case{'s' * (len(chosen) != 1)}: {output.out}")


def _options(config: AuditConfig, names: Sequence[str], axes: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """How each axis was made, for a case that needs no run."""
    how = config.axes
    files = lexicons(how, names)
    return {
        axis.name: {
            "axis": name,
            "lexicon": files.get(name),
            "protected": list(how.protect) or None,
            "name_slots": None if how.name_slots is None else str(how.name_slots),
            "introductions": sorted(axis.kinds) or None if how.introductions else None,
        }
        for name, axis in zip(names, axes, strict=True)
    }


def _minimised(
    run: Path, system: Any, cases: Sequence[Any], axes: Sequence[Any], metric: str | None, *, show_progress: bool
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Cases cut down to the turns that they take, and those that the system does not show."""
    from tod_bias.audit.choices import metrics_of
    from tod_bias.audit.signatures import generators_of
    from tod_bias.cache import FILE, Cache
    from tod_bias.testing.case_runs import CaseRunner
    from tod_bias.testing.cases import axes_of_cases
    from tod_bias.testing.minimising import minimised

    cache = Cache(run / FILE)
    for generator in generators_of(system):
        generator.keep_in(cache)
    scored = metrics_of([metric or cases[0].metric])[0]
    runner = CaseRunner(system, scored, cases[0].history, cache, show_progress=show_progress)
    return minimised(cases, runner, axes_of_cases(cases, {axis.name: axis for axis in axes}))


def _notes(worst: Any, is_run: bool, strange: Sequence[Any]) -> list[str]:
    notes = [
        f"axis {axis}: {number} left out, as a file cannot hold how they are rewritten"
        for axis, number in worst.left_out.items()
    ]
    if worst.cases and not is_run:
        notes.append("not minimised: give the run's --pipeline (or --model) to cut earlier turns that are not needed")
    if strange:
        notes.append(
            f"{len(strange)} not minimised: this system does not show the run's harm in them, for instance "
            f"{strange[0].id}"
        )
    return notes
