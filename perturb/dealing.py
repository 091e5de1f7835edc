"""Balanced dealing: every term meets as many dialogues as any other, and other terms in each of them.

A Latin square (Fisher 1935, The Design of Experiments) in blocks: in a block of as many dialogues as there are terms
each term is dealt once to every column (a group, or a further variant for it), and from block to block the columns move
against each other, so that no two terms always meet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np


class Square:
    """Terms of one group, dealt out to the dialogues of a corpus.

    Args:
        terms: at least one, distinct.
        seed: of their order.
        label: tells squares of one seed apart, such as the group.
        column: the index of the group among all of the axis.

    Raises:
        ValueError: no term.
    """

    def __init__(self, terms: Sequence[str], *, seed: int, label: str, column: int = 0) -> None:
        if not terms:
            raise ValueError(f"{label}: no term to deal out")
        order = np.random.default_rng([seed % 2**64, number_of(label)]).permutation(len(terms))
        self._terms = [terms[index] for index in order]
        self._column = column

    def pick(self, dialogue: int, variant: int = 0, taken: Collection[str] = ()) -> str:
        """The term for one variant of a dialogue.

        Args:
            dialogue: its number among those that are rewritten.
            variant: further variants for the same group get further terms.
            taken: terms that the dialogue holds already, in lower case; the next one is dealt where there is another.
        """
        count = len(self._terms)
        block = dialogue // count
        first = dialogue + self._column * (block + 1) + variant * (2 * block + 1)
        for step in range(count):
            term = self._terms[(first + step) % count]
            if term.lower() not in taken:
                return term
        return self._terms[first % count]


def turn_of(number: int, count: int, *label: object) -> int:
    """Whose turn it is, 0 to ``count`` - 1: each once in every block of ``count`` numbers, in a random order.

    Turns by the number alone would fall together with other things that take turns.
    """
    block, place = divmod(number, count)
    return _order(number_of(*label), block, count)[place]


@lru_cache(maxsize=1024)
def _order(seed: int, block: int, count: int) -> tuple[int, ...]:
    """The random order of a block."""
    return tuple(np.random.default_rng([seed, block]).permutation(count).tolist())


def groups_of(
    groups: Sequence[str], source: str, dialogue: int, variants: int | None, *label: object
) -> list[tuple[str, int]]:
    """The groups that a dialogue is rewritten for, each with the number of the variant for it, in the groups' order.

    Fewer variants than groups go to these in turn: in every block of as many dialogues as there are others each is
    dealt equally often, in a random order.

    Args:
        groups: of the axis.
        source: the dialogue's group; left out.
        dialogue: its number among those of the same source, or of all.
        variants: how many; None for each other group once.
        label: tells random orders apart.
    """
    others = [group for group in groups if group != source]
    count = len(others) if variants is None else variants
    block, place = divmod(dialogue, max(1, len(others)))
    order = _order(number_of("targets", source, *label), block, len(others))
    chosen = [(others[order[(place * count + number) % len(others)]], number // len(others)) for number in range(count)]
    return sorted(chosen, key=lambda entry: (groups.index(entry[0]), entry[1]))


def number_of(*parts: object) -> int:
    """A number that depends on texts and numbers alone, 0 to 2**64 - 1."""
    key = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
