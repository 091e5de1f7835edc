"""Grades: a user's judgement of a whole dialogue, such as whether its task was solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tod_bias.errors import TodBiasError
from tod_bias.io.imports import guarded
from tod_bias.metrics.metric import Better, Metric, Scale, ScoredTurn, ratio

PREFIX = "grade:"
"""Beginning of the name of a grade."""


class Grade(Metric):
    """Share of dialogues that a function calls good, 0 to 1; it is the first event of a finding.

    Args:
        judge: function of the turns of a dialogue, as the system answered them; returns a truth value, or a number from
            0 (bad) to 1 (good).
        name: of the grade.
        label: the grade in sentences, "tasks solved"; by default its name.
    """

    is_grade = True
    better: Better = "higher"
    scale: Scale = "difference"
    range = (0.0, 1.0)
    signature = "judgement of whole dialogues"
    equal_denominators = True

    def __init__(self, judge: Callable[[Sequence[ScoredTurn]], Any], name: str, label: str = "") -> None:
        self.name = f"{PREFIX}{name}"
        self.label = label or name.replace("_", " ")
        self.unit = f"dialogues in 100 with {self.label}"
        self.columns = (f"{self.name} sum", f"{self.name} dialogues")
        self._judge = judge

    @classmethod
    def of(cls, given: Any) -> Grade:
        """Return the grade of an object with a method ``grade``, and perhaps ``name`` and ``label``."""
        kind = type(given).__name__
        return cls(given.grade, str(getattr(given, "name", kind)), str(getattr(given, "label", "")))

    def of_dialogue(self, turns: Sequence[ScoredTurn]) -> float:
        """Return the grade of a dialogue.

        Raises:
            TodBiasError: the function raises, or returns something else than a number from 0 to 1.
        """
        with guarded(f"metric {self.name!r}"):
            value = self._judge(list(turns))
        if not isinstance(value, bool | int | float | np.bool_ | np.number) or not 0 <= float(value) <= 1:
            raise TodBiasError(f"metric {self.name!r}: expected a number from 0 to 1, got {value!r:.80}")
        return float(value)

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Raise TodBiasError: a grade judges whole dialogues, not turn by turn."""
        raise TodBiasError(f"metric {self.name!r} judges whole dialogues; use it with attribute")

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Return the first sum by the second; NaN if that is 0."""
        return ratio(sums[..., 0], sums[..., 1])
