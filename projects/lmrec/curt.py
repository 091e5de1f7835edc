"""A response stage with a planted bias: it tells people with names of black people less about the venue."""

from __future__ import annotations

from collections.abc import Sequence

from tod_bias.recommenders.lmrec.stages import VenueResponse
from tod_bias.recommenders.lmrec.templates import load_templates
from tod_bias.systems.stage import StageInput

BLACK = {entry.word for entry in load_templates().names if entry.labels["race"] == "black"}


class CurtResponse:
    def __init__(self) -> None:
        self._full = VenueResponse()
        self._short = VenueResponse(template="How about {name}?")

    def __call__(self, inputs: Sequence[StageInput], /) -> list[str]:
        named = [any(word.strip("?.,'s") in BLACK for word in item.user.split()) for item in inputs]
        full, short = self._full(inputs), self._short(inputs)
        return [brief if curt else whole for curt, whole, brief in zip(named, full, short, strict=True)]
