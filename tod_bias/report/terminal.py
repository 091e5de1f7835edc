"""The results of a run as tables on a terminal: groups, contributions of stages, disparities, and their readings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tod_bias.report.circumstances import circumstances
from tod_bias.report.notation import TERMS_ONLY, count, fixed, p_cell, reference, with_interval
from tod_bias.report.reading import DAGGER, FEW_NOTE, Reading, has_few, is_claimed, mark, read, side
from tod_bias.report.sheets import new_table
from tod_bias.results import DIFFERENT, AuditResult, AxisResult, Estimate
from tod_bias.statistics.needed import ENOUGH_TERMS

_UNBOUNDED = 10_000  # columns; tables are measured at this width to learn what they need
BAR = 12
"""Cells of a bar on either side of 0."""
_STYLES = {"disparity": "bold", "placebo": "dim"}


def table(result: AuditResult) -> RenderableType:
    """The tables of one run: groups, stages, disparities, and a reading per axis and metric; the placebo last.

    Args:
        result: of one run.
    """
    return ResultTables(result)


class ResultTables:
    """What :func:`table` returns: a rich renderable that lays itself out for the console's width."""

    def __init__(self, result: AuditResult) -> None:
        self._result = result
        self._axis_results = result.rows
        self._readings = read(self._axis_results)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bar = "#" if options.ascii_only else "█"
        unbounded = options.update_width(_UNBOUNDED)

        def fit(build: Callable[[bool, int], Table]) -> Table:
            for wide, padding in ((True, 1), (True, 0)):
                frame = build(wide, padding)
                if console.measure(frame, options=unbounded).maximum <= options.max_width:
                    return frame
            return build(False, 0)

        yield Text(self._heading(), style="bold")
        yield Text(self._conditions(), style="dim")
        yield Text()
        first = self._axis_results[0].metric.name
        shown = [axis_result for axis_result in self._axis_results if axis_result.metric.name == first]
        if any(axis_result.groups for axis_result in shown if not axis_result.is_placebo):
            yield fit(lambda wide, padding: group_table(shown, wide=wide, padding=padding))
        if any(axis_result.effects for axis_result in shown):
            yield fit(lambda wide, padding: effect_table(shown, padding=padding))
        if any(axis_result.shares for axis_result in shown):
            yield fit(lambda wide, padding: stage_table(shown, wide=wide, padding=padding, bar=bar))
        yield fit(lambda wide, padding: axis_table(self._axis_results, wide=wide, padding=padding))
        for note in notes(self._axis_results):
            yield Text(note, style="dim")
        for note in meanings(self._axis_results):
            yield Text(note, style="dim")
        if len(shown) < len(self._axis_results):
            yield Text(f"groups and stages by the other metrics than {shown[0].metric.label}: report.html", "dim")
        for sentence in circumstances(self._result):
            yield Text(f"! {sentence}")
        yield Text("Reading", style="italic")
        yield Group(*_readings(self._readings))

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
    """One row per group: its score, its gap from the mean of groups, and the stage with the largest contribution.

    Args:
        axis_results: one per axis, of one metric; those of a placebo are left out.
        wide: whether the dialogues have a column.
        padding: spaces on either side of a cell.
    """
    whole = all(axis_result.covers_all_dialogues for axis_result in axis_results)
    title = "Groups: the same dialogues, rewritten for each group"
    view = new_table(title if whole else f"{title} that their words allow", (0, padding))
    view.add_column("axis", style="bold", overflow="fold")
    view.add_column("group", overflow="fold")
    headings = ["score", "gap from the mean\n[95%]", "p\n(Holm)", "largest\ncontribution"]
    for heading in ["dialogues", *headings] if wide else headings:
        view.add_column(heading, justify="right", overflow="fold")
    for axis_result in axis_results:
        if not axis_result.is_placebo:
            _add_groups(view, axis_result, _name(axis_result, axis_results), wide=wide)
    return view


def _add_groups(view: Table, axis_result: AxisResult, axis: str, *, wide: bool) -> None:
    """The rows of one axis: its groups, then its reference variants."""
    shown = [(_broken(group.name), group, "") for group in axis_result.groups.values()]
    shown += [(f"no group: {reference(variant.name)}", variant, "dim") for variant in axis_result.references.values()]
    for number, (name, group, style) in enumerate(shown):
        few = mark(group.dialogues)
        view.add_row(
            "" if number else axis,
            name if wide else name + few,
            *([f"{count(group.dialogues)}{few}"] if wide else []),
            fixed(group.score.value),
            with_interval(group.gap, sign=True),
            "" if style else p_cell(group.gap.p),
            _largest(group.shares, group.gap),
            style=style,
            end_section=number == len(shown) - 1,
        )


def effect_table(axis_results: Sequence[AxisResult], *, padding: int = 1) -> Table:
    """Of crossed axes: one row per group of each, then the claimed interactions."""
    view = new_table("Crossed axes: each by itself, and beyond both", (0, padding))
    for heading in ("axis", "group"):
        view.add_column(heading, overflow="fold")
    for heading in ("gap from the mean\n[95%]", "p\n(Holm)", "largest\ncontribution"):
        view.add_column(heading, justify="right", overflow="fold")
    for axis_result in axis_results:
        before = ""
        for factor, effect in (
            (factor, gap) for factor, levels in axis_result.effects.items() for gap in levels.values()
        ):
            p = effect.p
            if factor == "interaction" and (p is None or p >= _CLAIMED):
                continue
            view.add_row(
                escape(factor) if factor != before else "",
                _broken(effect.name),
                with_interval(effect, sign=True),
                p_cell(p),
                "",
            )
            before = factor
    return view


_CLAIMED = 0.05
_LONG = 16


def _broken(name: str) -> str:
    """A name, crossed ones on two lines where they are long."""
    return escape(name if len(name) <= _LONG else name.replace("×", "×\n"))


def axis_table(axis_results: Sequence[AxisResult], *, wide: bool = True, padding: int = 1) -> Table:
    """One row per axis and metric: scores, the disparity, what of it is above the placebo, and the verdict.

    Args:
        axis_results: one per axis and metric.
        wide: whether scores, what is above the placebo, and the minimum detectable effect have columns.
        padding: spaces on either side of a cell.
    """
    view = new_table("Disparity: the system against its own twin", (0, padding))
    several = len({axis_result.metric.name for axis_result in axis_results}) > 1
    view.add_column("axis, metric" if several else "axis", style="bold", overflow="fold", max_width=30 if wide else 14)
    headings = ["dia-\nlogues", "eff.\nterms", "disparity\n[95%]", "p\n(Holm)", "verdict"]
    if wide:
        headings[1:3] = ["effective\nterms", "score\noriginal", "score\nrewritten", "disparity\n[95%]"]
        headings[-1:] = ["above placebo\n[95%]", "detectable\n(80%)", "verdict"]
    for heading in headings:
        view.add_column(heading, justify="right", overflow="fold")
    following = [axis_result.axis for axis_result in axis_results[1:]] + [""]
    before = ""
    for axis_result, after in zip(axis_results, following, strict=True):
        repeated = several and axis_result.axis == before
        view.add_row(
            " " + escape(axis_result.metric.label) if repeated else _name(axis_result, axis_results),
            *_axis_cells(axis_result, wide=wide),
            end_section=several and after not in ("", axis_result.axis),
            style=_STYLES.get(axis_result.verdict, ""),
        )
        before = axis_result.axis
    return view


def _axis_cells(axis_result: AxisResult, *, wide: bool) -> list[str]:
    """The cells of one row of the table of disparities, without its name."""
    counts = [f"{count(axis_result.dialogues)}{mark(axis_result.dialogues)}", fixed(axis_result.effective_terms, 1)]
    disparity = [
        with_interval(axis_result.disparity, sign=True),
        "" if axis_result.is_placebo else p_cell(axis_result.disparity.p),
    ]
    if not wide:
        return [*counts, *disparity, axis_result.verdict]
    beyond = "" if axis_result.beyond_placebo is None else with_interval(axis_result.beyond_placebo, sign=True)
    detectable = "" if axis_result.mde is None else fixed(axis_result.mde)
    scores = [fixed(axis_result.original.value), fixed(axis_result.rewritten.value)]
    return [*counts, *scores, *disparity, beyond, detectable, axis_result.verdict]


def stage_table(axis_results: Sequence[AxisResult], *, wide: bool = True, padding: int = 1, bar: str = "█") -> Table:
    """One row per axis, metric and stage: its contribution to the disparity, and to the largest gap of a group."""
    view = new_table("Stages: their contributions to the disparity, and to the widest gap", (0, padding))
    view.add_column("axis", style="bold", overflow="fold")
    view.add_column("stage", overflow="fold")
    view.add_column("to the disparity\n[95%]", justify="right", overflow="fold")
    if wide:
        view.add_column("", overflow="fold")
    view.add_column("to the widest gap\n[95%]", justify="right", overflow="fold")
    values = [abs(share.value or 0.0) for axis_result in axis_results for share in axis_result.shares.values()]
    longest = max(values, default=0.0)
    for axis_result in axis_results:
        widest = max(axis_result.groups.values(), key=lambda group: abs(group.gap.value or 0), default=None)
        for number, (name, share) in enumerate(axis_result.shares.items()):
            row = [
                _name(axis_result, axis_results) if number == 0 else "",
                escape(name),
                with_interval(share, sign=True),
            ]
            if wide:
                row.append(_bar(share.value, longest, bar))
            if widest is None or axis_result.is_placebo:
                row.append("")
            else:
                label = f"{escape(widest.name)}: " if number == 0 else ""
                row.append(label + with_interval(widest.shares.get(name, Estimate()), sign=True))
            view.add_row(
                *row, style="dim" if axis_result.is_placebo else "", end_section=number == len(axis_result.shares) - 1
            )
    return view


def notes(axis_results: Sequence[AxisResult]) -> list[str]:
    """What the marks in the tables mean, of those that occur."""
    counts = [axis_result.dialogues for axis_result in axis_results]
    counts += [group.dialogues for axis_result in axis_results for group in axis_result.groups.values()]
    marks = {
        f"{DAGGER} {FEW_NOTE}": any(map(has_few, counts)),
        f"{TERMS_ONLY} too few terms for an interval over terms: true of these terms only": any(
            axis_result.disparity.is_of_terms_only for axis_result in axis_results
        ),
    }
    return [note for note, applies in marks.items() if applies]


def meanings(axis_results: Sequence[AxisResult]) -> list[str]:
    """What the tables' words mean: the score, shares, the verdict, the twin, effective terms."""
    metric = axis_results[0].metric
    better = "" if metric.better == "neither" else f", {metric.better} is better"
    lines = [f"score: {metric.label}{better}"]
    ratios = [
        axis_result
        for axis_result in axis_results
        if axis_result.metric.name == metric.name and axis_result.scale == "ratio" and not axis_result.is_placebo
    ]
    if ratios:
        scores = ", ".join(f"{axis_result.axis} {fixed(axis_result.original.value)}" for axis_result in ratios)
        lines.append(f"gaps, disparities, contributions: shares of the originals' score ({scores})")
    if any(axis_result.verdict in DIFFERENT and not is_claimed(axis_result.disparity) for axis_result in axis_results):
        lines.append("verdict: of the disparity and the gaps of groups together; p in its row is the disparity's alone")
    lines.append("twin: the same system, its input turned back to the original and its output rewritten")
    if any(axis_result.effective_terms is not None for axis_result in axis_results):
        lines.append(
            "effective terms: equally frequent terms that the result rests on; "
            f"a claim about a group takes {ENOUGH_TERMS}"
        )
    return lines


def _name(axis_result: AxisResult, axis_results: Sequence[AxisResult]) -> str:
    several = len({row.metric.name for row in axis_results}) > 1
    axis = _broken(axis_result.axis)
    return f"{axis}\n {escape(axis_result.metric.label)}" if several else axis


def _largest(contributions: Mapping[str, Estimate], gap: Estimate) -> str:
    """The stage with the largest contribution on the gap's side, and that contribution."""
    side = 1 if (gap.value or 0) >= 0 else -1
    towards = {name: side * (share.value or 0) for name, share in contributions.items()}
    if not towards or max(towards.values()) <= 0:
        return ""
    name = max(towards, key=lambda name: towards[name])
    return f"{escape(name)} {fixed(contributions[name].value, sign=True)}"


def _bar(value: float | None, longest: float, mark: str) -> str:
    """A bar to the right of the middle for a positive value, to the left for a negative one."""
    cells = round(BAR * abs(value) / longest) if value and longest else 0
    if not value or not cells:
        return ""
    left, right = (mark * cells, "") if value < 0 else ("", mark * cells)
    return f"{left:>{BAR}}|{right:<{BAR}}"


def _readings(readings: Sequence[Reading]) -> list[Text]:
    """A paragraph per reading; metrics after the first that show nothing share one line per axis."""
    first = readings[0].axis_result.metric.name
    texts: list[Text] = []
    silent: dict[str, list[str]] = {}
    for reading in readings:
        axis_result = reading.axis_result
        if (
            axis_result.verdict in ("inconclusive", "placebo")
            and axis_result.metric.name != first
            and not axis_result.limiting_factors
        ):
            if axis_result.verdict == "inconclusive":
                silent.setdefault(axis_result.axis, []).append(axis_result.metric.label)
            continue
        text = Text()
        text.append(f"- {axis_result.axis} ({axis_result.metric.label}): ", style="bold")
        text.append(f"{axis_result.verdict}. ", style=_STYLES.get(axis_result.verdict, ""))
        text.append(" ".join(filter(None, (reading.result, reading.grounds))))
        texts.append(text)
    texts += [Text(f"- {axis}: inconclusive by {', '.join(labels)}.") for axis, labels in silent.items()]
    return texts
