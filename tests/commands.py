"""Commands as a shell would run them, within this process."""

from __future__ import annotations

import io
import json
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from tod_bias.cli.application import main


def run_command(line: str, *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command line and further arguments."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([*shlex.split(line), *map(str, arguments)])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def in_file(folder: Path, **options: object) -> tuple[str, Path]:
    """Write options into a file in a folder; return the words of the command line that read it."""
    file = folder / "options.json"
    file.write_text(json.dumps(options))
    return "--config", file


def refused(line: str, *arguments: object) -> str:
    """The line in which a command ends that cannot be carried out."""
    code, out, err = run_command(line, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("tod-bias: error: ")
    assert err.count("\n") == 1, err
    return err
