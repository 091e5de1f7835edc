"""How much of a corpus guards recognise: mentions that rewrites change, and those that a guard tells exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.guards.inputs import guarded_axis
from tod_bias.systems.stage import Asked, StageInput


@dataclass(frozen=True)
class Coverage:
    """What a guard recognises of a corpus on one axis."""

    axis: str
    """The axis's name."""
    mentions: int
    """Mentions in what is said, as rewrites find them."""
    texts: int
    """Distinct texts that a telling of their dialogue changes, tellings counted apart."""
    found: int
    """Those of them in which the guard finds a mention."""
    inputs: int
    """Inputs of components (a turn with its history, calls and results) in dialogues that can be told otherwise,
    tellings counted apart."""
    exact: int
    """Those whose reference telling is that of the original: a guard gives the same question."""
    covered: int = 0
    """Those whose original the guard counts as covered, without having seen any other telling."""
    wrong: int = 0
    """Covered ones that are not asked alike: what a later turn shows of a name, at the most."""

    @property
    def share_found(self) -> float | None:
        """Share of changed texts in which something is found, 0–1; None where nothing is changed."""
        return self.found / self.texts if self.texts else None

    @property
    def share_exact(self) -> float | None:
        """Share of inputs that are asked alike in every telling, 0–1; None where nothing can be told otherwise."""
        return self.exact / self.inputs if self.inputs else None

    @property
    def share_covered(self) -> float | None:
        """Share of inputs that the guard counts as covered, 0–1; None where nothing can be told otherwise."""
        return self.covered / self.inputs if self.inputs else None

    def to_json(self) -> dict[str, Any]:
        """The counts and shares by name."""
        return {
            **asdict(self),
            "share_found": self.share_found,
            "share_exact": self.share_exact,
            "share_covered": self.share_covered,
        }


def coverage(dialogues: Sequence[Dialogue], perturber: Any, *, seed: int = 0) -> Coverage:
    """What a guard recognises of a corpus: every dialogue is told as the crossed design tells it, and looked at.

    Args:
        dialogues: the corpus.
        perturber: the axis: a perturber by a lexicon or of names.
        seed: of the tellings.

    Raises:
        AxisError: guards do not know axes of this kind.
    """
    axis = guarded_axis(perturber)
    mentions = texts = found = inputs = exact = covered = wrong = 0
    for dialogue in dialogues:
        mentions += sum(1 for _ in perturber.mentions(dialogue))
        candidates = perturber.crossed(dialogue, seed)
        if not candidates:
            continue
        items = list(inputs_of_turns(dialogue))
        references = [axis.read(item) for item in items]
        for rewrite in perturber.rewrites_of([(dialogue, candidates)])[0]:
            told = rewrite(dialogue)
            for item, reference in zip(inputs_of_turns(told), references, strict=True):
                inputs += 1
                is_exact, is_covered = axis.read(item).item == reference.item, not reference.uncovered
                exact += is_exact
                covered += is_covered
                wrong += is_covered and not is_exact
            for old, new in zip(dialogue.turns, told.turns, strict=True):
                for (_, text), (_, image) in zip(old.utterances, new.utterances, strict=True):
                    if text != image:
                        texts += 1
                        found += axis.read(StageInput((), text)).mentions > 0
    return Coverage(axis.name, mentions, texts, found, inputs, exact, covered, wrong)


def inputs_of_turns(dialogue: Dialogue) -> Sequence[StageInput]:
    """What the last component of a straight pipeline reads in each turn, with the corpus's own calls and results."""
    made = []
    for number, turn in enumerate(dialogue.turns):
        steps = tuple(
            asked
            for step in turn.steps
            for asked in (Asked("api_call", None, step.call), Asked("db", None, list(step.results)))
        )
        outputs = {name: output for name, _, output in steps}
        made.append(StageInput(dialogue.turns[:number], turn.user, outputs, steps, system=dialogue.system))
    return made


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


_COLUMNS: tuple[tuple[str, Callable[[Coverage], str]], ...] = (
    ("axis", lambda one: one.axis),
    ("mentions", lambda one: str(one.mentions)),
    ("texts told otherwise", lambda one: str(one.texts)),
    ("found by a guard", lambda one: _percent(one.share_found)),
    ("inputs told otherwise", lambda one: str(one.inputs)),
    ("asked alike under a guard", lambda one: _percent(one.share_exact)),
    ("covered", lambda one: _percent(one.share_covered)),
    ("covered, not alike", lambda one: str(one.wrong)),
)


def lines(found: Sequence[Coverage]) -> list[str]:
    """A table in plain text, a line an axis."""
    rows = [[name for name, _ in _COLUMNS], *([show(one) for _, show in _COLUMNS] for one in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
