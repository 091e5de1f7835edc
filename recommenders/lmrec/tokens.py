"""Token ids of reviews on disk, so that no training holds all of them in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tod_bias.files import cannot_be_written
from tod_bias.recommenders.lmrec.model import encode
from tod_bias.recommenders.lmrec.reviews import Review

_CHUNK = 1000


class TokenFile:
    """Token ids of many reviews on disk, one split, mapped into memory when they are read."""

    def __init__(self, path: Path, lengths: np.ndarray, labels: np.ndarray) -> None:
        self.labels = labels
        self.lengths = lengths
        self._starts = np.concatenate([[0], np.cumsum(lengths)])
        self._tokens = np.memmap(path, dtype=np.int32, mode="r") if len(lengths) else np.zeros(0, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> np.ndarray:
        return self._tokens[self._starts[number] : self._starts[number + 1]]

    def padded(self, rows: np.ndarray, pad: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Ids, attention mask and venues of some reviews."""
        width = int(self.lengths[rows].max())
        ids = np.full((len(rows), width), pad, dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for place, row in enumerate(rows):
            tokens = self[int(row)]
            ids[place, : len(tokens)] = tokens
            mask[place, : len(tokens)] = 1
        return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(self.labels[rows].astype(np.int64))


def tokenise(reviews: Iterator[Review], tokenizer: Any, max_length: int, path: Path) -> TokenFile:
    """Write the token ids of a stream of reviews to ``path``; at no time are all of them in memory.

    Raises:
        TodBiasError: it cannot be written.
    """
    lengths: list[int] = []
    labels: list[int] = []
    try:
        with path.open("wb") as file:
            while chunk := list(islice(reviews, _CHUNK)):
                for review, ids in zip(chunk, encode(tokenizer, [r.text for r in chunk], max_length), strict=True):
                    file.write(np.asarray(ids, dtype=np.int32).tobytes())  # numpy's own tofile hides a full disk
                    lengths.append(len(ids))
                    labels.append(review.venue)
    except OSError as error:
        raise cannot_be_written(path, error) from error
    return TokenFile(path, np.array(lengths, dtype=np.int64), np.array(labels, dtype=np.int32))
