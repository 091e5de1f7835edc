"""A corpus's results as a database."""

from __future__ import annotations

import json
import math

import pytest
from builders import json_values
from hypothesis import given, settings
from hypothesis import strategies as st

from tod_bias import Dialogue, Step, Turn
from tod_bias.errors import TodBiasError
from tod_bias.stages import Outcome, SqlDb
from tod_bias.systems.database_file import write_database
from tod_bias.systems.tables import services_of


def dialogue(number: int, domain: str, *steps: Step) -> Dialogue:
    return Dialogue(str(number), domain, (Turn("Hi", steps=steps),))


def step(api: str, *results: dict, **arguments) -> Step:
    return Step({"api_name": api, **arguments}, results)


ROOM, HALL = {"name": "Mill", "stars": 3, "pets": True}, {"name": "Hall", "stars": 4, "open": ["mon", "tue"]}
CORPUS = [
    dialogue(1, "Hotels", step("FindRoom", ROOM, HALL, city="Davis")),
    dialogue(2, "Hotels, Trains", step("FindRoom", HALL), step("BookRoom", {"name": "Mill", "nights": 2})),
    dialogue(3, "Trains, Hotels", step("FindTrain", {"name": "T1", "price": 1.5})),
    dialogue(4, "Trains", step("FindTrain", {"name": "T2", "price": 2}), step("Cancel")),
    dialogue(5, "", step("ping", {"content": "pong"})),
]


def test_apis_belong_to_the_domain_that_their_dialogues_have_in_common():
    services = {service.name: service for service in services_of(CORPUS)}
    assert {name: service.apis for name, service in services.items()} == {
        "Hotels": ["FindRoom", "BookRoom"],
        "Trains": ["FindTrain", "Cancel"],
        "ping": ["ping"],
    }
    assert services["Hotels"].columns == ["name", "stars", "pets", "open", "nights"]
    assert len(services["Hotels"].rows) == 3
    (named,) = services_of([dialogue(1, "hotel_book, hotel_search", step("hotel_search", ROOM))])
    assert named.name == "hotel_search"


def test_calls_find_the_rows_as_they_were(tmp_path):
    write_database(services_of(CORPUS), tmp_path / "a.sqlite")
    database = SqlDb(tmp_path / "a.sqlite")
    assert database.look_up({"api_name": "FindRoom"}).rows == (ROOM, HALL)
    assert database.look_up({"api_name": "FindRoom", "city": "Davis", "open": "tue"}).rows == (HALL,)
    assert database.look_up({"api_name": "BookRoom", "stars": 3}).rows == ({"name": "Mill", "nights": 2},)
    assert database.look_up({"api_name": "FindTrain"}).rows == (
        {"name": "T1", "price": 1.5},
        {"name": "T2", "price": 2},
    )
    assert database.look_up({"api_name": "ping"}).rows == ({"content": "pong"},)
    assert database.look_up({"api_name": "Cancel"}).outcome is Outcome.EMPTY
    assert database.look_up({"api_name": "hotels", "name": "Mill"}).outcome is Outcome.EMPTY  # it is no API


def test_names_that_sql_does_not_tell_apart(tmp_path):
    row = {"Name": "a", "name": "b", "_row": "c", "_API_NAME": "d", "": "e", 'x"; DROP TABLE y': 1}
    write_database(services_of([dialogue(1, "", step('sqlite_"quoted"', row))]), tmp_path / "a.sqlite")
    (found,) = SqlDb(tmp_path / "a.sqlite").look_up({"api_name": 'sqlite_"quoted"', "NAME_2": "b"}).rows
    assert found == {
        "Name": "a", "name_2": "b", "_row_2": "c", "_API_NAME_2": "d", "unnamed": "e", 'x"; DROP TABLE y': 1,
    }  # fmt: skip


def without_null(row):
    """Return a row without null; its numbers equal those with another last digit (SQLite, in a mixed column), and so
    do integers beyond its 64 bits."""
    return {name: near(value) for name, value in row.items() if value is not None}


def near(value):
    is_inexact = isinstance(value, float) or (type(value) is int and not -(1 << 63) <= value < 1 << 63)
    return pytest.approx(value, rel=1e-12) if is_inexact and math.isfinite(value) else value


def written(row):
    return json.dumps(row, sort_keys=True)


@settings(max_examples=40)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), json_values, min_size=1), min_size=1, max_size=5))
def test_every_row_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "a.sqlite"
    write_database(services_of([dialogue(1, "", step("find", *rows))]), path)
    found = SqlDb(path, limit=99).look_up({"api_name": "find"}).rows
    expected = []
    for row in rows:
        if without_null(row) and not any(written(row) == written(other) for other in expected):
            expected.append(row)
    assert list(found) == [without_null(row) for row in expected]


def test_what_is_there_stays_until_all_is_written(tmp_path):
    path = tmp_path / "a.sqlite"
    write_database(services_of(CORPUS), path)
    before = path.read_bytes()
    with pytest.raises(TodBiasError, match="not written, because no call in these dialogues has a result"):
        write_database(services_of([]), path)
    wide = {f"slot {number}": 1 for number in range(3000)}
    with pytest.raises(TodBiasError, match=r"a\.sqlite: cannot be written: too many columns"):
        write_database(services_of([dialogue(1, "", step("find", wide))]), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.sqlite"]
