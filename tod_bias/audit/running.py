"""Variants of dialogues, run turn by turn, as rows of the table of turns.

There is one row per turn of the original, and one per turn and arm of each counterfactual. If several arms
went the same way, their row is computed once and repeated.

The column ``first_difference`` has the first step in which a counterfactual's turn differs from T of the original's, as
JSON, for counterfactuals with no stage replaced::

    {"stage": "policy", "part": "output", "changes": [["find_hotels.limit", "3", "1"]]}

A change has three items: a place, the value there in T of the original, and the value in the counterfactual; null means
no value. The place is an argument of a call, a field of a row, or empty for a whole text. ``part`` is ``output`` if the
step's output differs, ``argument`` if the step was called with other arguments, and ``step`` if another step was taken.
The column is null if nothing differs. If outputs are drawn, each sample is compared with T of the original's sample of
the same number, so some differences are due to chance. If the history is free-running, a difference in one turn leads
to further differences in later turns.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, takewhile, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from tod_bias.audit.checks import Seen
from tod_bias.audit.events import FACTS
from tod_bias.dialogues.dialogue import Turn
from tod_bias.dialogues.task import Task
from tod_bias.dialogues.text import well_formed
from tod_bias.errors import TodBiasError
from tod_bias.io.documents import loads
from tod_bias.metrics.grade import Grade
from tod_bias.metrics.metric import Metric, ScoredTurn
from tod_bias.perturb.axis import Expressions, Role, Variants
from tod_bias.results import TURNS, AxisResult, Estimate, FirstDifference, LostInfo, RunError, TurnCount
from tod_bias.statistics.arms import ArmDesign
from tod_bias.systems.execution import Run, Trace, TurnTrace
from tod_bias.systems.facts import Restorer, facts_text
from tod_bias.systems.outputs import as_text
from tod_bias.systems.stage import StageCall
from tod_bias.systems.stages.recorded import ORIGINAL
from tod_bias.systems.structured import Call, named_calls, structured
from tod_bias.systems.turns import scored_turn, with_calls
from tod_bias.systems.twin import Rewrite

if TYPE_CHECKING:
    import pyarrow as pa


_REASONS = 3
"""Reasons that are shown."""


class VariantTraces(NamedTuple):
    """Traces of one run of the system in all variants of a dialogue along one axis."""

    original: Trace
    rewritten: Sequence[Trace]
    """Traces of the groups, the references, then of the placebo."""


class ExecutedVariants(NamedTuple):
    """Traces of the system in all variants of a dialogue along one axis."""

    variants: Variants
    samples: Sequence[VariantTraces]
    """One, or several where stages draw their outputs."""
    repeats: Sequence[tuple[Trace, Trace]] = ()
    """Pairs of runs of the original from different draws, if stages draw their outputs; no draw is in two pairs."""


class Runner(Protocol):
    """Runner of dialogues, or source of their outputs."""

    lost: dict[int, str]
    """Runs of the last call without an output: number and reason."""
    lost_unswapped: set[int]
    """Numbers of the lost runs in which no stage was replaced."""

    parted: set[str]
    """The stages whose twins put out anything else."""

    @property
    def whole_arm(self) -> int | None:
        """Number of the arm of the whole system's twin, which is made here; None if there is none."""

    @property
    def is_sampled(self) -> bool:
        """True if any stage draws its outputs."""

    def __call__(self, runs: Sequence[Run]) -> Sequence[Trace | None]:
        """Return the traces of all runs; None for one that is lost."""


@dataclass
class LostDialogues:
    """Dialogues that are left out because a call had no output."""

    reasons: dict[str, str] = field(default_factory=dict)
    """A dialogue's id to the reason."""
    variants: Counter[str] = field(default_factory=Counter)
    """Variants in which the system itself had no output: ``original``, or an axis and group (``gender: woman``).

    Twins do not count, because they are called with the original's input.
    """

    @property
    def record(self) -> LostInfo:
        """Number of lost dialogues, the variants in which they were lost, and the most frequent reasons."""
        reasons = Counter(self.reasons.values()).most_common(_REASONS)
        return LostInfo(dialogues=len(self.reasons), variants=dict(self.variants), reasons=dict(reasons))

    def merge(self, other: LostDialogues) -> None:
        """Add the lost dialogues of another chunk."""
        self.reasons |= other.reasons
        self.variants += other.variants

    def add(self, run: Run, reason: str, *, is_system: bool) -> None:
        """Add a dialogue; ``is_system`` is True if the system itself had no output, and not only a twin."""
        self.reasons.setdefault(run.dialogue.id, reason)
        if is_system:
            self.variants[ORIGINAL if run.rewrite is None else f"{run.rewrite.axis}: {run.rewrite.target}"] += 1


def executed(
    runner: Runner, by_axis: Mapping[str, Sequence[Variants]], samples: int, lost: LostDialogues
) -> dict[str, list[ExecutedVariants]]:
    """Run the variants of the dialogues of one chunk, by axis; dialogues in which a call had no output are missing.

    A dialogue is left out of all axes. Where stages draw their outputs, the originals are run once more than there are
    samples if there is only one: the A/A run, in which only the draws differ.
    """
    originals = {_key(variants.original): variants.original for variants in chain(*by_axis.values())}
    rewritten = [run for variants in chain(*by_axis.values()) for run in variants.rewritten]
    draws = max(samples, 2) if runner.is_sampled else samples
    runs = [replace(run, sample=draw) for draw in range(draws) for run in originals.values()]
    runs += [replace(run, sample=sample) for sample in range(samples) for run in rewritten]
    traces = iter(runner(runs))
    for number, reason in runner.lost.items():
        lost.add(runs[number], reason, is_system=number in runner.lost_unswapped)
    of_originals = [{key: next(traces) for key in originals} for _ in range(draws)]
    of_rewritten = [_by_axis(traces, by_axis) for _ in range(samples)]
    _add_whole(runner.whole_arm, by_axis, of_originals, of_rewritten)
    return {
        axis: list(_of_axis(axis, some, of_originals, of_rewritten, runner.is_sampled, lost))
        for axis, some in by_axis.items()
    }


def _by_axis(
    traces: Iterator[Trace | None], by_axis: Mapping[str, Sequence[Variants]]
) -> dict[str, list[list[Trace | None]]]:
    """The next traces, those of each dialogue's rewritten variants, by axis."""
    return {
        axis: [list(islice(traces, len(variants.rewritten))) for variants in some] for axis, some in by_axis.items()
    }


def _add_whole(
    arm: int | None,
    by_axis: Mapping[str, Sequence[Variants]],
    of_originals: Sequence[Mapping[tuple[str, str], Trace | None]],
    of_rewritten: Sequence[Mapping[str, Sequence[Sequence[Trace | None]]]],
) -> None:
    """Add the arm of the whole system's twin, T(f(T⁻¹ x̃)): what the system did with the original, rewritten."""
    if arm is None:
        return
    for originals, rewritten in zip(of_originals, of_rewritten, strict=False):
        for axis, some in by_axis.items():
            for variants, traces in zip(some, rewritten[axis], strict=True):
                original = originals[_key(variants.original)]
                for run, trace in zip(variants.rewritten, traces, strict=True):
                    if original is not None and trace is not None and run.rewrite is not None:
                        ways = (
                            TurnTrace((arm,), rewritten_calls(turn[0].calls, run.rewrite), turn[0].failure)
                            for turn in original
                        )
                        trace[:] = [(*turn, way) for turn, way in zip(trace, ways, strict=True)]


def rewritten_calls(calls: Sequence[StageCall], rewrite: Rewrite) -> tuple[StageCall, ...]:
    """Return calls with T of their arguments and outputs."""
    return tuple(StageCall(call.name, rewrite(call.argument), rewrite(call.output)) for call in calls)


def _of_axis(
    axis: str,
    some: Sequence[Variants],
    of_originals: Sequence[Mapping[tuple[str, str], Trace | None]],
    of_rewritten: Sequence[Mapping[str, Sequence[Sequence[Trace | None]]]],
    is_sampled: bool,
    lost: LostDialogues,
) -> Iterator[ExecutedVariants]:
    """The variants along an axis with their traces: those of the originals by draw, the others by sample."""
    for place, variants in enumerate(some):
        if variants.original.dialogue.id in lost.reasons:
            continue
        of_original = [drawn[_key(variants.original)] for drawn in of_originals]
        of_variants = [sample[axis][place] for sample in of_rewritten]
        yield _executed(variants, of_original, of_variants, is_sampled=is_sampled)


def _executed(
    variants: Variants,
    of_original: Sequence[Trace | None],
    of_rewritten: Sequence[Sequence[Trace | None]],
    *,
    is_sampled: bool,
) -> ExecutedVariants:
    """The traces of one dialogue: those of the original by draw, those of the others by sample."""
    originals = [_complete(trace) for trace in of_original]
    samples = [
        VariantTraces(original, [_complete(trace) for trace in traces])
        for original, traces in zip(originals, of_rewritten, strict=False)
    ]
    repeats = list(zip(originals[::2], originals[1::2], strict=False)) if is_sampled else []
    return ExecutedVariants(variants, samples, repeats)


def _key(run: Run) -> tuple[str, str]:
    """Return the key of an original: a dialogue with an introduction differs on every axis."""
    return run.dialogue.id, run.variant


def _complete(trace: Trace | None) -> Trace:
    assert trace is not None  # the dialogue would have been lost
    return trace


_SHOWN = 2
"""Changes of one turn that are named."""
_NAMED = 2
"""Groups that are named in comparison."""


def checked(record: Any) -> dict[str, Any]:
    """The first difference of a turn, as a file has it.

    Raises:
        ValueError, TypeError, LookupError: it is none.
    """
    changes = [[place, before, after] for place, before, after in record["changes"]]
    if not changes or not all(isinstance(text, str | None) for change in changes for text in change):
        raise ValueError("expected changes of texts")
    return {"stage": str(record["stage"]), "part": str(record["part"]), "changes": changes}


def in_column(text: Any) -> dict[str, Any] | None:
    """Return the first difference of a row of ``turns.parquet``; None if there is none.

    Raises:
        RunError: the column holds something else.
    """
    if not isinstance(text, str):
        return None
    try:
        return checked(loads(text))
    except (ValueError, TypeError, LookupError):
        raise RunError(
            f"{TURNS}: {text!r:.60} is not what a run writes as first_difference; repeat the run's command"
        ) from None


def differences_of(axis_result: AxisResult, group: str) -> tuple[str, ...]:
    """Return the first differences in the turns as a group, with their frequency, compared with groups that are not
    claimed."""
    side = axis_result.claims.get(group, Estimate()).value or 0
    alike = {name for name, gap in axis_result.claims.items() if (gap.value or 0) * side > 0}
    return tuple(counted(some, group, alike) for some in axis_result.first_differences.get(group, ()))


def counted(difference: FirstDifference, group: str, alike: Collection[str] = ()) -> str:
    """Describe a difference and its frequency in the turns as the group and as others.

    Args:
        difference: of the group.
        group: its name.
        alike: groups that it is not compared with, unless there are no others.
    """
    words = _change(difference.stage, difference.part, difference.place, difference.change)
    text = f"{words} in {difference.turns:,} of {difference.of:,} turns as {group}"
    compared = [name for name in difference.others if name not in alike] or list(difference.others)
    if not compared:
        return text
    names = "other groups" if len(compared) == len(difference.others) else "groups without such a claim"
    number = difference.as_groups(compared)
    return (
        f"{text}, in {number.turns:,} of {number.of:,} as {' or '.join(compared) if len(compared) <= _NAMED else names}"
    )


def of_turn(record: Mapping[str, Any] | None) -> str:
    """Describe the first difference of one turn, as in the column ``first_difference``; empty if there is none."""
    if record is None:
        return ""
    changes = [(place, arrow(place, before, after)) for place, before, after in record["changes"]]
    words = [_change(record["stage"], record["part"], *changes[0]), *(at(*change) for change in changes[1:_SHOWN])]
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return f"{', '.join(words)}{more}"


def arrow(place: str, before: str | None, after: str | None) -> str:
    """Write a place with its two values: ``3 → 1``."""
    return " → ".join(ending(place, text) for text in (before, after))


def ending(place: str, text: str | None) -> str:
    """Write a value at a place, or a whole text in quotes if there is no place."""
    return "nothing" if text is None else text if place else f"“{text}”"


def at(place: str, change: str) -> str:
    """A place and what changes there."""
    if change == "differs":
        return f"another `{place}`" if place else "another text"
    if change == "various → nothing" and place:
        return f"leaves out `{place}`"
    return f"`{place}` {change}" if place else change


def _change(stage: str, part: str, place: str, change: str) -> str:
    return f"`{stage}`{' called with' if part == 'argument' else ':'} {at(place, change)}"


_LONGEST = 60
"""Characters of a text that are shown."""
_BEFORE = 15
"""Number of these characters before the first one that differs."""
_MOST_CHANGES = 8
"""Changes of one step that are kept."""
_MOST = 3
"""Differences of a group that results name."""
_MOSTLY = 0.8
"""Share of turns from which one replaced value is named together with its replacement."""
_WRAPPING = (
    "choices",
    "content",
    "data",
    "message",
    "messages",
    "output",
    "parts",
    "result",
    "structuredContent",
    "text",
)
"""Fields of replies, messages and results that say nothing about what they hold: no part of a place."""
Change = tuple[str, str | None, str | None]
"""A place, with its values in T of the original and in the counterfactual."""
Place = tuple[str, str, str]
"""Stage, part and place."""


def first_difference(expected: Sequence[StageCall], calls: Sequence[StageCall]) -> dict[str, Any] | None:
    """Return the first step that differs, as in the column; None if none does.

    Args:
        expected: T of the steps of the original's turn.
        calls: the steps of the counterfactual's turn.
    """
    for before, after in zip_longest(expected, calls):
        if before is None or after is None or before.name != after.name:
            names = (None if step is None else step.name for step in (before, after))
            return {"stage": (after or before).name, "part": "step", "changes": [["stage called", *names]]}
        for part in ("argument", "output"):
            changes: dict[str, Change] = {}
            for change in _changes(getattr(before, part), getattr(after, part), ""):
                changes.setdefault(change[0], change)
            if changes:
                shown = list(map(list, changes.values()))[:_MOST_CHANGES]
                return {"stage": after.name, "part": part, "changes": shown}
    return None


def _changes(before: Any, after: Any, place: str) -> Iterator[Change]:
    """Find the places at which two values differ."""
    calls = named_calls(before), named_calls(after)
    if any(calls):
        yield from _changes_of_calls(*calls)
        return
    old, new = structured(before), structured(after)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys([*old, *new]):
            yield from _changes(old.get(name), new.get(name), _within(place, str(name)))
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            are_messages = any(isinstance(item, Mapping) and "role" in item for item in (*old, *new))
            what = place or ("messages" if are_messages else "results")
            yield f"number of {what}", str(len(old)), str(len(new))
            return
        for left, right in zip(old, new, strict=True):
            yield from _changes(left, right, place)
    elif (written := _written(old)) != (other := _written(new)):
        yield place, *_excerpts(written, other)


def _within(place: str, name: str) -> str:
    """The place of a field."""
    return place if name in _WRAPPING else f"{place}.{name}" if place else name


def _changes_of_calls(before: Sequence[Call], after: Sequence[Call]) -> Iterator[Change]:
    ours, theirs = (" + ".join(name for name, _ in calls) or None for calls in (before, after))
    if ours != theirs:
        yield "call", ours, theirs
        return
    for (name, old), (_, new) in zip(before, after, strict=True):
        yield from _changes(old, new, name)


def _written(value: Any) -> str | None:
    """A value in one line; None for nothing."""
    if isinstance(value, Mapping | list):
        value = json.dumps(value, ensure_ascii=False, default=as_text) if value else None
    elif value is not None and not isinstance(value, str):
        value = json.dumps(value)
    return " ".join(value.split()) or None if value is not None else None


def _excerpts(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """Return two texts, long ones shortened to the surroundings of the first difference."""
    pairs = zip(before or "", after or "", strict=False)
    start = max(0, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) - _BEFORE)
    if max(len(before or ""), len(after or "")) <= _LONGEST:
        start = 0
    return _excerpt(before, start), _excerpt(after, start)


def _excerpt(text: str | None, start: int) -> str | None:
    if text is None:
        return None
    shown = f"{'…' if start else ''}{text[start:]}"
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def most_frequent(groups: Iterable[str], column: Iterable[str | None]) -> dict[str, list[FirstDifference]]:
    """Return each group's three first differences that are most frequent beyond their frequency in other groups.

    A difference names the group's value if half of these turns or more have it ("various → 1"), and the replaced value
    if that is mostly the same ("3 → 1"); otherwise only the place.

    Args:
        groups: of the counterfactuals' turns.
        column: ``first_difference`` of each.
    """
    turns: Counter[str] = Counter()
    places: dict[Place, dict[str, Counter[tuple[str | None, str | None]]]] = {}
    for group, text in zip(groups, column, strict=True):
        turns[group] += 1
        if isinstance(text, str):
            record = loads(text)
            for place, before, after in record["changes"]:
                by_group = places.setdefault((record["stage"], record["part"], place), {})
                by_group.setdefault(group, Counter())[before, after] += 1
    ranked: dict[str, list[FirstDifference]] = {}
    for group in turns:
        counted = [_counted(place, group, by_group, turns) for place, by_group in places.items() if group in by_group]
        counted = sorted(
            (difference for difference in counted if difference.excess > 0),
            key=lambda difference: (-difference.excess, -difference.turns),
        )
        if counted:  # what occurs once is said where nothing occurs twice
            ranked[group] = [difference for difference in counted[:_MOST] if difference.turns > 1] or counted[:1]
    return ranked


def _counted(
    place: Place, group: str, by_group: Mapping[str, Counter[tuple[str | None, str | None]]], turns: Mapping[str, int]
) -> FirstDifference:
    """Describe the difference at a place in the turns of a group, and its frequency in the other groups."""
    stage, part, where = place
    here = by_group[group]
    afters: Counter[str | None] = Counter()
    for (_, after), number in here.items():
        afters[after] += number
    value, of_value = afters.most_common(1)[0]
    pairs = {pair for seen in by_group.values() for pair in seen}
    pair = max((pair for pair in here if pair[1] == value), key=lambda pair: here[pair])
    if of_value < here.total() / 2:
        change, same = "differs", pairs
    elif here[pair] < _MOSTLY * of_value:
        change, same = f"various → {ending(where, value)}", {pair for pair in pairs if pair[1] == value}
    else:
        change, same = arrow(where, *pair), {pair}
    counts = {
        name: TurnCount(turns=sum(by_group.get(name, Counter())[pair] for pair in same), of=of)
        for name, of in turns.items()
    }
    here_of = counts.pop(group)
    return FirstDifference(
        stage=stage, part=part, place=where, change=change, turns=here_of.turns, of=here_of.of, others=counts
    )


REPEAT = "repeat"
"""Value of the column ``arm`` for the original drawn again, if stages draw their outputs; ``sample`` is then the number
of the pair, whose first member is the original's sample of twice that number."""
RESPONSE = "response"
"""Column of the response that the user reads; the output of a stage of that name."""
FIRST_DIFFERENCE = "first_difference"
"""The column of :mod:`tod_bias.audit.running`."""
FAILURE = "failure"
"""Column of the reason why a turn failed; empty for a turn that ended."""
SYSTEM_PROMPT = "system_prompt"
"""The column of the instructions that a dialogue's system had, in the original's rows; nothing rewrites them."""
_FACTS = ("dialogue", "turn", "variant", "draw", "sample", "source", "group", "term", "user")


class Membership(NamedTuple):
    """The clusters that one dialogue and its counterfactuals belong to."""

    terms: Sequence[Expressions]
    """Per counterfactual: the terms that express the dialogue's own group, and those that express the other one."""
    kinds: Mapping[str, str]
    """Further kinds of clusters, and the dialogue's own."""

    def text(self, number: int) -> str:
        """Return the clusters of one counterfactual as JSON, for the column ``clusters``."""
        source, target, factors = self.terms[number]
        record: dict[str, Any] = {"source": sorted(source), "terms": sorted(target), "kinds": dict(self.kinds)}
        if factors:
            record["factors"] = [{"source": sorted(some.source), "terms": sorted(some.target)} for some in factors]
        return well_formed(json.dumps(record, ensure_ascii=False))


class ChunkRows(NamedTuple):
    """The rows of some dialogues on one axis, and what was seen while they were made."""

    rows: pa.Table
    has_outputs: bool
    """True if any response was more than None."""
    has_calls: bool
    """True if the system has made a call by then."""
    seen: Seen
    """Facts that show if anything is measured."""


class _Place(NamedTuple):
    """Place of a run among those of its dialogue."""

    role: Role
    sample: int
    clusters: str | None = None
    edits: float | None = None
    """Words that its rewriting changes."""
    draw: int = 0
    """Number of the draw of Su's Algorithm 1."""


class _RowBuilder:
    """Rows of one chunk: made once for arms that went the same way, and how they are repeated."""

    def __init__(self, stages: Sequence[str], labels: Sequence[str], graders: Sequence[Grade] = ()) -> None:
        self._stages = stages
        self._labels = labels
        outputs = (*stages, RESPONSE, "reference", "steps", FACTS, FAILURE, FIRST_DIFFERENCE)
        columns = (*_FACTS, SYSTEM_PROMPT, "clusters", "role", "edits", *outputs)
        self.columns: dict[str, list[Any]] = {name: [] for name in columns}
        self.has_outputs = False
        """True if any response was more than None."""
        self.turns: list[ScoredTurn] = []
        self.index: list[int] = []
        self.grades: list[list[tuple[float, float]]] = [[] for _ in graders]
        """For each grade, the statistics of every repeated row: the last turn of a dialogue has its judgement."""
        self._graders = graders
        self.arms: list[str] = []

    def add_dialogue(self, executed: ExecutedVariants, member: Membership) -> None:
        """The turns of all variants of a dialogue."""
        variants, samples, repeats = executed
        clusters = [member.text(number) for number in range(len(variants.groups))]
        edits, placebo_edits = (None, None) if variants.edits is None else variants.edits
        for sample, (original, rewritten) in enumerate(samples):
            self._add(variants.original, original, _Place("original", sample), original)
            for number, (run, trace) in enumerate(zip(variants.rewritten, rewritten, strict=True)):
                if number < len(clusters):
                    place = _Place("group", sample, clusters[number], edits, variants.groups[number].draw)
                elif run is variants.placebo:
                    place = _Place("placebo", sample, edits=placebo_edits)
                else:
                    place = _Place("reference", sample)
                self._add(run, trace, place, original)
        for number, (first, second) in enumerate(repeats):
            self._add_repeat(variants.original, number, first, second)

    def _add(self, run: Run, trace: Trace, place: _Place, original: Trace) -> None:
        """Add the turns of a run in all arms.

        Args:
            run: one variant.
            trace: of its turns.
            place: of the run among those of its dialogue.
            original: trace of the dialogue as it is.
        """
        rows_of_arms: dict[int, list[int]] = {}
        is_after_service = False
        for number, (turn, ways) in enumerate(zip(run.rewritten.turns, trace, strict=True)):
            blind = ways[-1] if run.rewrite is None else _with_all_replaced(ways)
            scored_ways = {way.arms: self._scored(turn, way, is_after_service, run.rewritten.task) for way in ways}
            restore = Restorer(run.rewrite, original[number][0].calls)
            for way in ways:
                row = len(self.turns)
                self._add_row(run, number, turn, way, place)
                self.columns[FACTS].append(facts_text(way.calls, way.failure, restore))
                self.columns[FIRST_DIFFERENCE].append(_differing(blind, way))
                scored = scored_ways[way.arms]
                self.turns.append(scored if way is blind else replace(scored, twin=scored_ways[blind.arms]))
                for arm in way.arms:
                    rows_of_arms.setdefault(arm, []).append(row)
            is_after_service = is_after_service or bool(turn.calls)
        judged: dict[tuple[int, ...], list[float]] = {}
        for arm in sorted(rows_of_arms):
            rows = tuple(rows_of_arms[arm])
            if rows not in judged:
                turns = [self.turns[row] for row in rows]
                judged[rows] = [grader.of_dialogue(turns) for grader in self._graders]
            for grades, value in zip(self.grades, judged[rows], strict=True):
                grades += [(0.0, 0.0)] * (len(rows) - 1) + [(value, 1.0)]
            self.index += rows_of_arms[arm]
            label = self._labels[arm] if place.role != "original" else ORIGINAL
            self.arms += [label] * len(rows_of_arms[arm])

    def _add_row(self, run: Run, number: int, turn: Turn, way: TurnTrace, place: _Place) -> None:
        """One turn that went one way."""
        rewrite, response = run.rewrite, way.response
        kind = (None, None, None) if rewrite is None else (rewrite.source, rewrite.target, rewrite.word)
        facts = (run.rewritten.id, number, run.variant, place.draw, place.sample, *kind, well_formed(str(turn.user)))
        cells = dict(zip(_FACTS, facts, strict=True))
        cells |= {"clusters": place.clusters, "role": place.role, "edits": place.edits}
        cells[SYSTEM_PROMPT] = well_formed(run.rewritten.system) or None if place.role == "original" else None
        cells |= {RESPONSE: as_text(response), "reference": well_formed(str(turn.response))}
        cells |= {stage: as_text(way.outputs.get(stage)) for stage in self._stages}
        cells["steps"] = steps_text(way.calls)
        cells[FAILURE] = well_formed(way.failure) or None
        for name, value in cells.items():
            self.columns[name].append(value)
        self.has_outputs = self.has_outputs or response is not None

    def _add_repeat(self, run: Run, pair: int, first: Trace, second: Trace) -> None:
        """The turns of the original drawn again, compared with the first draw as with a twin."""
        start = len(self.turns)
        self._add(run, second, _Place("original", pair), first)
        for number, (turn, (way,)) in enumerate(zip(run.rewritten.turns, first, strict=True)):
            self.turns[start + number] = replace(
                self.turns[start + number], twin=self._scored(turn, way, task=run.rewritten.task)
            )
        self.arms[-len(first) :] = [REPEAT] * len(first)

    def _scored(
        self, turn: Turn, way: TurnTrace, is_after_service: bool = False, task: Task | None = None
    ) -> ScoredTurn:
        response = as_text(way.response)
        facts: dict[str, Any] = {"is_after_service": is_after_service, "failure": way.failure, "task": task}
        return scored_turn(turn, way.calls, response, self._stages, **facts)


def _differing(blind: TurnTrace, way: TurnTrace) -> str | None:
    """The first step that differs from T of the original's, as JSON; None of other arms than that without swaps."""
    record = None if way is blind or 0 not in way.arms else first_difference(blind.calls, way.calls)
    return None if record is None else well_formed(json.dumps(record, ensure_ascii=False))


def _with_all_replaced(ways: Sequence[TurnTrace]) -> TurnTrace:
    """The turn in the arm that has every stage replaced, which has the highest number."""
    return max(ways, key=lambda way: way.arms[-1])


def steps_text(steps: Iterable[StageCall]) -> str:
    """Return the calls of a turn as JSON: ``[[name, argument, output], …]``, arguments and outputs as text."""
    record = [
        [name, None if argument is None else as_text(argument), as_text(output)] for name, argument, output in steps
    ]
    return well_formed(json.dumps(record, ensure_ascii=False))


def schema_of(names: Sequence[str], metrics: Sequence[Metric]) -> pa.Schema:
    """The columns of the table of turns.

    Args:
        names: the system's stages.
        metrics: score turns.

    Raises:
        TodBiasError: a metric's statistic is called like another one, a stage, or a column of the table.
    """
    import pandas as pd
    import pyarrow as pa

    texts = ["axis", *_FACTS[:-1], "clusters", "role", "arm", SYSTEM_PROMPT, "user", *names]
    texts += [*([] if RESPONSE in names else [RESPONSE]), "reference", "steps", FACTS, FAILURE, FIRST_DIFFERENCE]
    taken = {*texts, *_FACTS, "edits"}
    for metric in metrics:
        for name in metric.columns:
            if name in taken:
                raise TodBiasError(f"metric {metric.name!r}: its statistic {name!r} is a column already; rename it")
            taken.add(name)
    kinds: dict[str, str] = dict.fromkeys(texts, "str") | dict.fromkeys(("turn", "draw", "sample"), "int64")
    kinds["edits"] = "float64"
    for metric in metrics:
        kinds |= dict.fromkeys(metric.columns, "float64")
    prototype = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})
    return pa.Schema.from_pandas(prototype, preserve_index=False)


class TurnRows:
    """Makes the rows of dialogues.

    Args:
        arms: of the run.
        metrics: score turns.
    """

    def __init__(self, arms: ArmDesign, metrics: Sequence[Metric]) -> None:
        self._names = arms.stages
        self._labels = arms.keys(whole=True)
        self._metrics = [metric for metric in metrics if not isinstance(metric, Grade)]
        self._graders = [metric for metric in metrics if isinstance(metric, Grade)]
        self._schema = schema_of(arms.stages, metrics)

    def of(
        self, axis: str, executed: Sequence[ExecutedVariants], members: Sequence[Membership], *, calls: bool
    ) -> ChunkRows:
        """Make the rows of some dialogues on one axis.

        Args:
            axis: its name.
            executed: traces of the variants of each dialogue.
            members: the clusters of each.
            calls: True if the system is known to make calls; updated in :attr:`ChunkRows.has_calls`.
        """
        builder = _RowBuilder(self._names, self._labels, self._graders)
        for variants, member in zip(executed, members, strict=True):
            builder.add_dialogue(variants, member)
        # a system that has made a call makes calls: turns without one lack it, and count
        calls = calls or any(turn.has_calls for turn in builder.turns)
        table = self._table(axis, builder, with_calls(builder.turns, known=calls))
        return ChunkRows(table, builder.has_outputs, calls, Seen.of(builder.turns))

    def _table(self, axis: str, builder: _RowBuilder, turns: Sequence[ScoredTurn]) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        index = np.array(builder.index)
        columns: dict[str, Any] = {
            name: pa.array(values).take(pa.array(index)) for name, values in builder.columns.items()
        }
        columns["axis"] = pa.array([axis]).take(pa.array(np.zeros(len(index), dtype=int)))
        columns["arm"] = pa.array(builder.arms)
        is_whole = pc.equal(columns["arm"], "")  # rows of other arms that went the same way are copies
        columns[FIRST_DIFFERENCE] = pc.if_else(is_whole, columns[FIRST_DIFFERENCE], None)
        for metric in self._metrics:
            statistics = np.asarray(metric.statistics(turns), dtype=float)[index]
            columns |= {name: statistics[:, number] for number, name in enumerate(metric.columns)}
        for grader, grades in zip(self._graders, builder.grades, strict=True):
            columns |= dict(zip(grader.columns, np.array(grades, dtype=float).reshape(-1, 2).T, strict=True))
        arrays = [
            pa.array(columns[field.name], type=field.type)
            if isinstance(columns[field.name], np.ndarray)
            else columns[field.name].cast(field.type)
            for field in self._schema
        ]
        return pa.Table.from_arrays(arrays, schema=self._schema)
