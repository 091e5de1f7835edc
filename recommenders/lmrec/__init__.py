"""LMRec, a conversational recommender driven by a language model, its audit and its mitigation (Shen 2022, 2023).

Nothing is loaded before it is named.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tod_bias.recommenders.lmrec.model import LMRec
    from tod_bias.recommenders.lmrec.stage import ItemLookup, Recommend, VenueResponse

__all__ = ["ItemLookup", "LMRec", "Recommend", "VenueResponse"]

_HOMES = {"LMRec": "model", "ItemLookup": "stage", "Recommend": "stage", "VenueResponse": "stage"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
