"""The tables of names: what is dealt, and what a wrong table says."""

from __future__ import annotations

from statistics import mean

import pytest

from tod_bias.errors import LexiconError
from tod_bias.perturb.names import dealt, dealt_last, first_names, last_names
from tod_bias.perturb.names.resources import GENDERS, RACES, WORDS
from tod_bias.perturb.names.slots import name_slots
from tod_bias.perturb.tables import words

CELLS = [(gender, race) for gender in GENDERS for race in RACES]


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


def test_the_tables_are_whole():
    for names in (first_names(), last_names()):
        assert len({name.name.lower() for name in names}) == len(names)
        assert all(part.isalpha() for name in names for part in name.name.replace("'", "-").split("-"))
        assert {name.race for name in names} == {"", *RACES}
    assert {name.gender for name in first_names()} == set(GENDERS)


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


def test_last_names_have_the_race_that_the_census_says():
    race = {name.name: name.race for name in last_names()}
    assert [race[name] for name in ("Nguyen", "Garcia", "Washington", "Smith")] == ["asian", "hispanic", "black", ""]


def test_slots_can_be_added_and_taken_out(tmp_path):
    (tmp_path / "mine.txt").write_text("# mine\nuser Renter owner_name\nnone GuestName\n")
    slots = name_slots(tmp_path / "mine.txt")
    assert [slots.kind(slot) for slot in ("owner_name", "RENTER", "GuestName", "first_name", "city")] == [
        "user", "user", "", "first", "",
    ]  # fmt: skip
    for text, line in (("users X\n", 1), ("\nuser\n", 2)):
        (tmp_path / "bad.txt").write_text(text)
        name_slots.cache_clear()
        with pytest.raises(LexiconError, match=f"line {line}: "):
            name_slots(tmp_path / "bad.txt")
