"""``tod-bias init``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from tod_bias.cli.options import command
from tod_bias.config import OutputOptions
from tod_bias.errors import TodBiasError
from tod_bias.report.console import echo

_DATA = Path(__file__).parents[2] / "data" / "init"
_CHATS = "chats.jsonl"
_AUDIT = f"tod-bias attribute --pipeline %s --corpus {_CHATS} --axes gender --out run"
_NEXT = {
    "assistant": ["python stub_server.py &", _AUDIT % "assistant.yaml"],
    "agent": [_AUDIT % "agent.yaml"],
    "stages": [_AUDIT % "pipeline.yaml"],
    "responses": [
        f"tod-bias export --corpus {_CHATS} --axes gender --chat --out counterfactuals",
        "python my_system.py",
        f"tod-bias attribute --responses responses.jsonl --corpus {_CHATS} --axes gender --out run",
    ],
}
"""Kind to the commands that audit its example."""


class InitOutput(OutputOptions):
    """Folder for the example."""

    out: Path | None = None
    """A folder that is not there yet, or is empty; by default one with the name of the kind."""


@command("tod-bias init assistant")
def init(kind: Literal["assistant", "agent", "stages", "responses"], /, *, output: InitOutput) -> None:
    """Write a commented example that runs as it is; change it into an audit of your system.

    Args:
        kind: Your system: an assistant behind an OpenAI-compatible server (a stub of the server is included), an agent,
            stages in Python, or a system whose responses you save.
    """
    folder = output.out or Path(kind)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TodBiasError(f"{folder}: is there already; give another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    for file in (_DATA / _CHATS, *sorted((_DATA / kind).glob("*.*"))):
        shutil.copyfile(file, folder / file.name)
    if not output.quiet:
        echo("\n".join([f"Written to {folder}. Next:", f"  cd {folder}", *(f"  {line}" for line in _NEXT[kind])]))
