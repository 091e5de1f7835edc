"""Who introduces themselves in a corpus as it is, in the words of a sheet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.names.people import people
from tod_bias.perturb.personas.sheet import Form, Sheet

_ANY = r"[^\W\d_][\w'’-]*"
_SLOT = re.compile(r"\\\{(a\\ )?([\w-]+)\\\}")


class Heard:
    """Finds introductions of one factor in what users say.

    Args:
        factor: such as ``gender`` or ``age``.
        sheet: its forms and fills.
        forms: those that tell the factor.
        telling: the slots whose fillings tell it.
    """

    def __init__(self, factor: str, sheet: Sheet, forms: Sequence[Form], telling: Mapping[str, str]) -> None:
        self._factor = factor
        self._of: dict[tuple[str, str], str] = {}
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        for form in forms:
            slot = next((one for one in form.slots if one in telling), None)
            fills = sheet.fills.get(telling[slot], {}) if slot is not None else {}
            if slot is None or not fills:
                continue  # by a name: people() finds it
            self._of |= {(slot, fill.lower()): name for name, some in fills.items() for fill in some}
            self._patterns.append((self._pattern(form, slot, [fill for some in fills.values() for fill in some]), slot))

    @staticmethod
    def _pattern(form: Form, telling: str, fills: Sequence[str]) -> re.Pattern[str]:
        """The form with any of the fills in the slot that tells, and any word in the others; without its full stop."""

        def slot(match: re.Match[str]) -> str:
            longest = "|".join(map(re.escape, sorted(fills, key=lambda fill: -len(fill))))
            article = "(?:an? )?" if match[1] else ""
            return f"{article}(?P<told>{longest})" if match[2] == telling else _ANY

        text = _SLOT.sub(slot, re.escape(form.text.rstrip(".")))
        return re.compile(rf"(?<!\w){text}(?!\w)", re.IGNORECASE)

    def mentions(self, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
        """``user`` and the attribute, once for each introduction; by name once where the user is named."""
        for turn in dialogue.turns:
            for pattern, slot in self._patterns:
                for match in pattern.finditer(turn.user):
                    yield "user", self._of[slot, match["told"].lower()]
        user = next((person for person in people(dialogue) if person.user), None) if self._factor in _NAMED else None
        told = "" if user is None else (user.gender if self._factor == "gender" else user.race)
        if told:
            yield "user", told


_NAMED = ("gender", "race")
