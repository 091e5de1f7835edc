"""``tod-bias check``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tod_bias.cli.arguments import check_files, config_of, load_system, refuse
from tod_bias.cli.options import command
from tod_bias.config import ADVANCED, AuditConfig, MarginOptions, Options, OutputOptions, RunOverrides
from tod_bias.errors import TodBiasError
from tod_bias.report.console import Console, echo


class GateOptions(MarginOptions):
    """What is allowed."""

    title = "Gate"

    max_gap: Annotated[float, Field(gt=0)] | None = None
    """A gap shown to be beyond it fails; on each metric's own scale."""
    margin: Annotated[float, Field(gt=0)] | None = None
    """Pass if every gap is shown to be within ±margin; by default --max-gap."""
    both_sides: bool = False
    """Gaps of either sign count: that some are served better than the others, too."""
    terms_only: bool = False
    """Take the terms as they are: what is shown is true of them only."""
    stage: Annotated[str | None, ADVANCED] = None
    """Look at what this stage adds to each gap."""
    allow_undecided: bool = False
    """In the JUnit file, mark undecided gaps as skipped instead of as errors."""


class CaseOptions(Options):
    """Regression cases."""

    title = "Cases"

    cases: Path | None = None
    """A file that tod-bias cases wrote, to be run again; RUN may say on which system."""
    tolerance: Annotated[float, Field(ge=0), ADVANCED] = 0.01
    """Harm of a turn up to it is none, in the metric's own units."""


class CheckOutput(OutputOptions):
    """Where the verdict goes."""

    out: Path | None = None
    """Folder for check.json; by default none is written."""
    junit: Path | None = None
    """Write a JUnit XML file."""
    summary: Path | None = None
    """Append a summary in Markdown, for instance to $GITHUB_STEP_SUMMARY."""


@command("tod-bias check runs/mine --max-gap 0.05 --axes gender --junit gate.xml")
def check(
    run: Path | None = None,
    /,
    *,
    limits: GateOptions,
    regression: CaseOptions,
    output: CheckOutput,
    overrides: RunOverrides,
) -> int:
    """Hold a finished run against a limit: a gate for CI.

    Exit code 0: every gap is shown to be within the margin; 1: a harm is shown to be above the limit; 3: undecided, and
    the output names the number of dialogues that would decide; 2: an argument or a file cannot be used.

    A gap is that of a group from the mean of all groups on the same dialogues. Positive is harm; with --both-sides a
    favour for some counts too. A group with fewer than 3 effective terms neither passes nor fails, unless --terms-only.

    With --cases single dialogues are run again, on the system of RUN or of --pipeline or --model. Exit code 0: all are
    fixed; 1: some remain, or are levelled down: all are served as badly; 3: a call had no output.

    Args:
        run: A finished run's folder.
    """
    if regression.cases is not None:
        why = f"of a run; --cases {regression.cases} are single dialogues"
        refuse(limits, type(limits).model_fields, why)
        return _check_cases(regression.cases, run, regression.tolerance, overrides, output)
    refuse(regression, ("tolerance",), "for --cases, which are run again; a finished run is not")
    given = overrides.given()
    refuse(overrides, given.keys() - {"axes", "metrics"}, "for --cases, which are run again; a finished run is not")
    if run is None or limits.max_gap is None:
        missing = "a run's folder" if run is None else "--max-gap"
        raise TodBiasError(f"check: {missing} is missing; give RUN and --max-gap, or --cases and --pipeline")
    from tod_bias.results import AuditResult

    result = AuditResult.load(run)

    from tod_bias.report import gate as pages  # heavy imports come after what may go wrong at once
    from tod_bias.report.answer import in_lines
    from tod_bias.testing import gate as gates

    allowed = gates.Limits(limits.max_gap, limits.margin, limits.both_sides, limits.terms_only)
    checked = gates.gate(result, allowed, axes=given.get("axes"), metrics=given.get("metrics"), stage=limits.stage)
    axes = {verdict.checked.axis for verdict in checked.verdicts}
    record = checked.record | {"allow_undecided": limits.allow_undecided, "findings": in_lines(result, axes)}
    _write(record, pages, output)
    if not output.quiet:
        Console().print(pages.table(record))
        echo(f"{pages.TITLES[checked.state]}: {pages.headline(record)}")
    return checked.code


def _check_cases(path: Path, run: Path | None, tolerance: float, overrides: RunOverrides, output: CheckOutput) -> int:
    """Run a file of cases again, on the system that the options or a run name; returns the exit code."""
    check_files(path)
    from tod_bias.dialogues.corpora import check_shipped, load_corpus
    from tod_bias.report import cases as pages
    from tod_bias.testing.case_check import check_cases
    from tod_bias.testing.cases import read_cases

    cases = read_cases(path)
    config = AuditConfig.with_settings(None, overrides.given()) if run is None else config_of(run, overrides)
    corpus, split = cases[0].corpus
    has_models = any(config.system.models)
    if config.corpus.given_of("corpus"):
        corpus = config.corpus.corpus
    elif has_models:
        check_shipped(corpus, str(path))
    axes, metrics = _user_objects(cases, config, is_given=run is None)
    whole = load_corpus(corpus, datapath=config.corpus.datapath, split=split) if has_models else []
    system = load_system("", config.system, whole)
    checked = check_cases(
        cases, system, tolerance=tolerance, axes=axes, metrics=metrics, show_progress=not output.quiet
    )
    _write(checked.record, pages, output)
    if not output.quiet:
        Console().print(pages.table(checked.record))
        echo(pages.headline(checked.record))
    return checked.code


def _user_objects(
    cases: Sequence[Any], config: AuditConfig, *, is_given: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The axes and metrics of the user's own.

    Args:
        cases: which may name them.
        config: which names them.
        is_given: whether it is all from the command line, so that what no case names is a mistake.

    Raises:
        TodBiasError: one cannot be loaded, or no case names it.
    """
    from tod_bias.io.imports import is_import
    from tod_bias.perturb.loading import is_user_defined
    from tod_bias.testing.case_check import user_objects

    names = config.axes.axes if config.axes.given_of("axes") else ()
    scores = config.analysis.metrics or ()
    if not is_given:
        names = tuple(name for name in names if is_user_defined(name))
        scores = tuple(name for name in scores if is_import(name))
    axes, metrics = user_objects(names, scores)
    if is_given:
        known = {case.axis for case in cases}
        for axis in (*axes, *(name for name in names if not is_user_defined(name))):
            if axis not in known:
                raise TodBiasError(f"--axes: no case is of axis {axis!r}; expected some of {', '.join(sorted(known))}")
        known = {case.metric for case in cases}
        for name in scores:
            if not {name, metrics[name].name} & known:
                raise TodBiasError(f"--metrics: no case is scored by {name}; expected {', '.join(sorted(known))}")
    return axes, metrics


def _write(record: Any, pages: Any, output: CheckOutput) -> None:
    """Write the result to the requested files."""
    from tod_bias.io.files import append_text, write_json, write_text
    from tod_bias.io.folder import writable

    if output.out is not None:
        write_json(writable(output.out) / "check.json", record)
    if output.junit is not None:
        write_text(output.junit, pages.junit(record), named=True)
    if output.summary is not None:
        append_text(output.summary, pages.markdown(record))
