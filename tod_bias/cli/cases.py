"""``tod-bias cases``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from tod_bias.cli.arguments import (
    axes_of,
    chosen_metric,
    config_of,
    lexicons,
    load_axes,
)
from tod_bias.cli.options import command
from tod_bias.config import ADVANCED, AuditConfig, DialogueOverrides, Options, OutputOptions, Positive
from tod_bias.report.console import Console, echo


class CasesOptions(Options):
    """Cases to write."""

    title = "Cases"

    worst: Positive = 50
    """So many cases, every axis its share."""
    metric: str | None = None
    """Says what is harm, by name or as module:Class; by default the one that claims most."""
    stage: Annotated[str | None, ADVANCED] = None
    """Only harm that enters at this stage."""
    only: tuple[str, ...] = ()
    """A turn that tod-bias view names, in place of the worst; may be repeated. Cases that are in --out stay."""


class CasesOutput(OutputOptions):
    """Where cases go."""

    out: Path = Path("cases.jsonl")
    """The file (JSON lines)."""


@command("tod-bias cases runs/mine --worst 20 --out cases.jsonl")
def cases(run: Path, /, *, which: CasesOptions, output: CasesOutput, overrides: DialogueOverrides) -> None:
    """Write the dialogues that are served worst as regression cases, for tod-bias check --cases and pytest --tod-bias.

    A case is one turn of one counterfactual, with the turns before it and the stage at which the harm enters. It needs
    no corpus and no run. No stage is called.

    Args:
        run: A finished run's folder.
    """
    config = config_of(run, overrides)
    from tod_bias.io.folder import unwritten
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
    axes = load_axes(config.axes, names, config.system.device)
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
    if which.only and output.out.is_file():
        chosen = [*(case for case in read_cases(output.out) if case.id not in which.only), *chosen]
    write_cases(chosen, output.out)
    if output.quiet:
        return
    if chosen:
        Console().print(pages.written([case.to_json() for case in chosen]))
    for axis, number in worst.left_out.items():
        echo(f"axis {axis}: {number} left out, as a file cannot hold how they are rewritten")
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
            "model": how.perturber,
            "introductions": sorted(axis.kinds) or None if how.introductions else None,
        }
        for name, axis in zip(names, axes, strict=True)
    }
