"""One counterfactual as JSON, from which its T is made again: the dialogue, and the candidate that was chosen.

T also rewrites what a system says, which no list of changed strings foresees; so the axis makes it again, from the same
dialogue and candidate. Whoever reads a record sees to it that the axis is the same (its ``signature``) and that the
dialogue is rewritten as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError, invalid
from tod_bias.perturb.axis import Axis, Candidate
from tod_bias.perturb.personas.axis import PersonaCandidate
from tod_bias.perturb.personas.introduction import IntroducedDialogue, Persona
from tod_bias.systems.twin import Rewrite


@dataclass(frozen=True)
class _Introduction:
    """Parts of an introduced dialogue, without the dialogue."""

    turn: int
    persona: Persona
    fixed: tuple[str, ...]
    number: int


_CANDIDATE = TypeAdapter(Candidate)
_PERSONA = TypeAdapter(PersonaCandidate)
_INTRODUCTION = TypeAdapter(_Introduction)


@dataclass(frozen=True)
class CounterfactualRecord:
    """A dialogue and the candidate by which it is rewritten."""

    dialogue: Dialogue
    candidate: Candidate

    def rewrite(self, axis: Axis) -> Rewrite:
        """T.

        Raises:
            AxisError: the dialogue does not admit the candidate.
        """
        return axis.rewrite(self.dialogue, self.candidate)

    def cut(self, turns: Sequence[int]) -> CounterfactualRecord | None:
        """The counterfactual with only these turns, in their order; None where the introduction would be gone."""
        dialogue = self.dialogue
        if not isinstance(dialogue, IntroducedDialogue):
            return CounterfactualRecord(_only(dialogue, turns), self.candidate)
        if dialogue.turn not in turns:
            return None
        bare, turn = _only(dialogue.bare, turns), list(turns).index(dialogue.turn)
        introduced = IntroducedDialogue.of(bare, turn, dialogue.persona, dialogue.fixed, dialogue.number)
        return CounterfactualRecord(introduced, self.candidate)

    def to_json(self) -> dict[str, Any]:
        """``dialogue`` as it is in the corpus, ``candidate``, and ``introduction`` where the user got one."""
        dialogue = self.dialogue
        if not isinstance(dialogue, IntroducedDialogue) or not isinstance(self.candidate, PersonaCandidate):
            return {
                "dialogue": dialogue.to_json(),
                "candidate": _CANDIDATE.dump_python(self.candidate, mode="json"),
            }
        introduction = _Introduction(dialogue.turn, dialogue.persona, dialogue.fixed, dialogue.number)
        return {
            "dialogue": dialogue.bare.to_json(),
            "candidate": _PERSONA.dump_python(self.candidate, mode="json"),
            "introduction": _INTRODUCTION.dump_python(introduction, mode="json"),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> CounterfactualRecord:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: a field is missing or of the wrong type; names it.
        """
        try:
            dialogue = Dialogue.from_json(record["dialogue"])
            if "introduction" not in record:
                return cls(dialogue, _CANDIDATE.validate_python(record["candidate"]))
            candidate = _PERSONA.validate_python(record["candidate"])
            given = _INTRODUCTION.validate_python(record["introduction"])
        except KeyError as error:
            raise ValueError(f"field {error} is missing") from error
        except ValidationError as error:
            raise ValueError(f"field {invalid(error)}") from error
        if not 0 <= given.turn < len(dialogue.turns):
            raise ValueError(f"introduction field 'turn': the dialogue has no turn {given.turn}")
        introduced = IntroducedDialogue.of(dialogue, given.turn, given.persona, given.fixed, given.number)
        return cls(introduced, candidate)


def recorded(axis: Axis, dialogue: Dialogue, candidate: Candidate) -> CounterfactualRecord | None:
    """The counterfactual, if T can be made again from its record; None for crossed axes of words, users who have a name
    in the corpus and are introduced under another, and whatever else is more than a dialogue and a candidate.

    Args:
        axis: rewrites the dialogue.
        dialogue: with an introduction where the axis brings one.
        candidate: one of the dialogue's.
    """
    image = axis.rewrite(dialogue, candidate)(dialogue)
    try:
        record = CounterfactualRecord.from_json(CounterfactualRecord(dialogue, candidate).to_json())
        again = record.rewrite(axis)(record.dialogue)
    except (AxisError, ValueError):
        return None
    return record if again.turns == image.turns and record.dialogue.turns == dialogue.turns else None


def _only(dialogue: Dialogue, turns: Sequence[int]) -> Dialogue:
    return replace(dialogue, turns=tuple(dialogue.turns[number] for number in turns))
