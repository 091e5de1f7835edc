"""Personas: the users of any dialogues say who they are.

Corpora rarely mention people, but every user is somebody. A persona lets the user of a dialogue say who they are, by
name, title, pronouns, age, a statement or a signature: the same words in every counterfactual but for those that reveal
the group. The dialogue that is rewritten has an introduction too, of each group in turn, so that T only exchanges one
for another; the corpus's own dialogue, without any, is run for comparison, and so is one with a neutral introduction of
the same length. (Names: Eloundou et al. 2024, First-Person Fairness in Chatbots; statements: Smith et al. 2022,
HolisticBias.)
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import ORIGINAL_VARIANT, Dialogue
from tod_bias.errors import AxisError
from tod_bias.perturb.axis import PLACEBO, PLACEBO_SOURCE, Axis, Candidate, Expressions, SelectedDialogue
from tod_bias.perturb.dealing import Dealer, dealt_term, groups_of, number_of, turn_of
from tod_bias.perturb.names.people import people
from tod_bias.perturb.names.person import Person
from tod_bias.perturb.names.resources import GENDERS, RACES
from tod_bias.perturb.personas.introduction import (
    UNSAID,
    FilledTemplate,
    IntroducedDialogue,
    Persona,
    as_persona,
    introducing,
    main_term,
    nearest_neutral,
    without_introduction,
)
from tod_bias.perturb.personas.parts import (
    JOINED,
    Combination,
    IntroductionPart,
    joined,
    load_parts,
    sheets,
    speaking_turn,
    turn_after_question,
    turns,
)
from tod_bias.perturb.personas.sheet import Template, neutral_templates, read_sheet
from tod_bias.perturb.rewrite import DialogueRewrite
from tod_bias.systems.twin import Rewrite

PREFIX = "persona_"
"""Prefix of the names of these axes."""
BARE, INTRODUCED = "neutral", "neutral-introduction"
"""Reference variants: the corpus's own dialogue, and one with a neutral introduction."""
_BY_NAME = frozenset({"name", "pronouns", "title"})


@dataclass(frozen=True)
class PersonaCandidate(Candidate):
    """A persona that a dialogue can be rewritten to."""

    persona: Persona = field(default=Persona("", ()))


class PersonaAxis(Axis):
    """Lets the users of dialogues introduce themselves.

    Args:
        axis: its name, such as ``persona_age``.
        parts: what an introduction says; several are crossed, every group of one with every one of the others.
        kinds: keep only these kinds of templates (``name``, ``statement`` …); all where left out.
        sources: keep only dialogues with these groups in the introduction that is rewritten.
        targets: rewrite dialogues only for these.

    Raises:
        AxisError: no such kind or group.
    """

    introduces = True
    has_placebo = True

    def __init__(
        self,
        axis: str,
        parts: Sequence[IntroductionPart],
        *,
        kinds: Iterable[str] | None = None,
        sources: Iterable[str] | None = None,
        targets: Iterable[str] | None = None,
    ) -> None:
        self.name = axis
        self._parts = tuple(parts)
        self.factors: tuple[str, ...] = tuple(factor for part in self._parts for factor in part.factors)
        self._by_part = {"×".join(sum(every, ())): every for every in product(*(part.groups for part in self._parts))}
        """Group to what it is, part by part."""
        self.groups = tuple(self._by_part)
        known = frozenset(kind for part in self._parts for kind in part.kinds)
        self.kinds = known if kinds is None else frozenset(kinds)
        self._kinds = [[some for kind, some in part.kinds.items() if kind in self.kinds] for part in self._parts]
        if not self.kinds <= known or not all(self._kinds):
            wanted, possible = (", ".join(sorted(some)) for some in (self.kinds, known))
            raise AxisError(f"axis {axis}: no introduction of the kinds {wanted}; it has {possible}")
        self.sources, self.targets = self.chosen(sources), self.chosen(targets)
        self._turns = [turns(part, some) for part, some in zip(self._parts, self._kinds, strict=True)]
        self._exchanges_names = kinds is None or UNSAID.kind in self.kinds

    def group(self, name: str) -> str:
        """The group of a name, in any case."""
        return super().group(name.strip().lower().replace("_", "-"))

    @cached_property
    def signature(self) -> str:
        """Identify everything that determines the rewrites, as ``key:value`` parts; templates and names by their
        content."""
        content = [part.content for part in self._parts]
        choices = self._kinds, self._turns, neutral_templates(), self.sources, self.targets
        return f"personas:{self.name}|hash:{sha256(repr((content, choices)).encode()).hexdigest()[:12]}"

    @cached_property
    def introductions(self) -> re.Pattern[str]:
        """Match every introduction that the axis can make, whatever fills its slots."""
        every = (
            template.pattern(part.fills)
            for part, kinds in zip(self._parts, self._kinds, strict=True)
            for templates in kinds
            for template in templates
        )
        # "Hello, my name is Ms. Razo." has two slots; the form of one would end after "Ms.".
        forms = sorted(dict.fromkeys(every), key=len, reverse=True)
        return re.compile("|".join(rf"(?:(?:^|(?<=\s)){form}(?:\s|$))" for form in forms))

    # --- which dialogue is rewritten for which group

    def select(
        self, dialogues: Sequence[Dialogue], *, seed: int = 0, variants: int | None = None, draws: int | None = None
    ) -> list[SelectedDialogue]:
        """Return every dialogue in which the user speaks, with an introduction, and its candidates.

        Groups, and dimensions that the axis does not exchange (the race of a person whose gender is revealed),
        alternate in a seeded order; names and terms are dealt (:class:`~tod_bias.perturb.dealing.Dealer`). Kinds of
        templates alternate too, in proportion to their terms: a title, one term per group, would otherwise represent
        the group.
        """
        usable = [(place, turn) for place, turn in enumerate(map(speaking_turn, dialogues)) if turn >= 0]
        order = random.Random(number_of(seed, self.name)).sample(range(len(usable)), len(usable))
        dealer = Dealer.of(dialogues, seed, self.name)
        selected: dict[int, SelectedDialogue] = {}
        for number, index in enumerate(order, start=dealer.begin):
            place, turn = usable[index]
            selection = self._selection(dialogues[place], turn, number, dealer, variants, draws)
            dealer.next_dialogue()
            if selection is not None:
                selected[place] = selection
        return [selected[place] for place in sorted(selected)]

    def _selection(
        self, bare: Dialogue, turn: int, number: int, dealer: Dealer, variants: int | None, draws: int | None
    ) -> SelectedDialogue | None:
        """One dialogue with an introduction and its candidates; None where its introduction fits one group alone."""
        templates, left = self._templates(bare, number, dealer.seed)
        chance = dealer.seed, self.name, *(template.kind for template in templates)
        named = self._named(bare)
        if named is not None:
            both = zip(self._parts, templates, strict=True)
            templates = tuple(UNSAID if part.deals_names else template for part, template in both)
        sources, others = self._able(templates)
        if not sources:
            return None
        source = sources[turn_of(left, len(sources), "source", *chance)]
        block = left // len(sources)  # dialogues of the same source before
        fixed = (
            GENDERS[turn_of(block, len(GENDERS), "gender", source, *chance)],
            RACES[turn_of(block, len(RACES), "race", source, *chance)],
        )
        if any(template.kind in _BY_NAME for template in templates):
            turn = turn_after_question(bare, turn)
        taken = _said_in(bare)
        persona = self._persona(templates, source, dealer, fixed, taken=taken)
        dialogue = IntroducedDialogue.of(bare, turn, persona, fixed, number, named)
        others = [group for group in others if group != source]
        if draws is None:
            chosen = groups_of([source, *others], source, block, variants, *chance)
        else:
            drawing = random.Random(number_of(dealer.seed, self.name, bare.id))
            chosen = [(drawing.choice(others), draw) for draw in range(draws)]
        personas = [
            self._persona(templates, group, dealer, fixed, variant, taken | persona.terms, persona)
            for group, variant in chosen
        ]
        candidates = tuple(dict.fromkeys(_candidate(persona, other) for other in personas))
        return SelectedDialogue(dialogue, candidates) if candidates else None

    def _able(self, templates: Sequence[Template]) -> tuple[list[str], list[str]]:
        """The groups that templates can be about: as sources, and as targets."""
        able = [group for group in self.groups if self._can(templates, group)]
        targets = [group for group in able if group in self.targets]
        return [group for group in able if group in self.sources and set(targets) - {group}], targets

    def _named(self, bare: Dialogue) -> Person | None:
        """The user's name in the corpus, where an introduction would give another one."""
        if not (self._exchanges_names and any(part.deals_names for part in self._parts)):
            return None
        person = next(iter(people(bare)), None)
        return person if person is not None and person.user else None

    def _templates(self, bare: Dialogue, number: int, seed: int) -> tuple[tuple[Template, ...], int]:
        """Return a template for each part, within a kind by the dialogue's id, and the number of this dialogue among
        its kinds."""
        templates, left = [], number
        for index, (kinds, whose) in enumerate(zip(self._kinds, self._turns, strict=True)):
            turn = turn_of(left, len(whose), seed, self.name, "kind", index)
            kind = kinds[whose[turn]]
            left = left // len(whose) * whose.count(whose[turn]) + turn - whose.index(whose[turn])
            templates.append(kind[number_of(seed, index, bare.id) % len(kind)])
        return tuple(templates), left

    def _can(self, templates: Sequence[Template], group: str) -> bool:
        return all(
            part.can(template, values)
            for part, template, values in zip(self._parts, templates, self._by_part[group], strict=True)
        )

    def _persona(
        self,
        templates: Sequence[Template],
        group: str,
        dealer: Dealer,
        fixed: Combination,
        variant: int = 0,
        taken: Collection[str] = (),
        source: Persona | None = None,
    ) -> Persona:
        """Somebody of a group; what ``source`` has in common with it stays as it is."""
        filled = []
        for index, (part, template, values) in enumerate(
            zip(self._parts, templates, self._by_part[group], strict=True)
        ):
            shared = {} if source is None else self._shared(part, source, index, values)
            deal = partial(self._dealt, dealer, part, group, variant, taken, shared)
            fills = part.values(template, values, fixed, deal)
            revealing = frozenset(slot for slot in fills if part.reveals(slot) and slot not in JOINED)
            filled.append(FilledTemplate(template, tuple(fills.items()), revealing))
        return Persona(group, tuple(filled))

    def _dealt(
        self,
        dealer: Dealer,
        part: IntroductionPart,
        group: str,
        variant: int,
        taken: Collection[str],
        shared: Mapping[str, str],
        fills: Sequence[str],
        label: str,
    ) -> str:
        """Return the fill of one slot of a template for a group."""
        slot = label.split()[0]
        if slot in shared:
            return shared[slot]
        variant = variant if part.reveals(slot) else 0
        if " " not in label:  # paired: the same of all groups, as whose turn it is must not decide the name
            return dealer.pick(fills, label, variant=variant)
        return dealer.pick(fills, label, group, variant=variant, taken=taken)

    def _shared(self, part: IntroductionPart, source: Persona, index: int, group: Combination) -> dict[str, str]:
        """Return the fills of the slots that reveal none of the dimensions in which a persona and a group differ."""
        both = zip(part.factors, self._by_part[source.group][index], group, strict=True)
        differing = {factor for factor, old, new in both if old != new}
        return {slot: value for slot, value in source.parts[index].values if differing.isdisjoint(part.reveals(slot))}

    def drawn(self, dialogue: Dialogue, draws: int = 3, seed: int = 0) -> tuple[Rewrite, ...]:
        """Return rewrites of a dialogue into several personas; empty if no user speaks.

        Raises:
            AxisError: ``draws`` is not positive.
        """
        if draws < 1:
            raise AxisError(f"draws must be at least 1, got {draws}")
        return tuple(
            introducing(introduced, self.rewrite(introduced, candidate))
            for introduced, candidates in self.select([dialogue], seed=seed, draws=draws)
            for candidate in candidates
            if isinstance(introduced, IntroducedDialogue)
        )

    # --- what one introduced dialogue admits

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """None: :meth:`select` brings the introduction, and with it the personas that may take its place."""
        return []

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """Return T: the dialogue with the candidate's persona.

        Raises:
            AxisError: the dialogue has no introduction, or the candidate is another dialogue's.
        """
        if not isinstance(candidate, PersonaCandidate):
            raise AxisError(f"axis {self.name}: {candidate} is not a persona; take one from candidates(dialogue)")
        return as_persona(self._checked(dialogue), candidate.persona, self.name, candidate.target)

    def _checked(self, dialogue: Dialogue) -> IntroducedDialogue:
        if not isinstance(dialogue, IntroducedDialogue):
            raise AxisError(f"axis {self.name}: dialogue {dialogue.id!r} has no introduction; take those of select()")
        return dialogue

    def references(self, dialogue: Dialogue) -> list[tuple[str, Rewrite]]:
        """The corpus's own dialogue, and one with a neutral introduction as long as the user's, if there is one."""
        introduced = self._checked(dialogue)
        variants: list[tuple[str, Rewrite]] = [(ORIGINAL_VARIANT, without_introduction(introduced, self.name, BARE))]
        if introduced.persona.beside(""):
            neutral = nearest_neutral(introduced, neutral_templates(), introduced.number)
            rewrite = without_introduction(introduced, self.name, INTRODUCED, neutral)
            variants.append((f"{self.name}:{INTRODUCED}", rewrite))
        return variants

    def placebo(self, dialogue: Dialogue, candidates: Sequence[Candidate], seed: int) -> DialogueRewrite | None:
        """Somebody else of the same group: another name, another age, another faith within the group."""
        if not isinstance(dialogue, IntroducedDialogue):
            return None
        source = dialogue.persona
        filled = []
        for part, old, group in zip(self._parts, source.parts, self._by_part[source.group], strict=True):
            before = dict(old.values)
            taken = {value.lower() for value in before.values()}

            changed = part.values(old.template, group, dialogue.fixed, partial(_another, seed, dialogue.number, taken))
            revealing = {slot: value for slot, value in changed.items() if slot in old.revealing}
            is_other = any(before[slot] != value for slot, value in revealing.items())
            new = before | (revealing if is_other else changed)
            new |= {slot: joined(slot, new) for slot in JOINED.keys() & new.keys()}
            filled.append(FilledTemplate(old.template, tuple(new.items()), old.revealing))
        if all(new.text == old.text for new, old in zip(filled, source.parts, strict=True)):
            return None
        return as_persona(dialogue, Persona(source.group, tuple(filled)), self.name, PLACEBO, PLACEBO_SOURCE)

    # --- terms

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """The terms that reveal the group: of the dialogue's persona, and of the one that it is rewritten to."""
        return candidate.term, candidate.form

    def terms(self, dialogue: Dialogue, candidates: Sequence[Candidate]) -> list[Expressions]:
        """The terms that reveal who the user is, in the dialogue and in each counterfactual."""
        before = dialogue.persona.terms if isinstance(dialogue, IntroducedDialogue) else frozenset()
        return [
            Expressions(
                before,
                candidate.persona.terms if isinstance(candidate, PersonaCandidate) else frozenset([candidate.term]),
            )
            for candidate in candidates
        ]


def _said_in(dialogue: Dialogue) -> frozenset[str]:
    """Return all words of utterances, in lower case, split at blanks."""
    return frozenset(" ".join(text for turn in dialogue.turns for _, text in turn.utterances).lower().split())


def _another(seed: int, number: int, taken: Collection[str], fills: Sequence[str], label: str) -> str:
    return dealt_term(fills, number, seed, "placebo", label, taken=taken)


def _candidate(source: Persona, other: Persona) -> PersonaCandidate:
    return PersonaCandidate(main_term(source), source.group, other.group, main_term(other), persona=other)


def persona_axes() -> tuple[str, ...]:
    """The axes that ship with the package: ``persona_gender``, ``persona_age`` …"""
    return tuple(PREFIX + name for name in sheets())


def load_persona(axes: Sequence[str], *, lexicon: str | Path | None = None, **options: Any) -> PersonaAxis:
    """Return one axis of introductions, or several that are crossed.

    Args:
        axes: such as ``persona_gender``.
        lexicon: a user's sheet, for a single axis.
        options: those of :class:`PersonaAxis`.

    Raises:
        AxisError: an unknown axis, kind or group, or an axis given twice.
        LexiconError: the sheet cannot be read; names the file and the line.
    """
    factors = [axis.removeprefix(PREFIX) for axis in axes]
    if lexicon is None:
        if unknown := [axis for axis in axes if axis not in persona_axes()]:
            raise AxisError(f"unknown axis {unknown[0]!r}; introductions are {', '.join(persona_axes())}")
        return PersonaAxis("×".join(axes), load_parts(factors), **options)
    (factor,) = factors
    return PersonaAxis(axes[0], [IntroductionPart((factor,), read_sheet(Path(lexicon)))], **options)
