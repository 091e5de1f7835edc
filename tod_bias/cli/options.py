"""Commands made from functions, with options made from the models of their parameters.

A parameter that is a group of options (:class:`tod_bias.config.Options`) becomes one option per field: its name, type,
bounds, default and help are the field's, its heading in ``--help`` the group's title. Other parameters are what
cyclopts makes of them; those before ``/`` are positional.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Container, Iterator
from functools import cache, wraps
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from cyclopts import App, Group, Parameter
from pydantic import ValidationError

from tod_bias.config import Advanced, Options, line_of
from tod_bias.errors import TodBiasError

Function = Callable[..., int | None]
GENERAL = "Options"
"""Heading of options in groups without a title."""


def command(example: str, in_help: Container[str] | None = None) -> Callable[[Function], App]:
    """A function as a command.

    Args:
        example: a command line that shows its use, below the help.
        in_help: options that ``--help`` shows; by default all that are not advanced. ``--help-all`` shows every option.
    """

    def made(function: Function) -> App:
        called, hidden = _with_options(function, in_help)
        epilogue = f"Example: {example}"
        if hidden:
            epilogue += f"\n\n{hidden} more options: see --help-all."
        app = App(name=function.__name__, version_flags=(), help=_help(function), help_epilogue=epilogue)
        app.default(called)
        return app

    return made


def show_all(app: App) -> None:
    """Make the help of a command show its advanced options as well."""
    function = getattr(app.default_command, "__wrapped__", None)
    if function is not None:  # a group of commands has no options of its own
        app.default_command, _ = _with_options(function, everything=True)
        app.help_epilogue = str(app.help_epilogue).partition("\n\n")[0]


def _help(function: Function) -> str:
    """A function's docstring without its arguments, a line per paragraph."""
    text = inspect.getdoc(function) or ""
    return "\n\n".join(" ".join(part.split()) for part in text.partition("\n\nArgs:\n")[0].split("\n\n"))


def _with_options(
    function: Function, in_help: Container[str] | None = None, *, everything: bool = False
) -> tuple[Function, int]:
    """Return the function with one keyword per option in place of each group, and how many options its help hides."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, type[Options]] = {}
    headings: dict[str, Group] = {}
    parameters = []
    hidden = 0
    for parameter in signature.parameters.values():
        if inspect.isclass(parameter.annotation) and issubclass(parameter.annotation, Options):
            groups[parameter.name] = parameter.annotation
            for kind, name, is_of_run, is_shown in _options(parameter.annotation):
                is_shown = everything or (is_shown if in_help is None else name in in_help)
                hidden += not is_shown
                parameters.append(_parameter(kind, name, headings, is_of_run=is_of_run, is_shown=is_shown))
        else:
            parameters.append(parameter)

    @wraps(function)
    def called(*positional: Any, **given: Any) -> int | None:
        built = {name: _fields(kind, given) for name, kind in groups.items()}
        return function(*positional, **given, **built)

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called, hidden


def _options(
    kind: type[Options], *, is_of_run: bool = False, in_help: frozenset[str] | None = None
) -> Iterator[tuple[type[Options], str, bool, bool]]:
    """Yield class and name of each option, those of nested groups too, if a run knows it, and if help shows it."""
    is_of_run, in_help = is_of_run or kind.is_of_run, in_help or kind.in_help
    for name, field in kind.model_fields.items():
        if inspect.isclass(field.annotation) and issubclass(field.annotation, Options):
            yield from _options(field.annotation, is_of_run=is_of_run, in_help=in_help)
        elif name not in kind.not_options:
            is_advanced = any(isinstance(mark, Advanced) for mark in field.metadata)
            yield kind, name, is_of_run, not is_advanced if in_help is None else name in in_help


@cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    """Class and field to the docstring behind the field, in the source of a module."""
    return {
        (kind.name, field.target.id): " ".join(doc.value.value.split())
        for kind in ast.parse(inspect.getsource(sys.modules[module])).body
        if isinstance(kind, ast.ClassDef)
        for field, doc in pairwise(kind.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    }


def _doc(kind: type[Options], name: str) -> str:
    """The help of an option: the docstring of the field, of the class or the nearest base that has one."""
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
    """A type without bounds, which the model checks."""
    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(map(_plain, get_args(kind)))]  # noqa: UP007  # its members are not known before
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _fields(kind: type[Options], given: dict[str, Any]) -> Options:
    """Return a group of the given options, which are removed from ``given``.

    Raises:
        TodBiasError: an option is invalid; names it as on the command line.
    """
    fields: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        if inspect.isclass(field.annotation) and issubclass(field.annotation, Options):
            part = _fields(field.annotation, given)
            if part.model_fields_set:
                fields[name] = part
        elif name not in kind.not_options and name in given:
            fields[name] = given.pop(name)
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        line = line_of(error)
        option, space, rest = line.partition(" ")
        is_named = bool(error.errors()[0]["loc"])
        raise TodBiasError(f"--{option.replace('_', '-')}{space}{rest}" if is_named else line) from None
