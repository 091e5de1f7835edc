"""What a call's slot asks of a table's column: a condition of SQLAlchemy, values as bound parameters alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

NUMBER = r"^\s*-?[0-9]+(\.[0-9]+)?\s*$"
"""A number written as text; what is none is in no range of numbers."""
OPERATORS = ("min", "max", "above", "below", "contains", "one_of", "not", "not_contains")
"""What a mapping as a slot's value may ask."""
MATCHES = ("exact", *OPERATORS)
"""How a slot may be matched."""
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")
_LARGEST = 1 << 63
"""What no integer of a database reaches."""
MOST_VALUES = 100
"""Values in one call: more are no question, and a database takes an expression of bounded size."""
_LONGEST = 4000
"""Characters of a text that is compared; SQLite takes patterns of 50,000 bytes."""


class NotUnderstoodError(ValueError):
    """A slot's value that asks nothing that a column can answer; its argument says why."""


def _operators(value: Mapping[str, Any], match: str) -> dict[str, Any]:
    """The operators of a mapping that have a bound.

    Raises:
        NotUnderstoodError: one is unknown, there is none, or a value is expected.
    """
    if match != "exact":
        raise NotUnderstoodError(f"expected a value for {match}, got a mapping")
    unknown = [name for name in value if name not in OPERATORS]
    if unknown or not value:
        raise NotUnderstoodError(f"expected one of {', '.join(OPERATORS)}, got {', '.join(unknown) or 'nothing'}")
    return {name: bound for name, bound in value.items() if bound is not None}


def condition(column: Any, value: Any, match: str = "exact") -> Any:
    """The condition that a column meets a value.

    Text is equal without regard to case; a number written as text equals the number, on either side; a list that stands
    in a column equals each of its items. A list as the value is one of these. A mapping holds operators
    (:data:`OPERATORS`), all of which must be met. Bounds of text columns are compared as numbers where both sides are
    numbers, else as texts.

    Args:
        column: of a reflected table.
        value: a JSON value.
        match: one of :data:`MATCHES`, for a value that is no mapping.

    Raises:
        NotUnderstoodError: an unknown operator, or a value that cannot be compared.
    """
    import sqlalchemy as sa

    if isinstance(value, Mapping):
        bounds = _operators(value, match)
        return sa.and_(sa.true(), *(condition(column, bound, name) for name, bound in bounds.items()))
    if match in ("not", "not_contains"):
        opposite = condition(column, value, "exact" if match == "not" else "contains")
        return sa.or_(column.is_(None), sa.not_(opposite))
    if match in ("exact", "one_of"):
        values = value if isinstance(value, list) else [value]
        return _is_any_of(column, [item for item in values if item is not None])
    if match == "contains":
        values = value if isinstance(value, list) else [value]
        return sa.and_(sa.true(), *(_contains(column, item) for item in values))
    if isinstance(value, list):
        raise NotUnderstoodError(f"expected a number or text for {match}, got a list")
    return _bounded(column, value, match)


def kind_of(column: Any) -> str:
    """``text``, ``number``, ``truth``, ``json`` or ``other`` (compared by its text)."""
    import sqlalchemy as sa

    kind = column.type
    if isinstance(kind, sa.Boolean):
        return "truth"
    if isinstance(kind, (sa.Integer, sa.Numeric, sa.Float)):
        return "number"
    if isinstance(kind, sa.JSON):
        return "json"
    return "text" if isinstance(kind, sa.String) else "other"


def _as_text(column: Any) -> Any:
    import sqlalchemy as sa

    return column if kind_of(column) == "text" else sa.cast(column, sa.String)


def count_of(value: Any) -> int:
    """How many values a slot asks with, those in lists and mappings counted one by one."""
    if isinstance(value, Mapping):
        return sum(map(count_of, value.values()))
    return sum(map(count_of, value)) if isinstance(value, list) else 1


def _is_any_of(column: Any, values: list[Any]) -> Any:
    import sqlalchemy as sa

    kind = kind_of(column)
    if any(isinstance(value, (list, Mapping)) for value in values):
        raise NotUnderstoodError("a list in a list, or a mapping in one, cannot be compared")
    if kind == "json":
        return sa.or_(sa.false(), *(_is_item(column, value) for value in values))
    if kind == "truth":
        return sa.or_(sa.false(), *(column.is_(truth) for value in values if (truth := _truth(value)) is not None))
    if kind == "number":
        return column.in_([number for value in values if (number := _number(value)) is not None])
    return sa.func.lower(_as_text(column)).in_([sa.func.lower(_text(value)) for value in values])


def _is_item(column: Any, value: Any) -> Any:
    """Whether a column of JSON is a value, or a list that holds it."""
    import sqlalchemy as sa

    column = sa.cast(column, sa.String)
    written = json.dumps(_text(value) if isinstance(value, str) else value)
    conditions = [sa.func.lower(column) == written.lower()]
    for before, after in (("[", "]"), ("[", ","), (", ", "]"), (", ", ",")):
        conditions.append(column.icontains(f"{before}{written}{after}", autoescape=True))
    return sa.or_(*conditions)


def _contains(column: Any, value: Any) -> Any:
    if isinstance(value, (list, Mapping)) or value is None:
        raise NotUnderstoodError("expected a text that is contained")
    if kind_of(column) == "json":
        return _is_item(column, value)
    return _as_text(column).icontains(_text(value), autoescape=True)


def _bounded(column: Any, value: Any, match: str) -> Any:
    import sqlalchemy as sa

    number = _number(value)
    kind = kind_of(column)
    side: Any = column
    bound: Any = number
    if kind in ("truth", "json") or (number is None and (kind == "number" or not isinstance(value, str))):
        return sa.false()
    if kind != "number" and number is not None:
        text = _as_text(column)
        side = sa.case((text.regexp_match(NUMBER), sa.cast(text, sa.Float)), else_=None)
    elif kind != "number":
        side, bound = _as_text(column), _text(value)
    if match == "min":
        return side >= bound
    if match == "max":
        return side <= bound
    return side > bound if match == "above" else side < bound


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = int(value) if value.strip().lstrip("+-").isdecimal() else float(value)
        except ValueError:
            return None
    if isinstance(value, float) and not -_LARGEST < value < _LARGEST:  # nan too
        return None
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return None
    return value if isinstance(value, (int, float)) else None


def _truth(value: Any) -> bool | None:
    text = str(value).strip().lower()
    return True if text in _TRUE else False if text in _FALSE else None


def _text(value: Any) -> str:
    """A value as a database takes it: without surrogates and NUL, which some do not."""
    text = str(value)
    if len(text) > _LONGEST:
        raise NotUnderstoodError(f"expected a text of at most {_LONGEST} characters")
    return text.encode("utf-8", "replace").decode().replace("\0", "")
