"""``tod-bias view``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tod_bias.cli import signals
from tod_bias.cli.checks import refuse
from tod_bias.cli.options import command
from tod_bias.config import ADVANCED, MetricOptions, Options
from tod_bias.errors import TodBiasError
from tod_bias.io.folder import unwritten


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


@command("tod-bias view runs/before runs/after")
def view(*runs: Path, names: ViewNames, page: ViewOptions, form: FormOptions) -> int:
    """Show every counterfactual turn beside its original, the most harmful first, in the browser.

    Writes explorer/index.html into the first run's folder, a page that works without a server, and serves it to this
    machine until Ctrl-C.

    Args:
        runs: Folders of finished runs of attribute, e.g. before and after a fix.
    """
    if not runs:
        raise TodBiasError("view: give the folder of a run, e.g. runs/demo")
    for run in runs:
        unwritten(run)
    if form.as_ is None:
        refuse(form, ("system", "purpose", "responsible", "rate"), "of a form; give --as as well")
    elif len(runs) > 1:
        raise TodBiasError(f"--as {form.as_}: a form is about one run; give one folder")
    from tod_bias.cli.work import view as pages

    if form.as_ is not None:
        pages.write_filled(runs[0], form.as_, form.rate, (form.system, form.purpose, form.responsible))
        return 0
    path = pages.write_runs(runs, names, quiet=page.quiet)
    if page.build:
        return 0
    pages.serve(path, page.port, is_opened=not page.no_open, quiet=page.quiet)
    return signals.code(signals.received())
