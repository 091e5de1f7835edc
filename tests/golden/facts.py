"""What a run came to, as plain values under names that outlive a change of schema.

:data:`RENAMED` maps the names that the golden files use to those of today's files; :data:`DROPPED` lists golden names
that today's files no longer have on purpose. Everything else must be equal: floats to 1e-12, texts exactly.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

RENAMED: dict[str, str] = {"--these-words": "--terms-only"}
"""Part of a golden name or text to part of today's."""
DROPPED: tuple[str, ...] = ()
_RECORDS = (
    "results.json", "check.json", "repair.json", "compare.json", "plan.json", "pilot.json", "evaluation.json",
    "audit.json", "associations.json", "batches.json",
)  # fmt: skip
_NOT_COMPARED = {
    "seconds",
    "seconds_by_component",
    "signature",
    "hash",
    "created",
    "versions",
    "run",
    "batch_out",
    "before",
    "after",
    "files",
}
"""Names of values that depend on machine, path or version."""
_TEXTS = ("user", "reference")
TOLERANCE = 1e-12


def facts_of(folder: Path) -> dict[str, Any]:
    """All facts of everything that was written in a folder."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.name in _RECORDS:
            found |= {f"{name}:{key}": value for key, value in _flat(json.loads(path.read_text()))}
        elif path.name == "turns.parquet":
            found |= {f"{name}:{key}": value for key, value in _of_turns(pd.read_parquet(path))}
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
            if key not in _NOT_COMPARED
            for pair in _flat(item, f"{name}.{key}" if name else key)
        ]
    if isinstance(value, list):
        return [pair for number, item in enumerate(value) for pair in _flat(item, f"{name}.{number}")]
    return [(name, value)]


def _sum(frame: pd.DataFrame) -> float:
    return float(frame.select_dtypes("number").fillna(0).to_numpy().sum())


def _of_turns(frame: pd.DataFrame) -> list[tuple[str, Any]]:
    """By axis, group and arm: the number of turns, the sums of statistics, and a digest of the texts."""
    found: list[tuple[str, Any]] = []
    keys = ["axis", "target", "arm"]
    numbers = [name for name in frame.select_dtypes("float").columns if name not in ("draw", "sample", "turn")]
    texts = [name for name in frame.columns if name not in (*keys, *numbers, "draw", "clusters", "word", "source")]
    for key, part in frame.fillna({"target": "", "arm": ""}).groupby(keys, sort=True):
        name = "/".join(map(str, key))
        lines = sorted("\x1f".join(map(str, row)) for row in part[texts].itertuples(index=False))
        digest = hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()[:16]
        found += [(f"{name}.turns", len(part)), (f"{name}.texts", digest)]
        found += [(f"{name}.{column}", math.fsum(part[column].fillna(0))) for column in numbers]
    return found


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
    """What is not as it was, a line each."""
    found = []
    for name, value in golden.items():
        if any(part in name for part in DROPPED):
            continue
        now = name
        for old, new in RENAMED.items():
            now = now.replace(old, new)
            value = value.replace(old, new) if isinstance(value, str) else value
        if now not in today:
            found.append(f"{now}: is gone, was {value!r}")
        elif not _is_same(value, today[now]):
            found.append(f"{now}: {today[now]!r}, was {value!r}")
    return found


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (one != one and other != other)
    return bool(one == other)
