"""What was unusual about a run, in sentences."""

from __future__ import annotations

from tod_bias.audit.notices import NO_ROW, Opposed, lacking_rows, never_reached
from tod_bias.report.notation import count, fixed, interval, p_text, percent, with_interval
from tod_bias.results import (
    AuditResult,
    Cost,
    Estimate,
)

_FEW_FAILURES = 0.01
"""Share of turns below which failures of the originals are not worth a line of the terminal."""


def opposed_text(pair: Opposed) -> str:
    """Put two components that work against each other into words."""
    terms = "with these terms, " if pair.harmful_share.is_of_terms_only else ""
    return (
        f"{terms}two components work against each other for {pair.group}: "
        f"`{pair.harmful}` ({_signed(pair.harmful_share)}) and `{pair.helpful}` ({_signed(pair.helpful_share)}), "
        f"{p_text(pair.p)}"
    )


def _signed(estimate: Estimate) -> str:
    return fixed(estimate.value, sign=True)


def circumstances(result: AuditResult) -> list[str]:
    """Return sentences about the run as a whole; empty if nothing was unusual."""
    return [
        *unreached(result),
        *failing(result),
        *_responses(result),
        *uncalled(result),
        *_arms(result),
        *_lost(result),
        *_outcomes(result),
        *_missing_rows(result),
        *_precision(result),
        *_samples(result),
    ]


_UNUSED = {
    "dialogue": "whose dialogue is not in this run",
    "variant": "whose variant is not in this run",
    "pair": "whose dialogue has no such variant here",
    "turn": "of a turn that does not exist",
}
"""Reasons for which a saved response was not used."""


def _responses(result: AuditResult) -> list[str]:
    if result.responses is None:
        return []
    sentences = [
        "Nothing is attributed to stages: the responses were saved, and an attribution needs calls with other inputs."
    ]
    if unchecked := result.responses.unchecked:
        sentences.append(
            f"{count(unchecked)} of {count(result.responses.number)} saved responses do not say which `user` utterance "
            "they answer, so nothing shows that another --seed or other terms did not stand there."
        )
    unused = result.responses.unused
    if unused:
        parts = [
            f"{count(entry['number'])} {_UNUSED.get(why, why)} (the first: {entry['first']})"
            for why, entry in unused.items()
        ]
        number = sum(int(entry["number"]) for entry in unused.values())
        sentences.append(
            f"{count(number)} of {count(result.responses.number)} saved responses were not used: {'; '.join(parts)}. "
            "Where they should have been, look for misspelt names, and for --axes, --design and --seed that differ."
        )
    return sentences


def unreached(result: AuditResult) -> list[str]:
    """Say which grades no dialogue gets, so that a group cannot get them less often."""
    return [
        f"{label}: none, in no original and no counterfactual, so no difference in it can be seen"
        for label in never_reached(result)
    ]


def failing(result: AuditResult) -> list[str]:
    """Say how many turns of the originals failed, with the most frequent reason: they cannot tell groups apart.

    Nothing is said of fewer than one in a hundred. Look-ups without a row are left out, because :func:`_missing_rows`
    is about them.
    """
    by_axis = [groups["original"] for groups in result.failed.values() if "original" in groups]
    most = max(by_axis, key=lambda some: some.turns, default=None)
    reasons = [] if most is None else [reason for reason in most.reasons if reason != NO_ROW]
    if most is None or not reasons:
        return []
    turns = most.turns - most.reasons.get(NO_ROW, 0)
    if turns < _FEW_FAILURES * most.of:
        return []
    return [f"failed turns: {count(turns)} of {count(most.of)} of the originals, {reasons[0]}"]


def uncalled(result: AuditResult) -> list[str]:
    """Name the stages that were never called, where no disparity can enter."""
    calls = result.cost.calls
    names = [name for name in result.stages if name in calls and not calls[name]]
    if result.responses is not None or not names:
        return []
    listed = ", ".join(f"`{name}`" for name in names)
    return [
        f"{listed}: never called, so nothing can be said to enter there. Where it should have been, see what its match "
        "fits (tod-bias doctor FILE shows the calls)."
    ]


def _arms(result: AuditResult) -> list[str]:
    """Say how shares are computed if not every set of stages is replaced."""
    arms, sentences = result.attribution, []
    if arms.groups:
        groups = "; ".join(f"{name}: {', '.join(members)}" for name, members in arms.groups.items())
        sentences.append(
            f"Shares are Owen values: a gap is shared out between groups of stages ({groups}), then within each."
        )
    if arms.changing is not None:
        sentences.append(
            f"Of {len(result.stages)} stages {len(arms.changing)} put out anything else than their twins in any arm"
            f"{''.join(f', `{name}`' for name in arms.changing)}; the shares of all others are exactly 0."
        )
    if arms.permutations:
        sentences.append(
            f"Shares are means over {arms.permutations} orders in which the {len(result.stages)} stages are replaced, "
            "drawn in pairs of an order and its reverse; the error of drawing them is in the intervals."
        )
    return sentences


def _lost(result: AuditResult) -> list[str]:
    lost = result.corpus.lost
    if lost is None:
        return []
    variants = ", ".join(f"{name} {number}" for name, number in lost.variants.items())
    is_single = lost.dialogues == 1
    sentence = (
        f"{count(lost.dialogues)} dialogue{' is' if is_single else 's are'} left out of everything, as a turn of "
        f"{'it' if is_single else 'them'} failed{f' ({variants})' if variants else ''}."
    )
    if lost.reasons:
        sentence += " Why: " + "; ".join(f"{why} ({number})" for why, number in lost.reasons.items()) + "."
    groups = [number for name, number in lost.variants.items() if name != "original"]
    if len(groups) == 1 or len(set(groups)) > 1:
        sentence += " Whether calls fail more often for a group is a separate question that no score here answers."
    return [sentence]


def _outcomes(result: AuditResult) -> list[str]:
    return [
        f"`{name}`: {', '.join(some)} of {count(result.cost.distinct.get(name, 0))} different calls."
        for name, some in outcomes(result.cost).items()
    ]


def _missing_rows(result: AuditResult) -> list[str]:
    """Return notices of databases that lack rows for rewritten calls."""
    return [
        f"`{name}` lacks rows for rewritten calls; its share of the pooled difference: "
        f"{', '.join(f'{axis} {with_interval(some, sign=True)}' for axis, some in shares.items())}. It is a fault of "
        "the table if the real service would answer these calls."
        for name, shares in lacking_rows(result).items()
    ]


def outcomes(cost: Cost) -> dict[str, list[str]]:
    """Return each stage's problems with calls, by tool: "unknown tool in 66 (`find_bus` 66)"."""
    texts: dict[str, list[str]] = {}
    for name, kinds in cost.outcomes.items():
        for what, number in kinds.items():
            tools = cost.tools.get(name, {}).get(what, {})
            parts = [f"`{tool}` {count(calls)}" for tool, calls in tools.items()]
            rest = number - sum(tools.values())
            parts += [f"others {count(rest)}"] if tools and rest else []
            named = f" ({', '.join(parts)})" if parts else ""
            texts.setdefault(name, []).append(f"{what} in {count(number)}{named}")
    return texts


def _precision(result: AuditResult) -> list[str]:
    return [
        f"{', '.join(f'`{name}`' for name in model.stages)}: {model.model} computes in {model.dtype}; of "
        f"{count(model.prompts)} prompts drawn by chance {count(model.differ)} have another output than in float32."
        for model in result.precision
    ]


def _samples(result: AuditResult) -> list[str]:
    parts = []
    for row in result.rows:
        if row.sampling is None or row.sampling.noise.value is None:
            continue
        noise = row.sampling.noise
        text = f"{row.axis} ({row.metric.label}): the originals against themselves {fixed(noise.value, sign=True)}"
        text += f" {interval(noise, sign=True)}" if noise.ci else ""
        share = row.sampling.share_of_variance
        parts.append(
            text + (f", {percent(share)} of the pooled difference's variance is sampling" if share is not None else "")
        )
    if result.samples is None or not parts:
        return []
    times = "once" if result.samples == 1 else f"{result.samples} times"
    return [f"Outputs are drawn, {times} per call. " + "; ".join(parts) + ". More --samples shrink that part alone."]
