"""What a run came to, as plain values under names that outlive a change of schema.

:data:`RENAMED` maps the names that the golden files use to those of today's files; :data:`DROPPED` lists golden names
that today's files no longer have on purpose. Everything else must be equal: floats to 1e-12, texts exactly.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd

RENAMED: tuple[tuple[str, str], ...] = (
    (r"(results\.json:axes\..*)\.disparity\.clusters\.dialogues$", r"\1.dialogues"),
    (r"(results\.json:axes\..*)\.disparity\.clusters\.words$", r"\1.rests_on.number"),
    (r"(results\.json:axes\..*)\.disparity\.clusters\.words_effective$", r"\1.rests_on.effective"),
    (r"(results\.json:axes\..*)\.disparity\.clusters\.", r"\1.clusters."),
    (r"(results\.json:axes\..*)\.disparity\.(equivalent_within|mde)$", r"\1.\2"),
    (r"(results\.json:axes\..*)\.disparity\.standard_error\.value$", r"\1.mde_se"),
    (r"(results\.json:axes\..*)\.disparity\.standard_error\.these_words$", r"\1.mde_se_terms_only"),
    (r"(results\.json:axes\..*\.(disparity|omnibus))\.p_holm$", r"\1.adjusted_p"),
    (r"(results\.json:axes\..*)\.(p_value|p_holm)$", r"\1.p"),
    (r"(results\.json:axes\..*)\.p_these_words$", r"\1.terms_only.p"),
    (r"(results\.json:axes\..*)\.ci_these_words", r"\1.terms_only.ci"),
    (r"(results\.json:axes\..*)\.error\.standard$", r"\1.se"),
    (r"(results\.json:axes\..*)\.error\.freedom$", r"\1.df"),
    (r"(results\.json:axes\..*)\.error\.these_words$", r"\1.terms_only.se"),
    (r"(results\.json:axes\..*contributions)\.([^.]*)\.(?!shapley\.)", r"\1.\2.shapley."),
    (r"(results\.json:axes\..*)\.gap\.above_placebo", r"\1.beyond_placebo"),
    (r"(results\.json:axes\..*)\.above_placebo", r"\1.beyond_placebo"),
    (r"(results\.json:axes\..*)\.words_changed\.", r"\1.edits."),
    (r"(results\.json:axes\..*groups\..*)\.words_effective$", r"\1.terms.effective"),
    (r"(results\.json:axes\..*)\.spread\.value$", r"\1.spread"),
    (r"(results\.json:axes\..*)\.words\.(number|effective)$", r"\1.rests_on.\2"),
    (r"(results\.json:axes\..*)\.words\.strongest\.(\d+)\.word$", r"\1.terms.\2.term"),
    (r"(results\.json:axes\..*)\.words\.strongest\.(\d+)\.part$", r"\1.terms.\2.contribution"),
    (r"(results\.json:axes\..*)\.words\.strongest\.", r"\1.terms."),
    (r"(results\.json:axes\..*)\.sampling\.floor\.", r"\1.sampling.noise."),
    (r"(results\.json:axes\..*)\.short_of\.", r"\1.limiting_factors."),
    (r"(results\.json:)pipeline\.", r"\1stages."),
    (r"(results\.json:)(design|draws)$", r"\1config.design.\2"),
    (r"(results\.json:)seed$", r"\1config.seed"),
    (r"(results\.json:)history$", r"\1config.run.history"),
    (r"(results\.json:)margin$", r"\1config.analysis.margin"),
    (r"(results\.json:corpus)\.perturbable\.", r"\1.rewritable."),
    (r"(results\.json:corpus\.lost)\.told_as\.", r"\1.variants."),
    (r"(results\.json:cost)\.asked\.", r"\1.calls."),
    (r"(results\.json:cost)\.kept\.", r"\1.cached."),
    (r"(results\.json:)answers\.answers$", r"\1responses.number"),
    (r"(results\.json:)answers\.unused\.telling\.", r"\1responses.unused.variant."),
    (r"(results\.json:)answers\.unused\.", r"\1responses.unused."),
    (r"(results\.json:responses\.unused\..*)\.answers$", r"\1.number"),
    (r"^repair/repair\.json:", "mitigation/mitigation.json:"),
    (r"(mitigation\.json:)these_words$", r"\1terms_only"),
    (r"(mitigation\.json:)named\.", r"\1stages."),
    (r"(mitigation\.json:)mend\.", r"\1chosen."),
    (r"(mitigation\.json:)mend$", r"\1chosen"),
    (r"(mitigation\.json:)measured\.", r"\1scores_before."),
    (r"(mitigation\.json:)doubt$", r"\1unconfirmed"),
    (r"(mitigation\.json:)left\.", r"\1other_metrics."),
    (r"(mitigation\.json:.*)\.changes\.(\d+)\.component$", r"\1.fixes.\2.stage"),
    (r"(mitigation\.json:.*)\.changes\.", r"\1.fixes."),
    (r"(mitigation\.json:.*)\.quality_by\.", r"\1.quality_metrics."),
    (r"(mitigation\.json:.*)\.equal$", r"\1.evidence"),
    (r"(mitigation\.json:.*)\.measured\.", r"\1.scores_after."),
    (r"(mitigation\.json:.*)\.asked\.", r"\1.new_calls."),
    (r"(check\.json:)max_disparity$", r"\1max_gap"),
    (r"(check\.json:)these_words$", r"\1terms_only"),
    (r"(cases\.jsonl:\d+)\.component$", r"\1.stage"),
    (r"(cases\.jsonl:\d+)\.word$", r"\1.term"),
    (r"(cases\.jsonl:\d+)\.by_component\.", r"\1.contributions."),
    (r"(cases\.jsonl:\d+)\.perturber\.", r"\1.axis_options."),
    (r"(cases\.jsonl:\d+)\.telling\.", r"\1.counterfactual."),
    (r"(cases\.jsonl:\d+\.counterfactual\.candidate)\.word$", r"\1.term"),
    (r"(cases\.jsonl:\d+)\.told\.", r"\1.rewritten."),
    (r"((?:cases\.jsonl|checked/check\.json):.*)\.told$", r"\1.rewritten"),
    (r"(checked/check\.json:cases\.\d+)\.word$", r"\1.term"),
    (r"(checked/check\.json:.*)\.component$", r"\1.stage"),
    (r"(checked/check\.json:.*)\.by_component\.", r"\1.contributions."),
    (r"(cases\.jsonl:.*(?:turns|rewritten)\.\d+)\.api_call\.", r"\1.steps.0.call."),
    (r"(cases\.jsonl:.*(?:turns|rewritten)\.\d+)\.api_result\.", r"\1.steps.0.results.0."),
    (r"(cases\.jsonl:.*(?:turns|rewritten)\.\d+)\.more_results\.0\.", r"\1.steps.0.results.1."),
    (r"((?:mitigation|compare)\.json:.*)\.ci_these_words", r"\1.terms_only.ci"),
    (r"((?:mitigation|compare)\.json:.*)\.change\.equivalent_within$", r"\1.equivalent_within"),
    (r"((?:mitigation|compare)\.json:.*\.change)\.p_value$", r"\1.p"),
    (r"((?:mitigation|compare)\.json:.*\.change)\.p_holm$", r"\1.adjusted_p"),
    (r"((?:mitigation|compare)\.json:.*\.change)\.p_these_words$", r"\1.terms_only.p"),
    (r"((?:mitigation|compare)\.json:.*)\.verdict_these_words$", r"\1.terms_only_verdict"),
    (r"((?:mitigation|compare)\.json:.*)\.words_effective$", r"\1.effective_terms"),
    (r"((?:mitigation|compare)\.json:.*)\.above_placebo\.", r"\1.beyond_placebo."),
    (r"(compare\.json:)pipeline\.", r"\1stages."),
    (r"(evaluation\.json:)pipeline\.", r"\1stages."),
    (r"(evaluation\.json:scores)\.bleu\.", r"\1.corpus_bleu."),
    (r"(plan\.json:)tellings$", r"\1variants"),
    (r"(plan\.json:)dialogues\.read$", r"\1dialogues"),
    (r"(plan\.json:)dialogues\.perturbable\.", r"\1rewritable."),
    (r"(plan\.json:)dialogues\.audited\.", r"\1audited."),
    (r"(plan\.json:)words\.", r"\1effective_terms."),
    (r"(plan\.json:axes\.\d+)\.words$", r"\1.effective_terms"),
    (r"(plan\.json:placebo\..*)\.words_changed\.", r"\1.edits."),
    (r"(plan\.json:)components\.(.*)\.asked$", r"\1stages.\2.calls"),
    (r"(plan\.json:)components\.(.*)\.(?:distinct|tokens)\.", r"\1stages.\2."),
    (r"(plan\.json:)components\.", r"\1stages."),
)
"""Patterns of golden names, and today's names; each is applied in turn."""
REWORDED = {
    "these words only": "these terms only",
    "floor": "placebo",
    "words": "terms",
    "other words": "other terms",
    "recorded": "gold",
    "mended": "fixed",
    "more words": "more terms",
}
"""Golden values of verdicts, limiting factors and histories, and today's."""
DROPPED = (
    r"(results|evaluation)\.json:(schema|attribution)$",
    r"compare\.json:(schema|design|draws|seed|history)$",
    r"(repair|compare)\.json:.*quality\.[^.]*\.dialogues$",
    r"(check|repair)\.json:.*\.reason$",
    r"check\.json:(schema|harm_only)$",
    r"cases\.jsonl:\d+\.schema$",
    r"repair\.json:schema$",
)
"""Golden names that today's files do not have."""
_RECORDS = (
    "results.json", "check.json", "mitigation.json", "compare.json", "plan.json", "pilot.json", "evaluation.json",
    "audit.json", "associations.json", "batches.json",
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
    "batch_out",
    "before",
    "after",
    "files",
}
"""Names of values that depend on machine, path or version."""
_NO_TEXTS = ("variant", "clusters", "term", "source", "role", "edits")
"""Columns of turns that are not compared as texts."""
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
            if key not in _NOT_COMPARED or (key == "run" and isinstance(item, dict))
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
    keys = ["axis", "group", "arm"]
    numbers = [name for name in frame.select_dtypes("float").columns if name not in ("sample", "turn")]
    texts = [name for name in frame.columns if name not in (*keys, *numbers, *_NO_TEXTS)]
    if "response" in frame and "api_call" not in frame:  # the golden files have the outputs of stages only
        texts.remove("response")
    for key, part in frame.fillna({"group": "", "arm": ""}).groupby(keys, sort=True):
        name = "/".join(map(str, key))
        found += [(f"{name}.turns", len(part)), (f"{name}.texts", _digest(part[texts]))]
        found.append((f"{name}.texts of a straight pipeline", _digest(part[[one for one in texts if one != "steps"]])))
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
        if any(re.search(pattern, name) for pattern in DROPPED):
            continue
        now = _today(name)
        if any(part in now for part in ("verdict", "limiting_factors", "history")) and isinstance(value, str):
            value = REWORDED.get(value, value) if "results.json" in now else value
        if now.endswith(".texts") and value == today.get(f"{now} of a straight pipeline"):
            continue
        if now not in today and value is not None:
            lines.append(f"{now}: is gone, was {value!r}")
        elif not _is_same(value, today.get(now)) and not (now.endswith("design.draws") and value is None):
            lines.append(f"{now}: {today.get(now)!r}, was {value!r}")
    return lines


def _today(name: str) -> str:
    for pattern, replacement in RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (one != one and other != other)
    return bool(one == other)
