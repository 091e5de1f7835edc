"""word2vec's binary format: ``WORDS DIMENSIONS``, then a word each, a space, and its numbers as float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tod_bias.errors import EmbeddingsError

_LONGEST = 10_000
"""Bytes of a word."""


def read_binary(file: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """Words and vectors of a file.

    Raises:
        EmbeddingsError: it cannot be read, or is no such file.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise EmbeddingsError(f"{file}: cannot be read ({error.strerror or error})") from error
    end = data.find(b"\n", 0, 100)
    sizes = data[:end].split() if end >= 0 else []
    if len(sizes) != 2 or not all(size.isdigit() for size in sizes):
        raise EmbeddingsError(f"{file}: no word2vec binary file; expected its first line to be WORDS DIMENSIONS")
    count, width = map(int, sizes)
    if not count or not width or count * (4 * width + 1) > len(data):
        raise EmbeddingsError(f"{file}: has {len(data)} bytes, too few for {count} words with {width} numbers each")
    words = []
    vectors = np.empty((count, width), dtype=np.float32)
    place = end + 1
    for row in range(count):
        stop = data.find(b" ", place, place + _LONGEST)
        if stop < 0 or stop + 1 + 4 * width > len(data):
            raise EmbeddingsError(f"{file}: ends, or holds no word, at word {row + 1} of {count}")
        try:
            words.append(data[place:stop].lstrip(b"\n").decode())
        except UnicodeDecodeError as error:
            raise EmbeddingsError(f"{file}: word {row + 1} is not UTF-8") from error
        vectors[row] = np.frombuffer(data, dtype="<f4", count=width, offset=stop + 1)
        place = stop + 1 + 4 * width
    return tuple(words), vectors
