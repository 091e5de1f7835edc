"""Commands made from functions.

A parameter that is a group of options (:class:`tod_bias.config.Options`) becomes one option per field. The field gives
the option its name, type, bounds, default and help; the group's title is its heading in ``--help``. cyclopts handles
all other parameters; those before ``/`` are positional.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from cyclopts import App, Group, Parameter
from pydantic import ValidationError

from tod_bias.cli.options_file import read_options
from tod_bias.config import (
    Advanced,
    AuditConfig,
    InFile,
    Options,
    OptionsFile,
    group_of,
    line_of,
)
from tod_bias.errors import TodBiasError

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
    takes_file = FILE_OPTION not in fields and file_options(groups.values())
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


def file_options(kinds: Iterable[type[Options]]) -> dict[str, type[Options]]:
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
    return file_options(kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, Options))


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


def _doc(kind: type[Options], name: str) -> str:
    """Return the help of an option: the docstring of its field."""
    return " ".join((kind.model_fields[name].description or "").split())


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
