"""Events of texts: a phrase that is said, and a number that is told."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Self
from urllib.parse import unquote

from tod_bias.metrics.events.event import NOTHING, Event, Reading
from tod_bias.metrics.events.facts import Facts, SaidText, Sentence, escaped, phrases_in, unescaped
from tod_bias.metrics.events.fields import words_for


class TextEvent(Event):
    """Event of a text; its place is the root of the text (empty: the response) and a phrase."""

    level = 1

    def __init__(self, root: str, phrase: str) -> None:
        super().__init__(root, phrase)

    @classmethod
    def name_of(cls, *place: str) -> str:
        """Return ``says:PHRASE``, or ``says:STAGE/PHRASE`` of another text than the response."""
        root, phrase = place
        return f"{cls.kind}:{escaped(root)}/{escaped(phrase)}" if root else f"{cls.kind}:{escaped(phrase)}"

    @classmethod
    def parsed(cls, place: str) -> Self | None:
        """Return the event of a text and a phrase; no phrase has a slash."""
        root, _, phrase = place.rpartition("/")
        return cls(unescaped(root), unescaped(phrase)) if phrase else None

    @property
    def where(self) -> str:
        """End of a label: empty for the response, else the component or field."""
        return f" in {words_for(self.place[0])}" if self.place[0] else ""

    @property
    def specificity(self) -> int:
        """The longest phrase is named."""
        return len(self.place[1])

    @classmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield every phrase of every text with what it adds."""
        for root in facts.texts:
            said = facts.said(root)
            assert said is not None
            for phrase in dict.fromkeys(phrase for sentence in said.sentences for phrase in cls.phrases(sentence)):
                yield (root, phrase), cls.of_text(said, phrase)[0]

    def reading(self, facts: Facts) -> Reading:
        """Return what the text adds, and 1 if it could show the event."""
        said = facts.said(self.place[0])
        return NOTHING if said is None else self.of_text(said, self.place[1])

    @classmethod
    def differing(cls, variants: Sequence[Facts]) -> Iterator[tuple[tuple[str, ...], list[Reading]]]:
        """Yield the phrases that differ; only sentences that not all variants have are taken apart."""
        for root in dict.fromkeys(root for facts in variants for root in facts.texts):
            said = [facts.said(root) for facts in variants]
            for phrase in cls._apart(list(dict.fromkeys(said))):
                readings = [NOTHING if some is None else cls.of_text(some, phrase) for some in said]
                if cls.is_different(readings):
                    yield (root, phrase), readings

    @classmethod
    def _apart(cls, said: Sequence[SaidText | None]) -> list[str]:
        """Return the phrases of the sentences that not all of some different texts have; None has none."""
        if len(said) < 2:
            return []
        sentences_of = [set() if some is None else cls.sentences(some) for some in said]
        common = set.intersection(*sentences_of)
        apart = (sentence for sentences in sentences_of for sentence, _ in sentences - common)
        return list(dict.fromkeys(phrase for sentence in apart for phrase in cls.phrases(sentence)))

    @classmethod
    @abstractmethod
    def sentences(cls, said: SaidText) -> set[tuple[Sentence, tuple[float, ...]]]:
        """Return the sentences of a text with the numbers that count."""

    @classmethod
    @abstractmethod
    def phrases(cls, sentence: Sentence) -> Iterator[str]:
        """Yield the phrases of a sentence that may be events."""

    @classmethod
    @abstractmethod
    def of_text(cls, said: SaidText, phrase: str) -> Reading:
        """Return what a text adds to the event of a phrase, and 1 if the text could show it."""

    def excerpt(self, facts: Facts) -> str:
        """Show another text than the response."""
        return (facts.text(self.place[0]) or "") if self.place[0] else ""


class Says(TextEvent):
    """A text contains a phrase."""

    kind = "says"

    @property
    def label(self) -> str:  # type: ignore[override]
        """The phrase in quotes."""
        return f"says “{self.place[1]}”{self.where}"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the share."""
        return f"turns in 100 that say “{self.place[1]}”{self.where}"

    @classmethod
    def sentences(cls, said: SaidText) -> set[tuple[Sentence, tuple[float, ...]]]:
        """Return the sentences, whatever their numbers."""
        return {(sentence, ()) for sentence in said.sentences}

    @classmethod
    def phrases(cls, sentence: Sentence) -> Iterator[str]:
        """Yield all phrases."""
        return phrases_in(sentence)

    @classmethod
    def of_text(cls, said: SaidText, phrase: str) -> Reading:
        """Return 1 if the text has the phrase, and 1."""
        return float(said.has(phrase)), 1.0


class Tells(TextEvent):
    """Mean of a number that a text tells, with the words around it: "in # days"."""

    kind = "tells"
    order = 0
    level = 1
    range = None
    needs_all = True

    @property
    def label(self) -> str:  # type: ignore[override]
        """The words with a sign for the number."""
        return f"number in “{self.place[1]}”{self.where}"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the mean."""
        return f"{self.label} per turn"

    @property
    def specificity(self) -> int:
        """Three or four words around the number say enough."""
        return -abs(len(self.place[1].split()) - 3)

    @classmethod
    def sentences(cls, said: SaidText) -> set[tuple[Sentence, tuple[float, ...]]]:
        """Return the sentences that have a number, with their numbers."""
        pairs = zip(said.sentences, said.numbers, strict=True)
        return {(sentence, numbers) for sentence, numbers in pairs if numbers}

    @classmethod
    def phrases(cls, sentence: Sentence) -> Iterator[str]:
        """Yield the phrases with one number and words around it."""
        return (phrase for phrase in phrases_in(sentence) if phrase.count("#") == 1 and len(phrase) > 1)

    @classmethod
    def of_text(cls, said: SaidText, phrase: str) -> Reading:
        """Return the mean of the number, and 1 if the text has the phrase."""
        numbers = said.numbers_in(phrase) if said.has(phrase) else []
        return (sum(numbers) / len(numbers), 1.0) if numbers else NOTHING


class Blank(Event):
    """A component puts out an empty text, where another variant of the dialogue has one.

    Neither side is better: an empty text of a component may be a lost value, or a check that found nothing.
    """

    kind, order = "blank", 0

    @property
    def label(self) -> str:  # type: ignore[override]
        """The component, and that it puts out nothing."""
        return f"{unquote(self.place[0])} puts out nothing"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Unit of the share."""
        return f"turns in 100 in which {self.label}"

    @classmethod
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the components with a text; the response is empty if the system is silent."""
        for root, text in facts.texts.items():
            if root:
                yield (root,), float(not text.strip())

    def reading(self, facts: Facts) -> Reading:
        """Return 1 for an empty text, and 1 if there is a text that is not empty."""
        text = facts.texts.get(self.place[0])
        return float(text is not None and not text.strip()), float(bool(text and text.strip()))

    def excerpt(self, facts: Facts) -> str:
        """Return the text."""
        text = facts.texts.get(self.place[0], "").strip()
        return f"{unquote(self.place[0])} {text}" if text else f"{unquote(self.place[0])} nothing"
