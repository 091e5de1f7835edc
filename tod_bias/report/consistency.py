"""Whether what ``results.json`` says can be what one run wrote: a file that was edited contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tod_bias.report.notation import fixed
from tod_bias.report.outcome import Outcome
from tod_bias.report.values import Estimate

_CLOSE = 1e-6
"""Parts add up to their whole to 1e-9; a file may have been rounded."""


def contradictions(outcomes: Sequence[Outcome]) -> list[str]:
    """What in a run's record cannot be so: parts that do not add up to their whole, values outside of their intervals,
    pairs of groups that are not there. Where nothing is found, a file may still have been changed."""
    return [f"{outcome.axis} ({outcome.metric.label}): {text}" for outcome in outcomes for text in _of(outcome)]


def warning(outcomes: Sequence[Outcome]) -> str:
    """The same in one sentence; empty where nothing contradicts itself."""
    found = contradictions(outcomes)
    if not found:
        return ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"results.json contradicts itself, so it was changed after the run: {found[0]}{more}. Repeat the command."


def _is_outside(one: Estimate) -> bool:
    if one.value is None or one.low is None or one.high is None:
        return False
    near = _CLOSE * max(1.0, abs(one.value))
    return not one.low - near <= one.value <= one.high + near


def _of(outcome: Outcome) -> Iterator[str]:
    wholes: list[tuple[str, Estimate, Mapping[str, Estimate]]] = [
        ("disparity", outcome.disparity, outcome.contributions),
        *((f"gap of {group.name}", group.gap, group.contributions) for group in outcome.groups),
        *((f"gap {pair.name}", pair.gap, pair.contributions) for pair in outcome.pairs),
    ]
    for name, whole, parts in wholes:
        for what, one in ((name, whole), *((f"part of {part} in the {name}", one) for part, one in parts.items())):
            if _is_outside(one):
                ends = f"[{fixed(one.low, sign=True)}, {fixed(one.high, sign=True)}]"
                yield f"the {what} is {fixed(one.value, sign=True)}, outside of its interval {ends}"
        values = [part.value for part in parts.values() if part.value is not None]
        if whole.value is None or not values or len(values) < len(parts):
            continue
        if abs(sum(values) - whole.value) > _CLOSE * max(1.0, abs(whole.value)):
            total = fixed(sum(values), sign=True)
            yield f"the components' parts add up to {total}, and the {name} is {fixed(whole.value, sign=True)}"
    there = {group.name for group in outcome.groups}
    for pair in outcome.pairs:
        if lacking := {pair.source, pair.target} - there:
            yield f"pairs name {min(lacking)}, which is none of its groups"
            break
