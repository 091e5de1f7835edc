"""A database behind SQL: rows that meet a call's constraints. Values of calls are bound parameters alone."""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pydantic_core import to_jsonable_python

from tod_bias.dialogues.calls import MALFORMED, calls_of
from tod_bias.dialogues.values import API_NAME, to_json
from tod_bias.errors import StageError, shortened
from tod_bias.io.sqlite import foreign, opened, said
from tod_bias.systems.outputs import Lookup, Outcome
from tod_bias.systems.stages.database import DatabaseStage
from tod_bias.systems.tables import API, APIS, ROW

with suppress(ImportError):  # SqlDb says so
    import sqlalchemy as sa

_RANGES = ("min", "max", "above", "below")
MATCHES = ("exact", *_RANGES, "contains", "one_of", "not", "not_contains")
"""Ways to match a slot with a column."""
_NUMBER = r"^\s*-?[0-9]+(\.[0-9]+)?\s*$"
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_LARGEST = 1 << 63  # integers of databases are smaller
_MOST_VALUES = 100  # of one slot: databases bound the size of an expression
_FAILURES = (ImportError, OSError, ArithmeticError, ValueError, TypeError, sqlite3.Error)  # of drivers
_LONGEST = 4000  # characters of a compared text: SQLite takes patterns of 50,000 bytes


class _Source(NamedTuple):
    """The table of one API, its slots by column and match, and slots that are not constraints."""

    table: Any
    slots: Mapping[str, tuple[Any, str]] = {}
    ignored: Collection[str] = ()


class SqlDb(DatabaseStage):
    """Looks calls up in a database over SQLAlchemy: a slot is a constraint on a column.

    Texts are equal without regard to case, and a number written as text equals the number. A list is one of its items.
    ``{"min": 3}``, ``max``, ``above``, ``below``, ``contains``, ``one_of``, ``not`` and ``not_contains`` are other
    constraints; None and unknown slots are ignored. Rows are ordered by the primary key, or by all columns.

    Args:
        url: of SQLAlchemy, the path of an SQLite file, or ``$NAME``, an environment variable that holds one. SQLite
            files are untrusted: read-only, tables alone, with a time limit.
        tables: API name to table, or to ``{"table": …, "slots": {slot: column}, "ignore": [slots]}``; for a column also
            ``{"column": …, "match": "min"}`` (:data:`MATCHES`). By default the table that the file lists for the API
            (``tod-bias export --database``), or the one of the API's name.
        limit: rows at the most.
        api_call: name of the stage whose output is the call, if a flow calls without an argument.

    Raises:
        StageError: no such file, driver, server, table or column; a password is never shown.
    """

    def __init__(
        self, url: str | Path, tables: Mapping[str, Any] | None = None, *, limit: int = 10, api_call: str = "api_call"
    ) -> None:
        if type(limit) is not int or limit < 1:
            raise StageError(f"limit: expected a number of rows, 1 or more, got {limit!r}")
        if "sa" not in globals():
            raise StageError("SqlDb needs the package sqlalchemy; pip install sqlalchemy")
        self._limit, self.api_call = limit, api_call
        self._url = _parsed(str(url))
        self._file = Path(self._url.database) if self._url.get_backend_name() == "sqlite" else None
        self._shown = str(self._file or self._url.set(query={}).render_as_string(hide_password=True))
        self.use_cache = self._file is not None  # what a server holds may change unseen
        with self._reported():
            self._engine = _engine(self._url, self._file)
            weakref.finalize(self, self._engine.dispose)
            with self._engine.connect() as connection:
                # Views, triggers and computed columns of a file run when it is read, and may never end.
                if self._file is not None and (feature := foreign(connection.connection.dbapi_connection)):  # type: ignore[arg-type]
                    raise sa.exc.SQLAlchemyError(f"holds a {feature}, and files are read as tables alone; drop it")
                metadata = sa.MetaData()
                metadata.reflect(connection, views=self._file is None)
                self._tables = dict(metadata.tables)
                apis = self._tables.pop(APIS, None)
                listed = [] if apis is None else connection.execute(sa.select(apis.c.api_name, apis.c.table_name)).all()
                shared = [table for table in self._tables.values() if API in table.c]
                self._filled = {table.name: _filled(table, connection) for table in shared}
        entries = {**{str(api): str(table) for api, table in listed}, **(tables or {})}
        self._sources = {api: self._source(f"tables: {api!r}", entry) for api, entry in entries.items()}
        settings = to_json({"tables": tables and dict(tables), "limit": limit, "api_call": api_call})
        self._settings = blake2b(settings.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    @property
    def signature(self) -> str:  # type: ignore[override]
        """The content of a file or the address of a server without its password, and the settings."""
        identity = blake2b(self._file.read_bytes(), digest_size=16).hexdigest() if self._file else self._shown
        return f"sql:{identity}|settings:{self._settings}"

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Turn errors of the database or its driver into one line without secrets."""
        try:
            yield
        except (sa.exc.SQLAlchemyError, *_FAILURES) as error:
            # The text of a StatementError would show the query.
            cause = error.orig if isinstance(error, sa.exc.StatementError) and error.orig else error
            text = shortened(said(cause), 300)
            for secret in filter(None, (self._url.password, *self._url.query.values())):
                text = text.replace(str(secret), "***")
            raise StageError(f"{self._shown}: {text}") from None

    def _source(self, where: str, entry: Any) -> _Source:
        entry = {"table": entry} if isinstance(entry, str) else entry
        if not isinstance(entry, Mapping) or entry.keys() - {"table", "slots", "ignore"} or "table" not in entry:
            raise StageError(f'{where}: expected a table\'s name or {{"table": …, "slots": {{…}}, "ignore": […]}}')
        table, slots = _by_name(self._tables, str(entry["table"])), {}
        if table is None:
            raise StageError(
                f"{where}: {self._shown} has no table {entry['table']!r}; it has {', '.join(self._tables)}"
            )
        for slot, given in (entry.get("slots") or {}).items():
            rule = given if isinstance(given, Mapping) else {"column": given}
            column, match = _by_name(table.c, str(rule.get("column", slot))), rule.get("match", "exact")
            if column is None or match not in MATCHES:
                expected = f"a column ({', '.join(table.c.keys())}) and a match ({', '.join(MATCHES)})"
                raise StageError(f"{where}, slot {slot!r}: expected {expected}, got {given!r:.60}")
            slots[str(slot)] = (column, match)
        return _Source(table, slots, entry.get("ignore") or ())

    def look_up(self, call: Any) -> Lookup:
        """Return the rows for one call, or for several calls all of their rows; a failing database is a StageError."""
        calls = calls_of(call)
        lookups = [Lookup(Outcome.MALFORMED)] if calls is None else [self._look_up(call) for call in calls]
        lookups = lookups or [Lookup(Outcome.NO_CALL)]
        rows = tuple(row for lookup in lookups for row in lookup.rows)
        return Lookup(Outcome.ROWS, rows) if rows else lookups[-1]

    def _look_up(self, call: Mapping[str, Any]) -> Lookup:
        api = call.get(API_NAME)
        if not isinstance(api, str) or MALFORMED in call:
            return Lookup(Outcome.MALFORMED)
        source = self._sources.get(api) or _Source(_by_name(self._tables, api))
        if source.table is None:
            return Lookup(Outcome.NO_ROW)
        columns = self._filled.get(source.table.name, {}).get(api, source.table.c)
        try:
            conditions = list(_conditions(call, source, columns))
        except ValueError:  # a value cannot be compared
            return Lookup(Outcome.MALFORMED)
        order = list(source.table.primary_key.columns) or [sa.cast(column, sa.String) for column in source.table.c]
        query = sa.select(source.table).where(*conditions).order_by(*order).limit(self._limit)
        with self._reported(), self._engine.connect() as connection:
            selected = [dict(row) for row in connection.execute(query).mappings()]
        shown = [{k: v for k, v in row.items() if v is not None and k not in (ROW, API)} for row in selected]
        rows = to_jsonable_python([row for row in shown if row], bytes_mode="hex", inf_nan_mode="strings", fallback=str)
        return Lookup(Outcome.ROWS, tuple(rows)) if rows else Lookup(Outcome.EMPTY)


def _parsed(url: str) -> Any:
    if url.startswith("$") and not os.environ.get(url[1:]):
        raise StageError(f"url {url}: the environment has no variable {url[1:]!r}; export {url[1:]}=…")
    url = os.environ[url[1:]] if url.startswith("$") else url
    try:
        parsed = sa.make_url(url) if "://" in url else sa.URL.create("sqlite", database=url)
    except (sa.exc.ArgumentError, ValueError):
        raise StageError("url: cannot be read; expected DRIVER://USER:PASSWORD@HOST:PORT/NAME") from None
    if parsed.get_backend_name() == "sqlite" and not os.path.isfile(parsed.database or ""):
        name = parsed.database or ":memory:"
        raise StageError(f"{name}: no such SQLite file; make one with tod-bias export --corpus … --database {name}")
    return parsed


def _engine(url: Any, file: Path | None) -> Any:
    """Return an engine that only reads; the clock of a connection to a file ends a query that takes too long."""
    if file is None:
        read_only = {"postgresql_readonly": True} if url.get_backend_name() == "postgresql" else {}
        return sa.create_engine(url, execution_options=read_only, pool_pre_ping=True)
    path, address = file.resolve(), f"file:{quote(str(file.resolve()))}?mode=ro"
    creator = partial(opened, path, address, check_same_thread=False)
    return sa.create_engine("sqlite://", creator=creator, poolclass=sa.pool.QueuePool)


def _filled(table: Any, connection: Any) -> dict[str, dict[str, Any]]:
    """Return for each API of a table the columns in which its rows hold anything."""
    columns = [column for column in table.c if column.name not in (ROW, API)]
    rows = connection.execute(sa.select(table.c[API], *map(sa.func.count, columns)).group_by(table.c[API]))
    return {str(api): {c.name: c for c, n in zip(columns, counts, strict=True) if n} for api, *counts in rows}


def _by_name(named: Any, name: str) -> Any:
    """Return the entry of this name, or the only one of this name in another case."""
    keys = [name] if name in named else [key for key in named.keys() if key.lower() == name.lower()]  # noqa: SIM118
    return named[keys[0]] if len(keys) == 1 else None


def _conditions(call: Mapping[str, Any], source: _Source, columns: Any) -> Iterator[Any]:
    if API in source.table.c:
        yield source.table.c[API] == call[API_NAME]
    for slot in [slot for slot in call if slot not in (API_NAME, *source.ignored) and call[slot] is not None]:
        column, match = source.slots.get(slot) or (_by_name(columns, slot), "exact")
        if column is not None and column.name not in (ROW, API):
            yield _condition(column, call[slot], match)


def _condition(column: Any, value: Any, match: str = "exact") -> Any:
    """Return the condition that a column meets a JSON value."""
    if isinstance(value, Mapping):
        return sa.and_(sa.true(), *(_condition(column, bound, name) for name, bound in _bounds(value, match)))
    values = list(filter(_is_single, value if isinstance(value, list) else [value]))
    if len(values) > _MOST_VALUES or (match in _RANGES and isinstance(value, list)):
        raise ValueError(f"expected one value, or a list of {_MOST_VALUES} at most")
    if match in ("not", "not_contains"):
        return sa.or_(column.is_(None), sa.not_(_condition(column, value, "exact" if match == "not" else "contains")))
    if match == "contains":
        return sa.and_(sa.true(), *(_contains(column, item) for item in values))
    if match in _RANGES:
        return _bounded(column, value, match)
    return sa.or_(sa.false(), *(_equal(column, item) for item in values))


def _bounds(operators: Mapping[str, Any], match: str) -> list[tuple[str, Any]]:
    if match != "exact" or not operators or operators.keys() - set(MATCHES[1:]):
        raise ValueError(f"expected a mapping with some of {', '.join(MATCHES[1:])}")
    return [(name, bound) for name, bound in operators.items() if bound is not None]


def _is_single(value: Any) -> bool:
    if isinstance(value, list | Mapping):
        raise ValueError("expected a value, got a list or mapping")
    return value is not None


def _equal(column: Any, value: Any) -> Any:
    if isinstance(column.type, sa.JSON):
        return _contains(column, value)
    if isinstance(column.type, sa.Boolean):
        truth = _TRUTHS.get(str(value).strip().lower())
        return sa.false() if truth is None else column.is_(truth)
    if isinstance(column.type, sa.Integer | sa.Numeric | sa.Float):
        number = _number(value)
        return sa.false() if number is None else column == number
    return sa.func.lower(sa.cast(column, sa.String)) == sa.func.lower(_text(value))


def _contains(column: Any, value: Any) -> Any:
    """Return whether a text contains a value, or JSON equals it or is a list that holds it."""
    text, written = sa.cast(column, sa.String), json.dumps(_text(value) if isinstance(value, str) else value)
    if not isinstance(column.type, sa.JSON):
        return text.icontains(_text(value), autoescape=True)
    listed = (f"[{written}]", f"[{written},", f", {written}]", f", {written},")
    return sa.or_(sa.func.lower(text) == written.lower(), *(text.icontains(part, autoescape=True) for part in listed))


def _bounded(column: Any, value: Any, match: str) -> Any:
    """Compare numbers as numbers, also those that are written in a text column, and other texts as texts."""
    bound: Any = _number(value)
    is_number = isinstance(column.type, sa.Integer | sa.Numeric | sa.Float)
    if isinstance(column.type, sa.Boolean | sa.JSON) or (bound is None and (is_number or not isinstance(value, str))):
        return sa.false()
    side = column if is_number else sa.cast(column, sa.String)
    if bound is None:
        bound = _text(value)
    elif not is_number:
        side = sa.case((side.regexp_match(_NUMBER), sa.cast(side, sa.Float)), else_=None)
    return {"min": side >= bound, "max": side <= bound, "above": side > bound, "below": side < bound}[match]


def _number(value: Any) -> int | float | None:
    if isinstance(value, str):
        with suppress(ValueError):
            value = int(value) if value.strip().lstrip("+-").isdecimal() else float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and -_LARGEST < value < _LARGEST else None


def _text(value: Any) -> str:
    """Return a text without surrogates and NUL, which some databases refuse."""
    if len(text := str(value)) > _LONGEST:
        raise ValueError(f"expected a text of at most {_LONGEST} characters")
    return text.encode("utf-8", "replace").decode().replace("\0", "")
