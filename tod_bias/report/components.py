"""Components of a gap in words: where it enters, and if components interact or cancel.

A component is named only if the interval of its share excludes 0. ``All`` of a gap enters in one only if three numbers
agree (its Shapley share, the part that replacing it alone removes, and the part that remains if all others are
replaced) and the intervals of all other shares together are within a tenth of the gap. Shares of opposite signs may
cancel, so that no gap is seen; they are tested for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tod_bias.report.notation import fixed, p_text, percent
from tod_bias.results import ALPHA, AxisResult, Contribution, Contributions, Estimate
from tod_bias.statistics.arms import arm_key

REACHED = 0.8
"""Components are listed, the largest share first, until they add up to this share of a gap."""
ALIKE = 0.1
"""Numbers that differ by no more than this share of a gap are called the same."""
_PARTS = {2: "half", 3: "a third", 4: "a quarter"}


def entrance(gap: Estimate, contributions: Contributions, what: str, *, levels_down: bool = False) -> str:
    """Return the components of a gap as the beginning of a sentence; empty if nothing is attributed.

    Args:
        gap: the whole.
        contributions: its parts.
        what: the gap in words, e.g. ``the gap of woman``.
        levels_down: True if twins close gaps by serving all groups as a harmed one. Replacing one of two components
            that each harm alone then closes the gap, and interactions are not described.
    """
    whole = gap.value or 0.0
    if not contributions or not whole:
        return ""
    shown = {name: part for name, part in contributions.items() if part.shapley.excludes_zero}
    towards = {name: part for name, part in shown.items() if (part.shapley.value or 0) * whole > 0}
    listed = _listed(towards, whole)
    others = [part.shapley for name, part in contributions.items() if name not in listed]
    text = _enters_in(listed, whole, what, others) + ("" if levels_down else _interplay(listed, whole))
    against = [f"`{name}` ({_signed(part.shapley)})" for name, part in shown.items() if name not in towards]
    if against:
        text += f"; {_joined(against)} {'work' if len(against) > 1 else 'works'} the other way"
    return text


def do_level_down(axis_result: AxisResult) -> bool:
    """True if the system serves worse with every stage replaced: the originals are of a harmed group."""
    before = axis_result.arms.get("")
    after = axis_result.arms.get(arm_key(frozenset(axis_result.contributions)))
    if before is None or after is None or axis_result.metric.better == "neither":
        return False
    return after < before if axis_result.metric.better == "higher" else after > before


def outside(gap: Estimate, unattributed: Estimate | None) -> str:
    """Return the part of a gap that arises in no stage, and what to do; empty if none is shown."""
    if unattributed is None or not unattributed.excludes_zero:
        return ""
    size = f"{_signed(unattributed)} of {_signed(gap)}"
    remedy = "declare the agent's other models and tools as stages"
    limit = "tools inside a command or behind a url only as those of an MCP server"
    return f"{size} arises in code that no stage covers: to find it, {remedy} ({limit})"


def of_groups(shares: Mapping[str, Estimate]) -> str:
    """Return the groups of stages with a significant share of a gap; empty if there are none."""
    shown = [f"`{name}` ({_signed(share)})" for name, share in shares.items() if share.excludes_zero]
    return f"of the groups of stages it enters in {_joined(shown)}" if shown else ""


def _listed(towards: Contributions, whole: float) -> Contributions:
    """The largest shares, until they add up to most of the gap."""
    listed: Contributions = {}
    for name in sorted(towards, key=lambda name: -abs(towards[name].shapley.value or 0)):
        if _sum(listed) >= REACHED * abs(whole):
            break
        listed[name] = towards[name]
    return listed


def _sum(parts: Contributions) -> float:
    return sum(abs(part.shapley.value or 0) for part in parts.values())


def _enters_in(listed: Contributions, whole: float, what: str, others: Sequence[Estimate]) -> str:
    if not listed:
        return f"{what}: no single component's share can be told from 0"
    if len(listed) == 1 and _sum(listed) >= REACHED * abs(whole):
        ((name, part),) = listed.items()
        return _of_component(name, part, whole, what, is_rest_small=_reach(others) <= ALIKE * abs(whole))
    size = fixed(whole, sign=True)
    reached = _sum(listed) / abs(whole)
    first = next(iter(listed.values())).shapley.value or 0.0
    if len(listed) in _PARTS and all(_is_alike(part.shapley, first, whole) for part in listed.values()):
        text = f"{what} enters in {_joined([f'`{name}`' for name in listed])}, "
        text += f"{_PARTS[len(listed)]} each" if reached > 1 - ALIKE else "equal parts"
        text += f" ({', '.join(_signed(part.shapley) for part in listed.values())} of {size})"
    else:
        text = f"{what} enters in {_joined([f'`{name}` ({_signed(part.shapley)})' for name, part in listed.items()])}"
        text += f" of {size}"
    if reached < REACHED:
        text += f", {percent(reached)} of it; the interval of no other component's share leaves out 0"
    return text


def _reach(estimates: Sequence[Estimate]) -> float:
    """Return how far the sum of some estimates may be from 0, by their intervals."""
    ends = [(some.ci or (some.value or 0.0,) * 2) for some in estimates]
    return sum(max(abs(low), abs(high)) for low, high in ends)


def _of_component(name: str, part: Contribution, whole: float, what: str, *, is_rest_small: bool) -> str:
    """Describe a gap that is almost entirely the share of one component."""
    size = f"{_signed(part.shapley)} of {fixed(whole, sign=True)}"
    numbers = (part.shapley, part.replaced_alone, part.left_alone)
    if is_rest_small and all(_is_alike(number, whole, whole) for number in numbers):
        return f"all of {what} enters in `{name}` ({size})"
    how = "more than all" if abs(part.shapley.value or 0) > (1 + ALIKE) * abs(whole) else "most"
    return f"{how} of {what} enters in `{name}` ({size}{_alone(part)})"


def _alone(part: Contribution) -> str:
    """Describe the effect of replacing a component alone, and all others."""
    if part.replaced_alone is None or part.left_alone is None:
        return ""
    removed, left = _signed(part.replaced_alone), _signed(part.left_alone)
    return f"; replacing it alone removes {removed}, leaving it alone keeps {left}"


def _interplay(listed: Contributions, whole: float) -> str:
    """Describe how components interact, if the parts that each removes alone and keeps alone differ significantly."""
    parts = list(listed.values())
    signs = {_excess(part, whole) for part in parts}
    if len(parts) < 2 or signs not in ({1}, {-1}):
        return ""
    alone = [part.replaced_alone for part in parts]
    two = len(parts) == 2
    if signs == {1}:
        if all(_is_alike(number, whole, whole) for number in alone):
            return f"; replacing {'either' if two else 'any one of them'} is enough"
        return "; replacing one removes part of what replacing another would"
    if all(_is_alike(number, 0.0, whole) for number in alone):
        return f"; {'both' if two else 'all of them'} must be replaced"
    return f"; part of it goes only where {'both' if two else 'several'} are replaced"


def _excess(part: Contribution, whole: float) -> int:
    """1 where a component removes more if replaced alone than it keeps if left alone, -1 for less, 0 if not shown."""
    removed, left = part.replaced_alone, part.left_alone
    if removed is None or left is None or removed.ci is None or left.ci is None:
        return 0
    side = 1 if whole > 0 else -1
    if removed.ci[0] > left.ci[1]:
        return side
    return -side if removed.ci[1] < left.ci[0] else 0


def _is_alike(number: Estimate | None, expected: float, whole: float) -> bool:
    return number is not None and number.value is not None and abs(number.value - expected) <= ALIKE * abs(whole)


@dataclass(frozen=True)
class Opposed:
    """Two components whose shares of a group's gap have opposite signs."""

    group: str
    harmful: str
    """Its share is harm."""
    harmful_share: Estimate
    helpful: str
    helpful_share: Estimate
    p: float
    """The larger p-value of the two, over all components and groups of the axis (Bonferroni)."""

    def __str__(self) -> str:
        terms = "with these terms, " if self.harmful_share.is_of_terms_only else ""
        return (
            f"{terms}two components work against each other for {self.group}: "
            f"`{self.harmful}` ({_signed(self.harmful_share)}) and `{self.helpful}` ({_signed(self.helpful_share)}), "
            f"{p_text(self.p)}"
        )


def opposed(axis_result: AxisResult) -> Opposed | None:
    """The two components that cancel most, where both shares are shown among those of all groups; None for none."""
    shares = {name: group.shares for name, group in axis_result.groups.items()}
    number = sum(share.p is not None for by_stage in shares.values() for share in by_stage.values())
    cancelling = []
    for name, by_stage in shares.items():
        shown = {stage: share for stage, share in by_stage.items() if share.p is not None and share.p * number < ALPHA}
        harmful = max(shown, key=lambda stage: shown[stage].value or 0, default="")
        helpful = min(shown, key=lambda stage: shown[stage].value or 0, default="")
        if shown and (shown[harmful].value or 0) > 0 > (shown[helpful].value or 0):
            p = number * max(shown[harmful].p or 0, shown[helpful].p or 0)
            cancelling.append(Opposed(name, harmful, shown[harmful], helpful, shown[helpful], p))
    return max(cancelling, key=_cancelled, default=None)


def _cancelled(pair: Opposed) -> float:
    return min(abs(pair.harmful_share.value or 0), abs(pair.helpful_share.value or 0))


def _signed(estimate: Estimate) -> str:
    return fixed(estimate.value, sign=True)


def _joined(texts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
