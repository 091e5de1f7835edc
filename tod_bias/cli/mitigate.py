"""``tod-bias mitigate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen
from pydantic import Field

from tod_bias.cache import FILE
from tod_bias.cli.arguments import (
    axes_of,
    check_metrics,
    check_system,
    config_of,
    load_axes,
    load_system,
    user_metrics,
)
from tod_bias.cli.options import command
from tod_bias.config import (
    DEMO,
    AuditConfig,
    MarginOptions,
    Names,
    OutputOptions,
    Positive,
    RunOverrides,
    SystemOptions,
)
from tod_bias.errors import StageError, TodBiasError
from tod_bias.report.console import Console, echo


class MitigateOptions(MarginOptions):
    """What may be changed, and what counts as mitigated."""

    title = "Mitigation"

    guards: Annotated[Names, MinLen(1)] = ("canonical", "vote", "neutral")
    """Guards that may be tried, the preferred first: canonical, neutral, vote."""
    metric: str | None = None
    """The metric that decides; by default that of the run's first finding."""
    margin: Annotated[float, Field(gt=0)] = 0.02
    """Within it all disparities and gaps must be shown to lie."""
    quality_margin: Annotated[float, Field(gt=0)] = 0.02
    """How much of the metric may be lost, in its own units."""
    budget: Positive = 12
    """Fixes tried per axis at most."""
    terms_only: bool = False
    """Take the terms as they are where they are too few for a group."""


class MitigateOutput(OutputOptions):
    """Where changes go."""

    out: Path | None = None
    """Folder for the results; by default RUN/mitigation."""


@command("tod-bias mitigate runs/mine --guards canonical")
def mitigate(run: Path, /, *, how: MitigateOptions, output: MitigateOutput, overrides: RunOverrides) -> int:
    """Find the smallest fix of what a run found: guards and missing rows on the stages that it names.

    Tries the fixes axis by axis, puts the smallest sufficient ones together, and measures them on all of these axes:
    what helps one must harm no other. As one of several is chosen on the same dialogues, it says where that would not
    hold at a level divided by their number. Writes mitigation.json, mitigation.svg, missing.jsonl (rows that a
    lookup table lacks) and mitigated.yaml, the pipeline to be used from then on. Exit code 1: nothing is
    sufficient.

    Args:
        run: A finished run of attribute: its folder.
    """
    from tod_bias.folder import unwritten

    unwritten(run)
    from tod_bias.results import AuditResult, check_claims

    result = AuditResult.load(run)
    from tod_bias.perturb.guards.guard import GUARDS

    if unknown := [name for name in how.guards if name not in GUARDS]:
        raise TodBiasError(f"--guards: unknown guard {unknown[0]!r}; expected some of {', '.join(GUARDS)}")
    config = config_of(run, overrides)
    names = axes_of(run, result, overrides, config)
    check_metrics(config.analysis.metrics or ())
    if missing := [axis for axis in names if axis not in result.axes]:
        raise TodBiasError(f"axis {missing[0]}: the run has none of this name; it has {', '.join(result.axes)}")
    if how.metric is not None and how.metric not in result.metrics:
        raise TodBiasError(f"--metric {how.metric}: {run} has not measured it; it has {', '.join(result.metrics)}")
    check_claims(result, list(names), how.metric or result.leading_metric)
    mitigation = _searched(result, config, names, how)

    from tod_bias.files import subfolder  # heavy imports come after what may go wrong at once
    from tod_bias.folder import claimed

    folder = claimed(subfolder(run, "mitigation") if output.out is None else output.out)
    return _write(folder, mitigation, result, config.system, quiet=output.quiet)


def _searched(result: Any, config: AuditConfig, names: Sequence[str], how: MitigateOptions) -> Any:
    """The result of the search for fixes."""
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.sampling import sample

    corpus, system = config.corpus, config.system
    check_system(corpus.corpus, system)
    whole = load_corpus(corpus.corpus, datapath=corpus.datapath, split=corpus.split)
    axes = load_axes(config.axes, names, config.system.device)
    from tod_bias.mitigation.fixes import Goal
    from tod_bias.mitigation.search import MitigationSearch

    search = MitigationSearch(
        result,
        load_system(corpus.corpus, system, whole),
        sample(whole, corpus.max_dialogues, result.config.seed),
        axes,
        goal=Goal(how.metric, how.margin, how.quality_margin, how.terms_only),
        cache=None if result.folder is None else result.folder / FILE,
        metrics=user_metrics(config),
        cluster=config.analysis.cluster,
        max_failures=config.run.max_failures,
    )
    return search.search(list(how.guards), how.budget)


def _write(folder: Path, mitigation: Any, result: Any, system: SystemOptions, *, quiet: bool) -> int:
    """Write what was found, and show it; returns the exit code."""
    from tod_bias.dialogues.text import json_line
    from tod_bias.files import write_json, write_lines
    from tod_bias.mitigation.pipeline_file import write_pipeline
    from tod_bias.report import mitigation as pages
    from tod_bias.report.page import draw

    record = mitigation.record
    write_json(folder / "mitigation.json", record)
    label = result.metrics[record["metric"]].label
    draw(
        pages.picture(record, label),
        folder / "mitigation.svg",
        f"{label} against the pooled difference, with and without fixes",
    )
    if not quiet:
        Console().print(pages.table(record))
    for note in pages.notes(record):
        echo(note, err=True)
    if mitigation.chosen is None or mitigation.pipeline is None:
        echo("No fix that was tried is sufficient for all axes; mitigation.json says why.", err=True)
        return 1
    if mitigation.missing_rows:
        write_lines(folder / "missing.jsonl", (json_line(missing.record) for missing in mitigation.missing_rows))
    spec = system.pipeline or (None if any(system.models) else DEMO)
    if not quiet:
        print(f"Mitigated by: {mitigation.chosen.name}")
    try:
        file, modules = write_pipeline(folder, mitigation.pipeline, mitigation.chosen.fixes, spec, _standard(system))
    except StageError as error:  # what was found holds; only the file cannot say it
        echo(f"No pipeline was written: {error}", err=True)
        return 0
    if not quiet:
        print(f"Pipeline: {file}")
        if modules:
            print(f"(it needs {', '.join(modules)} beside it)")
    return 0


def _standard(system: SystemOptions) -> dict[str, Any]:
    """The standard pipeline of trained models, as a pipeline's file has it, without the database."""
    both, call, response = system.models
    options = {name: value for name, value in system.generation.items() if value is not None}
    entries = {}
    for name, kind, model in (("api_call", "ApiCall", call or both), ("response", "Response", response or both)):
        if model is not None:
            place = str(Path(model).resolve()) if Path(model).exists() else model
            entries[name] = {"stage": f"tod_bias.stages:{kind}", "model": place, **options}
    return entries
