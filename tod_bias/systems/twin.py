"""The one idea of this project: putting an equivariant twin in a component's place.

A component f is fair under a demographic rewrite T when f(T x) = T f(x). Its *twin* is fair by construction::

    f_T(x~) = T( f( T^-1 x~ ) )

and putting the twin in a component's place removes that component's part of the bias and nothing else. For an API-call
model this is Su's step 3 (the rewritten call of the original utterance), for a lookup database Su's step 2 (a lookup
in the rewritten database).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from tod_bias.systems.stage import Asked, Stage, StageInput, call_stage

V = TypeVar("V")


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


def unrewritten(item: StageInput, rewrite: Rewrite) -> StageInput:
    """T⁻¹ of everything that a component reads."""
    inverse = rewrite.inverse
    steps = tuple(Asked(name, inverse(argument), inverse(output)) for name, argument, output in item.steps)
    outputs = {name: output for name, _, output in steps} if steps else inverse(item.outputs)
    argument = None if item.argument is None else inverse(item.argument)
    return StageInput(
        inverse(item.history), inverse(item.user), outputs, steps, argument, item.system, item.sample, item.draw
    )


@dataclass(frozen=True)
class Twin:
    """The equivariant twin of any stage: T(stage(T⁻¹ x)).

    In a pipeline the engine knows each dialogue's T; alone, :meth:`under` binds one. Where nothing was rewritten it is
    the stage itself.
    """

    stage: Stage
    """The stage that is made equivariant."""
    rewrite: Rewrite | None = None
    """T; None where nothing was rewritten."""

    def under(self, rewrite: Rewrite | None) -> Twin:
        """The twin under one T."""
        return Twin(self.stage, rewrite)

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """The twin's outputs, one an input."""
        if self.rewrite is None:
            return call_stage("twin", self.stage, inputs)
        outputs = call_stage("twin", self.stage, [unrewritten(item, self.rewrite) for item in inputs])
        return [self.rewrite(output) for output in outputs]


def untwinned(stage: Any) -> Any:
    """The stage itself, where it is a twin, or a twin's twin."""
    while isinstance(stage, Twin):
        stage = stage.stage
    return stage
