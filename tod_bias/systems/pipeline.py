"""Stages, pipelines, and the one idea of this project: swapping a stage for its equivariant twin.

A stage f is fair under a demographic rewrite T when f(T x) = T f(x). Its *twin* is fair by construction::

    f_T(x~) = T( f( T^-1 x~ ) )

and putting the twin in a stage's place removes that stage's part of the bias and nothing else. For an API-call model
this is Su's step 3 (the rewritten call of the original utterance), for a lookup database Su's step 2 (a lookup in the
rewritten database).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

from tod_bias.dialogues.dialogue import Turn, context_text
from tod_bias.errors import StageError, TodBiasError, described

V = TypeVar("V")

RESERVED = frozenset(
    [
        "order",
        "residual",
        "original",
        "axis",
        "dialogue",
        "turn",
        "draw",
        "source",
        "target",
        "word",
        "arm",
        "user",
        "reference",
    ]
)
"""Names that stages cannot have: results and their tables use them for something else."""


@runtime_checkable
class Rewrite(Protocol):
    """One demographic rewriting T of one dialogue, and its inverse."""

    axis: str
    """``gender``, ``age``, ``race``, ``placebo`` or the user's own."""
    source: str
    """The attribute whose words are rewritten."""
    target: str
    """The attribute they are rewritten to."""
    word: str
    """The word that Algorithm 1 drew."""

    def __call__(self, value: V, /) -> V:
        """T: rewrite every string inside ``value`` (text, mapping values, sequences, dataclasses)."""

    def inverse(self, value: V, /) -> V:
        """T⁻¹: exact on what T produced, lexical on other strings."""


@dataclass(frozen=True)
class StageInput:
    """What one stage may read for one turn. Stages never change it."""

    history: tuple[Turn, ...]
    """The turns before this one: gold in teacher-forced mode, the system's own in free-running mode."""
    user: str
    """The user's utterance."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """What the earlier stages of this turn put out, by stage name."""
    rewrite: Rewrite | None = None
    """The rewrite that this input went through; for :class:`Twin`, not for a stage's own use."""

    @property
    def context(self) -> str:
        """History and utterance as ParlAI's task-oriented text, the latest ``USER:`` line last."""
        return context_text(self.history, self.user)


@runtime_checkable
class Stage(Protocol):
    """Anything that can be called with a batch of inputs: a function, a model, a database, a remote service.

    It returns one output an input, in the same order, and leaves its inputs alone. The same input must give the same
    output, however it is batched: equal inputs are computed once and shared.
    """

    def __call__(self, inputs: Sequence[StageInput], /) -> Sequence[Any]:
        """One output an input, in the same order."""


def unrewrite(item: StageInput) -> StageInput:
    """T⁻¹ of a whole stage input; the result carries no rewrite, as any original input."""
    if item.rewrite is None:
        return item
    inverse = item.rewrite.inverse
    return StageInput(inverse(item.history), inverse(item.user), inverse(item.outputs))


@dataclass(frozen=True)
class Twin:
    """The equivariant twin of any stage: T(stage(T⁻¹ x)). On input without a rewrite it is the stage itself."""

    stage: Stage
    """The stage that is made equivariant."""

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """The twin's outputs, one an input."""
        outputs = call_stage("twin", self.stage, [unrewrite(item) for item in inputs])
        return [
            output if item.rewrite is None else item.rewrite(output)
            for item, output in zip(inputs, outputs, strict=True)
        ]


def call_stage(name: str, stage: Stage, inputs: Sequence[StageInput]) -> list[Any]:
    """Call a stage and check that it kept its contract.

    Raises:
        StageError: it raised something else than an error of this package, or did not return one output an input.
    """
    try:
        outputs = stage(inputs)
        if isinstance(outputs, Iterable) and not isinstance(outputs, (str, bytes)):
            outputs = list(outputs)  # here, since a generator raises only when it is read
    except TodBiasError:
        raise
    except Exception as error:
        kind = stage if hasattr(stage, "__qualname__") else type(stage)
        raise StageError(
            f"stage {name!r} ({kind.__module__}:{kind.__qualname__}): {described(error)}; "
            "fix the stage and run again, what models generated is kept in the run's cache"
        ) from error
    if not isinstance(outputs, list):
        raise StageError(
            f"stage {name!r}: expected a sequence with one output an input, got {type(outputs).__name__}; "
            "a stage is called with a list of inputs, not with one"
        )
    if len(outputs) != len(inputs):
        raise StageError(f"stage {name!r}: expected {len(inputs)} outputs (one an input), got {len(outputs)}")
    return outputs


@dataclass(frozen=True)
class Pipeline:
    """Stages in order; the key names a stage's output for the stages after it. The last one's output is scored."""

    stages: Mapping[str, Stage]
    """Name to stage, in the order in which they run."""

    def __post_init__(self) -> None:
        if not isinstance(self.stages, Mapping) or not self.stages:
            raise StageError("a pipeline needs at least one stage: Pipeline({'response': stage})")
        for name, stage in self.stages.items():
            if not isinstance(name, str) or not name or "," in name:
                raise StageError(f"stage name {name!r}: expected a non-empty string without a comma")
            if name in RESERVED:
                raise StageError(f"stage name {name!r}: is taken by a column of the results; choose another name")
            if not callable(stage):
                raise StageError(f"stage {name!r}: expected a callable, got {type(stage).__name__}")
        object.__setattr__(self, "stages", dict(self.stages))

    @property
    def names(self) -> tuple[str, ...]:
        """Stage names in order."""
        return tuple(self.stages)

    def __call__(self, inputs: Sequence[StageInput], /) -> list[StageInput]:
        """Run all stages; returns the inputs with every stage's output added to ``outputs``."""
        items = list(inputs)
        for name, stage in self.stages.items():
            outputs = call_stage(name, stage, items)
            items = [add_output(item, name, output) for item, output in zip(items, outputs, strict=True)]
        return items

    def swap(self, names: Iterable[str]) -> Pipeline:
        """A copy in which the named stages are replaced by their twins; the others are reused.

        Raises:
            StageError: a name is not a stage of this pipeline.
        """
        chosen = set(names)
        if unknown := sorted(chosen - set(self.stages)):
            raise StageError(f"no stage {unknown[0]!r} in this pipeline; it has {', '.join(self.stages)}")
        return Pipeline({name: Twin(stage) if name in chosen else stage for name, stage in self.stages.items()})


def add_output(item: StageInput, name: str, output: Any) -> StageInput:
    """A copy of ``item`` with one more stage output."""
    return dataclasses.replace(item, outputs={**item.outputs, name: output})
