"""Axes over people's names: who is renamed, and the rewrite T."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.axis import PLACEBO, PLACEBO_SOURCE, Axis, Candidate, SelectedDialogue
from tod_bias.perturb.dealing import Dealer, groups_of, number_of
from tod_bias.perturb.names.forms import WORD, NameForms, Renaming
from tod_bias.perturb.names.people import people
from tod_bias.perturb.names.person import Person
from tod_bias.perturb.names.resources import FIRST, GENDERS, LAST, RACES, WORDS, dealt, dealt_last
from tod_bias.perturb.names.slots import NameSlots, name_slots, things_called
from tod_bias.perturb.names.text_people import in_text
from tod_bias.perturb.rewrite import DialogueRewrite, Remembered, hidden_texts, texts_of

FACTORS = {"gender": GENDERS, "race": RACES}
"""Dimensions that a name expresses, with their groups."""
NAME_AXES = {"names_gender": ("gender",), "names_race": ("race",)}
"""Axes of names, with the dimension that is exchanged; the other dimension of the name is kept."""
_WORD = re.compile(WORD)
_REMEMBERED = 16384
"""Dialogues whose people are remembered, as every counterfactual asks for the same ones."""


@dataclass(frozen=True)
class _Known:
    """Facts about one dialogue."""

    dialogue: Dialogue
    people: tuple[Person, ...]

    @cached_property
    def words(self) -> frozenset[str]:
        """Words in lower case, which are not dealt as names."""
        return frozenset(_WORD.findall("\n".join({*texts_of(self.dialogue), *hidden_texts(self.dialogue)}).lower()))


class NamesAxis(Axis):
    """Renames the user of a dialogue.

    K holds the people of the dialogue (:func:`~tod_bias.perturb.names.people.people`) whose group is known, each
    with every other group; a candidate's term is the name in lower case. The new name keeps what the axis does not
    exchange: on ``gender`` the race of the old one, on ``race`` the gender. Where that is unknown, the dialogue's id
    draws it, the same for all counterfactuals. Last names change where race does and the dialogue holds one.

    Where several people are named, the user counts (who is named most, who is named first), and the crossed design
    renames that person; the others keep their names.

    Args:
        axis: the axis's name.
        factors: ``gender``, ``race``, or both; then groups are crossed, ``woman×black``.
        protected: phrases that are no mention, such as a shop's name.
        sources: keep only candidates with these source groups.
        targets: keep only candidates with these target groups.
        slots: a file of slots that hold names, beside those of the package (``data/slots.txt`` says how it is written).

    Raises:
        AxisError: an unknown factor or group.
        LexiconError: a file cannot be read; names the file and the line.
    """

    has_placebo = True

    def __init__(
        self,
        axis: str = "names_gender",
        factors: Sequence[str] = ("gender",),
        *,
        protected: Iterable[str] = (),
        sources: Iterable[str] | None = None,
        targets: Iterable[str] | None = None,
        slots: str | Path | None = None,
    ) -> None:
        if not factors or any(factor not in FACTORS for factor in factors) or len(set(factors)) < len(factors):
            raise AxisError(f"axis {axis!r}: names tell {', '.join(FACTORS)}; got the factors {', '.join(factors)}")
        self.name = axis
        self.factors = tuple(factors)
        self.groups = tuple("×".join(cell) for cell in product(*(FACTORS[factor] for factor in factors)))
        self.sources, self.targets = self.chosen(sources), self.chosen(targets)
        self._protected = tuple(protected)
        self._slots = name_slots(slots)
        self._known = Remembered(self._read, _REMEMBERED)

    @property
    def slots(self) -> NameSlots:
        """Slots that hold names."""
        return self._slots

    @cached_property
    def signature(self) -> str:
        """Identify everything that determines the rewrites, as ``key:value`` parts; the tables of names by their
        content."""
        content = hashlib.sha256(b"".join(path.read_bytes() for path in (FIRST, LAST, WORDS)))
        content.update(repr((self.factors, self._protected, self.sources, self.targets)).encode("utf-8"))
        return f"names:{self.name}|hash:{content.hexdigest()[:12]}|slots:{self._slots.signature}"

    # --- who is there

    def group_of(self, person: Person) -> str:
        """Return the group of a person; empty if the name does not determine it."""
        groups = [person.gender if factor == "gender" else person.race for factor in self.factors]
        return "×".join(groups) if all(groups) else ""

    def _read(self, dialogue: Dialogue) -> _Known:
        return _Known(dialogue, people(dialogue, self._slots))

    def people(self, dialogue: Dialogue) -> tuple[Person, ...]:
        """Return the people of a dialogue (:func:`~tod_bias.perturb.names.people.people`)."""
        return self._known(dialogue).people

    def rewritable(self, dialogue: Dialogue) -> tuple[Person, ...]:
        """The people who can be renamed, the one who is renamed first; none where the user's name is of no known
        group."""
        named = self.people(dialogue)
        if not named or self.group_of(named[0]) not in self.sources:
            return ()
        return tuple(person for person in named if self.group_of(person) in self.sources)

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """K: one for every such person and other group, sorted."""
        return sorted({candidate for person in self.rewritable(dialogue) for candidate in self._targets_of(person)})

    def _targets_of(self, person: Person) -> Iterator[Candidate]:
        source = self.group_of(person)
        for target in self.targets:
            if target != source:
                yield Candidate(self._term(person), source, target)

    def _term(self, person: Person) -> str:
        return person.name if "race" in self.factors else person.first.lower()

    def counts_of(self, dialogue: Dialogue) -> Counter[Candidate]:
        """Return how often the name of each candidate occurs; the user's name counts as the most frequent."""
        counts: Counter[Candidate] = Counter()
        rewritable = self.rewritable(dialogue)
        if not rewritable:
            return counts
        said = [self._times(dialogue, person) for person in rewritable]
        said[0] = max(said[0], sum(said[1:]) + 1)
        for person, times in zip(rewritable, said, strict=True):
            for candidate in self._targets_of(person):
                counts[candidate] = max(counts[candidate], times)
        return counts

    def _times(self, dialogue: Dialogue, person: Person) -> int:
        forms = self.forms(dialogue, person)
        return sum(
            part == "first"
            for turn in dialogue.turns
            for _, text in turn.utterances
            for _, _, part in forms.spans(text)
        )

    def mentions(self, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
        """Yield the names in utterances, in order: the speaker (``user``, ``system``) and the group of the name."""
        named = [
            (self.group_of(person), self.forms(dialogue, person))
            for person in self.people(dialogue)
            if self.group_of(person) in self.sources
        ]
        for turn in dialogue.turns if named else ():
            for speaker, text in turn.utterances:
                places = (
                    (start, name) for name, forms in named for start, _, part in forms.spans(text) if part == "first"
                )
                yield from ((speaker, name) for _, name in sorted(places))

    # --- clusters

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """The clusters of a rewrite: the first name that is there, and the new one."""
        form = candidate.form or self._form_of(candidate)
        return candidate.term.split()[0], form.split()[0].lower()

    # --- names

    def _cell(self, group: str, person: Person, drawn: object) -> tuple[str, str]:
        """Gender and race of the new name: those of the group, else the person's own, else drawn."""
        exchanged = dict(zip(self.factors, group.split("×"), strict=True))
        gender = exchanged.get("gender") or person.gender or GENDERS[number_of("gender", drawn) % len(GENDERS)]
        race = exchanged.get("race") or person.race or RACES[number_of("race", drawn) % len(RACES)]
        return gender, race

    def _with_last(self, first: str, cell: tuple[str, str], person: Person) -> str:
        """The new name in full: with a last name of the race where race is exchanged and the dialogue holds one.

        A first name always goes with the same last name, so that it stays one cluster.
        """
        if "race" not in self.factors or not person.last:
            return first
        lasts = dealt_last(cell[1])
        place = dealt(*cell).index(first) + (len(lasts) // 2 if cell[0] == "man" else 0)
        last = lasts[place % len(lasts)]
        return f"{first} {last if last != first else lasts[(place + 1) % len(lasts)]}"

    def _form_of(self, candidate: Candidate, taken: Collection[str] = ()) -> str:
        """Return the name of a candidate without a form: always the same one, but none of those taken."""
        first, *rest = candidate.term.split()
        person = Person(first, rest[-1] if rest else "")
        cell = self._cell(candidate.target, person, candidate.term)
        names = dealt(*cell)
        start = number_of(self.name, candidate.term, candidate.source, candidate.target)
        ordered = [names[(start + step) % len(names)] for step in range(len(names))]
        free = [name for name in ordered if name.lower() not in taken and name.lower() != first]
        return self._with_last((free or ordered)[0], cell, person)

    def select(
        self, dialogues: Sequence[Dialogue], *, seed: int = 0, variants: int | None = None, draws: int | None = None
    ) -> list[SelectedDialogue]:
        """The dialogues whose user's name is known, each with its candidates, in the corpus's order.

        Every name of a cell meets as many dialogues as any other (:mod:`tod_bias.perturb.dealing`).
        """
        dealer = Dealer(seed, self.name)
        selected: list[SelectedDialogue] = []
        for dialogue in dialogues:
            person = next(iter(self.rewritable(dialogue)), None)
            if person is None:
                continue
            source = self.group_of(person)
            others = [target for target in self.targets if target != source]
            if not others:
                continue
            drawn = (seed, self.name, dialogue.id)
            if draws is None:
                chosen = groups_of(self.targets, source, len(selected), variants)
            else:
                names = [others[number_of(*drawn, draw) % len(others)] for draw in range(draws)]
                chosen = [(name, names[:place].count(name)) for place, name in enumerate(names)]
            taken = self._known(dialogue).words
            candidates = []
            for target, variant in chosen:
                cell = self._cell(target, person, drawn)
                first = dealer.pick(dealt(*cell), *cell, variant=variant, taken=taken)
                form = self._with_last(first, cell, person)
                candidates.append(Candidate(self._term(person), source, target, form))
            dealer.next_dialogue()
            selected.append(SelectedDialogue(dialogue, tuple(candidates)))
        return selected

    def placebo(self, dialogue: Dialogue, candidates: Sequence[Candidate], seed: int) -> DialogueRewrite | None:
        """Exchange the name for another one of the same gender and race; None if no person can be renamed."""
        term = candidates[0].term if candidates else None
        person = next((named for named in self.rewritable(dialogue) if term in (None, self._term(named))), None)
        if person is None:
            return None
        source, drawn = self.group_of(person), (seed, self.name, dialogue.id)
        cell = self._cell(source, person, drawn)
        taken = self._known(dialogue).words
        free = [name for name in dealt(*cell) if name.lower() not in taken]
        if not free:
            return None
        form = self._with_last(free[number_of("floor", *drawn) % len(free)], cell, person)
        return self._renamed(dialogue, person, form, PLACEBO_SOURCE, PLACEBO)

    # --- T

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """Return the rewrite T of this dialogue for ``candidate``, with its ``form`` as the new name.

        Raises:
            AxisError: ``candidate`` is not one of this dialogue's, or its form is not a name.
        """
        key = (candidate.term, candidate.source, candidate.target)
        for person in self.rewritable(dialogue):
            if any((known.term, known.source, known.target) == key for known in self._targets_of(person)):
                form = candidate.form or self._form_of(candidate, self._known(dialogue).words)
                return self._renamed(dialogue, person, form, candidate.source, candidate.target)
        raise AxisError(
            f"dialogue {dialogue.id!r} has no candidate {candidate.term!r} ({candidate.source} > {candidate.target}) "
            f"on axis {self.name!r}; take one from candidates(dialogue)"
        )

    def _renamed(self, dialogue: Dialogue, person: Person, form: str, source: str, target: str) -> DialogueRewrite:
        first, *rest = form.split() or [""]
        if not first or len(rest) > 1:
            raise AxisError(
                f"axis {self.name!r}: {form!r} is not a name; expected a first name, or first and last name"
            )
        last = rest[0] if rest and person.last else ""
        forward = Renaming(self.forms(dialogue, person, finds_last=bool(last)), first, last)
        held = self._known(dialogue).words
        backward: Callable[[str], str] = _unchanged
        if first.lower() not in held:  # else nobody can tell which of the two a new string means
            new_last = last if last.lower() not in held else ""
            forms = replace(forward.forms, first=first, last=new_last or person.last, finds_last=bool(new_last))
            backward = Renaming(forms, person.first, person.last if new_last else "")
        return DialogueRewrite(self.name, source, target, self._term(person), forward, backward)

    def rewrite_texts(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Rewrite each text alone: every introduced or addressed person of ``source`` gets a name of ``target``.

        The same name always becomes the same one; two people get two.

        Raises:
            AxisError: an unknown group, or source equal to target.
        """
        pair = self.pair(source, target)
        return [self._rewrite_text(text, *pair) for text in texts]

    def _rewrite_text(self, text: str, source: str, target: str) -> str:
        taken = {word.lower() for word in _WORD.findall(text)}
        for person in dict.fromkeys(Person(named.first, named.last) for named in in_text(text, expects_name=True)):
            if self.group_of(person) == source:
                form = self._form_of(Candidate(self._term(person), source, target), taken)
                first, _, last = form.partition(" ")
                forms = NameForms(person.first, person.last, protected=self._protected, finds_last=bool(last))
                text = Renaming(forms, first, last)(text)
                taken.add(first.lower())
        return text

    def forms(self, dialogue: Dialogue, person: Person, *, finds_last: bool = False) -> NameForms:
        """Find a person's name in the strings of a dialogue."""
        relatives = frozenset(relative.last.lower() for relative in self.people(dialogue) if relative.last)
        things = things_called(dialogue, (person.first, person.last), self._slots)
        values = frozenset[str]()
        if finds_last and person.last:
            kinds = ((self._slots.kind(slot), value) for turn in dialogue.turns for slot, value in turn.values)
            values = frozenset(value for kind, value in kinds if kind == "last")
        return NameForms(
            person.first, person.last, relatives, (*self._protected, *things), finds_last=finds_last, last_values=values
        )


def _unchanged(text: str) -> str:
    return text
