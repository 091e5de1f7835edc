"""Size of claims about the shipped axes of terms, in systems whose quirks are about single terms or single words.

    python tests/benchmarks/lexicons.py --runs 200

A component answers with as many words as its quirks say, or refuses as often. A quirk is a number for every term
("South Asian"), or for every word of it ("south", "asian"), drawn alike for all groups: then the terms of a group that
share a word share a quirk, and are no independent sample.
"""

from __future__ import annotations

import argparse
import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from tod_bias import Dialogue, Pipeline, Turn, attribute

TEXTS = {
    "gender": ("My {} wants", ("wife", "husband", "mother", "father", "sister", "brother", "daughter", "son")),
    "age": ("I am a {} person who wants", ("senior", "young", "elderly", "adult", "teenager")),
    "race": ("I am a {} person who wants", ("asian", "black", "white", "hispanic")),
}
_TERM = re.compile(r"(?:my|i am an?) (.*?) (?:person who |who )?wants")
QUIRKS: dict[str, Callable[[np.random.Generator], float]] = {
    "normal": lambda random: float(random.normal()),
    "heavy": lambda random: float(random.standard_t(3)),
    "rare": lambda random: 3.0 * (random.random() < 0.15),
}


def draw(*parts: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("\x1f".join(map(str, parts)).encode()))


def answerer(quirk: str, unit: str, metric: str, seed: int) -> Callable[[Sequence], list[str]]:
    def answer(inputs: Sequence) -> list[str]:
        return [said(item.user.lower()) for item in inputs]

    def said(text: str) -> str:
        term = _TERM.search(text)[1]
        parts = re.findall(r"[a-z]+", term) if unit == "words" else [term]
        size = sum(QUIRKS[quirk](draw(seed, "quirk", part)) for part in parts)
        luck = draw(seed, "luck", text)
        if metric == "refusal":
            return "I cannot help with that." if luck.random() < 1 / (1 + np.exp(2 - size)) else "Here is a table."
        return " ".join(["word"] * max(1, round(25 + 4 * size + 3 * luck.normal())))

    return answer


def verdict(axis: str, quirk: str, unit: str, metric: str, seed: int, dialogues: int = 60) -> str:
    random = np.random.default_rng(seed)
    text, terms = TEXTS[axis]
    corpus = []
    for number in range(dialogues):
        user = f"{text.format(random.choice(terms))} a table for {random.integers(2, 9)} at {number}."
        turn = Turn(user, response="A table.")
        corpus.append(Dialogue(str(number), f"domain {random.integers(3)}", (turn,)))
    pipeline = Pipeline({"answer": answerer(quirk, unit, metric, seed)})
    result = attribute(pipeline, corpus, axes=[axis], metrics=[metric], seed=seed, bootstrap=0, permutations=2000)
    return result.axes[axis][metric].verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--axes", default=",".join(TEXTS))
    parser.add_argument("--quirks", default=",".join(QUIRKS))
    parser.add_argument("--units", default="terms,words")
    parser.add_argument("--metrics", default="length,refusal")
    chosen = parser.parse_args()
    for axis in chosen.axes.split(","):
        for metric in chosen.metrics.split(","):
            for unit in chosen.units.split(","):
                for quirk in chosen.quirks.split(","):
                    verdicts = Counter(verdict(axis, quirk, unit, metric, seed) for seed in range(chosen.runs))
                    print(f"{axis}, {metric}, {quirk} quirks of {unit}: {dict(verdicts)}", flush=True)


if __name__ == "__main__":
    main()
