"""A deterministic made-up run: numbers that add up as the contract says, written without the engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tod_bias.audit.findings import findings_of
from tod_bias.results import AuditResult


@pytest.fixture(autouse=True)
def painting() -> None:
    """Figures are painted here."""


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
# axis: verdict, p of gaps, p with these terms as they are, effective terms
EVIDENCE: Mapping[str, tuple[str, float, float, float]] = {
    "gender": ("disparity", 0.0004, 0.0004, 8.2),
    "age": ("inconclusive", 0.33, 0.3, 7.1),
    "race": ("these terms only", 0.003, 0.003, 1.4),
    "placebo": ("placebo", 1.0, 1.0, 10.3),
}
METRICS = {
    "corpus_bleu": {"label": "BLEU", "better": "higher", "scale": "ratio", "signature": "tok:13a", "range": (0, 1)},
    "refusal": {
        "label": "refusals",
        "better": "lower",
        "scale": "difference",
        "signature": "patterns",
        "range": (0, 1),
    },
    "length": {"label": "words in a response", "better": "neither", "scale": "difference", "signature": "words"},
}


def estimate(value: float, half: float = 0.008, *, p: float | None = None, **more: Any) -> dict[str, Any]:
    return {"value": value, "se": half / 2, "df": 20.0, "ci": [value - half, value + half], "p": p, **more}


def parts_of(parts: Mapping[str, float], scale: float, **more: Any) -> dict[str, Any]:
    """Shares that a stage removes alone and keeps alone as well."""
    return {
        name: dict.fromkeys(("shapley", "replaced_alone", "left_alone"), estimate(part * scale, **more))
        for name, part in parts.items()
    }


def arms_of(parts: Mapping[str, float], original: float) -> dict[str, float]:
    """The score by set of swapped stages: what the others still take from the originals' score."""
    sets = [names for size in range(len(parts) + 1) for names in combinations(sorted(parts), size)]
    return {
        ",".join(names): original * (1 - sum(part for name, part in parts.items() if name not in names))
        for names in sets
    }


def gap_of(axis: str, scale: float, *, terms_only: bool = False) -> dict[str, Any]:
    """A gap: its interval leaves out 0 where its p-value is small."""
    p = EVIDENCE[axis][2 if terms_only else 1] if scale else 1.0
    scope = {"scope": "terms"} if axis == "race" or terms_only else {}
    return estimate(sum(PARTS[axis].values()) * scale, 0.008 if p < 0.05 else 0.2, p=p, **scope)


def axis_record(axis: str, metric: str) -> dict[str, Any]:
    verdict, p, _, terms = EVIDENCE[axis]
    parts, names = PARTS[axis], ATTRIBUTES[axis]
    scope = {"scope": "terms"} if axis == "race" else {}
    total, original = sum(parts.values()), 0.1731
    groups, pairs = {}, {}
    weights = [number - (len(names) - 1) / 2 for number in range(len(names))]
    for number, (name, weight) in enumerate(zip(names, weights, strict=True)):
        groups[name] = {
            "dialogues": 12 * (number + 1),
            "terms": {"number": 9, "effective": terms, "largest_share": 0.12},
            "score": {"value": original * (1 - total * weight), "ci": [0.1, 0.2]},
            "gap": gap_of(axis, weight),
            "beyond_placebo": estimate(total * weight * 0.9, p=p if weight else 1.0) if axis != "placebo" else None,
            "terms_only": gap_of(axis, weight, terms_only=True),
            "contributions": parts_of(parts, weight, **scope),
        }
    for (first, source), (second, target) in permutations(enumerate(names), 2):
        scale = weights[second] - weights[first]
        pairs[f"{source}>{target}"] = {
            **gap_of(axis, scale),
            "dialogues": 12 * (min(first, second) + 1),
        }
    widest = weights[-1] - weights[0]
    record: dict[str, Any] = {
        "verdict": verdict,
        "scale": METRICS[metric]["scale"],
        "omnibus": {"p": p, **scope} if axis != "placebo" else None,
        "dialogues": 100,
        "mde": 0.084 if axis != "race" else None,
        "equivalent_within": 0.21 if axis != "race" else None,
        "original": {"value": original, "ci": [0.15, 0.19]},
        "rewritten": {"value": original * (1 - total), "ci": [0.14, 0.18]},
        "disparity": estimate(total, p=p / 3, **scope),
        "artefact": estimate(0.002, 0.001),
        "contributions": parts_of(parts, 1, p=0.02),
        "interactions": {"×".join(pair): estimate(0.001) for pair in combinations(sorted(parts), 2)},
        "groups": groups,
        "apart": {names[-1]: gap_of(axis, weights[-1] - sum(weights[:-1]) / (len(weights) - 1))},
        "spread": 0.05,
        "widest": {
            "worse": names[-1],
            "better": names[0],
            "gap": gap_of(axis, widest),
            "contributions": parts_of(parts, widest, **scope),
        },
        "pairs": pairs,
        "arms": arms_of(parts, original),
        "terms": [
            {"term": "mom/dad/parent", "group": names[0], "dialogues": 20, "contribution": 0.03, "share": 0.12},
            {"term": "kid", "group": names[-1], "dialogues": 5, "contribution": 0.01, "share": 0.05},
        ],
    }
    if axis != "placebo":
        record["beyond_placebo"] = {
            **estimate(total - 0.011),
            "dialogues": 90,
            "edits": {"axis": 1.6, "placebo": 1.5 if axis != "race" else 0.4},
        }
    if METRICS[metric]["scale"] == "ratio":
        shares = {name: estimate(part) for name, part in parts.items()}
        record["su"] = {
            "fairscore": estimate(total + 0.002),
            "total": estimate(total - parts["db"] + 0.002),
            "attribution": {"order": list(ORDER), **shares, "residual": estimate(0.002, 0.001)},
        }
    return record


def record_of(
    axes: tuple[str, ...] = tuple(PARTS), metrics: tuple[str, ...] = ("corpus_bleu",), **changes: Any
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "schema": 3,
        "corpus": {
            "name": "made_up",
            "split": "test",
            "dialogues": 1200,
            "audited": {axis: 100 * (number + 1) for number, axis in enumerate(axes)},
        },
        "stages": list(STAGES),
        "metrics": {name: METRICS[name] for name in metrics},
        "signature": {"sacrebleu": "2.6.0", "dtype": "float32"},
        "axes": {axis: {metric: axis_record(axis, metric) for metric in metrics} for axis in axes},
        "cost": {"calls": {"db": 48000}, "distinct": {"db": 3100}, "seconds": 73.4},
        **changes,
    }
    found = findings_of(AuditResult.model_validate(record))
    record["findings"] = [finding.model_dump(mode="json") | {"example": dict(EXAMPLE)} for finding in found]
    return record


EXAMPLE = {
    "dialogue": "gender-1",
    "turn": 0,
    "variant": "gender:non-binary",
    "user": "A quiet place for my spouse?",
    "user_original": "A quiet place for my mom?",
    "original": "city York",
    "counterfactual": "city missing",
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


def variants_along(axis: str) -> list[tuple[str | None, ...]]:
    """Name, role, groups and term of every variant of a dialogue."""
    source, target, word, _ = SPOKEN[axis]
    return [
        ("original", "original", None, None, None),
        *((f"{axis}:{target}:{draw}", "group", source, target, word) for draw in (0, 1)),
        (f"placebo:{axis}", "placebo", "original", "placebo", "please"),
    ]


def turn_rows(axis: str, dialogue: int) -> list[dict[str, Any]]:
    """The original, two variants of another group, and one of the placebo."""
    _, target, word, text = SPOKEN[axis]
    rows = []
    for turn in range(2):
        for variant, role, _, after, _ in variants_along(axis):
            for arm in ("original",) if role == "original" else ("", "db", "db,response"):
                who = TARGET_WORDS[axis] if after == target else word
                reference = f"How about Cafe {dialogue} on Main Street ? It is nice ."
                found = arm != "" or (dialogue + turn) % 3 == 0
                response = reference if found else f"Sorry , I found nothing near street {dialogue} ."
                rows.append(
                    {
                        "axis": axis, "dialogue": f"{axis}-{dialogue}", "turn": turn, "variant": variant,
                        "sample": 0, "role": role, "group": after, "arm": arm,
                        "user": text.format(who),
                        "api_call": f"api_name = Find ; who = {who}", "db": f"name = Cafe {dialogue}" if found else "",
                        "response": response, "reference": reference,
                        **bleu_statistics(response, reference),
                        "refusal_refused": float(not found), "refusal_responses": 1.0,
                    }
                )  # fmt: skip
    return rows


def turns_of() -> pd.DataFrame:
    return pd.DataFrame([row for axis in SPOKEN for dialogue in range(8) for row in turn_rows(axis, dialogue)])


def variants_of() -> pd.DataFrame:
    """``variants.parquet`` of the made-up run."""
    names = ("variant", "role", "source", "group", "term")
    rows = [
        {"axis": axis, "dialogue": f"{axis}-{dialogue}", **dict(zip(names, variant, strict=True)), "draw": 0}
        for axis in SPOKEN
        for dialogue in range(8)
        for variant in variants_along(axis)
    ]
    of_group = [row["role"] == "group" for row in rows]
    terms = [[row["term"]] if is_group else None for row, is_group in zip(rows, of_group, strict=True)]
    return pd.DataFrame(rows).assign(source_terms=terms, terms=terms, factors=None, edits=None, system_prompt=None)


def write_folder(folder: Path, *, keep_turns: bool = True, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(record_of(**changes)), encoding="utf-8")
    if keep_turns:
        turns_of().to_parquet(folder / "turns.parquet")
        variants_of().to_parquet(folder / "variants.parquet")
    return folder


@pytest.fixture
def make_record() -> Callable[..., dict[str, Any]]:
    """A maker of the content of ``results.json``: ``make_record(axes=("gender", "placebo"), metrics=("refusal",))``."""
    return record_of


@pytest.fixture
def make_results() -> Callable[..., AuditResult]:
    """The same as a result."""
    return lambda *args, **changes: AuditResult.model_validate(record_of(*args, **changes))


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
