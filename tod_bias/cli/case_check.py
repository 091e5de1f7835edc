"""``tod-bias check --cases``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tod_bias.cli.arguments import check_files, chosen, pipeline_of
from tod_bias.errors import TodBiasError
from tod_bias.report.console import Console, echo


@dataclass(frozen=True)
class Own:
    """What cases may name and do not import, given again on the command line."""

    axes: str | None
    metrics: str | None
    corpus: str | None
    datapath: Path | None
    """Where the corpus lies, whose results models given with ``--model`` look up."""


def check_file(
    path: Path,
    spec: str | None,
    models: Sequence[str | None],
    own: Own,
    device: str | None,
    generation: dict[str, Any],
    tolerance: float,
    files: tuple[Path | None, Path | None, Path | None],
    quiet: bool,
) -> int:
    """Run a file of cases again on the system that the options name; returns the exit code.

    Args:
        path: of the cases.
        spec: ``--pipeline``.
        models: ``--model``, ``--api-call-model`` and ``--response-model``.
        own: what the cases name and is given again.
        device: of the models.
        generation: their settings.
        tolerance: harm up to it is none.
        files: for JUnit XML, for the summary in Markdown, and the folder for ``check.json``.
        quiet: whether nothing is shown.
    """
    check_files(path)
    from tod_bias.dialogues.corpora import check_shipped, load_corpus
    from tod_bias.files import append_text, write_json, write_text
    from tod_bias.folder import writable
    from tod_bias.report import cases as pages
    from tod_bias.studies.case_check import check_cases
    from tod_bias.studies.cases import read_cases

    cases = read_cases(path)
    corpus, split = cases[0].corpus
    if own.corpus is None and any(models):
        check_shipped(corpus, str(path))
    told_by, metrics = _own(cases, own)
    whole = load_corpus(own.corpus or corpus, datapath=own.datapath, split=split) if any(models) else []
    system = pipeline_of("", spec, models, whole, device, generation)
    record = check_cases(
        cases, system, tolerance=tolerance, perturbers=told_by, metrics=metrics, show_progress=not quiet
    )
    junit, summary, out = files
    if out is not None:
        write_json(writable(out) / "check.json", record.record)
    if junit is not None:
        write_text(junit, pages.junit(record.record), named=True)
    if summary is not None:
        append_text(summary, pages.markdown(record.record))
    if not quiet:
        Console().print(pages.table(record.record))
        echo(pages.headline(record.record))
    return record.code


def _own(cases: Sequence[Any], own: Own) -> tuple[dict[str, Any], dict[str, Any]]:
    """The perturbers and metrics that are given again.

    Raises:
        TodBiasError: one cannot be loaded, or no case names it.
    """
    from tod_bias.perturb.loading import is_own
    from tod_bias.studies.case_check import own_of

    axes = chosen("--axes", own.axes) if own.axes is not None else []
    metrics = chosen("--metric", own.metrics) if own.metrics is not None else []
    told_by, scored = own_of(axes, metrics)
    there = {case.axis for case in cases}
    for axis in (*told_by, *(axis for axis in axes if not is_own(axis))):
        if axis not in there:
            raise TodBiasError(f"--axes {own.axes}: no case is of axis {axis!r}; there are {', '.join(sorted(there))}")
    there = {case.metric for case in cases}
    for name in metrics:
        if not {name, scored[name].name} & there:
            raise TodBiasError(f"--metric {name}: no case is scored by it; there are {', '.join(sorted(there))}")
    return told_by, scored
