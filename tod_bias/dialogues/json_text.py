"""JSON inside a text, such as a tool's message: its strings can be changed while every other byte stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from tod_bias.dialogues.values import API_NAME
from tod_bias.io.documents import STRING, loads

_COLON = re.compile(r"[ \t\r\n]*:")
_ESCAPED_UNICODE = re.compile(r"\\u[0-9A-Fa-f]{4}")
_PAIRS = json.JSONDecoder(object_pairs_hook=lambda pairs: _Pairs(pairs))


class _Pairs(list[tuple[str, Any]]):
    """Members of a JSON object in the order of the text; a name may occur twice."""


def looks_like_json(text: str) -> bool:
    """True if a text begins like a JSON object, list or string; it need not be valid."""
    return text[:1] in _FIRST or (text[:1].isspace() and text.lstrip()[:1] in _FIRST)


_FIRST = frozenset('{["')


def with_strings_changed(text: str, change: Callable[[str], str]) -> str | None:
    """Apply ``change`` to the strings of a JSON text; None if the text is not a JSON object, list or string.

    Names of members and of APIs stay, as in :class:`~tod_bias.perturb.rewrite.DialogueRewrite`. Spacing, the order of
    members, numbers, repeated members and strings that ``change`` leaves alone keep their bytes; a changed
    string is escaped as it was before.
    """
    if not looks_like_json(text):
        return None
    try:
        loads(text)  # bounded in depth
        content = _PAIRS.decode(text.strip(" \t\r\n"))
    except ValueError:
        return None
    strings = _strings(content)
    parts: list[str] = []
    end = 0
    for match in STRING.finditer(text):
        if _COLON.match(text, match.end()):
            continue
        string, is_fixed = next(strings)
        changed = string if is_fixed else change(string)
        if changed != string:
            parts += [text[end : match.start()], _literal(match[0], string, str(changed), text)]
            end = match.end()
    return "".join([*parts, text[end:]])


def _strings(value: Any, is_fixed: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the strings of a JSON value that are not names, in the order of the text, and whether each must stay."""
    if isinstance(value, str):
        yield value, is_fixed
    elif isinstance(value, _Pairs):
        is_call = any(name == "arguments" and isinstance(item, _Pairs) for name, item in value)
        for name, item in value:
            yield from _strings(item, isinstance(item, str) and (name == API_NAME or (is_call and name == "name")))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _literal(before: str, old: str, new: str, text: str) -> str:
    """``new`` as a JSON string, with the characters that it shares with ``old`` at both ends as they were written."""
    units = _UNIT.findall(before[1:-1])
    start = 0
    end = 0
    if len(units) == len(old):
        shortest = min(len(old), len(new))
        while start < shortest and old[start] == new[start]:
            start += 1
        while end < shortest - start and old[-1 - end] == new[-1 - end]:
            end += 1
    middle = json.dumps(new[start : len(new) - end], ensure_ascii=bool(_ESCAPED_UNICODE.search(text)))[1:-1]
    if r"\/" in before:
        middle = middle.replace("/", r"\/")
    return f'"{"".join(units[:start])}{middle}{"".join(units[len(units) - end :])}"'


_UNIT = re.compile(r"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\.|.", re.DOTALL)
"""One character of a string as JSON writes it."""
