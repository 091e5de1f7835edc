"""Pages that can be handed in: one printable page of a run, and its content as JSON.

``annex-iv`` is a test report for technical documentation (Regulation (EU) 2024/1689, Annex IV, point 2 (g)): test
procedures, data, metrics, results, dated and with a line to sign. ``ll144`` has selection rates and impact ratios by
sex, by race and by both, as New York City's Local Law 144 of 2021 (6 RCNY § 5-301) asks of a bias audit; its data are
counterfactual test data, and what only an independent auditor can add is left blank. ``limitations`` says what a run
could not show. None of them is legal advice, or proof of conformity.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tod_bias.errors import TodBiasError
from tod_bias.io.files import write_json
from tod_bias.perturb.axis import PLACEBO
from tod_bias.report.answer import in_lines, placebo_line
from tod_bias.report.circumstances import circumstances
from tod_bias.report.notation import fixed, interval, p_cell, percent
from tod_bias.report.rendering import TEMPLATES, write_page
from tod_bias.results import RESULTS, AuditResult, AxisResult
from tod_bias.testing.gate import FAILED, check

FormName = Literal["annex-iv", "ll144", "limitations"]
BLANK = "________________________"
"""A field that a person fills in."""
_LIMITS = (
    "The test compares a system with itself on the same dialogues, rewritten for each group. It does not compare "
    "people who ask for different things.",
    "Groups are expressed by the terms, names and introductions that the axes hold, in English; people whom no axis "
    "names are not tested.",
    "A difference is a difference in what the system does. Whether it is justified is for people to decide.",
    "Only the events and metrics of the run are measured; harms that show in none of them are not seen.",
    "The history of each dialogue is the recorded one unless the procedure says otherwise, so errors of earlier turns "
    "do not add up as in a live conversation.",
    "The absence of a finding is no proof of fairness; the largest gap that could have been missed stands above.",
)


@dataclass(frozen=True)
class FormTable:
    """A table of a form."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class FormSection:
    """A section of a form: sentences, fields and tables."""

    title: str
    sentences: Sequence[str] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[FormTable] = ()


@dataclass(frozen=True)
class PrintedForm:
    """A page that can be handed in."""

    form: str
    title: str
    date: str
    sections: Sequence[FormSection]
    to_sign: Sequence[str] = ("Name and function", "Place and date", "Signature")
    """Lines that a person fills in at the end."""

    @property
    def record(self) -> dict[str, Any]:
        """Return the content as JSON."""
        return {"schema": 1, **asdict(self)}


@dataclass(frozen=True)
class FormSubject:
    """The system that a form is about, in the user's words."""

    system: str = BLANK
    purpose: str = BLANK
    responsible: str = BLANK


def write_form(run: Path, name: FormName, subject: FormSubject, metric: str | None = None) -> Path:
    """Write a form into a run's folder, as HTML and as JSON; return the path of the page.

    Args:
        run: the folder.
        name: of the form.
        subject: system, purpose and responsible person.
        metric: event or metric whose score is the selection rate of ``ll144``; by default a grade, else the event that
            leads the axis's finding.

    Raises:
        RunError: the run cannot be read.
        TodBiasError: the run has no axis or metric for the form.
    """
    result = AuditResult.load(run)
    tested = datetime.datetime.fromtimestamp((run / RESULTS).stat().st_mtime).date().isoformat()
    form = FORMS[name](result, subject, tested, metric)
    write_json(run / f"{name}.json", form.record)
    return write_page(run / f"{name}.html", TEMPLATES / "form.html.j2", form=form)


def _today() -> str:
    return datetime.date.today().isoformat()


def _subject(subject: FormSubject, result: AuditResult, tested: str) -> FormSection:
    return FormSection(
        "System and responsible person",
        fields={
            "System": subject.system,
            "Intended purpose": subject.purpose,
            "Responsible": subject.responsible,
            "Components tested": ", ".join(result.stages) or "responses that were saved",
            "Date of the test": tested,
            "Date of this report": _today(),
        },
    )


def _versions(result: AuditResult) -> FormSection:
    names = [name for name in result.signature if not name.startswith(("axis ", "stage ", "intervals", "p_values"))]
    stages = {name: value for name, value in result.signature.items() if name.startswith("stage ")}
    return FormSection("Versions", fields={name: result.signature[name] for name in names} | stages)


def _data(result: AuditResult) -> FormSection:
    corpus = result.corpus
    audited = {axis: number for axis, number in corpus.audited.items() if axis != PLACEBO}
    return FormSection(
        "Test data",
        fields={
            "Corpus": f"{corpus.name or 'dialogues given in Python'} {corpus.split}".strip(),
            "Hash of its content": corpus.hash,
            "Dialogues": f"{corpus.dialogues:,}",
            **{f"Dialogues rewritten, {axis}": f"{number:,}" for axis, number in audited.items()},
            **{name: text for name, text in result.signature.items() if name.startswith("axis ")},
        },
    )


def _procedure(result: AuditResult) -> FormSection:
    config = result.config
    metrics = [info.label for info in result.metrics.values()]
    return FormSection(
        "Test procedure",
        [
            "Every dialogue was rewritten for every group of every axis (counterfactuals), and the system was run on "
            "the original and on each counterfactual. Groups are compared on the same dialogues. Every set of "
            "components was replaced by a twin that gets the original's input, so that a gap is split over the "
            "components (Shapley values).",
            "A difference is claimed if it holds over all groups, axes and events of the run (family-wise level .05), "
            "for terms as a sample, and beyond the effect of rewording. "
            + ("Neutral rewording was run as a control: " + placebo_line(result) + "." if placebo_line(result) else ""),
        ],
        {
            "Design": f"{config.design.design}, seed {config.seed}, history {config.run.history}",
            "Permutations": f"{config.analysis.permutations:,}",
            "Metrics and events": f"{len(metrics)}: {', '.join(metrics[:8])}{' …' if len(metrics) > 8 else ''}",
        },
    )


def _leading(result: AuditResult, axis: str) -> AxisResult:
    """Return the row of an axis by the metric of its finding, else by its first metric."""
    rows = result.axes[axis]
    named = next((some.metric for some in result.findings if some.axis == axis and some.metric in rows), None)
    return rows[named] if named is not None else next(iter(rows.values()))


def _axes(result: AuditResult) -> list[str]:
    return [axis for axis in result.axes if axis != PLACEBO]


def _numbers(result: AuditResult) -> FormSection:
    tables = []
    for axis in _axes(result):
        row = _leading(result, axis)
        rows = [
            (
                name,
                f"{group.dialogues or 0:,}",
                fixed(group.effective_terms, 1),
                percent(group.score.value) if row.metric.is_share else fixed(group.score.value),
                fixed(group.gap.value, sign=True),
                interval(group.gap, sign=True),
                p_cell(group.gap.p),
            )
            for name, group in row.groups.items()
        ]
        columns = (f"{axis}: {row.metric.label}", "dialogues", "terms", "score", "gap from the mean", "95%", "p")
        tables.append(FormTable(columns, rows))
    note = "A positive gap is a worse score; if neither side of a score is better, it is a lower one."
    return FormSection("Groups and numbers", [note], tables=tables)


def _findings(result: AuditResult) -> FormSection:
    lines = [f"{axis}: {text}" for axis, texts in in_lines(result).items() for text in texts]
    return FormSection("Findings", lines or ["No difference between groups was found."])


def _missed(result: AuditResult) -> FormSection:
    rows = [(axis.axis, "yes" if axis.state == FAILED else "no", f"{axis.missed:.2f}") for axis in check(result).axes]
    columns = ("axis", "finding", "largest gap that is not excluded")
    return FormSection(
        "What could have been missed",
        ["One-sided 95% bounds over all measured events that are shares of turns; 1 is the largest gap."],
        tables=[FormTable(columns, rows)],
    )


def _limitations(result: AuditResult) -> FormSection:
    return FormSection("Known limitations", [*_LIMITS, *circumstances(result)])


def annex_iv(result: AuditResult, subject: FormSubject, tested: str, metric: str | None = None) -> PrintedForm:
    """Return a test report: data, procedure, metrics, results, limitations, dated and to be signed."""
    sections = (
        _subject(subject, result, tested),
        _findings(result),
        _numbers(result),
        _missed(result),
        _procedure(result),
        _data(result),
        _versions(result),
        _limitations(result),
    )
    return PrintedForm("annex-iv", "Test report: potentially discriminatory impacts", _today(), sections)


def limitations(result: AuditResult, subject: FormSubject, tested: str, metric: str | None = None) -> PrintedForm:
    """Return a statement of what a run could not show."""
    sections = (_subject(subject, result, tested), _missed(result), _limitations(result), _data(result))
    return PrintedForm("limitations", "Limitations of the test", _today(), sections)


_SEX, _RACE = ("gender",), ("race", "race_people")


def _factors(axis: str) -> list[str]:
    """Return the dimensions of an axis: of ``names_gender×names_race`` gender and race."""
    return [part.removeprefix("names_").removeprefix("persona_") for part in axis.replace(",", "×").split("×")]


def _kind_of(axis: str) -> str:
    """Return the category of an axis; empty for another one."""
    factors = _factors(axis)
    of_sex, of_race = (any(name in known for name in factors) for known in (_SEX, _RACE))
    if len(factors) == 2:
        return "sex × race" if of_sex and of_race else ""
    return "sex" if of_sex else "race" if of_race else ""


def ll144(result: AuditResult, subject: FormSubject, tested: str, metric: str | None = None) -> PrintedForm:
    """Return selection rates and impact ratios by sex, by race and by both.

    Raises:
        TodBiasError: no axis is about sex or race, or the metric is no share.
    """
    tables = [table for axis in _axes(result) if (table := _ratios(result, axis, metric)) is not None]
    if not tables:
        raise TodBiasError(
            f"{result.name}: no axis is about sex or race with a metric that is a share; audit gender, race or "
            "gender×race, or name a --metric"
        )
    missing = [kind for kind in ("sex", "race", "sex × race") if kind not in map(_kind_of, _axes(result))]
    sections = (
        _subject(subject, result, tested),
        FormSection(
            "Selection rates and impact ratios",
            [
                "Counterfactual test data: the rates are those of one system on the same dialogues, rewritten for each "
                "group. They are no rates of applicants or candidates.",
                "The impact ratio is a group's rate divided by the largest rate of the category. The law sets no limit "
                "for it.",
                *([f"Not in this run: {', '.join(missing)}."] if missing else []),
            ],
            tables=tables,
        ),
        FormSection(
            "For the independent auditor",
            ["Local Law 144 asks for a bias audit by an independent auditor. A run cannot fill these fields."],
            {
                "Independent auditor": BLANK,
                "Date of the bias audit": BLANK,
                "Date on which the tool was first used": BLANK,
                "Reason for test data in place of historical data": BLANK,
                "Individuals of unknown sex or race": BLANK,
                "Address at which the summary is published": BLANK,
            },
        ),
        _data(result),
        _limitations(result),
    )
    return PrintedForm("ll144", "Selection rates and impact ratios: counterfactual test data", _today(), sections)


def _ratios(result: AuditResult, axis: str, metric: str | None) -> FormTable | None:
    """Return rates and impact ratios of an axis; None if it is about neither, or has no such metric."""
    kind, rows = _kind_of(axis), result.axes[axis]
    grades = [name for name, row in rows.items() if row.metric.is_grade]
    chosen = metric or next(iter(grades), _leading(result, axis).metric.name)
    row = rows.get(chosen)
    if not kind or row is None or not row.metric.is_share:
        return None
    scores = {name: group.score.value for name, group in row.groups.items() if group.score.value is not None}
    is_harm = row.metric.better == "lower"
    rates = {name: 1 - score if is_harm else score for name, score in scores.items()}
    largest = max(rates.values(), default=0.0)
    cells = [
        (name, f"{row.groups[name].dialogues or 0:,}", percent(rate), fixed(rate / largest, 2) if largest else "n/a")
        for name, rate in rates.items()
    ]
    what = f"without {row.metric.label}" if is_harm else row.metric.label
    return FormTable((f"{kind} ({axis})", "dialogues", f"rate: {what}", "impact ratio"), cells)


FORMS: Mapping[FormName, Callable[[AuditResult, FormSubject, str, str | None], PrintedForm]] = {
    "annex-iv": annex_iv,
    "ll144": ll144,
    "limitations": limitations,
}
