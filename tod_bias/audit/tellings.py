"""Which dialogues can be told otherwise along an axis, and the runs that tell them so."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError, NothingToPerturbError, TodBiasError
from tod_bias.perturb.algorithm import PLACEBO, draw_candidates, load_perturber, rewrites_of
from tod_bias.perturb.balance import targets
from tod_bias.perturb.candidates import Arranging, Candidate, Drawn, Floored, Perturber, Referring
from tod_bias.perturb.crossed import crossed_candidates
from tod_bias.perturb.matched import Dose, MatchedPlacebo, changed_tokens
from tod_bias.systems.execution import Run
from tod_bias.systems.stages.recorded import ORIGINAL
from tod_bias.systems.twin import Rewrite

if TYPE_CHECKING:
    from tod_bias.models.generator import Generator

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


Design = Literal["crossed", "draws"]
"""Every dialogue told once as every attribute, or Su's random draws (Algorithm 1)."""
DESIGNS: tuple[Design, ...] = ("crossed", "draws")


@dataclass(frozen=True)
class Retold:
    """One dialogue with all its tellings along one axis."""

    original: Run
    copies: tuple[Run, ...]
    """Rewritten along the axis."""
    references: tuple[Run, ...] = ()
    """Told as nobody's: without an introduction, or with a neutral one; they are compared with, and claim nothing."""
    placebo: Run | None = None
    """Words exchanged that change nobody, as many as the axis rewrites; None: there is no placebo, or no such word."""
    dose: Dose | None = None
    """How many words the copies change, and how many the placebo."""

    @property
    def rewritten(self) -> tuple[Run, ...]:
        """The copies, the references, then the placebo."""
        return (*self.copies, *self.references, *(() if self.placebo is None else (self.placebo,)))


def check_design(design: str) -> None:
    """Raises TodBiasError for a design that there is not."""
    if design not in DESIGNS:
        raise TodBiasError(f"unknown design {design!r}; expected one of {', '.join(DESIGNS)}")


class Teller:
    """Tells dialogues as it was decided.

    Args:
        perturbers: axis to perturber.
        seed: of placebos.
        has_placebo: whether every axis gets a matched placebo.
        matched: makes the placebos of axes that have none of their own.
    """

    def __init__(
        self, perturbers: Mapping[str, Perturber], seed: int, has_placebo: bool, matched: MatchedPlacebo | None
    ) -> None:
        self.perturbers = perturbers
        """Axis to perturber, without a placebo that is matched."""
        self.has_placebo = has_placebo
        """Whether every axis gets a matched placebo."""
        self.matched = matched
        """Makes the placebos of axes that have none of their own; None where there is none."""
        self._seed = seed

    def runs(self, axis: str, drawn: Sequence[Drawn]) -> list[Retold]:
        """Each dialogue's original run and its rewritten ones; with a placebo of the same dose, where there is one."""
        perturber = self.perturbers[axis]
        found = []
        for (dialogue, candidates), made in zip(drawn, rewrites_of(perturber, drawn), strict=True):
            placebo, dose = self._placebo(perturber, dialogue, candidates, made)
            base = f"{axis}:{made[0].source}" if isinstance(perturber, Referring) else ORIGINAL
            references = perturber.references(dialogue) if isinstance(perturber, Referring) else ()
            found.append(
                Retold(
                    Run(dialogue, telling=base, base=base),
                    tuple(
                        Run(dialogue, rewrite, telling=name, base=base)
                        for rewrite, name in zip(made, telling_names(made), strict=True)
                    ),
                    tuple(Run(dialogue, rewrite, telling=name, base=base) for name, rewrite in references),
                    None if placebo is None else Run(dialogue, placebo, telling=f"{PLACEBO}:{axis}", base=base),
                    dose,
                )
            )
        return found

    def _placebo(
        self, perturber: Perturber, dialogue: Dialogue, candidates: Sequence[Candidate], made: Sequence[Rewrite]
    ) -> tuple[Rewrite | None, Dose | None]:
        if not self.has_placebo:
            return None, None
        if isinstance(perturber, Floored):
            rewrite = perturber.floor(dialogue, candidates, self._seed)
            if rewrite is None:
                return None, None
            wanted = sum(changed_tokens(dialogue, one) for one in made) / len(made)
            dose = Dose(wanted, changed_tokens(dialogue, rewrite))
        else:
            assert self.matched is not None
            rewrite = self.matched.match(dialogue, made, self._seed)
            dose = self.matched.dose
        return (rewrite, dose) if rewrite is not None else (None, None)


class Retelling:
    """Who is told as whom along every axis: decided once, for whoever runs it, plans it or writes it down.

    Args:
        dialogues: the corpus.
        axes: names or perturbers; ``placebo`` beside others becomes the matched placebo of each.
        design: ``crossed`` or ``draws``.
        draws: rewrites a dialogue, for ``draws``.
        seed: of the tellings.
        tellings: rewritten tellings a dialogue and axis in the crossed design, dealt out over the attributes; by
            default one for every other attribute. More than there are forms of an attribute's words are not made.
        max_per_axis: so many dialogues an axis, drawn by ``seed``.

    Raises:
        NothingToPerturbError: no dialogue can be told otherwise along any axis.
        AxisError: an unknown axis, one given twice, or none.
        TodBiasError: a design or number that makes no sense.
    """

    def __init__(
        self,
        dialogues: Sequence[Dialogue],
        axes: Sequence[str | Perturber],
        *,
        design: Design = "crossed",
        draws: int = 3,
        seed: int = 0,
        tellings: int | None = None,
        max_per_axis: int | None = None,
    ) -> None:
        check_design(design)
        if tellings is not None and tellings < 1:
            raise TodBiasError(f"tellings must be at least 1, got {tellings}")
        if tellings is not None and design == "draws":
            raise TodBiasError("tellings: for the crossed design; how many the design 'draws' has, draws says")
        self.dialogues = dialogues
        self.all = perturbers_of(axes)
        """Axis to perturber, the placebo's among them."""
        has_placebo = PLACEBO in self.all and len(self.all) > 1
        perturbers = {name: one for name, one in self.all.items() if not (has_placebo and name == PLACEBO)}
        matched: MatchedPlacebo | None = None
        if has_placebo and any(not isinstance(one, Floored) for one in perturbers.values()):
            heard = dialogues[:: max(1, len(dialogues) // _LISTENED)]  # words are as frequent as in the corpus
            matched = MatchedPlacebo(
                spoken=(text for one in heard for turn in one.turns for _, text in turn.utterances)
            )
        self.teller = Teller(perturbers, seed, has_placebo, matched)
        """Tells them."""
        self.found: dict[str, list[Drawn]] = {}
        """Axis to the dialogues that can be told otherwise."""
        self.failures: dict[str, NothingToPerturbError] = {}
        """Axes on which none can."""
        for axis, perturber in perturbers.items():
            found = _drawn(perturber, dialogues, design, draws, seed, tellings)
            if found:
                self.found[axis] = found
            else:
                self.failures[axis] = NothingToPerturbError(
                    f"axis {axis}: no dialogue holds a word to rewrite; take more dialogues, leave the axis out, or "
                    "let the users introduce themselves (--axes persona_gender, persona_age, persona_race …)"
                )
        if not self.found:
            raise next(iter(self.failures.values()))
        self.drawn = {axis: _chosen(some, max_per_axis, seed) for axis, some in self.found.items()}
        """Axis to those that are."""


def _drawn(
    perturber: Perturber,
    dialogues: Iterable[Dialogue],
    design: Design,
    draws: int,
    seed: int,
    tellings: int | None,
) -> list[Drawn]:
    """The dialogues that can be told otherwise along an axis, each with its tellings."""
    if isinstance(perturber, Arranging):
        given = {"draws": draws} if design == "draws" else {"tellings": tellings}
        return perturber.arrange(list(dialogues), seed=seed, **given)
    found: list[Drawn] = []
    for dialogue in dialogues:
        if design == "draws":
            candidates = draw_candidates(perturber, dialogue, draws, seed)
        else:
            candidates = crossed_candidates(perturber, dialogue, seed)
            if candidates and tellings is not None and tellings < len(candidates):
                chosen = targets([one.target for one in candidates], "", len(found), tellings)
                candidates = tuple(one for one in candidates if (one.target, 0) in chosen)
        if candidates:
            found.append((dialogue, candidates))
    return found


def _chosen(found: list[Drawn], most: int | None, seed: int) -> list[Drawn]:
    """At most so many, drawn by ``seed``, in their order."""
    if most is None or len(found) <= most:
        return found
    return [found[number] for number in sorted(np.random.default_rng(seed).permutation(len(found))[:most].tolist())]


def telling_names(rewrites: Sequence[Rewrite]) -> list[str]:
    """The names of a dialogue's tellings, ``gender:woman``; with their number where several have one target."""
    targets = [rewrite.target for rewrite in rewrites]
    return [
        f"{rewrite.axis}:{rewrite.target}" + (f"#{number}" if targets.count(rewrite.target) > 1 else "")
        for number, rewrite in enumerate(rewrites)
    ]


def models_of(perturbers: Iterable[Perturber]) -> list[Generator]:
    """The distinct generators behind perturbers that rewrite with a model."""
    found = [model for one in perturbers if (model := getattr(one, "generator", None)) is not None]
    if not found:
        return []
    from tod_bias.models.generator import Generator

    return list({id(generator): generator for generator in found if isinstance(generator, Generator)}.values())


def rewritten_by_model(perturbers: Mapping[str, Perturber]) -> dict[str, Any]:
    """For axes with a neural perturber: texts with a mention, and how many of them the model rewrote."""
    counts = {axis: getattr(perturber, "counts", None) for axis, perturber in perturbers.items()}
    counts = {axis: count for axis, count in counts.items() if count is not None}
    return {"perturber": counts} if counts else {}


def chunks(
    dialogues: Iterable[Dialogue], drawn: Mapping[str, Sequence[Drawn]], samples: int = 1, parts: int = 1
) -> Iterator[list[dict[str, list[Drawn]]]]:
    """The dialogues of all axes in chunks, in order; each in all its axes, so that its original runs once.

    Args:
        dialogues: the corpus.
        drawn: axis to those of its dialogues that are rewritten, in the corpus's order.
        samples: how often each is run.
        parts: into so many parts of about equal length a chunk is cut, or a few more.

    Yields:
        The parts of a chunk, each an axis to dialogues with their tellings.
    """
    by_axis = {axis: {entry[0].id: entry for entry in found} for axis, found in drawn.items()}
    chunk: list[dict[str, list[Drawn]]] = [{}]
    turns, there = 0, 0
    for dialogue in dialogues:
        found = {axis: entries[dialogue.id] for axis, entries in by_axis.items() if dialogue.id in entries}
        if not found:
            continue
        if there * parts >= CHUNK:
            chunk.append({})
            there = 0
        for axis, entry in found.items():
            chunk[-1].setdefault(axis, []).append(entry)
        tellings = sum(len(candidates) + 1 for _, candidates in found.values())  # and a placebo each
        length = samples * len(dialogue.turns) * (1 + tellings)
        turns, there = turns + length, there + length
        if turns >= CHUNK:
            yield chunk
            chunk, turns, there = [{}], 0, 0
    if chunk[0]:
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
