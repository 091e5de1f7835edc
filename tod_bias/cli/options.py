"""Commands made from functions, and checks that several commands share.

A parameter that is a group of options (:class:`tod_bias.config.Options`) becomes one option per field. The field gives
the option its name, type, bounds, default and help; the group's title is its heading in ``--help``. cyclopts handles
all other parameters; those before ``/`` are positional.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from cyclopts import App, Group, Parameter
from pydantic import ValidationError

from tod_bias.cli.options_file import read_options
from tod_bias.config import (
    CONFIG_FILE,
    DEMO,
    Advanced,
    AuditConfig,
    AuditedDialogues,
    AuditedSystem,
    AxisNames,
    AxisOptions,
    CorpusOptions,
    CorpusSource,
    InFile,
    LexiconOptions,
    Options,
    OptionsFile,
    SystemOptions,
    TermOptions,
    group_of,
    line_of,
)
from tod_bias.errors import StageError, TodBiasError
from tod_bias.io.cache import CACHE_FILE, clear
from tod_bias.io.folder import claimed
from tod_bias.io.imports import is_import
from tod_bias.models.processes import as_first_sees
from tod_bias.report.console import echo

if TYPE_CHECKING:
    from tod_bias.results import AuditResult


Function = Callable[..., int | None]
FILE_OPTION = "config"
"""Option of a command that reads further options from a file."""
GENERAL = "Options"
"""Heading of options in groups without a title."""


def command(example: str, in_help: Container[str] | None = None) -> Callable[[Function], App]:
    """Return a decorator that makes a command from a function.

    Args:
        example: a command line that shows its use, printed below the help.
        in_help: options that ``--help`` shows; by default all that are not advanced. ``--help-all`` shows every option.
    """

    def made(function: Function) -> App:
        called, hidden = _with_options(function, in_help)
        epilogue = f"Example: {example}"
        in_file = len(_file_only(function))
        further = [f"{hidden} more options"] * bool(hidden) + [f"{in_file} in a file for --config"] * bool(in_file)
        if further:
            epilogue += f"\n\n{' and '.join(further)}: see --help-all."
        app = App(name=function.__name__, version_flags=(), help=_help(function), help_epilogue=epilogue)
        app.default(called)
        return app

    return made


def show_all(app: App) -> None:
    """Make the help of a command show its advanced options as well."""
    function = getattr(app.default_command, "__wrapped__", None)
    if function is not None:  # a group of commands has no options of its own
        app.default_command, _ = _with_options(function, everything=True)
        example = str(app.help_epilogue).partition("\n\n")[0]
        listed = [f"{name}: {_doc(kind, name)}" for name, kind in _file_only(function).items()]
        heading = ["In a file for --config:"] * bool(listed)
        app.help_epilogue = "\n\n".join([*heading, *listed, example])


def _help(function: Function) -> str:
    """Return a function's docstring without its arguments, one line per paragraph."""
    text = inspect.getdoc(function) or ""
    return "\n\n".join(" ".join(part.split()) for part in text.partition("\n\nArgs:\n")[0].split("\n\n"))


def _with_options(
    function: Function, in_help: Container[str] | None = None, *, everything: bool = False
) -> tuple[Function, int]:
    """Replace each group of options by one keyword per option; return the function and the number of hidden options."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, type[Options]] = {}
    headings: dict[str, Group] = {}
    parameters = []
    hidden = 0
    for parameter in signature.parameters.values():
        if inspect.isclass(parameter.annotation) and issubclass(parameter.annotation, Options):
            groups[parameter.name] = parameter.annotation
            for kind, name, is_of_run, is_shown in _options(parameter.annotation, in_help=in_help):
                hidden += not (is_shown or everything)
                parameters.append(
                    _parameter(kind, name, headings, is_of_run=is_of_run, is_shown=is_shown or everything)
                )
        else:
            parameters.append(parameter)

    fields = dict(_fields_of(groups.values()))
    takes_file = FILE_OPTION not in fields and _in_file(groups.values())
    if takes_file:
        parameters.append(_parameter(OptionsFile, FILE_OPTION, headings, is_of_run=False, is_shown=True))

    @wraps(function)
    def called(*positional: Any, **given: Any) -> int | None:
        file = given.pop(FILE_OPTION, None) if takes_file else None
        in_file = {} if file is None else read_options(file, fields)
        given = {**in_file, **given}
        built = {name: _fields(kind, given, file, in_file) for name, kind in groups.items()}
        return function(*positional, **given, **built)

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called, hidden


def _fields_of(kinds: Iterable[type[Options]]) -> Iterator[tuple[str, type[Options]]]:
    """Yield the name of each option, also of nested groups and of those that only a file gives, with its class."""
    for kind in kinds:
        for name, field in kind.model_fields.items():
            if inspect.isclass(field.annotation) and issubclass(field.annotation, Options):
                yield from _fields_of([field.annotation])
            else:
                yield name, kind


def _in_file(kinds: Iterable[type[Options]]) -> dict[str, type[Options]]:
    """Return the options that are no options of the command line, each with its class."""
    marked = {name: kind for name, kind in _fields_of(kinds) if _is_marked(kind, name, InFile)}
    return {name: kind for name, kind in marked.items() if _doc(kind, name) and kind is not AuditConfig}


def _is_marked(kind: type[Options], name: str, mark: type) -> bool:
    return any(isinstance(entry, mark) for entry in kind.model_fields[name].metadata)


def line_in_file(app: App, option: str) -> str | None:
    """Return how an option of a command, such as ``--layers``, is written in a file for ``--config``; None if it is no
    option there."""
    function = getattr(app.default_command, "__wrapped__", None)
    name = option.removeprefix("--").replace("-", "_")
    if function is None or name not in _file_only(function):
        return None
    is_audit = AuditConfig in inspect.get_annotations(function, eval_str=True).values()
    return f"{group_of(name)}: {{{name}: …}}" if is_audit else f"{name}: …"


def _file_only(function: Function) -> dict[str, type[Options]]:
    """Return the options of a command's function that only a file gives, each with its class."""
    kinds = [parameter.annotation for parameter in inspect.signature(function, eval_str=True).parameters.values()]
    return _in_file(kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, Options))


def _options(
    kind: type[Options], *, is_of_run: bool = False, in_help: Container[str] | None = None
) -> Iterator[tuple[type[Options], str, bool, bool]]:
    """Yield the class and name of each option, also of nested groups, if a run supplies it, and if help shows it."""
    is_of_run, in_help = is_of_run or kind.is_of_run, in_help or kind.in_help
    for name, field in kind.model_fields.items():
        if inspect.isclass(field.annotation) and issubclass(field.annotation, Options):
            yield from _options(field.annotation, is_of_run=is_of_run, in_help=in_help)
        elif not _is_marked(kind, name, InFile):
            is_advanced = _is_marked(kind, name, Advanced)
            yield kind, name, is_of_run, not is_advanced if in_help is None else name in in_help


@cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    """Map class and field to the docstring below the field, in the source of a module."""
    return {
        (kind.name, field.target.id): " ".join(doc.value.value.split())
        for kind in ast.parse(inspect.getsource(sys.modules[module])).body
        if isinstance(kind, ast.ClassDef)
        for field, doc in pairwise(kind.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    }


def _doc(kind: type[Options], name: str) -> str:
    """Return the help of an option: the field's docstring in its class, or in the nearest base class that has one."""
    bases = (base for base in kind.__mro__ if issubclass(base, Options))
    docs = (_docstrings(base.__module__).get((base.__name__, name)) for base in bases)
    return next((doc for doc in docs if doc), "")


def _parameter(
    kind: type[Options], name: str, headings: dict[str, Group], *, is_of_run: bool, is_shown: bool
) -> inspect.Parameter:
    field, title = kind.model_fields[name], kind.title or GENERAL
    heading = f"{title} (by default the run's)" if is_of_run else title
    place = 100 if heading == GENERAL else len(headings)
    group = headings.setdefault(heading, Group(heading, sort_key=place))
    how = Parameter(help=_doc(kind, name), group=group, show=is_shown)
    if name.endswith("_"):  # a word of Python's own, such as "as"
        how = Parameter.combine(how, Parameter(name=f"--{name.rstrip('_')}"))
    if is_of_run:
        how = Parameter.combine(how, Parameter(show_default=False))
    if field.annotation is bool and field.default is False:
        how = Parameter.combine(how, Parameter(negative=()))
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.is_required() else field.default,
        annotation=Annotated[_plain(field.annotation), how],
    )


def _plain(kind: Any) -> Any:
    """Return a type without its bounds, because the model checks the bounds."""
    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(map(_plain, get_args(kind)))]  # noqa: UP007  # its members are not known before
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _fields(
    kind: type[Options], given: dict[str, Any], file: Path | None = None, in_file: Container[str] = ()
) -> Options:
    """Return a group of the given options, which are removed from ``given``.

    Args:
        kind: the group.
        given: options of the command line and of the file.
        file: the file given with ``--config``.
        in_file: names of the options that the file has.

    Raises:
        TodBiasError: an option is invalid; names it as on the command line or in the file.
    """
    fields: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        if inspect.isclass(field.annotation) and issubclass(field.annotation, Options):
            part = _fields(field.annotation, given, file, in_file)
            if part.model_fields_set:
                fields[name] = part
        elif name in given:
            fields[name] = given.pop(name)
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        line = line_of(error)
        option, space, rest = line.partition(" ")
        is_named = bool(error.errors()[0]["loc"])
        if file is not None and option in in_file:
            raise TodBiasError(f"--config {file}: {line}") from None
        raise TodBiasError(f"--{option.replace('_', '-')}{space}{rest}" if is_named else line) from None


def configured(config: AuditConfig, file: Path | None) -> AuditConfig:
    """Return an audit's options: those of a file, overridden by those of the command line.

    Relative paths on the command line start from the current folder.

    Raises:
        TodBiasError: the file cannot be read, or a run wrote it into another folder.
    """
    base = None if file is None else AuditConfig.read_trusted(file)
    config = AuditConfig.with_settings(base, config.given() | {"directory": Path.cwd()})
    config = _in_world(config)
    check_datapath(config.corpus)
    named = {name: getattr(config.corpus, name) for name in type(config.corpus).model_fields}  # for later commands
    if config.run.responses is None and not config.system.is_named and config.corpus.corpus == DEMO:
        named["pipeline"] = DEMO
    named["placebo"] = config.axes.placebo  # a command implies it, a function does not
    return AuditConfig.with_settings(config, named)


def _in_world(config: AuditConfig) -> AuditConfig:
    """Return the options of an audit in a world: its name is that of the corpus, and dialogues run freely.

    Raises:
        TodBiasError: a corpus is given too, the history is gold, or a served model is named without a world.
    """
    world = config.corpus.world
    if world is None:
        if config.system.model_url is not None:
            raise TodBiasError("--model-url: goes with --world; a served assistant is a file: tod-bias init assistant")
        return config
    from tod_bias.worlds import load_world

    name = load_world(world).name
    if config.corpus.given_of("corpus") and config.corpus.corpus != name:
        raise TodBiasError(f"--world {world}: replaces --corpus; leave it out")
    if config.run.given_of("history") and config.run.history != "system":
        raise TodBiasError("--history gold: a world has no recorded answers; leave it out")
    return AuditConfig.with_settings(config, {"corpus": name, "world": name, "history": "system"})


def config_of(run: Path, given: Options) -> AuditConfig:
    """Return the options of a run, overridden by those that are given now.

    Code that a run's folder names (a pipeline file, your own axes, metrics and corpora) is imported only if a run of
    this machine wrote that folder. From a received folder, only design and seed are used.

    Raises:
        TodBiasError: the folder's configuration cannot be read, or an option is invalid.
    """
    options = given.given()
    path = run / CONFIG_FILE
    if not path.is_file():
        return AuditConfig.with_settings(None, options)
    config = AuditConfig.read(path)
    if not config.was_written_into(run):
        safe = {"run": {"max_failures": config.run.max_failures}}
        config = AuditConfig.of({"design": config.design, "seed": config.seed, **safe})
    config = config.located()
    if {
        "pipeline",
        "model",
        "model_url",
        "api_call_model",
        "response_model",
    } & options.keys():  # in the place of the run's system
        config = AuditConfig.of({**{name: getattr(config, name) for name in config.model_fields_set}, "system": {}})
    return AuditConfig.with_settings(config, options)


def check_metrics(names: Sequence[str], *, alone: bool = False) -> None:
    """Raise for unknown metrics.

    Args:
        names: names of metrics; your own (``module:Class``) are not checked here.
        alone: True if only originals are run, so that metrics of counterfactuals have no value.
    """
    from tod_bias.metrics.choice import check_alone, metric

    shipped = [metric(name) for name in names if not is_import(name)]
    if alone:
        check_alone(shipped)


def user_metrics(config: AuditConfig) -> list[str]:
    """Return the user's own metrics that a configuration names."""
    return [name for name in config.analysis.metrics or () if is_import(name)]


def axes_of(run: Path, result: AuditResult, given: Options, config: AuditConfig) -> tuple[str, ...]:
    """Return the requested axes; by default those of a run, without the placebo.

    Raises:
        AxisError: no axes were requested, and the run names an axis that is not shipped.
    """
    from tod_bias.perturb.axis import PLACEBO
    from tod_bias.perturb.loading import check_shipped, is_user_defined

    if "axes" in given.given():
        return config.axes.axes
    if any(map(is_user_defined, config.axes.axes)):  # a run of this machine
        return tuple(name for name in config.axes.axes if is_user_defined(name) or name in {*result.axes} - {PLACEBO})
    names = tuple(axis for axis in result.axes if axis != PLACEBO)
    for name in names:
        for part in name.split(","):
            check_shipped(part, str(run))
    return names


def load_axes(options: LexiconOptions, names: Sequence[str] | None = None, device: str | None = None) -> list[Any]:
    """Return the axes of the options.

    Args:
        options: settings of the axes.
        names: the requested axes, by default all axes of the options; lexicons of other axes are ignored.
        device: device of a neural perturber.

    Raises:
        TodBiasError: an axis or a lexicon is unknown, or no axis uses an option that is given.
    """
    from tod_bias.perturb.loading import load_axis

    every = options.axes if names is None else names
    files = lexicons(options, every)
    introductions = options.introductions if isinstance(options, AxisOptions) else None
    how: dict[str, Any] = {"name_slots": options.name_slots}
    how["model"] = options.perturber if isinstance(options, AxisOptions) else None
    check_used(every, {**how, "introductions": introductions})
    kinds = {} if introductions is None else _kinds(every, files, introductions)
    how |= {"protected": options.protect, "device": device}
    return [load_axis(axis, lexicon=files.get(axis), introductions=kinds.get(axis), **how) for axis in every]


def check_used(axes: Sequence[str], options: Mapping[str, object]) -> None:
    """Raise if no axis uses a given option.

    Raises:
        TodBiasError: names the option, its purpose and the axes.
    """
    from tod_bias.perturb.loading import idle_options

    for name in idle_options(axes, options):
        raise TodBiasError(f"{_IDLE[name]}, and the axes are {', '.join(axes)}; leave it out")


def lexicons(options: TermOptions, axes: Sequence[str]) -> dict[str, str]:
    """Return the lexicon file of each axis that has one.

    Args:
        options: lexicons as they were given; if they name axes too, lexicons of those that are not wanted are left out.
        axes: the axes that are wanted.

    Raises:
        TodBiasError: a lexicon is not given as AXIS=FILE, its axis is unknown, or its axis has two lexicons.
    """
    known = {*axes, *(options.axes if isinstance(options, AxisNames) else ())}
    files: dict[str, str] = {}
    for text in options.lexicon:
        axis, equals, file = text.partition("=")
        if not (equals and file) or axis not in known:
            raise TodBiasError(f"--lexicon {text}: expected AXIS=FILE, with one of --axes {','.join(axes)}")
        if axis in files:
            raise TodBiasError(f"--lexicon {text}: axis {axis} has a lexicon already, {files[axis]}")
        files[axis] = file
    return {axis: file for axis, file in files.items() if axis in axes}


_IDLE = {
    "name_slots": "name_slots: for axes of names",
    "introductions": "--introductions: for axes persona_…",
    "model": "--perturber: a model rewrites terms, not names, introductions or the placebo",
}


def _kinds(axes: Sequence[str], files: Mapping[str, str], wanted: Sequence[str]) -> dict[str, list[str]]:
    """Return the kinds of introductions of each axis that were requested; an axis without any of them keeps all.

    Raises:
        TodBiasError: no axis has one of the kinds.
    """
    from tod_bias.perturb.loading import load_axis

    known: dict[str, frozenset[str]] = {
        axis: load_axis(axis, lexicon=files.get(axis)).kinds for axis in axes if "persona_" in axis
    }
    unknown = [kind for kind in wanted if not any(kind in kinds for kinds in known.values())]
    if unknown:
        possible = ", ".join(sorted(set().union(*known.values()))) or "none, as no axis is persona_…"
        raise TodBiasError(f"--introductions {','.join(wanted)}: no axis has {unknown[0]!r}; expected {possible}")
    return {axis: some for axis, kinds in known.items() if (some := [kind for kind in wanted if kind in kinds])}


def load_dialogues(options: CorpusOptions, seed: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return all dialogues of the corpus that options name, and the sample of them that is used."""
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.sampling import sample

    check_datapath(options)
    whole: Sequence[Any]
    if isinstance(options, AuditedDialogues) and options.world is not None:
        from tod_bias.worlds import load_world

        world = load_world(options.world)
        whole = world.dialogues
        for reason, number in world.left_out.items():
            echo(f"({number} of {len(whole) + number} tasks of {options.world} {reason} and are left out)", err=True)
    else:
        whole = load_corpus(options.corpus, datapath=options.datapath, split=options.split)
    return whole, sample(whole, options.max_dialogues, seed)


def check_datapath(options: CorpusSource) -> None:
    """Raise if --datapath is given without --corpus."""
    if options.datapath is not None and not options.given_of("corpus"):
        raise TodBiasError("--datapath: is a folder of several corpora; name one with --corpus, e.g. google_sgd")


def folder_of(out: Path | None, corpus: str) -> Path:
    """Return the folder for a run's results; no other run can write into it until this command ends."""
    return claimed(_place(out, corpus))


def check_folder(out: Path | None, corpus: str) -> Path:
    """Raise if the folder for results cannot be written, before anything slow begins.

    No other run can write into it until this command ends. A new folder that stays empty is removed then.

    Returns:
        The folder's absolute path, which stays valid if a stage changes the current folder.
    """
    return claimed(_place(out, corpus).absolute())


def check_files(*paths: str | Path | None, otherwise: str = "cannot be read") -> None:
    """Raise if files and folders to read are missing, before their readers are loaded.

    Args:
        paths: None entries are ignored.
        otherwise: message for a missing path, before the reason.

    Raises:
        TodBiasError: a path is missing.
    """
    for path in paths:
        if path is None:
            continue
        try:
            Path(path).stat()
        except (OSError, ValueError) as error:
            raise TodBiasError(f"{path}: {otherwise} ({getattr(error, 'strerror', None) or error})") from error


def _place(out: Path | None, corpus: str) -> Path:
    return out or Path("runs") / Path(corpus).stem.replace(":", "-")


def check_access(pipeline: Any, out: Path | None, corpus: str) -> None:
    """Raise if a stage's server cannot be called, unless the folder has cached outputs and may need no calls."""
    if (_place(out, corpus) / CACHE_FILE).exists():
        return
    for name, stage in pipeline.stages.items():
        try:
            stage.check_access()
        except StageError as error:
            raise StageError(f"stage {name!r}: {error}") from error


def cache_of(folder: Path, resume: bool) -> Path:
    """Return the file of cached outputs, emptied unless the run is resumed."""
    if not resume:
        as_first_sees(lambda: clear(folder / CACHE_FILE))  # the others wait for it
    return folder / CACHE_FILE


def load_system(
    corpus: str, system: SystemOptions, dialogues: Sequence[Any], world: str | None = None, *, offline: bool = False
) -> Any:
    """Load the pipeline that options name.

    Args:
        corpus: name of the corpus.
        system: the options.
        dialogues: of the corpus.
        world: name of the world that the system acts in.
        offline: True if no server may be asked for anything.
    """
    if world is not None:
        from tod_bias.worlds.systems import world_pipeline

        url = system.model_url if isinstance(system, AuditedSystem) else None
        return world_pipeline(world, system.pipeline, url=url, model=system.model, offline=offline)
    from tod_bias.pipelines import load_pipeline

    spec, models = _named(corpus, system)
    return load_pipeline(spec, dialogues=dialogues, device=system.device, generation=system.generation, **models)


def check_system(corpus: str, system: SystemOptions, world: str | None = None) -> tuple[str, ...]:
    """Raise for wrong options of :func:`load_system`, before anything heavy is loaded.

    Returns:
        The names of its stages.
    """
    if world is not None:
        from tod_bias.worlds.systems import check_world_system

        return check_world_system(
            world, system.pipeline, system.model_url if isinstance(system, AuditedSystem) else None
        )
    from tod_bias.pipelines import check_pipeline
    from tod_bias.systems.pipeline import STANDARD

    spec, models = _named(corpus, system)
    file = check_pipeline(spec, device=system.device, generation=system.generation, **models)
    return STANDARD if file is None else tuple(file.stages)


def _named(corpus: str, system: SystemOptions) -> tuple[str | None, dict[str, str | None]]:
    """Return the pipeline, by default the demo's, and the models by their parameters."""
    spec = DEMO if not system.is_named and corpus == DEMO else system.pipeline
    models = dict(zip(("model", "api_call_model", "response_model"), system.models, strict=True))
    return None if system.is_folder else spec, models


def refuse(given: Options, names: Iterable[str], why: str) -> None:
    """Raise if an option is given that has no effect.

    Args:
        given: the options.
        names: options without an effect.
        why: reason for the message.

    Raises:
        TodBiasError: such an option was given.
    """
    if idle := given.given().keys() & set(names):
        in_file = _in_file([type(given)])
        marked = (name if name in in_file else f"--{name.replace('_', '-')}" for name in sorted(idle))
        raise TodBiasError(f"{', '.join(marked)}: {why}")
