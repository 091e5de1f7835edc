"""``tod-bias doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tod_bias.cli.options import command
from tod_bias.config import OutputOptions
from tod_bias.errors import TodBiasError
from tod_bias.io.files import json_text, write_json
from tod_bias.io.folder import claimed
from tod_bias.report.console import echo


class DoctorOutput(OutputOptions):
    """Folder for the report of ``tod-bias doctor``."""

    out: Path | None = None
    """Folder for doctor.json; by default none is written."""


@command("tod-bias doctor --json")
def doctor(
    file: Path | None = None,
    /,
    *,
    corpus: str = "",
    json: bool = False,
    output: DoctorOutput,
) -> None:
    """Say what works on this machine, and the command that adds what does not; or what works in a system.

    Looks at Python, the folder, threads and devices, the packages and extras, ParlAI, and whether the hub answers
    (HF_HUB_OFFLINE=1: it is not asked). Nothing is changed, nothing is downloaded. "--" marks what is missing, "!" what
    is worth knowing. The exit code is 0 whatever is found; "ready" in the JSON says whether audits run.

    Args:
        file: Pipeline file: the system answers one conversation, and the calls and outputs of its stages are shown. For
            an agent that is a command or url, its requests to models are listed instead, as stages to paste into the
            file. A component that is not declared as a stage is unattributed. The machine is not looked at.
        corpus: The system answers a conversation of this corpus, one that calls most tools; by default of the demo's.
        json: Print one JSON object instead.
    """
    if file is None and corpus:
        raise TodBiasError(f"--corpus goes with a system: tod-bias doctor system.yaml --corpus {corpus}")
    report: dict[str, Any]
    if file is None:
        from tod_bias.cli.work.doctor_machine import as_text, examined

        environment = examined()
        report, text = environment.to_json(), as_text(environment)
    else:
        from tod_bias.cli.work.doctor_system import try_system

        report, text = try_system(file, corpus, quiet=output.quiet)
    if output.out is not None:
        write_json(claimed(output.out) / "doctor.json", report)
    if not output.quiet:
        echo(json_text(report) if json else text)
