"""Counterfactual data augmentation: the dialogues of a training corpus, and their counterfactuals.

A model that has seen every dialogue of every group cannot learn from the words which of them is served how
(Lu et al. 2020, *Gender Bias in Neural NLP*; of whole dialogues Su, Algorithm 1, over Qian 2022).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tod_bias.audit.design import CounterfactualDesign, design_counterfactuals
from tod_bias.config import Design, DesignOptions
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError, TodBiasError
from tod_bias.io.imports import is_import
from tod_bias.perturb.axis import Axis, SelectedDialogue, Variants
from tod_bias.perturb.loading import axes as shipped_axes
from tod_bias.perturb.loading import load_axis
from tod_bias.systems.execution import Run

Kind = Literal["crossed", "draws", "personas"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_PERSONA = "persona_"


@dataclass(frozen=True)
class Augmentation:
    """Counterfactuals to add to a corpus."""

    axes: tuple[str | Axis, ...]
    """Names or perturbers."""
    kind: Kind = "crossed"
    """``crossed``: every dialogue rewritten for each other group, so that all are equally frequent in what it says;
    ``draws``: one of Algorithm 1's rewrites; ``personas``: with an introduction, as two people of different attributes
    that take turns."""

    def __post_init__(self) -> None:
        if not self.axes:
            raise AxisError("augmentation: no axis; give at least one, e.g. gender")
        if doubled := next((axis for axis in self.axes if self.axes.count(axis) > 1), None):
            raise AxisError(f"augmentation: axis {doubled!r} is given twice")
        if self.kind not in KINDS:
            raise TodBiasError(f"augmentation: unknown kind {self.kind!r}; expected one of {', '.join(KINDS)}")

    @classmethod
    def read(cls, text: str) -> Augmentation:
        """``gender,age,race:draws``: axes joined by commas, and the kind (by default crossed).

        ``gender:personas`` is the axis ``persona_gender``.

        Raises:
            AxisError: no axis, an unknown one, or one that has no persona.
            TodBiasError: an unknown kind.
        """
        names, kind = text, "crossed"
        head, _, tail = text.rpartition(":")
        if head.split(",")[-1].strip() in shipped_axes():  # else the colon is an axis' own, as in module:name
            names, kind = head, tail.strip()
        axes = [name.strip() for name in names.split(",") if name.strip()]
        if kind == "personas":
            axes = [name if name.startswith(_PERSONA) else f"{_PERSONA}{name}" for name in axes]
            if unknown := [name for name in axes if name not in shipped_axes()]:
                known = ", ".join(name for name in shipped_axes() if name.startswith(_PERSONA))
                raise AxisError(f"augmentation {text!r}: no axis {unknown[0]!r}; there are {known}")
        augmentation = cls(tuple(axes), kind)  # type: ignore[arg-type]  # checked there
        for name in axes:
            if not is_import(name):
                load_axis(name)  # an unknown one is named before a corpus is read
        return augmentation

    def copies(self, dialogues: Sequence[Dialogue], seed: int = 0) -> Iterator[tuple[Dialogue, Run]]:
        """Yield every dialogue that can be rewritten, with each counterfactual that is added, axis by axis.

        Args:
            dialogues: of the training split, without validation dialogues.
            seed: of all draws.

        Raises:
            NothingToPerturbError: an axis along which no dialogue can be rewritten.
            AxisError: an unknown axis, or one given twice.
        """
        by_id = {dialogue.id: dialogue for dialogue in dialogues}
        for entry in self.axes:  # by itself: each has its own dialogues and seeds
            design = design_counterfactuals(dialogues, [entry], self._how, seed=seed)
            for axis, drawn in design.selected.items():
                for variants in _runs(design, axis, drawn):
                    originals = [variants.original] if self.kind == "personas" else []
                    for run in (*originals, *variants.groups):
                        yield by_id[run.dialogue.id], run

    @property
    def _how(self) -> DesignOptions:
        design: Design = "draws" if self.kind == "draws" else "crossed"
        return DesignOptions(design=design, draws=1, variants=1 if self.kind == "personas" else None)


def _runs(design: CounterfactualDesign, axis: str, drawn: Sequence[SelectedDialogue]) -> Iterator[Variants]:
    """One dialogue after the other: rewrites remember what they made."""
    for entry in drawn:
        yield from design.counterfactuals.of(axis, [entry])


def augment(dialogues: Sequence[Dialogue], how: Augmentation, seed: int = 0) -> list[Dialogue]:
    """A corpus and what is added to it; copies have the variant in their ids, ``12/gender:woman``.

    Raises:
        NothingToPerturbError, AxisError: as for :meth:`Augmentation.copies`.
    """
    augmented = list(dialogues)
    for dialogue, run in how.copies(dialogues, seed):
        rewritten = run.rewritten
        augmented.append(Dialogue(f"{dialogue.id}/{run.variant}", rewritten.domain, rewritten.turns, rewritten.system))
    return augmented
