"""The results of a run as tables on a terminal: who is served how, where it enters, and what that rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tod_bias.report.circumstances import circumstances
from tod_bias.report.notation import WORDS_FIXED, count, fixed, p_cell, reference, with_interval
from tod_bias.report.reading import DAGGER, FEW_NOTE, Reading, has_few, is_claimed, mark, read, side
from tod_bias.report.sheets import new_table
from tod_bias.results import DIFFERENT, AuditResult, AxisResult, Estimate
from tod_bias.statistics.needed import ENOUGH_WORDS

_UNBOUNDED = 10_000  # columns; tables are measured at this width to learn what they need
BAR = 12
"""Cells of a bar on either side of 0."""
_STYLES = {"disparity": "bold", "placebo": "dim"}


def table(result: AuditResult) -> RenderableType:
    """The tables of one run: groups, components, and a reading in words for each axis and metric; the placebo last.

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
            yield fit(lambda wide, padding: component_table(shown, wide=wide, padding=padding, bar=bar))
        yield fit(lambda wide, padding: axis_table(self._outcomes, wide=wide, padding=padding))
        for note in notes(self._outcomes):
            yield Text(note, style="dim")
        for note in meanings(self._outcomes):
            yield Text(note, style="dim")
        if len(shown) < len(self._outcomes):
            yield Text(f"groups and components by the other metrics than {shown[0].metric.label}: report.html", "dim")
        for sentence in circumstances(self._result):
            yield Text(f"! {sentence}")
        yield Text("Reading", style="italic")
        yield Group(*_readings(self._readings))

    def _heading(self) -> str:
        corpus = self._result.corpus
        named = f"{corpus.name or 'corpus'} {corpus.split}".strip()
        return ", ".join([named, f"{count(corpus.dialogues)} dialogues", " > ".join(self._result.stages)])

    def _conditions(self) -> str:
        config = self._result.config
        draws = f" ({config.design.draws} draws)" if config.design.design == "draws" else ""
        history = "recorded" if self._result.is_recorded else config.run.history
        known = [f"{config.design.design} design{draws}", f"seed {config.seed}", f"history {history}"]
        sides = dict.fromkeys(
            side(outcome.metric.better, counterfactual=outcome.metric.counterfactual) for outcome in self._outcomes
        )
        return ", ".join([*known, "intervals 95%", f"positive: {' or '.join(sides)}"])


def group_table(outcomes: Sequence[AxisResult], *, wide: bool = True, padding: int = 1) -> Table:
    """One row a group: its score, how much worse it is served than the mean of groups, and the largest part of that."""
    whole = all(outcome.covers_all_dialogues for outcome in outcomes)
    which = "the same dialogues" if whole else "dialogues"
    view = new_table(f"Groups: {which}, told as each of them{'' if whole else ', not all as everybody'}", (0, padding))
    view.add_column("axis", style="bold", overflow="fold")
    view.add_column("told as", overflow="fold")
    for heading in (
        *(("dialogues",) if wide else ()),
        "score",
        "gap from the mean\n[95%]",
        "p\n(Holm)",
        "largest part",
    ):
        view.add_column(heading, justify="right", overflow="fold")
    for outcome in outcomes:
        if outcome.is_placebo:
            continue
        for number, group in enumerate(outcome.groups.values()):
            view.add_row(
                _name(outcome, outcomes) if number == 0 else "",
                _broken(group.name) + ("" if wide else mark(group.dialogues)),
                *((f"{count(group.dialogues)}{mark(group.dialogues)}",) if wide else ()),
                fixed(group.score.value),
                with_interval(group.gap, sign=True),
                p_cell(group.gap.claimed_p),
                _largest(group.shares, group.gap),
                end_section=number == len(outcome.groups) - 1 and not outcome.references,
            )
        for number, one in enumerate(outcome.references.values()):
            view.add_row(
                "",
                f"nobody: {reference(one.name)}" + ("" if wide else mark(one.dialogues)),
                *((f"{count(one.dialogues)}{mark(one.dialogues)}",) if wide else ()),
                fixed(one.score.value),
                with_interval(one.gap, sign=True),
                "",
                _largest(one.shares, one.gap),
                style="dim",
                end_section=number == len(outcome.references) - 1,
            )
    return view


def effect_table(outcomes: Sequence[AxisResult], *, padding: int = 1) -> Table:
    """Of crossed attributes: one row a level of each, then what is claimed of groups beyond their two levels."""
    view = new_table("Crossed attributes: each by itself, and beyond both", (0, padding))
    for heading in ("attribute", "told as"):
        view.add_column(heading, overflow="fold")
    for heading in ("gap from the mean\n[95%]", "p\n(Holm)", "largest part"):
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
    """One row an axis and metric: scores, the disparity, what of it is above the placebo, and the verdict."""
    view = new_table("Disparity: the system against itself made blind to the rewrite", (0, padding))
    several = len({outcome.metric.name for outcome in outcomes}) > 1
    view.add_column("axis, metric" if several else "axis", style="bold", overflow="fold", max_width=30 if wide else 14)
    headings = (
        "dia-\nlogues",
        "effective\nwords" if wide else "eff.\nwords",
        *(("score\noriginal", "score\nrewritten") if wide else ()),
        "disparity\n[95%]",
        "p\n(Holm)",
        *(("above placebo\n[95%]", "detectable\n(80%)") if wide else ()),
        "verdict",
    )
    for heading in headings:
        view.add_column(heading, justify="right", overflow="fold")
    for number, outcome in enumerate(outcomes):
        before, after = outcomes[number - 1] if number else None, outcomes[number + 1 : number + 2]
        again = before is not None and before.axis == outcome.axis
        view.add_row(
            " " + escape(outcome.metric.label) if several and again else _name(outcome, outcomes),
            f"{count(outcome.dialogues)}{mark(outcome.dialogues)}",
            fixed(outcome.effective_terms, 1),
            *((fixed(outcome.original.value), fixed(outcome.rewritten.value)) if wide else ()),
            with_interval(outcome.disparity, sign=True),
            "" if outcome.is_placebo else p_cell(outcome.disparity.claimed_p),
            *(
                (
                    "" if outcome.beyond_placebo is None else with_interval(outcome.beyond_placebo, sign=True),
                    "" if outcome.mde is None else fixed(outcome.mde),
                )
                if wide
                else ()
            ),
            outcome.verdict,
            end_section=several and bool(after) and after[0].axis != outcome.axis,
            style=_STYLES.get(outcome.verdict, ""),
        )
    return view


def component_table(outcomes: Sequence[AxisResult], *, wide: bool = True, padding: int = 1, bar: str = "█") -> Table:
    """One row an axis, metric and component: its part of the disparity, and of the largest gap of a group."""
    view = new_table("Components: their parts of the disparity, and of the widest gap", (0, padding))
    view.add_column("axis", style="bold", overflow="fold")
    view.add_column("component", overflow="fold")
    view.add_column("part of the disparity\n[95%]", justify="right", overflow="fold")
    if wide:
        view.add_column("", overflow="fold")
    view.add_column("part of the widest gap\n[95%]", justify="right", overflow="fold")
    values = [abs(part.value or 0.0) for outcome in outcomes for part in outcome.shares.values()]
    longest = max(values, default=0.0)
    for outcome in outcomes:
        widest = max(outcome.groups.values(), key=lambda group: abs(group.gap.value or 0), default=None)
        for number, (name, part) in enumerate(outcome.shares.items()):
            row = [_name(outcome, outcomes) if number == 0 else "", escape(name), with_interval(part, sign=True)]
            if wide:
                row.append(_bar(part.value, longest, bar))
            if widest is None or outcome.is_placebo:
                row.append("")
            else:
                label = f"{escape(widest.name)}: " if number == 0 else ""
                row.append(label + with_interval(widest.shares.get(name, Estimate()), sign=True))
            view.add_row(*row, style="dim" if outcome.is_placebo else "", end_section=number == len(outcome.shares) - 1)
    return view


def notes(outcomes: Sequence[AxisResult]) -> list[str]:
    """What the marks in the tables mean; only of those that are there."""
    counts = [outcome.dialogues for outcome in outcomes]
    counts += [group.dialogues for outcome in outcomes for group in outcome.groups.values()]
    marks = {
        f"{DAGGER} {FEW_NOTE}": any(map(has_few, counts)),
        f"{WORDS_FIXED} too few words for an interval over words: true of these terms only": any(
            outcome.disparity.is_of_terms_only for outcome in outcomes
        ),
    }
    return [note for note, applies in marks.items() if applies]


def meanings(outcomes: Sequence[AxisResult]) -> list[str]:
    """What the words in the tables mean: the score, shares, the verdict, the twin, effective words."""
    metric = outcomes[0].metric
    said = "" if metric.better == "neither" else f", {metric.better} is better"
    made = [f"score: {metric.label}{said}"]
    shares = [one for one in outcomes if one.metric.name == metric.name and one.scale == "ratio" and not one.is_placebo]
    if shares:
        scores = ", ".join(f"{one.axis} {fixed(one.original.value)}" for one in shares)
        made.append(f"gaps, disparities, parts: shares of the originals' score ({scores})")
    if any(one.verdict in DIFFERENT and not is_claimed(one.disparity) for one in outcomes):
        made.append("verdict: of the disparity and the gaps of groups together; p in its row is the disparity's alone")
    if any("twin" in outcome.metric.label for outcome in outcomes):
        made.append("twin: the same system made blind to the rewrite")
    if any(outcome.effective_terms is not None for outcome in outcomes):
        made.append(f"eff. words: evenly used words that it rests on; claims of groups take {ENOUGH_WORDS}")
    return made


def _name(outcome: AxisResult, outcomes: Sequence[AxisResult]) -> str:
    several = len({one.metric.name for one in outcomes}) > 1
    axis = _broken(outcome.axis)
    return f"{axis}\n {escape(outcome.metric.label)}" if several else axis


def _largest(contributions: Mapping[str, Estimate], gap: Estimate) -> str:
    """The component with the largest part on the gap's side."""
    side = 1 if (gap.value or 0) >= 0 else -1
    known = {name: side * (part.value or 0) for name, part in contributions.items()}
    if not known or max(known.values()) <= 0:
        return ""
    name = max(known, key=lambda one: known[one])
    return f"{escape(name)} {fixed(contributions[name].value, sign=True)}"


def _bar(value: float | None, longest: float, mark: str) -> str:
    """A bar to the right of the middle for a positive part, to the left for a negative one."""
    cells = round(BAR * abs(value) / longest) if value and longest else 0
    if not value or not cells:
        return ""
    left, right = (mark * cells, "") if value < 0 else ("", mark * cells)
    return f"{left:>{BAR}}|{right:<{BAR}}"


def _readings(readings: Sequence[Reading]) -> list[Text]:
    """A paragraph each; where several metrics were read, one line for those of an axis that show nothing."""
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
        text.append(" ".join(filter(None, (reading.found, reading.grounds))))
        texts.append(text)
    texts += [Text(f"- {axis}: inconclusive by {', '.join(labels)}.") for axis, labels in silent.items()]
    return texts
