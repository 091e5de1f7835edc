"""What a run came to, as plain values by name: floats are compared to 1e-12, texts exactly."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

_RECORDS = (
    "results.json", "check.json", "mitigation.json", "compare.json", "plan.json", "evaluation.json",
    "audit.json", "associations.json",
)  # fmt: skip
_NOT_COMPARED = {
    "reason",  # prose
    "seconds",
    "seconds_by_component",
    "seconds_by_stage",
    "signature",
    "hash",
    "created",
    "versions",
    "run",
    "before",
    "after",
    "files",
}
"""Names of values that depend on machine, path or version."""
_KEY = ["axis", "dialogue", "variant"]
_NO_TEXTS = ("variant", "draw", "term", "source", "role", "edits")
"""Columns of turns that are not compared as texts."""
TOLERANCE = 1e-12
ITERATED = 1e-7
"""Of associations: scikit-learn's support vectors are found by iteration, which ends elsewhere on another processor."""


def facts_of(folder: Path) -> dict[str, Any]:
    """All facts of everything that was written in a folder."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.name in _RECORDS:
            found |= {f"{name}:{key}": value for key, value in _flat(json.loads(path.read_text()))}
        elif path.name == "turns.parquet":
            found |= {f"{name}:{key}": value for key, value in _of_turns(_joined(path))}
        elif path.name == "calls.jsonl":
            found |= dict(_of_calls(path))
        elif path.suffix == ".csv" and path.parent != folder:
            found |= {f"{name}:rows": len(pd.read_csv(path)), f"{name}:sum": _sum(pd.read_csv(path))}
        elif path.name == "cases.jsonl":
            for number, line in enumerate(path.read_text().splitlines()):
                found |= {f"{name}:{number}.{key}": value for key, value in _flat(json.loads(line))}
    return found


def _flat(value: Any, name: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [
            pair
            for key, item in value.items()
            if key not in _NOT_COMPARED or (key == "run" and isinstance(item, dict))
            for pair in _flat(item, f"{name}.{key}" if name else key)
        ]
    if isinstance(value, list):
        return [pair for number, item in enumerate(value) for pair in _flat(item, f"{name}.{number}")]
    return [(name, value)]


def _sum(frame: pd.DataFrame) -> float:
    return float(frame.select_dtypes("number").fillna(0).to_numpy().sum())


def _joined(path: Path) -> pd.DataFrame:
    """The turns of a run, with what its table of counterfactuals says of each."""
    turns = pd.read_parquet(path)
    names = list(turns.columns)
    if path.with_name("variants.parquet").is_file():
        variants = pd.read_parquet(path.with_name("variants.parquet"))
        variants = variants[[*_KEY, "draw", "term", "source", "edits", "system_prompt"]]
        joined = turns.merge(variants, on=_KEY, how="left", validate="many_to_one")
    else:  # an evaluation has no counterfactuals
        nothing = pd.Series(None, index=turns.index, dtype="str")
        joined = turns.assign(draw=0, term=nothing, source=nothing, edits=float("nan"), system_prompt=nothing)
    place = names.index("arm") + 1
    return joined[[*names[:place], "system_prompt", *names[place:], "draw", "term", "source", "edits"]]


def _of_turns(frame: pd.DataFrame) -> list[tuple[str, Any]]:
    """By axis, group and arm: the number of turns, the sums of statistics, and a digest of the texts."""
    found: list[tuple[str, Any]] = []
    keys = ["axis", "group", "arm"]
    numbers = [name for name in frame.select_dtypes("float").columns if name not in ("sample", "turn")]
    texts = [name for name in frame.columns if name not in (*keys, *numbers, *_NO_TEXTS)]
    for key, part in frame.fillna({"group": "", "arm": ""}).groupby(keys, sort=True):
        name = "/".join(map(str, key))
        found += [(f"{name}.turns", len(part)), (f"{name}.texts", _digest(part[texts]))]
        found += [(f"{name}.{column}", math.fsum(part[column].fillna(0))) for column in numbers]
    return found


def _digest(frame: pd.DataFrame) -> str:
    lines = sorted("\x1f".join(map(str, row)) for row in frame.itertuples(index=False))
    return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()[:16]


def _of_calls(path: Path) -> list[tuple[str, Any]]:
    """How many different calls each stage got, and which."""
    by_stage: dict[str, set[str]] = {}
    for line in path.read_text().splitlines():
        by_stage.setdefault(json.loads(line)[0], set()).add(line)
    return [
        (f"calls of {stage}", [len(lines), hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]])
        for stage, lines in sorted(by_stage.items())
    ]


def differences(golden: dict[str, Any], today: dict[str, Any]) -> list[str]:
    """What is not as it was, a line each; what was null may be missing."""
    lines = []
    for name, value in golden.items():
        if name not in today and value is not None:
            lines.append(f"{name}: is gone, was {value!r}")
        elif not _is_same(value, today.get(name), ITERATED if name.startswith("associations/") else TOLERANCE):
            lines.append(f"{name}: {today.get(name)!r}, was {value!r}")
    return lines


def _is_same(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance) or (one != one and other != other)
    return bool(one == other)
