"""``tod-bias plan``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tod_bias.cli.arguments import folder_of, perturbers_of, pipeline_of
from tod_bias.cli.options import (
    AxisLexicons,
    Beams,
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
    Seed,
    Split,
    SplitOption,
)


def plan(
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
    history: HistoryOption = History.gold,
    device: Device = None,
    num_beams: Beams = None,
    max_new_tokens: NewTokens = None,
    dtype: Precision = None,
    sample: Annotated[int, typer.Option(min=0, help="Dialogues run to time local stages; 0 asks nobody.")] = 6,
    seed: Seed = 0,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Before anything is spent: dialogues an axis, questions a component, tokens, time; writes plan.json.

    Takes the options of attribute. Remote stages are never asked.
    """
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.sampling import sample as sampled

    whole = load_corpus(corpus, datapath=datapath, split=split.value)
    perturbers = perturbers_of(axes, lexicon, protected=protect or (), model=perturber, device=device)
    generation = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "dtype": dtype}
    system = pipeline_of(corpus, pipeline, (model, api_call_model, response_model), whole, device, generation)
    dialogues = sampled(whole, max_dialogues, seed)
    folder = folder_of(out, corpus)
    show_plan(system, dialogues, perturbers, folder, draws, seed, history.value, max_per_axis, quiet, sample)


def show_plan(
    system: Any,
    dialogues: Sequence[Any],
    perturbers: Sequence[Any],
    folder: Path,
    draws: int,
    seed: int,
    history: Any,
    max_per_axis: int | None,
    quiet: bool,
    sample: int = 6,
) -> None:
    """Make a plan, write it, and print it as a table."""
    from tod_bias.studies import plan as plans

    result = plans.plan(
        system, dialogues, perturbers, draws, seed, history=history, max_per_axis=max_per_axis, sample_size=sample
    )
    path = result.save(folder)
    if quiet:
        return
    Console().print(plans.table(result))
    for reason in result["left_out"].values():
        typer.echo(f"({reason})", err=True)
    if result["seconds"] is not None:
        typer.echo(f"About {result['seconds']:,.0f} s, by a sample of dialogues; a bigger run shares more questions.")
    typer.echo(f"Results: {path}")
