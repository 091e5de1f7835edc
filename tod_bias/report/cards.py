"""Findings as cards of a page, each with its example."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tod_bias.report.answer import advice, alike, further, left_out, placebo_line, statement
from tod_bias.report.excerpts import Segments, compare
from tod_bias.report.sheets import Statement
from tod_bias.results import (
    PLACEBO_VERDICT,
    AuditResult,
    Finding,
)


@dataclass(frozen=True)
class ShownSide:
    """One turn of the original or of the counterfactual, as pieces of text that are marked if they differ."""

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
class Card(Statement):
    """A statement with its example."""

    example: ShownExample | None = None


def cards_of(result: AuditResult) -> list[Card]:
    """Return the cards of a run: its findings in their order, axes without a result, then the placebo."""
    made = []
    for findings in alike(result.findings):
        said, more = statement(findings, result), [*further(findings, result), advice(findings[0])]
        made.append((replace(said, details=[*said.details, *filter(None, more)]), _example(findings[0])))
    made += [(said, None) for said in left_out(result)]
    if placebo := placebo_line(result):
        made.append((Statement(PLACEBO_VERDICT, PLACEBO_VERDICT, placebo), None))
    return [Card(**vars(said), example=example) for said, example in made]


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
