"""``tod-bias cases``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.cli.arguments import (
    GENERATION,
    axes_made,
    axes_of,
    check_seed,
    config_of,
    names_of,
    own_metric,
    pipeline_of,
    system_of,
    unused,
)
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
    run. Each is cut down to the turns it takes by the run's pipeline or models, where the run is your own or they are
    given (what the run was answered is not asked again); else all turns up to the marked one stay.
    """
    config = config_of(
        run,
        corpus=corpus,
        datapath=datapath,
        axes=axes,
        introductions=introductions,
        name_slots=name_slots,
        perturber=perturber,
        lexicon=lexicon,
        protect=protect,
        metrics=metric,
        **system_of(pipeline, model, api_call_model, response_model, device, num_beams, max_new_tokens, dtype, backend),
    )
    if not config.system.is_named:
        unused(context, "for a system that is run; give --pipeline or --model, or leave it out", *GENERATION)
    from tod_bias.folder import unwritten
    from tod_bias.results import AuditResult

    unwritten(run)
    result = AuditResult.load(run)
    check_seed(seed, result)
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
    about, how = result.corpus, config.axes
    name = config.corpus.corpus if config.corpus.has_own("corpus") else about.name
    if not config.corpus.has_own("corpus"):
        check_shipped(name, str(run))
    whole = load_corpus(name, datapath=config.corpus.datapath, split=about.split or "test")
    dialogues = sample(whole, about.dialogues, result.config.seed)
    names = axes_of(run, result, axes, config)
    told_by = axes_made(names, config)
    files = dict(text.split("=", 1) for text in how.lexicon)
    metric = own_metric(config)
    found = worst_cases(
        run,
        dialogues,
        most=worst,
        axes=told_by,
        metric=metric,
        component=component,
        options={
            one.name: {
                "axis": given,
                "lexicon": files.get(given),
                "protected": list(how.protect) or None,
                "name_slots": None if how.name_slots is None else str(how.name_slots),
                "model": how.perturber,
                "introductions": sorted(one.kinds) or None if how.introductions else None,
            }
            for given, one in zip(names_of(names), told_by, strict=True)
        },
    )
    chosen = list(found.cases)
    strange: list[Any] = []
    system_options = config.system
    is_asked = chosen and system_options.is_named
    if is_asked:
        system = pipeline_of(
            name,
            system_options.pipeline,
            system_options.models,
            whole,
            system_options.device,
            system_options.generation,
        )
        answers = Answers(run / FILE)
        for generator in generators_of(system):
            generator.keep_in(answers)
        scored = metrics_of([metric or chosen[0].metric])[0]
        history: Any = chosen[0].history
        ask = Questioning(system, scored, history, answers, show_progress=not quiet)
        chosen, strange = minimised(chosen, ask, made_by(chosen, {one.name: one for one in told_by}))
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
