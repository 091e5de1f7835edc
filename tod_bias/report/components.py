"""Components that cancel: shares of a gap with opposite signs, tested separately because the gap may hide them."""

from __future__ import annotations

from dataclasses import dataclass

from tod_bias.report.notation import fixed, p_text
from tod_bias.results import ALPHA, AxisResult, Estimate


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
    """Return the two components that cancel most, if both shares are significant over all groups; else None."""
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
