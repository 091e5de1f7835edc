"""The explorer of runs, and forms of a run: ``tod-bias view``."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tod_bias.audit.record import read_runs
from tod_bias.cli.checks import user_metrics
from tod_bias.cli.configuration import config_of
from tod_bias.io.imports import is_import
from tod_bias.metrics.choice import metric
from tod_bias.metrics.metric import Metric
from tod_bias.report.explorer import FOLDER, PAGE, server_of, write_explorer
from tod_bias.report.forms import BLANK, FormSubject, write_form
from tod_bias.results import RunError


def write_runs(runs: Sequence[Path], names: Any, *, quiet: bool) -> Path:
    """Write the explorer of runs into the folder of the first, and return its path.

    Args:
        runs: folders.
        names: options that name metrics.
        quiet: print nothing.
    """
    is_new = not (runs[0] / FOLDER / PAGE).exists()
    path = write_explorer(runs, scorers(runs, names))
    if not quiet:
        is_replaced = not is_new and len(runs) > 1
        note = f" (replaces the earlier page; for one run alone: tod-bias view {runs[0]})" if is_replaced else ""
        print(f"Explorer: {path}{note}", flush=True)
    return path


def serve(path: Path, port: int, *, is_opened: bool, quiet: bool) -> None:
    """Serve a page to this machine until Ctrl-C.

    Args:
        path: of the page.
        port: of the server; 0 for a free one.
        is_opened: open a browser.
        quiet: print only the address.
    """
    with server_of(path, port) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        print(f"{address} (Ctrl-C ends it)", flush=True)
        try:
            if is_opened:
                webbrowser.open(address)
            server.serve_forever()
        except KeyboardInterrupt:  # how it is meant to end
            if not quiet:
                print(f"no longer served; {path} works without a server")


def scorers(folders: Sequence[Path], names: Any) -> list[Metric]:
    """Return the metrics of the user's own, which score turns too.

    Raises:
        RunError: a metric is named that no run has measured.
    """
    if names.given():
        measured = dict.fromkeys(name for run in read_runs(folders) for name in run.result.metrics)
        for name in names.analysis.metrics or ():
            if (metric(name).name if is_import(name) else name) not in measured:
                where = ", ".join(map(str, folders))
                raise RunError(f"--metrics {name}: {where} has not measured it; it has {', '.join(measured)}")
    named = dict.fromkeys(name for folder in folders for name in user_metrics(config_of(folder, names)))
    return [metric(name) for name in named]


def write_filled(
    run: Path, name: Literal["annex-iv", "ll144", "limitations"], rate: str | None, subject: tuple[str, str, str]
) -> None:
    """Write a form of a run.

    Args:
        run: folder.
        name: of the form.
        rate: metric or event whose score is the selection rate; None for the usual one.
        subject: name of the system, its purpose, and who signs; empty texts stay blank.
    """
    path = write_form(run, name, FormSubject(*(text or BLANK for text in subject)), rate)
    print(f"Form: {path}   JSON: {path.with_suffix('.json')}")
