"""A dialogue whose user says who they are, and the rewrites that let them say otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.perturb.names.forms import NameForms, Renaming
from tod_bias.perturb.names.person import Person
from tod_bias.perturb.personas.sheet import PLACES, Template
from tod_bias.perturb.rewrite import DialogueRewrite, V, hidden_texts, texts_of

_NAMES = ("first", "last")
UNSAID = Template("name", "own", "{full}")
"""Template that adds no text: the corpus already gives the user a name, which is replaced."""
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class FilledTemplate:
    """A template, what fills it, and which of its slots reveal who the user is."""

    template: Template
    values: tuple[tuple[str, str], ...]
    """Slot and filling, names of two words taken apart too."""
    revealing: frozenset[str]
    """The slots that reveal the group."""

    @property
    def text(self) -> str:
        """Introduction as an utterance."""
        return self.template.filled(dict(self.values))

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms that reveal the group, in lower case: names of clusters."""
        return tuple(value.lower() for slot, value in self.values if slot in self.revealing)


@dataclass(frozen=True)
class Persona:
    """A user's persona, with its introduction."""

    group: str
    """Group of the axis; those of several factors joined by ``×``."""
    parts: tuple[FilledTemplate, ...]

    def beside(self, utterance: str) -> str:
        """Return the user's message with the introduction."""
        before = [part.text for part in self.parts if part.template.place == "before"]
        after = [part.text for part in self.parts if part.template.place == "after"]
        return " ".join(text for text in (*before, utterance, *after) if text)

    @property
    def values(self) -> dict[str, str]:
        """Slot to filling."""
        return dict(value for part in self.parts for value in part.values)

    @property
    def terms(self) -> frozenset[str]:
        """The terms that reveal the group."""
        return frozenset(term for part in self.parts for term in part.terms)


@dataclass(frozen=True)
class IntroducedDialogue(Dialogue):
    """A dialogue with an introduction in one of its turns."""

    bare: Dialogue = field(default=Dialogue("", "", ()), metadata={"rewrite": False})
    """Without it."""
    turn: int = field(default=0, metadata={"rewrite": False})
    """Number of the turn."""
    persona: Persona = field(default=Persona("", ()), metadata={"rewrite": False})
    """Person who introduces themselves."""
    fixed: tuple[str, ...] = field(default=(), metadata={"rewrite": False})
    """Gender and race of the names, where the axis does not exchange them."""
    number: int = field(default=0, metadata={"rewrite": False})
    """Its place in the order in which terms are dealt out."""

    named: Person | None = field(default=None, metadata={"rewrite": False})
    """The corpus's user, if they have a name."""
    renamed: DialogueRewrite | None = field(default=None, metadata={"rewrite": False})
    """Rewrite that replaces the name of the corpus's user by the persona's everywhere."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the memory of T, which stays in this process; another process introduces the user again."""
        return IntroducedDialogue.of, (self.bare, self.turn, self.persona, self.fixed, self.number, self.named)

    @cached_property
    def native(self) -> frozenset[str]:
        """Words of the dialogue without the introduction, in lower case."""
        return frozenset(_WORD.findall("\n".join({*texts_of(self.bare), *hidden_texts(self.bare)}).lower()))

    @property
    def utterance(self) -> str:
        """User's message without the introduction."""
        return self.bare.turns[self.turn].user

    @classmethod
    def of(
        cls,
        bare: Dialogue,
        turn: int,
        persona: Persona,
        fixed: tuple[str, ...] = (),
        number: int = 0,
        named: Person | None = None,
    ) -> IntroducedDialogue:
        """The dialogue with this introduction in this turn; a user who has a name gets the persona's."""
        renamed = None if named is None else _user_renamed(named, persona)
        called = bare if renamed is None else renamed(bare)
        turns = list(called.turns)
        before = turns[turn]
        turns[turn] = Turn(persona.beside(before.user), steps=before.steps, response=before.response)
        facts = (bare, turn, persona, fixed, number, named, renamed)
        return cls(bare.id, bare.domain, tuple(turns), bare.system, called.task, *facts)


def as_persona(
    dialogue: IntroducedDialogue, persona: Persona, axis: str, target: str, source: str | None = None
) -> DialogueRewrite:
    """T: the same dialogue with another persona.

    The introduction is exchanged as a whole. In all other strings, such as what a system says, the terms by which the
    user introduced themselves are exchanged one for one, unless the dialogue holds them anyway; names also in ids and
    e-mail addresses that are made of them.

    Args:
        dialogue: with an introduction.
        persona: who is to introduce themselves, by the same templates.
        axis: of the rewrite.
        target: its target group.
        source: its source group; by default the dialogue's persona's.
    """
    before, native = dialogue.persona, dialogue.native
    exact = before.beside(dialogue.utterance), persona.beside(dialogue.utterance)
    if dialogue.renamed is not None:  # the name is everywhere, and an introduction may hold more
        utterance = dialogue.renamed(dialogue.utterance)
        names = _renaming(before, persona, frozenset())
        exact = before.beside(utterance), persona.beside(utterance if names is None else names(utterance))
    pairs, ages = _pairs(before, persona)
    forward = {old: new for old, new in pairs.items() if not _is_native(old, native)}
    backward = {new: old for old, new in pairs.items() if old in forward and not _is_native(new, native)}
    ages = {old: new for old, new in ages.items() if old not in native and new not in native}
    texts = [(old.text, new.text) for old, new in zip(before.parts, persona.parts, strict=True)]
    quoted = {old.rstrip("."): new.rstrip(".") for old, new in texts if old != new}
    forth, back = _renaming(before, persona, native), _renaming(persona, before, native)
    return DialogueRewrite(
        axis=axis,
        source=before.group if source is None else source,
        target=target,
        word=main_term(before),
        forward=_exchange(exact, quoted, forward, ages, forth),
        backward=_exchange(exact[::-1], _turned(quoted), backward, _turned(ages), back),
    )


def without_introduction(
    dialogue: IntroducedDialogue, axis: str, target: str, instead: Template | None = None
) -> DialogueRewrite:
    """Return T: the same dialogue without the introduction, or with a neutral one.

    A name that the user did not give is removed from the system's texts too; a user with a name in the corpus gets it
    back.
    """
    persona = dialogue.persona
    facts = {"axis": axis, "source": persona.group, "target": target, "word": main_term(persona)}
    plain = dialogue.utterance if instead is None else instead.beside(dialogue.utterance)
    said = str(dialogue.turns[dialogue.turn].user)
    if dialogue.renamed is not None:
        renamed = dialogue.renamed
        return _NameRestored(
            dialogue,
            dialogue.bare if instead is None else None,
            forward=lambda text: plain if text == said else renamed.inverse(text),
            backward=lambda text: said if text == plain else renamed(text),
            **facts,
        )
    called = _address(persona, dialogue.native)

    def forward(text: str) -> str:
        if text == said:
            return plain
        return called.sub("", text) if called is not None else text

    return DialogueRewrite(forward=forward, backward=lambda text: said if text == plain else text, **facts)


def _address(persona: Persona, native: Container[str]) -> re.Pattern[str] | None:
    """The persona's name where somebody is called by it, with a comma and the title before; None without a name."""
    values = [value for part in persona.parts for value in part.values]
    names = "|".join(re.escape(value) for slot, value in values if slot in _NAMES and not _is_native(value, native))
    title = next((f"(?:{re.escape(value)} )?" for slot, value in values if slot == "title"), "")
    return re.compile(rf",? ?{title}\b(?:{names})(?: (?:{names}))?\b") if names else None


class _NameRestored(DialogueRewrite):
    """T of a dialogue whose user has a name in the corpus, which is known also where two strings became one."""

    def __init__(self, dialogue: IntroducedDialogue, bare: Dialogue | None, **facts: Any) -> None:
        super().__init__(**facts)
        self._dialogue, self._bare = dialogue, bare

    def __call__(self, value: V, /) -> V:
        """T."""
        image: Any = self._bare if self._bare is not None and value is self._dialogue else super().__call__(value)
        return image  # type: ignore[no-any-return]

    def inverse(self, value: V, /) -> V:
        """T⁻¹."""
        image: Any = self._dialogue if self._bare is not None and value is self._bare else super().inverse(value)
        return image  # type: ignore[no-any-return]


def introducing(dialogue: IntroducedDialogue, rewrite: DialogueRewrite) -> DialogueRewrite:
    """T of the corpus's dialogue: what brings the introduction that ``rewrite`` makes of the dialogue's."""
    back = without_introduction(dialogue, rewrite.axis, "neutral")
    _ = back(dialogue)  # it remembers every string of the dialogue

    def forward(text: str) -> str:
        return str(rewrite(back.inverse(text)))

    def backward(text: str) -> str:
        return str(back(rewrite.inverse(text)))

    return DialogueRewrite(rewrite.axis, "neutral", rewrite.target, rewrite.word, forward, backward)


def _user_renamed(named: Person, persona: Persona) -> DialogueRewrite:
    """The corpus's user under the persona's name."""
    first = persona.values["first"]
    last = persona.values.get("last", "") if named.last else ""
    old = NameForms(named.first, named.last, finds_last=bool(last))
    new = NameForms(first, last or named.last, finds_last=bool(last))
    forward, backward = Renaming(old, first, last), Renaming(new, named.first, named.last if last else "")
    return DialogueRewrite("", "", "", "", forward, backward)


def _renaming(before: Persona, after: Persona, native: Container[str]) -> Renaming | None:
    """One persona's name for another's, in every writing; None where the dialogue holds the name anyway, or none is
    given."""
    old, new = before.values, after.values
    if "first" not in old or old["first"].lower() in native:
        return None
    last = new.get("last", "") if old.get("last") != new.get("last") else ""
    return Renaming(NameForms(old["first"], old.get("last", ""), finds_last=bool(last)), new["first"], last)


def main_term(persona: Persona) -> str:
    """Return the term of a persona: the first that reveals its group."""
    return next((term for part in persona.parts for term in part.terms), "")


def nearest_neutral(dialogue: IntroducedDialogue, templates: tuple[Template, ...], place: int) -> Template:
    """The neutral introduction with as many words as the dialogue's, or nearly; ``place`` decides among equals."""
    said = [part for part in dialogue.persona.parts if part.template.place in PLACES]
    wanted = sum(len(_WORD.findall(part.text)) for part in said)
    where = said[0].template.place if said else PLACES[0]
    ranked = sorted(
        (abs(len(_WORD.findall(template.text)) - wanted), number)
        for number, template in enumerate(templates)
        if template.place == where
    )
    best = [number for distance, number in ranked if distance == ranked[0][0]]
    return templates[best[place % len(best)]]


def _pairs(before: Persona, after: Persona) -> tuple[dict[str, str], dict[str, str]]:
    """Terms of one persona to those of another, by slot; and ages."""
    pairs: dict[str, str] = {}
    ages: dict[str, str] = {}
    for old_part, new_part in zip(before.parts, after.parts, strict=True):
        old_values, new_values = dict(old_part.values), dict(new_part.values)
        for slot, old in old_values.items():
            new = new_values.get(slot, old)
            if new == old:
                continue
            if old.isdigit():
                ages[old] = new
            elif slot == "title":
                pairs[f"{old} {old_values['last']}"] = f"{new} {new_values['last']}"
            elif slot not in ("noun", "adjective", "full"):
                pairs[old] = new
    return pairs, ages


def _turned(pairs: Mapping[str, str]) -> dict[str, str]:
    return {new: old for old, new in pairs.items()}


def _is_native(phrase: str, native: Container[str]) -> bool:
    """True if a dialogue without the introduction contains all words of a phrase."""
    return all(word in native for word in _WORD.findall(phrase.lower()))


_UNITS = (
    "dollars?|euros?|pounds?|cents?|credits?|percent|minutes?|hours?|days?|miles?|km|people|guests|am|pm|a\\.m|p\\.m"
)
"""Words after a number that is not an age."""


def _exchange(
    exact: tuple[str, str],
    quoted: Mapping[str, str],
    words: Mapping[str, str],
    ages: Mapping[str, str],
    names: Renaming | None,
) -> Callable[[str], str]:
    """Return the exchange of one whole text; in other texts, quotes of the introduction, names, words and ages are
    exchanged.

    New words keep the capitals of the old ones. A number is an age unless it is part of another number, a price, a
    time, or counts something.
    """

    def exchange(text: str) -> str:
        if text == exact[0]:
            return exact[1]
        text, marks = _taken_out(text, quoted)
        text = _with(text if names is None else names(text), words, r"(?<!\w)(?:{})(?!\w)")
        text = _with(text, ages, rf"(?<![\w$€£#.,:/-])(?:{{}})(?![\w%:/]|[.,]\d| (?:{_UNITS})\b)")
        for mark, new in marks.items():
            text = text.replace(mark, new)
        return text

    return exchange


def _taken_out(text: str, pairs: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Replace quotes of the introduction by marks; return the text and the exchanged quote of each mark."""
    marks: dict[str, str] = {}

    def mark(new: str) -> str:
        marks[f"\x00{len(marks)}\x00"] = new
        return list(marks)[-1]

    return _with(text, pairs, r"(?<!\w)(?:{})(?!\w)", mark), marks


def _with(text: str, pairs: Mapping[str, str], shape: str, put: Callable[[str], str] = str) -> str:
    """Exchange phrases in a text, the longest first, at places of a given shape."""
    lower = text.lower()
    held = {old.lower(): (old, new) for old, new in pairs.items() if old.lower() in lower}
    if not held:
        return text

    def exchanged(match: re.Match[str]) -> str:
        old, new = held[match[0].lower()]
        if match[0] == old:
            return put(new)
        return put(new.upper() if match[0].isupper() else new.lower() if match[0].islower() else new)

    longest = "|".join(map(re.escape, sorted(held, key=lambda old: (-len(old), old))))
    return re.sub(shape.format(longest), exchanged, text, flags=re.IGNORECASE)
