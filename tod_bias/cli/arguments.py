"""What several commands make of their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from tod_bias.answers import FILE, forget
from tod_bias.config import DEMO, AuditConfig
from tod_bias.config import FILE as CONFIG
from tod_bias.errors import StageError, TodBiasError, repeated
from tod_bias.folder import claimed, promised
from tod_bias.imports import is_import
from tod_bias.models.processes import is_first_process
from tod_bias.results import AuditResult


def names_of(text: str) -> list[str]:
    """Names that are joined by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def chosen(option: str, text: str) -> list[str]:
    """Names that are joined by commas, each once and at least one.

    Raises:
        TodBiasError: there is none, or one stands twice.
    """
    names = names_of(text)
    if not names:
        raise TodBiasError(f"{option} {text!r}: names nothing; give at least one, or leave it out")
    if doubled := repeated(names):
        raise TodBiasError(f"{option} {text}: {doubled!r} is given twice")
    return names


def given_options(context: typer.Context, *names: str) -> list[str]:
    """The options of these parameters that stand on the command line, as they are written there."""
    given = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name) if parameter.name in names else None
        if source is not None and source.name == "COMMANDLINE":
            given.append(parameter.opts[0])
    return given


def unused(context: typer.Context, why: str, *names: str) -> None:
    """See to it that no option is passed over in silence.

    Args:
        context: of the running command.
        why: what the options would have been for, said after them.
        names: of its parameters.

    Raises:
        TodBiasError: one of them was given on the command line.
    """
    if given := given_options(context, *names):
        raise TodBiasError(f"{', '.join(given)}: {why}")


GENERATION = ("num_beams", "max_new_tokens", "dtype", "backend")
"""Parameters that say how local models decode."""


def perturbers_of(
    axes: str, lexicons: Sequence[str] | None, introductions: str | None = None, **options: Any
) -> list[Any]:
    """The perturbers of axes, with lexicons given as ``AXIS=FILE``, and kinds of introductions joined by commas."""
    from tod_bias.perturb.loading import load_axis

    names = chosen("--axes", axes)
    files: dict[str, str] = {}
    for text in lexicons or ():
        axis, equals, file = text.partition("=")
        if not (equals and file) or axis not in names:
            raise TodBiasError(f"--lexicon {text}: expected AXIS=FILE, with one of --axes {axes}")
        if axis in files:
            raise TodBiasError(f"--lexicon {text}: axis {axis} has a lexicon already, {files[axis]}")
        files[axis] = file
    check_used(names, options)
    kinds = {} if introductions is None else _kinds(names, files, introductions)
    return [load_axis(axis, lexicon=files.get(axis), introductions=kinds.get(axis), **options) for axis in names]


def config_of(run: Path, **given: Any) -> AuditConfig:
    """What a run was asked for, with what is given now in its place: nothing that the run knows is said again.

    Code that a run's folder names (a pipeline's file, axes, metrics and corpora of one's own) is taken only where this
    user wrote the folder on this machine.

    Raises:
        TodBiasError: the folder's configuration cannot be read, or an option cannot be.
    """
    system = given.pop("system", None)
    given = {name: value for name, value in given.items() if value not in (None, (), [], "")}
    path = run / CONFIG
    if not path.is_file():
        return AuditConfig.with_settings(None, given | (system or {}))
    kept = AuditConfig.read(path)
    if not kept.is_own:
        kept = AuditConfig.of({name: getattr(kept, name) for name in ("design", "seed")})
    kept = kept.located()
    if system is not None:
        kept = AuditConfig.of({**{name: getattr(kept, name) for name in kept.model_fields_set}, "system": {}})
    return AuditConfig.with_settings(kept, given | (system or {}))


def system_of(
    pipeline: str | None,
    model: str | None,
    api_call_model: str | None,
    response_model: str | None,
    device: str | None,
    num_beams: int | None,
    max_new_tokens: int | None,
    dtype: str | None,
    backend: str | None,
) -> dict[str, Any]:
    """The options of a system; where one is named, nothing is left of a run's own system."""
    given = {
        "pipeline": pipeline,
        "model": model,
        "api_call_model": api_call_model,
        "response_model": response_model,
        "device": device,
        "num_beams": num_beams,
        "max_new_tokens": max_new_tokens,
        "dtype": dtype,
        "backend": backend,
    }
    return {"system": given} if any((pipeline, model, api_call_model, response_model)) else given


def axes_made(names: str, config: AuditConfig) -> list[Any]:
    """The axes of some names, as a configuration makes them."""
    how = config.axes
    kinds = None if how.introductions is None else ",".join(how.introductions)
    lexicons = [text for text in how.lexicon if text.partition("=")[0] in names_of(names)]
    options: dict[str, Any] = {
        "protected": how.protect, "model": how.perturber, "device": config.system.device, "name_slots": how.name_slots
    }  # fmt: skip
    return perturbers_of(names, lexicons, kinds, **options)


def own_metric(config: AuditConfig) -> str | None:
    """The one metric that is asked for, or the first of one's own; None for a run's first."""
    metrics = config.analysis.metrics
    if not config.analysis.has_own("metrics"):
        return None
    return metrics[0] if len(metrics) == 1 else next((name for name in metrics if is_import(name)), None)


def axes_of(run: Path, result: AuditResult, given: str | None, config: AuditConfig) -> str:
    """The axes that are asked for, or else those of a run, without the placebo and joined by commas.

    Raises:
        AxisError: the run names one that is not shipped, and none are asked for.
    """
    from tod_bias.perturb.loading import PLACEBO, check_shipped, is_own

    if given:
        return given
    if any(map(is_own, config.axes.axes)):  # those of a run of this user's
        return ",".join(name for name in config.axes.axes if is_own(name) or name in {*result.axes} - {PLACEBO})
    names = [axis for axis in result.axes if axis != PLACEBO]
    for name in names:
        for part in name.split(","):
            check_shipped(part, str(run))
    return ",".join(names)


def check_used(axes: Sequence[str], options: Mapping[str, object]) -> None:
    """See to it that the axes use the options of perturbers.

    Raises:
        TodBiasError: none of them uses one that is given.
    """
    from tod_bias.perturb.loading import idle_options

    for name in idle_options(axes, options):
        raise TodBiasError(f"{_OPTIONS[name]}, and the axes are {', '.join(axes)}; leave it out")


_OPTIONS = {
    "name_slots": "--name-slots: for axes of names",
    "introductions": "--introductions: for axes persona_…",
    "model": "--perturber: a model rewrites words, not names, introductions, dialects or the placebo",
}


def _kinds(axes: Sequence[str], files: Mapping[str, str], introductions: str) -> dict[str, list[str]]:
    """Axis to those of the kinds of introductions that it has; an axis that has none of them keeps all of its own.

    Raises:
        TodBiasError: a kind that no axis has.
    """
    from tod_bias.perturb.loading import load_axis

    wanted = names_of(introductions)
    known: dict[str, frozenset[str]] = {
        axis: load_axis(axis, lexicon=files.get(axis)).kinds for axis in axes if "persona_" in axis
    }
    unknown = [kind for kind in wanted if not any(kind in kinds for kinds in known.values())]
    if unknown:
        there = ", ".join(sorted(set().union(*known.values()))) or "none, as no axis is persona_…"
        raise TodBiasError(f"--introductions {introductions}: no axis has {unknown[0]!r}; there are {there}")
    return {axis: some for axis, kinds in known.items() if (some := [kind for kind in wanted if kind in kinds])}


def folder_of(out: Path | None, corpus: str) -> Path:
    """The folder for the results of a run on a corpus; no other run writes into it until this command ends."""
    return claimed(_place(out, corpus))


def check_folder(out: Path | None, corpus: str) -> Path:
    """See to it that there can be such a folder, before anything slow begins; one that is there is held from now on.

    Returns:
        The same folder wherever a component may change to.
    """
    return promised(_place(out, corpus).absolute())


def check_files(*paths: str | Path | None, otherwise: str = "cannot be read") -> None:
    """See to it that files and folders that are to be read are there, before what reads them is loaded.

    Args:
        paths: None for those that are not given.
        otherwise: what is said of one that is not there, before the reason.

    Raises:
        TodBiasError: one is not.
    """
    for path in paths:
        if path is None:
            continue
        try:
            Path(path).stat()
        except (OSError, ValueError) as error:
            raise TodBiasError(f"{path}: {otherwise} ({getattr(error, 'strerror', None) or error})") from error


def _place(out: Path | None, corpus: str) -> Path:
    return out or Path("runs") / Path(corpus).stem


def check_access(pipeline: Any, out: Path | None, corpus: str) -> None:
    """Find what keeps a server from being asked, where no answers are kept yet that may make that needless."""
    if (_place(out, corpus) / FILE).exists():
        return
    for name, stage in pipeline.stages.items():
        if check := getattr(stage, "check_access", None):
            try:
                check()
            except StageError as error:
                raise StageError(f"stage {name!r}: {error}") from error


def answers_of(folder: Path, resume: bool) -> Path:
    """The file that keeps what was answered; emptied where nothing is to be resumed."""
    if not resume:
        from tod_bias.models.processes import process_state

        if is_first_process():
            forget(folder / FILE)
        process_state().wait_for_everyone()
    return folder / FILE


def pipeline_of(
    corpus: str,
    spec: str | None,
    models: Sequence[str | None],
    dialogues: Sequence[Any],
    device: str | None,
    generation: dict[str, Any],
) -> Any:
    """The pipeline that the options name."""

    from tod_bias.systems.configuration import load_pipeline

    spec, named = spec_of(corpus, spec, models)
    return load_pipeline(spec, dialogues=dialogues, device=device, generation=generation, **named)


def check_pipeline_of(
    corpus: str, spec: str | None, models: Sequence[str | None], device: str | None, generation: dict[str, Any]
) -> tuple[str, ...]:
    """Find what is wrong with the options of :func:`pipeline_of` before anything heavy is loaded.

    Returns:
        The names of its components.
    """
    from tod_bias.systems.configuration import check_pipeline
    from tod_bias.systems.pipeline import STANDARD

    spec, named = spec_of(corpus, spec, models)
    file = check_pipeline(spec, device=device, generation=generation, **named)
    return STANDARD if file is None else tuple(file.stages)


def check_seed(seed: int | None, result: AuditResult) -> None:
    """See to it that no other seed than a run's is asked for, as its own is taken."""
    own = result.config.seed
    if seed not in (None, own):
        raise TodBiasError(f"--seed {seed}: the run was made with {own}, which is taken; leave --seed out")


def check_datapath(context: typer.Context) -> None:
    """See to it that a folder of corpora is not passed over, as nobody said which of them."""
    if not given_options(context, "corpus"):
        unused(context, "holds corpora by their names; say which with --corpus, e.g. google_sgd", "datapath")


def check_design(context: typer.Context, design: str) -> None:
    """See to it that no option is of the other design."""
    if design == "draws":
        unused(context, "for --design crossed; how often --design draws tells a dialogue, --draws says", "tellings")
    elif given_options(context, "draws"):
        typer.echo(
            "(--draws is for --design draws; the crossed design tells each dialogue as everybody, once)", err=True
        )


def check_metrics(names: str | None, *, alone: bool = False) -> None:
    """Find metrics that there are not; None for those of a run.

    Args:
        names: joined by commas.
        alone: whether there is one telling of each dialogue, so that none can compare tellings.
    """
    if names is not None:
        from tod_bias.metrics.choice import check_alone, metric

        found = [metric(name) for name in chosen("--metrics", names) if not is_import(name)]
        if alone:
            check_alone(found)


def spec_of(corpus: str, spec: str | None, models: Sequence[str | None]) -> tuple[str | None, dict[str, str | None]]:
    """The pipeline that options name, the demo's own where they name none, and the models by their parameters."""
    model, api_call_model, response_model = models
    if spec is None and not any(models) and corpus == DEMO:
        spec = DEMO
    return spec, {"model": model, "api_call_model": api_call_model, "response_model": response_model}
