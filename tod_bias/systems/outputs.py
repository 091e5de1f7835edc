"""What stages put out, as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tod_bias.dialogues.calls import calls_of
from tod_bias.dialogues.text import results_to_text, slots_from_text, slots_to_text, well_formed


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
    rows: tuple[Mapping[str, Any], ...] = ()
    """All results, in order; empty unless the outcome is ``FOUND``."""

    @property
    def result(self) -> Mapping[str, Any]:
        """The first result, as ParlAI shows it to the response model; empty for none."""
        return self.rows[0] if self.rows else {}


def parse_call(text: str) -> Mapping[str, Any] | str:
    """A call's text as a mapping, or the text itself where it is malformed."""
    try:
        return slots_from_text(text)
    except ValueError:
        return text


def as_text(output: Any) -> str:
    """A stage's output as models read it: mappings and lookups as ``name = value ; …``, nothing as ``""``.

    Several calls are joined by ``|``; what holds no JSON is written as Python writes it. The text is well formed: a
    lone surrogate becomes U+FFFD.
    """
    if isinstance(output, Lookup):
        output = output.result
    if output is None:
        return ""
    try:
        if isinstance(output, Mapping):
            return well_formed(slots_to_text(output))
        calls = None if isinstance(output, str) else calls_of(output)
        return well_formed(str(output) if calls is None else results_to_text(calls))
    except TypeError:
        return well_formed(str(output))
