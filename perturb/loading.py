"""Axes by name: :func:`load_axis` makes one, :func:`perturb_text` rewrites plain text along one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict, Unpack

from tod_bias.config import is_axis_file
from tod_bias.errors import AxisError, LexiconError, meant
from tod_bias.io.imports import is_import, made
from tod_bias.perturb.axis import PLACEBO, Axis
from tod_bias.perturb.axis_file import read_axis_file
from tod_bias.perturb.lexicon import axes as lexicon_axes
from tod_bias.perturb.lexicon import load_lexicon
from tod_bias.perturb.lexicon_axis import LexiconAxis
from tod_bias.perturb.names.axis import NAME_AXES, NamesAxis
from tod_bias.perturb.neural import NeuralAxis, perturber_generator
from tod_bias.perturb.personas.axis import PREFIX, load_persona, persona_axes
from tod_bias.perturb.product import CROSS, ProductAxis

_MEANS = {"names_gender": "gender", "names_race": "race", "race_people": "race"}
"""Dimension of axes whose names do not contain it."""
_CHOSEN = frozenset({"sources", "targets"})
_TERMS = _CHOSEN | {"lexicon", "scope", "protected"}
_TAKES: Mapping[str, frozenset[str]] = {
    "an axis of terms": _TERMS | {"model"},
    "the placebo": _TERMS,
    "an axis of names": _CHOSEN | {"protected", "name_slots"},
    "an introduction": _CHOSEN | {"lexicon", "protected", "introductions"},
    "a crossed axis": _CHOSEN | {"protected"},
    "a user-defined axis": frozenset(),
    "an axis file": _CHOSEN,
}
"""Kind of axis to the settings that it takes."""
_OF_ONE_KIND = ("model", "name_slots", "introductions")
"""Settings of :func:`load_axis` that axes of other kinds ignore."""


def axes() -> tuple[str, ...]:
    """Return the names of the axes that ship with the package: lexicons, names and introductions."""
    return tuple(sorted((*lexicon_axes(), *NAME_AXES, *persona_axes())))


class AxisSettings(TypedDict, total=False):
    """Settings of an axis, all of them optional."""

    lexicon: str | Path | None
    """A lexicon file that takes the place of the shipped one; of ``persona_…`` a sheet
    (:mod:`tod_bias.perturb.personas.sheet`)."""
    scope: str | None
    """``attribute`` or ``word``; the lexicon's own default if not given."""
    protected: Iterable[str]
    """Phrases that never mention a group."""
    sources: Iterable[str] | None
    """Keep only candidates with these source groups."""
    targets: Iterable[str] | None
    """Keep only candidates with these target groups."""
    model: str | Path | None
    """A perturber's checkpoint that rewrites in place of rules (:mod:`tod_bias.perturb.neural`), for axes of terms;
    other axes and the placebo ignore it."""
    device: str | None
    """Device of the model."""
    name_slots: str | Path | None
    """A file of slots that hold people's names, for ``names_gender`` and ``names_race``, which take neither ``lexicon``
    nor ``scope`` (:mod:`tod_bias.perturb.names`); other axes ignore it."""
    introductions: Iterable[str] | None
    """Kinds of introductions (``name``, ``title``, ``statement`` …) that ``persona_…`` use; other axes ignore it."""


def _kind_of(axis: str) -> str:
    """Return the key of :data:`_TAKES` that an axis belongs to."""
    if is_axis_file(axis):
        return "an axis file"
    if CROSS in axis:
        return "a crossed axis"
    if axis.startswith(PREFIX):
        return "an introduction"
    if is_import(axis):
        return "a user-defined axis"
    if axis in NAME_AXES:
        return "an axis of names"
    return "the placebo" if axis == PLACEBO else "an axis of terms"


def load_axis(axis: str, **settings: Unpack[AxisSettings]) -> Axis:
    """Return the axis of a name.

    Args:
        axis: ``gender``, ``age``, ``race``, ``placebo``, another shipped axis, any name with ``lexicon``, or
            ``module:axis``: your own :class:`Axis`, or a class or function that makes one without arguments. Your own
            axis has its own terms and takes none of the settings. ``a×b`` crosses two. ``FILE.yaml`` is an axis file
            (:mod:`tod_bias.perturb.axis_file`), which has the settings of its axis.
        settings: those of :class:`AxisSettings`.

    Raises:
        AxisError: an unknown axis, group or scope, or a setting that the axis does not take.
        LexiconError: the lexicon cannot be read; names the file and the line.
        ModelError: the model cannot be loaded, or is not a perturber.
    """
    if unknown := settings.keys() - AxisSettings.__annotations__.keys():
        raise TypeError(f"load_axis() has no setting {min(unknown)!r}")
    lexicon = settings.get("lexicon")
    kind = _kind_of(axis)
    terms = _terms_of(axis, kind, settings)
    groups = {name: terms[name] for name in _CHOSEN}
    if kind == "a crossed axis":
        return _crossed(axis, settings)
    if kind == "an introduction":
        return load_persona([axis], lexicon=lexicon, kinds=settings.get("introductions"), **groups)
    if kind == "a user-defined axis":
        return _imported(axis)
    if kind == "an axis file":
        return _from_file(axis, {name: chosen for name, chosen in groups.items() if chosen is not None})
    if kind == "an axis of names":
        slots = settings.get("name_slots")
        return NamesAxis(axis, NAME_AXES[axis], slots=slots, protected=terms["protected"], **groups)
    if lexicon is None and axis not in axes():
        raise AxisError(f"unknown axis {axis!r}; expected one of {', '.join(axes())}{meant(axis, axes())}")
    terms["lexicon"] = load_lexicon(axis, lexicon)
    model = settings.get("model")
    if model is None or "model" not in _TAKES[kind]:
        return LexiconAxis(**terms)
    return NeuralAxis(generator=perturber_generator(model, settings.get("device")), **terms)


def _terms_of(axis: str, kind: str, settings: AxisSettings) -> dict[str, Any]:
    """The settings of :data:`_TERMS`.

    Raises:
        AxisError: the axis does not take one that is given.
    """
    terms: dict[str, Any] = {name: settings.get(name) for name in sorted(_TERMS)}
    terms["protected"] = tuple(terms["protected"] or ())
    for name, value in terms.items():
        if value not in (None, ()) and name not in _TAKES[kind]:
            raise AxisError(f"axis {axis!r}: {kind} takes no {name}; leave it out")
    return terms


def _factors(axis: str) -> list[str]:
    """The axes that a name crosses, or itself."""
    return [part.strip() for part in axis.split(CROSS)]


def is_user_defined(axis: str) -> bool:
    """True if an axis is user-defined, and so imported by its name, or crossed with such an axis."""
    return any(_kind_of(part) == "a user-defined axis" for part in _factors(axis))


def is_from_user(axis: str) -> bool:
    """Return True if an axis is user-defined, or an axis file."""
    return is_axis_file(axis) or is_user_defined(axis)


def check_shipped(axis: str, where: str) -> None:
    """Raise if an axis that a file names is user-defined and would be imported; files may be untrusted.

    Raises:
        AxisError: the axis is user-defined, or crossed with such an axis.
    """
    if is_user_defined(axis):
        raise AxisError(f"{where}: names axis {axis!r:.80}, which is not shipped; give it again with --axes {axis:.80}")


def idle_options(axes: Sequence[str], options: Mapping[str, object]) -> list[str]:
    """Return the options of :func:`load_axis` that are set and that no axis uses.

    Args:
        axes: names.
        options: ``model``, ``name_slots`` and ``introductions``; None if not set.
    """
    taken = frozenset[str]().union(*(_TAKES[_kind_of(part)] for axis in axes for part in _factors(axis)))
    return [name for name, value in options.items() if value is not None and name not in taken]


def _crossed(axis: str, settings: AxisSettings) -> Axis:
    """Return crossed axes: of names or introductions one, which reveals both; of any other two their product.

    Raises:
        AxisError: they cannot be crossed, or a setting that they do not take.
    """
    factors = _factors(axis)
    name = CROSS.join(factors)
    _check_factors(name, factors)
    kinds = {_kind_of(factor) for factor in factors}
    groups: dict[str, Any] = {"sources": settings.get("sources"), "targets": settings.get("targets")}
    if kinds == {"an axis of names"}:
        exchanged = [part for factor in factors for part in NAME_AXES[factor]]
        protected = tuple(settings.get("protected", ()))
        return NamesAxis(name, exchanged, protected=protected, slots=settings.get("name_slots"), **groups)
    if kinds == {"an introduction"}:
        return load_persona(factors, kinds=settings.get("introductions"), **groups)
    if any(chosen is not None for chosen in groups.values()):
        raise AxisError(f"axis {name!r}: sources and targets of crossed axes of words cannot be chosen; leave them out")
    if len(factors) > 2:
        raise AxisError(f"axis {name!r}: words of two axes can be crossed, not of {len(factors)}")
    first, second = (load_axis(factor, **settings) for factor in factors)
    return ProductAxis(first, second)


def _check_factors(name: str, factors: Sequence[str]) -> None:
    """Raise if axes cannot be crossed.

    Raises:
        AxisError: one is empty, given twice, about what another is about, an axis file, or the placebo.
    """
    if files := [factor for factor in factors if is_axis_file(factor)]:
        raise AxisError(f"axis {name!r}: write 'axis: a{CROSS}b' in {files[0]} to cross axes that have settings")
    about = [_MEANS.get(factor, factor.removeprefix(PREFIX)) for factor in factors]
    if not all(factors):
        raise AxisError(f"axis {name!r}: name an axis on both sides of {CROSS}")
    if len(set(factors)) < len(factors):
        raise AxisError(f"axis {name!r}: crosses an axis with itself")
    if len(set(about)) < len(factors):
        raise AxisError(f"axis {name!r}: both are about {about[0]}; cross two dimensions")
    if PLACEBO in factors:
        raise AxisError(f"axis {name!r}: the placebo is matched to every other axis; list it separately, not crossed")


def _from_file(path: str, groups: Mapping[str, Any]) -> Axis:
    """Return the axis of an axis file.

    Raises:
        AxisError: the file cannot be read, names an axis that is not shipped and has no lexicon, or another file; names
            the file.
    """
    name, settings = read_axis_file(path)
    if is_axis_file(name):
        raise AxisError(f"axis file {path}: names another axis file, {name}; name an axis")
    check_shipped(name, f"axis file {path}")
    if idle := idle_options([name], {option: settings.get(option) for option in _OF_ONE_KIND}):
        raise AxisError(f"axis file {path}: axis {name!r} takes no {idle[0]}; leave it out")
    try:
        return load_axis(name, **{**settings, **groups})
    except (AxisError, LexiconError) as error:
        raise AxisError(f"axis file {path}: {error}") from error


def _imported(spec: str) -> Axis:
    axis = made(spec, f"axis {spec!r}", error=AxisError)
    if not isinstance(axis, Axis):
        raise AxisError(f"axis {spec!r}: expected an Axis (tod_bias.perturb.Axis), got {type(axis).__name__}")
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
