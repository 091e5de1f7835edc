"""Regression cases: single counterfactuals that show a finding, each with everything that is needed to run it.

A file of cases is JSON lines. A case names the finding's event, groups and stage, and shows messages and outputs. It
holds the original and the rewritten dialogue up to that turn, and the record of T
(:mod:`tod_bias.perturb.records`). So it needs no corpus and no run, only the axis and a system.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer, PlainValidator, ValidationError

from tod_bias.dialogues.dialogue import Turn
from tod_bias.dialogues.text import json_line
from tod_bias.errors import AxisError, TodBiasError, invalid
from tod_bias.io.documents import loads, text_lines
from tod_bias.io.files import finite, write_lines
from tod_bias.metrics.events import event_of
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.loading import check_shipped, load_axis
from tod_bias.perturb.records import CounterfactualRecord
from tod_bias.systems.execution import HistoryMode
from tod_bias.systems.twin import Rewrite

SCHEMA = 4
"""Version of a line."""
OPTIONS = ("lexicon", "scope", "protected", "name_slots", "introductions", "model", "sources", "targets")
"""Options with which an axis may be loaded."""
ORIGINAL, REWRITTEN = "original", "rewritten"
"""The variants of a case: the dialogue as it is, and its counterfactual."""


class CaseError(TodBiasError):
    """A file of cases that cannot be read, or a case that cannot be run again as it was written; names the line."""


def _read_by(read: Callable[[Any], Any]) -> PlainValidator:
    """Make a field from a value with ``read``, which raises for other values."""

    def reading(value: Any) -> Any:
        try:
            return read(value)
        except (TypeError, AttributeError, LookupError) as error:
            raise ValueError(f"got {value!r:.60}") from error

    return PlainValidator(reading)


def _object_of(kind: Any) -> PlainValidator:
    """A field is an object of a class, or what its ``to_json`` wrote."""
    return _read_by(lambda value: value if isinstance(value, kind) else kind.from_json(value))


def _known_options(options: dict[str, Any]) -> dict[str, Any]:
    if unknown := options.keys() - {"axis", *OPTIONS}:
        raise ValueError(f"unknown option {min(unknown)!r}")
    return options


def _known_event(name: str) -> str:
    if name and event_of(name) is None:
        raise ValueError(f"no such event: {name!r}")
    return name


_AS_JSON = PlainSerializer(lambda value: value.to_json())
Counterfactual = Annotated[CounterfactualRecord, _object_of(CounterfactualRecord), _AS_JSON]
CaseTurn = Annotated[Turn, _object_of(Turn), _AS_JSON]
Texts = dict[str, str]
"""Texts by variant: original, rewritten."""


class Case(BaseModel):
    """One turn of one counterfactual that shows a finding."""

    model_config = ConfigDict(frozen=True)

    id: str
    """``axis/dialogue/source>target/turn``, then the event if the turn is a case of another finding too."""
    axis: str
    source: str
    """The original's group."""
    target: str
    """The counterfactual's group."""
    term: str
    """The term that was drawn."""
    stage: str
    """Stages in which the difference enters, joined by a comma."""
    event: Annotated[str, AfterValidator(_known_event)]
    """Event that depends on the group; empty if the response as a whole does."""
    what: str
    """Event in a few words."""
    shown: Texts
    """Act of the system that shows the event: for the original, for the counterfactual."""
    turn: int
    """Number of the turn in the corpus' dialogue, from 1."""
    turns: tuple[int, ...]
    """Turns in the case; the marked turn is the last."""
    user: Texts
    """User's message in the marked turn: original, rewritten."""
    reference: Texts
    """The recorded response: original, rewritten."""
    response: Texts
    """Response of the system."""
    history: HistoryMode
    """``gold`` or ``system``."""
    corpus: tuple[str, str]
    """Name and split of the corpus, for systems that look its results up."""
    signature: str
    """Signature of the axis."""
    axis_options: Annotated[dict[str, Any], AfterValidator(_known_options)]
    """Options of the axis: ``axis`` (as it was given) and some of :data:`OPTIONS`."""
    counterfactual: Counterfactual
    """The dialogue as it is, and how it is rewritten."""
    rewritten: tuple[CaseTurn, ...]
    """The turns as they are rewritten."""

    @property
    def earlier(self) -> list[dict[str, Any]]:
        """Other messages of the user before the marked turn: number of the turn, original, rewritten."""
        pairs = zip(self.turns[:-1], self.counterfactual.dialogue.turns[:-1], self.rewritten[:-1], strict=True)
        texts = ((number, str(original.user), str(rewritten.user)) for number, original, rewritten in pairs)
        return [
            {"turn": number, ORIGINAL: original, REWRITTEN: rewritten}
            for number, original, rewritten in texts
            if original != rewritten
        ]

    def to_json(self) -> dict[str, Any]:
        """One line of the file; what people read comes first."""
        items = [*self.model_dump(mode="json").items()]
        place = [name for name, _ in items].index("user")
        return dict([*items[:place], ("earlier", self.earlier), *items[place:], ("schema", SCHEMA)])

    @classmethod
    def from_json(cls, record: Any) -> Case:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: a field is missing or of the wrong type; names it.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"a case must be an object, got {type(record).__name__}")
        if record.get("schema") != SCHEMA:
            raise ValueError(f"expected schema {SCHEMA}, got {record.get('schema')!r}; write the cases again")
        try:
            case = cls.model_validate(record)
        except ValidationError as error:
            raise ValueError(f"field {invalid(error)}; write the cases again") from error
        counts = len(case.turns), len(case.rewritten), len(case.counterfactual.dialogue.turns)
        if not case.rewritten or len(set(counts)) > 1:
            raise ValueError("{} turns named, {} rewritten, {} in the dialogue; write the cases again".format(*counts))
        if case.turn != case.turns[-1]:
            raise ValueError(
                f"turn {case.turn} is marked, but the last one of {case.turns} is scored; write the cases again"
            )
        return case


def write_cases(cases: Iterable[Case], path: str | Path) -> None:
    """Write a case per line.

    Raises:
        TodBiasError: it cannot be written.
    """
    write_lines(path, [json_line(finite(case.to_json())) for case in cases], named=True)


def check_replaced(path: str | Path) -> None:
    """Raise if writing cases would replace a file of another kind.

    Raises:
        CaseError: the file exists, and its first line is not a case.
    """
    if Path(path).exists() and not Path(path).is_file():
        return  # a pipe or a device holds nothing that would be lost, and a folder is named by what writes
    try:
        first = next((line for _, line in text_lines(path)), None)
        is_case = first is None or {"counterfactual", "rewritten", "schema"} <= set(loads(first))
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError):
        is_case = False
    if not is_case:
        raise CaseError(f"{path}: is there and holds no cases; choose another --out")


def read_cases(path: str | Path) -> list[Case]:
    """Read a file of cases.

    Raises:
        CaseError: it cannot be read, holds no case, or a line is none; names the line.
    """
    cases: dict[str, Case] = {}
    try:
        for number, line in text_lines(path):
            case = _case_of(line, f"{path}, line {number}")
            if case.id in cases:
                raise CaseError(f"{path}, line {number}: case {case.id!r} occurs twice; delete one of them")
            cases[case.id] = case
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"{path}: cannot be read ({error}); give a file that tod-bias cases wrote") from error
    if not cases:
        raise CaseError(f"{path}: holds no case; write some with tod-bias cases RUN --out {path}")
    return list(cases.values())


def _case_of(line: str, place: str) -> Case:
    try:
        return Case.from_json(loads(line))
    except json.JSONDecodeError as error:
        raise CaseError(f"{place}: not JSON: {error.msg}; write the cases again") from error
    except (ValueError, OverflowError) as error:  # whole numbers beyond any other
        raise CaseError(f"{place}: no case: {error}") from error


def axes_of_cases(cases: Sequence[Case], given: Mapping[str, Axis] | None = None) -> dict[str, Axis]:
    """Return the axes of cases by name, as the cases were rewritten.

    Args:
        cases: those of one axis share it.
        given: axes that replace those of the cases; users' axes are never imported by name.

    Raises:
        AxisError, LexiconError: an axis cannot be loaded.
        CaseError: the axis differs from the one that rewrote the cases, by its signature or terms.
    """
    axes: dict[str, Axis] = dict(given or {})
    for case in cases:
        if case.axis not in axes:
            options = {name: case.axis_options[name] for name in OPTIONS if case.axis_options.get(name) is not None}
            name = str(case.axis_options.get("axis", case.axis))
            check_shipped(name, f"case {case.id}")
            try:
                axes[case.axis] = load_axis(name, **options)
            except TypeError as error:
                raise CaseError(f"case {case.id}: its axis cannot be loaded ({error})") from error
        here = axes[case.axis].signature
        if here != case.signature:
            raise CaseError(
                f"case {case.id}: axis {case.axis} was rewritten by {case.signature}, here it is {here}; give the same "
                "terms, or write the cases again"
            )
    return axes


def rewrite_of(case: Case, axis: Axis) -> Rewrite:
    """T of a case.

    Raises:
        CaseError: the axis does not rewrite the dialogue as it was.
    """
    try:
        rewrite = case.counterfactual.rewrite(axis)
        rewritten = rewrite(case.counterfactual.dialogue)
    except AxisError as error:
        raise CaseError(f"case {case.id}: {error}") from error
    if rewritten.turns != case.rewritten:
        raise CaseError(f"case {case.id}: the dialogue is rewritten otherwise than it was; write the cases again")
    return rewrite


def rewritten_turns(counterfactual: CounterfactualRecord, axis: Axis) -> tuple[Turn, ...] | None:
    """The turns of a counterfactual; None where the axis finds nothing to rewrite."""
    try:
        return counterfactual.rewrite(axis)(counterfactual.dialogue).turns
    except AxisError:
        return None
