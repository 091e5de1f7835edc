"""Limits take a sample that is like the whole."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tod_bias import load_corpus
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.sampling import allocate, sample


def corpus(**sizes):
    return [Dialogue(f"{domain}{number}", domain, ()) for domain, size in sizes.items() for number in range(size)]


@pytest.mark.parametrize(
    ("sizes", "count", "shares"),
    [
        ({"a": 60, "b": 30, "c": 10}, 10, {"a": 6, "b": 3, "c": 1}),
        ({"a": 96, "b": 2, "c": 2}, 10, {"a": 8, "b": 1, "c": 1}),
        ({"a": 98, "b": 1, "c": 1}, 3, {"a": 1, "b": 1, "c": 1}),
        ({"a": 5, "b": 3, "c": 1}, 2, {"a": 1, "b": 1, "c": 0}),
        ({"a": 1, "b": 1, "c": 1}, 2, {"a": 1, "b": 1, "c": 0}),
        ({"a": 3, "b": 2}, 5, {"a": 3, "b": 2}),
    ],
)
def test_shares_by_largest_remainder_with_one_for_each_where_there_is_room(sizes, count, shares):
    assert allocate(sizes, count) == shares


@given(st.dictionaries(st.text(max_size=2), st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 60))
def test_shares_add_up_and_fit(sizes, count):
    count = min(count, sum(sizes.values()))
    shares = allocate(sizes, count)
    assert sum(shares.values()) == count
    assert all(0 <= shares[name] <= size for name, size in sizes.items())
    assert count < len(sizes) or min(shares.values()) >= 1


def test_a_sample_is_seeded_in_order_and_over_the_whole_corpus():
    whole = corpus(a=60, b=30, c=10)
    drawn = sample(whole, 20, seed=1)
    assert drawn == sample(whole, 20, seed=1) != sample(whole, 20, seed=2)
    assert [whole.index(dialogue) for dialogue in drawn] == sorted(whole.index(dialogue) for dialogue in drawn)
    assert Counter(dialogue.domain for dialogue in drawn) == {"a": 12, "b": 6, "c": 2}
    assert drawn != whole[:20]


@pytest.mark.parametrize("count", [None, 100, 101])
def test_no_limit_takes_all(count):
    whole = corpus(a=60, b=40)
    assert sample(whole, count) == whole


def test_what_is_drawn_of_a_domain_does_not_depend_on_the_others():
    alone = sample(corpus(b=10), 5)
    among = sample(corpus(a=10, b=10), 10)
    assert [dialogue.id for dialogue in among if dialogue.domain == "b"] == [dialogue.id for dialogue in alone]


@pytest.mark.real_data
def test_three_hundred_of_sgd_are_of_every_domain(sgd_datapath):
    whole = load_corpus("google_sgd", datapath=sgd_datapath, split="valid")
    some = sample(whole, 300)
    assert len(some) == 300
    assert {dialogue.domain for dialogue in some} == {dialogue.domain for dialogue in whole}
    first = {dialogue.domain for dialogue in whole[:300]}
    assert len(first) < len({dialogue.domain for dialogue in some}) / 3
