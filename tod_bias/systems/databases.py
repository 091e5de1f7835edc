"""Where a database is: connecting to it for reading, and what may be said of it."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tod_bias.errors import StageError, shortened
from tod_bias.sqlite import foreign, opened, said


class Database:
    """A database by its URL. Written as text it shows no password, and none is in what it raises.

    Args:
        url: of SQLAlchemy, the path of an SQLite file, or ``$NAME`` for an environment variable that holds one.

    Raises:
        StageError: it is none of these, there is no such file, or its driver is not installed.
    """

    def __init__(self, url: str) -> None:
        import sqlalchemy as sa

        if url.startswith("$"):
            name = url[1:]
            if not os.environ.get(name):
                raise StageError(f"url {url}: the environment has no variable {name!r}; export {name}=…")
            url = os.environ[name]
        self.file: Path | None = None
        """The SQLite file; None for a server."""
        self._secrets: list[str] = []
        if "://" not in url:
            self.file = Path(url)
        else:
            try:
                parsed = sa.make_url(url)
            except (sa.exc.ArgumentError, ValueError):
                raise StageError(
                    "url: cannot be read; expected DIALECT+DRIVER://USER:PASSWORD@HOST:PORT/NAME (special characters "
                    "in the password as %40 and so on), or the path of an SQLite file"
                ) from None
            secrets = [parsed.password, *(str(value) for value in parsed.query.values())]
            self._secrets = sorted({text for s in secrets if s for text in (str(s), quote(str(s)))}, key=len)[::-1]
            self._shown = parsed.set(query={}).render_as_string(hide_password=True)
            if parsed.get_backend_name() == "sqlite":
                self.file = Path(parsed.database or ":memory:")
        if self.file is not None:
            self._shown = str(self.file)
            if not self.file.is_file():
                raise StageError(
                    f"{self}: no such SQLite file; make one with tod-bias database --corpus … --out {self}"
                )
        with self.spoken():
            self.engine = self._engine(None if self.file is not None else parsed)
            """Connects when it is asked."""
        weakref.finalize(self, self.engine.dispose)
        if self.file is not None:
            self._check_plain()

    def _check_plain(self) -> None:
        """See to it that an SQLite file holds tables alone: what computes when it is read may never end."""
        with self.spoken(), self.engine.connect() as connection:
            feature = foreign(connection.connection.driver_connection)
        if feature:
            raise StageError(
                f"{self}: holds a {feature}, and files are read as tables alone; drop it, or store its rows"
            )

    def _engine(self, url: Any) -> Any:
        import sqlalchemy as sa

        if self.file is not None:
            path = self.file.resolve()
            read_only = f"file:{quote(str(path))}?mode=ro"
            return sa.create_engine(
                "sqlite://",
                creator=lambda: opened(path, read_only, check_same_thread=False),
                poolclass=sa.pool.QueuePool,
            )
        options = {"postgresql_readonly": True} if url.get_backend_name() == "postgresql" else {}
        return sa.create_engine(url, execution_options=options, pool_pre_ping=True)

    def __str__(self) -> str:
        return self._shown

    @property
    def identity(self) -> str:
        """A name that changes with a file's content; a server's is its address."""
        if self.file is None:
            return self._shown
        with self.file.open("rb") as stream:
            return f"file:{file_digest(stream, 'blake2b').hexdigest()[:32]}"

    @contextmanager
    def spoken(self) -> Iterator[None]:
        """What the database or its driver raises inside becomes one line.

        Raises:
            StageError: it raised.
        """
        import sqlalchemy as sa

        try:
            yield
        except sqlite3.Error as error:
            raise self._error(said(error)) from None
        except sa.exc.DBAPIError as error:  # its own text would show the query
            raise self._error(said(error.orig) if error.orig else type(error).__name__) from None
        except ImportError as error:
            raise self._error(f"{error}; install the driver that the url names") from None
        except (sa.exc.SQLAlchemyError, OSError, OverflowError, ValueError, TypeError) as error:  # and values unfit
            raise self._error(error) from None

    def _error(self, reason: Any) -> StageError:
        text = shortened(str(reason), 300)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return StageError(f"{self}: {text}")
