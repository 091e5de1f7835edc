"""How much of a corpus guards recognise: mentions that rewrites change, and those that a guard handles exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.axis import Axis, SelectedDialogue
from tod_bias.perturb.guards.guard import guarded_axis
from tod_bias.systems.stage import StageCall, StageInput


@dataclass
class Coverage:
    """What a guard recognises of a corpus on one axis."""

    axis: str
    """The axis's name."""
    mentions: int = 0
    """Mentions in what is said, as rewrites find them."""
    texts: int = 0
    """Distinct texts that a counterfactual of their dialogue changes, counterfactuals counted apart."""
    recognised: int = 0
    """Those of them in which the guard finds a mention."""
    inputs: int = 0
    """Inputs of stages (a turn with its history, calls and results) in dialogues that can be rewritten, counterfactuals
    counted apart."""
    exact: int = 0
    """Those whose reference form is that of the original: the stage behind a guard gets the same call."""
    covered: int = 0
    """Those whose original the guard counts as covered, without having seen any counterfactual."""
    wrong: int = 0
    """Covered ones with another reference form: what a later turn shows of a name, at the most."""

    @property
    def share_recognised(self) -> float | None:
        """Share of changed texts in which something is found, 0–1; None where nothing is changed."""
        return self.recognised / self.texts if self.texts else None

    @property
    def share_exact(self) -> float | None:
        """Share of inputs with the same reference form in every counterfactual, 0–1; None where there is none."""
        return self.exact / self.inputs if self.inputs else None

    @property
    def share_covered(self) -> float | None:
        """Share of inputs that the guard counts as covered, 0–1; None where nothing can be rewritten."""
        return self.covered / self.inputs if self.inputs else None

    def to_json(self) -> dict[str, Any]:
        """The counts and shares by name."""
        shares = {
            "share_recognised": self.share_recognised,
            "share_exact": self.share_exact,
            "share_covered": self.share_covered,
        }
        return {**vars(self), **shares}


def coverage(dialogues: Sequence[Dialogue], axis: Axis, *, seed: int = 0) -> Coverage:
    """What a guard recognises of a corpus: every dialogue is rewritten as the crossed design does, and looked at.

    Args:
        dialogues: the corpus.
        axis: by a lexicon or of names.
        seed: of the design.

    Raises:
        AxisError: guards do not know axes of this kind.
    """
    guarded = guarded_axis(axis)
    counts = Coverage(axis.name)
    selected = {selection.dialogue.id: selection for selection in axis.select(dialogues, seed=seed)}
    for dialogue in dialogues:
        counts.mentions += sum(1 for _ in axis.mentions(dialogue))
        candidates = selected[dialogue.id].candidates if dialogue.id in selected else ()
        references = [guarded.read(item) for item in inputs_of_turns(dialogue)] if candidates else []
        for rewrite in axis.rewrites_of([SelectedDialogue(dialogue, candidates)])[0]:
            image = rewrite(dialogue)
            for item, reference in zip(inputs_of_turns(image), references, strict=True):
                is_exact, is_covered = guarded.read(item).item == reference.item, not reference.uncovered
                counts.inputs += 1
                counts.exact += is_exact
                counts.covered += is_covered
                counts.wrong += is_covered and not is_exact
            said = ([text for turn in variant.turns for _, text in turn.utterances] for variant in (dialogue, image))
            changed = [old for old, new in zip(*said, strict=True) if old != new]
            counts.texts += len(changed)
            counts.recognised += sum(guarded.read(StageInput((), text)).mentions > 0 for text in changed)
    return counts


def inputs_of_turns(dialogue: Dialogue) -> Sequence[StageInput]:
    """What the last stage of a straight pipeline reads in each turn, with the corpus's own calls and results."""
    inputs = []
    for number, turn in enumerate(dialogue.turns):
        steps = tuple(
            call
            for step in turn.steps
            for call in (StageCall("api_call", None, step.call), StageCall("db", None, list(step.results)))
        )
        outputs = {name: output for name, _, output in steps}
        inputs.append(StageInput(dialogue.turns[:number], turn.user, outputs, steps, system=dialogue.system))
    return inputs


_HEADS = {
    "axis": "axis",
    "mentions": "mentions",
    "texts": "texts changed",
    "share_recognised": "found by a guard",
    "inputs": "inputs changed",
    "share_exact": "same call under a guard",
    "share_covered": "covered",
    "wrong": "covered, another call",
}


def table(coverages: Sequence[Coverage]) -> str:
    """A table in plain text, a line per axis."""
    rows = pd.DataFrame([coverage.to_json() for coverage in coverages])[list(_HEADS)]
    shares = dict.fromkeys((name for name in _HEADS if name.startswith("share")), float)
    return rows.astype(shares).rename(columns=_HEADS).to_string(index=False, float_format="{:.1%}".format, na_rep="–")
