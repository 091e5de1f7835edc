"""Published corpora in ParlAI's datapath: their files and records, and the errors for missing or damaged ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tod_bias.errors import CorpusError, MissingSplitError
from tod_bias.io import documents


def joined(value: str | list[str]) -> str:
    """A slot's value as text: several values sorted and joined by a comma, as ParlAI writes them."""
    return value if isinstance(value, str) else ", ".join(sorted(str(part).strip() for part in value))


@dataclass(frozen=True)
class Distribution:
    """A corpus as it is handed out; every error says where to get it."""

    corpus: str
    """Its name here."""
    title: str
    """Its name in print."""
    folder: str
    """Its folder in the datapath."""
    source: str
    """Source of the corpus."""
    task: str = ""
    """ParlAI's task, which fetches it; none where left out."""

    @property
    def advice(self) -> str:
        """Next step if the corpus is missing or damaged."""
        task = f", or by `parlai display_data -t {self.task} -dp FOLDER` into a new folder" if self.task else ""
        return f"get it from {self.source}{task}"

    def lies_in(self, datapath: Path | None) -> Path:
        """The corpus' folder.

        Raises:
            CorpusError: no datapath was given, or it has no such folder.
        """
        layout = f"{self.folder}/ in ParlAI's layout"
        if datapath is None:
            raise CorpusError(f"corpus {self.corpus!r} needs --datapath, a folder that holds {layout}; {self.advice}")
        folder = datapath / self.folder
        if not folder.is_dir():
            raise CorpusError(f"{folder}: no such folder; --datapath must hold {layout}; {self.advice}")
        return folder

    def split_files(self, datapath: Path | None, split: str) -> list[Path]:
        """The files ``{train,dev,test}/dialogues_*.json`` of a split, in order of their names.

        Raises:
            CorpusError: the folder is not there, or holds no file of the split.
        """
        folder, names = self.lies_in(datapath), {"train": "train", "valid": "dev", "test": "test"}
        files = {split: sorted((folder / name).glob("dialogues_*.json")) for split, name in names.items()}
        if not files[split]:
            present = " or ".join(name for name in names if files[name])
            hint = f"say --split {present}" if present else f"no split is there, is this {self.title}? {self.advice}"
            raise MissingSplitError(f"{folder / names[split]}: no dialogues_*.json there; {hint}")
        return files[split]

    def records(self, path: Path, kind: type) -> Any:
        """The content of a JSON file that holds a ``list`` or a ``dict``.

        Raises:
            CorpusError: it cannot be read, or holds something else.
        """
        try:
            content = documents.read_json(path, documents.LARGEST, unique=False)  # published: as it is
        except (OSError, ValueError) as error:
            raise CorpusError(f"{path}: cannot be read as JSON: {error}; {self.advice}") from error
        if not isinstance(content, kind):
            raise CorpusError(f"{path}: expected a {kind.__name__}, got {type(content).__name__}; {self.advice}")
        return content

    def text(self, path: Path) -> str:
        """The content of a file of text.

        Raises:
            CorpusError: it cannot be read.
        """
        try:
            return documents.read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            raise CorpusError(f"{path}: cannot be read: {error}; {self.advice}") from error

    def lines(self, path: Path) -> Iterator[tuple[int, Any]]:
        """The records of a file of JSON lines, with the numbers of their lines.

        Raises:
            CorpusError: the file or a line cannot be read.
        """
        number = 0
        try:
            for number, line in documents.text_lines(path):
                yield number, documents.loads(line)
        except (OSError, ValueError) as error:
            place = f", line {number}" if number else ""
            raise CorpusError(f"{path}{place}: cannot be read as JSON: {error}; {self.advice}") from error

    @contextmanager
    def reading(self, path: Path, place: str = "") -> Iterator[None]:
        """Turn errors in the format of a file into one line.

        Raises:
            CorpusError: the file is not in the format of the corpus.
        """
        try:
            yield
        except CorpusError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self.damaged(path, place, error) from error

    def damaged(self, path: Path, place: str, error: Exception) -> CorpusError:
        """Return the error for a file that is not in the format of the corpus."""
        where = f"{path}, {place}" if place else str(path)
        return CorpusError(f"{where}: not in {self.title}'s format: {reason(error)}; {self.advice}")


def reason(error: Exception) -> str:
    """Return the message of an error, with its kind if the message alone does not explain it."""
    return str(error) if isinstance(error, (ArithmeticError, ValueError)) else repr(error)


Kind = TypeVar("Kind", str, list[Any], dict[str, Any])

_NAMES = {str: "text", list: "a list", dict: "a mapping", bool: "a truth value", int: "a number", float: "a number"}


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value in words: ``text``, ``a list``, ``null``."""
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)


def checked_as(value: Any, kind: type[Kind], what: str) -> Kind:
    """The value, if it is of a kind (``str``, ``list``, ``dict``).

    Args:
        value: of JSON.
        kind: that it must be of.
        what: names its place, for the message.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(value, kind):
        return value
    raise ValueError(f"{what}: expected {_NAMES[kind]}, got {kind_of(value)}")


def field(record: Any, name: str, kind: type[Kind], where: str = "") -> Kind:
    """Return a required field of a record.

    Args:
        record: a mapping; anything else is an error.
        name: of the field.
        kind: ``str``, ``list`` or ``dict``.
        where: names the record, for the message: ``utterance 3``.

    Raises:
        ValueError: the record is not a mapping, or the field is missing or of another kind.
    """
    before = f"{where}: " if where else ""
    if not isinstance(record, Mapping):
        raise ValueError(f"{before}expected a mapping with {name!r}, got {kind_of(record)}")
    if name not in record:
        raise ValueError(f"{before}has no {name!r}")
    return checked_as(record[name], kind, f"{before}{name!r}")


def field_or(record: Any, name: str, default: Kind, where: str = "") -> Kind:
    """Return an optional field of a record, which must be of the kind of ``default`` if it is present.

    Raises:
        ValueError: as :func:`field`.
    """
    if isinstance(record, Mapping) and name not in record:
        return default
    return field(record, name, type(default), where)


def parlai_value(value: Any, what: str) -> str:
    """A slot's value as the text that ParlAI makes of it: lists sorted and joined, numbers as Python writes them.

    Raises:
        ValueError: it is null, for which ParlAI has no text.
    """
    if value is None:
        raise ValueError(f"{what}: expected a value, got null")
    return joined(value) if isinstance(value, (str, list)) else str(value)


def unlike(name: str, seen: dict[str, int]) -> str:
    """Return the name, with a number if it was seen before, so that ids stay unique: ``a``, ``a_2``, ``a_3``."""
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else f"{name}_{seen[name]}"
