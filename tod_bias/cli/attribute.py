"""``tod-bias attribute``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tod_bias.answers import FILE
from tod_bias.cli.arguments import (
    GENERATION,
    answers_of,
    check_access,
    check_datapath,
    check_design,
    check_folder,
    check_metrics,
    check_pipeline_of,
    chosen,
    folder_of,
    names_of,
    perturbers_of,
    pipeline_of,
    spec_of,
    unused,
)
from tod_bias.cli.options import (
    ANSWERS,
    AXES,
    STATISTICS,
    SYSTEM,
    Axes,
    AxisLexicons,
    BackEnd,
    Beams,
    Bootstrap,
    CallModel,
    Cluster,
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
    MaxFailures,
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
    Resume,
    Seed,
    Split,
    SplitOption,
    Tellings,
)
from tod_bias.cli.plan import show_plan
from tod_bias.config import AuditConfig
from tod_bias.errors import IncompleteError, TodBiasError
from tod_bias.folder import check_own, shown
from tod_bias.metrics.names import METRIC_NAMES
from tod_bias.models.processes import is_first_process
from tod_bias.report.console import Console, echo
from tod_bias.statistics.needed import MOST_RESAMPLES

_OF_A_RUN = ("batch_out", "batch_in", "executor", "workers")
"""Parameters that say where questions are asked."""


def attribute(
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
    order: Annotated[
        str | None, typer.Option(help="Stages in the order of Su's attribution, by commas.", rich_help_panel=STATISTICS)
    ] = None,
    history: HistoryOption = History.gold,
    metrics: Annotated[
        str,
        typer.Option(help=f"Joined by commas: {', '.join(METRIC_NAMES)} or module:Class.", rich_help_panel=STATISTICS),
    ] = "corpus_bleu",
    margin: Annotated[
        float | None,
        typer.Option(
            help="Disparities up to this, e.g. 0.05, are equivalent where that is shown.", rich_help_panel=STATISTICS
        ),
    ] = None,
    cluster: Cluster = "",
    bootstrap: Bootstrap = 1000,
    permutations: Annotated[
        int, typer.Option(min=0, max=MOST_RESAMPLES, help="Flips of the tests; 0 for none.", rich_help_panel=STATISTICS)
    ] = 10_000,
    samples: Annotated[
        int,
        typer.Option(
            min=1, help="Answers drawn to each question, where temperature is above 0.", rich_help_panel=STATISTICS
        ),
    ] = 1,
    max_failures: MaxFailures = 0.01,
    allow_unmeasured: Annotated[
        bool,
        typer.Option(
            "--allow-unmeasured",
            help="Exit with 0 also where nothing is measured: no references, equal outputs, tools that never ran.",
            rich_help_panel=STATISTICS,
        ),
    ] = False,
    batch_out: Annotated[
        Path | None,
        typer.Option(
            help="Ask no server: write what must still be asked here, as OpenAI batch files.", rich_help_panel=ANSWERS
        ),
    ] = None,
    batch_in: Annotated[
        list[Path] | None,
        typer.Option(help="Batch output, a file or a folder: all there is. May be repeated.", rich_help_panel=ANSWERS),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="Answers of a system that cannot be run again, to what perturb --axes writes.", rich_help_panel=ANSWERS
        ),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            help="Where components in Python are asked: local, or ray, by the workers of a cluster.",
            rich_help_panel=SYSTEM,
        ),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Workers of --executor ray; by default one for every processor.", rich_help_panel=SYSTEM
        ),
    ] = None,
    device: Device = None,
    num_beams: Beams = None,
    max_new_tokens: NewTokens = None,
    dtype: Precision = None,
    backend: BackEnd = None,
    seed: Seed = 0,
    out: Out = None,
    resume: Resume = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be asked, and how long it takes (tod-bias plan).")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Attribute a system's bias to its components: the main job.

    Tells every dialogue as everybody it can be told as, runs the system on all tellings with every set of components
    swapped for equivariant twins, and writes results.json, turns.parquet, figures and report.html. Without options it
    audits the bundled demo.
    """
    if answers is not None:
        why = "no system is asked where its --answers are given; leave it out"
        unused(context, why, *(() if perturber else ("device",)), *GENERATION, "history", *_OF_A_RUN, "dry_run")
    if dry_run:
        unused(context, "of a run, which --dry-run is not; leave it out", *_OF_A_RUN, "samples")
    check_datapath(context)
    check_design(context, design.value)
    check_metrics(metrics)
    from tod_bias.audit.batches import check_asks_server
    from tod_bias.audit.choices import checked_order, clusters_of
    from tod_bias.audit.cluster import check_executor
    from tod_bias.audit.recorded import SYSTEM as RECORDED

    generation = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "dtype": dtype, "backend": backend}
    models = (model, api_call_model, response_model)
    config = AuditConfig.with_settings(
        None,
        {
            "corpus": corpus,
            "datapath": datapath,
            "split": split.value,
            "max_dialogues": max_dialogues,
            "axes": axes,
            "introductions": introductions,
            "name_slots": name_slots,
            "perturber": perturber,
            "lexicon": lexicon or (),
            "protect": protect or (),
            "pipeline": pipeline if answers else spec_of(corpus, pipeline, models)[0],
            "model": model,
            "api_call_model": api_call_model,
            "response_model": response_model,
            "device": device,
            **generation,
            "design": design.value,
            "draws": draws,
            "variants": tellings,
            "max_per_axis": max_per_axis,
            "history": history.value,
            "samples": samples,
            "max_failures": max_failures,
            "batch_in": batch_in or (),
            "responses": answers,
            "executor": executor,
            "workers": workers,
            "resume": resume,
            "metrics": metrics,
            "order": order,
            "margin": margin,
            "cluster": cluster,
            "bootstrap": bootstrap,
            "permutations": permutations,
            "seed": seed,
            "directory": Path.cwd(),
        },
    )
    check_executor(executor, workers)
    clusters_of(names_of(cluster))
    chosen("--axes", axes)
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.sampling import sample

    whole = load_corpus(corpus, datapath=datapath, split=split.value)
    dialogues = sample(whole, max_dialogues, seed)

    out = check_folder(out, corpus)
    check_own(out, "results.json", "turns.parquet", FILE)
    stages = (RECORDED,) if answers else check_pipeline_of(corpus, pipeline, models, device, generation)
    checked_order(stages, None if order is None else names_of(order))
    perturbers = perturbers_of(
        axes, lexicon, introductions, protected=protect or (), model=perturber, device=device, name_slots=name_slots
    )
    if answers is None:
        system = pipeline_of(corpus, pipeline, models, whole, device, generation)
    else:
        system = _recorded(answers, (pipeline, *models))
    if batch_out is not None or batch_in:
        check_asks_server(system)
    if not dry_run and batch_out is None and batch_in is None:
        check_access(system, out, corpus)
    folder = folder_of(out, corpus)
    if dry_run:
        told = {
            "design": design.value,
            "draws": draws,
            "seed": seed,
            "tellings": tellings,
            "max_per_axis": max_per_axis,
        }
        show_plan(system, dialogues, perturbers, folder, quiet, history=history.value, **told)
        return
    import tod_bias.audit.attribute  # heavy imports come after what may go wrong at once

    incomplete: IncompleteError | None = None
    try:
        result = tod_bias.audit.attribute.attribute(
            system,
            dialogues,
            axes=perturbers,
            config=config,
            batch_out=_batches(folder, batch_out, batch_in),
            cache=answers_of(folder, resume),
            show_progress=not quiet,
        )
    except IncompleteError as error:
        result, incomplete = error.result, error
    if not is_first_process():
        return
    from tod_bias.audit.measured import reasons_in
    from tod_bias.imports import is_import
    from tod_bias.metrics.choice import metric
    from tod_bias.report.html import write_report
    from tod_bias.report.terminal import table

    replaced = _replaced(folder, result)
    result.save(folder)
    page = write_report([folder], metrics=[metric(name) for name in config.analysis.metrics if is_import(name)])
    if not quiet:
        Console().print(table(result))
        typer.echo(f"Results: {shown(folder / 'results.json')}   Report: {page}")
        if replaced:
            echo(f"(they replace those of another run, on {replaced}; --out keeps runs apart)", err=True)
    if (reasons := reasons_in(result)) and not allow_unmeasured:
        raise TodBiasError(f"nothing is measured: {'; '.join(reasons)}; or give --allow-unmeasured")
    if incomplete is not None:
        raise TodBiasError(f"{incomplete} (the other axes are in {shown(folder / 'results.json')})") from incomplete


def _recorded(answers: Path, others: tuple[str | None, ...]) -> Any:
    """The system whose answers lie in a file."""
    from tod_bias.audit.recorded import SYSTEM
    from tod_bias.systems.pipeline import Pipeline
    from tod_bias.systems.stages.recorded import RecordedAnswers

    if any(others):
        raise TodBiasError("--answers stands for the system: leave out --pipeline and --model")
    return Pipeline({SYSTEM: RecordedAnswers(answers)})


_BATCHES = "batches.json"
"""Where a run's batch files go, for the rounds after the first."""


def _batches(folder: Path, out: Path | None, given: list[Path] | None) -> Path | None:
    """Where what must still be asked is written: where it was before, if only answers are given."""
    from tod_bias.documents import check_plain, read_json
    from tod_bias.files import own_folder, write_json

    place = folder / _BATCHES
    if out is not None:
        write_json(place, {"batch_out": str(out.resolve())})
        return out
    if not given:
        return None
    if not place.exists():
        return own_folder(folder, "asked")  # who has answers from elsewhere does not want them asked here
    try:
        check_plain(place)
        found = Path(str(read_json(place)["batch_out"]))
        if not any(found.glob("wave*.jsonl")):  # a folder received names any place
            raise TodBiasError(f"{place}: names {found}, where no batch files of this run lie; give --batch-out")
        return found
    except TodBiasError:
        raise
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise TodBiasError(f"{place}: cannot be read ({error}); give --batch-out") from error


def _replaced(folder: Path, result: Any) -> str:
    """The axes of another run's results that lie in a folder; empty where there are none, or those of this run."""
    from tod_bias.results import AuditResult, RunError

    try:
        old = AuditResult.load(folder)
    except RunError:
        return ""
    is_same = all(
        getattr(old, name) == getattr(result, name) for name in ("corpus", "stages", "metrics", "signature")
    ) and (old.config.design, old.config.seed, set(old.axes)) == (
        result.config.design, result.config.seed, set(result.axes)
    )  # fmt: skip
    return "" if is_same else ", ".join(old.axes)
