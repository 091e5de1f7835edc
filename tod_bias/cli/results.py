"""Commands that read a run's folder: ``tod-bias report``, ``view``, ``compare``, ``check``, ``cases``, ``mitigate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from tod_bias.cli import options as arguments
from tod_bias.cli import signals
from tod_bias.cli.options import (
    axes_of,
    check_files,
    check_folder,
    check_metrics,
    command,
    config_of,
    folder_of,
    lexicons,
    load_axes,
    load_system,
    refuse,
    user_metrics,
)
from tod_bias.config import (
    ADVANCED,
    AuditConfig,
    CompareConfig,
    DialogueOverrides,
    MetricOptions,
    Names,
    Options,
    OutputOptions,
    Positive,
    RunNames,
    SystemOverrides,
)
from tod_bias.errors import TodBiasError
from tod_bias.io.folder import check_no_other_run, claimed, unwritten, writable
from tod_bias.io.imports import is_import
from tod_bias.report.console import Console, echo

if TYPE_CHECKING:
    from tod_bias.metrics.metric import Metric


class ReportOutput(OutputOptions):
    """Output of the page."""

    out: Path | None = None
    """Folder for report.html and figures/, or an .html file; by default the run's own folder, for several runs the
    nearest folder that holds them all (of runs/a and runs/b: runs)."""


@command("tod-bias report runs/before runs/after --out runs")
def report(*folders: Path, output: ReportOutput) -> None:
    """Write report.html again from a run's folder, or one page of several runs of attribute side by side.

    Accepts the folders of attribute, compare and recommend audit. For the folder of another command it names the page
    or file to look at. Nothing is run. Any runs can be shown side by side, without tests between them; `tod-bias
    compare` tests two runs on the same dialogues.

    Args:
        folders: Folders that commands wrote; several: runs of attribute.
    """
    from tod_bias.report.kinds import AUDIT, kind_of, report_on

    if not folders:
        raise TodBiasError("report: give the folder of a run, e.g. runs/demo")
    if len(folders) == 1 and kind_of(folders[0]) is AUDIT:
        from tod_bias.recommenders.lmrec.audit import report_again

        page, is_new = report_again(folders[0], output.out), True
    else:
        page, is_new = report_on(list(folders), output.out)
    if not output.quiet:
        print(f"Report: {page}" + ("" if is_new else " (as its command wrote it)"))


class ViewNames(Options):
    """Metrics of the user's own."""

    is_of_run = True

    analysis: MetricOptions = MetricOptions()


class ViewOptions(Options):
    """Options of the page."""

    title = "Page"

    build: bool = False
    """Only write the page."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Where it is served on this machine; by default a free one."""
    no_open: Annotated[bool, ADVANCED] = False
    """Serve the page without opening a browser."""
    quiet: bool = False
    """Print only the address."""


class FormOptions(Options):
    """A page that can be handed in."""

    title = "Form"

    as_: Literal["annex-iv", "ll144", "limitations"] | None = None
    """Write one printable page and its JSON instead: annex-iv (EU AI Act, a test report), ll144 (New York City, impact
    ratios), limitations (what the run could not show)."""
    system: str = ""
    """Name of the system, for the form."""
    purpose: str = ""
    """Its intended purpose."""
    responsible: str = ""
    """Name of the person who signs."""
    rate: str | None = None
    """Metric or event whose score is the selection rate of ll144; by default a grade, else that of the finding."""


def scorers(folders: Sequence[Path], names: ViewNames) -> list[Metric]:
    """Return the metrics of the user's own, which score turns too.

    Raises:
        RunError: a metric is named that no run has measured.
    """
    from tod_bias.audit.record import read_runs
    from tod_bias.metrics.choice import metric
    from tod_bias.results import RunError

    if names.given():
        measured = dict.fromkeys(name for run in read_runs(folders) for name in run.result.metrics)
        for name in names.analysis.metrics or ():
            if (metric(name).name if is_import(name) else name) not in measured:
                where = ", ".join(map(str, folders))
                raise RunError(f"--metrics {name}: {where} has not measured it; it has {', '.join(measured)}")
    named = dict.fromkeys(name for folder in folders for name in user_metrics(config_of(folder, names)))
    return [metric(name) for name in named]


@command("tod-bias view runs/before runs/after")
def view(*runs: Path, names: ViewNames, page: ViewOptions, form: FormOptions) -> int:
    """Show every counterfactual turn beside its original, the most harmful first, in the browser.

    Writes explorer/index.html into the first run's folder, a page that works without a server, and serves it to this
    machine until Ctrl-C.

    Args:
        runs: Folders of finished runs of attribute, e.g. before and after a fix.
    """
    import webbrowser

    from tod_bias.report.explorer import FOLDER, PAGE, server_of, write_explorer

    if not runs:
        raise TodBiasError("view: give the folder of a run, e.g. runs/demo")
    for run in runs:
        unwritten(run)
    if form.as_ is not None:
        _hand_in(runs, form)
        return 0
    refuse(form, ("system", "purpose", "responsible", "rate"), "of a form; give --as as well")
    is_new = not (runs[0] / FOLDER / PAGE).exists()
    path = write_explorer(runs, scorers(runs, names))
    if not page.quiet:
        is_replaced = not is_new and len(runs) > 1
        note = f" (replaces the earlier page; for one run alone: tod-bias view {runs[0]})" if is_replaced else ""
        print(f"Explorer: {path}{note}", flush=True)
    if page.build:
        return 0
    with server_of(path, page.port) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        print(f"{address} (Ctrl-C ends it)", flush=True)
        try:
            if not page.no_open:
                webbrowser.open(address)
            server.serve_forever()
        except KeyboardInterrupt:  # how it is meant to end
            if not page.quiet:
                print(f"no longer served; {path} works without a server")
    return signals.code(signals.received())


def _hand_in(runs: Sequence[Path], form: FormOptions) -> None:
    """Write a form of one run."""
    from tod_bias.report.forms import BLANK, FormSubject, write_form

    if len(runs) > 1 or form.as_ is None:
        raise TodBiasError(f"--as {form.as_}: a form is about one run; give one folder")
    subject = FormSubject(form.system or BLANK, form.purpose or BLANK, form.responsible or BLANK)
    path = write_form(runs[0], form.as_, subject, form.rate)
    print(f"Form: {path}   JSON: {path.with_suffix('.json')}")


class CompareOutput(OutputOptions):
    """Folder for the comparison."""

    out: Path | None = None
    """Folder for compare.json and report.html; by default runs/compare."""


@command("tod-bias compare runs/before runs/after --margin 0.02")
def compare(before: Path, after: Path, /, *, names: RunNames, config: CompareConfig, output: CompareOutput) -> None:
    """Compare two runs on the same dialogues; write compare.json and report.html.

    Two audits of associate of the same sets are compared by every metric, in comparison.json.

    Pairs each counterfactual of one run with the same counterfactual of the other. The change of the quality, and of
    every pooled difference, contribution and group, is called better, worse, equivalent (within --margin), changed (a
    change is shown, but not its direction) or inconclusive. The systems may differ; dialogues, axes, design, seed,
    history and metrics must be the same. No component is called.

    Args:
        before: A finished run's folder.
        after: The folder of another run on the same dialogues, rewritten in the same way.
    """
    from tod_bias.results import AuditResult

    if all((run / ASSOCIATIONS).is_file() for run in (before, after)):
        _compare_associations(before, after, names, config, output)
        return
    metrics = names.analysis.metrics
    check_metrics(metrics or ())
    records = AuditResult.load(before), AuditResult.load(after)
    if metrics is None and all(user_metrics(config_of(run, names)) for run in (before, after)):
        metrics = config_of(before, names).analysis.metrics
    check_no_other_run(check_folder(output.out, "compare"), "compare.json")

    from tod_bias.audit import comparison
    from tod_bias.report.changes import summary, write_changes  # heavy imports come after what may go wrong at once

    result = comparison.compare(
        before,
        after,
        axes=names.axes.axes if names.axes.given_of("axes") else None,
        metrics=metrics,
        config=config,
    )
    path = result.save(folder_of(output.out, "compare"))
    page = write_changes(result, path.parent, records)
    if not output.quiet:
        console = Console()
        plain = not (console.encoding or "").lower().startswith("utf")
        for line in summary(result, min(80, console.width), plain=plain):
            console.print(line, soft_wrap=True, highlight=False)
        print(f"Results: {path}   Report: {page}")


ASSOCIATIONS = "associations.json"


def _compare_associations(
    before: Path, after: Path, names: RunNames, config: CompareConfig, output: CompareOutput
) -> None:
    """Compare two audits of embeddings."""
    from tod_bias.cli.recommend import compare_associations
    from tod_bias.recommenders.embeddings.settings import AssociationStatistics

    refuse(names, names.given(), "for runs of attribute; these are audits of embeddings")
    refuse(config, ("margin", "quality_margin"), "for runs of attribute; these are audits of embeddings")
    how = AssociationStatistics(permutations=config.permutations, seed=config.seed)
    compare_associations(before, after, how, output.out, quiet=output.quiet)


class GateOptions(Options):
    """Limits and accepted findings of the gate."""

    title = "Gate"

    max_gap: Annotated[float, Field(gt=0)] | None = None
    """Pass only if every gap is also shown to be within this share, e.g. 0.1; exit code 3 if the data cannot tell."""
    terms_only: bool = False
    """Treat the terms as fixed: bounds hold for these terms only."""
    baseline: Path | None = None
    """Folder of an earlier run: only findings that are new or larger fail."""
    known: Path | None = None
    """YAML list of accepted findings: axis, group, event, reason."""


class CaseOptions(Options):
    """Regression cases."""

    title = "Cases"

    cases: Path | None = None
    """File that tod-bias cases wrote, whose cases are run again; RUN may name the system."""
    references: Literal["gold"] | None = None
    """With gold, the recorded responses are a standard too: no response may be further from them than it was."""


class CheckOutput(OutputOptions):
    """Output of the verdict."""

    out: Path | None = None
    """Folder for check.json; by default none is written."""
    junit: Path | None = None
    """Write a JUnit XML file."""
    otel: Annotated[Path | None, ADVANCED] = None
    """Write the findings as gen_ai.evaluation.result events of OpenTelemetry (OTLP JSON)."""
    summary: Path | None = None
    """Append a summary in Markdown, for instance to $GITHUB_STEP_SUMMARY."""


@command("tod-bias check runs/mine --junit gate.xml")
def check(
    run: Path | None = None,
    /,
    *,
    limits: GateOptions,
    regression: CaseOptions,
    output: CheckOutput,
    overrides: SystemOverrides,
) -> int:
    """Judge a finished run by its findings: a gate for CI.

    Exit code 0: no finding stands; 1: a finding stands; 3: the run measured nothing, or, with --max-gap, does not show
    that every gap is within the limit; 2: an argument or a file cannot be used. A run with a claimed difference never
    passes unless --known accepts it or --baseline has it.

    With --cases, single dialogues are run again, on the system of RUN, --pipeline or --model. Exit code 0: no event
    depends on the group any more; 1: some do, or all groups are now served as badly; 3: a call had no output.

    Args:
        run: A finished run's folder.
    """
    if regression.cases is not None:
        why = f"of a run; --cases {regression.cases} are single dialogues"
        refuse(limits, type(limits).model_fields, why)
        return _check_cases(regression.cases, run, regression.references, overrides, output)
    refuse(regression, ("references",), "for --cases, which are run again; a finished run is not")
    given = overrides.given()
    refuse(overrides, given.keys() - {"axes"}, "for --cases, which are run again; a finished run is not")
    if run is None:
        raise TodBiasError("check: a run's folder is missing; give RUN, or --cases and --pipeline")
    from tod_bias.results import AuditResult

    result = AuditResult.load(run)
    baseline = None if limits.baseline is None else AuditResult.load(limits.baseline)

    from tod_bias.report import gate as pages  # heavy imports come after what may go wrong at once
    from tod_bias.testing import gate

    checked = gate.check(
        result,
        max_gap=limits.max_gap,
        terms_only=limits.terms_only,
        axes=given.get("axes"),
        baseline=baseline,
        known=() if limits.known is None else gate.read_known(limits.known),
    )
    _write(checked.record, pages.junit(checked), pages.markdown(checked), output)
    if output.otel is not None:
        from tod_bias.dialogues.text import json_line
        from tod_bias.io.files import write_text
        from tod_bias.report.telemetry import evaluation_events

        write_text(output.otel, json_line(evaluation_events(checked)), named=True)  # a receiver reads a line at a time
    if not output.quiet:
        console = Console()
        plain = not (console.encoding or "").lower().startswith("utf")
        console.print(pages.table(checked, min(80, console.width), plain=plain), soft_wrap=True, highlight=False)
    return checked.code


def _check_cases(
    path: Path, run: Path | None, references: Literal["gold"] | None, overrides: SystemOverrides, output: CheckOutput
) -> int:
    """Run a file of cases again, on the system that the options or a run name; returns the exit code."""
    check_files(path)
    from tod_bias.dialogues.corpora import check_shipped, load_corpus
    from tod_bias.report import cases as pages
    from tod_bias.testing.case_check import check_cases
    from tod_bias.testing.cases import read_cases

    cases = read_cases(path)
    config = AuditConfig.with_settings(None, overrides.given()) if run is None else config_of(run, overrides)
    corpus, split = cases[0].corpus
    has_models = any(config.system.models)
    if config.corpus.given_of("corpus"):
        corpus = config.corpus.corpus
    elif has_models:
        check_shipped(corpus, str(path))
    axes = _user_axes(cases, config, is_given=run is None)
    whole = load_corpus(corpus, datapath=config.corpus.datapath, split=split) if has_models else []
    system = load_system("", config.system, whole)
    checked = check_cases(cases, system, references=references, axes=axes, show_progress=not output.quiet)
    _write(checked.record, pages.junit(checked.record), pages.markdown(checked.record), output)
    if not output.quiet:
        Console().print(pages.table(checked.record))
    return checked.code


def _user_axes(cases: Sequence[Any], config: AuditConfig, *, is_given: bool) -> dict[str, Any]:
    """Return the axes of the user's own.

    Args:
        cases: which may name them.
        config: which names them.
        is_given: True if the command line names them, so that an axis of no case is a mistake.

    Raises:
        TodBiasError: one cannot be loaded, or no case is of it.
    """
    from tod_bias.perturb.loading import is_user_defined
    from tod_bias.testing.case_check import user_axes

    names = config.axes.axes if config.axes.given_of("axes") else ()
    axes = user_axes([name for name in names if is_user_defined(name)])
    known = {case.axis for case in cases}
    for axis in (*axes, *(name for name in names if not is_user_defined(name))) if is_given else ():
        if axis not in known:
            raise TodBiasError(f"--axes: no case is of axis {axis!r}; expected some of {', '.join(sorted(known))}")
    return axes


def _write(record: Any, junit: str, markdown: str, output: CheckOutput) -> None:
    """Write the result to the requested files."""
    from tod_bias.io.files import append_text, write_json, write_text

    if output.out is not None:
        write_json(writable(output.out) / "check.json", record)
    if output.junit is not None:
        write_text(output.junit, junit, named=True)
    if output.summary is not None:
        append_text(output.summary, markdown)


class CasesOptions(Options):
    """Cases to write."""

    title = "Cases"

    worst: Positive = 50
    """Number of cases, spread evenly over the findings."""
    only: tuple[str, ...] = ()
    """Turn to take instead, as tod-bias view names it; may be repeated. Cases already in --out stay."""


class CasesOutput(OutputOptions):
    """File for the cases."""

    out: Path = Path("cases.jsonl")
    """The file (JSON lines)."""


@command("tod-bias cases runs/mine --worst 20 --out cases.jsonl")
def cases(run: Path, /, *, which: CasesOptions, output: CasesOutput, overrides: DialogueOverrides) -> None:
    """Write the dialogues that show the findings as regression cases, for tod-bias check --cases and pytest --tod-bias.

    A case is one turn of one counterfactual, with the turns before it and the finding's event. It passes if the event
    no longer depends on the group. It needs no corpus and no run. No stage is called.

    Args:
        run: A finished run's folder.
    """
    config = config_of(run, overrides)
    from tod_bias.results import AuditResult

    unwritten(run)
    result = AuditResult.load(run)
    from tod_bias.dialogues.corpora import check_shipped, load_corpus  # heavy imports come after what may go wrong
    from tod_bias.dialogues.sampling import sample
    from tod_bias.report import cases as pages
    from tod_bias.testing.case_choice import cases_of
    from tod_bias.testing.cases import check_replaced, read_cases, write_cases

    if config.corpus.world is not None:
        raise TodBiasError(
            f"{run}: a world's tasks are no cases, since a file cannot hold their databases; audit again with the "
            "run's command, and hold the new run against this one: tod-bias check NEW --baseline OLD"
        )
    check_replaced(output.out)
    about = result.corpus
    name = config.corpus.corpus if config.corpus.given_of("corpus") else about.name
    if not config.corpus.given_of("corpus"):
        check_shipped(name, str(run))
    whole = load_corpus(name, datapath=config.corpus.datapath, split=about.split or "test")
    names = axes_of(run, result, overrides, config)
    axes = load_axes(config.axes, names, config.system.device)
    choice = cases_of(
        run,
        sample(whole, about.dialogues, result.config.seed),
        most=which.worst,
        axes=axes,
        options=_options(config, names, axes),
        only=which.only,
    )
    chosen: Sequence[Any] = choice.cases
    if which.only and output.out.is_file():
        chosen = [*(case for case in read_cases(output.out) if case.id not in which.only), *chosen]
    write_cases(chosen, output.out)
    if output.quiet:
        return
    if chosen:
        Console().print(pages.written([case.to_json() for case in chosen]))
    for axis, number in choice.left_out.items():
        echo(f"axis {axis}: {number} left out, as a file cannot hold how they are rewritten")
    print(f"{len(chosen)} case{'s' * (len(chosen) != 1)}: {output.out}")


def _options(config: AuditConfig, names: Sequence[str], axes: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return how each axis was made, so that a case can be run without the folder of its run."""
    how = config.axes
    files = lexicons(how, names)
    return {
        axis.name: {
            "axis": name,
            "lexicon": files.get(name),
            "protected": list(how.protect) or None,
            "name_slots": None if how.name_slots is None else str(how.name_slots),
            "model": how.perturber,
            "introductions": sorted(axis.kinds) or None if how.introductions else None,
        }
        for name, axis in zip(names, axes, strict=True)
    }


class MitigateOptions(Options):
    """Fixes to try."""

    title = "Mitigation"

    guards: Names = ("canonical",)
    """Guards to try: canonical, neutral, vote."""
    references: Literal["gold"] | None = None
    """With gold, the recorded replies judge the cost of a fix; without, only grades and solved tasks do."""


class MitigateOutput(OutputOptions):
    """Folder for the results."""

    out: Path | None = None
    """Folder for the results; by default RUN/mitigation."""


@command("tod-bias mitigate runs/mine")
def mitigate(run: Path, /, *, how: MitigateOptions, output: MitigateOutput, overrides: SystemOverrides) -> int:
    """Try a guard and the missing rows on each stage that a finding names.

    Every fix is measured alone, as the run was, by the finding's own event. Prints what remains of each finding, what
    the fix costs, the lines to add to the pipeline file, and what else can be done if no fix helps. Writes
    mitigation.json, and missing.jsonl (rows that a lookup table lacks). Exit code 1 if no fix helps for a finding.

    Args:
        run: A finished run of attribute: its folder.
    """
    unwritten(run)
    from tod_bias.perturb.guard import MODES
    from tod_bias.report.answer import alike
    from tod_bias.results import AuditResult

    result = AuditResult.load(run)
    config = arguments.config_of(run, overrides)
    names = arguments.axes_of(run, result, overrides, config)
    if unknown := [axis for axis in names if axis not in result.axes]:
        raise TodBiasError(f"--axes {unknown[0]}: the run has no axis of this name; it has {', '.join(result.axes)}")
    if unknown := [mode for mode in how.guards if mode not in MODES]:
        raise TodBiasError(f"--guards: unknown guard {unknown[0]!r}; expected some of {', '.join(MODES)}")
    findings = alike([some for some in result.findings if some.is_difference and some.axis in names])
    if not findings:
        print(f"{run} has no finding, so there is nothing to mitigate")
        return 0
    from tod_bias.io.files import subfolder  # heavy imports come after what may go wrong at once

    trials = [] if result.is_recorded else list(_trials(result, config, [some[0] for some in findings], how))
    folder = claimed(output.out or subfolder(run, "mitigation"))
    _write_trials(folder, trials, findings, result, quiet=output.quiet)
    return int(any(not any(trial.helps and trial.finding == some[0] for trial in trials) for some in findings))


def _trials(result: Any, config: AuditConfig, findings: Sequence[Any], how: MitigateOptions) -> Any:
    """Return the trials of a run's fixes."""
    arguments.check_system(config.corpus.corpus, config.system, config.corpus.world)
    names = tuple(dict.fromkeys(finding.axis for finding in findings))
    axes = arguments.load_axes(config.axes, names, config.system.device)
    whole, dialogues = arguments.load_dialogues(config.corpus, result.config.seed)
    system = arguments.load_system(config.corpus.corpus, config.system, whole, config.corpus.world)
    from tod_bias.metrics.choice import metric
    from tod_bias.mitigation.trials import Trials

    requested = config.analysis.metrics
    metrics = None if requested is None else [metric(name) for name in requested]
    options = {"cluster": config.analysis.cluster, "max_failures": config.run.max_failures}
    return Trials(
        result,
        system,
        dialogues,
        {axis.name: axis for axis in axes},
        findings,
        how.guards,
        metrics,
        how.references is not None,
        options,
    )


def _write_trials(
    folder: Path, trials: Sequence[Any], findings: Sequence[Sequence[Any]], result: Any, *, quiet: bool
) -> None:
    """Write all trials, and print them with the lines to add."""
    from tod_bias.audit.record import signature_of
    from tod_bias.dialogues.text import json_line
    from tod_bias.io.files import write_json, write_lines
    from tod_bias.report.mitigation import shown_trials

    tried = [trial.model_dump(mode="json") for trial in trials]
    signature = result.signature | signature_of({})
    write_json(
        folder / "mitigation.json", {"schema": 4, "run": result.name, "trials": tried, "signature": signature}
    )
    if missing := [lack.record for trial in trials if trial.helps for lack in trial.missing]:
        write_lines(folder / "missing.jsonl", map(json_line, missing))
    if not quiet:
        for line in shown_trials(trials, findings, result):
            echo(line)
