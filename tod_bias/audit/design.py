"""Counterfactuals of an audit, the first of its three steps, and their export as records for a system elsewhere."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tod_bias.config import DesignOptions
from tod_bias.dialogues.chat import to_messages
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError, CorpusError, NothingToPerturbError, TodBiasError
from tod_bias.perturb.axis import PLACEBO, Axis, Candidate, Counterfactual, Edits, SelectedDialogue, Variants
from tod_bias.perturb.loading import load_axis
from tod_bias.perturb.placebo import MatchedPlacebo
from tod_bias.systems.twin import Rewrite

CHUNK = 12_000
"""Turns, of all counterfactuals, that go through the system together."""
MANY_ARMS = 128
"""Number of arms beyond which a chunk has fewer turns."""
ROWS = 400_000
"""Approximate number of rows of a chunk, one per turn and arm, which are in memory at once."""
_COUNTED = 2000
"""Dialogues in which the frequency of words is counted."""


@dataclass(frozen=True)
class Counterfactuals:
    """Makes the counterfactuals of selected dialogues, here or in another process."""

    axes: Mapping[str, Axis]
    """Axes by name, without a matched placebo."""
    seed: int
    """Seed of the placebos."""
    has_placebo: bool
    """True if every axis gets a matched placebo."""
    matched: MatchedPlacebo | None
    """Makes the placebos of axes without their own; None without placebos."""
    is_drawn: bool = False
    """True if the candidates of a dialogue are draws of Su's Algorithm 1, in their order."""

    def of(self, axis: str, selections: Sequence[SelectedDialogue]) -> list[Variants]:
        """Return each dialogue's original and counterfactuals, with a placebo of as many edits if there is one."""
        variants = self.axes[axis].variants(selections)
        if self.is_drawn:
            variants = [replace(some, groups=_numbered(some.groups)) for some in variants]
        if not self.has_placebo:
            return variants
        return [
            self._with_placebo(self.axes[axis], selection, dialogue_variants)
            for selection, dialogue_variants in zip(selections, variants, strict=True)
        ]

    def _with_placebo(self, axis: Axis, selection: SelectedDialogue, variants: Variants) -> Variants:
        rewrite: Rewrite | None
        if axis.has_placebo:
            rewrite = axis.placebo(selection.dialogue, selection.candidates, self.seed)
        else:
            assert self.matched is not None
            rewrites = [
                counterfactual.rewrite for counterfactual in variants.groups if counterfactual.rewrite is not None
            ]
            matched = self.matched.match(selection.dialogue, rewrites, self.seed)
            rewrite, edits = (None, None) if matched is None else matched
        if rewrite is None:
            return variants
        placebo = Counterfactual(
            selection.dialogue,
            rewrite,
            variant=f"{PLACEBO}:{axis.name}",
            base=variants.original.base,
            axis=axis.name,
            role="placebo",
            clusters={"term": frozenset([rewrite.word])},
        )
        if axis.has_placebo:
            edits = Edits(
                sum(counterfactual.edits for counterfactual in variants.groups) / len(variants.groups), placebo.edits
            )
        return replace(variants, placebo=placebo, edits=edits)


def _numbered(groups: Iterable[Counterfactual]) -> tuple[Counterfactual, ...]:
    """Number the draws of a dialogue."""
    return tuple(replace(counterfactual, draw=number) for number, counterfactual in enumerate(groups))


@dataclass(frozen=True)
class CounterfactualDesign:
    """Dialogues that are rewritten, with their axes, groups and terms."""

    dialogues: Sequence[Dialogue]
    """The corpus."""
    axes: Mapping[str, Axis]
    """Axes by name, the placebo included."""
    counterfactuals: Counterfactuals
    """Makes them."""
    admitted: Mapping[str, list[SelectedDialogue]]
    """Axis to the dialogues that can be rewritten."""
    selected: Mapping[str, list[SelectedDialogue]]
    """Axis to those of them that are."""
    failures: Mapping[str, NothingToPerturbError]
    """Axes along which none can."""


def design_counterfactuals(
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis] | str,
    options: DesignOptions | None = None,
    *,
    seed: int = 0,
) -> CounterfactualDesign:
    """Choose the dialogues, groups and terms of the counterfactuals; nothing is run.

    Args:
        dialogues: the corpus.
        axes: names or axis objects; ``placebo`` among others is matched to each of them.
        options: crossed or draws, and how many.
        seed: of all draws.

    Raises:
        CorpusError: two dialogues have one id.
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        AxisError: an unknown axis, one given twice, or none.
        TodBiasError: options contradict each other.
    """
    options = DesignOptions() if options is None else options
    dialogues = list(dialogues)
    _check_ids(dialogues)
    draws = options.draws if options.design == "draws" else None
    if options.variants is not None and draws is not None:
        raise TodBiasError("variants: for the crossed design; how many the design 'draws' has, draws says")
    every = axes_of(axes)
    has_placebo = PLACEBO in every and len(every) > 1
    rewriting = {name: axis for name, axis in every.items() if not (has_placebo and name == PLACEBO)}
    matched = _matched_placebo(dialogues, rewriting.values()) if has_placebo else None
    admitted: dict[str, list[SelectedDialogue]] = {}
    failures: dict[str, NothingToPerturbError] = {}
    for name, axis in rewriting.items():
        if selections := axis.select(dialogues, seed=seed, variants=options.variants, draws=draws):
            admitted[name] = selections
        else:
            failures[name] = NothingToPerturbError(
                f"axis {name}: no dialogue holds a word to rewrite; take more dialogues, leave the axis out, or "
                f"let the users introduce themselves (--axes {', '.join(_introductions(name))})"
            )
    if not admitted:
        raise next(iter(failures.values()))
    selected = {name: _sampled(some, options.max_per_axis, seed) for name, some in admitted.items()}
    made = Counterfactuals(rewriting, seed, has_placebo, matched, is_drawn=draws is not None)
    return CounterfactualDesign(dialogues, every, made, admitted, selected, failures)


def _introductions(axis: str) -> list[str]:
    """Return the axes of introductions, that of an axis's own dimension first."""
    of_dimension = f"persona_{axis.removesuffix('_people')}"
    return sorted(("persona_gender", "persona_age", "persona_race"), key=lambda name: name != of_dimension)


def _matched_placebo(dialogues: Sequence[Dialogue], axes: Iterable[Axis]) -> MatchedPlacebo | None:
    """Return the placebo of the axes without their own."""
    if all(axis.has_placebo for axis in axes):
        return None
    counted = dialogues[:: max(1, len(dialogues) // _COUNTED)]  # words are as frequent as in the corpus
    texts = (text for dialogue in counted for turn in dialogue.turns for _, text in turn.utterances)
    return MatchedPlacebo(spoken=texts)


class _Originals(Axis):
    """Placeholder for an axis: the dialogues are used as they are."""

    name = ""
    groups = ()

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """None."""
        return []

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> Rewrite:
        """Nothing is rewritten."""
        raise AxisError("originals are not rewritten")

    def variants(self, selections: Sequence[SelectedDialogue]) -> list[Variants]:
        """The originals alone."""
        return [Variants(Counterfactual(entry.dialogue, role="original"), ()) for entry in selections]


def design_originals(dialogues: Sequence[Dialogue]) -> CounterfactualDesign:
    """A design without axes: every dialogue as it is, under the axis with no name.

    Raises:
        CorpusError: two dialogues have one id.
    """
    _check_ids(dialogues)
    selected = {"": [SelectedDialogue(dialogue, ()) for dialogue in dialogues]}
    made = Counterfactuals({"": _Originals()}, seed=0, has_placebo=False, matched=None)
    return CounterfactualDesign(dialogues, {}, made, selected, selected, {})


def _check_ids(dialogues: Iterable[Dialogue]) -> None:
    seen: set[str] = set()
    for dialogue in dialogues:
        if dialogue.id in seen:
            raise CorpusError(f"dialogue id {dialogue.id!r} is repeated in the corpus; ids must be unique")
        seen.add(dialogue.id)


def axes_of(axes: Sequence[str | Axis] | str) -> dict[str, Axis]:
    """Axes by name.

    Raises:
        AxisError: unknown axis, one given twice, or none.
    """
    by_name: dict[str, Axis] = {}
    for entry in (axes,) if isinstance(axes, str) else axes:
        axis = load_axis(entry) if isinstance(entry, str) else entry
        if axis.name in by_name:
            raise AxisError(f"axis {axis.name!r} is given twice")
        by_name[axis.name] = axis
    if not by_name:
        raise AxisError("no axis: give at least one, e.g. gender")
    return by_name


def _sampled(selections: list[SelectedDialogue], most: int | None, seed: int) -> list[SelectedDialogue]:
    """Return at most ``most`` selections, drawn by ``seed``, in their order."""
    if most is None or len(selections) <= most:
        return selections
    chosen = np.random.default_rng(seed).permutation(len(selections))[:most]
    return [selections[number] for number in sorted(chosen.tolist())]


def chunks(
    dialogues: Iterable[Dialogue],
    selected: Mapping[str, Sequence[SelectedDialogue]],
    samples: int = 1,
    parts: int = 1,
    *,
    most: int = CHUNK,
) -> Iterator[list[dict[str, list[SelectedDialogue]]]]:
    """Yield the dialogues of all axes in chunks, in order; each in all its axes, so that its original runs once.

    Args:
        dialogues: the corpus.
        selected: axis to its rewritten dialogues, in the corpus's order.
        samples: number of runs of each.
        parts: approximate number of equal parts of a chunk.
        most: turns of a chunk, about.

    Yields:
        The parts of a chunk, each an axis to selected dialogues.
    """
    by_axis = {axis: {entry.dialogue.id: entry for entry in some} for axis, some in selected.items()}
    chunk: list[dict[str, list[SelectedDialogue]]] = [{}]
    turns, turns_of_part = 0, 0
    for dialogue in dialogues:
        here = {axis: entries[dialogue.id] for axis, entries in by_axis.items() if dialogue.id in entries}
        if not here:
            continue
        if turns_of_part * parts >= most:
            chunk.append({})
            turns_of_part = 0
        for axis, entry in here.items():
            chunk[-1].setdefault(axis, []).append(entry)
        variants = sum(len(entry.candidates) + 1 for entry in here.values())  # and a placebo each
        length = samples * len(dialogue.turns) * (1 + variants)
        turns, turns_of_part = turns + length, turns_of_part + length
        if turns >= most:
            yield chunk
            chunk, turns, turns_of_part = [{}], 0, 0
    if chunk[0]:
        yield chunk


@contextmanager
def resting_collector() -> Iterator[Callable[[], object]]:
    """Disable Python's cyclic garbage collector; yield a function that collects young objects.

    The objects of a chunk live until the chunk is done. The collector would search them, and the whole corpus, again
    and again without finding garbage, which takes a sixth of the time.
    """
    if not gc.isenabled():
        yield lambda: None
        return
    gc.disable()
    try:
        yield lambda: gc.collect(1)
    finally:
        gc.enable()


def export_counterfactuals(
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis],
    options: DesignOptions | None = None,
    *,
    seed: int = 0,
    chat: bool = False,
    left_out: Callable[[str], object] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield every counterfactual that ``attribute`` would run with the same arguments, and the originals, as JSON.

    A record has the dialogue's fields (with ``chat`` its messages instead of turns) and ``original``, the original
    dialogue's id; ``variant``, its name (``original``, ``gender:woman``, ``placebo:gender``); ``axis``, ``source`` and
    ``target``; and ``terms``, the terms of the rewrite. ``id`` is ``original#variant``.

    Args:
        dialogues: the corpus; those that no axis rewrites are left out.
        axes: names or axis objects; ``placebo`` among others is matched to each of them.
        options: crossed or draws, and how many.
        seed: of everything that is drawn.
        chat: OpenAI messages.
        left_out: is called with the reason for every axis along which no dialogue can be rewritten.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
    """
    design = design_counterfactuals(dialogues, axes, options, seed=seed)
    if left_out is not None:
        for failure in design.failures.values():
            left_out(str(failure))
    seen: set[tuple[str, str]] = set()
    for axis, selections in design.selected.items():
        for variants in design.counterfactuals.of(axis, selections):
            placebo = () if variants.placebo is None else (variants.placebo,)
            for counterfactual in (variants.original, *variants.references, *variants.groups, *placebo):
                name = counterfactual.source_id, counterfactual.variant
                if name not in seen:
                    seen.add(name)
                    yield _record(counterfactual, chat)


def _record(counterfactual: Counterfactual, chat: bool) -> dict[str, Any]:
    dialogue, rewrite = counterfactual.rewritten, counterfactual.rewrite
    record: dict[str, Any] = dialogue.to_json()
    if chat:
        record = {"id": dialogue.id, "domain": dialogue.domain, "messages": to_messages(dialogue)}
    record["id"] = f"{dialogue.id}#{counterfactual.variant}"
    facts = (None, None, None) if rewrite is None else (rewrite.axis, rewrite.source, rewrite.target)
    terms = () if counterfactual.role == "original" else counterfactual.clusters.get("term", ())
    return record | {
        "original": dialogue.id,
        "variant": counterfactual.variant,
        **dict(zip(("axis", "source", "target"), facts, strict=True)),
        "terms": sorted(terms),
    }
