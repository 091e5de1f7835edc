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
from tod_bias.statistics.needed import ENOUGH_WORDS

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
        self._outcomes = result.rows
        self._readings = read(self._outcomes)

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
        first = self._outcomes[0].metric.name
        shown = [outcome for outcome in self._outcomes if outcome.metric.name == first]
        if any(outcome.groups for outcome in shown if not outcome.is_placebo):
            yield fit(lambda wide, padding: group_table(shown, wide=wide, padding=padding))
        if any(outcome.effects for outcome in shown):
            yield fit(lambda wide, padding: effect_table(shown, padding=padding))
        if any(outcome.shares for outcome in shown):
            yield fit(lambda wide, padding: stage_table(shown, wide=wide, padding=padding, bar=bar))
        yield fit(lambda wide, padding: axis_table(self._outcomes, wide=wide, padding=padding))
        for note in notes(self._outcomes):
            yield Text(note, style="dim")
        for note in meanings(self._outcomes):
            yield Text(note, style="dim")
        if len(shown) < len(self._outcomes):
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
            side(outcome.metric.better, counterfactual=outcome.metric.counterfactual) for outcome in self._outcomes
        )
        return ", ".join([*parts, "intervals 95%", f"positive: {' or '.join(sides)}"])


def group_table(outcomes: Sequence[AxisResult], *, wide: bool = True, padding: int = 1) -> Table:
    """One row per group: its score, its gap from the mean of groups, and the stage with the largest contribution.

    Args:
        outcomes: one per axis, of one metric; those of a placebo are left out.
        wide: whether the dialogues have a column.
        padding: spaces on either side of a cell.
    """
    whole = all(outcome.covers_all_dialogues for outcome in outcomes)
    title = "Groups: the same dialogues, rewritten for each group"
    view = new_table(title if whole else f"{title} that their words allow", (0, padding))
    view.add_column("axis", style="bold", overflow="fold")
    view.add_column("group", overflow="fold")
    headings = ["score", "gap from the mean\n[95%]", "p\n(Holm)", "largest\ncontribution"]
    for heading in ["dialogues", *headings] if wide else headings:
        view.add_column(heading, justify="right", overflow="fold")
    for outcome in outcomes:
        if not outcome.is_placebo:
            _add_groups(view, outcome, _name(outcome, outcomes), wide=wide)
    return view


def _add_groups(view: Table, outcome: AxisResult, axis: str, *, wide: bool) -> None:
    """The rows of one axis: its groups, then its reference variants."""
    shown = [(_broken(group.name), group, "") for group in outcome.groups.values()]
    shown += [(f"no group: {reference(variant.name)}", variant, "dim") for variant in outcome.references.values()]
    for number, (name, group, style) in enumerate(shown):
        few = mark(group.dialogues)
        view.add_row(
            "" if number else axis,
            name if wide else name + few,
            *([f"{count(group.dialogues)}{few}"] if wide else []),
            fixed(group.score.value),
            with_interval(group.gap, sign=True),
            "" if style else p_cell(group.gap.claimed_p),
            _largest(group.shares, group.gap),
            style=style,
            end_section=number == len(shown) - 1,
        )


def effect_table(outcomes: Sequence[AxisResult], *, padding: int = 1) -> Table:
    """Of crossed axes: one row per group of each, then the claimed interactions."""
    view = new_table("Crossed axes: each by itself, and beyond both", (0, padding))
    for heading in ("axis", "group"):
        view.add_column(heading, overflow="fold")
    for heading in ("gap from the mean\n[95%]", "p\n(Holm)", "largest\ncontribution"):
        view.add_column(heading, justify="right", overflow="fold")
    for outcome in outcomes:
        before = ""
        for factor, effect in ((factor, gap) for factor, levels in outcome.effects.items() for gap in levels.values()):
            p = effect.claimed_p
            if factor == "interaction" and (p is None or p >= _CLAIMED):
                continue
            view.add_row(
                escape(factor) if factor != before else "",
                _broken(effect.name),
                with_interval(effect, sign=True),
                p_cell(p),
                _largest(effect.shares, effect),
            )
            before = factor
    return view


_CLAIMED = 0.05
_LONG = 16


def _broken(name: str) -> str:
    """A name, crossed ones on two lines where they are long."""
    return escape(name if len(name) <= _LONG else name.replace("×", "×\n"))


def axis_table(outcomes: Sequence[AxisResult], *, wide: bool = True, padding: int = 1) -> Table:
    """One row per axis and metric: scores, the disparity, what of it is above the placebo, and the verdict.

    Args:
        outcomes: one per axis and metric.
        wide: whether scores, what is above the placebo, and the minimum detectable effect have columns.
        padding: spaces on either side of a cell.
    """
    view = new_table("Disparity: the system against its own twin", (0, padding))
    several = len({outcome.metric.name for outcome in outcomes}) > 1
    view.add_column("axis, metric" if several else "axis", style="bold", overflow="fold", max_width=30 if wide else 14)
    headings = ["dia-\nlogues", "eff.\nterms", "disparity\n[95%]", "p\n(Holm)", "verdict"]
    if wide:
        headings[1:3] = ["effective\nterms", "score\noriginal", "score\nrewritten", "disparity\n[95%]"]
        headings[-1:] = ["above placebo\n[95%]", "detectable\n(80%)", "verdict"]
    for heading in headings:
        view.add_column(heading, justify="right", overflow="fold")
    following = [outcome.axis for outcome in outcomes[1:]] + [""]
    before = ""
    for outcome, after in zip(outcomes, following, strict=True):
        repeated = several and outcome.axis == before
        view.add_row(
            " " + escape(outcome.metric.label) if repeated else _name(outcome, outcomes),
            *_axis_cells(outcome, wide=wide),
            end_section=several and after not in ("", outcome.axis),
            style=_STYLES.get(outcome.verdict, ""),
        )
        before = outcome.axis
    return view


def _axis_cells(outcome: AxisResult, *, wide: bool) -> list[str]:
    """What stands in a row of the table of disparities, to the right of its name."""
    counts = [f"{count(outcome.dialogues)}{mark(outcome.dialogues)}", fixed(outcome.effective_terms, 1)]
    disparity = [
        with_interval(outcome.disparity, sign=True),
        "" if outcome.is_placebo else p_cell(outcome.disparity.claimed_p),
    ]
    if not wide:
        return [*counts, *disparity, outcome.verdict]
    beyond = "" if outcome.beyond_placebo is None else with_interval(outcome.beyond_placebo, sign=True)
    detectable = "" if outcome.mde is None else fixed(outcome.mde)
    scores = [fixed(outcome.original.value), fixed(outcome.rewritten.value)]
    return [*counts, *scores, *disparity, beyond, detectable, outcome.verdict]


def stage_table(outcomes: Sequence[AxisResult], *, wide: bool = True, padding: int = 1, bar: str = "█") -> Table:
    """One row per axis, metric and stage: its contribution to the disparity, and to the largest gap of a group."""
    view = new_table("Stages: their contributions to the disparity, and to the widest gap", (0, padding))
    view.add_column("axis", style="bold", overflow="fold")
    view.add_column("stage", overflow="fold")
    view.add_column("to the disparity\n[95%]", justify="right", overflow="fold")
    if wide:
        view.add_column("", overflow="fold")
    view.add_column("to the widest gap\n[95%]", justify="right", overflow="fold")
    values = [abs(share.value or 0.0) for outcome in outcomes for share in outcome.shares.values()]
    longest = max(values, default=0.0)
    for outcome in outcomes:
        widest = max(outcome.groups.values(), key=lambda group: abs(group.gap.value or 0), default=None)
        for number, (name, share) in enumerate(outcome.shares.items()):
            row = [_name(outcome, outcomes) if number == 0 else "", escape(name), with_interval(share, sign=True)]
            if wide:
                row.append(_bar(share.value, longest, bar))
            if widest is None or outcome.is_placebo:
                row.append("")
            else:
                label = f"{escape(widest.name)}: " if number == 0 else ""
                row.append(label + with_interval(widest.shares.get(name, Estimate()), sign=True))
            view.add_row(*row, style="dim" if outcome.is_placebo else "", end_section=number == len(outcome.shares) - 1)
    return view


def notes(outcomes: Sequence[AxisResult]) -> list[str]:
    """What the marks in the tables mean, of those that occur."""
    counts = [outcome.dialogues for outcome in outcomes]
    counts += [group.dialogues for outcome in outcomes for group in outcome.groups.values()]
    marks = {
        f"{DAGGER} {FEW_NOTE}": any(map(has_few, counts)),
        f"{TERMS_ONLY} too few terms for an interval over terms: true of these terms only": any(
            outcome.disparity.is_of_terms_only for outcome in outcomes
        ),
    }
    return [note for note, applies in marks.items() if applies]


def meanings(outcomes: Sequence[AxisResult]) -> list[str]:
    """What the tables' words mean: the score, shares, the verdict, the twin, effective terms."""
    metric = outcomes[0].metric
    better = "" if metric.better == "neither" else f", {metric.better} is better"
    lines = [f"score: {metric.label}{better}"]
    ratios = [
        outcome
        for outcome in outcomes
        if outcome.metric.name == metric.name and outcome.scale == "ratio" and not outcome.is_placebo
    ]
    if ratios:
        scores = ", ".join(f"{outcome.axis} {fixed(outcome.original.value)}" for outcome in ratios)
        lines.append(f"gaps, disparities, contributions: shares of the originals' score ({scores})")
    if any(outcome.verdict in DIFFERENT and not is_claimed(outcome.disparity) for outcome in outcomes):
        lines.append("verdict: of the disparity and the gaps of groups together; p in its row is the disparity's alone")
    lines.append("twin: the same system, its input turned back to the original and its output rewritten")
    if any(outcome.effective_terms is not None for outcome in outcomes):
        lines.append(
            "effective terms: equally frequent terms that the result rests on; "
            f"a claim about a group takes {ENOUGH_WORDS}"
        )
    return lines


def _name(outcome: AxisResult, outcomes: Sequence[AxisResult]) -> str:
    several = len({row.metric.name for row in outcomes}) > 1
    axis = _broken(outcome.axis)
    return f"{axis}\n {escape(outcome.metric.label)}" if several else axis


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
    first = readings[0].outcome.metric.name
    texts: list[Text] = []
    silent: dict[str, list[str]] = {}
    for reading in readings:
        outcome = reading.outcome
        if (
            outcome.verdict in ("inconclusive", "placebo")
            and outcome.metric.name != first
            and not outcome.limiting_factors
        ):
            if outcome.verdict == "inconclusive":
                silent.setdefault(outcome.axis, []).append(outcome.metric.label)
            continue
        text = Text()
        text.append(f"- {outcome.axis} ({outcome.metric.label}): ", style="bold")
        text.append(f"{outcome.verdict}. ", style=_STYLES.get(outcome.verdict, ""))
        text.append(" ".join(filter(None, (reading.result, reading.grounds))))
        texts.append(text)
    texts += [Text(f"- {axis}: inconclusive by {', '.join(labels)}.") for axis, labels in silent.items()]
    return texts
