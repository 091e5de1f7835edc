"""Regression cases: single tellings in which somebody was served worse, each with all that it takes to run it again.

A file of cases is JSON lines. A case names who was told as whom, the component that the harm enters at and the turn,
and shows what was said and put out; it holds the dialogue up to that turn, as it is and as it was told, and what T is
made from (:mod:`tod_bias.perturb.records`). So it needs no corpus and no run, only the perturber and a system.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tod_bias.audit.signatures import perturber_signature
from tod_bias.dialogues.dialogue import Turn
from tod_bias.dialogues.text import json_line
from tod_bias.documents import loads, text_lines
from tod_bias.errors import AxisError, TodBiasError
from tod_bias.files import finite, write_lines
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.loading import check_shipped, load_axis
from tod_bias.perturb.records import CounterfactualRecord
from tod_bias.systems.execution import check_history
from tod_bias.systems.twin import Rewrite

SCHEMA = 1
"""Version of a line."""
TOLERANCE = 0.01
"""Harm up to it, in the metric's own units, is none."""
OPTIONS = ("lexicon", "protected", "name_slots", "introductions", "model")
"""What the perturber of an axis may be loaded with."""
ORIGINAL, EXPECTED, TOLD = "original", "expected", "told"
"""What is compared: the original; the original's answers told as the telling is, T(f(x)); the telling's, f(T x)."""
_TEXTS = ("id", "axis", "source", "target", "word", "component", "metric", "history")


class CaseError(TodBiasError):
    """A file of cases that cannot be read, or a case that cannot be run again as it was written; names the line."""


@dataclass(frozen=True)
class Case:
    """One turn of one telling that was served worse."""

    id: str
    """``axis/dialogue/source>target/turn``."""
    axis: str
    source: str
    """The attribute rewritten."""
    target: str
    """The attribute it is told as."""
    word: str
    """The word that was drawn."""
    component: str
    """Where the most of the harm enters."""
    metric: str
    """By which it is harm: a name or ``module:Class``."""
    history: str
    """``gold`` or ``system``."""
    harm: float
    """Score of the turn as it would be if the system were blind to the rewrite, less the telling's; in the metric's own
    units, positive whichever side is the better one."""
    by_component: Mapping[str, float]
    """Shapley shares of the harm."""
    scores: Mapping[str, float]
    """Of the turn: original, expected, told."""
    turn: int
    """Number of the turn in the corpus' dialogue, from 1."""
    turns: tuple[int, ...]
    """Those of its turns that the case holds; the marked turn is the last."""
    minimised: bool
    """Whether a system was asked which earlier turns it takes."""
    user: Mapping[str, str]
    """What the user says in the marked turn: original, told."""
    reference: Mapping[str, str]
    """The gold response: original, told."""
    outputs: Mapping[str, Mapping[str, str]]
    """Component to what it put out: original, expected, told."""
    told: tuple[Turn, ...]
    """The dialogue as it is told."""
    telling: CounterfactualRecord
    """The dialogue as it is, and how it is told."""
    signature: str
    """Of the perturber."""
    corpus: tuple[str, str]
    """Name and split of the corpus, for systems that look its results up."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the perturber was loaded with: ``axis`` (as it was given) and some of :data:`OPTIONS`."""

    @property
    def earlier(self) -> list[dict[str, Any]]:
        """What the user says otherwise in the turns before the marked one: number of the turn, original, told."""
        pairs = zip(self.turns[:-1], self.telling.dialogue.turns[:-1], self.told[:-1], strict=True)
        said = ((number, str(one.user), str(other.user)) for number, one, other in pairs)
        return [{"turn": number, ORIGINAL: one, TOLD: other} for number, one, other in said if one != other]

    def to_json(self) -> dict[str, Any]:
        """One line of the file; what people read comes first."""
        facts = {name: getattr(self, name) for name in ("id", "axis", "source", "target", "word", "component", "harm")}
        return {
            **facts,
            "by_component": dict(self.by_component),
            "metric": self.metric,
            "scores": dict(self.scores),
            "turn": self.turn,
            "turns": list(self.turns),
            "minimised": self.minimised,
            "earlier": self.earlier,
            "user": dict(self.user),
            "reference": dict(self.reference),
            "outputs": {name: dict(texts) for name, texts in self.outputs.items()},
            "history": self.history,
            "corpus": list(self.corpus),
            "perturber": {**self.options, "signature": self.signature},
            "telling": self.telling.to_json(),
            "told": [turn.to_json() for turn in self.told],
            "schema": SCHEMA,
        }

    @classmethod
    def from_json(cls, record: Any) -> Case:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: a field is missing or of the wrong type; says which.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"a case must be an object, got {type(record).__name__}")
        if record.get("schema") != SCHEMA:
            raise ValueError(f"expected schema {SCHEMA}, got {record.get('schema')!r}; write the cases again")
        try:
            texts = {name: record[name] for name in _TEXTS}
            if wrong := [name for name, text in texts.items() if not isinstance(text, str)]:
                raise ValueError(f"field {wrong[0]!r} must be a string, got {texts[wrong[0]]!r}")
            check_history(texts["history"])
        except KeyError as error:
            raise ValueError(f"field {error} is missing") from error
        fields = {}
        for name, read in _READ.items():
            if name not in record:
                raise ValueError(f"field {name!r} is missing")
            try:
                fields[name] = read(record[name])
            except (TypeError, AttributeError, LookupError, ValueError) as error:
                why = str(error) if name in ("told", "telling") else f"got {record[name]!r:.60}"
                raise ValueError(f"field {name!r} is not what cases writes: {why}; write the cases again") from error
        options = fields.pop("perturber")
        case = cls(**texts, **fields, signature=str(options.pop("signature")), options=options)
        counts = len(case.turns), len(case.told), len(case.telling.dialogue.turns)
        if not case.told or len(set(counts)) > 1:
            raise ValueError("{} turns named, {} told, {} in the dialogue; write the cases again".format(*counts))
        if case.turn != case.turns[-1]:
            raise ValueError(
                f"turn {case.turn} is marked, but the last one of {case.turns} is judged; write the cases again"
            )
        return case


def _made_with(value: Any) -> dict[str, Any]:
    options = dict(value)
    options["signature"] = str(options["signature"])
    return options


_READ: Mapping[str, Callable[[Any], Any]] = {
    "perturber": _made_with,
    "harm": float,
    "by_component": lambda value: {name: float(part) for name, part in value.items()},
    "scores": dict,
    "turn": int,
    "turns": lambda value: tuple(map(int, value)),
    "minimised": bool,
    "user": dict,
    "reference": dict,
    "outputs": lambda value: {name: dict(texts) for name, texts in value.items()},
    "told": lambda value: tuple(Turn.from_json(turn) for turn in value),
    "telling": lambda value: CounterfactualRecord.from_json(value),
    "corpus": lambda value: (str(value[0]), str(value[1])),
}
"""Fields of a line that are no texts, and what reads them."""


def write_cases(cases: Iterable[Case], path: str | Path) -> None:
    """Write a case a line.

    Raises:
        TodBiasError: it cannot be written.
    """
    write_lines(path, [json_line(finite(case.to_json())) for case in cases], named=True)


def check_replaced(path: str | Path) -> None:
    """See to it that no file of another kind is replaced by cases.

    Raises:
        CaseError: there is one, and its first line is no case.
    """
    if Path(path).exists() and not Path(path).is_file():
        return  # a pipe or a device holds nothing that would be lost, and a folder is told by what writes
    try:
        first = next((line for _, line in text_lines(path)), None)
        is_case = first is None or {"telling", "told", "schema"} <= set(loads(first))
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
    found: dict[str, Case] = {}
    try:
        for number, line in text_lines(path):
            try:
                case = Case.from_json(loads(line))
            except json.JSONDecodeError as error:
                raise CaseError(f"{path}, line {number}: not JSON: {error.msg}; write the cases again") from error
            except (ValueError, OverflowError) as error:  # whole numbers beyond any other
                raise CaseError(f"{path}, line {number}: no case: {error}") from error
            if case.id in found:
                raise CaseError(f"{path}, line {number}: case {case.id!r} stands twice; delete one of them")
            found[case.id] = case
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"{path}: cannot be read ({error}); give a file that tod-bias cases wrote") from error
    if not found:
        raise CaseError(f"{path}: holds no case; write some with tod-bias cases RUN --out {path}")
    return list(found.values())


def perturbers_of(cases: Sequence[Case], given: Mapping[str, Axis] | None = None) -> dict[str, Axis]:
    """Axis to the perturber that made its tellings.

    Args:
        cases: several of an axis are told by one perturber.
        given: axis to a perturber, in place of what the case would load; one's own are not imported by their names.

    Raises:
        AxisError, LexiconError: it cannot be loaded.
        CaseError: it is another one than told the cases: its signature, words included, differs.
    """
    found: dict[str, Axis] = dict(given or {})
    for case in cases:
        if case.axis not in found:
            options = {name: case.options[name] for name in OPTIONS if case.options.get(name) is not None}
            axis = str(case.options.get("axis", case.axis))
            check_shipped(axis, f"case {case.id}")
            try:
                found[case.axis] = load_axis(axis, **options)
            except TypeError as error:
                raise CaseError(f"case {case.id}: its perturber cannot be loaded ({error})") from error
        own = perturber_signature(found[case.axis])
        if own != case.signature:
            raise CaseError(
                f"case {case.id}: axis {case.axis} was told by {case.signature}, here it is {own}; give the same "
                "words, or write the cases again"
            )
    return found


def rewrite_of(case: Case, perturber: Axis) -> Rewrite:
    """T of a case.

    Raises:
        CaseError: the perturber does not tell the dialogue as it was told.
    """
    try:
        rewrite = case.telling.rewrite(perturber)
        told = rewrite(case.telling.dialogue)
    except AxisError as error:
        raise CaseError(f"case {case.id}: {error}") from error
    if told.turns != case.told:
        raise CaseError(f"case {case.id}: the dialogue is told otherwise than it was; write the cases again")
    return rewrite


def told_turns(telling: CounterfactualRecord, perturber: Axis) -> tuple[Turn, ...] | None:
    """The turns of a telling as they are told; None where the perturber finds nothing to tell."""
    try:
        return telling.rewrite(perturber)(telling.dialogue).turns
    except AxisError:
        return None
