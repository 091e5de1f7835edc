"""Results on a terminal: tables of a run, a plan, an evaluation and a mitigation, and the printed answer.

A :class:`~tod_bias.report.sheets.Sheet` holds the same rows for the terminal, a page and CSV files.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tod_bias.audit.evaluation import Evaluation, score_cells
from tod_bias.audit.plan import Plan, StagePlan
from tod_bias.report.answer import TerminalAnswer
from tod_bias.report.circumstances import circumstances, outcomes
from tod_bias.report.console import Console
from tod_bias.report.differences import differences_of
from tod_bias.report.leading import leading_rows
from tod_bias.report.notation import (
    DAGGER,
    FEW_NOTE,
    NO_CLAIM,
    NOT_AVAILABLE,
    TERMS_ONLY,
    claim_of,
    count,
    fixed,
    interval,
    mark,
    p_cell,
    reference,
    shown_gap,
    side,
    with_interval,
)
from tod_bias.report.sheets import new_table
from tod_bias.results import DIFFERENT, AuditResult, AxisResult, Estimate
from tod_bias.statistics.arms import MOST_PLAYERS
from tod_bias.statistics.needed import ENOUGH_TERMS

_UNBOUNDED = 10_000  # columns; tables are measured at this width to learn what they need
_STYLES = {"disparity": "bold", "placebo": "dim"}


def table(result: AuditResult) -> RenderableType:
    """Return the tables of one run: groups, axes, components, a footnote; the placebo last."""
    return ResultTables(result)


def print_answer(result: AuditResult, console: Console) -> None:
    """Print what a run found, in at most 25 lines for three axes."""
    plain = not (console.encoding or "").lower().startswith("utf")
    made = TerminalAnswer(result, plain=plain)
    for line in made.lines(min(80, console.width)):
        console.print(line, soft_wrap=True, highlight=False)
    evidence = made.table()
    if evidence is not None:
        console.print()
        console.print(evidence, highlight=False)
    for passed in pass_lines(result):
        console.print(passed, soft_wrap=True, highlight=False)
    console.print()


def pass_lines(result: AuditResult) -> Iterator[str]:
    """Yield pass^k of every axis, the lowest group first: the share of tasks that are solved in all of k samples."""
    for axis, groups in result.passes.items():
        if groups:
            most = len(next(iter(groups.values())))
            yield f"{axis}, solved in k of {most} samples each time (pass^k, k = 1 to {most}):"
            for group, values in sorted(groups.items(), key=lambda item: item[1][-1]):
                yield f"  {group}: {' '.join(f'{value:.2f}' for value in values)}"


def answer_text(result: AuditResult, width: int = 80) -> str:
    """Return what :func:`print_answer` prints, as plain text."""
    console = Console(width=width, file=io.StringIO(), record=True, color_system=None, force_terminal=False)
    print_answer(result, console)
    return "\n".join(line.rstrip() for line in console.export_text().splitlines()).rstrip()


class ResultTables:
    """Renderable that :func:`table` returns; it lays itself out for the console's width."""

    def __init__(self, result: AuditResult) -> None:
        self._result = result
        self._axis_results = result.rows

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        unbounded = options.update_width(_UNBOUNDED)

        def fit(build: Callable[[bool, int], Table]) -> Table:
            for wide, padding in ((True, 1), (True, 0), (False, 1)):
                frame = build(wide, padding)
                if console.measure(frame, options=unbounded).maximum <= options.max_width:
                    return frame
            return build(False, 0)

        yield Text(self._heading(), style="bold")
        yield Text(self._conditions(), style="dim")
        yield Text()
        yield from self._tables(fit)
        for note in [*notes(self._axis_results), *meanings(self._shown)]:
            yield Text(note, style="dim")
        if len(self._shown) < len(self._axis_results):
            yield Text("groups and components by all metrics: results.json", "dim")
        texts = (text for row in self._shown for group in row.claims for text in differences_of(row, group))
        for text in dict.fromkeys(texts):
            yield Text(f"differs first: {text.replace('`', '')}")
        for sentence in circumstances(self._result):
            yield Text(f"! {sentence}")

    @property
    def _shown(self) -> list[AxisResult]:
        """Each axis by the metric of its first finding, then the placebo."""
        placebo = [row for row in self._axis_results if row.is_placebo]
        return [*leading_rows(self._result), *placebo[:1]]

    def _tables(self, fit: Callable[[Callable[[bool, int], Table]], Table]) -> Iterator[Table]:
        """The tables, each laid out by ``fit``."""
        shown = self._shown
        if any(axis_result.groups for axis_result in shown if not axis_result.is_placebo):
            yield fit(lambda wide, padding: group_table(shown, wide=wide, padding=padding))
        if any(axis_result.effects for axis_result in shown):
            yield fit(lambda wide, padding: effect_table(shown, wide=wide, padding=padding))
        if any(not axis_result.is_placebo for axis_result in self._axis_results):
            yield fit(lambda wide, padding: axis_table(self._axis_results, wide=wide, padding=padding))
        if any(axis_result.widest is not None and axis_result.widest.shares for axis_result in attributed(shown)):
            yield fit(lambda wide, padding: component_table(shown, wide=wide, padding=padding))
        yield fit(lambda wide, padding: footnote(shown, wide=wide, padding=padding))

    def _heading(self) -> str:
        corpus = self._result.corpus
        title = f"{corpus.name or 'corpus'} {corpus.split}".strip()
        return ", ".join([title, f"{count(corpus.dialogues)} dialogues", " > ".join(self._result.stages)])

    def _conditions(self) -> str:
        config = self._result.config
        draws = f" ({config.design.draws} draws)" if config.design.design == "draws" else ""
        history = "recorded" if self._result.is_recorded else config.run.history
        parts = [f"{config.design.design} design{draws}", f"seed {config.seed}", f"history {history}"]
        sides = dict.fromkeys(
            side(axis_result.metric.better, counterfactual=axis_result.metric.counterfactual)
            for axis_result in self._axis_results
        )
        return ", ".join([*parts, "intervals 95%", f"positive: {' or '.join(sides)}"])


def group_table(axis_results: Sequence[AxisResult], *, wide: bool = True, padding: int = 1) -> Table:
    """One row per group: dialogues, terms, score, its gap from the mean of groups, that beyond rewording, the claim.

    Args:
        axis_results: one per axis, of one metric; those of a placebo are left out.
        wide: True for one line per row; otherwise the interval is below its value.
        padding: spaces on either side of a cell.
    """
    claiming = [axis_result for axis_result in axis_results if not axis_result.is_placebo]
    whole = all(axis_result.covers_all_dialogues for axis_result in claiming)
    some = "Groups: dialogues, each rewritten for some of them"
    view = new_table("Groups: the same dialogues, rewritten for each group" if whole else some, (0, padding))
    view.add_column("axis", style="bold", overflow="fold")
    view.add_column("group", overflow="fold")
    beyond = any(group.beyond_placebo for axis_result in claiming for group in axis_result.groups.values())
    headings = ["dia-\nlogues", "eff.\nterms", "score"]
    for name in ("gap from mean", "beyond rewording")[: 2 if beyond else 1]:
        headings += [f"{name}\n[95%]", "p"] if wide else [f"{name}\n[95%]  p"]
    for heading in headings:
        view.add_column(heading, justify="right", overflow="fold")
    view.add_column("claim", overflow="fold")
    for axis_result in claiming:
        _add_groups(view, axis_result, _name(axis_result, claiming), wide=wide, beyond=beyond)
    return view


def _add_groups(view: Table, axis_result: AxisResult, axis: str, *, wide: bool, beyond: bool) -> None:
    """The rows of one axis: its groups, then its reference variants."""
    shown = [(group.name, group) for group in axis_result.groups.values()]
    shown += [(f"no group: {reference(variant.name)}", variant) for variant in axis_result.references.values()]
    for number, (name, group) in enumerate(shown):
        gap = shown_gap(axis_result, group)
        cells = [count(group.dialogues)]
        cells += ["" if group.effective_terms is None else fixed(group.effective_terms, 1), fixed(group.score.value)]
        cells += _estimate_cells(gap, wide=wide)
        if beyond:
            cells += _estimate_cells(group.beyond_placebo, wide=wide)
        claim = claim_of(axis_result, group)
        view.add_row(
            "" if number else axis,
            _broken(name) if wide else _folded(name),
            *cells,
            claim if wide else claim.replace(" ", "\n"),
            style="dim" if group.name in axis_result.references and claim == NO_CLAIM else "",
            end_section=number == len(shown) - 1,
        )


def _estimate_cells(estimate: Estimate | None, *, wide: bool) -> list[str]:
    """A value with its interval and its p-value: two cells, or one in two lines."""
    if estimate is None:
        return ["", ""] if wide else [""]
    if wide:
        return [with_interval(estimate, sign=True), p_cell(estimate.p)]
    cell = p_cell(estimate.p)
    p = "" if cell == NOT_AVAILABLE else f"  {cell}"
    return ["\n".join(filter(None, (f"{fixed(estimate.value, sign=True)}{p}", interval(estimate, sign=True))))]


def effect_table(axis_results: Sequence[AxisResult], *, wide: bool = True, padding: int = 1) -> Table:
    """Return a table of crossed axes: one row per group of each, then the interactions that are shown."""
    view = new_table("Crossed axes: each by itself, and beyond both", (0, padding))
    for heading in ("axis", "group"):
        view.add_column(heading, overflow="fold")
    for heading in ("gap from the mean\n[95%]", "p") if wide else ("gap from the mean\n[95%]  p",):
        view.add_column(heading, justify="right", overflow="fold")
    for axis_result in axis_results:
        before = ""
        for factor, effect in axis_result.shown_effects:
            name = escape(factor) if factor != before else ""
            view.add_row(name, _broken(effect.name), *_estimate_cells(effect, wide=wide))
            before = factor
    return view


_LONG = 16


def _broken(name: str) -> str:
    """Return a name, on two lines if it is a long crossed one."""
    return escape(name if len(name) <= _LONG else name.replace("×", "×\n"))


def _folded(name: str) -> str:
    """A name on lines of :data:`_FOLD` columns, broken where a part of it ends."""
    lines = [""]
    for part in re.findall(r"[^×:_ -]+[×:_ -]*|[×:_ -]+", name):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > _FOLD:
            lines.append("")
        lines[-1] += part
    return escape("\n".join(line.rstrip() for line in lines))


_FOLD = 11


def axis_table(axis_results: Sequence[AxisResult], *, wide: bool = True, padding: int = 1) -> Table:
    """Return one row per axis and metric: its verdict with the p-value that decides it, and the groups furthest
    apart."""
    claiming = [axis_result for axis_result in axis_results if not axis_result.is_placebo]
    view = new_table("Axes: is any group served differently?", (0, padding))
    several = len({axis_result.metric.name for axis_result in axis_results}) > 1
    view.add_column("axis, metric" if several else "axis", style="bold", overflow="fold", max_width=30 if wide else 14)
    view.add_column("verdict", overflow="fold")
    view.add_column("p, any\ngroup", justify="right", overflow="fold")
    view.add_column("widest gap: worse - better [95%]", overflow="fold")
    view.add_column("p", justify="right", overflow="fold")
    before = ""
    for axis_result, after in zip(claiming, [*claiming[1:], None], strict=True):
        repeated = several and axis_result.axis == before
        view.add_row(
            " " + escape(axis_result.metric.label) if repeated else _name(axis_result, axis_results),
            axis_result.verdict,
            _omnibus(axis_result),
            *_widest_cells(axis_result, wide=wide),
            end_section=several and after is not None and after.axis != axis_result.axis,
            style=_STYLES.get(axis_result.verdict, ""),
        )
        before = axis_result.axis
    return view


def _omnibus(axis_result: AxisResult) -> str:
    """Return the p-value that decides the verdict, marked if it holds for these terms only."""
    omnibus = axis_result.omnibus
    cell = NOT_AVAILABLE if omnibus is None else p_cell(omnibus.p)
    return "" if omnibus is None or cell == NOT_AVAILABLE else f"{cell}{TERMS_ONLY if omnibus.scope else ''}"


def _widest_cells(axis_result: AxisResult, *, wide: bool) -> list[str]:
    widest = axis_result.widest
    if widest is None or (axis_result.metric.counterfactual and axis_result.verdict not in DIFFERENT):
        return ["", ""]  # how much more differs as one group than as another is nothing by itself
    names = escape(f"{widest.worse} - {widest.better}:")
    return [f"{names}{' ' if wide else chr(10)}{with_interval(widest.gap, sign=True)}", p_cell(widest.gap.p)]


def attributed(axis_results: Sequence[AxisResult]) -> list[AxisResult]:
    """The axes whose widest gap is taken apart: those on which something is claimed."""
    return [axis_result for axis_result in axis_results if axis_result.verdict in DIFFERENT and axis_result.widest]


def component_table(axis_results: Sequence[AxisResult], *, wide: bool = True, padding: int = 1) -> Table:
    """One row per axis and stage: its share of the widest gap, what it removes replaced alone, and keeps left alone."""
    view = new_table("Components of the widest gap", (0, padding))
    view.add_column("axis", style="bold", overflow="fold")
    view.add_column("stage", overflow="fold")
    for heading in ("share\n[95%]", "replaced alone:\nremoves [95%]", "left alone:\nkeeps [95%]"):
        view.add_column(heading, justify="right", overflow="fold")
    separator = " " if wide else "\n"
    for axis_result in attributed(axis_results):
        widest = axis_result.widest
        contributions = {} if widest is None else widest.parts
        for number, (name, part) in enumerate(contributions.items()):
            view.add_row(
                _name(axis_result, axis_results) if number == 0 else "",
                escape(name),
                *(
                    "" if cell is None else with_interval(cell, sign=True, separator=separator)
                    for cell in (part.shapley, part.replaced_alone, part.left_alone)
                ),
                end_section=number == len(contributions) - 1,
            )
    return view


def footnote(axis_results: Sequence[AxisResult], *, wide: bool = True, padding: int = 1) -> Table:
    """One row per axis: what the run claims nothing of, and what it could have found."""
    view = new_table("Footnote: the system against its twin; nothing is claimed of it", (0, padding))
    view.add_column("axis", overflow="fold")
    view.add_column("dia-\nlogues", justify="right", overflow="fold")
    for heading in ("pooled difference\n[95%]", "artefact\n[95%]", "fairscore\n(Su) [95%]"):
        view.add_column(heading, justify="right", overflow="fold")
    view.add_column("gap found\nin 4 of 5", justify="right", overflow="fold")
    separator = " " if wide else "\n"
    for axis_result in axis_results:
        fairscore = None if axis_result.su is None else axis_result.su.fairscore
        view.add_row(
            _name(axis_result, axis_results),
            f"{count(axis_result.dialogues)}{mark(axis_result)}",
            with_interval(axis_result.disparity, sign=True, separator=separator),
            with_interval(axis_result.artefact, sign=True, separator=separator),
            "" if fairscore is None else with_interval(fairscore, separator=separator),
            "" if axis_result.mde is None else fixed(axis_result.mde),
            style="dim",
        )
    return view


def notes(axis_results: Sequence[AxisResult]) -> list[str]:
    """Return the meanings of the marks in the tables."""
    marks = {
        f"{DAGGER} {FEW_NOTE}": any(map(mark, axis_results)),
        f"{TERMS_ONLY} true of the terms of this run only: they are too few, or too uneven, to stand for a group": any(
            estimate.is_of_terms_only for axis_result in axis_results for estimate in _printed(axis_result)
        ),
    }
    return [note for note, applies in marks.items() if applies]


def _printed(axis_result: AxisResult) -> Iterator[Estimate]:
    yield axis_result.disparity
    if not axis_result.is_placebo:
        yield from (shown_gap(axis_result, group) for group in axis_result.groups.values())
        yield from (variant.gap for variant in axis_result.references.values())
        if axis_result.widest is not None:
            yield axis_result.widest.gap


def meanings(axis_results: Sequence[AxisResult]) -> list[str]:
    """Return the meanings of words in tables of one metric: the score, gaps, p-values, the twin, effective terms."""
    metric = axis_results[0].metric
    better = "" if metric.better == "neither" else f", {metric.better} is better"
    lines = [f"score: {metric.label}{better}"]
    ratios = [
        axis_result for axis_result in axis_results if axis_result.scale == "ratio" and not axis_result.is_placebo
    ]
    if ratios:
        scores = ", ".join(f"{axis_result.axis} {fixed(axis_result.original.value)}" for axis_result in ratios)
        lines.append(f"gaps and components: shares of the originals' score ({scores})")
    lines.append("p and intervals of gaps: over everything that the run claims; of components and footnote: alone")
    lines.append("claim: p < 0.05 for the gap and, with a placebo, beyond rewording on the same side")
    lines.append("twin: the same system, its input turned back to the original and its output rewritten")
    if any(axis_result.effective_terms is not None for axis_result in axis_results):
        lines.append(
            "eff. terms: equally frequent terms that a group rests on; "
            f"a claim about it takes {ENOUGH_TERMS}, none with most of the gap"
        )
    return lines


def _name(axis_result: AxisResult, axis_results: Sequence[AxisResult]) -> str:
    several = len({row.metric.name for row in axis_results}) > 1
    axis = _folded(axis_result.axis)
    return f"{axis}\n {escape(axis_result.metric.label)}" if several else axis


def plan_table(result: Plan) -> Table:
    """Return a plan as a table: one row per stage."""
    view = new_table("\n".join(_title(result)))
    priced = any(stage.price is not None for stage in result.stages.values())
    for column in ("stage", "calls", "different", "tokens read", "written", "seconds", *(["price"] if priced else [])):
        view.add_column(column, justify="left" if column == "stage" else "right")
    for name, stage in result.stages.items():
        calls, read, written = (_number(number) for number in (stage.calls, stage.read, stage.written))
        seconds = "–" if stage.seconds is None else f"{stage.seconds:,.1f}"
        cells = [name, calls, _different(stage), read, written, "remote" if stage.remote else seconds]
        price = "–" if stage.price is None else f"{stage.price:,.2f}"
        view.add_row(*cells, *([price] if priced else []))
    return view


def _title(result: Plan) -> list[str]:
    audited = ", ".join(
        f"{axis} {number}" + (f" of {result.rewritable[axis]}" if number < result.rewritable[axis] else "")
        for axis, number in result.audited.items()
    )
    terms = ", ".join(f"{axis} {number:g}" for axis, number in result.effective_terms.items())
    lines = [
        f"{result.dialogues} dialogues read; rewritten: {audited}",
        f"effective terms: {terms} (a claim about a group takes {ENOUGH_TERMS})",
    ]
    if result.placebo:
        some = ", ".join(_of_placebo(result, axis) for axis in result.placebo)
        lines.append(f"dialogues with a placebo: {some}")
    many = "" if len(result.stages) <= MOST_PLAYERS else "about " if result.sampled else "at most "
    sizes = f"{result.variants} variants, {result.turns} turns, {many}{result.arms} arms"
    return [*lines, f"{sizes}, {result.history} history"]


def _of_placebo(result: Plan, axis: str) -> str:
    placebo = result.placebo[axis]
    of = f" of {result.audited[axis]}" if placebo.dialogues < result.audited[axis] else ""
    return f"{axis} {placebo.dialogues}{of} ({placebo.edits['axis']:g} words changed, {placebo.edits['placebo']:g})"


def _number(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _different(stage: StagePlan) -> str:
    if stage.exact is not None:
        return f"{stage.exact:,}"
    if stage.estimate is not None:
        return f"about {stage.estimate:,}"
    if stage.at_least is not None:
        return f"at least {stage.at_least:,}"
    return "–" if stage.at_most is None else f"at most {stage.at_most:,}"


def evaluation_table(result: Evaluation) -> Table:
    """Return an evaluation as a table: score, value, 95% interval."""
    view = new_table(result.title)
    view.add_column("score")
    view.add_column("value", justify="right")
    view.add_column("95% interval", justify="right")
    for row in _rows(result):
        view.add_row(*map(Text, row))
    return view


def _rows(result: Evaluation) -> list[tuple[str, str, str]]:
    rows = []
    for name, score in result.scores.items():
        rows.append((name, *score_cells(score)))
    for stage, some in outcomes(result.cost).items():
        rows += [(f"{stage}: {what}".replace("`", ""), "", "") for what in some]
    for model in result.precision:
        what = f"{', '.join(model.stages)}: {model.dtype} unlike float32"
        rows.append((what, f"{model.differ} of {model.prompts}", ""))
    return rows


_WHEN = ("before", "after")
