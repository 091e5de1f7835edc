"""A database behind SQL: rows that meet a call's constraints."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tod_bias.dialogues.calls import MALFORMED, calls_of
from tod_bias.dialogues.values import API_NAME, to_json
from tod_bias.errors import StageError
from tod_bias.systems.conditions import MATCHES, MOST_VALUES, NotUnderstoodError, condition, count_of
from tod_bias.systems.databases import Database
from tod_bias.systems.outputs import Lookup, Outcome
from tod_bias.systems.stages.database import DatabaseStage
from tod_bias.systems.tables import API, APIS, ROW

log = logging.getLogger(__name__)

_UNKNOWN = ("ignore", "malformed")


@dataclass(frozen=True)
class _Source:
    """Where the rows of one API are."""

    table: Any
    """A reflected table."""
    slots: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    """Slot to column and match; those that are not in it are looked for by name."""
    ignored: frozenset[str] = frozenset()
    """Slots that ask nothing."""


class SqlDb(DatabaseStage):
    """Looks calls up in a database over SQLAlchemy: a slot is a constraint on a column.

    A value is equal without regard to case, a number written as text equals the number. Other constraints are values of
    their own: ``{"min": 3}``, ``max``, ``above``, ``below`` (ranges), ``{"contains": "park"}``, ``not``,
    ``not_contains``, a list or ``{"one_of": […]}``; None asks nothing. A call with more than 100 values, or a text of
    more than 4,000 characters, is malformed. Rows come in the order of the table's primary
    key (of all columns where it has none), ``limit`` at most; what is NULL in a row is left out.

    The output is a :class:`~tod_bias.systems.outputs.Lookup`: ``ROWS``, ``EMPTY`` (no row meets the constraints),
    ``NO_ROW`` (no table for this API), ``MALFORMED``, ``NO_CALL``. Names of tables and columns come from the database
    itself, values are bound parameters: nothing that stands in a call becomes SQL.

    In a file of ``tod-bias database`` a call finds rows that its own API gave. A booking for a time that nobody has
    booked finds none; ``{"table": "Hotels", "ignore": ["time"]}`` lets it.

    Args:
        url: of SQLAlchemy (``postgresql+psycopg://user@host/name``), the path of an SQLite file, or ``$NAME``, an
            environment variable that holds one. SQLite files are opened for reading alone.
        tables: API name to table, or to ``{"table": …, "slots": {slot: column}, "ignore": [slots]}``; instead of a
            column ``{"column": …, "match": "exact", "contains", "min", "max", "above", "below", "one_of", "not"}``.
            Left out, and for other APIs: the table that ``_apis`` names
            (``tod-bias database`` writes it), or the one of the API's name. Slots that
            are not in ``slots`` are columns of that name; names are compared without regard to case.
        limit: rows at the most.
        unknown_slots: what a slot is that is no column: ``ignore`` (it asks nothing; the log says so once), or
            ``malformed`` (the call is).
        api_call: name of the stage whose output is the call, where a flow asks without an argument.

    Raises:
        StageError: no such file, driver, server, table or column; a password is never shown.
    """

    def __init__(
        self,
        url: str | Path,
        tables: Mapping[str, Any] | None = None,
        *,
        limit: int = 10,
        unknown_slots: str = "ignore",
        api_call: str = "api_call",
    ) -> None:
        if unknown_slots not in _UNKNOWN:
            raise StageError(f"unknown_slots: expected one of {', '.join(_UNKNOWN)}, got {unknown_slots!r}")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise StageError(f"limit: expected a number of rows, 1 or more, got {limit!r}")
        try:
            import sqlalchemy as sa
        except ImportError as error:
            raise StageError(f"SqlDb needs the package sqlalchemy ({error}); pip install 'tod-bias[sql]'") from error
        self._limit = limit
        self._unknown = unknown_slots
        self.api_call = api_call
        self._database = Database(str(url))
        self._engine = self._database.engine
        self._ignored: set[tuple[str, str]] = set()
        metadata = sa.MetaData()
        with self._database.spoken():
            metadata.reflect(self._engine, views=self._database.file is None)
            rows = self._listed_apis(metadata.tables.get(APIS))
        self._tables = {name: table for name, table in metadata.tables.items() if name != APIS}
        self._filled = {name: self._filled_columns(table) for name, table in self._tables.items() if API in table.c}
        if not self._tables:
            raise StageError(f"{self._database}: holds no table")
        self._sources = {str(api): _Source(self._table(str(name), APIS)) for api, name in rows}
        self._sources |= {str(api): self._source(str(api), entry) for api, entry in (tables or {}).items()}
        self._settings = to_json(
            {"tables": _plain_tables(tables), "limit": limit, "unknown_slots": unknown_slots, "api_call": api_call}
        )
        self.use_cache = self._database.file is not None
        """Outputs of a file are cached under its content; what a server holds may change unseen."""

    def _filled_columns(self, table: Any) -> dict[str, set[str]]:
        """API to the columns in which its rows hold anything: the others are those of other APIs."""
        import sqlalchemy as sa

        columns = [column for column in table.c if column.name not in (ROW, API)]
        query = sa.select(table.c[API], *map(sa.func.count, columns)).group_by(table.c[API])
        with self._database.spoken(), self._engine.connect() as connection:
            return {
                str(api): {column.name for column, count in zip(columns, counts, strict=True) if count}
                for api, *counts in connection.execute(query)
            }

    def _table(self, name: str, where: str) -> Any:
        table = _by_name(self._tables, name)
        if table is None:
            raise StageError(
                f"{where}: {self._database} has no table {name!r}; it has {', '.join(sorted(self._tables))}"
            )
        return table

    def _source(self, api: str, entry: Any) -> _Source:
        where = f"tables: {api!r}"
        if isinstance(entry, str):
            entry = {"table": entry}
        if not isinstance(entry, Mapping) or not isinstance(entry.get("table"), str):
            raise StageError(f'{where}: expected a table\'s name or {{"table": …, "slots": {{…}}}}, got {entry!r:.60}')
        if unknown := sorted(set(entry) - {"table", "slots", "ignore"}):
            raise StageError(f"{where}: unknown entry {unknown[0]!r}; there are table, slots, ignore")
        table = self._table(entry["table"], where)
        slots = {}
        for slot, given in (entry.get("slots") or {}).items():
            rule = {"column": given} if isinstance(given, str) else given
            if not isinstance(rule, Mapping) or not rule.keys() <= {"column", "match"}:
                raise StageError(f'{where}, slot {slot!r}: expected a column or {{"column": …, "match": …}}')
            column = _by_name(table.c, str(rule.get("column", slot)))
            match = rule.get("match", "exact")
            if column is None:
                raise StageError(
                    f"{where}, slot {slot!r}: table {table.name!r} has no column {rule.get('column', slot)!r}; it has "
                    f"{', '.join(table.c.keys())}"
                )
            if match not in MATCHES:
                raise StageError(f"{where}, slot {slot!r}: expected a match of {', '.join(MATCHES)}, got {match!r}")
            slots[str(slot)] = (column, str(match))
        return _Source(table, slots, frozenset(entry.get("ignore") or ()))

    @property
    def signature(self) -> str:  # type: ignore[override]
        """The database without its password (a file by its content), and the settings."""
        settings = blake2b(self._settings.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return f"sql:{self._database.identity}|settings:{settings}"

    def look_up(self, call: Any) -> Lookup:
        """The rows for one call; for several, all of their rows.

        Raises:
            StageError: the database fails.
        """
        calls = calls_of(call)
        if calls is None:
            return Lookup(Outcome.MALFORMED)
        lookups = [self._look_up(call) for call in calls] or [Lookup(Outcome.NO_CALL)]
        rows = tuple(row for lookup in lookups for row in lookup.rows)
        return Lookup(Outcome.ROWS, rows) if rows else lookups[-1]

    def _listed_apis(self, table: Any) -> Sequence[Any]:
        """Pairs of an API and its table that the database lists."""
        import sqlalchemy as sa

        if table is None:
            return []
        if not {"api_name", "table_name"} <= set(table.c.keys()):
            raise StageError(f"{self._database}: {APIS} lacks api_name or table_name; write it again")
        with self._engine.connect() as connection:
            return connection.execute(sa.select(table.c.api_name, table.c.table_name)).all()

    def _columns(self, source: _Source, api: str) -> Any:
        """The columns by name that rows of an API may fill."""
        columns = source.table.c
        filled = self._filled[source.table.name] if API in columns else {}
        return {name: columns[name] for name in filled[api]} if api in filled else columns

    def _conditions(self, call: Mapping[str, Any], api: str, source: _Source, columns: Any) -> Iterator[Any]:
        """What each slot asks of its column.

        Raises:
            NotUnderstoodError: a slot has no column and unknown ones are malformed, or a value cannot be compared.
        """
        for slot, value in call.items():
            if slot == API_NAME or slot in source.ignored or value is None:
                continue
            column, match = source.slots.get(slot) or (_by_name(columns, slot), "exact")
            if column is not None and column.name not in (ROW, API):
                yield condition(column, value, match)
            elif self._unknown == "malformed":
                raise NotUnderstoodError(f"unknown slot {slot!r}")
            else:
                self._say_ignored(api, slot, source.table.name)

    def _look_up(self, call: Mapping[str, Any]) -> Lookup:
        import sqlalchemy as sa

        api = call.get(API_NAME)
        if not isinstance(api, str) or MALFORMED in call or _is_too_much(call):
            return Lookup(Outcome.MALFORMED)
        source = self._sources.get(api)
        if source is None:
            table = _by_name(self._tables, api)
            if table is None:
                return Lookup(Outcome.NO_ROW)
            source = _Source(table)
        columns = self._columns(source, api)
        conditions = [source.table.c[API] == api] if API in source.table.c else []
        try:
            conditions += self._conditions(call, api, source, columns)
        except NotUnderstoodError:
            return Lookup(Outcome.MALFORMED)
        order = list(source.table.primary_key.columns) or [sa.cast(column, sa.String) for column in columns]
        query = sa.select(source.table).where(*conditions).order_by(*order).limit(self._limit)
        with self._database.spoken(), self._engine.connect() as connection:
            matches = [_row(row) for row in connection.execute(query).mappings()]
        rows = tuple(row for row in matches if row)
        return Lookup(Outcome.ROWS, rows) if rows else Lookup(Outcome.EMPTY)

    def _say_ignored(self, api: str, slot: str, table: str) -> None:
        if (api, slot) not in self._ignored and len(self._ignored) < 1000:
            self._ignored.add((api, slot))
            log.info("%s: slot %r is no column of table %r and asks nothing", api, slot, table)


def _by_name(named: Mapping[str, Any], name: str) -> Any:
    """What has this name; else, what has it without regard to case, if only one has."""
    if name in named:
        return named[name]
    keys = [key for key in named.keys() if key.lower() == name.lower()]  # noqa: SIM118  # columns iterate themselves
    return named[keys[0]] if len(keys) == 1 else None


def _is_too_much(call: Mapping[str, Any]) -> bool:
    return sum(count_of(value) for slot, value in call.items() if slot != API_NAME) > MOST_VALUES


def _plain_tables(tables: Mapping[str, Any] | None) -> Any:
    return None if tables is None else {str(api): entry for api, entry in tables.items()}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): _value(value) for name, value in row.items() if value is not None and name not in (ROW, API)}


def _value(value: Any) -> Any:
    """What a database gives, as JSON."""
    if isinstance(value, (str, bool, int, list, dict)):
        return value
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (float, int)):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)
