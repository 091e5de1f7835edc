"""``tod-bias doctor``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tod_bias.cli.options import Quiet

_MARKS = {"ok": "ok", "missing": "--", "note": " !"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    seed: Annotated[int, typer.Option(hidden=True, help="Nothing is drawn here.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for doctor.json; by default none is written.")] = None,
    quiet: Quiet = False,
) -> None:
    """Say what works on this machine, and the command that adds what does not.

    Looks at Python, the folder, threads and devices, the packages and extras, ParlAI, and whether the hub answers
    (HF_HUB_OFFLINE=1: it is not asked). Nothing is changed, nothing is downloaded. "--" marks what is missing, "!" what
    is worth knowing. The exit code is 0 whatever is found; "ready" in the JSON says whether audits run.
    """
    from tod_bias.environment import examined

    found = examined()
    if out is not None:
        from tod_bias.files import write_json
        from tod_bias.folder import claimed

        write_json(claimed(out) / "doctor.json", found.to_json())
    if quiet:
        return
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
