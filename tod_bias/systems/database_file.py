"""A corpus's results as an SQLite file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tod_bias.dialogues.text import well_formed
from tod_bias.dialogues.values import plain
from tod_bias.errors import TodBiasError, shortened
from tod_bias.io.files import replacing
from tod_bias.systems.tables import API, APIS, ROW, Service

_LARGEST = 1 << 63
"""Smallest positive integer beyond SQLite's range."""


def is_sqlite(path: str | Path) -> bool:
    """True if a file is an SQLite file, empty, or missing."""
    if Path(path).exists() and not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(16) in (b"", b"SQLite format 3\0")
    except OSError:
        return True  # said by what writes it


def _tables(services: Sequence[Service], metadata: Any) -> Iterator[tuple[Service, dict[str, str], Any]]:
    """A table per service that has rows, with the column of each slot."""
    taken = {APIS, "sqlite_master"}
    for service in services:
        if not service.rows:
            continue
        names = _distinct(service.columns, {ROW, API})
        columns = [sa.Column(names[slot], _kind([row.get(slot) for row in service.rows.values()])) for slot in names]
        key = sa.Column(ROW, sa.Integer, primary_key=True)
        of_api = sa.Column(API, sa.String, index=True)
        name = next(iter(_distinct([service.name], taken).values()))
        taken.add(name.lower())
        yield service, names, sa.Table(name, metadata, key, of_api, *columns)


def write_database(services: Sequence[Service], path: str | Path) -> None:
    """Write an SQLite file with a table per service; an existing file is replaced when all is written.

    Texts are ``TEXT``, numbers, truth values and lists columns of their kinds (what is mixed is ``JSON``), so that they
    are read as they were; a null is left out. SQLite reads a number in a ``JSON`` column as a double, which may change
    the last digit, and integers that need more than 64 bits. Names that differ only in case get a number, because SQL
    ignores case.

    Raises:
        TodBiasError: there are no results, the file cannot be written, or a row exceeds SQLite's limits.
    """
    if not is_sqlite(path):
        raise TodBiasError(f"{path}: is there and is no SQLite file; choose another name")
    if not any(service.rows for service in services):
        raise TodBiasError(f"{path}: not written, because no call in these dialogues has a result")
    metadata = sa.MetaData()
    tables = list(_tables(services, metadata))
    apis = sa.Table(
        APIS, metadata, sa.Column("api_name", sa.String, primary_key=True), sa.Column("table_name", sa.String)
    )
    with replacing(path, named=True) as part:
        engine = sa.create_engine(sa.URL.create("sqlite", database=str(part)))
        try:
            metadata.create_all(engine)
            with engine.begin() as connection:
                for service, names, table in tables:
                    for api in service.apis:
                        connection.execute(apis.insert(), {"api_name": api, "table_name": table.name})
                    rows = [
                        {ROW: number, API: api, **{names[slot]: row.get(slot) for slot in names}}
                        for number, ((api, _), row) in enumerate(service.rows.items(), start=1)
                    ]
                    connection.execute(table.insert(), [_storable(row, table) for row in rows])
        except sa.exc.SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or error
            raise TodBiasError(f"{path}: cannot be written: {shortened(str(reason), 200)}") from error
        finally:
            engine.dispose()


def _distinct(names: Sequence[str], taken: set[str]) -> dict[str, str]:
    """Return names that differ in more than case."""
    distinct: dict[str, str] = {}
    seen = {name.lower() for name in taken}
    for name in names:
        base = well_formed(name).replace("\0", "") or "unnamed"
        given, number = base, 1
        while given.lower() in seen or given.lower().startswith("sqlite_"):
            number += 1
            given = f"{base.removeprefix('sqlite_')}_{number}"
        seen.add(given.lower())
        distinct[name] = given
    return distinct


def _kind(values: Iterable[Any]) -> Any:
    """The type of a column that holds these values."""
    kinds = {type(value) if not isinstance(value, str) else str for value in values if value is not None}
    if kinds == {bool}:
        return sa.Boolean()
    if kinds == {int} and all(value is None or -_LARGEST <= value < _LARGEST for value in values):
        return sa.BigInteger()
    if kinds == {float}:
        return sa.Float()
    return sa.String() if kinds <= {str} else sa.JSON(none_as_null=True)


def _storable(row: Mapping[str, Any], table: Any) -> dict[str, Any]:
    return {
        name: plain(value) if isinstance(table.c[name].type, sa.JSON) else _text(value) for name, value in row.items()
    }


def _text(value: Any) -> Any:
    return well_formed(str(value)) if isinstance(value, str) else value
