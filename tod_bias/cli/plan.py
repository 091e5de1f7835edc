"""``tod-bias plan``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.cli.arguments import (
    check_datapath,
    check_design,
    check_folder,
    check_pipeline_of,
    chosen,
    folder_of,
    perturbers_of,
    pipeline_of,
    unused,
)
from tod_bias.cli.options import (
    AXES,
    Axes,
    AxisLexicons,
    BackEnd,
    Beams,
    CallModel,
    Corpus,
    Datapath,
    Design,
    DesignOption,
    Device,
    Draws,
    History,
    HistoryOption,
    Introductions,
    MaxDialogues,
    MaxPerAxis,
    Model,
    NameSlots,
    NewTokens,
    Out,
    PerturberOption,
    PipelineOption,
    Precision,
    Protect,
    Quiet,
    ResponseModel,
    Seed,
    Split,
    SplitOption,
    Tellings,
)
from tod_bias.errors import TodBiasError
from tod_bias.folder import shown
from tod_bias.report.console import Console, echo


def plan(
    context: typer.Context,
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    split: SplitOption = Split.test,
    max_dialogues: MaxDialogues = None,
    axes: Axes = AXES,
    design: DesignOption = Design.crossed,
    draws: Draws = 3,
    tellings: Tellings = None,
    max_per_axis: MaxPerAxis = None,
    introductions: Introductions = None,
    name_slots: NameSlots = None,
    perturber: PerturberOption = None,
    lexicon: AxisLexicons = None,
    protect: Protect = None,
    pipeline: PipelineOption = None,
    model: Model = None,
    api_call_model: CallModel = None,
    response_model: ResponseModel = None,
    history: HistoryOption = History.gold,
    device: Device = None,
    num_beams: Beams = None,
    max_new_tokens: NewTokens = None,
    dtype: Precision = None,
    backend: BackEnd = None,
    pilot: Annotated[
        Path | None, typer.Option(help="A finished run: what it could have shown, and what a larger one could.")
    ] = None,
    detect: Annotated[float | None, typer.Option(help="With --pilot: the disparity that is to be found.")] = None,
    sample: Annotated[int, typer.Option(min=0, help="Dialogues run to time local stages; 0 asks nobody.")] = 6,
    seed: Seed = 0,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Before anything is spent: dialogues an axis, questions a component, tokens, time; writes plan.json.

    Takes the options of attribute. Remote stages are never asked. With --pilot and a finished run, tells what
    disparity it could have shown, and with --detect how many dialogues another one takes.
    """
    if detect is not None and pilot is None:
        raise TodBiasError("--detect needs --pilot: a finished run whose spread tells how many dialogues it takes")
    if pilot is not None:
        others = set(context.params) - {"pilot", "detect", "quiet", "seed", "out"}
        unused(context, "--pilot is a finished run, of which nothing is asked again; leave it out", *others)
        show_power(pilot, detect, quiet, out)
        return
    check_datapath(context)
    check_design(context, design.value)
    chosen("--axes", axes)
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.sampling import sample as sampled

    whole = load_corpus(corpus, datapath=datapath, split=split.value)
    out = check_folder(out, corpus)
    generation = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "dtype": dtype, "backend": backend}
    models = (model, api_call_model, response_model)
    check_pipeline_of(corpus, pipeline, models, device, generation)
    perturbers = perturbers_of(
        axes, lexicon, introductions, protected=protect or (), model=perturber, device=device, name_slots=name_slots
    )
    system = pipeline_of(corpus, pipeline, models, whole, device, generation)
    dialogues = sampled(whole, max_dialogues, seed)
    folder = folder_of(out, corpus)
    told: dict[str, Any] = {"design": design.value, "draws": draws, "seed": seed, "tellings": tellings}
    show_plan(
        system,
        dialogues,
        perturbers,
        folder,
        quiet,
        history=history.value,
        max_per_axis=max_per_axis,
        sample_size=sample,
        **told,
    )


def show_plan(
    system: Any,
    dialogues: Sequence[Any],
    perturbers: Sequence[Any],
    folder: Path,
    quiet: bool,
    **options: Any,
) -> None:
    """Make a plan with the options of :func:`tod_bias.studies.plan.plan`, write it, and print it as a table."""
    from tod_bias.studies import plan as plans

    result = plans.plan(system, dialogues, perturbers, **options)
    path = result.save(folder)
    if quiet:
        return
    Console().print(plans.table(result))
    for reason in result["left_out"].values():
        echo(f"({reason})", err=True)
    if result["seconds"] is not None:
        typer.echo(f"About {result['seconds']:,.0f} s, by a sample of dialogues; a bigger run shares more questions.")
    typer.echo(f"Results: {shown(path)}")


def show_power(pilot: Path, detect: float | None, quiet: bool, out: Path | None) -> None:
    """What a finished run could have shown, and what it takes to show a given disparity; in a file where asked for."""
    from tod_bias.files import write_json
    from tod_bias.folder import claimed
    from tod_bias.results import AuditResult
    from tod_bias.studies import pilot as pilots

    rows = pilots.power(AuditResult.load(pilot), detect)
    path = None if out is None else claimed(out) / "power.json"
    if path is not None:
        write_json(path, pilots.to_json(rows, detect))
    if quiet:
        return
    Console().print(pilots.table(rows, detect))
    if path is not None:
        typer.echo(f"Results: {shown(path)}")
