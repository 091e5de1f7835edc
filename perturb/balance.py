"""Balanced dealing: every form meets as many dialogues as any other, and other forms in each of them.

A Latin square (Fisher 1935, The Design of Experiments) in blocks: in a block of as many dialogues as there are forms
each form is dealt once to every column (an attribute, or a further telling of it), and from block to block the columns
move against each other, so that no two forms always meet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np


class Square:
    """Forms of one attribute, dealt out to the dialogues of a corpus.

    Args:
        forms: at least one, distinct.
        seed: of their order.
        label: tells squares of one seed apart, such as the attribute.
        column: the place of the attribute among all of the axis.

    Raises:
        ValueError: no form.
    """

    def __init__(self, forms: Sequence[str], *, seed: int, label: str, column: int = 0) -> None:
        if not forms:
            raise ValueError(f"{label}: no form to deal out")
        order = np.random.default_rng([seed % 2**64, number_of(label)]).permutation(len(forms))
        self._forms = [forms[place] for place in order]
        self._column = column

    def pick(self, dialogue: int, telling: int = 0, taken: Collection[str] = ()) -> str:
        """The form for one telling of a dialogue.

        Args:
            dialogue: its number among those that are told.
            telling: further tellings as the same attribute get further forms.
            taken: forms that the dialogue holds already, in lower case; the next one is dealt where there is another.
        """
        count = len(self._forms)
        block = dialogue // count
        first = dialogue + self._column * (block + 1) + telling * (2 * block + 1)
        for step in range(count):
            form = self._forms[(first + step) % count]
            if form.lower() not in taken:
                return form
        return self._forms[first % count]


def turn_of(number: int, count: int, *label: object) -> int:
    """Whose turn it is, 0 to ``count`` - 1: each once in every block of ``count`` numbers, in an order of chance.

    Turns by the number alone would fall together with other things that take turns.
    """
    block, place = divmod(number, count)
    return _order(number_of(*label), block, count)[place]


@lru_cache(maxsize=1024)
def _order(seed: int, block: int, count: int) -> tuple[int, ...]:
    """The order of chance of a block."""
    return tuple(np.random.default_rng([seed, block]).permutation(count).tolist())


def targets(
    attributes: Sequence[str], source: str, dialogue: int, tellings: int | None, *label: object
) -> list[tuple[str, int]]:
    """What a dialogue is told as, and which telling of that attribute each is, in the order of the attributes.

    Fewer tellings than attributes go to these in turn: in every block of as many dialogues as there are others each is
    dealt equally often, in an order of chance.

    Args:
        attributes: of the axis.
        source: the dialogue's own; left out.
        dialogue: its number among those of the same source, or of all.
        tellings: how many; None for each other attribute once.
        label: tells orders of chance apart.
    """
    others = [attribute for attribute in attributes if attribute != source]
    count = len(others) if tellings is None else tellings
    block, place = divmod(dialogue, max(1, len(others)))
    order = _order(number_of("targets", source, *label), block, len(others))
    chosen = [(others[order[(place * count + number) % len(others)]], number // len(others)) for number in range(count)]
    return sorted(chosen, key=lambda one: (attributes.index(one[0]), one[1]))


def number_of(*parts: object) -> int:
    """A number that depends on texts and numbers alone, 0 to 2**64 - 1."""
    key = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
