"""One telling of one dialogue as JSON, from which its T is made again: the dialogue, and what was drawn.

T also rewrites what a system says, which no list of changed strings foresees; so it is the perturber that makes it
again, from the same dialogue and candidate. Whoever reads a record sees to it that the perturber is the same
(its ``signature``) and that the dialogue is told as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.candidates import Candidate, Perturber
from tod_bias.perturb.personas.introduction import Introduced, Persona, Piece
from tod_bias.perturb.personas.perturber import PersonaCandidate
from tod_bias.perturb.personas.sheet import Form
from tod_bias.systems.twin import Rewrite

_TEXTS = ("word", "source", "target", "form")


@dataclass(frozen=True)
class Telling:
    """A dialogue and the candidate that it is told by."""

    dialogue: Dialogue
    candidate: Candidate

    def rewrite(self, perturber: Perturber) -> Rewrite:
        """T.

        Raises:
            AxisError: the dialogue does not admit the candidate.
        """
        return perturber.rewrite(self.dialogue, self.candidate)

    def cut(self, turns: Sequence[int]) -> Telling | None:
        """The telling with only these turns, in their order; None where the introduction would be gone."""
        dialogue = self.dialogue
        if not isinstance(dialogue, Introduced):
            return Telling(_only(dialogue, turns), self.candidate)
        if dialogue.turn not in turns:
            return None
        bare, turn = _only(dialogue.bare, turns), list(turns).index(dialogue.turn)
        told = Introduced.of(bare, turn, dialogue.persona, dialogue.fixed, dialogue.number)
        return Telling(told, self.candidate)

    def to_json(self) -> dict[str, Any]:
        """``dialogue`` as it is in the corpus, ``candidate``, and ``introduction`` where the user got one."""
        dialogue, candidate = self.dialogue, self.candidate
        texts = {name: getattr(candidate, name) for name in _TEXTS}
        if not isinstance(dialogue, Introduced) or not isinstance(candidate, PersonaCandidate):
            return {"dialogue": dialogue.to_json(), "candidate": texts}
        return {
            "dialogue": dialogue.bare.to_json(),
            "candidate": texts | {"persona": _persona_json(candidate.persona)},
            "introduction": {
                "turn": dialogue.turn,
                "persona": _persona_json(dialogue.persona),
                "fixed": list(dialogue.fixed),
                "number": dialogue.number,
            },
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Telling:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: a field is missing or of the wrong type; says which.
        """
        try:
            dialogue = Dialogue.from_json(record["dialogue"])
            given = dict(record["candidate"])
            texts = {name: given[name] for name in _TEXTS}
            if wrong := [name for name, text in texts.items() if not isinstance(text, str)]:
                raise ValueError(f"candidate field {wrong[0]!r} must be a string, got {texts[wrong[0]]!r}")
            if "introduction" not in record:
                return cls(dialogue, Candidate(**texts))
            own, turn = record["introduction"], int(record["introduction"]["turn"])
            if not 0 <= turn < len(dialogue.turns):
                raise ValueError(f"introduction field 'turn': the dialogue has no turn {turn}")
            told = Introduced.of(
                dialogue, turn, _persona(own["persona"]), tuple(map(str, own["fixed"])), int(own["number"])
            )
            return cls(told, PersonaCandidate(**texts, persona=_persona(given["persona"])))
        except KeyError as error:
            raise ValueError(f"field {error} is missing") from error
        except TypeError as error:
            raise ValueError(f"a field is of the wrong type ({error})") from error


def kept(perturber: Perturber, dialogue: Dialogue, candidate: Candidate) -> Telling | None:
    """The telling, if T can be made again from its record; None for crossed axes of words, users who have a name in the
    corpus and are introduced under another, and whatever else is more than a dialogue and a candidate.

    Args:
        perturber: made the telling.
        dialogue: as it is told, with an introduction where the axis brings one.
        candidate: one of the dialogue's.
    """
    one = Telling(dialogue, candidate)
    told = perturber.rewrite(dialogue, candidate)(dialogue)
    try:
        read = Telling.from_json(one.to_json())
        again = read.rewrite(perturber)(read.dialogue)
    except (AxisError, ValueError):
        return None
    return read if again.turns == told.turns and read.dialogue.turns == dialogue.turns else None


def _only(dialogue: Dialogue, turns: Sequence[int]) -> Dialogue:
    return replace(dialogue, turns=tuple(dialogue.turns[number] for number in turns))


def _persona_json(persona: Persona) -> dict[str, Any]:
    pieces = [
        {
            "form": {"kind": piece.form.kind, "place": piece.form.place, "text": piece.form.text},
            "values": [list(pair) for pair in piece.values],
            "telling": sorted(piece.telling),
        }
        for piece in persona.pieces
    ]
    return {"attribute": persona.attribute, "pieces": pieces}


def _persona(record: Mapping[str, Any]) -> Persona:
    pieces = tuple(
        Piece(
            Form(str(piece["form"]["kind"]), str(piece["form"]["place"]), str(piece["form"]["text"])),
            tuple((str(slot), str(value)) for slot, value in piece["values"]),
            frozenset(map(str, piece["telling"])),
        )
        for piece in record["pieces"]
    )
    return Persona(str(record["attribute"]), pieces)
