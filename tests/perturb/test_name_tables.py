"""The tables of names: what is dealt, and what a wrong table says."""

from __future__ import annotations

from statistics import mean

import pytest

from tod_bias.errors import AxisError, LexiconError
from tod_bias.perturb.names import dealt, dealt_last, first_names, last_names
from tod_bias.perturb.names.resources import GENDERS, RACES, WORDS, read_first_names, read_last_names
from tod_bias.perturb.names.slots import name_slots
from tod_bias.perturb.tables import words

CELLS = [(gender, race) for gender in GENDERS for race in RACES]
FIRST = "name\tgender\trace\tdecade\tfrequency\tused\tword\tsource\n"
LAST = "name\trace\tshare\tfrequency\tused\tword\tsource\n"


def test_every_cell_has_as_many_names_and_none_is_in_two():
    assert {len(dealt(*cell)) for cell in CELLS} == {20}
    names = [name.lower() for cell in CELLS for name in dealt(*cell)]
    assert len(set(names)) == len(names) == len(dealt())
    assert len(dealt("woman")) == len(dealt(race="black")) * 2 == 80
    assert {len(dealt_last(race)) for race in RACES} == {20}
    assert set(dealt()) == {name.name for name in first_names() if name.used}


def test_no_dealt_name_is_a_word_or_a_place():
    wrong = {word for section in ("words", "places", "times", "never") for word in words(section, WORDS)}
    assert not wrong & {name.lower() for name in (*dealt(), *(last for race in RACES for last in dealt_last(race)))}


def test_cells_are_alike_in_length():
    lengths = [mean(map(len, dealt(*cell))) for cell in CELLS]
    assert max(lengths) - min(lengths) < 1.7


@pytest.mark.parametrize(
    ("name", "gender", "race"),
    [("Emily", "woman", "white"), ("Lakisha", "woman", "black"), ("Jamal", "man", "black"), ("Juan", "man", "hispanic"),
     ("Mei", "woman", "asian"), ("Sanjay", "man", "asian"), ("Tyler", "man", "white"), ("Sophia", "woman", "")],
)  # fmt: skip
def test_what_the_statistics_say(name, gender, race):
    (found,) = [one for one in first_names() if one.name == name]
    assert (found.gender, found.race) == (gender, race)


def test_last_names_have_the_census_shares():
    found = {name.name: name for name in last_names()}
    assert (found["Nguyen"].race, found["Garcia"].race, found["Smith"].race) == ("asian", "hispanic", "")
    assert found["Washington"].race == "black"
    assert found["Washington"].share == pytest.approx(0.875, abs=0.01)  # 87.5% in the Census Bureau's table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "Ann\twoman\twhite\t1970\t1\tno\tno\tx\nann\tman\twhite\t1970\t1\tno\tno\tx\n",
            "line 3: 'ann' is in two groups",
        ),
        ("Ann\twoman\twhite\t1970\t1\tno\tno\tx\nAnn\twoman\twhite\t1980\t1\tno\tno\tx\n", "line 3: 'Ann' is in one"),
        ("\twoman\twhite\t1970\t1\tno\tno\tx\n", "line 2: expected a name of one word, got ''"),
        ("Ann Lee\twoman\twhite\t1970\t1\tno\tno\tx\n", "line 2: expected a name of one word, got 'Ann Lee'"),
        ("Ann\tlady\twhite\t1970\t1\tno\tno\tx\n", "line 2: unknown gender 'lady'; expected one of man, woman"),
        ("Ann\twoman\tgreen\t1970\t1\tno\tno\tx\n", "line 2: unknown race 'green'"),
        ("Ann\twoman\twhite\t1970\tmany\tno\tno\tx\n", "line 2: frequency must be a number from 0 on, got 'many'"),
        ("Ann\twoman\twhite\n", "line 2: 3 cells, expected 8"),
        ("Ann\twoman\t\t1970\t1\tyes\tno\tx\n", "line 2: 'Ann' is dealt out but has no race"),
        ("May\twoman\twhite\t1970\t1\tyes\tyes\tx\n", "line 2: 'May' is dealt out but is also a word"),
        ("", "holds no name"),
    ],
)
def test_a_wrong_table_ends_in_one_line(tmp_path, table, message):
    path = tmp_path / "first.tsv"
    path.write_text(FIRST + table)
    with pytest.raises(LexiconError, match=r"first\.tsv") as error:
        read_first_names(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_last_names_are_checked_as_well(tmp_path):
    (tmp_path / "last.tsv").write_text(LAST + "Lee\tblue\t0.5\t1\tno\tno\tx\n")
    with pytest.raises(LexiconError, match=r"last\.tsv, line 2: unknown race 'blue'"):
        read_last_names(tmp_path / "last.tsv")
    (tmp_path / "head.tsv").write_text("name\tcolour\n")
    with pytest.raises(LexiconError, match=r"head\.tsv, line 1: expected the columns name, race"):
        read_last_names(tmp_path / "head.tsv")
    with pytest.raises(LexiconError, match="cannot be read"):
        read_last_names(tmp_path / "none.tsv")


def test_unknown_attributes_of_names_are_refused():
    with pytest.raises(AxisError, match="names have no gender 'lady'; expected one of man, woman"):
        dealt("lady")
    with pytest.raises(AxisError, match="names have no race 'green'"):
        dealt_last("green")


def test_slots_can_be_added_and_taken_out(tmp_path):
    (tmp_path / "mine.txt").write_text("# mine\nuser Renter owner_name\nnone GuestName\n")
    slots = name_slots(tmp_path / "mine.txt")
    assert [slots.kind(slot) for slot in ("owner_name", "RENTER", "GuestName", "first_name", "city")] == [
        "user", "user", "", "first", "",
    ]  # fmt: skip
    for text, message in (("users X\n", "line 1: unknown kind 'users'"), ("\nuser\n", "line 2: 'user' without a slot")):
        (tmp_path / "bad.txt").write_text(text)
        name_slots.cache_clear()
        with pytest.raises(LexiconError, match=message):
            name_slots(tmp_path / "bad.txt")
