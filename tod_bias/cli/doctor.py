"""``tod-bias doctor``."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.options import command
from tod_bias.config import OutputOptions

_MARKS = {"ok": "ok", "missing": "--", "note": " !"}


class DoctorOutput(OutputOptions):
    """Where what was found goes."""

    out: Path | None = None
    """Folder for doctor.json; by default none is written."""


@command("tod-bias doctor --json")
def doctor(file: Path | None = None, /, *, json: bool = False, output: DoctorOutput) -> None:
    """Say what works on this machine, and the command that adds what does not; or what works in a system's traces.

    Looks at Python, the folder, threads and devices, the packages and extras, ParlAI, and whether the hub answers
    (HF_HUB_OFFLINE=1: it is not asked). Nothing is changed, nothing is downloaded. "--" marks what is missing, "!" what
    is worth knowing. The exit code is 0 whatever is found; "ready" in the JSON says whether audits run.

    Args:
        file: Traces of a system (.json, .jsonl or a folder): its models, tools, retrievers and agents are listed with
            the number of their spans, and the machine is not looked at. What is declared as no stage is unattributed.
        json: Print one JSON object instead.
    """
    from json import dumps

    if file is not None:
        _list_components(file, json, output)
        return
    from tod_bias.environment import examined

    environment = examined()
    if output.out is not None:
        from tod_bias.files import write_json
        from tod_bias.folder import claimed

        write_json(claimed(output.out) / "doctor.json", environment.to_json())
    if output.quiet:
        return
    if json:
        print(dumps(environment.to_json(), indent=1, ensure_ascii=False))
        return
    area = ""
    for check in environment.checks:
        if check.area != area:
            area = check.area
            print(area)
        print(f"  {_MARKS[check.state]} {check.name:<12} {check.said}")
        if check.command:
            print(f"     {'':<12} → {check.command}")
    print(
        "\nAudits run here: try `tod-bias attribute`, which audits the bundled demo."
        if environment.ready
        else "\nAudits do not run here yet: run the commands above that belong to lines marked --."
    )


def _list_components(file: Path, json: bool, output: DoctorOutput) -> None:
    from tod_bias.dialogues.files import read_traces
    from tod_bias.files import json_text, write_json
    from tod_bias.report.console import echo

    found = sorted(read_traces(file).components().items(), key=lambda item: (item[0].kind, -item[1], item[0]))
    report = {"components": [{**component._asdict(), "spans": number} for component, number in found]}
    if output.out is not None:
        from tod_bias.folder import claimed

        write_json(claimed(output.out) / "doctor.json", report)
    if output.quiet:
        return
    if json:
        echo(json_text(report))
        return
    kind = ""
    for component, number in found:
        if component.kind != kind:
            kind = component.kind
            echo(kind)
        agent = f"  (agent {component.agent})" if component.agent else ""
        echo(f"  {number:>7,}  {component.name}{agent}")
    echo("" if found else "No span there says what it is (gen_ai.operation.name or openinference.span.kind).")
