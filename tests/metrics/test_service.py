"""Calls made, their amounts, what they find, and questions in their place."""

import functools

import numpy as np
import pytest
from assistant import assistant, corpus, system
from chat_server import ChatServer

from tod_bias import Turn, attribute
from tod_bias.metrics.choice import metric
from tod_bias.metrics.metric import ScoredTurn

FIND = {"api_name": "find", "limit": 3}


def scored(name, *turns):
    """The score of turns: calls, results, response."""
    made = metric(name)
    told = [ScoredTurn("", calls, results, response, Turn("")) for calls, results, response in turns]
    return made.score(made.statistics(told).sum(axis=0))


@pytest.mark.parametrize(
    ("name", "turns", "score"),
    [
        ("calls_made", [((FIND, FIND), (), ""), ((), (), ""), (None, (), "")], 1),
        ("results_found", [((FIND,), ({"a": 1}, {"a": 2}, {"a": 3}), ""), ((FIND,), (), "")], 1.5),
        ("asks_back", [((), (), "Where to?"), ((FIND,), (), "Shall I?"), ((), (), "No."), (None, (), "Hm?")], 0.25),
        ("amount_limit", [((FIND, {"limit": "1"}), (), ""), (({"limit": True}, {"limit": "no"}, {}), (), "")], 2),
        ("amount_fee", [((FIND,), (), "")], np.nan),
    ],
)
def test_scores(name, turns, score):
    assert scored(name, *turns) == pytest.approx(score, nan_ok=True)


def test_turns_of_a_system_without_calls_are_not_scored():
    silent = ScoredTurn("", (), (), "Where to?", Turn(""), has_calls=False)
    for name in ("calls_made", "results_found", "asks_back"):
        assert not metric(name).statistics([silent]).any()


def test_a_planted_limit_is_read_in_users_units():
    names = ("results_found", "amount_limit", "calls_made")
    with ChatServer(functools.partial(assistant, policy_bias=True)) as server:
        result = attribute(system(server.url), corpus(), axes=["gender"], metrics=names, permutations=500, bootstrap=0)
    found = result.axes["gender"]
    woman, man = ({name: found[name].groups[group].score.value for name in names} for group in ("woman", "man"))
    assert (woman["results_found"], man["results_found"]) == (pytest.approx(0.5, abs=0.05), 1.5)  # of two turns
    assert (woman["amount_limit"], man["amount_limit"]) == (pytest.approx(1, abs=0.1), 3)
    assert woman["calls_made"] == man["calls_made"] == 0.5
    assert set(found["results_found"].claims) == {"woman", "man", "non-binary"}
    assert found["amount_limit"].groups["woman"].shares["policy"].value == pytest.approx(
        found["amount_limit"].groups["woman"].gap.value
    )
