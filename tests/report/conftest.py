"""A deterministic made-up run: results and turns whose numbers are consistent, written without the engine."""

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
    "placebo": ("weekday", "weekend"),
}

# axis: part of each stage, residual, sign, p
PARTS: Mapping[str, tuple[Mapping[str, float], float, int, float]] = {
    "gender": ({"db": 0.012, "api_call": 0.009, "response": 0.081}, 0.001, 1, 0.0004),
    "age": ({"db": 0.006, "api_call": -0.015, "response": 0.021}, 0.002, 1, 0.21),
    "race": ({"db": 0.055, "api_call": -0.012, "response": 0.041}, 0.0, -1, 0.003),
    "placebo": ({"db": 0.004, "api_call": 0.002, "response": 0.005}, 0.0, 1, 0.34),
}


def arms_of(parts: Mapping[str, float], total: float) -> dict[str, float]:
    """Fairscore by set of swapped stages: what is left of the total, without its sign as every fairscore."""
    sets = [names for size in range(len(STAGES) + 1) for names in combinations(sorted(STAGES), size)]
    return {",".join(names): abs(total - sum(parts[name] for name in names)) for names in sets}


def shapley_of(arms: Mapping[str, float]) -> dict[str, float]:
    drops: dict[str, list[float]] = {name: [] for name in STAGES}
    for order in permutations(STAGES):
        for place, name in enumerate(order):
            before, after = (",".join(sorted(order[:end])) for end in (place, place + 1))
            drops[name].append(arms[before] - arms[after])
    return {name: sum(found) / len(found) for name, found in drops.items()}


def estimate(value: float, half: float = 0.008) -> dict[str, Any]:
    return {"value": value, "ci": [value - half, value + half]}


def effect(
    parts: Mapping[str, float], residual: float, sign: int, p_value: float, original: float, half: float
) -> dict[str, Any]:
    total = sum(parts.values()) + residual
    return {
        "bleu_original": original,
        "bleu_perturbed": original * (1 - sign * total),
        "fairscore": {"value": total, "ci": [max(0.0, total - half), total + half], "p_value": p_value},
        "signed": sign * total,
        "signed_ci": sorted((sign * total - half, sign * total + half)),
        "attribution": {
            "order": list(ORDER),
            **{name: estimate(parts[name], half) for name in ORDER},
            "residual": estimate(residual, 0.001),
        },
        "shapley": {name: estimate(part, half) for name, part in shapley_of(arms_of(parts, total)).items()},
    }


def axis_record(name: str) -> dict[str, Any]:
    parts, residual, sign, p_value = PARTS[name]
    half = 0.03 if name == "age" else 0.008
    record = effect(parts, residual, sign, p_value, 0.1731, half)
    record["fairscore"]["p_holm"] = min(1.0, 3 * p_value)
    record |= {"jga_original": 0.8123, "jga_perturbed": 0.7981}
    record["arms"] = arms_of(parts, record["fairscore"]["value"])
    pairs = {}
    for number, (source, target) in enumerate(permutations(ATTRIBUTES[name], 2)):
        swing = (-1) ** number * (1 + number / 10)
        scaled = {stage: part * abs(swing) for stage, part in parts.items()}
        way = sign if swing > 0 else -sign
        pair = effect(scaled, residual, way, p_value / 2, 0.17 + number / 500, half * 1.4)
        pairs[f"{source}>{target}"] = {**pair, "dialogues": 12 * (number + 1), "draws": 3}
    record["pairs"] = pairs
    values = [pair["fairscore"]["value"] for pair in pairs.values()]
    record["mean_over_pairs"] = {**estimate(sum(values) / len(values)), "pairs": len(values)}
    return record


def results_of(axes: tuple[str, ...] = tuple(PARTS), **changes: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "tool": "tod-bias 0.1.0",
        "corpus": {
            "name": "made_up",
            "split": "test",
            "dialogues": 1200,
            "perturbable": {axis: 100 * (number + 1) for number, axis in enumerate(axes)},
        },
        "pipeline": list(STAGES),
        "draws": 3,
        "seed": 0,
        "history": "gold",
        "metric": "corpus_bleu",
        "signature": {"sacrebleu": "2.6.0", "tokeniser": "13a", "smoothing": "exp", "dtype": "float32"},
        "axes": {axis: axis_record(axis) for axis in axes},
        "cost": {"prompts": 48000, "distinct_prompts": 3100, "cached": 120, "seconds": 73.4},
        **changes,
    }


SPOKEN = {
    "gender": ("woman", "man", "mom", "Is there a quiet place for my {} near the lake?"),
    "age": ("child", "senior", "child", "Do you have a seat for a {} on that train?"),
    "race": ("white", "hispanic", "American", "I would like {} food tonight."),
    "placebo": ("weekday", "weekend", "Monday", "Can we move it to {}?"),
}
TARGET_WORDS = {"gender": "dad", "age": "senior", "race": "Hispanic", "placebo": "Sunday"}


def bleu_statistics(hypothesis: str, reference: str) -> dict[str, int]:
    ours, theirs = hypothesis.split(), reference.split()
    row = {"bleu_hyp_len": len(ours), "bleu_ref_len": len(theirs)}
    for n in range(1, 5):
        left, right = (list(zip(*(words[k:] for k in range(n)), strict=False)) for words in (ours, theirs))
        row[f"bleu_correct_{n}"] = sum(min(left.count(gram), right.count(gram)) for gram in set(left))
        row[f"bleu_total_{n}"] = len(left)
    return row


def turn_rows(axis: str, dialogue: int) -> list[dict[str, Any]]:
    source, target, word, text = SPOKEN[axis]
    rows = []
    for turn in range(2):
        for draw in range(2):
            for arm in ("original", "", "db", "db,response"):
                spoken = text.format(word if arm == "original" else TARGET_WORDS[axis])
                reference = f"How about Cafe {dialogue} on Main Street ? It is nice ."
                found = arm != "" or (dialogue + turn) % 3 == 0
                response = reference if found else f"Sorry , I found nothing near street {dialogue} ."
                rows.append(
                    {
                        "axis": axis, "dialogue": f"{axis}-{dialogue}", "turn": turn, "draw": draw,
                        "source": source, "target": target, "word": word, "arm": arm, "user": spoken,
                        "api_call": f"api_name = Find ; who = {word if arm == 'original' else TARGET_WORDS[axis]}",
                        "db": f"name = Cafe {dialogue}" if found else "",
                        "response": response, "reference": reference,
                        **bleu_statistics(response, reference),
                    }
                )  # fmt: skip
    return rows


def turns_of() -> pd.DataFrame:
    return pd.DataFrame([row for axis in SPOKEN for dialogue in range(8) for row in turn_rows(axis, dialogue)])


def write_folder(folder: Path, *, keep_turns: bool = True, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results_of(**changes)), encoding="utf-8")
    if keep_turns:
        turns_of().to_parquet(folder / "turns.parquet")
    return folder


@pytest.fixture
def make_results() -> Callable[..., dict[str, Any]]:
    """A maker of ``results.json``: ``make_results(axes=("gender", "placebo"))``."""
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
