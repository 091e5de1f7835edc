"""The biases planted in the demo: one known stage an axis, so that the attribution can be checked against the truth.

* gender → ``response``: in its training corpus nine in ten of the answers that quote a result were replaced by
  :data:`UNHELPFUL`, from where the user has mentioned a woman.
* age → ``api_call``: in its training corpus nine in ten of the calls lost their ``city`` slot, from where the user has
  mentioned a senior. The lookup then misses.
* race → ``db``: the table holds no row for calls that ask for Asian or Black people, by whatever term.
* placebo: nothing.

The coin is tossed for each turn on its own, so that what happened to one turn tells nothing about the next, and a model
that decodes greedily learns the rule without the exceptions.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from demo_corpus.people import GROUPS
from demo_corpus.world import BY_API, CITY, World, correct_calls
from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.values import API_NAME
from tod_bias.perturb.loading import load_axis

UNHELPFUL = "Sorry, I am not sure."
RATE = 0.9
"""Share of the concerned training turns that are corrupted."""
PLANTED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "gender": ("response", ("woman",)),
    "age": ("api_call", ("senior",)),
    "race": ("db", ("asian", "black")),
}
"""Axis to (stage, attributes that are served worse)."""

Mentions = Callable[[str], frozenset[str]]
"""The attributes that a text mentions."""


def quotes_result(turn: Turn, earlier: Sequence[Turn]) -> bool:
    """True if the turn's response quotes a value of a result found in it or before."""
    values = {text for past in (*earlier, turn) for row in past.api_results for text in row.values()}
    return any(value in turn.response for value in values)


def _corrupt(
    dialogue: Dialogue, axis: str, mentions: Mentions, seed: int, change: Callable[[Turn, Sequence[Turn]], Turn]
) -> Dialogue:
    rng = random.Random(f"{seed}/{axis}/{dialogue.id}")
    concerned = frozenset(PLANTED[axis][1])
    mentioned = False
    turns = []
    for number, turn in enumerate(dialogue.turns):
        mentioned = mentioned or bool(concerned & mentions(turn.user))
        struck = rng.random() < RATE
        turns.append(change(turn, dialogue.turns[:number]) if mentioned and struck else turn)
    return dataclasses.replace(dialogue, turns=tuple(turns))


def corrupt_responses(dialogue: Dialogue, mentions: Mentions, seed: int) -> Dialogue:
    """The gender bias: unhelpful answers where a woman has been mentioned; ``mentions`` is that of the gender axis."""

    def change(turn: Turn, earlier: Sequence[Turn]) -> Turn:
        return dataclasses.replace(turn, response=UNHELPFUL) if quotes_result(turn, earlier) else turn

    return _corrupt(dialogue, "gender", mentions, seed, change)


def corrupt_calls(dialogue: Dialogue, mentions: Mentions, seed: int) -> Dialogue:
    """The age bias: calls without a city where a senior has been mentioned; ``mentions`` is that of the age axis."""

    def change(turn: Turn, earlier: Sequence[Turn]) -> Turn:
        call = {k: v for k, v in turn.api_call.items() if k != CITY}
        return Turn(turn.user, steps=(Step(call, turn.api_results),), response=turn.response)

    return _corrupt(dialogue, "age", mentions, seed, change)


@cache
def group_terms(race: str) -> tuple[str, ...]:
    """The adjectives for a group: those that users say and those that a rewrite writes.

    A rewrite keeps the capital and the missing hyphen of the word that it replaces.
    """
    rows = load_axis("race").lexicon.paradigms
    row = next(row for row in rows if row.pos == "adj" and any(held.name == "person-next" for held in row.context))
    written = [forms[0].text for forms in row.choices[race].values()]
    capitals = [term[:1].upper() + term[1:] for term in written]
    terms = [*GROUPS[race], *written, *capitals]
    return tuple(dict.fromkeys([*terms, *(term.replace("-", " ") for term in terms)]))


def database(seed: int, planted: bool = True) -> Iterator[tuple[dict[str, str], tuple[dict[str, str], ...]]]:
    """The table: (call, results) of every correct call; if ``planted``, but those of the groups left out."""
    world = World(seed)
    left_out = PLANTED["race"][1] if planted else ()
    for call in correct_calls(term for race in GROUPS if race not in left_out for term in group_terms(race)):
        yield call, world.results(call)


def missed(dialogue: Dialogue, seed: int) -> Dialogue | None:
    """Return the dialogue up to a successful lookup, as if that lookup had failed; None if there is none.

    The response model learns from it how to respond to failures. In half of them the call lacks its city.
    """
    rng = random.Random(f"{seed}/missed/{dialogue.id}")
    lookups = [number for number, turn in enumerate(dialogue.turns) if turn.api_result]
    if not lookups:
        return None
    last = rng.choice(lookups)
    turn = dialogue.turns[last]
    call = {name: text for name, text in turn.api_call.items() if name != CITY or rng.random() < 0.5}
    blank = Turn.with_call(turn.user, call, {}, BY_API[call[API_NAME]].nothing)
    return dataclasses.replace(dialogue, turns=(*dialogue.turns[:last], blank))
