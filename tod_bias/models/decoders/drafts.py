"""Guesses of the next tokens, copied from prompts and outputs: prompt lookup, as in speculative decoding.

A model checks several guessed tokens in one pass and keeps those that it would have said itself (Leviathan et al. 2023,
"Fast inference from transformers via speculative decoding"; greedy, so a guess is right or wrong). Counterfactuals of
one turn are replied to in nearly the same words, and calls repeat values of their prompts, so guesses cost a lookup.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

_KNOWN = 3
"""Tokens before a guess that have to agree."""


class Drafts:
    """Tokens that followed short sequences of tokens at their last occurrence.

    Args:
        stops: tokens that end an output, which are not guessed.
    """

    def __init__(self, stops: Collection[int]) -> None:
        self._stops = frozenset(stops)
        self._after: dict[tuple[int, ...], tuple[Sequence[int], int]] = {}

    def learn(self, text: Sequence[int], start: int) -> None:
        """Know a text from this token on.

        Args:
            text: tokens, to which more may be added at the end later.
            start: the first that is new.
        """
        for place in range(max(start, _KNOWN), len(text)):
            self._after[tuple(text[place - _KNOWN : place])] = text, place

    def after(self, text: Sequence[int], most: int) -> list[int]:
        """Return guesses of the tokens after a text."""
        place = self._after.get(tuple(text[-_KNOWN:])) if most > 0 else None
        if place is None:
            return []
        source, start = place
        guessed: list[int] = []
        for token in source[start : start + most]:
            if token in self._stops:
                break
            guessed.append(token)
        return guessed
