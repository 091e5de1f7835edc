"""The shipped stages, by the names that pipeline files use: ``tod_bias.stages:ApiCall``.

Each is loaded when it is used, so that naming one does not load the others' libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tod_bias.perturb.guard import Guard
    from tod_bias.recommenders.lmrec.stages import ItemLookup, Recommend, VenueResponse
    from tod_bias.systems.chat.components import Answer, ToolCalls
    from tod_bias.systems.outputs import Lookup, Outcome, as_text, parse_call
    from tod_bias.systems.stages.database import LookupDb
    from tod_bias.systems.stages.language_model import ApiCall, Response
    from tod_bias.systems.stages.replay import Replay
    from tod_bias.systems.stages.sql import SqlDb
    from tod_bias.systems.stages.tools import Tools

HOMES = {
    "Answer": "systems.chat.components",
    "ApiCall": "systems.stages.language_model",
    "Guard": "perturb.guard",
    "ItemLookup": "recommenders.lmrec.stages",
    "Lookup": "systems.outputs",
    "LookupDb": "systems.stages.database",
    "Outcome": "systems.outputs",
    "Recommend": "recommenders.lmrec.stages",
    "Replay": "systems.stages.replay",
    "Response": "systems.stages.language_model",
    "SqlDb": "systems.stages.sql",
    "ToolCalls": "systems.chat.components",
    "Tools": "systems.stages.tools",
    "VenueResponse": "recommenders.lmrec.stages",
    "as_text": "systems.outputs",
    "parse_call": "systems.outputs",
}
"""Name to the module below ``tod_bias`` that holds it."""
__all__ = [
    "Answer",
    "ApiCall",
    "Guard",
    "ItemLookup",
    "Lookup",
    "LookupDb",
    "Outcome",
    "Recommend",
    "Replay",
    "Response",
    "SqlDb",
    "ToolCalls",
    "Tools",
    "VenueResponse",
    "as_text",
    "parse_call",
]


def __getattr__(name: str) -> Any:
    """A stage, from the module it lives in."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"tod_bias.{HOMES[name]}"), name)
