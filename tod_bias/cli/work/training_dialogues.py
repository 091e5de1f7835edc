"""Dialogues of a training: a mixture of corpora, some dialogues of each held out, with counterfactuals."""

from __future__ import annotations

import re

from tod_bias.config import CorpusSource
from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.sampling import hold_out
from tod_bias.errors import TodBiasError
from tod_bias.mitigation.augmentation import Augmentation, augment
from tod_bias.models.processes import is_first_process

_MOST_TIMES = 1000


def load_training(
    source: CorpusSource, most: int | None, held_out: int, added: str | None, seed: int, *, show_progress: bool
) -> tuple[list[Dialogue], list[Dialogue]]:
    """Return the dialogues to train on, and those held out for validation.

    Args:
        source: names the corpora.
        most: number of dialogues of each corpus; None for all.
        held_out: number of dialogues of each corpus that are held out.
        added: axes and manner of the counterfactuals that are added; None for none.
        seed: of all that is drawn.
        show_progress: print the number of counterfactuals.

    Raises:
        TodBiasError: a corpus cannot be read, or an option is invalid.
    """
    how = None if added is None else Augmentation.read(added)
    training, validation = [], []
    for corpus, times in _mixture(source.corpus):
        dialogues = load_corpus(corpus, datapath=source.datapath, split="train", max_dialogues=most, seed=seed)
        originals, rest = hold_out(dialogues, held_out, seed)
        learned = originals if how is None else augment(originals, how, seed)
        training += learned * times
        validation += rest
        if how is not None and show_progress and is_first_process():
            print(f"{len(learned) - len(originals):,} counterfactuals of {len(originals):,} training dialogues.")
    return training, validation


def _mixture(corpora: str) -> list[tuple[str, int]]:
    """The corpora of a training, each with how often its dialogues are shown per epoch.

    Raises:
        TodBiasError: an entry without a name, or a number that is not 1 to 1000.
    """
    mixture = []
    for entry in corpora.split(","):
        parts = re.fullmatch(r"(.+?)(?::(-?[\d.]+))?", entry.strip())
        times = "1" if parts is None else parts[2] or "1"
        if parts is None or not times.isdigit() or not 1 <= int(times) <= _MOST_TIMES:
            raise TodBiasError(
                f"--corpus {corpora}: expected NAME or NAME:N, with a whole number N from 1 to {_MOST_TIMES}, "
                f"joined by commas; got {entry.strip()!r}"
            )
        mixture.append((parts[1], int(times)))
    return mixture
