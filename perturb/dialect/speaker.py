"""One text in a dialect: rules applied sentence by sentence, names and values left alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from tod_bias.perturb.dialect.rules import Dialect, Rule

_SENTENCE = re.compile(r".+?(?:[.!?]+(?=\s|$)|\n|$)\s*", re.DOTALL)
# Capitals inside of a sentence, with small words between them: "The Lord of the Rings"
_CAPITALS = re.compile(
    r"(?<=[^\W_][ ,:])[ ]?(?:the[ ])?(?!I\b)[A-Z][\w'’&.-]*"
    r"(?:[ ](?:(?:of|the|a|an|and|in|is|are|for|to|on|at|with)[ ])*[A-Z][\w'’&.-]*)*"
)
_QUOTED = re.compile(r"\"[^\"]+\"|“[^”]+”")


def speak(
    dialect: Dialect, text: str, values: Collection[str] = (), rules: Collection[Rule] | None = None
) -> tuple[str, Counter[str]]:
    """A text in the dialect, and how often each rule was applied.

    Capitals inside of a sentence and what stands in quotes are names. What a rule would change inside of a name or a
    value stays, and so does a sentence all in capitals.

    Args:
        dialect: its rules.
        text: what is said.
        values: names of things and other values that stay, in lower case.
        rules: those of the dialect's rules that the speaker has; by default all.
    """
    counts: Counter[str] = Counter()
    chosen = dialect.rules if rules is None else rules
    lowered = text.lower()
    held = [part for value in values if value in lowered for part in _parts(value)]
    sentences = _SENTENCE.findall(text)
    spoken = [_sentence(sentence, chosen, held, counts) for sentence in sentences]
    return ("".join(spoken), counts) if counts else (text, counts)


def _parts(value: str) -> list[str]:
    """A value, or its sentences where it has several: they stay as well."""
    return [part.strip() for part in _SENTENCE.findall(value) if part.strip()]


def _sentence(text: str, rules: Iterable[Rule], values: list[str], counts: Counter[str]) -> str:
    if text.isupper() and len(text.split()) > 1:
        return text
    is_question = text.rstrip().endswith("?")
    spans: list[tuple[int, int]] | None = None
    for rule in rules:
        if rule.question is not None and rule.question != is_question:
            continue
        match = rule.pattern.search(text)
        if match is None or (rule.never is not None and rule.never.search(text)):
            continue
        parts, position = [], 0
        while match is not None:
            old, new = match[0], rule.written(match)
            if spans is None:
                spans = _names(text, values)
            if old != new and _is_free(old, new, match.start(), spans):
                parts += [text[position : match.start()], new]
                position = match.end()
                counts[rule.id] += 1
            match = rule.pattern.search(text, max(match.end(), match.start() + 1))
        if parts:
            text, spans = "".join([*parts, text[position:]]), None
    return text


def _names(text: str, values: list[str]) -> list[tuple[int, int]]:
    spans = [match.span() for pattern in (_CAPITALS, _QUOTED) for match in pattern.finditer(text)]
    lowered = text.lower()
    for value in values:
        start = lowered.find(value)
        while start >= 0:
            end = start + len(value)
            if not lowered[start - 1 : start].isalnum() and not lowered[end : end + 1].isalnum():
                spans.append((start, end))
            start = lowered.find(value, end)
    return spans


def _is_free(old: str, new: str, start: int, spans: list[tuple[int, int]]) -> bool:
    """Whether what changes between two texts, from their first to their last difference, touches no span."""
    shorter = min(len(old), len(new))
    same = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    rest = shorter - same
    tail = next((place for place in range(rest) if old[-1 - place] != new[-1 - place]), rest)
    first, last = start + same, start + len(old) - tail
    return not any(first < end and begin < max(last, first + 1) for begin, end in spans)
