"""``tod-bias attribute``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tod_bias.cli.arguments import answers_of, folder_of, names_of, perturbers_of, pipeline_of
from tod_bias.cli.options import (
    AxisLexicons,
    Beams,
    Bootstrap,
    CallModel,
    Corpus,
    Datapath,
    Device,
    History,
    HistoryOption,
    MaxDialogues,
    Model,
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
)
from tod_bias.cli.plan import show_plan
from tod_bias.errors import IncompleteError, TodBiasError
from tod_bias.models.processes import is_first_process


def attribute(
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    split: SplitOption = Split.test,
    max_dialogues: MaxDialogues = None,
    axes: Annotated[
        str, typer.Option(help="Axes, joined by commas; your own as module:name.")
    ] = "gender,age,race,placebo",
    draws: Annotated[int, typer.Option(min=1, help="Rewrites drawn a dialogue (Su, Algorithm 1).")] = 3,
    max_per_axis: Annotated[int | None, typer.Option(min=1, help="Rewrite so many dialogues an axis at most.")] = None,
    perturber: PerturberOption = None,
    lexicon: AxisLexicons = None,
    protect: Protect = None,
    pipeline: PipelineOption = None,
    model: Model = None,
    api_call_model: CallModel = None,
    response_model: ResponseModel = None,
    order: Annotated[str | None, typer.Option(help="Stages in the order of Su's attribution, by commas.")] = None,
    history: HistoryOption = History.gold,
    metric: Annotated[
        str, typer.Option(help="corpus_bleu (sacreBLEU), sentence_bleu (ParlAI's) or module:Class.")
    ] = "corpus_bleu",
    bootstrap: Bootstrap = 1000,
    permutations: Annotated[int, typer.Option(min=0, help="Permutations of the test; 0 for none.")] = 10_000,
    device: Device = None,
    num_beams: Beams = None,
    max_new_tokens: NewTokens = None,
    dtype: Precision = None,
    seed: Seed = 0,
    out: Out = None,
    resume: Resume = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be asked, and how long it takes (tod-bias plan).")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Attribute a system's bias to its stages: the main job.

    Runs the pipeline on dialogues and on their demographic rewrites, swaps one stage at a time for its equivariant
    twin, and writes results.json, turns.parquet, figures and report.html. Without options it audits the bundled demo.
    """
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.sampling import sample

    whole = load_corpus(corpus, datapath=datapath, split=split.value)
    dialogues = sample(whole, max_dialogues, seed)

    import tod_bias.studies.attribution  # heavy imports come after what may go wrong at once

    perturbers = perturbers_of(axes, lexicon, protected=protect or (), model=perturber, device=device)
    generation = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "dtype": dtype}
    system = pipeline_of(corpus, pipeline, (model, api_call_model, response_model), whole, device, generation)
    folder = folder_of(out, corpus)
    if dry_run:
        show_plan(system, dialogues, perturbers, folder, draws, seed, history.value, max_per_axis, quiet)
        return
    incomplete: IncompleteError | None = None
    try:
        result = tod_bias.studies.attribution.attribute(
            system,
            dialogues,
            axes=perturbers,
            draws=draws,
            seed=seed,
            bootstrap=bootstrap,
            order=names_of(order) if order is not None else None,
            history=history.value,
            metric=metric,
            permutations=permutations,
            max_per_axis=max_per_axis,
            corpus={"name": corpus, "split": split.value},
            cache=answers_of(folder, resume),
            show_progress=not quiet,
        )
    except IncompleteError as error:
        result, incomplete = error.result, error
    if not is_first_process():
        return
    from tod_bias.report.html import write_report
    from tod_bias.report.terminal import table

    replaced = _replaced(folder, result)
    result.save(folder)
    page = write_report([folder])
    if not quiet:
        Console().print(table(result))
        typer.echo(f"Results: {folder / 'results.json'}   Report: {page}")
        if replaced:
            typer.echo(f"(they replace those of another run, on {replaced}; --out keeps runs apart)", err=True)
    if incomplete is not None:
        raise TodBiasError(f"{incomplete} (the other axes are in {folder / 'results.json'})") from incomplete


def _replaced(folder: Path, result: Any) -> str:
    """The axes of another run's results that lie in a folder; empty where there are none, or those of this run."""
    from tod_bias.report.record import RunError, read_results

    try:
        old = read_results(folder)
    except RunError:
        return ""
    facts = ("corpus", "pipeline", "draws", "seed", "history", "metric", "signature")
    new = json.loads(json.dumps({name: result[name] for name in facts}))
    same = all(old.get(name) == new[name] for name in facts) and set(old["axes"]) == set(result["axes"])
    return "" if same else ", ".join(old["axes"])
