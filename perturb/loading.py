"""Axes by name: :func:`load_axis` makes one, :func:`perturb_text` rewrites plain text along one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict, Unpack

from tod_bias.errors import AxisError, meant
from tod_bias.imports import is_import, made
from tod_bias.perturb.axis import PLACEBO, Axis
from tod_bias.perturb.dialect.axis import DialectAxis
from tod_bias.perturb.dialect.rules import DIALECT, dialects, load_dialect
from tod_bias.perturb.lexicon import axes as lexicon_axes
from tod_bias.perturb.lexicon import load_lexicon
from tod_bias.perturb.lexicon_axis import LexiconAxis
from tod_bias.perturb.names.axis import NAME_AXES, NamesAxis
from tod_bias.perturb.personas.axis import PREFIX, load_persona, persona_axes
from tod_bias.perturb.product import CROSS, ProductAxis

_MEANS = {"names_gender": "gender", "names_race": "race", "race_people": "race"}
"""What axes are about whose names do not say it."""


def axes() -> tuple[str, ...]:
    """The axes that ship with the package: those of lexicons, over names, of introductions, and dialects."""
    return tuple(sorted((*lexicon_axes(), *NAME_AXES, *dialects(), *persona_axes())))


class AxisSettings(TypedDict, total=False):
    """How an axis is made; all may be left out."""

    lexicon: str | Path | None
    """A lexicon file that takes the place of the shipped one; of ``persona_…`` a sheet
    (:mod:`tod_bias.perturb.personas.sheet`), of ``dialect:…`` a file of rules."""
    scope: str | None
    """``attribute`` or ``word``; the lexicon's own default if not given."""
    protected: Iterable[str]
    """Phrases that are no mentions."""
    sources: Iterable[str] | None
    """Keep only candidates with these source groups."""
    targets: Iterable[str] | None
    """Keep only candidates with these target groups."""
    model: str | Path | None
    """A perturber's checkpoint (:mod:`tod_bias.perturb.neural`). ``placebo`` never uses it, as no perturber is trained
    on what has no demographic meaning, and dialects never do, as they have rules."""
    device: str | None
    """Where the model runs; chosen where left out."""
    name_slots: str | Path | None
    """A file of slots that hold people's names, for ``names_gender`` and ``names_race``, which take neither ``lexicon``
    nor ``scope`` (:mod:`tod_bias.perturb.names`); other axes ignore it."""
    introductions: Iterable[str] | None
    """Kinds of introductions (``name``, ``title``, ``statement`` …) that ``persona_…`` use; other axes ignore it."""


def load_axis(axis: str, **settings: Unpack[AxisSettings]) -> Axis:
    """The axis of a name.

    Args:
        axis: ``gender``, ``age``, ``race``, ``placebo``, another shipped axis, any name with ``lexicon``,
            ``dialect:aae`` or another dialect, or ``module:axis``: an :class:`Axis` of your own, or what makes one
            without arguments. It has its own terms, so it takes none of the settings but the model's, which it ignores.
            ``a×b`` crosses two.
        settings: those of :class:`AxisSettings`.

    Raises:
        AxisError: an unknown axis, group or scope, or a setting that the axis does not take.
        LexiconError: the lexicon cannot be read; names the file and the line.
        ModelError: the checkpoint cannot be loaded or is no perturber.
    """
    lexicon, scope, model = settings.get("lexicon"), settings.get("scope"), settings.get("model")
    groups = _groups(settings)
    terms = {"protected": tuple(settings.get("protected", ()))} | groups
    if CROSS in axis:
        if lexicon is not None or scope is not None:
            raise AxisError(f"axis {axis!r}: crossed axes take no lexicon and no scope; leave it out")
        return _crossed(axis, settings)
    if _is_dialect(axis, lexicon):
        if scope is not None:
            raise AxisError(f"axis {axis}: a dialect is spoken as a whole; leave out the scope {scope!r}")
        return DialectAxis(load_dialect(axis, lexicon), **terms)
    if axis.startswith(PREFIX):
        _refuse(axis, scope=scope)
        return load_persona([axis], lexicon=lexicon, kinds=settings.get("introductions"), **groups)
    if is_import(axis):
        given = terms | {"lexicon": lexicon, "scope": scope}
        return _imported_axis(axis, [name for name in sorted(given) if given[name]])
    if axis in NAME_AXES:
        _refuse(axis, lexicon=lexicon, scope=scope)
        return NamesAxis(axis, NAME_AXES[axis], slots=settings.get("name_slots"), **terms)
    if lexicon is None:
        _check_known(axis, axes())
    words = load_lexicon(axis, lexicon)
    if model is not None and axis != PLACEBO:
        from tod_bias.perturb.neural import NeuralAxis, perturber_generator

        return NeuralAxis(words, perturber_generator(model, settings.get("device")), scope=scope, **terms)
    return LexiconAxis(words, scope=scope, **terms)


def _groups(settings: AxisSettings) -> dict[str, Any]:
    return {"sources": settings.get("sources"), "targets": settings.get("targets")}


def _check_known(axis: str, known: Sequence[str]) -> None:
    if axis not in known:
        raise AxisError(f"unknown axis {axis!r}; expected one of {', '.join(known)}{meant(axis, known)}")


def _factors(axis: str) -> list[str]:
    """The axes that a name crosses, or itself."""
    return [part.strip() for part in axis.split(CROSS)]


def is_user_defined(axis: str) -> bool:
    """Whether an axis is one of one's own, which is imported by its name, or crossed with one."""
    return any(is_import(part) and part not in dialects() for part in _factors(axis))


def check_shipped(axis: str, where: str) -> None:
    """See to it that an axis that a file names is none of one's own, which would be imported: files come from others.

    Raises:
        AxisError: it is, or is crossed with one.
    """
    if is_user_defined(axis):
        raise AxisError(f"{where}: names axis {axis!r:.80}, which is not shipped; give it again with --axes {axis:.80}")


def _is_dialect(axis: str, lexicon: str | Path | None) -> bool:
    """Whether an axis is a shipped dialect, which wins over a module of this name, or one with a file of rules."""
    return axis in dialects() or (axis.startswith(DIALECT) and lexicon is not None)


def idle_options(axes: Sequence[str], options: Mapping[str, object]) -> list[str]:
    """The options of :func:`load_axis` that are given, and that none of the axes uses.

    Args:
        axes: names.
        options: ``model``, ``name_slots`` and ``introductions`` count; None where one is not given.
    """
    parts = [part for axis in axes for part in _factors(axis)]
    by_name = [part for part in parts if part in NAME_AXES]
    personas = [part for part in parts if part.startswith(PREFIX)]
    others = {*by_name, *personas, PLACEBO}
    by_term = [part for part in parts if part not in others and not is_import(part) and not _is_dialect(part, None)]
    used = {"name_slots": by_name, "introductions": personas, "model": by_term}
    return [name for name, users in used.items() if options.get(name) is not None and not users]


def _crossed(axis: str, settings: AxisSettings) -> Axis:
    """Crossed axes: one of names, one of introductions, or any two."""
    factors = _checked_factors(axis)
    name, groups = CROSS.join(factors), _groups(settings)
    if all(factor in NAME_AXES for factor in factors):
        parts = [part for factor in factors for part in NAME_AXES[factor]]
        protected = settings.get("protected", ())
        return NamesAxis(name, parts, protected=protected, slots=settings.get("name_slots"), **groups)
    if all(factor.startswith(PREFIX) for factor in factors):
        return load_persona(factors, kinds=settings.get("introductions"), **groups)
    if any(chosen is not None for chosen in groups.values()):
        raise AxisError(f"axis {name!r}: sources and targets of crossed axes of words cannot be chosen; leave them out")
    if len(factors) > 2:
        raise AxisError(f"axis {name!r}: words of two axes can be crossed, not of {len(factors)}")
    first, second = (load_axis(factor, **settings) for factor in factors)
    return ProductAxis(first, second)


def _checked_factors(axis: str) -> list[str]:
    """The axes that a name crosses.

    Raises:
        AxisError: one is empty, given twice, about what another is about, or the placebo.
    """
    factors = _factors(axis)
    name = CROSS.join(factors)
    about = [_MEANS.get(factor, factor.removeprefix(PREFIX)) for factor in factors]
    if not all(factors):
        raise AxisError(f"axis {name!r}: name an axis on both sides of {CROSS}")
    if len(set(factors)) < len(factors):
        raise AxisError(f"axis {name!r}: crosses an axis with itself")
    if len(set(about)) < len(factors):
        raise AxisError(f"axis {name!r}: both are about {about[0]}, of which a person has one; cross two dimensions")
    if PLACEBO in factors:
        raise AxisError(f"axis {name!r}: the placebo is matched to every other axis; give it beside, not crossed")
    return factors


def _refuse(axis: str, **options: object) -> None:
    """Say no to options of lexicons for an axis that has none."""
    for name, value in options.items():
        if value is not None:
            raise AxisError(f"axis {axis!r} is about people and takes no {name}; leave it out")


def _imported_axis(spec: str, options: Sequence[str]) -> Axis:
    if options:
        raise AxisError(f"axis {spec!r}: an axis of your own takes no {options[0]}; leave it out")
    try:
        axis = made(spec, f"axis {spec!r}", error=AxisError)
    except AxisError as error:
        if not spec.startswith(DIALECT):
            raise
        raise AxisError(f"{error}; shipped dialects: {', '.join(dialects())}") from error
    if not isinstance(axis, Axis):
        raise AxisError(f"axis {spec!r}: expected an Axis (tod_bias.perturb.Axis), got {type(axis).__name__}")
    try:
        name, groups = axis.name, tuple(axis.groups)
    except (AttributeError, TypeError) as error:
        raise AxisError(f"axis {spec!r}: expected a name and groups ({error})") from None
    if not all(isinstance(text, str) for text in (name, *groups)):
        raise AxisError(
            f"axis {spec!r}: expected a text as name and texts as groups, got {name!r:.60} and {groups!r:.60}"
        )
    return axis


def perturb_text(
    text: str,
    axis: str | Axis,
    source: str,
    target: str,
    *,
    lexicon: str | Path | None = None,
    protected: Sequence[str] = (),
) -> str:
    """Rewrite plain text: every term of ``source`` becomes one of ``target``, on axes of names every person's name.

    Raises:
        AxisError: an unknown axis or group, source equal to target, or an axis that rewrites whole dialogues only.
        LexiconError: the lexicon cannot be read; names the file and the line.
    """
    if isinstance(axis, str):
        axis = _text_axis(axis, None if lexicon is None else str(lexicon), tuple(protected))
    (rewritten,) = axis.rewrite_texts([text], source, target)
    return rewritten


@lru_cache(maxsize=64)
def _text_axis(axis: str, lexicon: str | None, protected: tuple[str, ...]) -> Axis:
    return load_axis(axis, lexicon=lexicon, protected=protected)
