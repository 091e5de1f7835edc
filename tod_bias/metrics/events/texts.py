"""Events of texts: a phrase that is said, and a number that is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self
from urllib.parse import unquote

from tod_bias.metrics.events.event import NOTHING, Event, Reading
from tod_bias.metrics.events.facts import Facts, escaped, unescaped


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
        """End of a label: empty for the response, else the component."""
        return f" in {unquote(self.place[0])}" if self.place[0] else ""

    @property
    def specificity(self) -> int:
        """The longest phrase is named."""
        return len(self.place[1])

    def stage_in(self, facts: Facts) -> str:
        """Return the component that puts the text out."""
        return facts.stage_of.get(self.place[0], "")

    def excerpt(self, facts: Facts) -> str:
        """Show another text than the response."""
        return facts.texts.get(self.place[0], "") if self.place[0] else ""


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
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield every phrase of every text."""
        for root, phrases in facts.phrases.items():
            for phrase in phrases:
                yield (root, phrase), 1.0

    def reading(self, facts: Facts) -> Reading:
        """Return 1 if the text has the phrase, and 1 if there is such a text."""
        phrases = facts.phrases.get(self.place[0])
        return NOTHING if phrases is None else (float(self.place[1] in phrases), 1.0)


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
    def shown(cls, facts: Facts) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield every phrase with one number, and the mean of the number."""
        for root, phrases in facts.phrases.items():
            for phrase, numbers in phrases.items():
                if phrase.count("#") == 1 and len(phrase) > 1 and numbers:
                    yield (root, phrase), sum(numbers) / len(numbers)

    def reading(self, facts: Facts) -> Reading:
        """Return the mean of the number, and 1 if the text has the phrase."""
        numbers = facts.phrases.get(self.place[0], {}).get(self.place[1])
        return (sum(numbers) / len(numbers), 1.0) if numbers else NOTHING
