"""The one idea of this project: replacing a stage by its equivariant twin.

A stage f is fair under a demographic rewrite T when f(T x) = T f(x). Its *twin* is fair by construction::

    f_T(x~) = T( f( T^-1 x~ ) )

and putting the twin in a stage's place removes that stage's share of the bias and nothing else. For an API-call model
this is Su's step 3 (the rewritten call of the original utterance), for a lookup database Su's step 2 (a lookup in the
rewritten database).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from tod_bias.systems.stage import Stage, StageCall, StageInput, Wrapper, call_stage

V = TypeVar("V")


@runtime_checkable
class Rewrite(Protocol):
    """One demographic rewriting T of one dialogue, and its inverse."""

    axis: str
    """``gender``, ``age``, ``race``, ``placebo`` or the user's own."""
    source: str
    """The group whose terms are rewritten."""
    target: str
    """The group they are rewritten to."""
    word: str
    """The term that Algorithm 1 drew."""

    def __call__(self, value: V, /) -> V:
        """T: rewrite every string inside ``value`` (text, mapping values, sequences, dataclasses)."""

    def inverse(self, value: V, /) -> V:
        """T⁻¹: exact on what T produced, lexical on other strings."""


def unrewritten(item: StageInput, rewrite: Rewrite) -> StageInput:
    """T⁻¹ of everything that a stage reads."""
    inverse = rewrite.inverse
    steps = tuple(StageCall(name, inverse(argument), inverse(output)) for name, argument, output in item.steps)
    outputs = {name: output for name, _, output in steps} if steps else inverse(item.outputs)
    argument = None if item.argument is None else inverse(item.argument)
    return StageInput(
        inverse(item.history), inverse(item.user), outputs, steps, argument, item.system, item.sample, item.draw
    )


class Twin(Wrapper):
    """The equivariant twin of any stage: T(stage(T⁻¹ x)).

    In a pipeline the engine knows each dialogue's T; alone, :meth:`under` binds one. Where nothing was rewritten it is
    the stage itself.

    Args:
        inner: the stage that is made equivariant.
        rewrite: T; None where nothing was rewritten.
    """

    def __init__(self, inner: Stage | Callable[..., Any], rewrite: Rewrite | None = None) -> None:
        super().__init__(inner)
        self.rewrite = rewrite

    def under(self, rewrite: Rewrite | None) -> Twin:
        """The twin under one T."""
        return Twin(self.inner, rewrite)

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """The twin's outputs, one per input."""
        if self.rewrite is None:
            return call_stage("twin", self.inner, inputs)
        outputs = call_stage("twin", self.inner, [unrewritten(item, self.rewrite) for item in inputs])
        return [self.rewrite(output) for output in outputs]


def untwinned(stage: Stage) -> Stage:
    """The stage itself, where it is a twin, or a twin's twin."""
    while isinstance(stage, Twin):
        stage = stage.inner
    return stage
