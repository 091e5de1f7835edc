"""Exceptions that a user can cause.

The message of each is one line: the value, the expectation, the place, and the next step. The command line prints that
line and exits with code 2.
"""

from __future__ import annotations

import difflib
import os
import sysconfig
import traceback
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import ValidationError

_ALSO = {"sex": "gender", "ethnicity": "race", "joint_goal_accuracy": "jga"}
"""Other words for what has a name here."""


_Value = TypeVar("_Value", bound=Hashable)
FOREIGN = (Exception, SystemExit, GeneratorExit)
"""Exceptions that other people's code may raise; ``KeyboardInterrupt`` is the user's own."""


_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_INSTALLED = (*_LIBRARIES, _PACKAGE, "<")


def repeated(values: Iterable[_Value]) -> _Value | None:
    """Return the first repeated value, for a message; None if all are unique."""
    every = list(values)
    counts = Counter(every)
    return next((value for value in every if counts[value] > 1), None)


def meant(name: str, among: Iterable[str]) -> str:
    """``; did you mean 'x'?`` where something has nearly that name, is another word for it or ends or begins so, else
    nothing: for the end of a message.
    """
    known = list(among)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    close = close or [candidate for candidate in (_ALSO.get(name.lower()),) if candidate in known]
    close = close or [candidate for candidate in known if len(name) > 2 and name.lower() in candidate.split("_")]
    return f"; did you mean {close[0]!r}?" if close else ""


_REASONS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "literal_error": "must be {expected}",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "extra_forbidden": "is unknown",
    "too_short": "must name at least one",
    "missing": "is missing",
}
"""Kinds of pydantic's errors in this program's words."""


def reason_in(error: Mapping[str, Any]) -> str:
    """Describe what is wrong with a field, given an error of pydantic: ``must be at least 1``."""
    context = {key: value for key, value in error.get("ctx", {}).items() if key != "error"}
    reason = _REASONS.get(error["type"])
    text = error["msg"].removeprefix("Value error, ") if reason is None else reason.format(**context).removesuffix(".0")
    return str(text[:1].lower() + text[1:])


def invalid(error: ValidationError, place: str = "") -> str:
    """The first field that is not as it should be, and why: ``draws must be at least 1, got 0``.

    Args:
        error: of a model of pydantic.
        place: what to call the field; left out, by its path.
    """
    first = error.errors()[0]
    place = place or ".".join(map(str, first["loc"])) or "it"
    got = "" if first["type"] == "missing" else f", got {shortened(repr(first['input']), 60)}"
    return f"{place} {reason_in(first)}{got}"


class TodBiasError(ValueError):
    """Base of all errors that a user's input can cause."""


class CorpusError(TodBiasError):
    """A corpus that cannot be found or read; names the file and, if known, the line."""


class MissingSplitError(CorpusError):
    """A split that the corpus does not have here; its other splits may be."""


class AxisError(TodBiasError):
    """An unknown axis, attribute or word, or a rewrite whose source equals its target."""


class LexiconError(TodBiasError):
    """A lexicon file that cannot be read; names the file and the line."""


class StageError(TodBiasError):
    """A pipeline or stage that cannot be built, or a stage that broke its contract."""


class UnansweredError(StageError):
    """A question that a component can never answer: its dialogue is left out, and the run continues.

    If a component raises it for a batch of questions, they are asked one by one.
    """


class ModelError(TodBiasError):
    """A model folder that cannot be loaded, or a model that does not fit its use."""


class DivergedError(ModelError):
    """A training with an infinite or undefined loss; names the step and the model that is left."""


class MetricError(TodBiasError):
    """A metric that has no value on the original dialogues, for instance success where no dialogue offers anything."""


class IncompleteError(TodBiasError):
    """Some of several axes could not be attributed; :attr:`result` holds the others."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result
        """Result of :func:`tod_bias.attribute` for the other axes."""


class NothingToPerturbError(TodBiasError):
    """Raised if no dialogue has a word that the chosen axis can rewrite."""


class StatisticsError(TodBiasError):
    """A test or adjustment that cannot be made as asked, for instance of a group without members."""


class EmbeddingsError(TodBiasError):
    """Embeddings or sets of entities that cannot be used; names the file, the table and the row or id."""


class InteractionsError(TodBiasError):
    """Interactions that cannot be read or trained on; names the file and, if known, the line."""


class RecommenderError(TodBiasError):
    """Reviews, venues, templates or saved recommendations that cannot be used; names the file and the line."""


def shortened(text: str, most: int = 600) -> str:
    """Return a text as one line of at most ``most`` characters; a longer text keeps its beginning and its end, which
    usually holds the advice. A word that is cut is left out, unless it is most of what is kept.

    >>> shortened("a" * 50 + " then b", 20)
    'aaaaaaaaaaa … then b'
    >>> shortened("please have your proof of purchase ready", 22)
    'please have … ready'
    """
    line = " ".join(text[: 20 * most].split())
    if len(text) <= 20 * most and len(line) <= most:
        return line
    tail = most // 3
    begin, cut = line[: most - tail - 3], line[most - tail - 3 : most - tail - 2]
    whole, _, part = begin.rpartition(" ")
    if cut.strip() and 2 * len(part) < len(begin):
        begin = whole
    last = " ".join(text[-20 * most :].split())
    end = last[-tail:]
    part, _, whole = end.partition(" ")
    if last[-tail - 1 : -tail].strip() and 2 * len(part) < len(end) and whole:
        end = whole
    return f"{begin.rstrip()} … {end.lstrip()}"


def user_place(error: BaseException) -> str:
    """Return ``file:line`` of the innermost frame in the user's own code; empty if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if not frame.filename.startswith(_INSTALLED)]
    return f"{user_frames[-1].filename}:{user_frames[-1].lineno}" if user_frames else ""


EXTRA_OF = {
    **dict.fromkeys(("torch", "transformers", "accelerate", "datasets", "safetensors", "tokenizers"), "models"),
    **dict.fromkeys(("agents", "langchain", "langgraph", "pydantic_ai"), "agents"),
    "sqlalchemy": "sql",
}
"""Package to the extra that it comes with."""


def described(error: BaseException) -> str:
    """Describe an exception of other people's code in one line: ``KeyError: 'foo' at my_stages.py:12``.

    For a missing package of an extra, the line names the command to run.

    The place is the innermost one outside of installed packages.
    """
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRA_OF.get((error.name or "").partition(".")[0])):
        return f"{error.name} is not installed; `tod-bias doctor` prints the command that installs {extra!r}"
    text = shortened(str(error))
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, SyntaxError):  # its text says where; the traceback is the importer's
        return line
    place = user_place(error)
    if not place:
        frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is the caller's
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{line} at {place}" if place and not place.startswith(_PACKAGE) else line
