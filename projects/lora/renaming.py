"""Descriptions of services in another order and under other names: a model then reads names, and does not recall them.

The system message is one of the corpus ``google_sgd_described`` (``tod_bias/dialogues/schemas.py``).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from random import Random

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.text import Slots
from tod_bias.dialogues.values import API_NAME

_API = re.compile(r"(\w+)(!?) \((.*?)\): (.*)")
_SLOT = re.compile(r"(\w+): (.*)")
_WORD = re.compile("[A-Za-z]+")
_FUNCTION_WORDS = """
    a an and any are as at be been boolean by can do e flag for from g given has have i if in indicating is it its
    of on or s such that the their there they this to under user users was where whether which who whom will with
"""
_LITTLE = set(_FUNCTION_WORDS.split())


def described_anew(dialogue: Dialogue, random: Random, renamed: float = 0.0) -> Dialogue:
    """The dialogue with its services, their APIs and slots in another order, and some under other names.

    Names are made of the words of their descriptions; calls and results have them too.

    Args:
        dialogue: its system message may be what ``describe`` writes; lines of others are only shuffled.
        random: decides.
        renamed: with which probability a service gets other names.
    """
    blocks = [block.split("\n") for block in dialogue.system.split("\n\n")]
    random.shuffle(blocks)
    names: dict[str, dict[str, str]] = {}  # API to what it, and each of its slots, is called
    described = [_block(block, names, random, random.random() < renamed) for block in blocks]
    turns = tuple(_renamed(turn, names) for turn in dialogue.turns) if names else dialogue.turns
    return dataclasses.replace(dialogue, system="\n\n".join(described), turns=turns)


def _new_names(
    apis: Sequence[re.Match[str]], slots: Sequence[re.Match[str]], names: dict[str, dict[str, str]], random: Random
) -> dict[str, str]:
    """Slot to its new name; ``names`` gets those of the APIs too."""
    new: dict[str, str] = {}
    for slot in slots:
        new[slot[1]] = _other_name(slot[1], slot[2].partition(" [")[0], new.values(), random)
    for api in apis:
        taken = [of_api[API_NAME] for of_api in names.values()]
        names[api[1]] = {**new, API_NAME: _other_name(api[1], api[4], taken, random, camel=True)}
    return new


def _block(lines: Sequence[str], names: dict[str, dict[str, str]], random: Random, rename: bool) -> str:
    """A service anew; ``names`` gets its new names."""
    apis = [match for line in lines if (match := _API.fullmatch(line))]
    slots = [match for line in lines if not _API.fullmatch(line) and (match := _SLOT.fullmatch(line))]
    rest = [line for line in lines if not _API.fullmatch(line) and not _SLOT.fullmatch(line)]
    new = _new_names(apis, slots, names, random) if rename and not any(api[1] in names for api in apis) else {}
    lines_anew = []
    for api in random.sample(apis, len(apis)):
        inside = [
            re.sub(r"^\w+", lambda name: new.get(name[0], name[0]), argument)
            for argument in api[3].split(", ")
            if argument
        ]
        name = names[api[1]][API_NAME] if new else api[1]
        lines_anew.append(f"{name}{api[2]} ({', '.join(random.sample(inside, len(inside)))}): {api[4]}")
    lines_anew += [f"{new.get(slot[1], slot[1])}: {slot[2]}" for slot in random.sample(slots, len(slots))]
    return "\n".join(lines_anew + random.sample(rest, len(rest)))


def _other_name(name: str, description: str, taken: Collection[str], random: Random, *, camel: bool = False) -> str:
    """One to three words of a description, in their order, as a name that is not taken; the old one if there is none.

    Args:
        camel: the first word, which is the verb, and others: ``CheckBalance``.
    """
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(description)))
    words = [word for word in words if word not in _LITTLE]
    for _ in range(8):
        first = words[:1] if camel else []
        others = words[len(first) :]
        chosen = set(random.sample(others, min(len(others), random.randint(1, 3 - len(first)))))
        parts = [*first, *(word for word in others if word in chosen)]
        made = "".join(map(str.capitalize, parts)) if camel else "_".join(parts)
        if made and made != API_NAME and made not in taken:
            return made
    return name


def _renamed(turn: Turn, names: Mapping[str, Mapping[str, str]]) -> Turn:
    if not any(step.name in names for step in turn.steps):
        return turn
    return Turn(
        turn.user, steps=[_renamed_step(step, names.get(step.name, {})) for step in turn.steps], response=turn.response
    )


def _renamed_step(step: Step, names: Mapping[str, str]) -> Step:
    def anew(slots: Slots) -> Slots:
        slots_anew = {names.get(name, name): value for name, value in slots.items() if name != API_NAME}
        if API_NAME in slots:
            slots_anew[API_NAME] = names.get(API_NAME, slots[API_NAME])
        return slots_anew if len(slots_anew) == len(slots) else slots

    return dataclasses.replace(step, call=anew(step.call), results=tuple(map(anew, step.results)))
