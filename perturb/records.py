"""One counterfactual as JSON, from which its T is made again: the dialogue, and the candidate that was chosen.

T also rewrites what a system says, which no list of changed strings foresees; so the axis makes it again, from the same
dialogue and candidate. Whoever reads a record sees to it that the axis is the same (its ``signature``) and that the
dialogue is rewritten as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.axis import Axis, Candidate
from tod_bias.perturb.personas.axis import PersonaCandidate
from tod_bias.perturb.personas.introduction import FilledTemplate, IntroducedDialogue, Persona
from tod_bias.perturb.personas.sheet import Template
from tod_bias.systems.twin import Rewrite

_TEXTS = ("term", "source", "target", "form")
"""Fields of a candidate."""


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
        dialogue, candidate = self.dialogue, self.candidate
        texts = {name: getattr(candidate, name) for name in _TEXTS}
        if not isinstance(dialogue, IntroducedDialogue) or not isinstance(candidate, PersonaCandidate):
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
    def from_json(cls, record: Mapping[str, Any]) -> CounterfactualRecord:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: a field is missing or of the wrong type; says which.
        """
        try:
            dialogue = Dialogue.from_json(record["dialogue"])
            given = dict(record["candidate"])
            texts = {name: given[name] for name in _TEXTS}
            if wrong := [name for name in _TEXTS if not isinstance(texts[name], str)]:
                raise ValueError(f"candidate field {wrong[0]!r} must be a string, got {given[wrong[0]]!r}")
            if "introduction" not in record:
                return cls(dialogue, Candidate(**texts))
            facts, turn = record["introduction"], int(record["introduction"]["turn"])
            if not 0 <= turn < len(dialogue.turns):
                raise ValueError(f"introduction field 'turn': the dialogue has no turn {turn}")
            fixed, number = tuple(map(str, facts["fixed"])), int(facts["number"])
            introduced = IntroducedDialogue.of(dialogue, turn, _persona(facts["persona"]), fixed, number)
            return cls(introduced, PersonaCandidate(**texts, persona=_persona(given["persona"])))
        except KeyError as error:
            raise ValueError(f"field {error} is missing") from error
        except TypeError as error:
            raise ValueError(f"a field is of the wrong type ({error})") from error


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


def _persona_json(persona: Persona) -> dict[str, Any]:
    parts = [
        {
            "form": {"kind": part.template.kind, "place": part.template.place, "text": part.template.text},
            "values": [list(pair) for pair in part.values],
            "revealing": sorted(part.revealing),
        }
        for part in persona.parts
    ]
    return {"attribute": persona.group, "pieces": parts}


def _persona(record: Mapping[str, Any]) -> Persona:
    parts = tuple(
        FilledTemplate(
            Template(str(part["form"]["kind"]), str(part["form"]["place"]), str(part["form"]["text"])),
            tuple((str(slot), str(value)) for slot, value in part["values"]),
            frozenset(map(str, part["revealing"])),
        )
        for part in record["pieces"]
    )
    return Persona(str(record["attribute"]), parts)
