"""``tod-bias check --cases``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from tod_bias.cli.arguments import check_files, pipeline_of
from tod_bias.report.console import Console


def check_file(
    path: Path,
    spec: str | None,
    models: Sequence[str | None],
    datapath: Path | None,
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
        datapath: where the corpus of the cases lies, whose results models given so look up.
        device: of the models.
        generation: their settings.
        tolerance: harm up to it is none.
        files: for JUnit XML, for the summary in Markdown, and the folder for ``check.json``.
        quiet: whether nothing is shown.
    """
    check_files(path)
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.files import append_text, write_json, write_text
    from tod_bias.folder import writable
    from tod_bias.report import cases as pages
    from tod_bias.studies.case_check import check_cases
    from tod_bias.studies.cases import read_cases

    cases = read_cases(path)
    corpus, split = cases[0].corpus
    whole = load_corpus(corpus, datapath=datapath, split=split) if any(models) else []
    system = pipeline_of("", spec, models, whole, device, generation)
    record = check_cases(cases, system, tolerance=tolerance, show_progress=not quiet)
    junit, summary, out = files
    if out is not None:
        write_json(writable(out) / "check.json", record.record)
    if junit is not None:
        write_text(junit, pages.junit(record.record), named=True)
    if summary is not None:
        append_text(summary, pages.markdown(record.record))
    if not quiet:
        Console().print(pages.table(record.record))
        typer.echo(pages.headline(record.record))
    return record.code
