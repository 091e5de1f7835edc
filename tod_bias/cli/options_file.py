"""Options of a command in a file: ``--config FILE`` of the commands that take some options from nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tod_bias.config import Options, beside
from tod_bias.errors import TodBiasError, meant, shortened

_NAMES_OF_FILES = ("corpus", "init", "model", "pipeline")
"""Options that are texts and may name a file or a folder; all options of type Path name one."""


def read_options(file: Path, fields: Mapping[str, type[Options]]) -> dict[str, Any]:
    """Read options from YAML or JSON, such as ``layers: 4``, also in groups as in a file for ``attribute``.

    A path that exists beside the file is taken from there; others start from the current folder.

    Args:
        file: the file.
        fields: names of the command's options, each with the class that has it.

    Raises:
        TodBiasError: the file cannot be read, or the command has no such option; names file and option.
    """
    from tod_bias.io.documents import read_settings

    content = read_settings(file, f"--config {file}: cannot be read")
    if not isinstance(content, Mapping):
        raise TodBiasError(f"--config {file}: expected options such as 'epochs: 3', got {type(content).__name__}")
    options: dict[str, Any] = {}
    for name, value in content.items():
        options |= value if isinstance(value, Mapping) else {name: value}
    for name in options:
        if name not in fields:
            hint = meant(str(name).replace("-", "_"), fields) or "; --help lists the options of the command"
            raise TodBiasError(f"--config {file}: unknown option {shortened(str(name), 60)!r}{hint}")
    return {name: _located(value, name, fields[name], file.parent) for name, value in options.items()}


def _located(value: Any, name: str, kind: type[Options], folder: Path) -> Any:
    """Return an option's value, with the folder before it if it names something there."""
    if isinstance(value, list):
        return tuple(_located(item, name, kind, folder) for item in value)
    if not isinstance(value, str) or not value:
        return value
    is_path = name in _NAMES_OF_FILES or "Path" in str(kind.model_fields[name].annotation)
    return beside(folder, value) if is_path else value
