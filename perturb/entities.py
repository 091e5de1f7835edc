"""Which values of a dialogue's API calls and results are names of things, and so no mention of anybody."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import LexiconError

FILE = Path(__file__).parent / "lexicons" / "entity_slots.txt"
"""Words of slot names that show that the slot's value is a name; ``-word`` in a slot's name says that it is not."""

_PARTS = re.compile(r"[\W_]+")
_LIST = re.compile(r"\s*,\s*")


@cache
def entity_slot_words(path: Path = FILE) -> tuple[frozenset[str], frozenset[str]]:
    """The words that make a slot an entity slot, and those that make it none.

    Raises:
        LexiconError: the file cannot be read or holds no word.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LexiconError(f"{path}: cannot be read: {error}") from error
    words = [word for line in lines for word in line.partition("#")[0].lower().split()]
    if not words:
        raise LexiconError(f"{path}: holds no word; expected words of slot names, one a line")
    return (
        frozenset(word for word in words if not word.startswith("-")),
        frozenset(word[1:] for word in words if word.startswith("-")),
    )


@lru_cache(maxsize=4096)
def is_entity_slot(slot: str) -> bool:
    """Whether the values of a slot are names of things or places (``restaurant_name``, ``artist``, ``from_station``).

    A slot that holds a person as the user calls them (``recipient_name``: "Mom") is none.
    """
    names, others = entity_slot_words()
    parts = set(_PARTS.split(slot.lower()))
    return not parts.isdisjoint(names) and parts.isdisjoint(others)


def entity_names(dialogue: Dialogue, may_mention: Callable[[str], bool]) -> Iterator[str]:
    """The names in a dialogue's calls and results that hold a word for which ``may_mention`` is true, each once.

    They are looked for at any depth; the innermost slot decides, and a list's values belong to the list's slot.
    A name of three words or more also gives its first two, which is how people shorten it ("Uncle Yu's" for "Uncle
    Yu's Szechuan"). A value that lists several names ("A, B") gives each of them too, as utterances hold them apart.
    """
    seen = set()
    for turn in dialogue.turns:
        for slot, value in turn.values:
            if value in seen or not is_entity_slot(slot):
                continue
            seen.add(value)
            if may_mention(value):
                yield value
                yield from _beginnings(value, may_mention)
                if "," in value:
                    yield from (part for part in _LIST.split(value) if may_mention(part))


def _beginnings(name: str, may_mention: Callable[[str], bool]) -> Iterator[str]:
    words = name.split()
    if len(words) > 2 and words[0].lower() not in ("the", "a") and may_mention(" ".join(words[:2])):
        yield " ".join(words[:2])
