"""Results of a run as plain values that a person can read in a diff.

An estimate is ``[value, standard error, lower bound, upper bound, p]``, of which the end is left out where it is not
there. Numbers have ten significant digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

_WHOLE = (
    "check.json", "mitigation.json", "compare.json", "plan.json", "evaluation.json", "audit.json", "associations.json",
)  # fmt: skip
"""Records that are kept as they are but for ``_NOT_COMPARED``; of results.json there is a summary."""
_NOT_COMPARED = {
    "reason",  # prose, like the next two
    "notes",
    "warning",
    "seconds",
    "seconds_by_component",
    "seconds_by_stage",
    "signature",
    "hash",
    "created",
    "versions",
    "files",
    "config",
}
"""Names of values that depend on machine, path or version."""
_PATHS = ("run", "before", "after")
"""Names of folders where they are texts, and of results where they are not."""
DIGITS = 10
ZERO = 1e-11
"""What is smaller is the rounding error of a sum."""
TOLERANCE = 1e-9
"""A change of the ninth digit is seen; ten digits are kept, so rounding is not."""
ITERATED = 1e-6
"""Of associations: scikit-learn's support vectors are found by iteration, which ends elsewhere on another processor."""
WIDTH = 120
MOST_GROUPS = 4
"""Of an axis whose pairs of groups and shares by group are kept; of axes with more groups the widest pair is."""
_OF_CASE = ("id", "term", "stage", "event", "what", "shown", "turn", "turns", "user", "response", "history")


def facts_of(folder: Path) -> dict[str, Any]:
    """All facts of everything that was written in a folder: file to what it holds."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.name == "results.json":
            found[name] = _of_results(json.loads(path.read_text()))
        elif path.name in _WHOLE:
            found[name] = _short(json.loads(path.read_text()))
        elif path.name == "turns.parquet":
            found[name] = _of_turns(_joined(path))
        elif path.name == "calls.jsonl":
            found[name] = _of_calls(path)
        elif path.suffix == ".csv" and path.parent != folder:
            found[name] = {"rows": len(pd.read_csv(path)), "sum": _sum(pd.read_csv(path))}
        elif path.name == "cases.jsonl":
            records = map(json.loads, path.read_text().splitlines())
            found[name] = [{key: record[key] for key in _OF_CASE} for record in records]
    return _rounded(found)


def written(found: dict[str, Any]) -> str:
    """Return the text of a golden file; a file that holds the same as an earlier one names it."""
    short: dict[str, Any] = {}
    for name, facts in found.items():
        earlier = next((one for one, known in short.items() if known == facts), None)
        short[name] = f"as {earlier}" if earlier else facts
    return to_text(short) + "\n"


def read(text: str) -> dict[str, Any]:
    """Return the facts of a golden file."""
    short = json.loads(text)
    return {name: short[one.removeprefix("as ")] if isinstance(one, str) else one for name, one in short.items()}


def _short(value: Any) -> Any:
    """A record without what is not compared, with estimates as lists."""
    if isinstance(value, dict):
        if {"value", "se", "df", "ci", "p"} <= value.keys():
            return _estimate(value)
        return {
            key: _short(item)
            for key, item in value.items()
            if key not in _NOT_COMPARED and not (key in _PATHS and isinstance(item, str))
        }
    return [_short(item) for item in value] if isinstance(value, list) else value


def _estimate(one: Mapping[str, Any] | None) -> list[Any] | None:
    if one is None:
        return None
    numbers = [one["value"], one["se"], *(one["ci"] or (None, None)), one["p"]]
    while numbers[-1] is None and len(numbers) > 1:
        numbers.pop()
    return numbers


def _of_results(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "findings": [_finding(one) for one in record["findings"]],
        "axes": {
            axis: {metric: _of_metric(one) for metric, one in by_metric.items()}
            for axis, by_metric in record["axes"].items()
        },
        "first_differences": {
            axis: {group: [_without(one, "others") for one in places] for group, places in by_group.items()}
            for axis, by_group in record["first_differences"].items()
        },
        **{name: _short(record[name]) for name in ("corpus", "stages", "reworded", "failed")},
        "cost": {name: record["cost"][name] for name in ("calls", "distinct", "failed")},
    }


def _without(one: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key != name}


def _finding(one: Mapping[str, Any]) -> dict[str, Any]:
    """All that a finding says, its example as the two lines that are shown."""
    example = one["example"] or {}
    shown = {name: example[name] for name in ("dialogue", "turn", "original", "counterfactual") if name in example}
    return {key: value for key, value in _short(one).items() if value not in ("", [], {}, None)} | {"example": shown}


def _of_metric(one: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: one[name] for name in ("verdict", "limiting_factors", "dialogues", "smallest")}
    found |= {name: _estimate(one[name]) for name in ("original", "rewritten", "disparity", "artefact")}
    found |= {"beyond_placebo": _estimate(one["beyond_placebo"]), "omnibus": (one["omnibus"] or {}).get("p")}
    found |= {"contributions": _shares(one), "interactions": _values(one["interactions"])}
    found |= {name: one[name] for name in ("mde", "spread", "arms")}
    found["groups"] = {group: _of_group(row) for group, row in one["groups"].items()}
    if len(one["groups"]) <= MOST_GROUPS:
        shares = {group: _shapley(row["contributions"]) for group, row in one["groups"].items()}
        found["groups"] = {group: row | {"contributions": shares[group]} for group, row in found["groups"].items()}
    found["apart"] = {group: _estimate(row) for group, row in one["apart"].items()}
    if len(one["groups"]) <= MOST_GROUPS:
        found["pairs"] = {name: _value_and_p(row) for name, row in _once(one["pairs"])}
    if one["widest"]:
        widest = one["widest"]
        found["widest"] = {f"{widest['better']} > {widest['worse']}": _estimate(widest["gap"])}
    found["terms"] = {f"{row['group']}: {row['term']}": row["contribution"] for row in one["terms"]}
    if one["su"]:
        su = one["su"]
        found["su"] = {"fairscore": _estimate(su["fairscore"]), "total": _estimate(su["total"])}
        found["su"] |= {name: row["value"] for name, row in su["attribution"].items() if name != "order"}
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _of_group(row: Mapping[str, Any]) -> dict[str, Any]:
    counts = {"affected": row["affected"]} if row["affected"] else {}
    return {
        "gap": _estimate(row["gap"]),
        "beyond_placebo": _value_and_p(row["beyond_placebo"]),
        "score": row["score"]["value"],
    } | counts


def _shares(one: Mapping[str, Any]) -> dict[str, Any]:
    """Stage to the estimate of its Shapley share, and the values with it alone replaced, and alone left."""
    found = {
        stage: {
            "shapley": _estimate(rows["shapley"]),
            "alone": [rows["replaced_alone"]["value"], rows["left_alone"]["value"]],
        }
        for stage, rows in one["contributions"].items()
    }
    return found | ({"unattributed": _estimate(one["unattributed"])} if one["unattributed"] else {})


def _shapley(contributions: Mapping[str, Any]) -> dict[str, Any]:
    return _values({stage: rows["shapley"] for stage, rows in contributions.items()})


def _value_and_p(row: Mapping[str, Any] | None) -> list[Any] | None:
    return [row["value"], row["p"]] if row else None


def _values(rows: Mapping[str, Any]) -> dict[str, Any]:
    return {name: [row["value"], row["se"]] for name, row in rows.items()}


def _once(pairs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each pair of groups in one order, where the other order is its negative."""
    for name, row in pairs.items():
        one, _, other = name.partition(">")
        opposite = pairs.get(f"{other}>{one}")
        if opposite is None or one < other or not math.isclose(opposite["value"], -row["value"], abs_tol=ZERO):
            yield name, row


def _sum(frame: pd.DataFrame) -> float:
    return float(frame.select_dtypes("number").fillna(0).to_numpy().sum())


def _joined(path: Path) -> pd.DataFrame:
    """The turns of a run, with the edits of each counterfactual; an evaluation has none."""
    turns = pd.read_parquet(path)
    if not path.with_name("variants.parquet").is_file():
        return turns.assign(edits=float("nan"))
    keys = ["axis", "dialogue", "variant"]
    variants = pd.read_parquet(path.with_name("variants.parquet"))[[*keys, "edits"]]
    return turns.merge(variants, on=keys, how="left", validate="many_to_one")


def _of_turns(frame: pd.DataFrame) -> dict[str, Any]:
    """By axis and group: number of turns, different texts of stages, their characters; the sums of the statistics.

    A statistic has one sum per arm if arms differ, and one in all if they do not.
    """
    numbers = [name for name in frame.select_dtypes("float").columns if name not in ("sample", "turn")]
    texts = [name for name in frame.columns if name in ("user", "response", "steps", "first_difference", "facts")]
    found: dict[str, Any] = {}
    for (axis, group), part in frame.fillna({"group": "", "arm": ""}).groupby(["axis", "group"], sort=True):
        sums = {name: part.fillna({name: 0}).groupby("arm", sort=True)[name].sum().tolist() for name in numbers}
        found[f"{axis}/{group}"] = {
            "turns": len(part),
            "texts": {name: [part[name].nunique(), int(part[name].str.len().sum())] for name in texts},
            "sums": {name: values if len(set(values)) > 1 else values[0] for name, values in sums.items()},
        }
    return found


def _of_calls(path: Path) -> dict[str, Any]:
    """How many different calls each stage got, and of how many characters."""
    by_stage: dict[str, set[str]] = {}
    for line in path.read_text().splitlines():
        by_stage.setdefault(json.loads(line)[0], set()).add(line)
    return {stage: [len(lines), sum(map(len, lines))] for stage, lines in sorted(by_stage.items())}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, float):
        short = 0.0 if abs(value) < ZERO else float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() else short
    return value


def to_text(value: Any, indent: int = 0, begin: str = "", end: str = "") -> str:
    """JSON in which what fits into a line stands on one line."""
    line = f"{' ' * indent}{begin}{json.dumps(value, ensure_ascii=False)}{end}"
    if not (isinstance(value, dict | list) and value) or len(line) <= WIDTH:
        return line
    items = [(f"{json.dumps(key, ensure_ascii=False)}: ", one) for key, one in _items(value)]
    last = len(items) - 1
    lines = [
        to_text(one, indent + 1, key if isinstance(value, dict) else "", "," if number < last else "")
        for number, (key, one) in enumerate(items)
    ]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([f"{' ' * indent}{begin}{opening}", *lines, f"{' ' * indent}{closing}{end}"])


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else list(enumerate(value))


def differences(golden: Any, today: Any, name: str = "") -> list[str]:
    """What is not as it was, a line each."""
    if isinstance(golden, dict) and isinstance(today, dict):
        names = [*golden, *(key for key in today if key not in golden)]
        absent = "nothing"
        pairs = [(f"{name}/{key}", golden.get(key, absent), today.get(key, absent)) for key in names]
    elif isinstance(golden, list) and isinstance(today, list) and len(golden) == len(today):
        pairs = [(f"{name}/{number}", *both) for number, both in enumerate(zip(golden, today, strict=True))]
    else:
        tolerance = ITERATED if name.startswith("/associations/") else TOLERANCE
        return [] if _is_same(golden, today, tolerance) else [f"{name}: {_clipped(today)}, was {_clipped(golden)}"]
    return [line for where, was, now in pairs for line in differences(was, now, where)]


def _clipped(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}…"


def _is_same(one: Any, other: Any, tolerance: float) -> bool:
    if _is_number(one) and _is_number(other):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=ZERO) or (one != one and other != other)
    return bool(one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
