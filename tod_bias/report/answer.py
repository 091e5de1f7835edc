"""The answer of a run on a terminal of 80 columns: what was found, first, in at most 25 lines for three axes.

Findings are decided in :mod:`tod_bias.audit.findings`; here they are put into words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from rich.table import Table
from rich.text import Text

from tod_bias.dialogues.text import first_change, window
from tod_bias.metrics.behaviour import SHARES, Behaviour
from tod_bias.report.components import opposed
from tod_bias.report.notation import fixed, p_cell
from tod_bias.report.statements import Statement, ascii_of, column_of, mark
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
    MetricInfo,
)

_REPAIRS = {
    "either": "it takes these stages together: to repair one of them is enough",
    "all": "each of these stages does it alone: all of them have to be repaired",
}
_MISSING = {
    "placebo": "nearly all originals are of one group: add `placebo` to --axes to tell it from rewording",
    "beyond placebo": "nearly all originals are of one group, and neutral rewording does as much",
}
_RECORDED = "Nothing is attributed to stages: the responses were saved, and no stage was called."
_LOUD = 0.05
"""Share of turns from which the effect of neutral rewording is no reassurance."""
_MOST_ROWS = 8
"""Groups in the table; the report shows all."""
_SHOWN_EXAMPLE = 64
"""Characters of a line of an example."""
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
    """Return who is treated differently, in a few words; empty for a finding of no difference.

    Args:
        finding: what is found.
        result: of the run.
        groups: all groups with the same finding; by default the finding's own.
    """
    if not finding.is_difference:
        return ""
    only = ", with these terms" if finding.verdict == THESE_TERMS else ""
    domains = _few_domains(finding, result)
    *first, last = groups or [finding.group]
    who = f"{', '.join(first)} and {last}" if first else last
    return f"{treatment(finding, result)} as {who}{only}{domains}"


def treatment(finding: Finding, result: AuditResult) -> str:
    """Return how a group is served, in two words."""
    if result.metrics.get(finding.metric, MetricInfo()).better == "neither":
        return "treated differently"
    return "served worse" if (finding.effect.value or 0.0) > 0 else "served better"


def in_lines(result: AuditResult, axes: Collection[str] | None = None) -> dict[str, list[str]]:
    """Return each axis with a difference and its findings, a line each: who, in which component, and what happens.

    Args:
        result: of the run.
        axes: names; all by default.
    """
    lines: dict[str, list[str]] = {}
    for findings in alike([finding for finding in result.findings if finding.is_difference]):
        finding, groups = findings[0], [some.group for some in findings]
        where = f" ({finding.stage})" if finding.stage else ""
        if axes is None or finding.axis in axes:
            text = f"{sentence(finding, result, groups)}{where}; {what_happens(finding, result, groups)}"
            lines.setdefault(finding.axis, []).append(text)
    return lines


def _few_domains(finding: Finding, result: AuditResult) -> str:
    """Return that a claim holds for the few domains of the corpus only."""
    row = result.axes[finding.axis].get(finding.metric)
    few = [f"{number} {name}s" for name, number in (row.few_clusters if row else {}).items()]
    return f", in these {' and '.join(few)}" if few else ""


def what_happens(finding: Finding, result: AuditResult, groups: Sequence[str] = ()) -> str:
    """Return what happens, with counts and denominators: ``book_table without party_size: 9 of 19 as woman, …``.

    Args:
        finding: what is found.
        result: of the run.
        groups: all groups with the same finding; by default the finding's own.
    """
    event, named = Behaviour.of(finding.metric), groups or [finding.group]
    if event is not None and finding.group in finding.counts:
        sides = _counts(event, finding, named)
    else:
        sides = _scores(result.axes[finding.axis].get(finding.metric), named)
    return f"{finding.what}: {', '.join(sides)}" if sides else finding.what


def _counts(event: Behaviour, finding: Finding, named: Sequence[str]) -> list[str]:
    """Return how often an event happened as each of some groups, then as all others."""
    mine = {name: finding.counts[name] for name in named if name in finding.counts}
    sides = [_counted(event, counts, f"as {name}") for name, counts in mine.items()]
    if event.kind in SHARES and len({could for _, could in mine.values()}) == 1:  # the denominator is stated once
        sides[1:] = [f"{happened:,.0f} as {name}" for name, (happened, _) in list(mine.items())[1:]]
    return [*sides, _counted(event, finding.others(without=named), "as others")]


def _scores(row: AxisResult | None, named: Sequence[str]) -> list[str]:
    """Return the score of each of some groups, then the mean of all others; empty if a side has no score."""
    groups = {} if row is None else row.groups
    scores = {name: group.score.value for name, group in groups.items() if group.score.value is not None}
    mine = [f"{scores[name]:.2f} as {name}" for name in named if name in scores]
    rest = [score for name, score in scores.items() if name not in named]
    return [*mine, f"{sum(rest) / len(rest):.2f} as others"] if mine and rest else []


def _counted(event: Behaviour, counts: tuple[float, float], who: str) -> str:
    happened, could = counts
    if event.kind in SHARES:
        return f"{happened:,.0f} of {could:,.0f} {who}"
    return f"{happened / could:.1f} {who}" if could else f"none {who}"


def details(finding: Finding, result: AuditResult, groups: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines below a finding without its example: the event, or what is missing for a claim."""
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
        yield f"{turns}; a rate of up to {bound:.1f}% could have been missed"
    elif cancelling := [pair for row in result.axes[finding.axis].values() if (pair := opposed(row)) is not None]:
        yield str(cancelling[0])
    elif finding.group:
        yield f"unproven: {what_happens(finding, result)} (p {p_cell(finding.effect.p)})"
        is_more = finding.needed is not None and finding.needed > finding.dialogues
        if finding.missing:
            yield _MISSING[finding.missing]
        else:
            yield f"about {finding.needed:,} such dialogues would decide" if is_more else "more terms are needed"
    elif finding.dialogues < 10:
        yield f"{finding.dialogues} dialogues mention {finding.axis}: try --axes persona_{finding.axis}"
    else:
        yield "no event differs in three dialogues or more"


def placebo_share(result: AuditResult) -> float | None:
    """Return the share of turns that neutral rewording changes; None without a placebo."""
    row = result.axes.get(PLACEBO_VERDICT, {}).get("disagreement")
    return None if row is None else row.rewritten.value


def placebo_line(result: AuditResult) -> str:
    """Return what neutral rewording does to the turns; empty without a placebo."""
    share = placebo_share(result)
    if share is None:
        return ""
    return f"neutral rewording changes {100 * share:.0f} of 100 turns" if share else "neutral rewording changes nothing"


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
        stages=[name for name in finding.stage.split(", ") if name] if finding.is_difference else (),
        details=list(details(finding, result, groups)),
    )


def left_out(result: AuditResult) -> list[Statement]:
    """Return a statement for every axis without a finding: why it has none."""
    found = {finding.axis for finding in result.findings}
    axes = {name.partition(",")[0]: why for name, why in result.left_out.items()}
    return [
        Statement(INCONCLUSIVE, axis, why.removeprefix(f"axis {axis}: "))
        for axis, why in axes.items()
        if axis not in found
    ]


def example_lines(example: Example) -> list[str]:
    """Return an example in one line or two: what the user says, and what the system did otherwise.

    A long message is cut around the words that the counterfactual exchanges.
    """
    before, after = example.original, _without_name(example.original, example.counterfactual)
    if len(before) + len(after) > _SHOWN_EXAMPLE:
        differs = first_change(before, after)
        before, after = (window(text, differs, _SHOWN_EXAMPLE // 2) for text in (before, after))
    change = f"{before} → {after}"
    place = first_change(example.user, example.user_original) if example.user_original else len(example.user)
    room = _SHOWN_EXAMPLE - len(change)
    if room < _LEAST_MESSAGE:
        return [f"“{window(example.user, place, _SHOWN_EXAMPLE)}”", change]
    return [f"“{window(example.user, place, room)}”  {change}"]


def _without_name(before: str, after: str) -> str:
    """Return the text after an arrow, without a name that precedes the arrow too."""
    name = before.split(" ")[0].removesuffix(":")
    return after.removeprefix(f"{name} ") if " " in before else after


class TerminalAnswer:
    """Answer of :func:`tod_bias.report.terminal.answer` for a run.

    Args:
        result: of the run.
        plain: whether the terminal shows ASCII only.
    """

    def __init__(self, result: AuditResult, *, plain: bool = False) -> None:
        self._result = result
        self._plain = plain

    def lines(self, width: int = 80) -> list[Text]:
        """Return the findings, one or a few lines each, then the placebo."""
        statements = self._statements()
        column = column_of([*(statement.axis for statement in statements), PLACEBO_VERDICT])
        lines = [self._line(heading(self._result), style="bold"), Text()]
        for statement in statements:
            lines += statement.lines(column, width, plain=self._plain)
        if placebo := placebo_line(self._result):
            is_quiet = (placebo_share(self._result) or 0.0) < _LOUD
            sign = mark(EQUIVALENT if is_quiet else "", plain=self._plain)
            lines.append(self._line(f"{sign} {PLACEBO_VERDICT:<{column}} {placebo}"))
        if self._result.is_recorded:
            lines.append(self._line(_RECORDED))
        return lines

    def _line(self, text: str, style: str = "") -> Text:
        return Text(ascii_of(text) if self._plain else text, style=style)

    def _statements(self) -> list[Statement]:
        """Return all statements; those of differences end with an example."""
        made = []
        for findings in alike(self._result.findings):
            said, example = statement(findings, self._result), findings[0].example
            if said.is_difference and example is not None:
                said = replace(said, details=[*said.details, *example_lines(example)])
            made.append(said)
        return [*made, *left_out(self._result)]

    def table(self) -> Table | None:
        """Return the groups of the axes with a finding: dialogues, terms, what leads, and p; None without a finding."""
        found = [finding for finding in self._result.findings if finding.is_difference]
        axes = list(dict.fromkeys(finding.axis for finding in found))
        if not axes:
            return None
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("group", "n", "terms", "what", "score", "p", ""):
            table.add_column(name, justify="right" if name in ("n", "terms", "score", "p") else "left", no_wrap=True)
        for axis in axes:
            rows = list(self._rows(next(some for some in found if some.axis == axis)))
            room = max(sum(bool(row[-1]) for row in rows) + 1, _MOST_ROWS // len(axes))
            for row in sorted(rows, key=lambda row: not row[-1])[:room]:  # groups with a finding first
                table.add_row(*row)
        return table

    def _rows(self, finding: Finding) -> Iterator[Sequence[str]]:
        row = self._result.axes[finding.axis][finding.metric]
        event = Behaviour.of(finding.metric)
        claimed = {some.group: some for some in self._result.findings if some.axis == finding.axis}
        for name, group in row.groups.items():
            score = group.score.value
            is_share = event is not None and event.kind in SHARES
            shown = "" if score is None else f"{100 * score:.0f}%" if is_share else f"{score:.2f}"
            word = treatment(claimed[name], self._result) if name in claimed else ""
            terms = group.effective_terms
            n = group.dialogues or 0
            p = p_cell(row.claims.get(name, group.gap).p)
            yield name, str(n), "" if terms is None else f"{terms:.1f}", finding.what[:30], shown, p, word
