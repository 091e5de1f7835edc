"""The result of a check: for a terminal, as a JUnit file, and as a comment in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tod_bias.report.answer import alike, example_lines, further, has_room, in_line, sentence, statement, what_happens
from tod_bias.report.cases import JUnitCase, to_junit
from tod_bias.report.sheets import Statement, ascii_of, column_of, folded
from tod_bias.results import NO_DIFFERENCE, Finding
from tod_bias.testing.gate import ACCEPTED, EARLIER, FAILED, PASSED, STANDS, Bound, GateResult, JudgedAxis

_NAMED = 3
"""Largest number of undecided gaps that are named."""
_MOST_IN_COMMENT = 8
"""Largest number of findings in a comment, so that it has 40 lines at the most."""
_MARKS = {FAILED: "❌", PASSED: "✅"}


def headline(check: GateResult) -> str:
    """Return the result of the check in one sentence."""
    run, standing = check.result.name, len(_lines(check, STANDS))
    if check.state == FAILED:
        new = " new or larger" if check.baseline else ""
        which = f"{standing or 1}{new} finding{'s' * (standing > 1)}"
        return f"failed: {run} has {which}"
    limit = "" if check.max_gap is None else f", and every gap is shown to be within {check.max_gap:g}"
    if check.state == PASSED:
        some = "no new finding" if check.baseline else "no other finding" if _lines(check, ACCEPTED) else "no finding"
        return f"passed: {run} has {some}{limit}"
    if check.max_gap is None:
        return f"cannot tell: {run} measured nothing on some axis"
    return f"cannot tell: {run} has no finding, and does not show that every gap is within {check.max_gap:g}"


def _lines(check: GateResult, state: str) -> list[tuple[list[Finding], str]]:
    """Return the findings of a state, those together that differ in their group alone, with the first reason."""
    chosen = {id(some.finding): some.reason for some in check.findings if some.state == state}
    return [
        (some, chosen[id(some[0])])
        for some in alike([entry.finding for entry in check.findings if id(entry.finding) in chosen])
    ]


def _statements(check: GateResult) -> Iterator[Statement]:
    """Yield the findings that stand, those that do not count, and the axes without any."""
    result = check.result
    standing = _lines(check, STANDS)
    is_roomy = has_room([findings for findings, _ in standing])
    for findings, reason in standing:
        said = statement(findings, result)
        more = [*(further(findings, result) if is_roomy else []), reason]
        yield Statement(said.verdict, said.axis, said.sentence, said.stages, [*said.details[:1], *filter(None, more)])
    for state in (EARLIER, ACCEPTED):
        for findings, reason in _lines(check, state):
            said = statement(findings, result)
            yield Statement("", said.axis, f"{state}: {said.sentence} ({reason})", said.stages)
    with_findings = {some.finding.axis for some in check.findings}
    for axis in check.axes:
        if axis.axis not in with_findings:
            yield Statement(axis.finding.verdict if not axis.reason else "", axis.axis, _without(check, axis))


def _without(check: GateResult, axis: JudgedAxis) -> str:
    """Return what a run says of an axis without a finding."""
    if axis.reason:
        return axis.reason
    if axis.state == FAILED:
        return "a difference is claimed (see the report)"
    finding = axis.finding
    said = "no difference" if finding.verdict == NO_DIFFERENCE else "nothing is proven"
    if finding.verdict != NO_DIFFERENCE and finding.group:
        said = f"{sentence(finding, check.result)}: {what_happens(finding, check.result)}"
    if finding.verdict == NO_DIFFERENCE and check.max_gap is None:
        return f"{said}; up to {100 * (finding.bound or 0.0):.1f}% of dialogues could have been missed"
    if axis.state == PASSED or check.max_gap is None:
        return f"{said}; a gap of up to {axis.missed:.2f} could have been missed"
    return said


def undecided(check: GateResult) -> list[str]:
    """Return the gaps that are not shown to be within the limit, the largest bounds first."""
    if check.max_gap is None or check.standing:  # a finding fails the run, whatever else is not shown
        return []
    limit = check.max_gap
    bounds = [(axis.axis, bound) for axis in check.axes for bound in axis.bounds if not bound.upper <= limit]
    bounds.sort(key=lambda pair: -pair[1].upper)
    unique = {(axis, bound.metric): (axis, bound) for axis, bound in reversed(bounds)}
    listed = [_undecided(axis, bound, limit) for axis, bound in list(unique.values())[::-1]]
    unseen = [_unseen(axis) for axis in check.axes if axis.unseen > limit]
    more = len(listed) + len(unseen) - _NAMED
    return [*[*listed, *unseen][:_NAMED], *([f"and {more} more"] if more > 0 else [])]


def _unseen(axis: JudgedAxis) -> str:
    if not axis.unseen_among:
        return f"{axis.axis}: an event in two dialogues is not measured, and may be a gap of {axis.unseen:.2f}"
    instead = " (or --terms-only)" if axis.unseen_among.endswith("terms") else ""
    return f"{axis.axis}: none of {axis.unseen_among} differs, so that a gap of {axis.unseen:.2f} is possible{instead}"


def _undecided(axis: str, bound: Bound, limit: float) -> str:
    where = f"{axis}: {bound.label} as {bound.group}"
    if bound.reason:
        return f"{where}: {bound.reason}"
    needed = bound.needed(limit)
    more = f"; about {needed:,} dialogues would tell" if needed else ""
    return f"{where}: gap {bound.gap:+.2f}, up to {bound.upper:.2f}{more}"


def table(check: GateResult, width: int = 80, *, plain: bool = False) -> RenderableType:
    """Return the result for a terminal: the verdict, a line or two per finding, then the axes without any.

    Args:
        check: the result.
        width: of the terminal, in characters.
        plain: True if the terminal shows ASCII only.
    """
    statements = list(_statements(check))
    column = column_of(some.axis for some in statements)
    lines = [Text(headline(check), style="bold")]
    for said in statements:
        lines += said.lines(column, width, plain=plain)
    lines += [Text(line) for text in undecided(check) for line in folded(text, "    ", width, "  ")]
    lines += [
        Text(f"  accepted, and not in this run: {entry.axis}, {entry.group}, {entry.event}", style="dim")
        for entry in check.unused
    ]
    return Group(*(Text(ascii_of(line.plain), style=line.style) if plain else line for line in lines))


def junit(check: GateResult) -> str:
    """Return JUnit XML: a suite per axis, and in it a test case per finding, or one if it has none.

    An undecided axis is an error, because CI services show skipped cases as passed. An accepted finding is skipped.
    """
    outcomes = []
    kinds = {STANDS: "failure", EARLIER: "skipped", ACCEPTED: "skipped"}
    for state, kind in kinds.items():
        for findings, reason in _lines(check, state):
            first = findings[0]
            text = _sentence(findings, check)
            outcomes.append(
                JUnitCase(
                    first.axis,
                    f"tod-bias.{first.axis}",
                    f"{', '.join(some.group for some in findings)}: {first.metric}",
                    kind,
                    state,
                    text if state == STANDS else f"{state}: {reason}",
                    "\n".join([text, *(example_lines(first.example) if first.example else [])]),
                )
            )
    named = {outcome.suite for outcome in outcomes}
    for axis in check.axes:
        if axis.axis not in named:
            kind = {PASSED: "", FAILED: "failure"}.get(axis.state, "error")
            text = _without(check, axis)
            listed = "\n".join(line for line in undecided(check) if line.startswith(f"{axis.axis}:"))
            outcomes.append(
                JUnitCase(axis.axis, f"tod-bias.{axis.axis}", "no finding", kind, axis.state, text, listed or text)
            )
    return to_junit("tod-bias check", outcomes)


def _sentence(findings: Sequence[Finding], check: GateResult) -> str:
    return in_line(findings[0], check.result, [some.group for some in findings])


def markdown(check: GateResult) -> str:
    """Return a comment in GitHub's Markdown, of 40 lines at the most."""
    standing = _lines(check, STANDS)
    lines = [f"## {_MARKS.get(check.state, '❔')} tod-bias {_plain(headline(check))}", ""]
    for findings, reason in standing[:_MOST_IN_COMMENT]:
        first = findings[0]
        lines.append(
            f"- **{_plain(first.axis)}**: {_plain(_sentence(findings, check))}{f' ({reason})' if reason else ''}"
        )
        if first.example is not None:
            lines += [f"  > {_plain(text)}" for text in example_lines(first.example)]
    if len(standing) > _MOST_IN_COMMENT:
        lines.append(f"- and {len(standing) - _MOST_IN_COMMENT} more")
    for state in (EARLIER, ACCEPTED):
        lines += [
            f"- {state}: **{_plain(findings[0].axis)}**: {_plain(_sentence(findings, check))} ({_plain(reason)})"
            for findings, reason in _lines(check, state)[:_NAMED]
        ]
    with_findings = {some.finding.axis for some in check.findings}
    lines += [
        f"- **{_plain(axis.axis)}**: {_plain(_without(check, axis))}"
        for axis in check.axes
        if axis.axis not in with_findings
    ]
    lines += [f"- not shown: {_plain(text)}" for text in undecided(check)]
    return "\n".join([*lines, ""])


def _plain(text: str) -> str:
    """Escape a text, so that Markdown shows it unchanged in one line."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_{}\[\]|#~])", r"\\\1", text)
