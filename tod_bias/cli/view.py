"""``tod-bias view``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from tod_bias.cli import signals
from tod_bias.cli.options import command
from tod_bias.cli.report import ReportNames, scorers
from tod_bias.config import Options


class ViewOptions(Options):
    """How the page is shown."""

    title = "Page"

    build: bool = False
    """Only write it."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Where it is served on this machine; by default a free one."""
    no_open: bool = False
    """Serve it, and open no browser."""
    quiet: bool = False
    """Say nothing but where it is served."""


@command("tod-bias view runs/before runs/after")
def view(*runs: Path, names: ReportNames, page: ViewOptions) -> int:
    """Show every counterfactual turn beside its original, the most harmful first, in the browser.

    Writes explorer/index.html into the first run's folder, a page that works without a server, and serves it to this
    machine until Ctrl-C.

    Args:
        runs: Folders of finished runs of attribute, e.g. before and after a fix.
    """
    import webbrowser

    from tod_bias.errors import TodBiasError
    from tod_bias.folder import unwritten
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
