"""``tod-bias check``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from tod_bias.cli.arguments import GENERATION, chosen, unused
from tod_bias.cli.case_check import Own, check_file
from tod_bias.cli.options import (
    BackEnd,
    Beams,
    CallModel,
    Datapath,
    Device,
    Model,
    NewTokens,
    PipelineOption,
    Precision,
    Quiet,
    ResponseModel,
)
from tod_bias.errors import TodBiasError
from tod_bias.report.console import Console, echo


def check(
    context: typer.Context,
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A finished run's folder.")] = None,
    max_disparity: Annotated[
        float | None, typer.Option(help="A disparity or gap shown to be beyond it fails; on each metric's own scale.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Within it all must be shown to lie; by default as --max-disparity.")
    ] = None,
    axes: Annotated[
        str | None,
        typer.Option(
            help="Axes, joined by commas; by default all but the placebo. With --cases: your own, module:name."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            "--metrics",
            help="Metrics, joined by commas; by default all that have a better side. With --cases: your own, "
            "module:Class.",
        ),
    ] = None,
    component: Annotated[
        str | None, typer.Option(help="Look at what this component adds to each disparity and gap.")
    ] = None,
    harm_only: Annotated[
        bool, typer.Option("--harm-only", help="Allow that some are served better than the others.")
    ] = False,
    these_words: Annotated[
        bool, typer.Option("--these-words", help="Take the words as they are: what is shown is true of them only.")
    ] = False,
    cases: Annotated[
        Path | None, typer.Option(help="Instead of a run: a file that tod-bias cases wrote, to be run again.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, help="With --cases: harm of a turn up to it is none, in the metric's own units.")
    ] = 0.01,
    pipeline: PipelineOption = None,
    model: Model = None,
    api_call_model: CallModel = None,
    response_model: ResponseModel = None,
    corpus: Annotated[
        str | None, typer.Option(help="With --cases and --model: the corpus, where it is not the one the cases name.")
    ] = None,
    datapath: Datapath = None,
    device: Device = None,
    num_beams: Beams = None,
    max_new_tokens: NewTokens = None,
    dtype: Precision = None,
    backend: BackEnd = None,
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit XML file.")] = None,
    summary: Annotated[
        Path | None, typer.Option(help="Append a summary in Markdown, for instance to $GITHUB_STEP_SUMMARY.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for check.json; by default none is written.")] = None,
    seed: Annotated[int, typer.Option(hidden=True, help="Nothing is drawn here.")] = 0,
    quiet: Quiet = False,
) -> None:
    """A gate for CI. Exit code 0: all is shown to be within the margin; 1: some is shown to be above the limit; 3: the
    run cannot tell, and says how many dialogues could; 2: something given cannot be used.

    Asked for are the disparity of every axis and the gap of every group from the mean of what the same dialogues are
    told as. Both directions count (positive is harm; a favour for some is unequal too), unless --harm-only. What rests
    on fewer than 6 effective words is shown of no group, unless --these-words.

    With --cases and --pipeline (or --model) single dialogues are run again. Exit code 0: all are mended; 1: some
    remain, or are levelled down: all are served as badly; 3: a question had no answer.
    """
    if not math.isfinite(tolerance):
        raise TodBiasError(f"--tolerance must be a number from 0, got {tolerance}")
    if cases is not None:
        given = {"RUN": run, "--max-disparity": max_disparity, "--margin": margin, "--component": component}
        unused(context, f"of a run; --cases {cases} are single dialogues", "harm_only", "these_words")
        if other := next((name for name, value in given.items() if value is not None), None):
            raise TodBiasError(f"{other} is of a run, --cases {cases} are single dialogues; leave one of them out")
        generation = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "dtype": dtype, "backend": backend}
        models = (model, api_call_model, response_model)
        code = check_file(
            cases,
            pipeline,
            models,
            Own(axes, metric, corpus, datapath),
            device,
            generation,
            tolerance,
            (junit, summary, out),
            quiet,
        )
        raise typer.Exit(code)
    if run is None or max_disparity is None:
        missing = "a run's folder" if run is None else "--max-disparity"
        raise TodBiasError(f"check: {missing} is missing; give RUN and --max-disparity, or --cases and --pipeline")
    if pipeline or model or api_call_model or response_model:
        raise TodBiasError("check: a finished run is not run again; leave out --pipeline and --model, or give --cases")
    unused(
        context,
        "for --cases, which are run again; a finished run is not",
        "tolerance",
        "corpus",
        "datapath",
        "device",
        *GENERATION,
    )
    from tod_bias.results import AuditResult

    result = AuditResult.load(run)

    from tod_bias.files import append_text, write_json, write_text  # heavy imports come after what may go wrong at once
    from tod_bias.folder import writable
    from tod_bias.report import gate as pages
    from tod_bias.studies import gate as gates

    found = gates.gate(
        result,
        max_disparity,
        axes=None if axes is None else chosen("--axes", axes),
        metrics=None if metric is None else chosen("--metric", metric),
        component=component,
        margin=margin,
        harm_only=harm_only,
        these_words=these_words,
    )
    record = found.record
    if out is not None:
        write_json(writable(out) / "check.json", record)
    if junit is not None:
        write_text(junit, pages.junit(record), named=True)
    if summary is not None:
        append_text(summary, pages.markdown(record))
    if not quiet:
        Console().print(pages.table(record))
        echo(f"{pages.TITLES[found.state]}: {pages.headline(record)}")
    raise typer.Exit(found.code)
