"""Mentions of groups in a corpus: shares of words and of dialogues per axis and group (Su Fig. 2)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.io.files import replacing, write_json
from tod_bias.io.folder import writable
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.loading import load_axis
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.needed import check_resamples
from tod_bias.statistics.resampling import resample

SCHEMA = 1
"""Version of ``words.json``."""
SPEAKERS = ("user", "system", "both")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_PER_AXIS = ("mentions", "share_of_words", "share_of_mentions", "dialogues", "share_of_dialogues")


class WordStatistics(dict[str, Any]):
    """Content of ``words.json``, with the table."""

    rows: Sequence[Mapping[str, Any]] = ()
    """One per axis, group and speaker."""

    def save(self, folder: str | Path) -> None:
        """Write the record and the table."""
        folder = writable(folder)
        with replacing(folder / "words.csv") as part:
            pd.DataFrame(self.rows).to_csv(part, index=False)
        write_json(folder / "words.json", self)


def word_statistics(
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis] = ("gender", "age", "race"),
    *,
    bootstrap: int = 1000,
    seed: int = 0,
    corpus: Mapping[str, str] | None = None,
) -> WordStatistics:
    """Count the mentions of every group in users' and systems' utterances.

    A mention is a word or phrase that the axis would rewrite: it is in the axis's lexicon, in a context in which it
    refers to a person (:mod:`tod_bias.perturb`). A phrase counts once. Calls and results are not counted. For every
    axis, group and speaker (``user``, ``system``, ``both``):

    - ``mentions``, and ``share_of_words``: mentions per spoken word of that speaker, 0–1;
    - ``share_of_mentions``: among the mentions of the axis by that speaker, 0–1 (None without mentions);
    - ``dialogues`` in which the speaker mentions the group, and ``share_of_dialogues``, 0–1.

    Shares have 95% bootstrap intervals over dialogues (``…_low``, ``…_high``); where nothing was counted, or no other
    mentions were, there is none, as resamples cannot tell how rare it is.

    Args:
        dialogues: at least one.
        axes: names or axes; an axis's ``sources`` and protected phrases count.
        bootstrap: resamples; 0 for no intervals.
        seed: of the resamples.
        corpus: ``name`` and ``split`` for the record.

    Raises:
        AxisError: an unknown axis, one given twice, or none.
    """
    loaded = [load_axis(axis) if isinstance(axis, str) else axis for axis in axes]
    names = [axis.name for axis in loaded]
    if not names or len(set(names)) < len(names):
        raise AxisError(f"axes are {', '.join(names) or 'none'}; give at least one, and each once")
    check_resamples(bootstrap=bootstrap)
    words = np.array([_words(dialogue) for dialogue in dialogues])  # (dialogues, speakers)
    rows = [row for axis in loaded for row in _rows(axis, _mentions(axis, dialogues), words, bootstrap, seed)]
    result = WordStatistics(
        schema=SCHEMA,
        corpus={"name": "dialogues", "split": "", **(corpus or {}), "dialogues": len(dialogues)},
        words=dict(zip(SPEAKERS, words.sum(axis=0).tolist(), strict=True)),
        seed=seed,
        signature={
            "intervals": f"95%, expanded percentile, {bootstrap} resamples of dialogues, seed {seed}",
            **{f"axis {axis.name}": axis.signature for axis in loaded},
        },
        axes={axis.name: _by_group(axis, rows) for axis in loaded},
    )
    result.rows = rows
    return result


def _by_group(axis: Axis, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    by_group: dict[str, dict[str, Any]] = {group: {} for group in axis.groups}
    for row in rows:
        if row["axis"] == axis.name:
            by_group[row["group"]][row["speaker"]] = _plain(row)
    return by_group


def _words(dialogue: Dialogue) -> tuple[int, int, int]:
    words = Counter[str]()
    for turn in dialogue.turns:
        for speaker, text in turn.utterances:
            words[speaker] += len(_WORD.findall(text))
    return words["user"], words["system"], words.total()


def _mentions(axis: Axis, dialogues: Sequence[Dialogue]) -> np.ndarray:
    """Count the mentions of each group, (dialogues, groups, speakers)."""
    counts = np.zeros((len(dialogues), len(axis.groups), len(SPEAKERS)))
    places = {group: number for number, group in enumerate(axis.groups)}
    for row, dialogue in zip(counts, dialogues, strict=True):
        for speaker, group in axis.mentions(dialogue):
            row[places[group], SPEAKERS.index(speaker)] += 1
    counts[:, :, 2] = counts[:, :, 0] + counts[:, :, 1]
    return counts


def _rows(axis: Axis, mentions: np.ndarray, words: np.ndarray, bootstrap: int, seed: int) -> Iterator[dict[str, Any]]:
    groups = axis.groups
    shape = mentions.shape[1:]
    statistics = np.concatenate(
        [
            mentions.reshape(len(mentions), -1),
            (mentions > 0).reshape(len(mentions), -1),
            words,
            np.ones((len(words), 1)),
        ],
        axis=1,
    )

    def shares(sums: np.ndarray) -> np.ndarray:
        """(rows, 3, groups, speakers): of words, of dialogues, of mentions."""
        cells = shape[0] * shape[1]
        counts = sums[:, :cells].reshape(-1, *shape)
        of_words = counts / _positive(sums[:, None, -4:-1])
        of_dialogues = sums[:, cells : 2 * cells].reshape(-1, *shape) / sums[:, None, -1:]
        of_mentions = counts / _positive(counts.sum(axis=1, keepdims=True))
        return np.stack([of_words, of_dialogues, of_mentions], axis=1)

    values = shares(statistics.sum(axis=0, keepdims=True))[0]
    bounds = np.full((2, *values.shape), np.nan)
    if bootstrap:
        resampled = resample(statistics, shares, bootstrap, seed)
        bounds = interval(np.where(np.isnan(resampled), values, resampled), len(statistics))
        bounds[:, values == 0] = np.nan
        bounds[:, 2][:, values[2] == 1] = np.nan
    total = mentions.sum(axis=0)
    for g, group in enumerate(groups):
        for s, speaker in enumerate(SPEAKERS):
            yield {
                "axis": axis.name,
                "group": group,
                "speaker": speaker,
                "mentions": int(total[g, s]),
                "share_of_words": float(values[0, g, s]),
                "share_of_words_low": float(bounds[0, 0, g, s]),
                "share_of_words_high": float(bounds[1, 0, g, s]),
                "share_of_mentions": float(values[2, g, s]),
                "share_of_mentions_low": float(bounds[0, 2, g, s]),
                "share_of_mentions_high": float(bounds[1, 2, g, s]),
                "dialogues": int((mentions[:, g, s] > 0).sum()),
                "share_of_dialogues": float(values[1, g, s]),
                "share_of_dialogues_low": float(bounds[0, 1, g, s]),
                "share_of_dialogues_high": float(bounds[1, 1, g, s]),
            }


def _positive(counts: np.ndarray) -> np.ndarray:
    return np.where(counts > 0, counts, np.nan)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for JSON: intervals as pairs, None for what is undefined."""

    def known(value: float) -> float | None:
        return None if np.isnan(value) else value

    plain: dict[str, Any] = {name: known(row[name]) for name in _PER_AXIS}
    for name in ("share_of_words", "share_of_dialogues", "share_of_mentions"):
        bounds = [row[f"{name}_low"], row[f"{name}_high"]]
        plain[f"{name}_ci"] = None if np.isnan(bounds).any() else bounds
    return plain
