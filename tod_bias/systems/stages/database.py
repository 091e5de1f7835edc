"""Databases as stages, and Su's: results looked up by exact call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.text import json_line
from tod_bias.errors import StageError
from tod_bias.io.documents import loads, read_text
from tod_bias.io.files import write_lines
from tod_bias.systems.outputs import Lookup, Outcome, parse_call
from tod_bias.systems.stage import Stage, StageInput


class DatabaseStage(Stage):
    """Base class of stages that look up a call: the argument of a flow, else the output of the stage ``api_call``."""

    api_call = "api_call"
    """Name of the stage whose output it looks up."""

    def look_up(self, call: Any) -> Lookup:
        """The results of one call, or of several."""
        raise NotImplementedError

    def outcome(self, output: Lookup) -> str:
        """Name the problem of a look-up, to be counted; empty if there is none."""
        return output.problem

    def tool(self, item: StageInput, output: Lookup) -> str:
        """The API that was called."""
        return item.tool

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Lookup]:
        """One lookup an input.

        Raises:
            StageError: an input has neither an argument nor an output of the API-call stage; the database fails.
        """
        return [self.look_up(self._call_of(item)) for item in inputs]

    def _call_of(self, item: StageInput) -> Any:
        if item.argument is not None:
            return item.argument
        if self.api_call not in item.outputs:
            known = ", ".join(item.outputs) or "none"
            raise StageError(
                f"{type(self).__name__}: needs a call as argument, or the output of a stage {self.api_call!r} before "
                f"it; there is {known}"
            )
        return item.outputs[self.api_call]


class LookupDb(DatabaseStage):
    """Su's database: a table from API call to results, matched exactly.

    Args:
        table: call to results, or the path of a file that :meth:`save` wrote.
        api_call: name of the stage whose output is the call.
    """

    def __init__(
        self,
        table: Mapping[tuple[tuple[str, str], ...], tuple[Mapping[str, str], ...]] | str | Path,
        *,
        api_call: str = "api_call",
    ) -> None:
        self.conflicts = 0
        """Calls of the corpus whose results differ from the first ones seen, which are kept."""
        self._table = dict(table) if isinstance(table, Mapping) else dict(_read_table(Path(table)))
        self.api_call = api_call

    def __len__(self) -> int:
        return len(self._table)

    @cached_property
    def signature(self) -> str:  # type: ignore[override]
        """Return the number of calls in the table, and a hash of it."""
        digest = blake2b(digest_size=8)
        for line in self._lines():
            digest.update(line.encode("utf-8", "surrogatepass"))
        return f"rows:{len(self)}|hash:{digest.hexdigest()}"

    @classmethod
    def from_dialogues(cls, dialogues: Iterable[Dialogue], *, api_call: str = "api_call") -> LookupDb:
        """The table of all gold calls of a corpus. Where one call has several results, the first seen is kept."""
        database = cls({}, api_call=api_call)
        for dialogue in dialogues:
            for step in (step for turn in dialogue.turns for step in turn.steps if step.call):
                first = database._table.setdefault(_key(step.call), step.results)
                database.conflicts += first != step.results
        return database

    def with_rows(self, rows: Iterable[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]]) -> LookupDb:
        """A copy in which calls give these results, whatever they gave before."""
        added = {_key(call): tuple(results) for call, results in rows}
        return LookupDb({**self._table, **added}, api_call=self.api_call)

    def look_up(self, call: Mapping[str, str] | str) -> Lookup:
        """The results of one call."""
        if isinstance(call, str):
            call = parse_call(call)
        if not isinstance(call, Mapping):
            return Lookup(Outcome.MALFORMED)
        if not call:
            return Lookup(Outcome.NO_CALL)
        rows = self._table.get(_key(call))
        if rows is None:
            return Lookup(Outcome.NO_ROW)
        return Lookup(Outcome.ROWS, rows) if rows else Lookup(Outcome.EMPTY)

    def save(self, path: str | Path) -> None:
        """Write the table as JSON lines: ``{"call": {…}, "results": [{…}, …]}``."""
        write_lines(path, self._lines(), named=True)

    def _lines(self) -> Iterator[str]:
        for call, rows in sorted(self._table.items()):
            record = {"call": dict(call), "results": [dict(row) for row in rows]}
            yield json_line(record)


def _key(call: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(slot), str(value)) for slot, value in call.items()))


def _read_table(path: Path) -> Iterable[tuple[tuple[tuple[str, str], ...], tuple[Mapping[str, str], ...]]]:
    try:
        lines = read_text(path).split("\n")  # splitlines would also cut inside of values
    except (OSError, UnicodeDecodeError) as error:
        raise StageError(f"{path}: cannot be read as a database: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = loads(line, unique=True)
            yield _key(record["call"]), tuple(dict(row) for row in record["results"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StageError(
                f'{path}, line {number}: expected {{"call": {{…}}, "results": [{{…}}]}} ({error!r})'
            ) from error
