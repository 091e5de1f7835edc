"""Balanced dealing: every term meets as many dialogues as any other, and other terms in each of them.

Randomised blocks (Fisher 1935, The Design of Experiments): in a block of as many dialogues as there are terms each is
dealt once, in an order that is drawn anew for every group and block, so that terms of two groups meet by chance alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np

from tod_bias.dialogues.dialogue import Dialogue

_ANYWHERE = 1 << 20


class Dealer:
    """Deals terms out to the dialogues of a corpus, one dialogue after the other.

    Args:
        seed: of all orders.
        axis: the axis's name.
        begin: how many dialogues are taken to have been dealt before the first one.
    """

    def __init__(self, seed: int, axis: str, begin: int = 0) -> None:
        self.seed, self.begin, self._axis = seed, begin, axis
        self._dealt: Counter[tuple[object, ...]] = Counter()
        self._numbers: dict[tuple[object, ...], int] = {}

    @classmethod
    def of(cls, dialogues: Sequence[Dialogue], seed: int, axis: str) -> Dealer:
        """Deal terms to a corpus; the id of a single dialogue draws the first term, or each would get the same one."""
        begin = number_of(seed, axis, dialogues[0].id) % _ANYWHERE if len(dialogues) == 1 else 0
        return cls(seed, axis, begin)

    def next_dialogue(self) -> None:
        """Go on to another dialogue."""
        self._dealt.update(self._numbers.keys())
        self._numbers = {}

    def pick(self, terms: Sequence[str], *label: object, variant: int = 0, taken: Collection[str] = ()) -> str:
        """Return the term for the current dialogue.

        Args:
            terms: distinct; at least one.
            label: identifies the series of terms, such as their group; series with different labels are independent.
            variant: further variants for the same group get further terms.
            taken: terms that the dialogue contains, in lower case; the next other term is dealt if there is one.
        """
        number = self._numbers.setdefault(label, self.begin + self._dealt[label])
        return dealt_term(terms, number, self.seed, self._axis, *label, variant=variant, taken=taken)


def dealt_term(terms: Sequence[str], number: int, *label: object, variant: int = 0, taken: Collection[str] = ()) -> str:
    """The term that a dialogue gets by its number among those that get one; see :meth:`Dealer.pick`."""
    block, place = divmod(number, len(terms))
    order = _order(number_of(*label), block, len(terms))
    turns = [terms[order[(place + variant + step) % len(terms)]] for step in range(len(terms) if taken else 1)]
    return next((term for term in turns if term.lower() not in taken), turns[0])


def turn_of(number: int, count: int, *label: object) -> int:
    """Whose turn it is, 0 to ``count`` - 1: each once in every block of ``count`` numbers, in a random order.

    Turns by the number alone would fall together with other things that take turns.
    """
    block, place = divmod(number, count)
    return _order(number_of(*label), block, count)[place]


@lru_cache(maxsize=1 << 14)
def _order(seed: int, block: int, count: int) -> tuple[int, ...]:
    """The random order of a block."""
    return tuple(np.random.default_rng([seed, block]).permutation(count).tolist())


def groups_of(
    groups: Sequence[str], source: str, dialogue: int, variants: int | None, *label: object
) -> list[tuple[str, int]]:
    """Return the groups for which a dialogue is rewritten, each with the number of its variant, in the groups' order.

    Fewer variants than groups go to these in turn: in every block of as many dialogues as there are others each is
    dealt equally often, in a random order.

    Args:
        groups: of the axis.
        source: the dialogue's group; left out.
        dialogue: its number among those of the same source, or of all.
        variants: their number; None for each other group once.
        label: identifies the random order.
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
