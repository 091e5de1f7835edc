"""``tod-bias repair``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.answers import FILE
from tod_bias.cli.arguments import (
    axes_made,
    axes_of,
    check_metrics,
    check_pipeline_of,
    check_seed,
    chosen,
    config_of,
    names_of,
    pipeline_of,
    system_of,
)
from tod_bias.cli.options import (
    AxisLexicons,
    BackEnd,
    Beams,
    CallModel,
    Datapath,
    Device,
    Introductions,
    MaxDialogues,
    MaxPerAxis,
    Model,
    NameSlots,
    NewTokens,
    PerturberOption,
    PipelineOption,
    Precision,
    Protect,
    Quiet,
    ResponseModel,
    Split,
    Tellings,
)
from tod_bias.errors import TodBiasError
from tod_bias.imports import is_import
from tod_bias.report.console import Console, echo


def repair(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run of attribute: its folder.")],
    corpus: Annotated[
        str | None, typer.Option(help="The run's corpus, where it lies elsewhere than the run says.")
    ] = None,
    datapath: Datapath = None,
    split: Annotated[Split | None, typer.Option(help="The run's split, where the run does not say.")] = None,
    max_dialogues: MaxDialogues = None,
    axes: Annotated[
        str | None,
        typer.Option(help="Axes to mend, joined by commas; by default all that the deciding metric claims."),
    ] = None,
    guards: Annotated[
        str, typer.Option(help="Guards that may be tried, the preferred first: canonical, neutral, vote.")
    ] = "canonical,vote,neutral",
    metric: Annotated[str | None, typer.Option(help="The metric that decides; by default the run's first.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="The run's metrics of your own, as module:Class, joined by commas.")
    ] = None,
    margin: Annotated[float, typer.Option(help="Within it all disparities and gaps must be shown to lie.")] = 0.02,
    quality_margin: Annotated[float, typer.Option(help="How much of the metric may be lost, in its own units.")] = 0.02,
    budget: Annotated[int, typer.Option(min=1, help="Changes tried for an axis at the most.")] = 12,
    these_words: Annotated[
        bool, typer.Option("--these-words", help="Take the words as they are where there are too few for a group.")
    ] = False,
    tellings: Tellings = None,
    max_per_axis: MaxPerAxis = None,
    cluster: Annotated[str | None, typer.Option(help="The run's clusters, where the run does not say.")] = None,
    introductions: Introductions = None,
    name_slots: NameSlots = None,
    perturber: PerturberOption = None,
    lexicon: AxisLexicons = None,
    protect: Protect = None,
    pipeline: PipelineOption = None,
    model: Model = None,
    api_call_model: CallModel = None,
    response_model: ResponseModel = None,
    device: Device = None,
    num_beams: Beams = None,
    max_new_tokens: NewTokens = None,
    dtype: Precision = None,
    backend: BackEnd = None,
    max_failures: Annotated[
        float | None, typer.Option(min=0, max=1, help="As of attribute; by default the run's.")
    ] = None,
    seed: Annotated[int | None, typer.Option(hidden=True, help="The run's own is taken.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; by default RUN/repair.")] = None,
    quiet: Quiet = False,
) -> None:
    """Find the smallest change that mends what a run found: guards and missing rows on the components that it names.

    Corpus, pipeline and options are the run's own; of a run that somebody else made, or that an earlier version wrote,
    they are given again. Tries the changes axis by axis, puts the
    smallest sufficient ones together, and measures them on all of these axes: what mends one must harm no other. As one
    of several is chosen on the same dialogues, it says where that would not hold at a level divided by their number.
    Writes repair.json, repair.svg, missing.jsonl (rows that a lookup table lacks) and mended.yaml, the pipeline to be
    used from then on. Exit code 1: nothing that was tried does.
    """
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.folder import claimed, unwritten
    from tod_bias.results import AuditResult, check_claims

    unwritten(run)
    result = AuditResult.load(run)
    check_seed(seed, result)
    from tod_bias.systems.configuration import GUARDS

    if unknown := [name for name in chosen("--guards", guards) if name not in GUARDS]:
        raise TodBiasError(f"--guards {guards}: unknown guard {unknown[0]!r}; expected some of {', '.join(GUARDS)}")
    config = config_of(
        run,
        corpus=corpus,
        datapath=datapath,
        split=None if split is None else split.value,
        max_dialogues=max_dialogues,
        axes=axes,
        introductions=introductions,
        name_slots=name_slots,
        perturber=perturber,
        lexicon=lexicon,
        protect=protect,
        variants=tellings,
        max_per_axis=max_per_axis,
        cluster=cluster,
        max_failures=max_failures,
        **system_of(pipeline, model, api_call_model, response_model, device, num_beams, max_new_tokens, dtype, backend),
    )
    wanted = axes_of(run, result, axes, config)
    check_metrics(metrics)
    asked = chosen("--axes", wanted) if wanted else []
    if unknown := [axis for axis in asked if axis not in result.axes]:
        raise TodBiasError(f"axis {unknown[0]}: the run has none of this name; it has {', '.join(result.axes)}")
    if metric is not None and metric not in result.metrics:
        raise TodBiasError(f"--metric {metric}: {run} has not measured it; it has {', '.join(result.metrics)}")
    check_claims(result, asked, metric or next(iter(result.metrics)))
    source, options = config.corpus, config.system
    named = (source.corpus, options.pipeline, options.models)
    check_pipeline_of(*named, options.device, options.generation)
    whole = load_corpus(source.corpus, datapath=source.datapath, split=source.split)
    perturbers = axes_made(wanted, config)

    from tod_bias.dialogues.sampling import sample  # heavy imports come after what may go wrong at once
    from tod_bias.dialogues.text import json_line
    from tod_bias.files import own_folder, write_json, write_lines
    from tod_bias.report import repairs
    from tod_bias.report.page import draw
    from tod_bias.studies.mended import write_mended
    from tod_bias.studies.repair import Workshop

    system = pipeline_of(*named, whole, options.device, options.generation)
    folder = claimed(own_folder(run, "repair") if out is None else out)
    told: dict[str, Any] = {
        "variants": config.design.variants,
        "max_per_axis": config.design.max_per_axis,
        "cluster": config.analysis.cluster,
        "max_failures": config.run.max_failures,
    }
    own = [*names_of(metrics or ""), *(name for name in config.analysis.metrics if is_import(name))]
    shop = Workshop(
        result, system, sample(whole, source.max_dialogues, result.config.seed), perturbers,
        metric=metric, margin=margin, quality_margin=quality_margin, these_words=these_words, cache=run / FILE,
        metrics=list(dict.fromkeys(own)), **told,
    )  # fmt: skip
    found = shop.repair(names_of(guards), budget)
    record = found.to_json()
    write_json(folder / "repair.json", record)
    label = result.metrics[shop.metric].label
    draw(repairs.picture(record, label), folder / "repair.svg", f"{label} against disparity, with and without changes")
    if not quiet:
        Console().print(repairs.table(record))
    for note in repairs.notes(record):
        echo(note, err=True)
    if found.mend is None or found.pipeline is None:
        typer.echo("None of the changes that were tried mends all axes; repair.json says what is left.", err=True)
        raise typer.Exit(1)
    if found.lacks:
        write_lines(folder / "missing.jsonl", (json_line(one.to_json()) for one in found.lacks))
    spec = options.pipeline or (None if any(options.models) else "demo")
    standard = _standard(options.models, options.generation)
    file, modules = write_mended(folder, found.pipeline, found.mend.changes, spec, standard)
    if not quiet:
        typer.echo(f"Mends: {found.mend.name}\nPipeline: {file}")
        if modules:
            typer.echo(f"(it needs {', '.join(modules)} beside it)")


def _standard(models: tuple[str | None, ...], generation: dict[str, Any]) -> dict[str, Any]:
    """The standard pipeline of trained models, as a pipeline's file has it, without the database."""
    both, call, response = models
    options = {name: value for name, value in generation.items() if value is not None}
    found = {}
    for name, kind, own in (("api_call", "ApiCall", call or both), ("response", "Response", response or both)):
        if own is not None:
            place = str(Path(own).resolve()) if Path(own).exists() else own
            found[name] = {"stage": f"tod_bias.stages:{kind}", "model": place, **options}
    return found
