"""Read JSON and YAML with bounds on size, depth and expansion, before any content is used or shown.

These functions raise the errors of the standard readers (``OSError``, ``UnicodeDecodeError``, ``json.JSONDecodeError``,
``yaml.YAMLError``), so that a caller can turn them into an error of its own class.
"""

from __future__ import annotations

import codecs
import errno
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn, TextIO

import yaml

from tod_bias.errors import TodBiasError, repeated, shortened

DEPTH = 100
"""Lists and mappings inside of each other; a file of results, of dialogues or of settings has less than ten."""
LARGEST = 1 << 30
"""Bytes of a file of data."""
LARGEST_RECORD = 1 << 25
"""Maximum bytes of a JSON file other than a corpus: results, sets of ids, a database."""
LONGEST = 1 << 22
"""Maximum characters of one line and of one dialogue, about the speech of a working week."""
LARGEST_LIST = 1 << 22
"""Bytes of a file of words: a lexicon, a sheet, templates."""
COLUMNS = 10_000
"""Columns of a table."""
LARGEST_YAML = 1 << 20
"""Bytes of a file of settings."""
NODES = 50_000
"""Values in a file of settings, those that aliases repeat included."""

_USUAL_LIMIT = 3000
"""Recursions within which the parser of the standard library finds a text too deep; where a library allows more, it
takes all of the stack instead, and the process dies."""
_SHORT = 10_000
"""Characters up to which counting brackets is faster than following them."""
DIGITS = 100
"""Digits of a whole number in a file of settings."""
STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
"""A string as JSON writes it."""
_BRACKET = re.compile(r"[\[\]{}]")
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def check_plain(path: str | Path) -> None:
    """Look at what is read more than once, or not in order.

    Raises:
        OSError: it is not there, or is a pipe or a device.
    """
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.ESPIPE, "it is a pipe or a device, which is read once; this takes a plain file")


class NotUtf8Error(UnicodeDecodeError):
    """A file that holds something else than UTF-8; its text says in which line, and what to do."""

    def __str__(self) -> str:
        return self.reason


@contextmanager
def utf8(path: str | Path) -> Iterator[None]:
    """A text is read inside of the block.

    Raises:
        NotUtf8Error: it is no UTF-8.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise NotUtf8Error(error.encoding, b"", 0, 0, f"not UTF-8{_line_of_fault(path)}; save it as UTF-8") from error


def _line_of_fault(path: str | Path) -> str:
    """Return where a file is not UTF-8; empty if it cannot be read again."""
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                is_utf16 = number == 1 and line[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
                return " but UTF-16" if is_utf16 else f" (line {number}, byte 0x{line[error.start]:02x})"
    return ""


def read_text(path: str | Path, encoding: str = "utf-8-sig", largest: int = LARGEST) -> str:
    """Return the text of a file.

    Raises:
        OSError: the file cannot be read, or is larger than ``largest`` bytes.
        NotUtf8Error: the file is not a text in UTF-8.
    """
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size or largest  # 0 for a pipe
        data = stream.read(min(size, largest) + 1)
    if len(data) > largest:
        raise OSError(errno.EFBIG, f"it is larger than {largest:,} bytes")
    with utf8(path):
        text = data.decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def text_lines(path: str | Path, encoding: str = "utf-8-sig") -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers.

    Raises:
        OSError: the file cannot be read, or a line is longer than :data:`LONGEST` characters.
        NotUtf8Error: the file is not a text in UTF-8.
    """
    with utf8(path), open(path, encoding=encoding) as stream:
        yield from ((number, line) for number, line in enumerate(bounded_lines(stream), start=1) if not line.isspace())


def bounded_lines(stream: TextIO) -> Iterator[str]:
    """Yield the lines of a stream with their ends.

    Raises:
        OSError: it cannot be read, or a line is longer than :data:`LONGEST` characters.
        UnicodeDecodeError: the stream is not a text.
    """
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise OSError(errno.EFBIG, f"line {number} is longer than {LONGEST:,} characters")
        yield line


def check_columns(path: str | Path, *delimiters: str) -> str:
    """Check the first line of a table; a column costs its reader as much as 10,000 cells.

    Args:
        path: of a text in UTF-8.
        delimiters: possible separators of columns.

    Returns:
        The first delimiter that occurs in the line, or the first one.

    Raises:
        OSError: the file cannot be read, is not a regular file, or has more than :data:`COLUMNS` columns.
    """
    check_plain(path)
    with Path(path).open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        header = stream.readline(LONGEST)
    delimiter = next((candidate for candidate in delimiters if candidate in header), delimiters[0])
    columns = 1 + header.count(delimiter)
    if columns > COLUMNS:
        raise OSError(errno.EFBIG, f"line 1 has {columns:,} columns; a table has {COLUMNS:,} at the most")
    return delimiter


def _no_json(name: str) -> NoReturn:
    raise _NotFiniteError(name)


class _NotFiniteError(ValueError):
    pass


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        _no_json(text[:20])
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _DoubledError(repeated(name for name, _ in pairs))
    return content


class _DoubledError(ValueError):
    pass


_DECODER = json.JSONDecoder(parse_constant=_no_json, parse_float=_number)
_STRICT = json.JSONDecoder(parse_constant=_no_json, parse_float=_number, object_pairs_hook=_once)


def loads(text: str, *, unique: bool = False) -> Any:
    """Return the content of a JSON text.

    Args:
        text: JSON.
        unique: True to refuse repeated names in an object; otherwise the last one counts, as with most readers.

    Raises:
        json.JSONDecodeError: the text is not JSON; it has NaN, an infinity or a number of thousands of digits; it is
            nested more than :data:`DEPTH` deep; or a name is repeated and ``unique`` is set.
    """
    if sys.getrecursionlimit() > _USUAL_LIMIT and _depth(text) > DEPTH:
        raise _too_deep(text)
    try:
        content = (_STRICT if unique else _DECODER).decode(text)
    except RecursionError:
        raise _too_deep(text) from None
    except _NotFiniteError as error:
        name = str(error)
        raise json.JSONDecodeError(f"{name} is not a number in JSON; write null", text, text.find(name)) from error
    except _DoubledError as error:
        name = json.dumps(str(error), ensure_ascii=False)
        raise json.JSONDecodeError(f"{name:.60} is repeated in one object", text, max(text.find(name), 0)) from error
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # the limit on digits
        raise json.JSONDecodeError("a number of thousands of digits", text, 0) from error
    if (len(text) > _SHORT or text.count("[") + text.count("{") > DEPTH) and is_deep(content):
        raise _too_deep(text)
    return content


def _depth(text: str) -> int:
    """Return the depth of the brackets outside of strings, without a parser."""
    return max(accumulate(map(_STEPS.__getitem__, _BRACKET.findall(STRING.sub("", text)))), default=0)


def _too_deep(text: str) -> json.JSONDecodeError:
    return json.JSONDecodeError(f"nested more than {DEPTH} deep", text, 0)


def is_deep(content: Any, depth: int = DEPTH) -> bool:
    """True if lists and mappings, as JSON has them, are nested more than ``depth`` deep."""
    level = [content] if isinstance(content, dict | list) else []
    for _ in range(depth):
        items = (item for value in level for item in (value.values() if isinstance(value, dict) else value))
        level = [item for item in items if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def read_json(path: str | Path, largest: int = LARGEST_RECORD, *, unique: bool = True) -> Any:
    """The content of a JSON file; raises what :func:`read_text` and :func:`loads` raise."""
    return loads(read_text(path, largest=largest), unique=unique)


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file of plain types with unique keys.

    Raises:
        OSError, UnicodeDecodeError: the file cannot be read, or is larger than :data:`LARGEST_YAML` bytes.
        yaml.YAMLError: the file is not YAML; a key is repeated; it is nested more than :data:`DEPTH` deep or, with what
            its aliases repeat, holds more than :data:`NODES` values.
    """
    text = read_text(path, largest=LARGEST_YAML)
    try:
        return yaml.load(text, _Bounded)
    except yaml.YAMLError:
        raise
    except (ValueError, LookupError, AttributeError, OverflowError, RecursionError) as error:  # its own constructors'
        raise yaml.YAMLError(f"a value is not of the type that its tag or form says ({error})") from error


def read_settings(path: str | Path, unread: str, error: type[TodBiasError] = TodBiasError) -> Any:
    """Return the content of a YAML or JSON file of settings.

    Args:
        path: of the file.
        unread: message for a file that cannot be read, before the reason.
        error: class of the error.

    Raises:
        TodBiasError: the file cannot be read.
    """
    try:
        return read_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as reason:
        raise error(f"{unread}: {shortened(str(reason), 200)}") from reason


class _Bounded(yaml.SafeLoader):
    """YAML that is looked through before it is expanded."""

    _depth = 0
    _nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The node that begins here."""
        self._depth += 1
        self._nodes += 1
        if self._nodes > NODES:
            raise yaml.YAMLError(f"it holds more than {NODES} values")
        if self._depth > DEPTH:
            raise yaml.YAMLError(f"nested more than {DEPTH} deep")
        try:
            return super().compose_node(parent, index)  # type: ignore[no-any-return]
        finally:
            self._depth -= 1

    def get_single_node(self) -> yaml.Node | None:
        """The one document of the stream."""
        node = super().get_single_node()
        if node is not None:
            _check_expansion(node)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node; plainly read, the last of equal keys would win."""
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in lines:
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value!r} on line {line} is already on line {lines[key.value]}"
                )
            lines[key.value] = line
        return super().construct_mapping(node, deep)

    def _bounded_int(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > DIGITS:
            raise yaml.YAMLError(f"the number on line {node.start_mark.line + 1} has more than {DIGITS} digits")
        return self.construct_yaml_int(node)  # type: ignore[no-any-return]


_Bounded.add_constructor("tag:yaml.org,2002:int", _Bounded._bounded_int)


def _check_expansion(root: yaml.Node) -> None:
    """Count the values and the depth of a document with its aliases, without expanding it."""
    sizes: dict[int, tuple[int, int]] = {}
    open_: set[int] = set()

    def measure(node: yaml.Node) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            return 1, 0
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in open_:
            raise yaml.YAMLError(f"the alias on line {node.start_mark.line + 1} holds itself")
        open_.add(id(node))
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        measured = [measure(part) for part in parts]
        size = 1 + sum(size for size, _ in measured)
        depth = 1 + max((depth for _, depth in measured), default=0)
        if size > NODES:
            raise yaml.YAMLError(f"with what its aliases repeat it holds more than {NODES} values")
        if depth > DEPTH:
            raise yaml.YAMLError(f"nested more than {DEPTH} deep")
        open_.discard(id(node))
        sizes[id(node)] = size, depth
        return sizes[id(node)]

    measure(root)
