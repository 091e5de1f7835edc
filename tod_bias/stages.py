"""The stages of the pipelines in Su: an API-call model, a lookup database, a response model. And two for tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from tod_bias.dialogue import Dialogue, Turn, json_line, slots_from_text, slots_to_text, unescape, well_formed
from tod_bias.documents import loads, read_text
from tod_bias.errors import StageError
from tod_bias.examples import api_call_prompt, response_prompt
from tod_bias.files import write_lines
from tod_bias.generation import GenerationSettings, Generator
from tod_bias.pipeline import StageInput

_generators: WeakValueDictionary[Any, Generator] = WeakValueDictionary()


def shared_generator(
    model: Generator | str | Path, settings: GenerationSettings | None = None, device: str | None = None
) -> Generator:
    """The generator of a checkpoint; stages that name the same one with the same settings share it.

    A checkpoint that was written anew since (a retrained model in the same folder) gets a generator of its own.
    """
    if isinstance(model, Generator):
        return model
    key = (str(model), _written(Path(model)), settings or GenerationSettings(), device)
    generator = _generators.get(key)
    if generator is None:
        generator = _generators[key] = Generator(model, settings, device=device)
    return generator


def _written(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of the files in a checkpoint's folder; nothing for a hub name."""
    if not folder.is_dir():
        return ()
    files = [(file.name, file.stat()) for file in sorted(folder.iterdir()) if file.is_file()]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in files)


class ApiCall:
    """A language model that reads the context and writes the API call of the turn.

    Its output is the call as a mapping (empty: no call), or the raw text where that is *malformed*.

    Args:
        model: a checkpoint's folder or hub name, or a :class:`~tod_bias.generation.Generator`.
        device: where it runs; chosen where left out.
        generation: fields of :class:`~tod_bias.generation.GenerationSettings`.
    """

    def __init__(self, model: Generator | str | Path, *, device: str | None = None, **generation: Any) -> None:
        self.generator = shared_generator(model, _settings(generation), device)

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Mapping[str, str] | str]:
        """One call an input."""
        return [
            parse_call(text) for text in self.generator.generate([api_call_prompt(item.context) for item in inputs])
        ]


class Response:
    """A language model that reads context, API call and API result and writes the response.

    Args:
        model: a checkpoint's folder or hub name, or a :class:`~tod_bias.generation.Generator`.
        api_call: name of the stage whose output is the call.
        db: name of the stage whose output is the result.
        device: where it runs; chosen where left out.
        generation: fields of :class:`~tod_bias.generation.GenerationSettings`.
    """

    def __init__(
        self,
        model: Generator | str | Path,
        *,
        api_call: str = "api_call",
        db: str = "db",
        device: str | None = None,
        **generation: Any,
    ) -> None:
        self.generator = shared_generator(model, _settings(generation), device)
        self._call = api_call
        self._db = db

    def __call__(self, inputs: Sequence[StageInput], /) -> list[str]:
        """One response an input."""
        prompts = [
            response_prompt(item.context, as_text(item.outputs.get(self._call)), as_text(item.outputs.get(self._db)))
            for item in inputs
        ]
        return [unescape(text) for text in self.generator.generate(prompts)]


def _settings(options: Mapping[str, Any]) -> GenerationSettings:
    try:
        return GenerationSettings(**options)
    except TypeError as error:
        known = ", ".join(GenerationSettings.__dataclass_fields__)
        raise StageError(f"unknown stage argument ({error}); generation takes {known}") from error


def parse_call(text: str) -> Mapping[str, str] | str:
    """A call's text as a mapping, or the text itself where it is malformed."""
    try:
        return slots_from_text(text)
    except ValueError:
        return text


def as_text(output: Any) -> str:
    """A stage's output as models read it: mappings and lookups as ``name = value ; …``, nothing as ``""``.

    It is well formed: a lone surrogate becomes U+FFFD.
    """
    if isinstance(output, Lookup):
        output = output.result
    if output is None:
        return ""
    return well_formed(slots_to_text(output) if isinstance(output, Mapping) else str(output))


class Outcome(Enum):
    """What a lookup came to. A missing row, an empty result and a malformed call are three different things."""

    FOUND = "found"
    EMPTY = "empty result"
    NO_ROW = "no such row"
    MALFORMED = "malformed call"
    NO_CALL = "no call"


@dataclass(frozen=True)
class Lookup:
    """What the database gave for one call."""

    outcome: Outcome
    rows: tuple[Mapping[str, str], ...] = ()
    """All results, in order; empty unless the outcome is ``FOUND``."""

    @property
    def result(self) -> Mapping[str, str]:
        """The first result, as ParlAI shows it to the response model; empty for none."""
        return self.rows[0] if self.rows else {}


class LookupDb:
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
        self._call = api_call

    def __len__(self) -> int:
        return len(self._table)

    @property
    def signature(self) -> str:
        """How many calls the table knows, and a hash of it."""
        digest = blake2b(digest_size=8)
        for line in self._lines():
            digest.update(line.encode("utf-8", "surrogatepass"))
        return f"rows:{len(self)}|hash:{digest.hexdigest()}"

    @classmethod
    def from_dialogues(cls, dialogues: Iterable[Dialogue], *, api_call: str = "api_call") -> LookupDb:
        """The table of all gold calls of a corpus. Where one call has several results, the first seen is kept."""
        database = cls({}, api_call=api_call)
        for dialogue in dialogues:
            for turn in dialogue.turns:
                if turn.api_call:
                    first = database._table.setdefault(_key(turn.api_call), turn.api_results)
                    database.conflicts += first != turn.api_results
        return database

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Lookup]:
        """One lookup an input.

        Raises:
            StageError: an input has no output of the API-call stage.
        """
        return [self.look_up(self._output(item)) for item in inputs]

    def _output(self, item: StageInput) -> Any:
        if self._call not in item.outputs:
            there = ", ".join(item.outputs) or "none"
            raise StageError(f"LookupDb: needs the output of a stage {self._call!r} before it; there is {there}")
        return item.outputs[self._call]

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
        return Lookup(Outcome.FOUND, rows) if rows else Lookup(Outcome.EMPTY)

    def save(self, path: str | Path) -> None:
        """Write the table as JSON lines: ``{"call": {…}, "results": [{…}, …]}``."""
        write_lines(path, self._lines())

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
            record = loads(line)
            yield _key(record["call"]), tuple(dict(row) for row in record["results"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StageError(
                f'{path}, line {number}: expected {{"call": {{…}}, "results": [{{…}}]}} ({error!r})'
            ) from error


class Replay:
    """Puts out what was recorded for the same context; for tests, and for a system that cannot be run again.

    Args:
        outputs: context text (:attr:`StageInput.context`) to output.
        missing: output for a context without a record; without it such a context is an error.
    """

    def __init__(self, outputs: Mapping[str, Any], *, missing: Any = ...) -> None:
        self._outputs = dict(outputs)
        self._missing = missing

    @classmethod
    def gold(
        cls, dialogues: Iterable[Dialogue], part: Literal["api_call", "api_result", "response"], *, missing: Any = ...
    ) -> Replay:
        """A stage that puts out the gold call, result or response of every turn of a corpus.

        On rewritten dialogues it knows nothing; ``Twin(Replay.gold(…))`` is the perfectly fair and correct stage.
        """
        return cls(
            {
                StageInput(dialogue.turns[:number], turn.user).context: _gold(turn, part)
                for dialogue in dialogues
                for number, turn in enumerate(dialogue.turns)
            },
            missing=missing,
        )

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """One recorded output an input.

        Raises:
            StageError: nothing was recorded for a context.
        """
        outputs = [self._outputs.get(item.context, self._missing) for item in inputs]
        for item, output in zip(inputs, outputs, strict=True):
            if output is ...:
                raise StageError(f"Replay: nothing was recorded for the context that ends in {item.user!r}")
        return outputs


def _gold(turn: Turn, part: str) -> Any:
    if part == "api_result":
        if not turn.api_call:
            return Lookup(Outcome.NO_CALL)
        return Lookup(Outcome.FOUND if turn.api_results else Outcome.EMPTY, turn.api_results)
    return getattr(turn, part)


def __getattr__(name: str) -> Any:
    """``Recommend`` stands in the recommenders and is loaded when it is asked for."""
    if name == "Recommend":
        from tod_bias.recommenders.lmrec.stage import Recommend

        return Recommend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
