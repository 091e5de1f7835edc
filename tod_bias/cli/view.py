"""``tod-bias view``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from tod_bias.cli import signals
from tod_bias.cli.arguments import config_of, user_metrics
from tod_bias.cli.options import command
from tod_bias.config import ADVANCED, MetricOptions, Options
from tod_bias.io.imports import is_import

if TYPE_CHECKING:
    from tod_bias.metrics.metric import Metric


class ViewNames(Options):
    """Metrics of the user's own."""

    is_of_run = True

    analysis: MetricOptions = MetricOptions()


class ViewOptions(Options):
    """How the page is shown."""

    title = "Page"

    build: bool = False
    """Only write it."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Where it is served on this machine; by default a free one."""
    no_open: Annotated[bool, ADVANCED] = False
    """Serve it, and open no browser."""
    quiet: bool = False
    """Print only the address."""


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
def view(*runs: Path, names: ViewNames, page: ViewOptions) -> int:
    """Show every counterfactual turn beside its original, the most harmful first, in the browser.

    Writes explorer/index.html into the first run's folder, a page that works without a server, and serves it to this
    machine until Ctrl-C.

    Args:
        runs: Folders of finished runs of attribute, e.g. before and after a fix.
    """
    import webbrowser

    from tod_bias.errors import TodBiasError
    from tod_bias.io.folder import unwritten
    from tod_bias.report.explorer import FOLDER, PAGE, server_of, write_explorer

    if not runs:
        raise TodBiasError("view: give the folder of a run, e.g. runs/demo")
    for run in runs:
        unwritten(run)
    is_new = not (runs[0] / FOLDER / PAGE).exists()
    path = write_explorer(runs, scorers(runs, names))
    if not page.quiet:
        is_replaced = not is_new and len(runs) > 1
        note = (
            f" (in place of the page that was there; of one run alone: tod-bias view {runs[0]})" if is_replaced else ""
        )
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
