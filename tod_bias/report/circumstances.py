"""What a reader must know of how a run went: answers that are missing, malformed or drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tod_bias.report.consistency import warning
from tod_bias.report.notation import count, fixed, percent
from tod_bias.report.outcome import Outcome
from tod_bias.report.values import mapping, sequence, whole


def circumstances(results: Mapping[str, Any], outcomes: Sequence[Outcome] = ()) -> list[str]:
    """Sentences about a run as a whole; none where nothing was unusual.

    Args:
        results: ``results.json``.
        outcomes: the same, read; a file that contradicts itself is told first.
    """
    found = [
        warning(outcomes),
        *_attribution(results),
        *_answers(results),
        *_lost(results),
        *_outcomes(results),
        *_precision(results),
        *_samples(results),
    ]
    return [sentence for sentence in found if sentence]


_UNUSED = {
    "dialogue": "whose dialogue is none of this run",
    "telling": "whose telling is none of this run",
    "pair": "whose dialogue is not told so here",
    "turn": "of a turn that there is not",
}
"""Why an answer that was recorded belongs to nothing."""


def _attribution(results: Mapping[str, Any]) -> list[str]:
    why = results.get("attribution")
    return [f"Attribution to components is {why}."] if isinstance(why, str) else []


def _answers(results: Mapping[str, Any]) -> list[str]:
    record = mapping(results.get("answers"), "answers")
    unused = {
        why: mapping(one, f"answers.unused.{why}")
        for why, one in mapping(record.get("unused"), "answers.unused").items()
    }
    if not unused:
        return []
    numbers = {why: whole(one.get("answers"), f"answers.unused.{why}") or 0 for why, one in unused.items()}
    parts = [
        f"{count(numbers[why])} {_UNUSED.get(why, why)} (the first: {one.get('first')})" for why, one in unused.items()
    ]
    return [
        f"{count(sum(numbers.values()))} of {count(whole(record.get('answers'), 'answers.answers'))} recorded answers "
        f"were not used: {'; '.join(parts)}. Where they should have been, look for misspelt names, and for --axes, "
        "--design and --seed that differ."
    ]


def _lost(results: Mapping[str, Any]) -> list[str]:
    lost = (results.get("corpus") or {}).get("lost")
    if not isinstance(lost, Mapping):
        return []
    told = mapping(lost.get("told_as"), "corpus.lost.told_as")
    whom = ", ".join(f"{name} {number}" for name, number in told.items())
    number = whole(lost.get("dialogues", 0), "corpus.lost.dialogues") or 0
    sentence = (
        f"{count(number)} dialogue{'s are' if number != 1 else ' is'} left out of everything, as a question had no "
        f"answer{f' (told as: {whom})' if whom else ''}."
    )
    if reasons := mapping(lost.get("reasons"), "corpus.lost.reasons"):
        sentence += " Why: " + "; ".join(f"{why} ({number})" for why, number in reasons.items()) + "."
    groups = [number for name, number in told.items() if name != "original"]
    if len(groups) == 1 or len(set(groups)) > 1:
        sentence += " Whether a group's questions fail more often is a finding of its own, which no score here shows."
    return [sentence]


def _outcomes(results: Mapping[str, Any]) -> list[str]:
    cost = mapping(results.get("cost"), "cost")
    distinct = mapping(cost.get("distinct"), "cost.distinct")
    return [
        f"`{name}`: "
        + ", ".join(f"{what} in {count(number)}" for what, number in mapping(kinds, "cost.outcomes").items())
        + f" of {count(distinct.get(name, 0))} different questions."
        for name, kinds in mapping(cost.get("outcomes"), "cost.outcomes").items()
    ]


def _precision(results: Mapping[str, Any]) -> list[str]:
    records = [mapping(one, "precision") for one in sequence(results.get("precision"), "precision")]
    return [
        f"{', '.join(f'`{name}`' for name in sequence(record.get('components'), 'precision.components'))}: "
        f"{record.get('model')} computes in {record.get('dtype')}; of {_count(record, 'prompts')} questions drawn by "
        f"chance it answers {_count(record, 'differ')} otherwise than in float32."
        for record in records
    ]


def _count(record: Mapping[str, Any], key: str) -> str:
    return count(whole(record.get(key), f"precision.{key}"))


def _samples(results: Mapping[str, Any]) -> list[str]:
    samples = results.get("samples")
    if not isinstance(samples, int):
        return []
    parts = []
    labels = {name: metric.get("label", name) for name, metric in (results.get("metrics") or {}).items()}
    for axis, by_metric in results["axes"].items():
        for name, record in by_metric.items():
            drawn = record.get("sampling")
            if not isinstance(drawn, Mapping):
                continue
            floor = drawn.get("floor") or {}
            value, ci = floor.get("value"), floor.get("ci")
            if value is None:
                continue
            text = f"{axis} ({labels.get(name, name)}): the originals against themselves {fixed(value, sign=True)}"
            text += f" [{fixed(ci[0], sign=True)}, {fixed(ci[1], sign=True)}]" if ci else ""
            share = drawn.get("share_of_variance")
            text += f", {percent(share)} of the disparity's variance is sampling" if share is not None else ""
            parts.append(text)
    if not parts:
        return []
    times = "once" if samples == 1 else f"{samples} times"
    return [f"Answers are drawn, {times} each. " + "; ".join(parts) + ". More --samples shrink that part alone."]
