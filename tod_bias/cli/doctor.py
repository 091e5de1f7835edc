"""``tod-bias doctor``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

_MARKS = {"ok": "ok", "missing": "--", "note": " !"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Say what works on this machine, and the command that adds what does not.

    Looks at Python, the folder, threads and devices, the packages and extras, ParlAI, and whether the hub answers
    (HF_HUB_OFFLINE=1: it is not asked). Nothing is changed, nothing is downloaded. "--" marks what is missing, "!" what
    is worth knowing. The exit code is 0 whatever is found; "ready" in the JSON says whether audits run.
    """
    from tod_bias.environment import examined

    found = examined()
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1, ensure_ascii=False))
        return
    area = ""
    for check in found.checks:
        if check.area != area:
            area = check.area
            typer.echo(area)
        typer.echo(f"  {_MARKS[check.state]} {check.name:<12} {check.said}")
        if check.command:
            typer.echo(f"     {'':<12} → {check.command}")
    typer.echo(
        "\nAudits run here: try `tod-bias attribute`, which audits the bundled demo."
        if found.ready
        else "\nAudits do not run here yet: run the commands above that belong to lines marked --."
    )
