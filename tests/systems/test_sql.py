"""Calls as queries: constraints, outcomes, and that nothing of a call becomes SQL."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tod_bias import StageInput
from tod_bias.errors import StageError
from tod_bias.stages import Lookup, Outcome, SqlDb
from tod_bias.systems.stage import StageCall, cache_signature
from tod_bias.testing import StageContract

HOTELS = [
    # name, city, stars, price, pets, tags, rating
    ("Old Mill", "Davis", 3, 80.5, True, ["garden", "pool"], "4.20"),
    ("Bristol", "DAVIS", 4, 120.0, False, ["bar"], "3.9"),
    ("O'Hara 100%", "Oakland", 5, 200.0, None, None, "new"),
    ("Under_score", "Oakland", None, 95.0, True, ["bar", "garden"], "4.9"),
]


def fill(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    columns = {
        "name": sa.String, "city": sa.String, "stars": sa.Integer, "price": sa.Float, "pets": sa.Boolean,
        "tags": sa.JSON(none_as_null=True), "rating": sa.String,
    }  # fmt: skip
    made = [sa.Column(name, kind) for name, kind in columns.items()]
    table = sa.Table("Hotels", metadata, sa.Column("id", sa.Integer, primary_key=True), *made)
    metadata.create_all(engine)
    with engine.begin() as connection:
        for number, row in enumerate(HOTELS, start=1):
            connection.execute(table.insert(), dict(zip(columns, row, strict=True)) | {"id": number})


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "hotels.sqlite"
    engine = sa.create_engine(f"sqlite:///{path}")
    fill(engine)
    engine.dispose()
    return path


BIN = max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=None)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL of its own, with a password."""
    found = shutil.which("initdb") or (str(BIN) if BIN else None)
    if found is None:
        pytest.skip("no PostgreSQL: initdb is not installed")
    programs = Path(found).parent
    folder = Path(tempfile.mkdtemp(prefix="tb-pg-"))
    user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        if shutil.which("runuser") is None or subprocess.run(["id", "postgres"], capture_output=True).returncode:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        shutil.chown(folder, "postgres")
        user = ["runuser", "-u", "postgres", "--"]
    secret = folder / "secret"
    secret.write_text("p@ss word")
    secret.chmod(0o644)
    ctl = [*user, str(programs / "pg_ctl"), "-D", str(folder / "data"), "-w"]
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    password = f"--pwfile={secret}"
    try:
        initdb = [*user, found, "-D", str(folder / "data"), "-U", "tester", "-A", "scram-sha-256", password]
        subprocess.run(initdb, check=True, capture_output=True)
        subprocess.run([*ctl, "-o", options, "-l", str(folder / "log"), "start"], check=True, stdout=subprocess.DEVNULL)
        url = f"postgresql+psycopg://tester:p%40ss word@/postgres?host={folder}"
        engine = sa.create_engine(url)
        fill(engine)
        engine.dispose()
        yield url
    finally:
        subprocess.run([*ctl, "-m", "immediate", "stop"], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("file" if request.param == "sqlite" else "server"))


def names(lookup: Lookup) -> list[str]:
    return [str(row["name"]).split()[0] for row in lookup.rows]


ALL = ["Old", "Bristol", "O'Hara", "Under_score"]
CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ALL), ({"city": "davis"}, ["Old", "Bristol"]), ({"city": None}, ALL),
    ({"city": ["oakland", "Nowhere"]}, ["O'Hara", "Under_score"]), ({"city": []}, []), ({"stars": "4"}, ["Bristol"]),
    ({"stars": "four"}, []), ({"stars": 10**30}, []), ({"stars": {"above": "3", "below": 5}}, ["Bristol"]),
    ({"price": {"min": 90, "max": 120}}, ["Bristol", "Under_score"]), ({"price": {"max": "cheap"}}, []),
    ({"rating": {"min": 4}}, ["Old", "Under_score"]), ({"rating": "4.20"}, ["Old"]),
    ({"name": {"min": "P"}}, ["Under_score"]), ({"name": {"contains": "%"}}, ["O'Hara"]),
    ({"name": {"contains": "_"}}, ["Under_score"]), ({"name": {"not_contains": "o"}}, []),
    ({"city": {"not": "Davis"}}, ["O'Hara", "Under_score"]),
    ({"stars": {"not": 3}}, ["Bristol", "O'Hara", "Under_score"]), ({"pets": True}, ["Old", "Under_score"]),
    ({"pets": "no"}, ["Bristol"]), ({"pets": "perhaps"}, []), ({"tags": "garden"}, ["Old", "Under_score"]),
    ({"tags": "gard"}, []), ({"tags": {"contains": "Bar"}}, ["Bristol", "Under_score"]),
    ({"tags": ["pool", "bar"]}, ["Old", "Bristol", "Under_score"]), ({"guests": 2}, ALL),
    ({"stars": {"min": None}}, ALL),
]  # fmt: skip


@pytest.mark.parametrize(("constraints", "found"), CASES)
def test_constraints(url, constraints, found):
    lookup = SqlDb(url).look_up({"api_name": "hotels", **constraints})
    assert names(lookup) == found
    assert lookup.outcome is (Outcome.ROWS if found else Outcome.EMPTY)


def test_rows_are_json_and_what_is_null_is_left_out(url):
    assert names(SqlDb(url, limit=2).look_up({"api_name": "Hotels"})) == ["Old", "Bristol"]
    first, *_, last = SqlDb(url).look_up({"api_name": "Hotels"}).rows
    assert first == {
        "id": 1, "name": "Old Mill", "city": "Davis", "stars": 3, "price": 80.5, "pets": True,
        "tags": ["garden", "pool"], "rating": "4.20",
    }  # fmt: skip
    assert "stars" not in last


EVIL = [
    '\'; DROP TABLE "Hotels"; --', "' OR '1'='1", '" OR 1=1 --', "x') UNION SELECT * FROM sqlite_master --",
    "%' OR 'a' LIKE '%", "\\'; SELECT pg_sleep(9); --", "Davis\0' OR 1=1", "\ud800", ":name", "%(name)s", "?",
]  # fmt: skip


@pytest.mark.parametrize("evil", EVIL)
def test_nothing_of_a_call_becomes_sql(url, evil):
    database = SqlDb(url)
    for value in (evil, [evil], {"contains": evil}, {"min": evil, "max": evil}, {"one_of": [evil]}):
        assert names(database.look_up({"api_name": "Hotels", "city": value})) == []
    assert names(database.look_up({"api_name": "Hotels", evil: 1})) == ALL
    assert database.look_up({"api_name": evil}).outcome is Outcome.NO_ROW
    assert names(database.look_up({"api_name": "Hotels"})) == ALL


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        (None, Outcome.NO_CALL),
        ("find hotels", Outcome.MALFORMED),
        ({"city": "Davis"}, Outcome.MALFORMED),
        *(
            ({"api_name": "Hotels", **slots}, Outcome.MALFORMED)
            for slots in (
                {"malformed_arguments": "{"}, {"city": {"like": "D"}}, {"city": [["Davis"]]}, {"stars": {"min": [3]}},
                {"city": {}}, {"city": [f"place {number}" for number in range(101)]},
                {"tags": {"not": {"one_of": ["bar"]}}}, {"name": {"contains": "%" * 30_000}},
            )
        ),
        ({"api_name": "Hotels", "tags": [f"tag {number}" for number in range(100)]}, Outcome.EMPTY),
        ({"api_name": "Hotels", "stars": [1 << 63, 1e300, "nan", "9" * 400, True]}, Outcome.EMPTY),
        ({"api_name": "Trains"}, Outcome.NO_ROW),
        ({"name": "hotels", "arguments": '{"city": "Nowhere"}'}, Outcome.EMPTY),
    ],
)  # fmt: skip
def test_outcomes(file, call, outcome):
    assert SqlDb(file).look_up(call) == Lookup(outcome)


def test_tables_map_apis_and_slots(file):
    slots = {"cheapest": {"column": "price", "match": "min"}, "dearest": {"column": "price", "match": "max"}}
    tables = {"Find": {"table": "hotels", "slots": {"where": "city", **slots}, "ignore": ["name"]}}
    database = SqlDb(file, tables)
    call = {"api_name": "Find", "where": "oakland", "cheapest": 90, "dearest": 100, "name": "Any"}
    assert names(database.look_up(call)) == ["Under_score"]
    assert database.look_up({**call, "dearest": {"max": 3}}).outcome is Outcome.MALFORMED


class TestSqlDb(StageContract):
    @pytest.fixture
    def stage(self, file):
        return SqlDb(file, api_call="policy")

    @pytest.fixture
    def inputs(self):
        call = {"api_name": "Hotels", "city": "Davis"}
        return [
            StageInput((), "Hi", {}, (), call),
            StageInput((), "Hi", {"policy": {**call, "stars": 3}}, (StageCall("policy", None, {**call, "stars": 3}),)),
            StageInput((), "Hi", {"policy": {"calls": [call, {"api_name": "Hotels", "stars": 5}]}}),
            StageInput((), "Hi", {"policy": None}),
        ]

    def test_lookups(self, stage, inputs):
        found = [names(one) for one in stage(inputs)]
        assert found == [["Old", "Bristol"], ["Old"], ["Old", "Bristol", "O'Hara"], []]


def test_databases_are_opened_for_reading_alone(url):
    database = SqlDb(url)
    with database._engine.connect() as connection, pytest.raises(sa.exc.DBAPIError, match=r"read-?only"):
        connection.execute(sa.text('DELETE FROM "Hotels"'))


def test_the_identity_is_the_files_content(file, tmp_path):
    copy = tmp_path / "other name.sqlite"
    shutil.copy(file, copy)
    assert cache_signature(SqlDb(file)) == cache_signature(SqlDb(f"sqlite:///{copy}"))
    assert cache_signature(SqlDb(file)) != cache_signature(SqlDb(file, limit=3))
    with sqlite3.connect(copy) as connection:
        connection.execute("DELETE FROM Hotels WHERE id = 1")
    connection.close()
    assert cache_signature(SqlDb(file)) != cache_signature(SqlDb(copy))


def test_outputs_of_a_server_are_not_cached(file, server):
    assert SqlDb(file).use_cache
    assert not SqlDb(server).use_cache
    assert "p@ss" not in cache_signature(SqlDb(server))
    assert "p%40ss" not in SqlDb(server).signature


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("none.sqlite", "none.sqlite: no such SQLite file"),
        ("sqlite://", "no such SQLite file"),
        ("$NO_SUCH_VARIABLE", "the environment has no variable 'NO_SUCH_VARIABLE'"),
        ("oracle9://u:s3cret@h/x", "oracle9://u:***@h/x: Can't load plugin"),
        ("mysql+mysqldb://u:s3cret@h/x", "No module named 'MySQLdb'"),
        ("postgresql+psycopg://u:s3cret@localhost:1/x?sslkey=s3cret", "postgresql+psycopg://u:***@localhost:1/x: "),
        ("postgresql+psycopg://u:s3cret@localhost:port/x", "url: cannot be read"),
    ],
)
def test_a_wrong_url_is_one_line_without_the_password(url, problem, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StageError) as error:
        SqlDb(url)
    assert problem in str(error.value)
    assert "s3cret" not in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_wrong_password_is_not_shown(server):
    with pytest.raises(StageError) as error:
        SqlDb(server.replace("p%40ss word", "t0p-secret"))
    assert "password authentication failed" in str(error.value)
    assert "t0p-secret" not in str(error.value)


def test_a_url_may_stand_in_the_environment(server, monkeypatch):
    monkeypatch.setenv("HOTELS_URL", server)
    assert names(SqlDb("$HOTELS_URL").look_up({"api_name": "Hotels", "stars": 3})) == ["Old"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"limit": 0}, "limit: expected a number of rows"),
        ({"tables": {"Find": "Trains"}}, "has no table 'Trains'; it has Hotels"),
        ({"tables": {"Find": {"table": "Hotels", "slots": {"a": "town"}}}}, "expected a column"),
        ({"tables": {"Find": {"table": "Hotels", "slots": {"city": {"match": "like"}}}}}, "slot 'city': expected"),
    ],
)
def test_mistakes_are_one_line(file, arguments, problem):
    with pytest.raises(StageError, match=f"^[^\n]*{problem}[^\n]*$"):
        SqlDb(file, **arguments)


def test_data_that_cannot_be_read_and_a_missing_call_are_named(file, tmp_path):
    (tmp_path / "a.sqlite").write_text("Not a database, but long enough to be taken for one. " * 20)
    with pytest.raises(StageError, match=r"a\.sqlite: file is not a database"):
        SqlDb(tmp_path / "a.sqlite")
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute("CREATE TABLE t (day DATE)")
        database.execute("INSERT INTO t VALUES ('soon')")
    with pytest.raises(StageError, match=r"x\.sqlite: .*'soon'"):
        SqlDb(tmp_path / "x.sqlite").look_up({"api_name": "t"})
    with pytest.raises(StageError, match="needs a call as argument, or the output of a stage 'api_call'"):
        SqlDb(file)([StageInput((), "Hi", {"policy": ""})])
