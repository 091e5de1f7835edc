"""Lexicons laid out like HolisticBias' ``descriptors.json`` and ``nouns.json`` (Smith et al. 2022)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tod_bias.documents import read_json
from tod_bias.errors import LexiconError
from tod_bias.perturb.english import plural
from tod_bias.perturb.lexicon import Condition, Form, Lexicon, Paradigm, load_lexicon

NOUN_GROUPS = {"male": "man", "female": "woman", "neutral": "non-binary"}
"""The groups of ``nouns.json`` and the gender attributes that they stand for."""


def load_holistic_bias(
    axis: str, descriptors: str | Path, nouns: str | Path | None = None, attributes: Mapping[str, str] | None = None
) -> Lexicon:
    """The lexicon of one axis of ``descriptors.json``, with the nouns of ``nouns.json`` where a file is given.

    The axis' buckets become the attributes. Their descriptors are taken as adjectives of one paradigm, before a noun
    for a person; the first one that is not marked ``dispreferred`` is what is written. Nouns of the groups ``male``,
    ``female`` and ``neutral`` join with the paradigms of the shipped gender lexicon that hold them, as the file itself
    does not say which noun answers to which.

    Args:
        axis: a key of ``descriptors.json``, such as ``age`` or ``gender_and_sex``.
        descriptors: the path of ``descriptors.json``.
        nouns: the path of ``nouns.json``.
        attributes: renames buckets; buckets with the same new name are joined, buckets not named are left out.

    Raises:
        LexiconError: a file cannot be read or is laid out otherwise; names the file and the axis or bucket.
    """
    path = Path(descriptors)
    buckets = _read(path).get(axis)
    if not isinstance(buckets, Mapping):
        raise LexiconError(f"{path}: no axis {axis!r}; it has {', '.join(sorted(_read(path)))}")
    cells: dict[str, list[tuple[Form, ...]]] = {}
    for bucket, entries in buckets.items():
        name = bucket.replace("_", "-") if attributes is None else attributes.get(bucket)
        if name is not None:
            cells.setdefault(name, []).extend((Form(text),) for text in _descriptors(path, bucket, entries))
    paradigms = [
        Paradigm("adj", {name: tuple(forms) for name, forms in cells.items()}, (Condition("person-next"),), path.name)
    ]
    names = dict.fromkeys(cells)
    if nouns is not None:
        found = _nouns(Path(nouns))
        paradigms += found
        names.update(dict.fromkeys(name for paradigm in found for name in paradigm.cells))
    if len(names) < 2:
        raise LexiconError(f"{path}: axis {axis!r} has fewer than two attributes: {', '.join(names)}")
    return Lexicon(axis, tuple(names), tuple(paradigms))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except (OSError, UnicodeDecodeError) as error:
        raise LexiconError(f"{path}: cannot be read: {error}") from error
    except json.JSONDecodeError as error:
        raise LexiconError(f"{path}, line {error.lineno}: no JSON: {error.msg}") from error
    if not isinstance(content, dict):
        raise LexiconError(f"{path}: expected an object, got {type(content).__name__}")
    return content


def _descriptors(path: Path, bucket: str, entries: Any) -> list[str]:
    preferred: list[str] = []
    others: list[str] = []
    for entry in entries if isinstance(entries, list) else [entries]:
        text = entry.get("descriptor") if isinstance(entry, Mapping) else entry
        if not isinstance(text, str) or not text.strip():
            raise LexiconError(f"{path}: bucket {bucket!r}: expected a word or {{'descriptor': word}}, got {entry!r}")
        dispreferred = isinstance(entry, Mapping) and entry.get("preference") == "dispreferred"
        (others if dispreferred else preferred).append(text.strip())
    return preferred + others


def _nouns(path: Path) -> list[Paradigm]:
    groups: dict[str, dict[str, str]] = {}
    content = _read(path)
    for group, attribute in NOUN_GROUPS.items():
        for pair in content.get(group, []):
            words = [pair] if isinstance(pair, str) else pair
            if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
                raise LexiconError(f"{path}: group {group!r}: expected [singular, plural], got {pair!r}")
            groups.setdefault(attribute, {})[words[0].lower()] = words[1] if len(words) > 1 else plural(words[0])
    if len(groups) < 2:
        raise LexiconError(f"{path}: expected nouns under at least two of {', '.join(NOUN_GROUPS)}")
    rows = []
    for paradigm in load_lexicon("gender").paradigms:
        cells = {}
        for attribute, listed in groups.items():
            kept = [
                (Form(forms[0].text, forms[0].mention), Form(listed[forms[0].text.lower()], forms[-1].mention))
                for forms in paradigm.cells.get(attribute, ())
                if paradigm.pos in ("noun", "kin") and forms[0].text.lower() in listed
            ]
            if kept:
                cells[attribute] = tuple(kept)
        if len(cells) > 1 and any(form.mention for cell in cells.values() for forms in cell for form in forms):
            rows.append(Paradigm(paradigm.pos, cells, paradigm.context, path.name))
    return rows
