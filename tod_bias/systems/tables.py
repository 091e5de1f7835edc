"""A corpus's results as a database: what :class:`~tod_bias.systems.stages.sql.SqlDb` looks calls up in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.text import well_formed
from tod_bias.dialogues.values import plain, to_json
from tod_bias.errors import TodBiasError, shortened
from tod_bias.io.files import replacing

ROW, API = "_row", "_api_name"
"""Columns that are added to those of the results and never shown: the order of rows, and the API of a row."""
APIS = "_apis"
"""The table that says in which table an API's results are: ``api_name``, ``table_name``."""
_LARGEST = 1 << 63
"""Smallest positive integer beyond SQLite's range."""


@dataclass
class Service:
    """The results of one service."""

    name: str
    apis: list[str] = field(default_factory=list)
    """The APIs whose results are here."""
    columns: list[str] = field(default_factory=list)
    """The slots of all results, in the order in which they were seen."""
    rows: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """API and the row's text to the row: each is here once."""


def _common_domains(dialogues: Sequence[Dialogue]) -> dict[str, set[str]]:
    """API to the domains that all dialogues with a call of it have."""
    domains: dict[str, set[str]] = {}
    for dialogue in dialogues:
        named = {domain for part in dialogue.domain.split(",") if (domain := part.strip())}
        for step in (step for turn in dialogue.turns for step in turn.steps if step.name):
            domains[step.name] = domains[step.name] & named if step.name in domains else set(named)
    return domains


def services_of(dialogues: Iterable[Dialogue]) -> list[Service]:
    """Return the results of all calls by service; equal rows of one API occur once.

    An API belongs to the service that has its name, else to the domain of the dialogues that call it. If these have
    several domains (joined by a comma), it is their common domain. Without such a domain the API is its own service.
    """
    dialogues = list(dialogues)
    domains = _common_domains(dialogues)
    services: dict[str, Service] = {}
    for dialogue in dialogues:
        for step in (step for turn in dialogue.turns for step in turn.steps if step.name):
            common = domains[step.name]
            name = step.name if step.name in common or not common else min(common)
            service = services.setdefault(name.lower(), Service(name))
            if step.name not in service.apis:
                service.apis.append(step.name)
            for result in step.results:
                service.rows.setdefault((step.name, to_json(result)), result)
                service.columns += [slot for slot in result if slot not in service.columns]
    return sorted(services.values(), key=lambda service: service.name)


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
    import sqlalchemy as sa

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
    try:
        import sqlalchemy as sa
    except ImportError as error:
        raise TodBiasError(f"a database needs the package sqlalchemy ({error}); pip install sqlalchemy") from error
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
    import sqlalchemy as sa

    kinds = {type(value) if not isinstance(value, str) else str for value in values if value is not None}
    if kinds == {bool}:
        return sa.Boolean()
    if kinds == {int} and all(value is None or -_LARGEST <= value < _LARGEST for value in values):
        return sa.BigInteger()
    if kinds == {float}:
        return sa.Float()
    return sa.String() if kinds <= {str} else sa.JSON(none_as_null=True)


def _storable(row: Mapping[str, Any], table: Any) -> dict[str, Any]:
    import sqlalchemy as sa

    return {
        name: plain(value) if isinstance(table.c[name].type, sa.JSON) else _text(value) for name, value in row.items()
    }


def _text(value: Any) -> Any:
    return well_formed(str(value)) if isinstance(value, str) else value


def services_table(services: Sequence[Service]) -> Any:
    """Service, APIs, rows and columns, to be printed."""
    from rich.table import Table

    table = Table("service", "APIs", "rows", "columns", box=None)
    for service in services:
        table.add_row(service.name, str(len(service.apis)), f"{len(service.rows):,}", str(len(service.columns)))
    return table
