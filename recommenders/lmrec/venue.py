"""Venues, which a recommender recommends, with price level and categories."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

VENUES = "venues.jsonl"
"""The file of a trained model that holds its venues."""
LEVELS = (1, 2, 3, 4)
"""Yelp's price levels, $ to $$$$."""
EMPTY_CELLS = frozenset({"", "nan", "none", "null", "na", "n/a", "<na>"})
"""Cells of missing values, in lower case."""
_SIGNS = "$£€¥"
_THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"[0-9]+,[0-9]{1,2}")
_MOST = 1e12


def price_level(cell: object) -> int | None:
    """Return a price level from a number (``2``, ``2.0``) or currency signs (``$$``); None if it is missing.

    Raises:
        ValueError: the cell is something else.
    """
    text = "" if cell is None else str(cell).strip()
    if text.lower() in EMPTY_CELLS:
        return None
    if set(text) <= set(_SIGNS) and len(set(text)) == 1 and len(text) in LEVELS:
        return len(text)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if number in LEVELS:
        return int(number)
    raise ValueError(f"price {text!r} is not a price level; expected 1 to 4, or $ to $$$$")


def price_amount(cell: object) -> float | None:
    """Return a price in money (``18``, ``€ 18.50``, ``18,50``, ``1,250.00``); None if it is missing.

    Raises:
        ValueError: the cell is something else, or below 0.
    """
    text = "" if cell is None else str(cell).strip()
    if text.lower() in EMPTY_CELLS:
        return None
    plain = text.strip(_SIGNS + " ")
    if _THOUSANDS.fullmatch(plain):
        plain = plain.replace(",", "")
    elif _DECIMAL_COMMA.fullmatch(plain):
        plain = plain.replace(",", ".")
    try:
        number = float(plain)
    except ValueError:
        number = math.nan
    if not 0 <= number < _MOST:
        raise ValueError(f"price {text!r} is not an amount; expected a number like 18 or 18.50")
    return number


def split_categories(cell: object, separators: str = ",") -> tuple[str, ...]:
    """Return the categories of one cell, stripped, each once, in order; empty if they are missing.

    Args:
        cell: text, or a list of categories already.
        separators: each character separates; blanks next to others do not count (``", "`` is a comma).
    """
    separators = separators.replace(" ", "") or separators
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ()
    if isinstance(cell, str):
        if cell.strip().lower() in EMPTY_CELLS:
            return ()
        parts: Iterable[str] = re.split(f"[{re.escape(separators)}]", cell) if separators else [cell]
    elif isinstance(cell, Iterable):
        parts = [str(part) for part in cell]
    else:
        parts = [str(cell)]
    normal = (unicodedata.normalize("NFC", part).strip() for part in parts)  # é is one sign or two, and looks the same
    return tuple(dict.fromkeys(part for part in normal if part))


@dataclass(frozen=True)
class Venue:
    """One item that can be recommended."""

    id: str
    name: str
    price: int | None = None
    """Price level 1–4, None if unknown."""
    categories: tuple[str, ...] = ()

    @property
    def dollars(self) -> str:
        """Price level in dollar signs; empty if unknown."""
        return "$" * (self.price or 0)
