"""A database of JSON documents that is changed by one dialogue and shared by all.

The documents lie in SQLite in memory and are never changed; what a dialogue writes stands beside them. So a copy of a
world costs what the dialogue has written, not what the database holds.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import sqlite3
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from tod_bias.errors import StageError
from tod_bias.io.documents import read_json


class Base:
    """The documents of a world as they were at the beginning.

    Args:
        tables: table to id to document.
        indexed: table to the fields by which its documents are looked for.
    """

    def __init__(
        self, tables: Mapping[str, Mapping[str, Any]], indexed: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        with self._connection as connection:
            connection.execute("CREATE TABLE documents (kind TEXT, id TEXT, body TEXT, PRIMARY KEY (kind, id))")
            connection.executemany(
                "INSERT INTO documents VALUES (?, ?, ?)",
                [(kind, name, _dumped(body)) for kind, table in tables.items() for name, body in table.items()],
            )
            connection.execute("CREATE TABLE fields (kind TEXT, field TEXT, value TEXT, number INTEGER, id TEXT)")
            connection.executemany(
                "INSERT INTO fields VALUES (?, ?, ?, ?, ?)",
                [
                    (kind, field, body[field], number, name)
                    for kind, fields in (indexed or {}).items()
                    for number, (name, body) in enumerate(tables[kind].items())
                    for field in fields
                ],
            )
            connection.execute("CREATE INDEX by_value ON fields (kind, field, value)")

    def text(self, kind: str, name: str) -> str | None:
        """One document; None where there is none."""
        with self._lock:
            found = self._connection.execute("SELECT body FROM documents WHERE kind = ? AND id = ?", (kind, name))
            row = found.fetchone()
        return None if row is None else str(row[0])

    def ids(self, kind: str, field: str, value: str) -> list[str]:
        """The ids of the documents that have this value in an indexed field, in the order of the file."""
        query = "SELECT id FROM fields WHERE kind = ? AND field = ? AND value = ? ORDER BY number"
        with self._lock:
            return [str(row[0]) for row in self._connection.execute(query, (kind, field, value))]

    def told(self, rewrite: Callable[[Any], Any], kinds: Collection[str] | None = None) -> Base:
        """The documents as a rewrite T tells them: T of every id, of every string in them, and of what they are looked
        for by. So a user who is renamed is found, and what T makes of a call gives what T makes of its result.

        Args:
            rewrite: T, on any value.
            kinds: the tables that T may change; all where left out. The others are taken as they are, which is faster.

        Raises:
            ValueError: T makes one id of two.
        """
        told = Base({})
        passes_over = getattr(rewrite, "passes_over", lambda text: False)
        with self._lock:
            self._connection.backup(told._connection)
        with told._connection as connection:
            for kind, name, body in connection.execute("SELECT kind, id, body FROM documents").fetchall():
                if kinds is not None and kind not in kinds:
                    continue
                new_name = str(rewrite(name))
                new_body = body if passes_over(body) else _dumped(rewrite(json.loads(body)))
                if (new_name, new_body) != (name, body):
                    try:
                        connection.execute(
                            "UPDATE documents SET id = ?, body = ? WHERE kind = ? AND id = ?",
                            (new_name, new_body, kind, name),
                        )
                    except sqlite3.IntegrityError as error:
                        raise ValueError(
                            f"{kind}: the rewrite makes {new_name!r} of {name!r}, which is there"
                        ) from error
            for row, kind, value, name in connection.execute("SELECT rowid, kind, value, id FROM fields").fetchall():
                if kinds is None or kind in kinds:
                    new_value, new_name = str(rewrite(value)), str(rewrite(name))
                    if (new_value, new_name) != (value, name):
                        connection.execute(
                            "UPDATE fields SET value = ?, id = ? WHERE rowid = ?", (new_value, new_name, row)
                        )
        return told

    def __del__(self) -> None:
        self._connection.close()


class World:
    """Documents by table and id, as one dialogue has made them.

    Args:
        base: what was there at the beginning.
        changed: texts of the documents that differ.
    """

    def __init__(self, base: Base, changed: Mapping[tuple[str, str], str] | None = None) -> None:
        self.base = base
        self._changed = dict(changed or {})

    def __deepcopy__(self, memo: Any) -> World:
        return World(self.base, self._changed)

    def get(self, kind: str, name: Any) -> Any:
        """A document, in containers of its own; None where there is none."""
        if not isinstance(name, str):
            return None
        text = self._changed.get((kind, name)) or self.base.text(kind, name)
        return None if text is None else json.loads(text)

    def told(self, rewrite: Callable[[Any], Any], kinds: Collection[str] | None = None) -> World:
        """Return this world as rewritten by T (:meth:`Base.told`), with what the dialogue has written."""
        written = {
            (kind, str(rewrite(name))): _dumped(rewrite(json.loads(text)))
            for (kind, name), text in self._changed.items()
        }
        return World(self.base.told(rewrite, kinds), written)

    def put(self, kind: str, name: str, document: Any) -> None:
        """Write a document."""
        self._changed[kind, name] = _dumped(document)


def _dumped(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False)


def read_tables(data: str | Path | None, tables: tuple[str, ...], module: str) -> dict[str, dict[str, Any]]:
    """The tables of a folder that holds ``TABLE.json`` for each.

    Raises:
        StageError: no folder is given, or a file in it cannot be read.
    """
    return {table: read_part(data, table, dict, module) for table in tables}


def read_part(data: str | Path | None, name: str, kind: type, module: str) -> Any:
    """The content of one JSON file of a world's folder.

    Raises:
        StageError: no folder is given, or the file cannot be read.
    """
    if data is None:
        raise StageError(f"{module} needs its database; add data: PATH, the folder of τ-bench with {name}.json")
    path = Path(data) / f"{name}.json"
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise StageError(f"{path}: cannot be read as JSON: {error}; data: names τ-bench's folder") from error
    if not isinstance(content, kind):
        raise StageError(f"{path}: expected a {kind.__name__}, got {type(content).__name__}")
    return content


def with_provinces(users: Mapping[str, Any]) -> dict[str, Any]:
    """Users whose address has a ``province``, as recorded runs show them; the files say ``state``."""
    return {
        name: user
        | {"address": {"province" if line == "state" else line: text for line, text in user["address"].items()}}
        for name, user in users.items()
    }


_OPERATORS: Mapping[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def arithmetic(expression: str) -> float:
    """The value of numbers, ``+ - * /`` and parentheses.

    Raises:
        ValueError: it is something else, or divides by zero.
    """
    if len(expression) > 1000:
        raise ValueError("the expression is too long")
    try:
        value = float(_value(ast.parse(expression.strip(), mode="eval").body))
    except (SyntaxError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError("invalid expression") from error
    except ZeroDivisionError as error:
        raise ValueError("division by zero") from error
    if not math.isfinite(value):
        raise ValueError("the numbers are too large")
    return value


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand))
    raise ValueError("invalid expression")
