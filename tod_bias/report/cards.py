"""Findings as the cards of a page, in the words of the terminal (:mod:`tod_bias.report.answer`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tod_bias.report.answer import alike, details, left_out_axes, placebo_line, sentence
from tod_bias.report.excerpts import Segments, compare
from tod_bias.results import (
    DIFFERENT,
    EQUIVALENT,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    PLACEBO_VERDICT,
    THESE_TERMS,
    AuditResult,
    Finding,
)

_ANSWERS = {
    **dict.fromkeys(DIFFERENT, "difference"),
    THESE_TERMS: "difference, with these terms",
    NO_DIFFERENCE: "no difference",
    EQUIVALENT: "equivalent",
    INCONCLUSIVE: "not enough data",
}
_LOOKS = {**dict.fromkeys(DIFFERENT, "claim"), NO_DIFFERENCE: "good", EQUIVALENT: "same", INCONCLUSIVE: "open"}


@dataclass(frozen=True)
class ShownSide:
    """A turn of the original, or of the counterfactual; texts are in pieces, with whether they differ."""

    user: Segments
    """The user's message."""
    system: Segments
    """Act of the system."""


@dataclass(frozen=True)
class ShownExample:
    """A turn in which the system did something else."""

    where: str
    """Its dialogue and turn."""
    group: str
    """The group that the counterfactual is rewritten for."""
    sides: tuple[ShownSide, ShownSide]
    """The original, then the counterfactual."""


@dataclass(frozen=True)
class Card:
    """One finding of one or several groups, an axis without a result, or the placebo."""

    answer: str
    """The kind of answer, in two or three words."""
    look: str
    """Its class in the style sheet."""
    axis: str
    sentence: str
    """The finding; empty if the answer states it."""
    stages: Sequence[str] = ()
    """The components in which the difference arises."""
    details: Sequence[str] = ()
    example: ShownExample | None = None


def cards_of(result: AuditResult) -> list[Card]:
    """Return the cards of a run: its findings in their order, axes without a result, then the placebo."""
    cards = [_card(findings, result) for findings in alike(result.findings)]
    cards += [
        Card(_ANSWERS[INCONCLUSIVE], _LOOKS[INCONCLUSIVE], axis, why) for axis, why in left_out_axes(result).items()
    ]
    placebo = placebo_line(result)
    return [*cards, Card("control", "", PLACEBO_VERDICT, placebo)] if placebo else cards


def _card(findings: Sequence[Finding], result: AuditResult) -> Card:
    finding, groups = findings[0], [some.group for some in findings]
    return Card(
        answer=_ANSWERS.get(finding.verdict, finding.verdict),
        look=_LOOKS.get(finding.verdict, ""),
        axis=finding.axis,
        sentence=sentence(finding, result, groups) if finding.is_difference else "",
        stages=[name for name in finding.stage.split(", ") if name] if finding.is_difference else (),
        details=list(details(finding, result, groups)),
        example=_example(finding),
    )


def _example(finding: Finding) -> ShownExample | None:
    example = finding.example
    if example is None:
        return None
    parts = example.variant.split(":")
    users = compare(example.user_original or example.user, example.user)
    systems = compare(example.original, example.counterfactual)
    return ShownExample(
        f"dialogue {example.dialogue}, turn {example.turn + 1}",
        parts[1] if len(parts) > 1 else finding.group,
        (ShownSide(users[0], systems[0]), ShownSide(users[1], systems[1])),
    )
