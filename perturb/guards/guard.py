"""Guards: a stage at run time that makes any other blind to an axis, without training.

For every rewrite T within an axis's terms a guard g of a deterministic stage f gives ``g(T x) == T g(x)``, whatever f
does. It does not know T: it finds the *reference form* R(x), which is the same for x and for every T x
(R(T x) = R(x)), calls f with it, and rewrites the output as x says it, term for term. In the field's words
``canonical`` is input normalisation, ``neutral`` masking, ``vote`` an ensemble.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

from tod_bias.canonical import NotPlainError, canonical
from tod_bias.dialogues.string_map import TextMap
from tod_bias.errors import AxisError, StageError, repeated
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.guards.inputs import Change, ReferenceInput
from tod_bias.perturb.guards.names import NamesInput
from tod_bias.perturb.guards.terms import ReferenceRewriter, TermsInput
from tod_bias.perturb.lexicon_axis import LexiconAxis
from tod_bias.perturb.loading import load_axis
from tod_bias.perturb.names.axis import NamesAxis
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import (
    InnerCalls,
    InputWrapper,
    Stage,
    StageInput,
    TurnInput,
    cache_signature,
    call_stage,
)
from tod_bias.systems.twin import Twin, untwinned

MASK = "[MASK]"
"""What stands for a mention, as in Shen §3.5."""


@dataclass
class GuardCounts:
    """What a guard has met on its axis."""

    inputs: int = 0
    """Inputs."""
    rewritten: int = 0
    """Inputs that mention the axis, and so were rewritten."""
    mentions: int = 0
    """Mentions in them."""
    uncovered: int = 0
    """Mentions that may have another reference form in some counterfactual, and so another output."""
    covered: int = 0
    """Inputs without such a mention: for these, and whatever the stage does, ``guard(T x) == T guard(x)``."""

    def to_json(self) -> dict[str, int]:
        """The counts by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class GuardedAxis:
    """An axis as guards use it."""

    name: str
    signature: str
    """What decides the reference forms, as one line."""
    read: Callable[[StageInput], ReferenceInput]
    """The reference form of an input."""


def guarded_axis(axis: str | Axis, reference: str | None = None) -> GuardedAxis:
    """What guards need of an axis.

    Args:
        axis: its name (``gender``, ``names_race`` …), or an axis with a lexicon or of names.
        reference: the group that everybody is rewritten to, on an axis with a lexicon.

    Raises:
        AxisError: guards do not know axes of this kind, or there is no such axis or group.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    if type(axis) is LexiconAxis:
        rewriter = ReferenceRewriter(axis, reference)
        return GuardedAxis(axis.name, f"{axis.signature}|reference:{rewriter.target}", partial(TermsInput, rewriter))
    if isinstance(axis, NamesAxis):
        if reference is not None:
            raise AxisError(f"axis {axis.name!r}: names have no reference group; leave out {reference!r}")
        return GuardedAxis(axis.name, axis.signature, partial(NamesInput, axis))
    raise AxisError(
        f"axis {axis.name!r}: guards know words by a lexicon (gender, age, race …) and names (names_gender, "
        "names_race); give a lexicon of its words, or leave it out"
    )


class Guard(InputWrapper):
    """Base of the guards; with several axes a guard of the first wraps one of the others.

    Args:
        stage: any.
        axes: the axis, or several: names joined by commas, a list of names, or axes by a lexicon or of names.
        reference: axis to the group that everybody is rewritten to, for axes with a lexicon; by default what the
            lexicon says (``@reference``).

    Raises:
        AxisError: no axis, an unknown one, or one that guards do not know.
        StageError: the stage cannot be called.
    """

    kind: ClassVar[str] = ""
    """Its name in pipeline files."""

    def __init__(self, stage: Stage, axes: Any, *, reference: Mapping[str, str] | None = None, **options: Any) -> None:
        first, *others = _axes(axes)
        name = first if isinstance(first, str) else first.name
        try:
            super().__init__(stage if not others else type(self)(stage, others, reference=reference, **options))
        except StageError as error:
            raise StageError(f"guard {self.kind!r}: {error}") from error
        self.axis = guarded_axis(first, (reference or {}).get(name))
        self.seen = GuardCounts()
        """What it has met so far."""
        self._options = options

    @cached_property
    def signature(self) -> str:  # type: ignore[override]
        """What decides its outputs: the kind of guard, the axis, and the stage; empty where the stage has none."""
        try:
            return self.derived_signature()
        except NotPlainError:
            return ""

    def derived_signature(self) -> str:
        """The signature.

        Raises:
            NotPlainError: the stage has none.
        """
        options = "".join(f"|{name}:{value}" for name, value in sorted(self._options.items()))
        return f"guard:{self.kind}|{self.axis.signature}{options}|{cache_signature(self.inner)}"

    @property
    def coverage(self) -> dict[str, dict[str, int]]:
        """Axis to what was met on it (:class:`GuardCounts`)."""
        inner = self.inner.coverage if isinstance(self.inner, Guard) else {}
        return {self.axis.name: self.seen.to_json(), **inner}

    def inner_calls(self, item: StageInput) -> InnerCalls:
        """What the stage is called with for one input, and how its outputs become the guard's."""
        read = self.axis.read(item)
        self.seen.inputs += 1
        self.seen.rewritten += read.mentions > 0
        self.seen.mentions += read.mentions
        self.seen.uncovered += read.uncovered
        self.seen.covered += not read.uncovered
        return self._calls(read)

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """The stage's outputs for the reference forms, as the inputs say them; equal ones are called once."""
        made = [self.inner_calls(item) for item in inputs]
        distinct = {_key(item): item for calls in made for item in calls.items}
        outputs = dict(zip(distinct, call_stage(self.kind, self.inner, list(distinct.values())), strict=True))
        return [calls.combine([outputs[_key(item)] for item in calls.items]) for calls in made]

    def _calls(self, read: ReferenceInput) -> InnerCalls:
        raise NotImplementedError


class Canonical(Guard):
    """Calls the stage with the reference form, and rewrites its output as the input says it.

    Mentions of the axis become those of one group (names one set of names), so the stage sees no difference between the
    counterfactuals of a dialogue. What is lost: two people whom the input tells apart by the axis alone look alike.
    """

    kind = "canonical"

    def _calls(self, read: ReferenceInput) -> InnerCalls:
        return InnerCalls((read.item,), lambda outputs: read.back(outputs[0]))


class Neutral(Guard):
    """Masks the mentions (Shen §3.5), where the output needs none: the stage's output stays as it is.

    Args:
        mask: what stands in their places.
    """

    kind = "neutral"

    def __init__(
        self, stage: Stage, axes: Any, *, mask: str = MASK, reference: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(stage, axes, reference=reference, mask=mask)
        self._mask = mask

    def _calls(self, read: ReferenceInput) -> InnerCalls:
        item = read.changed(lambda text: read.masked(text, self._mask))
        return InnerCalls((item,), lambda outputs: outputs[0])


class Vote(Guard):
    """Calls the stage for every group of the axis, and takes the most frequent output, or merges rankings.

    Outputs are compared in their reference form. Among equally frequent ones that for the group that comes first on
    the axis is taken. Lists are rankings: items are ordered by their mean place (what a list lacks stands behind it),
    ties by the group that brings them first; there are as many as most lists have. As all inputs are made from
    the reference form, nothing here depends on the group that the input mentions.
    """

    kind = "vote"

    def _calls(self, read: ReferenceInput) -> InnerCalls:
        versions: Sequence[tuple[Change, Change]] = read.versions() if read.mentions else [(str, str)]

        def combined(outputs: Sequence[Any]) -> Any:
            given = [TextMap(back)(output) for (_, back), output in zip(versions, outputs, strict=True)]
            return read.back(_chosen(given))

        return InnerCalls(tuple(read.changed(change) for change, _ in versions), combined)


def _chosen(outputs: Sequence[Any]) -> Any:
    if all(type(output) is list for output in outputs):
        return _merged(outputs)
    keys = list(map(canonical, outputs))
    counts = Counter(keys)
    return outputs[max(range(len(keys)), key=lambda number: (counts[keys[number]], -number))]


def _merged(rankings: Sequence[list[Any]]) -> list[Any]:
    keys = [_numbered(ranking) for ranking in rankings]
    items = {
        key: item
        for ranking, names in zip(rankings, keys, strict=True)
        for key, item in zip(names, ranking, strict=True)
    }
    order = {key: number for number, key in enumerate(dict.fromkeys(key for names in keys for key in names))}

    def mean_place(key: Any) -> float:
        return sum(names.index(key) if key in names else len(names) for names in keys) / len(keys)

    best = sorted(order, key=lambda key: (mean_place(key), order[key]))
    return [items[key] for key in best[: Counter(map(len, rankings)).most_common(1)[0][0]]]


def _numbered(ranking: Sequence[Any]) -> list[tuple[Any, int]]:
    """What stands for each item: equal ones of one list get different numbers, so that none is lost."""
    seen: Counter[Any] = Counter()
    keys = []
    for item in ranking:
        key = canonical(item)
        keys.append((key, seen[key]))
        seen[key] += 1
    return keys


GUARDS: Mapping[str, Callable[..., Guard]] = {"canonical": Canonical, "neutral": Neutral, "vote": Vote}
"""The guards by the names that pipeline files use."""


def guarded(stage: Stage, kind: str, axes: Any, **options: Any) -> Guard:
    """A stage under a guard by its name.

    Raises:
        StageError: no such guard, or the stage cannot be called.
        AxisError: an axis that guards do not know.
    """
    if kind not in GUARDS:
        raise StageError(f"unknown guard {kind!r}; expected one of {', '.join(GUARDS)}")
    return GUARDS[kind](stage, axes, **options)


def with_guards(pipeline: Pipeline, guards: Mapping[str, tuple[str, Any]] | str) -> Pipeline:
    """A copy of a system with some stages under guards.

    Args:
        pipeline: the system.
        guards: stage to the kind of guard and its axes; or as one text, ``response=canonical:gender,age``, several
            with a semicolon between them.

    Raises:
        StageError: no such stage or guard, or the text cannot be read.
        AxisError: an axis that guards do not know.
    """
    chosen = _read(guards) if isinstance(guards, str) else guards
    stages = dict(pipeline.stages)
    for name, (kind, axes) in chosen.items():
        if name not in stages:
            raise StageError(f"guard of {name!r}: no such stage; there are {', '.join(stages)}")
        stage = stages[name]
        stages[name] = (
            Twin(guarded(untwinned(stage), kind, axes)) if isinstance(stage, Twin) else guarded(stage, kind, axes)
        )
    return Pipeline(stages, pipeline.flow, pipeline.concurrency)


def _read(text: str) -> dict[str, tuple[str, str]]:
    guards = {}
    for part in text.split(";"):
        name, equals, what = part.partition("=")
        kind, colon, axes = what.partition(":")
        if not (equals and colon and name.strip() and axes.strip()):
            raise StageError(
                f"guard {part.strip()!r}: expected COMPONENT=GUARD:AXES, such as response=canonical:gender,age "
                f"(guards: {', '.join(GUARDS)}), several with a semicolon between them"
            )
        guards[name.strip()] = (kind.strip(), axes)
    return guards


def _axes(axes: Any) -> list[Any]:
    given: Iterable[Any] = axes.split(",") if isinstance(axes, str) else axes if isinstance(axes, Iterable) else [axes]
    names: list[Any] = []
    for axis in given:
        parts = axis.split("×") if isinstance(axis, str) else [axis]
        names += [part.strip() if isinstance(part, str) else part for part in parts]
    if not names or not all(names):
        raise AxisError("a guard needs an axis: gender, age, race, names_gender …, several joined by commas")
    if doubled := repeated(name for name in names if isinstance(name, str)):
        raise AxisError(f"a guard of the axis {doubled!r} twice: name it once")
    return names


def _key(item: StageInput) -> str:
    return TurnInput.of(item).key(item.argument, is_random=True)
