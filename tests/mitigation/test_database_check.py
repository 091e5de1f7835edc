"""Whose calls a database has no rows for: the demo's against what was withheld, and small ones that lack something."""

from __future__ import annotations

import json

import pytest
from demo_corpus.planted import PLANTED, group_terms
from demo_corpus.world import World

from tod_bias import Dialogue, Step, Turn, load_corpus, load_pipeline
from tod_bias.errors import NothingToPerturbError
from tod_bias.mitigation.missing_rows import check_database
from tod_bias.stages import LookupDb, SqlDb
from tod_bias.systems.database_file import write_database
from tod_bias.systems.tables import services_of

WITHHELD = tuple(f"{term.lower()} " for race in PLANTED["race"][1] for term in group_terms(race))


@pytest.fixture(scope="module")
def demo():
    return load_corpus("demo")


@pytest.fixture(scope="module")
def found(demo):
    return check_database(load_pipeline("demo").stages["db"], demo, ["gender", "age", "race"])


def test_the_demo_lacks_what_was_withheld_and_nothing_else(found):
    world = World(0)
    assert {(one.axis, one.group, one.rows) for one in found.missing} == {
        ("race", group, 0) for group in PLANTED["race"][1]
    }
    for one in found.missing:
        assert any(value.lower().startswith(WITHHELD) for value in one.call.values()), one.call
        assert [dict(row) for row in one.results] == list(world.results(one.call))


def test_every_withheld_row_that_a_counterfactual_needs_is_named(found, demo):
    world = World(0)
    named = {json.dumps(dict(one.call), sort_keys=True) for one in found.missing}
    calls = [step.call for dialogue in demo for turn in dialogue.turns for step in turn.steps if step.call]
    withheld = [call for call in calls if any(value.lower().startswith(WITHHELD) for value in call.values())]
    full = [call for call in withheld if world.results(call)]
    assert full
    assert {json.dumps(dict(call), sort_keys=True) for call in full} <= named


def test_with_the_missing_rows_the_demo_lacks_nothing(found, demo, tmp_path):
    database = load_pipeline("demo").stages["db"]
    table = tmp_path / "whole.jsonl"
    database.save(table)
    with table.open("a", encoding="utf-8") as lines:
        lines.writelines(json.dumps(one.record) + "\n" for one in found.missing)
    assert check_database(LookupDb(table), demo, ["race"]).missing == ()


CALL = {"api_name": "Find", "for": "my mother", "city": "Davis"}
ROWS = ({"name": "Hall", "for": "my mother", "phone": "1"}, {"name": "Dome", "for": "my mother", "phone": "2"})


def corpus(call=CALL, rows=ROWS):
    return [Dialogue("one", "halls", (Turn("Something for my mother.", steps=(Step(call, rows),), response="Hall."),))]


def rewritten(rows, word="father"):
    return tuple({name: value.replace("mother", word) for name, value in row.items()} for row in rows)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (None, 0),
        ((), 0),
        (rewritten(ROWS)[:1], 1),
        (tuple({**row, "name": "Shed"} for row in rewritten(ROWS)), 2),
        (rewritten(ROWS), 2),
        ((*rewritten(ROWS), {"name": "Shed"}), 3),
    ],
)
def test_results_of_a_call_are_compared_with_the_best_counterfactual(rows, found):
    table = {tuple(sorted(CALL.items())): ROWS}
    if rows is not None:
        table[tuple(sorted({**CALL, "for": "my father"}.items()))] = rows
    table[tuple(sorted({**CALL, "for": "my parent"}.items()))] = rewritten(ROWS, "parent")
    lacks = {one.group: one for one in check_database(LookupDb(table), corpus(), ["gender"]).missing}
    assert ("man" in lacks) == (found < 2)
    if "man" in lacks:
        assert (lacks["man"].results, lacks["man"].rows) == (rewritten(ROWS), found)
    assert ("woman" in lacks) == (found > 2)  # who finds less than the counterfactual that finds more


def test_rows_of_a_counterfactual_alone_are_missing_in_the_original():
    table = {tuple(sorted({**CALL, "for": "my father"}.items())): rewritten(ROWS)}
    lacks = {one.group: one for one in check_database(LookupDb(table), corpus(), ["gender"]).missing}
    assert lacks["woman"].results == ROWS
    assert set(lacks) == {"woman", "non-binary"}


def test_calls_without_results_and_calls_without_terms_lack_nothing():
    assert check_database(LookupDb({}), corpus(), ["gender"]).missing == ()
    plain = {"api_name": "Find", "city": "Davis"}
    found = check_database(LookupDb({}), corpus(plain), ["gender"])
    assert (dict(found.calls), found.missing) == ({"gender": {}}, ())


def test_sql_is_checked_like_a_table(tmp_path):
    path = tmp_path / "halls.sqlite"
    write_database(services_of(corpus()), path)
    lacks = {one.group: one for one in check_database(SqlDb(str(path)), corpus(), ["gender"]).missing}
    assert lacks.keys() == {"man", "non-binary"}
    assert (lacks["man"].rows, lacks["man"].results) == (0, rewritten(ROWS))


def test_without_a_term_to_rewrite_it_is_an_error():
    silent = [Dialogue("one", "halls", (Turn("Hello.", response="Hello."),))]
    with pytest.raises(NothingToPerturbError, match="no dialogue holds a word"):
        check_database(LookupDb({}), silent, ["gender"])
