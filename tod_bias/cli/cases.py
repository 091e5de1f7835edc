"""``tod-bias cases``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.cli.arguments import GENERATION, axes_of, check_seed, names_of, perturbers_of, pipeline_of, unused
from tod_bias.cli.options import (
    AxisLexicons,
    BackEnd,
    Beams,
    CallModel,
    Datapath,
    Device,
    Introductions,
    Model,
    NameSlots,
    NewTokens,
    PerturberOption,
    PipelineOption,
    Precision,
    Protect,
    Quiet,
    ResponseModel,
)
from tod_bias.report.console import Console, echo


def cases(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run's folder.")],
    worst: Annotated[int, typer.Option(min=1, help="So many cases, every axis its share.")] = 50,
    out: Annotated[Path, typer.Option(help="The file (JSON lines).")] = Path("cases.jsonl"),
    axes: Annotated[str | None, typer.Option(help="Axes, joined by commas; by default all but the placebo.")] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            "--metrics",
            help="Says what is harm, by name or as module:Class; by default the run's first that has a better side.",
        ),
    ] = None,
    component: Annotated[str | None, typer.Option(help="Only harm that enters at this component.")] = None,
    corpus: Annotated[
        str | None, typer.Option(help="The run's corpus, where it lies elsewhere than the run says.")
    ] = None,
    datapath: Datapath = None,
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
    seed: Annotated[int | None, typer.Option(hidden=True, help="The run's own is taken.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write the dialogues that are served worst as regression cases, for tod-bias check --cases and pytest --tod-bias.

    One turn of one telling of a dialogue each, by the component that the harm enters at; a case needs no corpus and no
    run. With the run's --pipeline (or --model) each is cut down to the turns it takes (what the run was answered is
    not asked again); without one all turns up to the marked one stay.
    """
    if not any((pipeline, model, api_call_model, response_model)):
        unused(context, "for a system that is run; give --pipeline or --model, or leave it out", *GENERATION)
    from tod_bias.folder import unwritten
    from tod_bias.report.record import read_whole

    unwritten(run)
    results = read_whole(run)
    check_seed(seed, results)
    from tod_bias.answers import FILE, Answers  # heavy imports come after what may go wrong at once
    from tod_bias.audit.choices import metrics_of
    from tod_bias.audit.signatures import generators_of
    from tod_bias.dialogues.corpora import check_shipped, load_corpus
    from tod_bias.dialogues.sampling import sample
    from tod_bias.report import cases as pages
    from tod_bias.studies.case_runs import Questioning
    from tod_bias.studies.cases import check_replaced, write_cases
    from tod_bias.studies.cases import perturbers_of as made_by
    from tod_bias.studies.minimising import minimised
    from tod_bias.studies.worst import worst_cases

    check_replaced(out)
    about = results["corpus"]
    name = corpus or str(about["name"])
    if corpus is None:
        check_shipped(name, str(run))
    whole = load_corpus(name, datapath=datapath, split=about["split"] or "test")
    dialogues = sample(whole, about["dialogues"], results["seed"])
    names = axes_of(run, results, axes)
    options = {"protected": protect or (), "model": perturber, "device": device, "name_slots": name_slots}
    told_by = perturbers_of(names, lexicon, introductions, **options)
    files = dict(text.split("=", 1) for text in lexicon or ())
    found = worst_cases(
        run,
        dialogues,
        most=worst,
        axes=told_by,
        metric=metric,
        component=component,
        options={
            one.axis: {
                "axis": given,
                "lexicon": files.get(given),
                "protected": list(protect or ()) or None,
                "name_slots": None if name_slots is None else str(name_slots),
                "model": perturber,
                "introductions": sorted(getattr(one, "kinds", ())) or None if introductions else None,
            }
            for given, one in zip(names_of(names), told_by, strict=True)
        },
    )
    chosen = list(found.cases)
    strange: list[Any] = []
    is_asked = chosen and any((pipeline, model, api_call_model, response_model))
    if is_asked:
        generation = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "dtype": dtype, "backend": backend}
        models = (model, api_call_model, response_model)
        system = pipeline_of(name, pipeline, models, whole, device, generation)
        answers = Answers(run / FILE)
        for generator in generators_of(system):
            generator.keep_in(answers)
        scored = metrics_of([metric or chosen[0].metric])[0]
        history: Any = chosen[0].history
        ask = Questioning(system, scored, history, answers, show_progress=not quiet)
        chosen, strange = minimised(chosen, ask, made_by(chosen, {one.axis: one for one in told_by}))
    write_cases(chosen, out)
    if quiet:
        return
    if chosen:
        Console().print(pages.written([case.to_json() for case in chosen]))
    for text in _notes(found, bool(is_asked), strange):
        echo(text)
    typer.echo(f"{len(chosen)} case{'s' * (len(chosen) != 1)}: {out}")


def _notes(found: Any, is_asked: bool, strange: list[Any]) -> list[str]:
    said = []
    for axis, number in found.left_out.items():
        said.append(f"axis {axis}: {number} left out, as a file cannot hold how they are told")
    if found.cases and not is_asked:
        said.append("not minimised: give the run's --pipeline (or --model) to cut earlier turns that are not needed")
    if strange:
        said.append(
            f"{len(strange)} not minimised: this system does not show the run's harm in them, for instance "
            f"{strange[0].id}"
        )
    return said
