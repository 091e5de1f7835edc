"""``tod-bias check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tod_bias.cli.checks import check_files, refuse, result_of
from tod_bias.cli.options import command
from tod_bias.cli.work.judged import Judged
from tod_bias.config import ADVANCED, Options, OutputOptions, SystemOverrides
from tod_bias.dialogues.text import json_line
from tod_bias.errors import TodBiasError
from tod_bias.io.files import append_text, write_json, write_text
from tod_bias.io.folder import writable
from tod_bias.report.console import Console


class GateOptions(Options):
    """Limits and accepted findings of the gate."""

    title = "Gate"

    max_gap: Annotated[float, Field(gt=0, le=1)] | None = None
    """Pass only if every gap is also shown to be within this share, e.g. 0.1; exit code 3 if the data cannot tell."""
    terms_only: bool = False
    """Treat the terms as fixed: bounds hold for these terms only."""
    baseline: Path | None = None
    """Folder of an earlier run: only findings that are new or larger fail."""
    known: Path | None = None
    """YAML list of accepted findings: axis, group, event, reason."""


class CaseOptions(Options):
    """Regression cases."""

    title = "Cases"

    cases: Path | None = None
    """File that tod-bias cases wrote, whose cases are run again; RUN may name the system."""
    references: Literal["gold"] | None = None
    """With gold, the recorded responses are a standard too: no response may be further from them than it was."""


class CheckOutput(OutputOptions):
    """Output of the verdict."""

    out: Path | None = None
    """Folder for check.json; by default none is written."""
    junit: Path | None = None
    """Write a JUnit XML file."""
    otel: Annotated[Path | None, ADVANCED] = None
    """Write the findings as gen_ai.evaluation.result events of OpenTelemetry (OTLP JSON)."""
    summary: Path | None = None
    """Append a summary in Markdown, for instance to $GITHUB_STEP_SUMMARY."""


@command("tod-bias check runs/mine --junit gate.xml")
def check(
    run: Path | None = None,
    /,
    *,
    limits: GateOptions,
    regression: CaseOptions,
    output: CheckOutput,
    overrides: SystemOverrides,
) -> int:
    """Judge a finished run by its findings: a gate for CI.

    Exit code 0: no finding stands; 1: a finding stands; 3: the run measured nothing, or, with --max-gap, does not show
    that every gap is within the limit; 2: an argument or a file cannot be used. A run with a claimed difference never
    passes unless --known accepts it or --baseline has it.

    With --cases, single dialogues are run again, on the system of RUN, --pipeline or --model. Exit code 0: no event
    depends on the group any more; 1: some do, or all groups are now served as badly; 3: a call had no output.

    Args:
        run: A finished run's folder.
    """
    path = regression.cases
    if path is not None:
        refuse(limits, type(limits).model_fields, f"of a run; --cases {path} are single dialogues")
        check_files(path)
        from tod_bias.cli.work.check_cases import run_cases

        return _write(run_cases(path, run, overrides, regression.references, quiet=output.quiet), output)
    refuse(regression, ("references",), "for --cases, which are run again; a finished run is not")
    given = overrides.given()
    refuse(overrides, given.keys() - {"axes"}, "for --cases, which are run again; a finished run is not")
    if run is None:
        raise TodBiasError("check: a run's folder is missing; give RUN, or --cases and --pipeline")
    result = result_of(run)
    baseline = None if limits.baseline is None else result_of(limits.baseline)

    from tod_bias.cli.work.check_run import judge  # heavy imports come after what may go wrong at once

    judged = judge(
        result,
        max_gap=limits.max_gap,
        terms_only=limits.terms_only,
        axes=given.get("axes"),
        baseline=baseline,
        known=limits.known,
    )
    return _write(judged, output)


def _write(judged: Judged, output: CheckOutput) -> int:
    """Write a result to the requested files, print it, and return the exit code."""
    if output.out is not None:
        write_json(writable(output.out) / "check.json", judged.record)
    if output.junit is not None:
        write_text(output.junit, judged.junit, named=True)
    if output.summary is not None:
        append_text(output.summary, judged.markdown)
    if output.otel is not None and judged.events is not None:
        write_text(output.otel, json_line(judged.events), named=True)  # a receiver reads a line at a time
    if not output.quiet:
        Console().print(judged.table, **judged.layout)
    return judged.code
