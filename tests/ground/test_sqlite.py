"""The clock of a query begins with the query, however long nothing was asked before."""

import sqlite3

import pytest

from tod_bias.io import sqlite

MANY = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 100000) SELECT count(*) FROM r"


def test_time_between_queries_does_not_count(tmp_path):
    connection = sqlite.opened(tmp_path / "a.sqlite")
    connection.execute("CREATE TABLE a (b)")

    def long_ago():
        connection.clock.begun -= 10 * sqlite.LONGEST

    for ask in (
        lambda: connection.execute(MANY).fetchone(),
        lambda: connection.cursor().execute(MANY).fetchone(),
        lambda: connection.executemany("INSERT INTO a VALUES (?)", [(n,) for n in range(50_000)]),
        connection.commit,
        lambda: connection.executescript("DELETE FROM a;"),
        connection.rollback,
    ):
        long_ago()
        ask()
    connection.executemany("INSERT INTO a VALUES (?)", [(n,) for n in range(50_000)])
    with connection:
        long_ago()
    assert connection.execute("SELECT count(*) FROM a").fetchone() == (50_000,)


def test_a_query_that_does_not_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "LONGEST", 0.05)
    connection = sqlite.opened(tmp_path / "a.sqlite")
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute(MANY.replace(" LIMIT 100000", "")).fetchone()
