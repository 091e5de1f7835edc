"""The ``tod-bias`` command. It reads options, calls the library, prints; the work is elsewhere.

Exit codes: 0, the result is complete; 2, something the user gave cannot be used (one line says what, and what to do);
130, interrupted.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tod_bias.errors import IncompleteError, TodBiasError, shortened
from tod_bias.files import write_lines
from tod_bias.folder import writable
from tod_bias.options import (
    Arch,
    AxisLexicons,
    Beams,
    Bootstrap,
    CallModel,
    Corpus,
    Datapath,
    Device,
    History,
    HistoryOption,
    Lexicon,
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
from tod_bias.processes import is_first_process
from tod_bias.recommenders.embeddings.command import associate
from tod_bias.recommenders.lmrec.cli import app as recommend

app = typer.Typer(
    name="tod-bias",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Finds which component of a modular task-oriented dialogue system treats people differently.",
)
app.add_typer(associate, name="associate")
app.add_typer(recommend, name="recommend")
# typer carries its own copy of click and exports the leaves of its exceptions only.
_kinds = typer.BadParameter.__mro__
_CommandLineError: type[Exception] = next(kind for kind in _kinds if kind.__name__ == "ClickException")
CACHE = "generations.sqlite"
"""The file in a run's folder that holds what its models generated."""


@app.command()
def attribute(
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    split: SplitOption = Split.test,
    max_dialogues: MaxDialogues = None,
    axes: Annotated[str, typer.Option(help="Axes, joined by commas.")] = "gender,age,race,placebo",
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
    metric: Annotated[str, typer.Option(help="corpus_bleu (sacreBLEU) or sentence_bleu (ParlAI's).")] = "corpus_bleu",
    bootstrap: Bootstrap = 1000,
    permutations: Annotated[int, typer.Option(min=0, help="Permutations of the test; 0 for none.")] = 10_000,
    device: Device = None,
    num_beams: Beams = None,
    max_new_tokens: NewTokens = None,
    dtype: Precision = None,
    seed: Seed = 0,
    out: Out = None,
    resume: Resume = True,
    quiet: Quiet = False,
) -> None:
    """Attribute a system's bias to its stages: the main job.

    Runs the pipeline on dialogues and on their demographic rewrites, swaps one stage at a time for its equivariant
    twin, and writes results.json, turns.parquet, figures and report.html. Without options it audits the bundled demo.
    """
    from tod_bias.corpus import load_corpus

    whole = load_corpus(corpus, datapath=datapath, split=split.value)
    dialogues = whole[:max_dialogues]

    import tod_bias.attribution  # heavy imports come after what may go wrong at once

    perturbers = _perturbers(axes, lexicon, protected=protect or (), model=perturber, device=device)
    generation = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "dtype": dtype}
    system = _pipeline(corpus, pipeline, (model, api_call_model, response_model), whole, device, generation)
    folder = _folder(out, corpus)
    incomplete: IncompleteError | None = None
    try:
        result = tod_bias.attribution.attribute(
            system,
            dialogues,
            axes=perturbers,
            draws=draws,
            seed=seed,
            bootstrap=bootstrap,
            order=_names(order) if order is not None else None,
            history=history.value,
            metric=metric,
            permutations=permutations,
            max_per_axis=max_per_axis,
            corpus={"name": corpus, "split": split.value},
            cache=_cache(folder, resume),
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


@app.command()
def evaluate(
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    split: SplitOption = Split.test,
    max_dialogues: MaxDialogues = None,
    pipeline: PipelineOption = None,
    model: Model = None,
    api_call_model: CallModel = None,
    response_model: ResponseModel = None,
    history: HistoryOption = History.gold,
    bootstrap: Bootstrap = 1000,
    device: Device = None,
    num_beams: Beams = None,
    max_new_tokens: NewTokens = None,
    dtype: Precision = None,
    seed: Seed = 0,
    out: Out = None,
    resume: Resume = True,
    quiet: Quiet = False,
) -> None:
    """Joint goal accuracy and BLEU of a pipeline on a corpus (Su Table 1); writes evaluation.json."""
    from tod_bias.corpus import load_corpus

    whole = load_corpus(corpus, datapath=datapath, split=split.value)
    dialogues = whole[:max_dialogues]

    import tod_bias.evaluation  # heavy imports come after what may go wrong at once

    generation = {"num_beams": num_beams, "max_new_tokens": max_new_tokens, "dtype": dtype}
    system = _pipeline(corpus, pipeline, (model, api_call_model, response_model), whole, device, generation)
    folder = _folder(out, corpus)
    result = tod_bias.evaluation.evaluate(
        system,
        dialogues,
        history=history.value,
        bootstrap=bootstrap,
        seed=seed,
        corpus={"name": corpus, "split": split.value},
        cache=_cache(folder, resume),
        show_progress=not quiet,
    )
    if not is_first_process():
        return
    result.save(folder)
    if not quiet:
        Console().print(tod_bias.evaluation.table(result))
        typer.echo(f"Results: {folder / 'evaluation.json'}")


@app.command()
def train(
    arch: Annotated[Arch, typer.Option(help="gpt2 (causal), bart or t5 (sequence to sequence).")],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    init: Annotated[str, typer.Option(help="A checkpoint's name or folder to fine-tune, or 'scratch'.")] = "scratch",
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    max_dialogues: MaxDialogues = None,
    held_out: Annotated[int, typer.Option(min=1, help="Training dialogues held out for early stopping.")] = 100,
    parts: Annotated[str, typer.Option(help="Targets: api_call, response or both, by commas.")] = "api_call,response",
    loss: Annotated[str, typer.Option(help="gpt2: 'all' tokens count (SimpleTOD) or 'targets' only.")] = "all",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the dialogues at the most.")] = 3,
    learning_rate: Annotated[float | None, typer.Option(help="Peak; 1e-3 from scratch, else 5e-5.")] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens in a batch at the most.")] = 8192,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Stop after so many steps of the schedule.")] = None,
    evaluations: Annotated[int, typer.Option(min=1, help="Validations an epoch.")] = 2,
    patience: Annotated[int, typer.Option(min=1, help="Stop after so many without improvement.")] = 3,
    layers: Annotated[int, typer.Option(min=1, help="From scratch: layers.")] = 4,
    width: Annotated[int, typer.Option(min=1, help="From scratch: hidden size.")] = 256,
    heads: Annotated[int, typer.Option(min=1, help="From scratch: attention heads.")] = 4,
    vocabulary: Annotated[int, typer.Option(min=300, help="From scratch: tokens of the tokenizer.")] = 8192,
    dropout: Annotated[float, typer.Option(min=0, max=0.9, help="From scratch: dropout.")] = 0.1,
    max_length: Annotated[int, typer.Option(min=16, help="Tokens in a sequence at the most.")] = 1024,
    positions: Annotated[
        int | None, typer.Option(min=16, help="From scratch: positions of the model, if more than --max-length.")
    ] = None,
    bf16: Annotated[bool, typer.Option(help="Train in bfloat16.")] = False,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted training in the same folder.")] = True,
    quiet: Quiet = False,
) -> None:
    """Train or fine-tune a stage model in SimpleTOD fashion, on the training split of a corpus."""
    from tod_bias.corpus import load_corpus

    dialogues = load_corpus(corpus, datapath=datapath, split="train", max_dialogues=max_dialogues)

    from tod_bias.training import TrainingSettings, hold_out
    from tod_bias.training import train as train_model

    usual = 1e-3 if init == "scratch" else 5e-5
    settings = TrainingSettings(
        arch=arch.value,
        init=init,
        parts=tuple(_names(parts)),  # type: ignore[arg-type]  # checked there
        loss=loss,  # type: ignore[arg-type]  # checked there
        epochs=epochs,
        learning_rate=usual if learning_rate is None else learning_rate,
        batch_tokens=batch_tokens,
        max_length=max_length,
        max_steps=max_steps,
        evaluations=evaluations,
        patience=patience,
        bf16=bf16,
        seed=seed,
        vocabulary=vocabulary,
        layers=layers,
        width=width,
        heads=heads,
        dropout=dropout,
        positions=positions,
    )
    kept, validation = hold_out(dialogues, held_out, seed)
    record = train_model(kept, validation, out, settings, resume=resume, show_progress=not quiet)
    if not quiet:
        typer.echo(
            f"Trained {record['steps']} steps; lowest validation loss {record['validation_loss']:.4f} nats a token "
            f"at step {record['best_step']}. Model: {out}"
        )


@app.command()
def perturb(
    file: Annotated[Path | None, typer.Argument(help="Text, a line each; standard input if not given.")] = None,
    axis: Annotated[str, typer.Option(help="gender, age, race, placebo or another axis.")] = "gender",
    source: Annotated[str | None, typer.Option(help="Attribute whose words are rewritten.")] = None,
    target: Annotated[str | None, typer.Option(help="Attribute they are rewritten to.")] = None,
    scope: Annotated[
        str | None, typer.Option(help="With --corpus: all words of the source 'attribute', or the drawn 'word' only.")
    ] = None,
    lexicon: Lexicon = None,
    protect: Protect = None,
    perturber: PerturberOption = None,
    corpus: Annotated[str | None, typer.Option(help="Rewrite whole dialogues of this corpus (Algorithm 1).")] = None,
    datapath: Datapath = None,
    split: SplitOption = Split.test,
    max_dialogues: MaxDialogues = None,
    draws: Annotated[int, typer.Option(min=1, help="With --corpus: rewrites drawn a dialogue.")] = 1,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="With --corpus: dialogues as JSON lines, as always.")] = False,
    device: Device = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="File (lines) or folder (--corpus); else standard output.")] = None,
    quiet: Quiet = False,
) -> None:
    """Rewrite text along a demographic axis, a line in, a line out; or whole dialogues by Algorithm 1."""
    from tod_bias.dialogue import json_line
    from tod_bias.perturb.algorithm import draw_candidates, load_perturber, rewrites_of, text_rewriter

    options: dict[str, Any] = {"lexicon": lexicon, "protected": protect or ()}
    if corpus is None:
        if source is None or target is None:
            raise TodBiasError("give --source and --target, e.g. --axis gender --source woman --target man")
        if scope is not None:
            raise TodBiasError("--scope goes with --corpus; a line of text is rewritten as a whole")
        if perturber is None:
            rewrite = text_rewriter(axis, source, target, **options)
            _write((rewrite(line) for line in _lines(file)), out)
            return
        by_model = load_perturber(axis, model=perturber, device=device, **options)
        by_model.lexicon.pair(source, target)  # before the text is read
        _write(iter(by_model.rewrite_texts(list(_lines(file)), source, target)), out)
        _tell_counts(by_model, quiet)
        return
    if file is not None:
        raise TodBiasError("--corpus names the dialogues: leave out FILE")
    rewriter = load_perturber(
        axis,
        scope=scope,
        sources=[source] if source else None,
        targets=[target] if target else None,
        model=perturber,
        device=device,
        **options,
    )
    from tod_bias.corpus import load_corpus

    dialogues = load_corpus(corpus, datapath=datapath, split=split.value, max_dialogues=max_dialogues)
    drawn = [(dialogue, draw_candidates(rewriter, dialogue, draws, seed)) for dialogue in dialogues]

    def rewritten() -> Iterator[str]:
        for (dialogue, _), rewrites in zip(drawn, rewrites_of(rewriter, drawn), strict=True):
            for number, change in enumerate(rewrites):
                record = change(dialogue).to_json() | {"id": f"{dialogue.id}#{axis}{number}"}
                yield json_line(record)

    _write(rewritten(), out / "dialogues.jsonl" if out else None)
    if not quiet:
        left_out = sum(not candidates for _, candidates in drawn)
        message = f"{len(dialogues)} dialogues read, {left_out} without a word to rewrite on axis {axis} left out"
        typer.echo(message, err=True)
    _tell_counts(rewriter, quiet)


@app.command()
def words(
    corpus: Corpus = "demo",
    datapath: Datapath = None,
    split: SplitOption = Split.test,
    max_dialogues: MaxDialogues = None,
    axes: Annotated[str, typer.Option(help="Axes, joined by commas.")] = "gender,age,race",
    lexicon: AxisLexicons = None,
    protect: Protect = None,
    bootstrap: Bootstrap = 1000,
    seed: Seed = 0,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Share of words and dialogues that mention each attribute, speaker by speaker (Su Fig. 2)."""
    from tod_bias.corpus import load_corpus

    perturbers = _perturbers(axes, lexicon, protected=protect or ())
    dialogues = load_corpus(corpus, datapath=datapath, split=split.value, max_dialogues=max_dialogues)
    folder = _folder(out, corpus)

    import tod_bias.words  # heavy imports come after what may go wrong at once

    about = {"name": corpus, "split": split.value}
    result = tod_bias.words.word_statistics(dialogues, perturbers, bootstrap=bootstrap, seed=seed, corpus=about)
    result.save(folder)
    if not quiet:
        Console().print(tod_bias.words.table(result))
        typer.echo(f"Results: {folder / 'words.csv'}   Figure: {folder / 'figures' / 'words.svg'}")


def _tell_counts(perturber: Any, quiet: bool) -> None:
    counts = getattr(perturber, "counts", None)
    if counts is not None and not quiet:
        message = f"{counts['by_model']} of {counts['texts']} texts with a mention rewritten by the model, the others "
        typer.echo(message + "by the lexicon (see perturb/README.md)", err=True)


def _lines(file: Path | None) -> Iterator[str]:
    if file is None:
        try:
            yield from sys.stdin
        except (OSError, UnicodeDecodeError) as error:
            raise TodBiasError(f"standard input: cannot be read: {error}") from error
        return
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            yield from stream
    except (OSError, UnicodeDecodeError) as error:
        raise TodBiasError(f"{file}: cannot be read: {error}") from error


def _write(lines: Iterator[str], path: Path | None) -> None:
    if path is None:
        for line in lines:
            sys.stdout.write(line)
        return
    first = list(islice(lines, 1))  # what cannot be read is found before anything is made
    if not path.exists():
        writable(path.parent)
    write_lines(path, chain(first, lines))


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders that hold a results.json.")],
    out: Annotated[Path | None, typer.Option(help="Folder for report.html; by default the first one's.")] = None,
    seed: Annotated[int, typer.Option(hidden=True, help="Nothing is drawn here.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Rebuild report.html from run folders; several are compared side by side."""
    from tod_bias.report.html import write_report

    page = write_report(folders, out)
    if not quiet:
        typer.echo(f"Report: {page}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _perturbers(axes: str, lexicons: Sequence[str] | None, **options: Any) -> list[Any]:
    from tod_bias.perturb.algorithm import load_perturber

    names = _names(axes)
    files: dict[str, str] = {}
    for text in lexicons or ():
        axis, equals, file = text.partition("=")
        if not (equals and file) or axis not in names:
            raise TodBiasError(f"--lexicon {text}: expected AXIS=FILE, with one of --axes {axes}")
        if axis in files:
            raise TodBiasError(f"--lexicon {text}: axis {axis} has a lexicon already, {files[axis]}")
        files[axis] = file
    return [load_perturber(axis, lexicon=files.get(axis), **options) for axis in names]


def _folder(out: Path | None, corpus: str) -> Path:
    return writable(out or Path("runs") / Path(corpus).stem)


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


def _cache(folder: Path, resume: bool) -> Path:
    if not resume:
        from tod_bias.processes import process_state

        if is_first_process():
            for file in folder.glob(f"{CACHE}*"):
                file.unlink()
        process_state().wait_for_everyone()
    return folder / CACHE


def _pipeline(
    corpus: str,
    spec: str | None,
    models: Sequence[str | None],
    dialogues: Sequence[Any],
    device: str | None,
    generation: dict[str, Any],
) -> Any:
    from tod_bias.configuration import load_pipeline

    model, api_call_model, response_model = models
    if spec is None and not any(models) and corpus == "demo":
        spec = "demo"
    return load_pipeline(
        spec,
        dialogues=dialogues,
        model=model,
        api_call_model=api_call_model,
        response_model=response_model,
        device=device,
        generation=generation,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; ends the process."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    # Libraries warn of what their own next versions will change; that is for us to read in the tests.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        given = ["--help"]  # the command alone asks what it can do; that is no error
    try:
        code = app(args=given, prog_name="tod-bias", standalone_mode=False)
    except (TodBiasError, _CommandLineError) as error:
        text = str(error) if isinstance(error, TodBiasError) else error.format_message()  # type: ignore[attr-defined]
        if is_first_process():
            sys.stderr.write(f"tod-bias: error: {shortened(text)}\n")
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("tod-bias: interrupted; run the same command again to go on\n")
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
