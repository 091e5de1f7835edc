"""Su's Algorithm 1: which rewrites a dialogue admits, and seeded draws among them.

``K``, the set of candidates, holds every (word, target attribute) for the lexicon words of a dialogue. A draw takes
one of them uniformly and rewrites every string of the dialogue with it: utterances, API-call values, API results and
gold responses.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError, meant
from tod_bias.imports import is_import, made
from tod_bias.perturb.candidates import Candidate, Perturber, candidates_of, rewrite_of
from tod_bias.perturb.dialect.perturber import DialectPerturber
from tod_bias.perturb.dialect.rules import DIALECT, dialects, load_dialect
from tod_bias.perturb.dialogue_rewriter import dialogue_rewrite
from tod_bias.perturb.lexicon import axes as lexicon_axes
from tod_bias.perturb.lexicon import load_lexicon
from tod_bias.perturb.lexicon_perturber import SCOPES, LexiconPerturber
from tod_bias.perturb.names.perturber import NAME_AXES, NamesPerturber
from tod_bias.perturb.personas.axes import PREFIX, load_persona, persona_axes
from tod_bias.perturb.personas.perturber import PersonaPerturber
from tod_bias.perturb.product import ProductPerturber
from tod_bias.perturb.rewriter import TextRewriter
from tod_bias.systems.twin import Rewrite

__all__ = [
    "NAME_AXES", "PLACEBO", "SCOPES", "Candidate", "LexiconPerturber", "Perturber", "axes", "dialogue_rewrite",
    "draw_candidates", "draw_rewrites", "load_perturber", "rewrite_text", "rewrites_of", "text_rewriter",
]  # fmt: skip

PLACEBO = "placebo"
"""The control axis."""


def axes() -> tuple[str, ...]:
    """The axes that ship with the package: those of lexicons, over names, of introductions, and dialects."""
    return tuple(sorted((*lexicon_axes(), *NAME_AXES, *dialects(), *persona_axes())))


def _check_known(axis: str, known: Sequence[str]) -> None:
    if axis not in known:
        raise AxisError(f"unknown axis {axis!r}; expected one of {', '.join(known)}{meant(axis, known)}")


def draw_candidates(perturber: Perturber, dialogue: Dialogue, draws: int = 3, seed: int = 0) -> tuple[Candidate, ...]:
    """``draws`` independent uniform draws from K; none where K is empty.

    A draw depends on the seed, the axis, the dialogue's id and the number of the draw, never on other dialogues.

    Raises:
        AxisError: ``draws`` is not positive.
    """
    if draws < 1:
        raise AxisError(f"draws must be at least 1, got {draws}")
    candidates = candidates_of(perturber, dialogue)
    if not candidates:
        return ()
    drawn = []
    for number in range(draws):
        key = "\x1f".join((str(seed), perturber.axis, dialogue.id, str(number)))
        number_of_key = int.from_bytes(hashlib.sha256(key.encode("utf-8")).digest()[:8], "big")
        drawn.append(random.Random(number_of_key).choice(candidates))
    return tuple(drawn)


def rewrites_of(
    perturber: Perturber, drawn: Sequence[tuple[Dialogue, Sequence[Candidate]]]
) -> list[tuple[Rewrite, ...]]:
    """The rewrites of dialogues that were drawn; a perturber with a model (``prepare``) is asked for all at once.

    Equal draws of a dialogue share one rewrite, and with it its memory.
    """
    prepare = getattr(perturber, "prepare", None)
    if prepare is not None:
        prepare([(dialogue, candidate) for dialogue, chosen in drawn for candidate in dict.fromkeys(chosen)])
    rewrites = []
    for dialogue, chosen in drawn:
        made = {candidate: rewrite_of(perturber, dialogue, candidate) for candidate in dict.fromkeys(chosen)}
        rewrites.append(tuple(made[candidate] for candidate in chosen))
    return rewrites


def draw_rewrites(perturber: Perturber, dialogue: Dialogue, draws: int = 3, seed: int = 0) -> tuple[Rewrite, ...]:
    """The rewrites of one dialogue that :func:`draw_candidates` draws.

    A persona's begin with the dialogue as it is: they bring the introduction.

    Raises:
        AxisError: ``draws`` is not positive.
    """
    if isinstance(perturber, PersonaPerturber):
        if draws < 1:
            raise AxisError(f"draws must be at least 1, got {draws}")
        return perturber.introducing(dialogue, draws=draws, seed=seed)
    (rewrites,) = rewrites_of(perturber, [(dialogue, draw_candidates(perturber, dialogue, draws, seed))])
    return rewrites


def all_rewrites(
    perturber: Perturber, dialogues: Sequence[Dialogue], draws: int, seed: int
) -> list[tuple[Rewrite, ...]]:
    """:func:`draw_rewrites` of many dialogues; a perturber with a model is asked for all at once."""
    if isinstance(perturber, PersonaPerturber):
        return [draw_rewrites(perturber, dialogue, draws, seed) for dialogue in dialogues]
    return rewrites_of(perturber, [(one, draw_candidates(perturber, one, draws, seed)) for one in dialogues])


def load_perturber(
    axis: str,
    *,
    lexicon: str | Path | None = None,
    scope: str | None = None,
    protected: Iterable[str] = (),
    sources: Iterable[str] | None = None,
    targets: Iterable[str] | None = None,
    model: str | Path | None = None,
    device: str | None = None,
    name_slots: str | Path | None = None,
    introductions: Iterable[str] | None = None,
) -> Any:
    """The perturber of an axis.

    Args:
        axis: ``gender``, ``age``, ``race``, ``placebo``, another shipped axis, any name with ``lexicon``,
            ``dialect:aae`` or another dialect (``lexicon``: a file of rules), or
            ``module:perturber``: an object of your own, or what makes one without arguments (:class:`Perturber` says
            what it needs). It has its own words, so it takes none of the options but the model's, which it ignores.
        lexicon: a lexicon file that takes the place of the shipped one.
        scope: ``attribute`` or ``word``; the lexicon's own default if not given.
        protected: phrases that are no mentions.
        sources: keep only candidates with these source attributes.
        targets: keep only candidates with these target attributes.
        model: a perturber's checkpoint (:mod:`tod_bias.perturb.neural`); the axis ``placebo`` never uses it, as no
            perturber is trained on what has no demographic meaning, and dialects never do, as they have rules.
        device: where the model runs; chosen where left out.
        name_slots: a file of slots that hold people's names, for ``names_gender`` and ``names_race``, which take
            neither ``lexicon`` nor ``scope`` (:mod:`tod_bias.perturb.names`); other axes ignore it.
        introductions: kinds of introductions (``name``, ``title``, ``statement`` …) that the axes ``persona_…`` use;
            all by default; other axes ignore it. Their ``lexicon`` is a sheet (:mod:`tod_bias.perturb.personas.sheet`).

    Returns:
        A :class:`Perturber`: a :class:`LexiconPerturber`, one with a model, of a dialect, or your own.

    Raises:
        AxisError: an unknown axis, attribute or scope, or an option that the axis does not take.
        LexiconError: the lexicon cannot be read; names the file and the line.
        ModelError: the checkpoint cannot be loaded or is no perturber.
    """
    crossed = [name.strip() for name in axis.split("×")]
    if len(crossed) > 1:
        if lexicon is not None or scope is not None:
            raise AxisError(f"axis {axis!r}: crossed axes take no lexicon and no scope; leave it out")
        options = {"protected": tuple(protected), "sources": sources, "targets": targets, "name_slots": name_slots}
        return _crossed(crossed, {**options, "model": model, "device": device, "introductions": introductions})
    if _is_dialect(axis, lexicon):
        if scope is not None:
            raise AxisError(f"axis {axis}: a dialect is told as a whole; leave out the scope {scope!r}")
        rules = load_dialect(axis, lexicon)
        return DialectPerturber(rules, protected=protected, sources=sources, targets=targets)
    if axis.startswith(PREFIX):
        _refuse(axis, scope=scope)
        return load_persona([axis], lexicon=lexicon, kinds=introductions, sources=sources, targets=targets)
    if is_import(axis):
        options = {
            "lexicon": lexicon, "scope": scope, "protected": tuple(protected), "sources": sources, "targets": targets
        }  # fmt: skip
        return _own_perturber(axis, [name for name, value in options.items() if value])
    if axis in NAME_AXES:
        _refuse(axis, lexicon=lexicon, scope=scope)
        return NamesPerturber(
            axis, NAME_AXES[axis], protected=protected, sources=sources, targets=targets, slots=name_slots
        )
    if lexicon is None:
        _check_known(axis, axes())
    words = load_lexicon(axis, lexicon)
    if model is not None and axis != PLACEBO:
        from tod_bias.perturb.neural import NeuralPerturber, perturber_generator

        generator = perturber_generator(model, device)
        return NeuralPerturber(words, generator, scope=scope, protected=protected, sources=sources, targets=targets)
    return LexiconPerturber(words, scope=scope, protected=protected, sources=sources, targets=targets)


def is_own(axis: str) -> bool:
    """Whether an axis is one of one's own, which is imported by its name, or crossed with one."""
    return any(is_import(part.strip()) and part.strip() not in dialects() for part in axis.split("×"))


def check_shipped(axis: str, where: str) -> None:
    """See to it that an axis that a file names is none of one's own, which would be imported: files come from others.

    Raises:
        AxisError: it is, or is crossed with one.
    """
    if is_own(axis):
        raise AxisError(f"{where}: names axis {axis!r:.80}, which is not shipped; give it again with --axes {axis:.80}")


def _is_dialect(axis: str, lexicon: str | Path | None) -> bool:
    """Whether an axis is a shipped dialect, which wins over a module of this name, or one with a file of rules."""
    return axis in dialects() or (axis.startswith(DIALECT) and lexicon is not None)


def idle_options(axes: Sequence[str], options: Mapping[str, object]) -> list[str]:
    """The options of :func:`load_perturber` that are given, and that none of the axes uses.

    Args:
        axes: names.
        options: ``model``, ``name_slots`` and ``introductions`` count; None where one is not given.
    """
    parts = [part.strip() for axis in axes for part in axis.split("×")]
    has_people = [part for part in parts if part in NAME_AXES]
    has_persona = [part for part in parts if part.startswith(PREFIX)]
    others = {*has_people, *has_persona, PLACEBO}
    has_words = [part for part in parts if part not in others and not is_import(part) and not _is_dialect(part, None)]
    used = {"name_slots": has_people, "introductions": has_persona, "model": has_words}
    return [name for name, some in used.items() if options.get(name) is not None and not some]


_MEANS = {"names_gender": "gender", "names_race": "race", "race_people": "race"}
"""What axes are about whose names do not say it."""


def _crossed(axes: Sequence[str], options: dict[str, Any]) -> Any:
    """The perturber of crossed axes: one of names, one of introductions, or any two."""
    name = "×".join(axes)
    if not all(axes):
        raise AxisError(f"axis {name!r}: name an axis on both sides of ×")
    if len(set(axes)) < len(axes):
        raise AxisError(f"axis {name!r}: crosses an axis with itself")
    meant = [_MEANS.get(axis, axis.removeprefix(PREFIX)) for axis in axes]
    if len(set(meant)) < len(axes):
        raise AxisError(f"axis {name!r}: both are about {meant[0]}, of which a person has one; cross two attributes")
    if PLACEBO in axes:
        raise AxisError(f"axis {name!r}: the placebo is matched to every other axis; give it beside, not crossed")
    kept = {key: options[key] for key in ("sources", "targets")}
    if all(axis in NAME_AXES for axis in axes):
        factors = [factor for axis in axes for factor in NAME_AXES[axis]]
        return NamesPerturber(name, factors, protected=options["protected"], slots=options["name_slots"], **kept)
    if all(axis.startswith(PREFIX) for axis in axes):
        return load_persona(axes, kinds=options["introductions"], **kept)
    if any(value is not None for value in kept.values()):
        raise AxisError(f"axis {name!r}: sources and targets of crossed axes of words cannot be chosen; leave them out")
    if len(axes) > 2:
        raise AxisError(f"axis {name!r}: words of two axes can be crossed, not of {len(axes)}")
    return ProductPerturber(*(load_perturber(axis, **options) for axis in axes))


def _refuse(axis: str, **options: object) -> None:
    """Say no to options of lexicons for an axis that has none."""
    for name, value in options.items():
        if value is not None:
            raise AxisError(f"axis {axis!r} is about people and takes no {name}; leave it out")


def _own_perturber(spec: str, options: Sequence[str]) -> Any:
    if options:
        raise AxisError(f"axis {spec!r}: a perturber of your own takes no {options[0]}; leave it out")
    try:
        perturber = made(spec, f"axis {spec!r}", error=AxisError)
    except AxisError as error:
        if not spec.startswith(DIALECT):
            raise
        raise AxisError(f"{error}; shipped dialects: {', '.join(dialects())}") from error
    missing = [name for name in ("axis", "attributes", "candidates", "rewrite") if not hasattr(perturber, name)]
    if missing:
        raise AxisError(
            f"axis {spec!r}: expected a perturber with axis, attributes, candidates and rewrite, got "
            f"{type(perturber).__name__} without {missing[0]!r}"
        )
    names = perturber.attributes
    if not (isinstance(names, Sequence) and all(isinstance(name, str) for name in (perturber.axis, *names))):
        raise AxisError(
            f"axis {spec!r}: expected a text as axis and texts as attributes, got {perturber.axis!r:.60} and "
            f"{names!r:.60}"
        )
    return perturber


def rewrite_text(
    text: str,
    axis: str,
    source: str,
    target: str,
    *,
    lexicon: str | Path | None = None,
    protected: Sequence[str] = (),
) -> str:
    """Rewrite plain text: every word of ``source`` becomes one of ``target``, on axes of names every person's name.

    Raises:
        AxisError: an unknown axis or attribute, or source equal to target.
        LexiconError: the lexicon cannot be read; names the file and the line.
    """
    return text_rewriter(axis, source, target, lexicon=lexicon, protected=protected)(text)


_REWRITERS: dict[tuple[str, str, str, str | None, tuple[str, ...]], Callable[[str], str]] = {}


def text_rewriter(
    axis: str,
    source: str,
    target: str,
    *,
    lexicon: str | Path | None = None,
    protected: Sequence[str] = (),
) -> Callable[[str], str]:
    """The function behind :func:`rewrite_text`, for many texts; raises the same errors."""
    key = (axis, source, target, None if lexicon is None else str(lexicon), tuple(protected))
    if key not in _REWRITERS:
        if axis.startswith(PREFIX) or "×" in axis:
            raise AxisError(f"axis {axis!r}: introductions and crossed axes need dialogues: tod-bias export")
        is_dialect = axis.startswith(DIALECT)
        if is_import(axis) and not is_dialect:
            raise AxisError(f"axis {axis!r}: an axis of your own needs whole dialogues: tod-bias export")
        if lexicon is None:
            _check_known(axis, sorted((*lexicon_axes(), *NAME_AXES, *dialects())))
        if is_dialect:
            rules = load_dialect(axis, lexicon)
            _REWRITERS[key] = DialectPerturber(rules, protected=protected).text_rewriter(source, target)
        elif axis in NAME_AXES:
            _refuse(axis, lexicon=lexicon)
            _REWRITERS[key] = NamesPerturber(axis, NAME_AXES[axis], protected=protected).text_rewriter(source, target)
        else:
            _REWRITERS[key] = TextRewriter(load_lexicon(axis, lexicon), source, target, protected=protected)
    return _REWRITERS[key]
