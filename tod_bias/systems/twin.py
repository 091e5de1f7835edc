"""The idea of this project: replace a stage by its equivariant twin.

A stage f is fair under a demographic rewrite T when f(T x) = T f(x). Its *twin* is fair by construction::

    f_T(x~) = T( f( T^-1 x~ ) )

and putting the twin in a stage's place removes that stage's share of the bias and nothing else. For an API-call model
this is Su's step 3 (the rewritten call of the original utterance), for a lookup database Su's step 2 (a lookup in the
rewritten database).

What a twin only hands on it leaves as it is. Where a stage before it put out a string x that T⁻¹ does not undo,
T(T⁻¹ x) ≠ x, such as "he" in a dialogue that was rewritten for a woman, T would mend x on its way through, and the twin
would be credited with what the stage before it did (:func:`not_undone`, :func:`rewritten_except`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from tod_bias.dialogues.string_map import TextMap
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
    outputs = {name: output for name, _, output in steps}
    if given := {name: output for name, output in item.outputs.items() if name not in outputs}:
        outputs = {**inverse(given), **outputs}  # without a call in this turn, as ParlAI gives them
    argument = None if item.argument is None else inverse(item.argument)
    facts = (item.system, item.sample, item.draw, inverse(item.task))
    return StageInput(inverse(item.history), inverse(item.user), outputs, steps, argument, *facts)


def not_undone(value: Any, rewrite: Rewrite) -> dict[str, str]:
    """The strings x in a value that T⁻¹ does not undo, T(T⁻¹ x) ≠ x: T⁻¹ x to x."""
    strings: dict[str, str] = {}

    def look(text: str) -> str:
        back = str(rewrite.inverse(text))
        if text and rewrite(back) != text:
            strings[back] = text
        return text

    TextMap(look)(value)
    return strings


def rewritten_except(output: V, rewrite: Rewrite, strings: Mapping[str, str]) -> V:
    """T of an output, but for what is handed on.

    Args:
        output: of a stage that was called with T⁻¹ of its input.
        rewrite: T.
        strings: what T⁻¹ did not undo in the input (:func:`not_undone`); if its image occurs in the output as a whole
            word, the string is restored.
    """
    if not strings:
        return rewrite(output)
    longest = sorted(strings, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest))})(?!\w)")

    def change(text: str) -> str:
        parts = pattern.split(text)  # every second one is a string that is handed on
        return "".join(strings[part] if number % 2 else str(rewrite(part)) for number, part in enumerate(parts))

    return TextMap(lambda text: change(text) if pattern.search(text) else rewrite(text))(output)


class Twin(Wrapper):
    """The equivariant twin of any stage: T(stage(T⁻¹ x)).

    In a pipeline the engine knows each dialogue's T; elsewhere :meth:`under` binds one. If nothing was rewritten, the
    twin equals the stage.

    Args:
        inner: the stage that is made equivariant.
        rewrite: T; None if nothing was rewritten.
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
        return [
            rewritten_except(output, self.rewrite, not_undone((item.outputs, item.steps, item.argument), self.rewrite))
            for item, output in zip(inputs, outputs, strict=True)
        ]


def untwinned(stage: Stage) -> Stage:
    """Return the stage itself if it is a twin, or a twin of a twin."""
    while isinstance(stage, Twin):
        stage = stage.inner
    return stage
