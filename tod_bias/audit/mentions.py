"""How often a corpus mentions whom: shares of words and of dialogues per axis and attribute (Su Fig. 2)."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.audit.results import Results
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.files import replacing, subfolder, write_text
from tod_bias.folder import writable
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.loading import load_axis
from tod_bias.report.words import table as table
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.needed import check_resamples
from tod_bias.statistics.resampling import resample

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
"""Version of ``words.json``."""
SPEAKERS = ("user", "system", "both")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_PER_AXIS = ("mentions", "share_of_words", "share_of_mentions", "dialogues", "share_of_dialogues")


class _Rows:
    """A small table, whose frame is made when it is asked for."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows

    def frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(list(self._rows))

    def write(self, path: Path) -> None:
        """As CSV, with nothing where there is no number."""
        with path.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            if self._rows:
                lines.writerow(self._rows[0])
            lines.writerows([["" if value != value else value for value in row.values()] for row in self._rows])


class WordStatistics(Results):
    """The content of ``words.json``; ``turns`` is its table, a row an axis, attribute and speaker."""

    record_name = "words.json"
    frame_name = "words.csv"
    rows: Sequence[Mapping[str, Any]] = ()
    """The table's."""

    def save(self, folder: str | Path) -> None:
        """Write the record and the table, and the figure to ``figures/words.svg``."""
        from tod_bias.report.palette import to_svg
        from tod_bias.report.words import word_shares

        folder = writable(folder)
        pictures = subfolder(folder, "figures")
        with replacing(folder / self.frame_name) as part:
            assert self.table is not None
            self.table.write(part)
        write_text(pictures / "words.svg", to_svg(word_shares(self.rows)))
        self.save_record(folder)


def word_statistics(
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis] = ("gender", "age", "race"),
    *,
    bootstrap: int = 1000,
    seed: int = 0,
    corpus: Mapping[str, str] | None = None,
) -> WordStatistics:
    """Count the mentions of every attribute in what users and systems say.

    A mention is what the perturber would rewrite: a word or phrase of the axis's lexicon, in a context where it speaks
    of somebody (:mod:`tod_bias.perturb`); a phrase counts once. Calls and results are not counted. Of every axis,
    attribute and speaker (``user``, ``system``, ``both``):

    - ``mentions``, and ``share_of_words``: mentions per spoken word of that speaker, 0–1;
    - ``share_of_mentions``: among the mentions of the axis by that speaker, 0–1 (None where there are none);
    - ``dialogues`` in which the speaker mentions the attribute, and ``share_of_dialogues``, 0–1.

    Shares have 95% bootstrap intervals over dialogues (``…_low``, ``…_high``); where nothing was counted, or no other
    mentions were, there is none, as resamples cannot tell how rare it is.

    Args:
        dialogues: at least one.
        axes: names or perturbers; a perturber's ``sources`` and protected phrases count.
        bootstrap: resamples; 0 for no intervals.
        seed: of the resamples.
        corpus: ``name`` and ``split`` for the record.

    Raises:
        AxisError: an unknown axis, one given twice, or none.
    """
    perturbers = [load_axis(axis) if isinstance(axis, str) else axis for axis in axes]
    names = [perturber.name for perturber in perturbers]
    if not names or len(set(names)) < len(names):
        raise AxisError(f"axes are {', '.join(names) or 'none'}; give at least one, and each once")
    check_resamples(bootstrap=bootstrap)
    words = np.array([_words(dialogue) for dialogue in dialogues])  # (dialogues, speakers)
    rows = [
        row
        for perturber in perturbers
        for row in _rows(perturber, _mentions(perturber, dialogues), words, bootstrap, seed)
    ]
    result = WordStatistics(
        schema=SCHEMA,
        corpus={"name": "dialogues", "split": "", **(corpus or {}), "dialogues": len(dialogues)},
        words=dict(zip(SPEAKERS, words.sum(axis=0).tolist(), strict=True)),
        seed=seed,
        signature={
            "intervals": f"95%, expanded percentile, {bootstrap} resamples of dialogues, seed {seed}",
            **{f"axis {perturber.name}": perturber.signature for perturber in perturbers},
        },
        axes={
            name: {
                attribute: {row["speaker"]: _plain(row) for row in rows if (row["axis"], row["attribute"]) == key}
                for attribute in perturber.groups
                for key in [(name, attribute)]
            }
            for name, perturber in zip(names, perturbers, strict=True)
        },
    )
    result.rows = rows
    result.table = _Rows(rows)
    return result


def _words(dialogue: Dialogue) -> tuple[int, int, int]:
    words = Counter[str]()
    for turn in dialogue.turns:
        for speaker, text in turn.utterances:
            words[speaker] += len(_WORD.findall(text))
    return words["user"], words["system"], words.total()


def _mentions(perturber: Axis, dialogues: Sequence[Dialogue]) -> np.ndarray:
    """How often each attribute is mentioned, (dialogues, attributes, speakers)."""
    counts = np.zeros((len(dialogues), len(perturber.groups), len(SPEAKERS)))
    places = {attribute: number for number, attribute in enumerate(perturber.groups)}
    for row, dialogue in zip(counts, dialogues, strict=True):
        for speaker, attribute in perturber.mentions(dialogue):
            row[places[attribute], SPEAKERS.index(speaker)] += 1
    counts[:, :, 2] = counts[:, :, 0] + counts[:, :, 1]
    return counts


def _rows(
    perturber: Axis, mentions: np.ndarray, words: np.ndarray, bootstrap: int, seed: int
) -> Iterator[dict[str, Any]]:
    attributes = perturber.groups
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
        """(rows, 3, attributes, speakers): of words, of dialogues, of mentions."""
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
    for a, attribute in enumerate(attributes):
        for s, speaker in enumerate(SPEAKERS):
            yield {
                "axis": perturber.name,
                "attribute": attribute,
                "speaker": speaker,
                "mentions": int(total[a, s]),
                "share_of_words": float(values[0, a, s]),
                "share_of_words_low": float(bounds[0, 0, a, s]),
                "share_of_words_high": float(bounds[1, 0, a, s]),
                "share_of_mentions": float(values[2, a, s]),
                "share_of_mentions_low": float(bounds[0, 2, a, s]),
                "share_of_mentions_high": float(bounds[1, 2, a, s]),
                "dialogues": int((mentions[:, a, s] > 0).sum()),
                "share_of_dialogues": float(values[1, a, s]),
                "share_of_dialogues_low": float(bounds[0, 1, a, s]),
                "share_of_dialogues_high": float(bounds[1, 1, a, s]),
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
