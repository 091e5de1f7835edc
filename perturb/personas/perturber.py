"""Personas: every dialogue of a corpus told by everybody.

Corpora rarely mention people, but every user is somebody. A persona lets the user of any dialogue say who they are, by
name, title, pronouns, age, a statement or a signature: the same words in every telling but for those that tell the
attribute. The dialogue that is rewritten has an introduction too, of each attribute in turn, so that T only exchanges
one for another; the corpus' own dialogue, without any, is told for comparison, and so is one with a neutral
introduction of the same length. (Names: Eloundou et al. 2024, First-Person Fairness in Chatbots; statements: Smith et
al. 2022, HolisticBias.)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import product

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.balance import Square, number_of, targets, turn_of
from tod_bias.perturb.candidates import Candidate, Drawn
from tod_bias.perturb.names.people import Person, people
from tod_bias.perturb.names.resources import GENDERS, RACES
from tod_bias.perturb.personas.heard import Heard
from tod_bias.perturb.personas.introduction import (
    OWN,
    Introduced,
    Persona,
    Piece,
    introduction,
    main_word,
    nearest_neutral,
    told_as,
    untold,
)
from tod_bias.perturb.personas.parts import Attribute, Part, tells_name, turns
from tod_bias.perturb.personas.places import asked_turn, first_turn, said_in
from tod_bias.perturb.personas.sheet import NEUTRAL, Form, neutral_forms
from tod_bias.perturb.rewrite import DialogueRewrite

BARE, INTRODUCED = "neutral", "neutral-introduction"
"""Tellings that are nobody's: the corpus' own dialogue, and one with a neutral introduction."""
_ANYWHERE = 1 << 20
_BY_NAME = frozenset({"name", "pronouns", "title"})


@dataclass(frozen=True)
class PersonaCandidate(Candidate):
    """A persona that a dialogue is told as."""

    persona: Persona = field(default=Persona("", ()))


class PersonaPerturber:
    """Lets the users of dialogues introduce themselves.

    Args:
        axis: its name, such as ``persona_age``.
        parts: what an introduction tells; several are crossed, every attribute of one with every one of the others.
        kinds: keep only these kinds of forms (``name``, ``statement`` …); all where left out.
        sources: keep only dialogues with these attributes in the introduction that is rewritten.
        targets: tell dialogues only as these.

    Raises:
        AxisError: no such kind or attribute.
    """

    def __init__(
        self,
        axis: str,
        parts: Sequence[Part],
        *,
        kinds: Iterable[str] | None = None,
        sources: Iterable[str] | None = None,
        targets: Iterable[str] | None = None,
    ) -> None:
        self.axis = axis
        self._parts = tuple(parts)
        self.factors: tuple[str, ...] = tuple(factor for part in self._parts for factor in part.factors)
        """What the attributes are products of."""
        self._tuples = [sum(every, ()) for every in product(*(part.attributes for part in self._parts))]
        self.attributes = tuple("×".join(every) for every in self._tuples)
        self._by_name = dict(zip(self.attributes, self._tuples, strict=True))
        wanted = None if kinds is None else set(kinds)
        known = frozenset(kind for part in self._parts for kind in part.kinds)
        self.kinds = known if wanted is None else known & wanted
        """Kinds of introductions that are used."""
        if wanted is not None and (unknown := sorted(wanted - known)):
            raise AxisError(
                f"axis {axis}: no introductions of the kind {unknown[0]!r}; it has {', '.join(sorted(known))}"
            )
        self._kinds = [
            [forms for kind, forms in part.kinds.items() if wanted is None or kind in wanted] for part in self._parts
        ]
        if not all(self._kinds):
            raise AxisError(f"axis {axis}: no form for one of its parts; it has {', '.join(sorted(known))}")
        self.sources, self.targets = (self._chosen(names) for names in (sources, targets))
        self._turns = [turns(part, kinds) for part, kinds in zip(self._parts, self._kinds, strict=True)]
        self._by_own_name = wanted is None or OWN.kind in wanted
        self._squares: dict[tuple[int, str, tuple[str, ...]], Square] = {}

    def _chosen(self, names: Iterable[str] | None) -> tuple[str, ...]:
        if names is None:
            return self.attributes
        chosen = {name.strip().lower().replace("_", "-") for name in names}
        if unknown := sorted(chosen - set(self.attributes)):
            raise AxisError(f"axis {self.axis!r} has no attribute {unknown[0]!r}; it has {', '.join(self.attributes)}")
        return tuple(name for name in self.attributes if name in chosen)

    @cached_property
    def signature(self) -> str:
        """What decides the tellings, as one line of ``key:value`` parts; forms and names by their content."""
        rows = [
            (form, attribute, part.can(form, attribute))
            for part, kinds in zip(self._parts, self._kinds, strict=True)
            for forms in kinds
            for form in forms
            for attribute in part.attributes
        ]
        content = repr((rows, self._turns, self._fills(), neutral_forms(NEUTRAL), self.sources, self.targets))
        return f"personas:{self.axis}|hash:{sha256(content.encode()).hexdigest()[:12]}"

    def _fills(self) -> list[tuple[str, tuple[str, ...]]]:
        """Everything that may fill a slot, with what it is for."""
        found: dict[str, tuple[str, ...]] = {}

        def noted(fills: Sequence[str], label: str) -> str:
            found[label] = tuple(fills)
            return fills[0]

        for part, kinds in zip(self._parts, self._kinds, strict=True):
            for form in (form for forms in kinds for form in forms):
                for attribute in part.attributes:
                    for fixed in product(GENDERS, RACES):
                        if part.can(form, attribute):
                            part.values(form, attribute, fixed, noted)
        return sorted(found.items())

    # who is told as whom ------------------------------------------------------------------------------------------

    def arrange(
        self, dialogues: Sequence[Dialogue], *, seed: int, tellings: int | None = None, draws: int | None = None
    ) -> list[Drawn]:
        """Every dialogue in which the user says anything, with an introduction, and its tellings.

        Attributes and what an axis does not tell (the race of somebody whose gender is told) take turns in an order
        that the seed draws; names and words are dealt out (:class:`~tod_bias.perturb.balance.Square`). So do kinds of
        forms, each as often as it has words: a title, which is one word a group, would else stand for the group.
        """
        usable = [
            (place, turn)
            for place, turn in ((place, first_turn(one)) for place, one in enumerate(dialogues))
            if turn >= 0
        ]
        order = random.Random(number_of(seed, self.axis)).sample(range(len(usable)), len(usable))
        found: dict[int, Drawn] = {}
        dealt: Counter[str] = Counter()
        # one alone begins anywhere, else it would be told by the first name of all
        begin = number_of(seed, self.axis, dialogues[0].id) % _ANYWHERE if len(dialogues) == 1 else 0
        for number, chosen in enumerate(order, start=begin):
            place, turn = usable[chosen]
            drawn = self._told(dialogues[place], turn, number, seed, tellings, draws, dealt, begin)
            if drawn is not None:
                found[place] = drawn
        return [found[place] for place in sorted(found)]

    def _told(
        self,
        bare: Dialogue,
        turn: int,
        number: int,
        seed: int,
        tellings: int | None,
        draws: int | None,
        dealt: Counter[str],
        begin: int,
    ) -> Drawn | None:
        forms, left = self._forms(bare, number, seed)
        chance = seed, self.axis, *(form.kind for form in forms)
        named = self._named(bare)
        if named is not None:
            forms = tuple(OWN if tells_name(part) else form for part, form in zip(self._parts, forms, strict=True))
        able = [name for name in self.attributes if self._can(forms, self._by_name[name])]
        others = [name for name in able if name in self.targets]
        own = [name for name in able if name in self.sources and set(others) - {name}]
        if not own:
            return None
        source = own[turn_of(left, len(own), "source", *chance)]
        again = left // len(own)  # of the same source
        fixed = (
            GENDERS[turn_of(again, len(GENDERS), "gender", source, *chance)],
            RACES[turn_of(again, len(RACES), "race", source, *chance)],
        )
        taken = said_in(bare)
        if any(form.kind in _BY_NAME for form in forms):
            turn = asked_turn(bare, turn)
        places: dict[str, int] = {}

        def place(label: str) -> int:
            """How many dialogues were dealt something of this kind before."""
            if label not in places:
                places[label] = begin + dealt[label]
                dealt[label] += 1
            return places[label]

        persona = self._persona(forms, source, fixed, seed, place, 0, taken, None)
        dialogue = Introduced.of(bare, turn, persona, fixed, number, named)
        chosen = targets([*dict.fromkeys([source, *others])], source, again, tellings, *chance)
        if draws is not None:
            drawn = random.Random(number_of(seed, self.axis, bare.id))
            rest_of = [name for name in others if name != source]
            chosen = [(drawn.choice(rest_of), draw) for draw in range(draws)] if rest_of else []
        told = (
            self._persona(forms, target, fixed, seed, place, again, taken | persona.words, persona)
            for target, again in chosen
        )
        candidates = tuple(dict.fromkeys(self._candidate(persona, other) for other in told))
        return (dialogue, candidates) if candidates else None

    def _named(self, bare: Dialogue) -> Person | None:
        """The user's own name in the corpus, where an introduction would give another one."""
        if not any(tells_name(part) and self._by_own_name for part in self._parts):
            return None
        found = next(iter(people(bare)), None)
        return found if found is not None and found.user else None

    def _forms(self, bare: Dialogue, number: int, seed: int) -> tuple[tuple[Form, ...], int]:
        """A form for each part, within a kind by the dialogue's id; and which dialogue of these kinds it is."""
        forms, left = [], number
        for at, (kinds, whose) in enumerate(zip(self._kinds, self._turns, strict=True)):
            turn = turn_of(left, len(whose), seed, self.axis, "kind", at)
            kind = kinds[whose[turn]]
            left = left // len(whose) * whose.count(whose[turn]) + turn - whose.index(whose[turn])
            forms.append(kind[number_of(seed, at, bare.id) % len(kind)])
        return tuple(forms), left

    def _can(self, forms: Sequence[Form], attribute: Attribute) -> bool:
        return all(
            part.can(form, own) for part, form, own in zip(self._parts, forms, self._split(attribute), strict=True)
        )

    def _split(self, attribute: Attribute) -> list[Attribute]:
        """An attribute of the axis, part by part."""
        found, at = [], 0
        for part in self._parts:
            found.append(attribute[at : at + len(part.factors)])
            at += len(part.factors)
        return found

    def _persona(
        self,
        forms: Sequence[Form],
        name: str,
        fixed: Attribute,
        seed: int,
        place: Callable[[str], int],
        telling: int,
        taken: Collection[str],
        own: Persona | None,
    ) -> Persona:
        """Somebody of an attribute; what ``own`` says of what they have in common stays as it is."""
        pieces = []
        split = self._split(self._by_name[name])
        for at, (part, form, attribute) in enumerate(zip(self._parts, forms, split, strict=True)):
            kept = {} if own is None else self._common(part, own, at, attribute)

            def deal(fills: Sequence[str], label: str, part: Part = part, kept: Mapping[str, str] = kept) -> str:
                slot = label.split()[0]
                if slot in kept:
                    return kept[slot]
                paired = " " not in label
                key = seed, label, tuple(fills)
                if key not in self._squares:
                    column = (
                        1 if paired else self.attributes.index(name) + 1
                    )  # whose turn it is must not decide the name
                    self._squares[key] = Square(fills, seed=seed, label=label, column=column)
                again = telling if part.tells(slot) else 0
                return self._squares[key].pick(place(label), again, () if paired else taken)

            values = part.values(form, attribute, fixed, deal)
            telling_slots = frozenset(slot for slot in values if part.tells(slot) and slot not in ("full", "person"))
            pieces.append(Piece(form, tuple(values.items()), telling_slots))
        return Persona(name, tuple(pieces))

    def _common(self, part: Part, own: Persona, at: int, attribute: Attribute) -> dict[str, str]:
        """What fills the slots that tell nothing in which the persona and an attribute differ."""
        here = self._split(self._by_name[own.attribute])[at]
        differing = {factor for factor, one, other in zip(part.factors, here, attribute, strict=True) if one != other}
        return {slot: value for slot, value in own.pieces[at].values if differing.isdisjoint(part.tells(slot))}

    @staticmethod
    def _candidate(own: Persona, other: Persona) -> PersonaCandidate:
        return PersonaCandidate(main_word(own), own.attribute, other.attribute, main_word(other), other)

    def introducing(self, dialogue: Dialogue, *, draws: int, seed: int) -> tuple[DialogueRewrite, ...]:
        """Rewrites of the dialogue as it is into so many personas, drawn as for ``draws``; none if nobody speaks."""
        return tuple(
            introduction(told, self.rewrite(told, candidate))
            for told, candidates in self.arrange([dialogue], seed=seed, draws=draws)
            for candidate in candidates
            if isinstance(told, Introduced)
        )

    # what a perturber is asked --------------------------------------------------------------------------------------

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """The personas that an introduced dialogue can be told as, with the first names and words of each; none for a
        dialogue without an introduction: :meth:`arrange` makes it."""
        if not isinstance(dialogue, Introduced):
            return []
        own = dialogue.persona
        forms = [piece.form for piece in own.pieces]
        return sorted(
            self._candidate(
                own, self._persona(forms, name, dialogue.fixed, 0, lambda label: dialogue.number, 0, own.words, own)
            )
            for name in self.targets
            if name != own.attribute and self._can(forms, self._by_name[name])
        )

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """T: the dialogue with the candidate's persona.

        Raises:
            AxisError: the dialogue has no introduction, or the candidate is none of its own.
        """
        if not isinstance(dialogue, Introduced) or not isinstance(candidate, PersonaCandidate):
            raise AxisError(f"axis {self.axis}: dialogue {dialogue.id!r} has no introduction; take those of arrange()")
        return told_as(dialogue, candidate.persona, self.axis, candidate.target)

    def references(self, dialogue: Dialogue) -> list[tuple[str, DialogueRewrite]]:
        """The corpus' own dialogue, and one with a neutral introduction as long as the user's, if there is one."""
        if not isinstance(dialogue, Introduced):
            raise AxisError(f"axis {self.axis}: dialogue {dialogue.id!r} has no introduction; take those of arrange()")
        told = [("original", untold(dialogue, self.axis, BARE))]
        if dialogue.persona.said(""):
            neutral = nearest_neutral(dialogue, neutral_forms(NEUTRAL), dialogue.number)
            told.append((f"{self.axis}:{INTRODUCED}", untold(dialogue, self.axis, INTRODUCED, neutral)))
        return told

    def floor(self, dialogue: Dialogue, candidates: Sequence[Candidate], seed: int) -> DialogueRewrite | None:
        """Somebody else of the same attribute: another name, another age, another faith within the group."""
        if not isinstance(dialogue, Introduced):
            return None
        own = dialogue.persona
        pieces = []
        for part, piece, attribute in zip(
            self._parts, own.pieces, self._split(self._by_name[own.attribute]), strict=True
        ):
            old = dict(piece.values)
            taken = {value.lower() for value in old.values()}

            def deal(fills: Sequence[str], label: str, taken: Collection[str] = taken) -> str:
                return Square(fills, seed=seed, label=f"floor {label}").pick(dialogue.number, 0, taken)

            changed = part.values(piece.form, attribute, dialogue.fixed, deal)
            telling = {slot: value for slot, value in changed.items() if slot in piece.telling}
            new = old | (telling if any(old[slot] != value for slot, value in telling.items()) else changed)
            if "full" in new:
                new["full"] = f"{new['first']} {new['last']}"
            if "person" in new:
                new["person"] = f"{new['adjective']} {new['noun']}".strip()
            pieces.append(Piece(piece.form, tuple(new.items()), piece.telling))
        other = Persona(own.attribute, tuple(pieces))
        if all(new.text == old.text for new, old in zip(pieces, own.pieces, strict=True)):
            return None
        return told_as(dialogue, other, self.axis, "placebo", "original")

    def mentions(self, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
        """Who introduces themselves in a dialogue as the corpus has it: ``user`` and the attribute.

        Raises:
            AxisError: attributes are crossed; count each axis by itself.
        """
        if len(self.factors) > 1:
            raise AxisError(f"axis {self.axis}: words of crossed axes are counted axis by axis")
        yield from self._heard.mentions(dialogue)

    @cached_property
    def _heard(self) -> Heard:
        return self._parts[0].heard()

    # words ----------------------------------------------------------------------------------------------------------

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """The words that a telling rests on: of the dialogue's persona, and of the one that it is told as."""
        return candidate.word, candidate.form

    def words_in(self, dialogue: Dialogue, candidates: Sequence[Candidate]) -> list[frozenset[str]]:
        """All words that tell who the user is, in the dialogue and in each telling of it."""
        own = dialogue.persona.words if isinstance(dialogue, Introduced) else frozenset()
        return [
            own | (one.persona.words if isinstance(one, PersonaCandidate) else frozenset([one.word]))
            for one in candidates
        ]
