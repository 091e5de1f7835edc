"""A deterministic made-up run of schema 2: numbers that add up as the contract says, written without the engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

STAGES = ("api_call", "db", "response")
ORDER = ("db", "api_call", "response")

ATTRIBUTES = {
    "gender": ("woman", "man", "non-binary"),
    "age": ("child", "young", "senior"),
    "race": ("white", "black", "hispanic", "asian"),
    "placebo": ("original", "placebo"),
}
PARTS: Mapping[str, Mapping[str, float]] = {
    "gender": {"api_call": 0.009, "db": 0.012, "response": 0.081},
    "age": {"api_call": -0.015, "db": 0.006, "response": 0.021},
    "race": {"api_call": -0.012, "db": 0.055, "response": 0.041},
    "placebo": {"api_call": 0.002, "db": 0.004, "response": 0.005},
}
# axis: verdict, p (Holm), p of these words, effective words, whether there are words enough for an interval
EVIDENCE: Mapping[str, tuple[str, float, float, float, bool]] = {
    "gender": ("disparity", 0.0004, 0.0004, 8.2, True),
    "age": ("inconclusive", 0.63, 0.3, 7.1, True),
    "race": ("these words only", 0.5, 0.003, 1.4, False),
    "placebo": ("floor", 1.0, 1.0, 10.3, True),
}
METRICS = {
    "corpus_bleu": {"label": "BLEU", "better": "higher", "scale": "ratio", "signature": "tok:13a"},
    "refusal": {"label": "refusals", "better": "lower", "scale": "difference", "signature": "patterns"},
    "length": {"label": "words in a response", "better": "neither", "scale": "difference", "signature": "words"},
}


def estimate(value: float, half: float = 0.008, *, enough: bool = True, **more: Any) -> dict[str, Any]:
    bounds = [value - half, value + half]
    return {"value": value, "ci": bounds if enough else None, "ci_these_words": bounds, **more}


def parts_of(parts: Mapping[str, float], scale: float, enough: bool) -> dict[str, Any]:
    return {name: estimate(part * scale, enough=enough) for name, part in parts.items()}


def arms_of(parts: Mapping[str, float], original: float) -> dict[str, float]:
    """The score by set of swapped components: what the others still take from the originals' score."""
    sets = [names for size in range(len(parts) + 1) for names in combinations(sorted(parts), size)]
    return {
        ",".join(names): original * (1 - sum(part for name, part in parts.items() if name not in names))
        for names in sets
    }


def gap_record(axis: str, scale: float, dialogues: int) -> dict[str, Any]:
    _, p, p_these, _, enough = EVIDENCE[axis]
    parts = PARTS[axis]
    claimed = {"p_holm": p, "p_these_words": p_these} if axis != "placebo" else {"p_holm": None}
    gap = estimate(sum(parts.values()) * scale, enough=enough, **claimed)
    return {**gap, "contributions": parts_of(parts, scale, enough), "dialogues": dialogues}


def outcome_record(axis: str, metric: str) -> dict[str, Any]:
    verdict, p, p_these, words, enough = EVIDENCE[axis]
    parts, names = PARTS[axis], ATTRIBUTES[axis]
    total, original = sum(parts.values()), 0.1731
    claimed = {"p_holm": p, "p_these_words": p_these} if axis != "placebo" else {"p_holm": None}
    groups, pairs = {}, {}
    weights = [number - (len(names) - 1) / 2 for number in range(len(names))]
    for number, (name, weight) in enumerate(zip(names, weights, strict=True)):
        gap = gap_record(axis, weight, 12 * (number + 1))
        groups[name] = {
            "score": {"value": original * (1 - total * weight), "ci": [0.1, 0.2]},
            "gap": {key: gap[key] for key in gap if key not in ("contributions", "dialogues")}
            | ({"above_placebo": estimate(total * weight - 0.01, enough=enough)} if axis != "placebo" else {}),
            "contributions": gap["contributions"],
            "dialogues": gap["dialogues"],
            "words_effective": words,
        }
    for (first, source), (second, target) in permutations(enumerate(names), 2):
        pairs[f"{source}>{target}"] = gap_record(axis, weights[second] - weights[first], 12 * (min(first, second) + 1))
    record: dict[str, Any] = {
        "scale": METRICS[metric]["scale"],
        "original": {"value": original, "ci": [0.15, 0.19]},
        "rewritten": {"value": original * (1 - total), "ci": [0.14, 0.18]},
        "disparity": {
            **estimate(total, enough=enough, p_value=p / 3, **claimed),
            "clusters": {"dialogues": 100, "words": 9, "words_effective": words},
            "equivalent_within": 0.21 if enough else None,
            "mde": 0.084 if enough else None,
        },
        "contributions": {name: part | {"p_value": 0.02} for name, part in parts_of(parts, 1, enough).items()},
        "interactions": {"×".join(pair): estimate(0.001, enough=enough) for pair in combinations(sorted(parts), 2)},
        "artefact": estimate(0.002, 0.001, enough=enough),
        "groups": groups,
        "pairs": pairs,
        "arms": arms_of(parts, original),
        "spread": {"value": 0.05},
        "words": {
            "number": 9,
            "effective": words,
            "strongest": [
                {"word": "mom/dad/parent", "dialogues": 20, "part": 0.03, "without": 0.09},
                {"word": "kid", "dialogues": 5, "part": 0.01, "without": 0.11},
            ],
        },
        "verdict": verdict,
    }
    if axis != "placebo":
        record["above_placebo"] = {
            **estimate(total - 0.011, enough=enough, p_value=0.01),
            "dialogues": 90,
            "words_changed": {"axis": 1.6, "placebo": 1.5 if axis != "race" else 0.4},
        }
    if METRICS[metric]["scale"] == "ratio":
        record["su"] = {
            "fairscore": estimate(total + 0.002),
            "total": estimate(total - parts["db"] + 0.002),
            "attribution": {"order": list(ORDER), **parts_of(parts, 1, True), "residual": estimate(0.002, 0.001)},
        }
    return record


def results_of(
    axes: tuple[str, ...] = tuple(PARTS), metrics: tuple[str, ...] = ("corpus_bleu",), **changes: Any
) -> dict[str, Any]:
    return {
        "schema": 2,
        "corpus": {
            "name": "made_up",
            "split": "test",
            "dialogues": 1200,
            "audited": {axis: 100 * (number + 1) for number, axis in enumerate(axes)},
        },
        "pipeline": list(STAGES),
        "design": "crossed",
        "draws": None,
        "seed": 0,
        "history": "gold",
        "margin": None,
        "metrics": {name: METRICS[name] for name in metrics},
        "signature": {"sacrebleu": "2.6.0", "dtype": "float32"},
        "axes": {axis: {metric: outcome_record(axis, metric) for metric in metrics} for axis in axes},
        "cost": {"asked": {"db": 48000}, "distinct": {"db": 3100}, "seconds": 73.4},
        **changes,
    }


SPOKEN = {
    "gender": ("woman", "man", "mom", "Is there a quiet place for my {} near the lake?"),
    "age": ("child", "senior", "child", "Do you have a seat for a {} on that train?"),
    "race": ("white", "hispanic", "American", "I would like {} food tonight."),
}
TARGET_WORDS = {"gender": "dad", "age": "senior", "race": "Hispanic"}


def bleu_statistics(hypothesis: str, reference: str) -> dict[str, int]:
    ours, theirs = hypothesis.split(), reference.split()
    row = {"bleu_hyp_len": len(ours), "bleu_ref_len": len(theirs)}
    for n in range(1, 5):
        left, right = (list(zip(*(words[k:] for k in range(n)), strict=False)) for words in (ours, theirs))
        row[f"bleu_correct_{n}"] = sum(min(left.count(gram), right.count(gram)) for gram in set(left))
        row[f"bleu_total_{n}"] = len(left)
    return row


def turn_rows(axis: str, dialogue: int) -> list[dict[str, Any]]:
    """The original, two tellings as another attribute, and one with neutral words exchanged."""
    source, target, word, text = SPOKEN[axis]
    tellings = [(None, None, None, None), (0, source, target, word), (1, source, target, word)]
    tellings.append((2, "original", "placebo", "please"))
    rows = []
    for turn in range(2):
        for draw, told_from, told_as, by in tellings:
            for arm in ("original",) if draw is None else ("", "db", "db,response"):
                who = TARGET_WORDS[axis] if told_as == target else word
                reference = f"How about Cafe {dialogue} on Main Street ? It is nice ."
                found = arm != "" or (dialogue + turn) % 3 == 0
                response = reference if found else f"Sorry , I found nothing near street {dialogue} ."
                rows.append(
                    {
                        "axis": axis, "dialogue": f"{axis}-{dialogue}", "turn": turn, "draw": draw, "sample": 0,
                        "source": told_from, "target": told_as, "word": by, "arm": arm, "user": text.format(who),
                        "api_call": f"api_name = Find ; who = {who}", "db": f"name = Cafe {dialogue}" if found else "",
                        "response": response, "reference": reference,
                        **bleu_statistics(response, reference),
                        "refusal_refused": float(not found), "refusal_responses": 1.0,
                    }
                )  # fmt: skip
    return rows


def turns_of() -> pd.DataFrame:
    frame = pd.DataFrame([row for axis in SPOKEN for dialogue in range(8) for row in turn_rows(axis, dialogue)])
    return frame.astype({"draw": "Int64"})


def write_folder(folder: Path, *, keep_turns: bool = True, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results_of(**changes)), encoding="utf-8")
    if keep_turns:
        turns_of().to_parquet(folder / "turns.parquet")
    return folder


@pytest.fixture
def make_results() -> Callable[..., dict[str, Any]]:
    """A maker of ``results.json``: ``make_results(axes=("gender", "placebo"), metrics=("refusal",))``."""
    return results_of


@pytest.fixture
def turns() -> pd.DataFrame:
    """``turns.parquet`` of the made-up run."""
    return turns_of()


@pytest.fixture(scope="session")
def write_run() -> Callable[..., Path]:
    """A writer of run folders: ``write_run(folder, axes=…, keep_turns=False)``."""
    return write_folder


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[..., Path]:
    """The same in the test's own folder: ``make_folder("name")``."""
    return lambda name="run", **options: write_folder(tmp_path / name, **options)
