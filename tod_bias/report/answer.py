"""The answer of a run in words, for the terminal and for the cards of a page.

:mod:`tod_bias.audit.findings` decides the findings. This module puts them into words, with the texts of the turns that
show them. The findings come first; on a terminal the answer for three axes has at most 25 lines of 80 columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.table import Table
from rich.text import Text

from tod_bias.audit.checks import DERIVED_KINDS
from tod_bias.audit.findings import events_beside
from tod_bias.audit.notices import opposed
from tod_bias.dialogues.text import first_change, window
from tod_bias.errors import shortened
from tod_bias.metrics.events import event_of
from tod_bias.perturb.loading import axes as shipped_axes
from tod_bias.report.circumstances import failing, opposed_text, uncalled, unreached
from tod_bias.report.notation import fixed, p_cell
from tod_bias.report.sheets import Statement, ascii_of, column_of, folded, mark
from tod_bias.results import (
    EQUIVALENT,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    PLACEBO_VERDICT,
    THESE_TERMS,
    AuditResult,
    AxisResult,
    Example,
    Finding,
    total,
)

_REPAIRS = {
    "either": "it takes these stages together: to repair one of them is enough",
    "all": "each of these stages does it alone: all of them have to be repaired",
}
_MISSING_CONDITIONS = {
    "placebo": "nearly all originals are of one group: add `placebo` to --axes to tell it from rewording",
    "beyond placebo": "nearly all originals are of one group, and neutral rewording does as much",
}
_RECORDED = "Nothing is attributed to stages: the responses were saved, and no stage was called."
_LOUD = 0.05
"""Share of turns from which the effect of neutral rewording is no reassurance."""
_MOST_STAGES = 2
"""Number of components up to which those that react to rewording stand out."""
_MOST_ROWS = 8
"""Groups in the table; the report shows all."""
_MANY = 3
"""Number of differences from which there is no room for their consequences on a terminal."""
_SHOWN_EXAMPLE = 64
"""Characters of a line of an example."""
_SHOWN_CONSEQUENCE = 56
"""Characters of the event in a consequence."""
_MOST_BESIDE = 2
"""Further events of a finding that are shown."""
_LEAST_MESSAGE = 22
"""Characters of a user's message that share a line with what the system did."""


def alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Group findings that differ only in their group."""
    lists: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        side = "+" if (finding.effect.value or 0.0) > 0 else "-"
        key = (finding.axis, finding.verdict, finding.metric, finding.stage, side)
        lists.setdefault(key, []).append(finding)
    return list(lists.values())


def sentence(finding: Finding, result: AuditResult, groups: Sequence[str] = ()) -> str:
    """Return the groups that are treated differently and how, or seem to be; empty if no group is named.

    Args:
        finding: the finding.
        result: the run's results.
        groups: all groups with the same finding; by default the finding's own.
    """
    *first, last = groups or [finding.group]
    who = f"{', '.join(first)} and {last}" if first else last
    if finding.verdict == INCONCLUSIVE and finding.group:
        return f"not proven; seen: as {who}"
    if not finding.is_difference:
        return ""
    only = ", with these terms" if finding.verdict == THESE_TERMS else ""
    domains = _few_domains(finding, result)
    return f"{treatment(finding)} as {who}{only}{domains}"


def _word(finding: Finding) -> str:
    """Return the treatment for a row of a table, with the restriction to these terms."""
    return f"{treatment(finding)}, these terms" if finding.verdict == THESE_TERMS else treatment(finding)


def treatment(finding: Finding) -> str:
    """Return "served worse", "served better" or "served differently"."""
    is_worse = finding.better != "neither" and (finding.effect.value or 0.0) > 0
    if finding.is_harm or is_worse:
        return "served worse"
    return "served differently" if finding.better == "neither" else "served better"


def in_lines(result: AuditResult, axes: Collection[str] | None = None) -> dict[str, list[str]]:
    """Return the findings of each axis with a difference, one line per finding: groups, component and event.

    Args:
        result: the run's results.
        axes: names; all by default.
    """
    lines: dict[str, list[str]] = {}
    for findings in alike([finding for finding in result.findings if finding.is_difference]):
        finding, groups = findings[0], [some.group for some in findings]
        if axes is None or finding.axis in axes:
            lines.setdefault(finding.axis, []).append(in_line(finding, result, groups))
    return lines


def in_line(finding: Finding, result: AuditResult, groups: Sequence[str] = ()) -> str:
    """Return a finding in one line: groups, component, the event, and what goes with it in a later component.

    Args:
        finding: the finding.
        result: the run's results.
        groups: all groups with the same finding; by default the finding's own.
    """
    where = f" ({finding.stage})" if finding.stage else ""
    texts = [sentence(finding, result, groups) + where, what_happens(finding, result, groups)]
    return "; ".join([*texts, *filter(None, [consequence(finding, groups)])])


def _few_domains(finding: Finding, result: AuditResult) -> str:
    """Return a restriction to the corpus's domains or chats if a claim holds for these only, such as ", true of these
    domains"; otherwise empty."""
    row = result.axes[finding.axis].get(finding.metric)
    of_chats = dict.fromkeys(DERIVED_KINDS, "chats")
    names = dict.fromkeys(of_chats.get(name, f"{name}s") for name in (row.few_clusters if row else ()))
    return f", true of these {' and '.join(names)}" if names else ""


def what_happens(finding: Finding, result: AuditResult, groups: Sequence[str] = ()) -> str:
    """Return the event with its counts and denominators: ``book_table without party_size: 9 of 19 as woman, …``.

    Args:
        finding: the finding.
        result: the run's results.
        groups: all groups with the same finding; by default the finding's own.
    """
    named = groups or [finding.group]
    if finding.group in finding.counts:
        sides = _counts(finding, named)
    else:
        sides = _scores(finding, result.axes[finding.axis].get(finding.metric), named)
    return f"{finding.what}: {', '.join(sides)}" if sides else finding.what


def _counts(finding: Finding, named: Sequence[str]) -> list[str]:
    """Return the counts of an event for each of some groups, then for all others together."""
    mine = {name: finding.counts[name] for name in named if name in finding.counts}
    sides = [_counted(counts, f"as {name}", is_share=finding.is_share) for name, counts in mine.items()]
    if finding.is_share and len({could for _, could in mine.values()}) == 1:  # the denominator is stated once
        sides[1:] = [f"{happened:,.0f} as {name}" for name, (happened, _) in list(mine.items())[1:]]
    return [*sides, _counted(finding.others(without=named), "as others", is_share=finding.is_share)]


def counted_sides(counts: Mapping[str, tuple[float, float]], groups: Sequence[str], *, is_share: bool) -> Iterator[str]:
    """Yield the counts of an event for each of some groups, then for all others together.

    Args:
        counts: group to how often the event happened, and in how many turns it could.
        groups: some of them.
        is_share: False if the event is the mean of a number.
    """
    for name in groups:
        if name in counts:
            yield _counted(counts[name], f"as {name}", is_share=is_share)
    others = total(some for name, some in counts.items() if name not in groups)
    yield _counted(others, "as others", is_share=is_share)


def _scores(finding: Finding, row: AxisResult | None, named: Sequence[str]) -> list[str]:
    """Return the score of each of some groups, then the mean of those that they are compared with; empty if a side has
    no score."""
    groups = {} if row is None else row.groups
    scores = {name: group.score.value for name, group in groups.items() if group.score.value is not None}
    mine = [f"{scores[name]:.2f} as {name}" for name in named if name in scores]
    others = finding.compared_with or list(scores)
    rest = [score for name, score in scores.items() if name in others and name not in named]
    return [*mine, f"{sum(rest) / len(rest):.2f} as others"] if mine and rest else []


def _counted(counts: tuple[float, float], who: str, *, is_share: bool) -> str:
    happened, could = counts
    if is_share:
        return f"{happened:,.0f} of {could:,.0f} {who}"
    return f"{happened / could:.1f} {who}" if could else f"none {who}"


def details(finding: Finding, result: AuditResult, groups: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines below a finding, without its example: the event, or the condition that a claim lacks."""
    if finding.is_difference:
        yield what_happens(finding, result, groups)
        if finding.repair:
            yield _REPAIRS[finding.repair]
        if not finding.stage and not result.is_recorded:
            yield "no declared stage accounts for it: declare the other models and tools of the agent"
    elif finding.verdict == EQUIVALENT:
        yield f"every gap is shown to be within {fixed(result.config.analysis.margin)}"
    elif finding.verdict == NO_DIFFERENCE:
        bound = 100 * (finding.bound or 0.0)
        turns = f"{finding.turns:,} of {finding.turns:,} turns come out as the original's"
        yield f"{turns}; up to {bound:.1f}% of dialogues could have been missed"
    elif cancelling := [pair for row in result.axes[finding.axis].values() if (pair := opposed(row)) is not None]:
        yield opposed_text(cancelling[0])
    elif finding.group:
        yield f"{what_happens(finding, result)} (p {p_cell(finding.effect.p)})"
    elif finding.missing == "chance":
        yield f"some turns differ, and in {finding.dialogues} dialogues no event goes with a group"
    elif finding.dialogues < 10:
        others = axes_with_more_terms(finding.axis)[:1]
        instead = f": try --axes {others[0]}" if others else ""
        dialogues = "1 dialogue mentions" if finding.dialogues == 1 else f"{finding.dialogues} dialogues mention"
        yield f"{dialogues} {finding.axis}{instead}"
    else:
        yield "turns differ, and no event does in three dialogues or more"


def advice(finding: Finding) -> str:
    """Return what would prove a difference that was seen; empty for other findings."""
    if finding.verdict != INCONCLUSIVE or not finding.group:
        return ""
    if finding.missing == "terms":
        others = axes_with_more_terms(finding.axis)
        return f"more terms would tell: try --axes {' or '.join(others)}" if others else "more terms are needed"
    if finding.missing:
        return _MISSING_CONDITIONS[finding.missing]
    return f"if it is as it was seen, about {finding.needed:,} dialogues would tell" if finding.needed else ""


def axes_with_more_terms(axis: str) -> list[str]:
    """Return the axes of introductions and names that are about the same dimension as an axis of terms."""
    dimension = "race" if axis == "race_people" else axis
    known = shipped_axes()
    return [name for prefix in ("persona_", "names_") if (name := f"{prefix}{dimension}") in known]


def consequence(finding: Finding, groups: Sequence[str] = ()) -> str:
    """Return what goes with a finding in a later component: "seen in answer: price: 5 as woman, 4 as others".

    Args:
        finding: the finding.
        groups: all groups with the same finding; by default the finding's own.
    """
    seen = finding.consequence
    if seen is None:
        return ""
    named = [name for name in groups or [finding.group] if name in seen.counts]
    known = {name: counts for name, counts in seen.counts.items() if name in (*named, *finding.compared_with)}
    sides = ", ".join(counted_sides(known, named, is_share=seen.is_share)) if named else ""
    return f"seen in {seen.stage}: {shortened(seen.what, _SHOWN_CONSEQUENCE)}{': ' if sides else ''}{sides}"


def beside(finding: Finding, result: AuditResult, groups: Sequence[str] = ()) -> list[str]:
    """Return further events of a finding's components with their counts: "also price: 5 as woman, 4 as others".

    Args:
        finding: the finding.
        result: the run's results.
        groups: all groups with the same finding; by default the finding's own.
    """
    lines = []
    for name in events_beside(finding, result)[:_MOST_BESIDE]:
        row = result.axes[finding.axis][name]
        sides = ", ".join(counted_sides(row.counts, groups or [finding.group], is_share=row.metric.is_share))
        lines.append(f"also {row.metric.label}: {sides}")
    return lines


def further(findings: Sequence[Finding], result: AuditResult) -> list[str]:
    """Return the events that go with findings that differ only in their group, in a line each."""
    groups = [some.group for some in findings]
    return [*beside(findings[0], result, groups), *filter(None, [consequence(findings[0], groups)])]


def has_room(findings: Sequence[Sequence[Finding]]) -> bool:
    """Return whether there are so few differences that a terminal has room for the events that go with them.

    Args:
        findings: those together that differ only in their group.
    """
    return sum(some[0].is_difference for some in findings) < _MANY


def may_be_mitigated(result: AuditResult) -> bool:
    """Return whether a fix can be tried: a finding names a stage of a system that a command can run again."""
    is_known = result.config.system.is_named or not result.config.corpus.given_of("corpus")
    named = (stage for finding in result.findings if finding.is_difference for stage in finding.stage.split(", "))
    return is_known and not result.is_recorded and any(stage in result.stages for stage in named)


def placebo_share(result: AuditResult) -> float | None:
    """Return the share of turns that neutral rewording changes; None without a placebo.

    Everything that a component puts out counts. A run without that record knows responses and calls alone.
    """
    if result.reworded is not None:
        return result.reworded.share
    row = result.axes.get(PLACEBO_VERDICT, {}).get("disagreement")
    return None if row is None else row.rewritten.value


def _is_reworded(result: AuditResult) -> bool:
    """Return whether the placebo changes anything that the system reads, as far as the run recorded it."""
    return result.reworded is None or result.reworded.dialogues > 0


def placebo_line(result: AuditResult) -> str:
    """Return the share of turns that neutral rewording changes, as a sentence; empty without a placebo."""
    share = placebo_share(result)
    if share is None:
        return ""
    if not _is_reworded(result):
        return "no message of a user holds a word that neutral rewording exchanges"
    if not share:
        return "neutral rewording changes nothing"
    stages = placebo_stages(result)
    where = f", in {' and '.join(stages)}" if stages else ""
    return f"neutral rewording changes {100 * share:.0f} of 100 turns{where}"


def placebo_stages(result: AuditResult) -> list[str]:
    """Return the one or two components that react to neutral rewording; empty if none stands out."""
    stages: list[str] = []
    if result.reworded is not None:
        turns = sum(result.reworded.stages.values())
        stages = [name for name, number in result.reworded.stages.items() if 2 * number > turns]
    if not stages:
        row = result.axes.get(PLACEBO_VERDICT, {}).get("disagreement")
        group = None if row is None else row.groups.get(PLACEBO_VERDICT)
        stages = [] if group is None else group.main_stages
    return stages if len(stages) <= _MOST_STAGES else []


def heading(result: AuditResult) -> str:
    """Return what was audited: the corpus, its dialogues, and how many mention each axis."""
    corpus = result.corpus
    audited = ", ".join(
        f"{number} mention {axis}" if not axis.startswith("persona_") else f"{number} with {axis}"
        for axis, number in corpus.audited.items()
        if axis != PLACEBO_VERDICT
    )
    return f"{corpus.name or 'dialogues'}: {corpus.dialogues:,} dialogues; {audited}"


def statement(findings: Sequence[Finding], result: AuditResult) -> Statement:
    """Put findings that differ only in their group into words.

    Args:
        findings: at least one.
        result: of the run.
    """
    finding, groups = findings[0], [some.group for some in findings]
    return Statement(
        verdict=finding.verdict,
        axis=finding.axis,
        sentence=sentence(finding, result, groups),
        stages=[name for name in finding.stage.split(", ") if name],
        details=list(details(finding, result, groups)),
    )


def left_out(result: AuditResult) -> list[Statement]:
    """Return a statement for every axis without a finding: why it has none."""
    with_findings = {finding.axis for finding in result.findings}
    axes = {name.partition(",")[0]: why for name, why in result.left_out.items()}
    return [
        Statement(INCONCLUSIVE, axis, why.removeprefix(f"axis {axis}: "))
        for axis, why in axes.items()
        if axis not in with_findings
    ]


def example_lines(example: Example, metric: str = "") -> list[str]:
    """Return an example in one line or two: what the user says, and what the system did otherwise.

    A long message is cut around the words that the counterfactual exchanges.

    Args:
        example: of a finding.
        metric: of the finding; the name of its field or tool is not repeated after the arrow.
    """
    event = event_of(metric)
    before, after = example.original, example.counterfactual
    name = event.name_in(before) if event is not None else ""
    if name and before.startswith(name):
        after = after.removeprefix(f"{name} ")
    if len(before) + len(after) > _SHOWN_EXAMPLE:
        differs = first_change(before, after)
        before, after = (window(text, differs, _SHOWN_EXAMPLE // 2) for text in (before, after))
    change = f"{before} → {after}"
    place = first_change(example.user, example.user_original) if example.user_original else len(example.user)
    room = _SHOWN_EXAMPLE - len(change)
    if room < _LEAST_MESSAGE:
        return [f"“{window(example.user, place, _SHOWN_EXAMPLE)}”", change]
    return [f"“{window(example.user, place, room)}”  {change}"]


class TerminalAnswer:
    """The answer that :func:`tod_bias.report.terminal.print_answer` prints.

    Args:
        result: the run's results.
        plain: True if the terminal shows ASCII only.
    """

    def __init__(self, result: AuditResult, *, plain: bool = False) -> None:
        self._result = result
        self._plain = plain

    def lines(self, width: int = 80) -> list[Text]:
        """Return the findings, one or a few lines each, then the placebo."""
        statements = self._statements()
        column = column_of([*(statement.axis for statement in statements), PLACEBO_VERDICT])
        lines = [self._line(heading(self._result), style="bold")]
        for text in (*unreached(self._result), *failing(self._result), *uncalled(self._result)):
            lines += [self._line(line, style="bold") for line in folded(text, "  ", width, "")]
        lines.append(Text())
        for statement in statements:
            lines += statement.lines(column, width, plain=self._plain)
        if placebo := placebo_line(self._result):
            is_quiet = _is_reworded(self._result) and (placebo_share(self._result) or 0.0) < _LOUD
            sign = mark(EQUIVALENT if is_quiet else "", plain=self._plain)
            begin = f"{sign} {PLACEBO_VERDICT:<{column}} "
            lines += map(self._line, folded(placebo, " " * len(begin), width, begin))
        if self._result.is_recorded:
            lines.append(self._line(_RECORDED))
        return lines

    def _line(self, text: str, style: str = "") -> Text:
        return Text(ascii_of(text) if self._plain else text, style=style)

    def _statements(self) -> list[Statement]:
        """Return all statements with their examples; one or two differences have room for a consequence."""
        made = []
        groups = alike(self._result.findings)
        is_roomy = has_room(groups)
        for findings in groups:
            finding, said = findings[0], statement(findings, self._result)
            lines = [*said.details, *(further(findings, self._result) if is_roomy else [])]
            if finding.example is not None:
                lines += example_lines(finding.example, finding.metric)
            made.append(replace(said, details=[*lines, *filter(None, [advice(finding)])]))
        return [*made, *left_out(self._result)]

    def table(self) -> Table | None:
        """Return a table of the groups of all axes with a finding: dialogues, terms, leading metric, score and p.

        None if no axis has a finding.
        """
        differences = [finding for finding in self._result.findings if finding.is_difference]
        axes = list(dict.fromkeys(finding.axis for finding in differences))
        if not axes:
            return None
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("group", "n", "terms", "what", "score", "p", ""):
            is_number = name in ("n", "terms", "score", "p")  # numbers stay whole on a narrow terminal
            table.add_column(
                name, justify="right" if is_number else "left", no_wrap=is_number or name == "group", overflow="fold"
            )
        for axis in axes:
            rows = list(self._rows(next(some for some in differences if some.axis == axis)))
            room = max(sum(bool(row[-1]) for row in rows) + 1, _MOST_ROWS // len(axes))
            for row in sorted(rows, key=lambda row: not row[-1])[:room]:  # groups with a finding first
                table.add_row(*row)
        return table

    def _rows(self, finding: Finding) -> Iterator[Sequence[str]]:
        rows = self._result.axes[finding.axis]
        of_axis = [some for some in self._result.findings if some.axis == finding.axis]
        claimed = {some.group: some for some in reversed(of_axis)}
        row = rows[finding.metric]
        for name in sorted(row.groups, key=lambda name: name not in row.apart):  # with those that are like the claimed
            claim = claimed.get(name, finding)  # a group's p-value stands beside the event that it belongs to
            group = rows[claim.metric].groups[name]
            is_share = claim.is_share and bool(claim.counts)
            score = group.score.value
            shown = "" if score is None else f"{100 * score:.0f}%" if is_share else f"{score:.2f}"
            word = _word(claim) if name in claimed else ""
            terms = group.effective_terms
            n = group.dialogues or 0
            p = p_cell(claim.effect.p) if name in claimed else ""
            yield name, str(n), "" if terms is None else f"{terms:.1f}", shortened(claim.what, 30), shown, p, word
