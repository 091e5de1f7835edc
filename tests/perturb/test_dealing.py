"""Names dealt out evenly, and attributes in turn."""

from collections import Counter

from tod_bias.perturb.dealing import Square, groups_of, turn_of


def test_a_square_deals_every_form_equally_and_moves_columns_against_each_other():
    names = [f"n{number}" for number in range(12)]
    squares = [Square(names, seed=3, label=label, column=column) for column, label in enumerate("ab")]
    dealt_out = [[square.pick(number) for number in range(144)] for square in squares]
    for column in dealt_out:
        assert set(Counter(column).values()) == {12}
    assert len(set(zip(*dealt_out, strict=True))) >= 130  # nearly every name meets every other
    again = [squares[0].pick(number, 1) for number in range(144)]
    assert sum(one == other for one, other in zip(dealt_out[0], again, strict=True)) <= 12
    assert squares[0].pick(0, taken={dealt_out[0][0]}) != dealt_out[0][0]


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
