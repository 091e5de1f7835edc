"""Terms dealt out evenly, and groups in turn."""

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.dealing import Dealer, dealt_term, groups_of, turn_of


def test_every_term_is_dealt_once_in_a_block_and_further_variants_get_further_terms():
    terms = [f"t{number}" for number in range(12)]
    dealer = Dealer(3, "axis")
    dealt = []
    for _ in range(144):
        dealt.append([dealer.pick(terms, "group", variant=variant) for variant in range(3)])
        dealer.next_dialogue()
    for variant in zip(*dealt, strict=True):
        assert all(set(variant[start : start + 12]) == set(terms) for start in range(0, 144, 12))
        assert len({variant[start : start + 12] for start in range(0, 144, 12)}) == 12  # in another order each
    assert all(len(set(some)) == 3 for some in dealt)


@pytest.mark.parametrize(("groups", "count"), [(6, 4), (7, 8), (2, 12)])
def test_terms_of_two_groups_meet_by_chance_alone(groups, count):
    """With Latin squares the terms of groups 1 and 5 of six with four terms met in every dialogue."""
    blocks = 120
    terms, dealer, dealt = [str(number) for number in range(count)], Dealer(0, "axis"), []
    for _ in range(blocks * count):
        dealt.append([dealer.pick(terms, group) for group in range(groups)])
        dealer.next_dialogue()
    columns = np.array(dealt, int)
    for first, second in combinations(range(groups), 2):
        met = Counter(zip(columns[:, first], columns[:, second], strict=True))
        fair = blocks / count  # of a pair of terms, with the variance of a random permutation's fixed points
        assert all(abs(met[pair] - fair) < 5 * fair**0.5 for pair in product(range(count), repeat=2))
        moved = Counter(((columns[:, first] - columns[:, second]) % count).tolist())
        assert max(moved.values()) < 1.5 * blocks  # and no shift of one against the other stands out


def test_what_a_dialogue_holds_is_dealt_only_where_nothing_else_is_left():
    first = dealt_term(["Ann", "Eve", "Mia"], 0, "x")
    assert dealt_term(["Ann", "Eve", "Mia"], 0, "x", taken={first.lower()}) != first
    assert dealt_term(["Ann", "Eve", "Mia"], 0, "x", taken={"ann", "eve", "mia"}) == first


def test_a_single_dialogue_begins_anywhere():
    terms = ["a", "b", "c", "d"]
    alone = [Dealer.of([Dialogue(f"d{number}", "", ())], 0, "axis").pick(terms) for number in range(400)]
    assert all(abs(count - 100) < 40 for count in Counter(alone).values())


def test_targets_take_turns_where_there_are_fewer_variants():
    given = [groups_of("abcd", "a", number, 2) for number in range(30)]
    assert all(len(some) == 2 and "a" not in dict(some) for some in given)
    assert set(Counter(name for some in given for name, _ in some).values()) == {20}
    assert groups_of("abc", "b", 5, None) == [("a", 0), ("c", 0)]
    assert groups_of("ab", "a", 0, 3) == [("b", 0), ("b", 1), ("b", 2)]


def test_turns_are_dealt_in_blocks_in_an_order_of_chance():
    turns = [turn_of(number, 4, "seed", 0) for number in range(40)]
    assert all(sorted(turns[start : start + 4]) == [0, 1, 2, 3] for start in range(0, 40, 4))
    assert len({tuple(turns[start : start + 4]) for start in range(0, 40, 4)}) > 3
    assert turns != [turn_of(number, 4, "seed", 1) for number in range(40)]
