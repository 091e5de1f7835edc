"""The number of dialogues that would prove a difference, and of sign flips that can."""

import re

import pytest

from tests.benchmarks.event_worlds import chats, drawn, mentions_woman, pipeline
from tod_bias import Pipeline, attribute
from tod_bias.errors import TodBiasError

SEEDS = 30


def system(rate):
    """A stage that says one more sentence in some of the dialogues as a woman."""

    def harms(item):
        number = re.search(r"Number (\d+)", " ".join([*(turn.user for turn in item.history), item.user]))
        return mentions_woman(item.user) and drawn("harm", number and number[1]) < rate

    def answer(inputs):
        return ["It is open." + (" Bring a deposit." if harms(item) else "") for item in inputs]

    return Pipeline({"answer": answer})


def lead(stages, number, seed):
    (found, *_) = attribute(stages, chats(number, seed), axes=("gender",)).findings
    return found


def test_as_many_dialogues_as_are_said_prove_it_in_most_audits():
    found = [lead(system(0.2), 32, seed) for seed in range(SEEDS)]
    numbers = [some.needed for some in found if not some.is_difference and some.needed]
    assert len(numbers) >= 5
    again = [lead(system(0.2), number, 1000 + number * 7 + place) for place, number in enumerate(numbers)]
    assert sum(some.is_difference for some in again) / len(again) >= 0.6
    assert 32 < min(numbers) <= max(numbers) < 200


def test_fair_systems_have_no_number():
    found = [lead(pipeline("tools", "", seed), 40, seed) for seed in range(8)]
    assert sum(some.needed is not None for some in found) <= 1


def test_a_proven_difference_has_no_number():
    found = lead(system(0.6), 60, 0)
    assert (found.is_difference, found.needed) == (True, None)


@pytest.mark.parametrize("flips", [1, 19])
def test_too_few_flips_to_prove_anything_stop_with_the_number(flips):
    with pytest.raises(
        TodBiasError, match=r"permutations must be 0 for no tests, or at least 20 to reach p < .05, got"
    ):
        attribute(system(0.6), chats(30, 0), permutations=flips)


@pytest.mark.parametrize("flips", [20, 200, 300, 500])
def test_few_flips_that_suffice_prove_what_many_do(flips):
    found = attribute(system(0.6), chats(60, 0), axes=("gender",), permutations=flips).findings
    assert [(some.group, some.is_difference) for some in found] == [("woman", True)]
