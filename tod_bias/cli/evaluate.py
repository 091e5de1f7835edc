"""``tod-bias evaluate``."""

from __future__ import annotations

from typing import Annotated

import typer

from tod_bias.cli.arguments import (
    answers_of,
    check_datapath,
    check_folder,
    check_metrics,
    check_pipeline_of,
    folder_of,
    names_of,
    pipeline_of,
)
from tod_bias.cli.options import (
    BackEnd,
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
    PipelineOption,
    Precision,
    Quiet,
    ResponseModel,
    Resume,
    Seed,
    Split,
    SplitOption,
)
from tod_bias.folder import shown
from tod_bias.metrics.names import COUNTERFACTUAL, METRIC_NAMES
from tod_bias.models.processes import is_first_process
from tod_bias.report.console import Console

ALONE = tuple(name for name in METRIC_NAMES if name not in COUNTERFACTUAL)


def evaluate(
    context: typer.Context,
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    split: SplitOption = Split.test,
    max_dialogues: MaxDialogues = None,
    pipeline: PipelineOption = None,
    model: Model = None,
    api_call_model: CallModel = None,
    response_model: ResponseModel = None,
    history: HistoryOption = History.gold,
    metrics: Annotated[
        str, typer.Option(help=f"Beside joint goal accuracy, joined by commas: {', '.join(ALONE)} or module:Class.")
    ] = "corpus_bleu,sentence_bleu",
    bootstrap: Bootstrap = 1000,
    device: Device = None,
    num_beams: Beams = None,
    max_new_tokens: NewTokens = None,
    dtype: Precision = None,
    backend: BackEnd = None,
    seed: Seed = 0,
    out: Out = None,
    resume: Resume = True,
    quiet: Quiet = False,
) -> None:
    """Joint goal accuracy, BLEU and other scores of a pipeline on a corpus (Su Table 1); writes evaluation.json."""
    check_datapath(context)
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.sampling import sample

    whole = load_corpus(corpus, datapath=datapath, split=split.value)
    dialogues = sample(whole, max_dialogues, seed)

    check_metrics(metrics, alone=True)
    out = check_folder(out, corpus)
    generation = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "dtype": dtype, "backend": backend}
    models = (model, api_call_model, response_model)
    check_pipeline_of(corpus, pipeline, models, device, generation)

    import tod_bias.studies.evaluation  # heavy imports come after what may go wrong at once

    system = pipeline_of(corpus, pipeline, models, whole, device, generation)
    folder = folder_of(out, corpus)
    result = tod_bias.studies.evaluation.evaluate(
        system,
        dialogues,
        metrics=names_of(metrics),
        history=history.value,
        bootstrap=bootstrap,
        seed=seed,
        corpus={"name": corpus, "split": split.value},
        cache=answers_of(folder, resume),
        show_progress=not quiet,
    )
    if not is_first_process():
        return
    result.save(folder)
    if not quiet:
        Console().print(tod_bias.studies.evaluation.table(result))
        typer.echo(f"Results: {shown(folder / 'evaluation.json')}")
