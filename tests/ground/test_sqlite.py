"""The time limit of SQLite statements, which counts from the start of each statement."""

import sqlite3

import pytest

from tod_bias.io import sqlite

MANY = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 100000) SELECT count(*) FROM r"


def test_time_between_statements_does_not_count(tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr(sqlite.time, "monotonic", lambda: now)
    connection = sqlite.opened(tmp_path / "a.sqlite")
    connection.execute("CREATE TABLE a (b)")
    for ask in (
        lambda: connection.execute(MANY).fetchone(),
        lambda: connection.cursor().execute(MANY).fetchone(),
        lambda: connection.executemany("INSERT INTO a VALUES (?)", [(n,) for n in range(50_000)]),
        connection.commit,
        lambda: connection.executescript("DELETE FROM a;"),
    ):
        now += 10 * sqlite.LONGEST
        ask()
    assert connection.execute("SELECT count(*) FROM a").fetchone() == (0,)


def test_a_statement_that_does_not_end_is_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "LONGEST", 0.05)
    connection = sqlite.opened(tmp_path / "a.sqlite")
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute(MANY.replace(" LIMIT 100000", "")).fetchone()
