"""Guards: wrappers that hide a demographic axis from a stage at run time, without training.

A guard is a twin whose rewrite is made from the input alone: it rewrites every term of the axis to one reference form
(T), calls the stage, and turns the output back (T⁻¹). Two counterfactuals of a dialogue have the same reference form,
so the stage treats them alike. In the field's words ``canonical`` is input normalisation, ``neutral`` masking
(Shen §3.5) and ``vote`` an ensemble.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.string_map import TextMap
from tod_bias.errors import AxisError, StageError, repeated
from tod_bias.io.canonical import NotPlainError
from tod_bias.perturb.axis import Axis, Candidate
from tod_bias.perturb.context import entity_names
from tod_bias.perturb.lexicon import SLOTS, Form, Paradigm
from tod_bias.perturb.lexicon_axis import LexiconAxis, dialogue_rewrite
from tod_bias.perturb.loading import load_axis
from tod_bias.perturb.names.axis import NamesAxis
from tod_bias.perturb.names.resources import GENDERS, dealt, dealt_last
from tod_bias.perturb.personas.axis import PersonaAxis
from tod_bias.perturb.pronouns import SUBJECT, THEY
from tod_bias.perturb.rewrite import DialogueRewrite, texts_of, tokens
from tod_bias.perturb.rewriter import Mention, Recogniser, TextRewriter
from tod_bias.systems.outputs import rows_of
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import InnerCalls, InputWrapper, Stage, StageInput, cache_signature
from tod_bias.systems.twin import Twin, unrewritten, untwinned

V = TypeVar("V")
MODES = ("canonical", "neutral", "vote")
"""Call the stage with the reference form; with a mask; or once per group, and take the most frequent output."""
MASK = "[MASK]"
_REFERENCE = "\N{REFERENCE MARK}"
"""The group of reference forms in a lexicon; no lexicon file names a group so."""
_NAME_SETS = 3
"""Sets of names under which a stage votes."""


class Guard(InputWrapper):
    """A stage that is blind to the groups of an axis; with several axes, one guard wraps the next.

    Args:
        stage: any stage.
        axes: an axis or several: names joined by commas, a list of names, or axes of a lexicon, of names or of
            introductions. Introductions are taken out of the input in every mode.
        mode: one of :data:`MODES`.
        reference: axis to the group whose terms are the reference form, for axes with a lexicon; by default the
            lexicon's ``@reference``, else its first group.

    Raises:
        AxisError: no axis, an unknown one, or one that a guard cannot rewrite.
        StageError: an unknown mode, or a stage that cannot be called.
    """

    def __init__(
        self, stage: Stage, axes: Any, mode: str = "canonical", *, reference: Mapping[str, str] | None = None
    ) -> None:
        if mode not in MODES:
            raise StageError(f"unknown guard {mode!r}; expected one of {', '.join(MODES)}")
        first, *others = _listed(axes)
        super().__init__(Guard(stage, others, mode, reference=reference) if others else stage)
        self.mode, self.axis = mode, load_axis(first) if isinstance(first, str) else first
        if type(self.axis) is LexiconAxis:
            group = (reference or {}).get(self.axis.name) or self.axis.lexicon.reference or self.axis.groups[0]
            self._reference = self.axis.group(group)
        elif not isinstance(self.axis, NamesAxis | PersonaAxis):
            raise AxisError(f"axis {self.axis.name!r}: guards take axes with a lexicon, of names or of introductions")

    @cached_property
    def signature(self) -> str:  # type: ignore[override]
        """The mode, the axis and the stage; empty if the stage has no signature."""
        try:
            return self.derived_signature()
        except NotPlainError:
            return ""

    def derived_signature(self) -> str:
        """Return the signature; raise NotPlainError if the stage has none."""
        reference = f"|reference:{self._reference}" if type(self.axis) is LexiconAxis else ""
        return f"guard:{self.mode}|{self.axis.signature}{reference}|{cache_signature(self.inner)}"

    def inner_calls(self, item: StageInput) -> InnerCalls:
        """Return the calls of the stage for one input, and how its output is made from theirs."""
        forms = self._forms(_dialogue_of(item))
        return InnerCalls(tuple(unrewritten(item, form) for form in forms), partial(self._combined, forms))

    def _combined(self, forms: Sequence[_Form], outputs: Sequence[Any]) -> Any:
        """Return the most frequent output in the words of the input, the first of equals; a mask is not undone."""
        if self.mode == "neutral":
            return outputs[0]
        restored = [form(output) for form, output in zip(forms, outputs, strict=True)]
        return max(restored, key=restored.count)

    def _forms(self, dialogue: Dialogue) -> list[_Form]:
        """Return the reference forms of an input: one, or one per vote."""
        if isinstance(self.axis, PersonaAxis):
            return [_Form([_Unintroduced(self.axis)])]
        if isinstance(self.axis, NamesAxis):
            sets = range(_NAME_SETS if self.mode == "vote" else 1)
            return [_Form(_renamings(self.axis, dialogue, number, self.mode == "neutral")) for number in sets]
        forms = [_Form(writer.rewrites(dialogue)) for writer in self._writers]
        return forms if forms[0].rewrites else forms[:1]

    @cached_property
    def _writers(self) -> list[_ReferenceWriter]:
        assert isinstance(self.axis, LexiconAxis)
        groups = self.axis.groups if self.mode == "vote" else (self._reference,)
        return [_ReferenceWriter(self.axis, group, self.mode == "neutral") for group in groups]


class _Unintroduced:
    """Rewrite that takes the introductions of an axis out of all texts; nothing puts them back."""

    def __init__(self, axis: PersonaAxis) -> None:
        self._without = TextMap(lambda text: axis.introductions.sub("", text).strip())

    def __call__(self, value: V, /) -> V:
        """Return a value without introductions."""
        made: V = self._without(value)
        return made

    def inverse(self, value: V, /) -> V:
        """Return the value."""
        return value


class _Form:
    """One reference form of an input, as a rewrite that a twin undoes first: its inverse makes the reference form."""

    axis = source = target = word = ""

    def __init__(self, rewrites: Sequence[DialogueRewrite | _Unintroduced]) -> None:
        self.rewrites = rewrites

    def __call__(self, value: V, /) -> V:
        """Return a value of the stage in the words of the input."""
        for rewrite in reversed(self.rewrites):
            value = rewrite.inverse(value)
        return value

    def inverse(self, value: V, /) -> V:
        """Return a value of the input in its reference form."""
        for rewrite in self.rewrites:
            value = rewrite(value)
        return value


class _ReferenceWriter:
    """Rewrites the terms of all groups of a lexicon axis to one form per paradigm.

    The forms are a further group of the axis' lexicon: the first alternative of ``group``, or a mask. The axis' own
    rewriter writes them and turns them back. Forms that are only written count as terms, since a counterfactual may
    hold them.
    """

    def __init__(self, axis: LexiconAxis, group: str, is_masked: bool) -> None:
        paradigms = tuple(
            _with_reference(paradigm, (group, *axis.groups), is_masked)
            for paradigm in axis.lexicon.paradigms
            if not any(forms[0].text in axis.lexicon.unguarded for cell in paradigm.cells.values() for forms in cell)
        )
        groups, protected = (*axis.groups, _REFERENCE), axis.protected
        lexicon = self._lexicon = replace(axis.lexicon, groups=groups, paradigms=paradigms, distinct=False)
        self._forward = TextRewriter(lexicon, group, _REFERENCE)
        self._forward.recogniser = Recogniser(lexicon, axis.groups, written=True, protected=protected)
        self._backward = {
            name: TextRewriter(lexicon, _REFERENCE, name, protected=protected, inverse=True) for name in axis.groups
        }
        self._group = group

    def rewrites(self, dialogue: Dialogue) -> list[DialogueRewrite]:
        """Return the rewrite of a dialogue; none if it holds no term, "they" alone being none."""
        recogniser = self._forward.recogniser
        texts = [text for text in texts_of(dialogue) if recogniser.may_mention(text)]
        names = entity_names(dialogue, recogniser.may_mention) if texts else ()
        mentions = (mention for text in texts for mention in recogniser.mentions(text, names))
        groups = Counter(mention.group for mention in mentions if not self._is_they(mention))
        if not groups:
            return []
        source = next((group for group, _ in groups.most_common() if group != self._group), self._group)
        candidate = Candidate("", source, _REFERENCE)
        return [dialogue_rewrite(dialogue, candidate, self._forward.within(names), self._backward[source])]

    def _is_they(self, mention: Mention) -> bool:
        row = self._lexicon.paradigms[mention.row]
        return row.pos == "pronoun" and row.cells[mention.group][0][SUBJECT].text == THEY


def _with_reference(paradigm: Paradigm, groups: Sequence[str], is_masked: bool) -> Paradigm:
    """Return a row of a lexicon with its reference forms, those of the first group that has some."""
    written = next(paradigm.cells[group][0] for group in groups if group in paradigm.cells)
    forms = (Form(MASK),) * SLOTS[paradigm.pos] if is_masked else written
    return replace(paradigm, cells={**paradigm.cells, _REFERENCE: (forms,)})


def _renamings(axis: NamesAxis, dialogue: Dialogue, number: int, is_masked: bool) -> list[DialogueRewrite]:
    """Return the rewrites that give every person a reference name, of the set with a number, or a mask."""
    people = axis.rewritable(dialogue)
    words = {word for text in texts_of(dialogue) for word in tokens(text)} if people else set()
    candidates = {candidate.term: candidate for candidate in axis.candidates(dialogue)}
    has_last, rewrites = "race" in axis.factors, []
    for place, person in enumerate(people, start=number * len(people)):
        first, last = (MASK, MASK) if is_masked else _reference_names(place, words - set(person.name.split()))
        form = f"{first} {last}" if has_last and person.last else first
        candidate = candidates[person.name if has_last else person.first.lower()]
        rewrites.append(axis.rewrite(dialogue, replace(candidate, form=form)))
    return rewrites


def _reference_names(place: int, taken: Collection[str]) -> tuple[str, str]:
    """Return a first and a last name, by their place among those that are not taken."""
    firsts = [name for pair in zip(*(dealt(gender, "white") for gender in GENDERS), strict=False) for name in pair]
    free = [[name for name in names if name.lower() not in taken] for names in (firsts, dealt_last("white"))]
    first, last = (names[place % len(names)] for names in free)
    return first, last


def _dialogue_of(item: StageInput) -> Dialogue:
    """Return everything that an input holds as a dialogue."""
    return Dialogue("", "", (*item.history, Turn(str(item.user), steps=tuple(_steps(item)))))


def _steps(item: StageInput) -> Iterator[Step]:
    values = [value for _, argument, output in item.steps for value in (argument, output)]
    values += [output for name, output in item.outputs.items() if name not in {step.name for step in item.steps}]
    for value in [*values, item.argument]:
        if isinstance(value, str):
            yield Step({}, said=str(value))
        for row in () if isinstance(value, str) else rows_of(value):
            try:
                yield Step(row)
            except ValueError:  # a row that is no JSON
                continue


def with_guards(pipeline: Pipeline, guards: Mapping[str, tuple[str, Any]]) -> Pipeline:
    """Return a copy of a system with some stages under guards.

    Args:
        pipeline: the system.
        guards: stage to mode and axes.

    Raises:
        StageError: no such stage or mode.
        AxisError: an axis that a guard cannot rewrite.
    """
    stages = dict(pipeline.stages)
    for name, (mode, axes) in guards.items():
        if name not in stages:
            raise StageError(f"guard of {name!r}: no such stage; there are {', '.join(stages)}")
        guard = Guard(untwinned(stages[name]), axes, mode)
        stages[name] = Twin(guard) if isinstance(stages[name], Twin) else guard
    return replace(pipeline, stages=stages)


def _listed(axes: Any) -> list[str | Axis]:
    """Return axes one by one; ``a×b`` is two."""
    given = re.split("[,×]", axes) if isinstance(axes, str) else axes if isinstance(axes, Iterable) else [axes]
    names = [axis.strip() if isinstance(axis, str) else axis for axis in given]
    if not names or not all(names):
        raise AxisError("a guard needs an axis: gender, age, race, names_gender …, several joined by commas")
    if doubled := repeated(name for name in names if isinstance(name, str)):
        raise AxisError(f"a guard of the axis {doubled!r} twice: name it once")
    return names
