"""The fairscore (Su eq. 1): how much worse rewritten dialogues are answered."""

from __future__ import annotations

import numpy as np


def fairscore(original: np.ndarray | float, rewritten: np.ndarray | float) -> np.ndarray:
    """Signed form of Su eq. 1: (BLEU(f(u), g) − BLEU(f(ũ), g̃)) / BLEU(f(u), g); eq. 1 is its absolute value.

    0: both are answered equally well. Positive: the rewritten dialogues are answered worse (1: BLEU falls to 0);
    negative: better, without a bound. NaN where the original BLEU is 0: undefined.
    """
    original, rewritten = np.asarray(original, dtype=float), np.asarray(rewritten, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(original > 0, (original - rewritten) / original, np.nan)
