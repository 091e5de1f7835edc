"""A dialogue whose user says who they are, and the rewrites that let them say otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.perturb.names.forms import NameForms, Renaming
from tod_bias.perturb.names.people import Person
from tod_bias.perturb.personas.places import Words
from tod_bias.perturb.personas.sheet import PLACES, Form
from tod_bias.perturb.rewrite import DialogueRewrite, V

_NAMES = ("first", "last")
OWN = Form("name", "own", "{full}")
"""Says nothing: the user has a name in the corpus already."""
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class Piece:
    """A form, what fills it, and which of its words say who the user is."""

    form: Form
    values: tuple[tuple[str, str], ...]
    """Slot and filling, names of two words taken apart too."""
    telling: frozenset[str]
    """The slots that tell the attribute."""

    @property
    def text(self) -> str:
        """As it is said."""
        return self.form.filled(dict(self.values))

    @property
    def words(self) -> tuple[str, ...]:
        """The words that tell the attribute, in lower case: names of clusters."""
        return tuple(value.lower() for slot, value in self.values if slot in self.telling)


@dataclass(frozen=True)
class Persona:
    """Who the user is, and how they say so."""

    attribute: str
    """Of the axis; those of several factors joined by ``×``."""
    pieces: tuple[Piece, ...]

    def said(self, utterance: str) -> str:
        """What the user says, with the introduction."""
        before = [piece.text for piece in self.pieces if piece.form.place == "before"]
        after = [piece.text for piece in self.pieces if piece.form.place == "after"]
        return " ".join(part for part in (*before, utterance, *after) if part)

    @property
    def words(self) -> frozenset[str]:
        """The words that tell the attribute."""
        return frozenset(word for piece in self.pieces for word in piece.words)


@dataclass(frozen=True)
class Introduced(Dialogue):
    """A dialogue with an introduction in one of its turns."""

    bare: Dialogue = field(default=Dialogue("", "", ()), metadata={"rewrite": False})
    """Without it."""
    turn: int = field(default=0, metadata={"rewrite": False})
    """Number of the turn."""
    persona: Persona = field(default=Persona("", ()), metadata={"rewrite": False})
    """Who introduces themselves."""
    fixed: tuple[str, ...] = field(default=(), metadata={"rewrite": False})
    """Gender and race of the names, where the axis does not tell them."""
    number: int = field(default=0, metadata={"rewrite": False})
    """Its place in the order in which forms are dealt out."""

    named: Person | None = field(default=None, metadata={"rewrite": False})
    """The corpus' own user, where they have a name."""
    renamed: DialogueRewrite | None = field(default=None, metadata={"rewrite": False})
    """Where the corpus' own user has a name: what tells them under the persona's everywhere."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process introduces the user again: what T remembers stays where it was made."""
        return Introduced.of, (self.bare, self.turn, self.persona, self.fixed, self.number, self.named)

    @cached_property
    def native(self) -> Words:
        """All words of the dialogue without the introduction, in lower case."""
        turns = self.bare.turns
        return Words({text for turn in turns for pairs in (turn.utterances, turn.values) for _, text in pairs})

    @classmethod
    def of(
        cls,
        bare: Dialogue,
        turn: int,
        persona: Persona,
        fixed: tuple[str, ...] = (),
        number: int = 0,
        named: Person | None = None,
    ) -> Introduced:
        """The dialogue with this introduction in this turn; the user who has a name has the persona's."""
        renamed = None if named is None else _renamed(named, persona)
        turns = list((bare if renamed is None else renamed(bare)).turns)
        turns[turn] = _with_user(turns[turn], persona.said(turns[turn].user))
        return cls(bare.id, bare.domain, tuple(turns), bare.system, bare, turn, persona, fixed, number, named, renamed)


def _with_user(turn: Turn, user: str) -> Turn:
    return Turn(user, steps=turn.steps, response=turn.response)


def told_as(
    dialogue: Introduced, persona: Persona, axis: str, target: str, source: str | None = None
) -> DialogueRewrite:
    """T: the same dialogue with another persona.

    The introduction is exchanged as a whole. In all other strings, such as what a system says, the words by which the
    user introduced themselves are exchanged one for one, unless the dialogue holds them anyway; names also in ids and
    e-mail addresses that are made of them.

    Args:
        dialogue: with an introduction.
        persona: who is to introduce themselves, by the same forms.
        axis: of the rewrite.
        target: its target attribute.
        source: its source attribute; by default the dialogue's persona's.
    """
    bare, own = dialogue.bare.turns[dialogue.turn].user, dialogue.persona
    exact = own.said(bare), persona.said(bare)
    if dialogue.renamed is not None:  # the name is everywhere, and an introduction may hold more
        said = dialogue.renamed(bare)
        names = _names(own, persona, frozenset())
        exact = own.said(said), persona.said(said if names is None else names(said))
    there = dialogue.native
    pairs, ages = _pairs(own, persona)
    forward = {old: new for old, new in pairs.items() if not _native(old, there)}
    backward = {new: old for old, new in pairs.items() if old in forward and not _native(new, there)}
    ages = {old: new for old, new in ages.items() if old not in there and new not in there}
    texts = [(mine.text, theirs.text) for mine, theirs in zip(own.pieces, persona.pieces, strict=True)]
    quoted = {old.rstrip("."): new.rstrip(".") for old, new in texts if old != new}
    there_to, back = _names(own, persona, there), _names(persona, own, there)
    parts = {*exact, *quoted, *quoted.values(), *forward, *forward.values(), *ages, *ages.values()}
    parts.update(part for names in (there_to, back) if names is not None for part in names.parts)
    return DialogueRewrite(
        axis=axis, source=own.attribute if source is None else source, target=target, word=main_word(own),
        forward=_exchange(exact, quoted, forward, ages, there_to),
        backward=_exchange(exact[::-1], _turned(quoted), backward, _turned(ages), back),
        parts=parts,
    )  # fmt: skip


def untold(dialogue: Introduced, axis: str, target: str, instead: Form | None = None) -> DialogueRewrite:
    """T: the same dialogue without the introduction, or with one that says nothing of anybody.

    Where a system calls the user by a name that they did not give, the name goes too; a user who has a name in the
    corpus gets it back.
    """
    bare, own = dialogue.bare.turns[dialogue.turn].user, dialogue.persona
    told = bare if instead is None else instead.beside(bare)
    if dialogue.renamed is not None:
        renamed = dialogue.renamed
        said = str(dialogue.turns[dialogue.turn].user)
        return _Untold(
            dialogue, dialogue.bare if instead is None else None,
            axis=axis, source=own.attribute, target=target, word=main_word(own),
            forward=lambda text: told if text == said else renamed.inverse(text),
            backward=lambda text: said if text == told else renamed(text),
        )  # fmt: skip
    exact = own.said(bare), told
    there = dialogue.native
    names = [value for piece in own.pieces for slot, value in piece.values if slot in _NAMES]
    titles = [value for piece in own.pieces for slot, value in piece.values if slot == "title"]
    gone = "|".join(re.escape(name) for name in names if not _native(name, there))
    title = "".join(f"(?:{re.escape(one)} )?" for one in titles[:1])
    called = re.compile(rf",? ?{title}\b(?:{gone})(?: (?:{gone}))?\b") if gone else None

    def forward(text: str) -> str:
        if text == exact[0]:
            return exact[1]
        return called.sub("", text) if called is not None else text

    return DialogueRewrite(
        axis=axis, source=own.attribute, target=target, word=main_word(own),
        forward=forward, backward=lambda text: exact[0] if text == exact[1] else text,
    )  # fmt: skip


class _Untold(DialogueRewrite):
    """T of a dialogue whose user has a name in the corpus, which is known also where two strings became one."""

    def __init__(self, dialogue: Introduced, bare: Dialogue | None, **facts: Any) -> None:
        super().__init__(**facts)
        self._told = dialogue, bare

    def __call__(self, value: V, /) -> V:
        """T."""
        dialogue, bare = self._told
        image: Any = bare if bare is not None and value is dialogue else super().__call__(value)
        return image  # type: ignore[no-any-return]

    def inverse(self, value: V, /) -> V:
        """T⁻¹."""
        dialogue, bare = self._told
        image: Any = dialogue if bare is not None and value is bare else super().inverse(value)
        return image  # type: ignore[no-any-return]


def introduction(dialogue: Introduced, rewrite: DialogueRewrite) -> DialogueRewrite:
    """T of the corpus' own dialogue: what brings the introduction that ``rewrite`` makes of the dialogue's."""
    back = untold(dialogue, rewrite.axis, "neutral")
    _ = back(dialogue)  # it remembers every string of the dialogue

    def forward(text: str) -> str:
        return str(rewrite(back.inverse(text)))

    def backward(text: str) -> str:
        return str(back(rewrite.inverse(text)))

    return DialogueRewrite(rewrite.axis, "neutral", rewrite.target, rewrite.word, forward, backward)


def _renamed(named: Person, persona: Persona) -> DialogueRewrite:
    """A corpus' own user under the persona's name."""
    values = _values(persona)
    last = values["last"] if named.last and "last" in values else ""
    there = NameForms(named.first, named.last, finds_last=bool(last))
    back = NameForms(values["first"], last or named.last, finds_last=bool(last))
    forward, backward = Renaming(there, values["first"], last), Renaming(back, named.first, named.last if last else "")
    return DialogueRewrite("", "", "", "", forward, backward, (*forward.parts, *backward.parts))


def _names(own: Persona, other: Persona, there: Container[str]) -> Renaming | None:
    """One persona's name for another's, in every writing; none where none is told."""
    mine, theirs = _values(own), _values(other)
    if "first" not in mine or mine["first"].lower() in there:
        return None
    last = theirs.get("last", "") if mine.get("last") != theirs.get("last") else ""
    return Renaming(NameForms(mine["first"], mine.get("last", ""), finds_last=bool(last)), theirs["first"], last)


def _values(persona: Persona) -> dict[str, str]:
    return dict(value for piece in persona.pieces for value in piece.values)


def main_word(persona: Persona) -> str:
    """The word that stands for a persona: the first that tells its attribute."""
    return next((word for piece in persona.pieces for word in piece.words), "")


def nearest_neutral(dialogue: Introduced, forms: tuple[Form, ...], place: int) -> Form:
    """The neutral introduction with as many words as the dialogue's own, or nearly; ``place`` decides among equals."""
    said = [piece for piece in dialogue.persona.pieces if piece.form.place in PLACES]
    wanted = sum(len(_WORD.findall(piece.text)) for piece in said)
    where = said[0].form.place if said else PLACES[0]
    ranked = sorted(
        (abs(len(_WORD.findall(form.text)) - wanted), number)
        for number, form in enumerate(forms)
        if form.place == where
    )
    best = [number for distance, number in ranked if distance == ranked[0][0]]
    return forms[best[place % len(best)]]


def _pairs(own: Persona, other: Persona) -> tuple[dict[str, str], dict[str, str]]:
    """Words of one persona to those of another, by slot; and ages."""
    pairs: dict[str, str] = {}
    ages: dict[str, str] = {}
    for mine, theirs in zip(own.pieces, other.pieces, strict=True):
        new = dict(theirs.values)
        for slot, old in mine.values:
            if slot not in new or new[slot] == old:
                continue
            if old.isdigit():
                ages[old] = new[slot]
            elif slot == "title":
                last, others = dict(mine.values)["last"], new["last"]
                pairs[f"{old} {last}"] = f"{new[slot]} {others}"
            elif slot not in ("noun", "adjective", "full"):
                pairs[old] = new[slot]
    return pairs, ages


def _turned(pairs: Mapping[str, str]) -> dict[str, str]:
    return {new: old for old, new in pairs.items()}


def _native(said: str, there: Container[str]) -> bool:
    """Whether a dialogue without the introduction holds all words of something said."""
    return all(word in there for word in _WORD.findall(said.lower()))


_UNITS = (
    "dollars?|euros?|pounds?|cents?|credits?|percent|minutes?|hours?|days?|miles?|km|people|guests|am|pm|a\\.m|p\\.m"
)
"""What a number before it counts is no age."""


def _exchange(
    exact: tuple[str, str],
    quoted: Mapping[str, str],
    words: Mapping[str, str],
    ages: Mapping[str, str],
    names: Renaming | None,
) -> Callable[[str], str]:
    """Exchanges one whole text; in all others the introduction where it is quoted, names, words and ages.

    They are written in the letters in which the old ones stand. A number is an age unless it is part of another number,
    a price, a time, or counts something.
    """

    def told(text: str) -> str:
        if text == exact[0]:
            return exact[1]
        text, kept = _taken_out(text, quoted)
        text = _with(text if names is None else names(text), words, r"(?<!\w)(?:{})(?!\w)")
        text = _with(text, ages, rf"(?<![\w$€£#.,:/-])(?:{{}})(?![\w%:/]|[.,]\d| (?:{_UNITS})\b)")
        for mark, new in kept.items():
            text = text.replace(mark, new)
        return text

    return told


def _taken_out(text: str, pairs: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The text with marks in the place of what is quoted, and what they stand for, exchanged already."""
    kept: dict[str, str] = {}

    def mark(new: str) -> str:
        kept[f"\x00{len(kept)}\x00"] = new
        return list(kept)[-1]

    return _with(text, pairs, r"(?<!\w)(?:{})(?!\w)", mark), kept


def _with(text: str, pairs: Mapping[str, str], shape: str, put: Callable[[str], str] = str) -> str:
    """The text with some phrases exchanged, the longest first, where they stand in a shape."""
    lower = text.lower()
    there = {old.lower(): (old, new) for old, new in pairs.items() if old.lower() in lower}
    if not there:
        return text

    def exchanged(match: re.Match[str]) -> str:
        old, new = there[match[0].lower()]
        if match[0] == old:
            return put(new)
        return put(new.upper() if match[0].isupper() else new.lower() if match[0].islower() else new)

    longest = "|".join(map(re.escape, sorted(there, key=lambda old: (-len(old), old))))
    return re.sub(shape.format(longest), exchanged, text, flags=re.IGNORECASE)
