"""The axes of introductions, by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tod_bias.errors import AxisError
from tod_bias.perturb.personas.parts import PEOPLE, Part, PeoplePart, SheetPart
from tod_bias.perturb.personas.perturber import PersonaPerturber
from tod_bias.perturb.personas.sheet import FOLDER, NEUTRAL, read_sheet

PREFIX = "persona_"
"""What the names of these axes begin with."""
_PEOPLE = "people"


def persona_axes() -> tuple[str, ...]:
    """The axes that ship with the package: ``persona_gender``, ``persona_age`` …"""
    sheets = {path.stem for path in FOLDER.glob("*.tsv")} - {NEUTRAL.stem, _PEOPLE}
    return tuple(sorted(PREFIX + name for name in sheets | set(PEOPLE)))


def load_persona(
    axes: Sequence[str], *, lexicon: str | Path | None = None, kinds: Iterable[str] | None = None, **options: Any
) -> PersonaPerturber:
    """The perturber of one axis, or of several that are crossed.

    A name tells gender and race at once, so these two are told by one introduction; others stand beside it.

    Args:
        axes: such as ``persona_gender``.
        lexicon: a sheet of one's own, for a single axis.
        kinds: keep only these kinds of introductions.
        options: ``sources`` and ``targets`` of :class:`PersonaPerturber`.

    Raises:
        AxisError: an unknown axis, kind or attribute, or an axis given twice.
        LexiconError: the sheet cannot be read; names the file and the line.
    """
    factors = [axis.removeprefix(PREFIX) for axis in axes]
    if len(set(factors)) < len(factors):
        raise AxisError(f"axis {'×'.join(axes)!r}: crosses an axis with itself")
    parts: list[Part] = []
    people = tuple(name for name in factors if name in PEOPLE)
    if lexicon is not None:
        if len(axes) > 1:
            raise AxisError(f"axis {'×'.join(axes)!r}: a lexicon of one's own is for a single axis")
        parts.append(SheetPart(factors[0], read_sheet(Path(lexicon))))
    else:
        for axis, name in zip(axes, factors, strict=True):
            if name in people:
                if name == people[0]:
                    parts.append(PeoplePart(people))
            elif axis in persona_axes():
                parts.append(SheetPart(name, read_sheet(FOLDER / f"{name}.tsv")))
            else:
                raise AxisError(f"unknown axis {axis!r}; introductions are {', '.join(persona_axes())}")
    return PersonaPerturber("×".join(axes), parts, kinds=kinds, **options)
