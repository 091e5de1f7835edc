"""A text without the accents of its letters, with places of the original."""

from __future__ import annotations

import unicodedata

_LIGATURES = {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O"}
_STROKES = {"ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "ı": "i"}
_SPECIAL = _LIGATURES | _STROKES
"""Letters without a decomposition in Unicode."""


class Unaccented:
    """A text without accents; its positions can be converted to positions in the original.

    Args:
        original: text in composed or decomposed Unicode.

    Attributes:
        text: the text with base letters only ("Jose" for "José").
    """

    def __init__(self, original: str) -> None:
        self.text = original
        self._starts: list[int] | None = None
        if original.isascii():
            return
        letters: list[str] = []
        self._starts = []
        for place, letter in enumerate(original):
            for base in _SPECIAL.get(letter) or unicodedata.normalize("NFD", letter):
                if not unicodedata.combining(base):
                    letters.append(base)
                    self._starts.append(place)
        self._starts.append(len(original))
        self.text = "".join(letters)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Convert a span of :attr:`text` to the span of the original, which includes the accents of its last letter."""
        return (start, end) if self._starts is None else (self._starts[start], self._starts[end])
