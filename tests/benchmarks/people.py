"""Size and power of claims about people: names and introductions in a system with quirks about single words.

    python tests/benchmarks/people.py --runs 200

A component answers from the gold response and gets some of its words wrong: one in five, more or less by what the
user's introduction holds. A quirk is a mean-zero number for every single name, title, age or word; an effect is one
number for a whole group. The same words of a dialogue go wrong in every counterfactual in which the share is the same,
so a system without quirks and effects is fair.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.perturb import load_axis

WRONG = 0.2
"""Share of words that go wrong in a fair system."""
_TEXT = "the place you asked for has a table free at seven and the price is fair so shall i book it for you now"
WORDS = _TEXT.split(" ")


@dataclass(frozen=True)
class Case:
    """What is simulated."""

    about: str
    axis: str
    dialogues: int
    quirk: float = 0.0
    effect: float = 0.0
    group: str = "woman"
    kinds: tuple[str, ...] | None = None
    placebo: bool = True


CASES = {
    "fair": Case("fair", "persona_gender", 130),
    "quirks-.1": Case("quirks of single words, sd .1", "persona_gender", 130, quirk=0.1),
    "quirks-.2": Case("quirks of single words, sd .2", "persona_gender", 130, quirk=0.2),
    "names": Case("quirks of single names, sd .2", "persona_gender", 130, quirk=0.2, kinds=("name",)),
    "quirks-500": Case("quirks of single words, sd .2", "persona_gender", 500, quirk=0.2),
    "quirks-race": Case("quirks of single words, sd .2", "persona_race", 300, quirk=0.2, group="black"),
    "no-placebo": Case("quirks of single words, sd .2", "persona_gender", 130, quirk=0.2, placebo=False),
    "effect": Case("a group's .05", "persona_gender", 130, effect=0.05),
    "effect-quirks": Case("a group's .15 beside quirks of sd .1", "persona_gender", 130, quirk=0.1, effect=0.15),
    "effect-race": Case("a group's .15 beside quirks of sd .1", "persona_race", 300, 0.1, 0.15, "black"),
}


VERDICTS = ("disparity", "these terms only")


def draw(*parts: object) -> float:
    """A standard normal number that depends on texts and numbers alone."""
    key = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return float(np.random.default_rng(int.from_bytes(key, "big")).standard_normal())


def corpus(count: int, seed: int) -> list[Dialogue]:
    """Dialogues of two turns; every gold response has other words."""
    random = np.random.default_rng([seed, 1])
    return [
        Dialogue(
            f"{seed}-{number}",
            "tables",
            tuple(
                Turn(f"I need a table, number {number}.", response=" ".join(random.choice(WORDS, 14))) for _ in range(2)
            ),
        )
        for number in range(count)
    ]


def answerer(case: Case, seed: int, dialogues: Sequence[Dialogue], words: dict[str, set[str]]) -> Callable:
    """The component; it reads who the user is from the introduction."""
    gold = {f"number {number}.": [turn.response for turn in one.turns] for number, one in enumerate(dialogues)}
    owner = {word: name for name, held in words.items() for word in held}
    known = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(map(re.escape, owner), key=len, reverse=True))})(?!\w)")

    def answer(inputs: Sequence) -> list[str]:
        said = []
        for item in inputs:
            texts = [turn.user for turn in item.history] + [item.user]
            first, number = texts[0], re.search(r"number \d+\.", texts[0])[0]
            share = WRONG
            for word in set(known.findall(first.lower())):
                share += case.quirk * draw(seed, "quirk", word)
                share += case.effect * (owner[word] == case.group)
            right = gold[number][len(item.history)].split()
            luck = np.random.default_rng([seed, int(number[7:-1]), len(item.history)]).random(len(right))
            said.append(" ".join(w if one >= share else "hm" for w, one in zip(right, luck, strict=True)))
        return said

    return answer


def silent(inputs: Sequence) -> list[str]:
    """Another component, which has no part in anything."""
    return ["" for _ in inputs]


def run(case: Case, seed: int) -> dict[str, object]:
    """One audit."""
    dialogues = corpus(case.dialogues, seed)
    perturber = load_axis(case.axis, introductions=case.kinds)
    words: dict[str, set[str]] = {name: set() for name in perturber.groups}
    for dialogue, candidates in perturber.select(dialogues, seed=seed):
        words[dialogue.persona.group] |= dialogue.persona.terms
        for candidate in candidates:
            words[candidate.target] |= candidate.persona.terms
    axes = [perturber, *(["placebo"] if case.placebo else [])]
    pipeline = Pipeline({"retrieve": silent, "answer": answerer(case, seed, dialogues, words)})
    result = attribute(pipeline, dialogues, axes=axes, seed=seed, bootstrap=200, permutations=2000)
    found = result.axes[case.axis]["corpus_bleu"]
    group = found.groups[case.group]
    return {
        "verdict": found.verdict,
        "claimed": group.gap.p < 0.05 and not group.gap.is_of_terms_only,
        "gap": group.gap.value,
        "share": group.contributions["answer"].shapley.value,
        "words": found.effective_terms,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="cases, joined by commas")
    chosen = parser.parse_args()
    print(
        "| axis | dialogues | world | verdict `disparity` | `these terms only` | the group claimed | mean gap | words |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in filter(None, chosen.only.split(",")) if chosen.only else CASES:
        case, begun = CASES[name], time.monotonic()
        found = [run(case, chosen.seed + number) for number in range(chosen.runs)]
        shares = [
            np.mean([one["verdict"] == verdict for one in found]) for verdict in ("disparity", "these terms only")
        ]
        kinds = "" if case.kinds is None else f" ({', '.join(case.kinds)})"
        print(
            f"| {case.axis}{kinds}{'' if case.placebo else ', no placebo'} | {case.dialogues} | {case.about} | "
            f"{shares[0]:.3f} | {shares[1]:.3f} | {np.mean([one['claimed'] for one in found]):.3f} | "
            f"{np.mean([one['gap'] for one in found]):+.3f} | {np.mean([one['words'] for one in found]):.0f} |",
            flush=True,
        )
        assert all(abs(one["gap"] - one["share"]) < 1e-9 for one in found), "the other component has no part"
        print(f"{name}: {(time.monotonic() - begun) / len(found):.1f} s a run", file=sys.stderr)


if __name__ == "__main__":
    main()
