"""Which dialogues can be told otherwise along an axis, and the runs that tell them so."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError, NothingToPerturbError, TodBiasError
from tod_bias.models.generator import Generator
from tod_bias.perturb.algorithm import PLACEBO, draw_candidates, load_perturber, rewrites_of
from tod_bias.perturb.candidates import Candidate, Perturber
from tod_bias.perturb.crossed import crossed_candidates
from tod_bias.perturb.matched import Dose, MatchedPlacebo
from tod_bias.systems.execution import Run
from tod_bias.systems.twin import Rewrite

CHUNK = 12_000
"""Turns, of all tellings, that go through the system together."""


def perturbers_of(axes: Sequence[str | Perturber]) -> dict[str, Perturber]:
    """Axis to perturber.

    Raises:
        AxisError: unknown axis, one given twice, or none.
    """
    if isinstance(axes, str):
        axes = (axes,)
    found: dict[str, Perturber] = {}
    for entry in axes:
        perturber = load_perturber(entry) if isinstance(entry, str) else entry
        if perturber.axis in found:
            raise AxisError(f"axis {perturber.axis!r} is given twice")
        found[perturber.axis] = perturber
    if not found:
        raise AxisError("no axis: give at least one, e.g. gender")
    return found


_LISTENED = 2000
"""Dialogues in which the frequency of words is counted."""


def matched_placebo(perturbers: Mapping[str, Perturber], dialogues: Sequence[Dialogue]) -> MatchedPlacebo | None:
    """The placebo that follows the other axes, where it is asked for beside them; words are as frequent as here."""
    if PLACEBO not in perturbers or len(perturbers) < 2:
        return None
    heard = dialogues[:: max(1, len(dialogues) // _LISTENED)]
    return MatchedPlacebo(spoken=(text for dialogue in heard for turn in dialogue.turns for _, text in turn.utterances))


Design = Literal["crossed", "draws"]
"""Every dialogue told once as every attribute, or Su's random draws (Algorithm 1)."""
DESIGNS: tuple[Design, ...] = ("crossed", "draws")

Drawn = tuple[Dialogue, Sequence[Candidate]]
"""A dialogue and the rewrites that it is told under."""


@dataclass(frozen=True)
class Retold:
    """One dialogue with all its tellings along one axis."""

    original: Run
    copies: tuple[Run, ...]
    """Rewritten along the axis."""
    placebo: Run | None = None
    """Neutral words rewritten, as many as the axis rewrites; None: there is no placebo, or no such word."""
    dose: Dose | None = None
    """How many words the copies change, and how many the placebo."""

    @property
    def rewritten(self) -> tuple[Run, ...]:
        """The copies, then the placebo."""
        return self.copies if self.placebo is None else (*self.copies, self.placebo)


def check_design(design: str) -> None:
    """Raises TodBiasError for a design that there is not."""
    if design not in DESIGNS:
        raise TodBiasError(f"unknown design {design!r}; expected one of {', '.join(DESIGNS)}")


def drawn_for(
    perturber: Perturber, dialogues: Iterable[Dialogue], design: Design, draws: int, seed: int
) -> list[Drawn]:
    """The dialogues that can be rewritten."""

    def chosen(dialogue: Dialogue) -> Sequence[Candidate]:
        if design == "crossed":
            return crossed_candidates(perturber, dialogue, seed)
        return draw_candidates(perturber, dialogue, draws, seed)

    drawn = [(dialogue, chosen(dialogue)) for dialogue in dialogues]
    found: list[Drawn] = [(dialogue, candidates) for dialogue, candidates in drawn if candidates]
    if not found:
        raise NothingToPerturbError(
            f"axis {perturber.axis}: no dialogue holds a word to rewrite; take more dialogues or leave the axis out"
        )
    return found


def chosen_from(found: list[Drawn], most: int | None, seed: int) -> list[Drawn]:
    """At most so many, drawn by ``seed``, in their order."""
    if most is None or len(found) <= most:
        return found
    return [found[number] for number in sorted(np.random.default_rng(seed).permutation(len(found))[:most].tolist())]


def runs_of(
    perturber: Perturber, drawn: Sequence[Drawn], placebo: MatchedPlacebo | None = None, seed: int = 0
) -> list[Retold]:
    """Each dialogue's original run and its rewritten ones; with a placebo of the same dose, where there is one."""
    found = []
    for (dialogue, _), made in zip(drawn, rewrites_of(perturber, drawn), strict=True):
        matched = None if placebo is None else placebo.match(dialogue, made, seed)
        run = None if matched is None else Run(dialogue, matched, telling=f"{PLACEBO}:{perturber.axis}")
        dose = None if placebo is None or run is None else placebo.dose
        names = telling_names(made)
        copies = tuple(Run(dialogue, rewrite, telling=name) for rewrite, name in zip(made, names, strict=True))
        found.append(Retold(Run(dialogue), copies, run, dose))
    return found


def telling_names(rewrites: Sequence[Rewrite]) -> list[str]:
    """The names of a dialogue's tellings, ``gender:woman``; with their number where several have one target."""
    targets = [rewrite.target for rewrite in rewrites]
    return [
        f"{rewrite.axis}:{rewrite.target}" + (f"#{number}" if targets.count(rewrite.target) > 1 else "")
        for number, rewrite in enumerate(rewrites)
    ]


def models_of(perturbers: Iterable[Perturber]) -> list[Generator]:
    """The distinct generators behind perturbers that rewrite with a model."""
    found = [getattr(perturber, "generator", None) for perturber in perturbers]
    return list({id(generator): generator for generator in found if isinstance(generator, Generator)}.values())


def rewritten_by_model(perturbers: Mapping[str, Perturber]) -> dict[str, Any]:
    """For axes with a neural perturber: texts with a mention, and how many of them the model rewrote."""
    counts = {axis: getattr(perturber, "counts", None) for axis, perturber in perturbers.items()}
    counts = {axis: count for axis, count in counts.items() if count is not None}
    return {"perturber": counts} if counts else {}


def chunks(
    dialogues: Iterable[Dialogue], drawn: Mapping[str, Sequence[Drawn]], samples: int = 1
) -> Iterator[dict[str, list[Drawn]]]:
    """The dialogues of all axes in chunks, in order; each in all its axes, so that its original runs once.

    Args:
        dialogues: the corpus.
        drawn: axis to those of its dialogues that are rewritten, in the corpus's order.
        samples: how often each is run.
    """
    by_axis = {axis: {entry[0].id: entry for entry in found} for axis, found in drawn.items()}
    chunk: dict[str, list[Drawn]] = {}
    turns = 0
    for dialogue in dialogues:
        found = {axis: entries[dialogue.id] for axis, entries in by_axis.items() if dialogue.id in entries}
        for axis, entry in found.items():
            chunk.setdefault(axis, []).append(entry)
        tellings = sum(len(candidates) + 1 for _, candidates in found.values())  # and a placebo each
        turns += samples * len(dialogue.turns) * (1 + tellings) if found else 0
        if turns >= CHUNK:
            yield chunk
            chunk, turns = {}, 0
    if chunk:
        yield chunk


@contextmanager
def resting_collector() -> Iterator[Callable[[], object]]:
    """Python's collector of cycles only works when it is told to, and leaves alone what is there already.

    The objects of a chunk live until it is done, so looking through them, and through a whole corpus, again and again
    finds nothing and takes a sixth of the time.
    """
    if not gc.isenabled():
        yield lambda: None
        return
    gc.disable()
    gc.freeze()
    try:
        yield gc.collect
    finally:
        gc.unfreeze()
        gc.enable()
