"""Axis files: one axis with its terms and settings in one YAML or JSON file, such as ``--axes gender,guild.yaml``::

lexicon: guild.tsv          # beside this file
protected: [Iron Lady]      # never rewritten
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tod_bias.config import Names, beside
from tod_bias.errors import AxisError, invalid, shortened
from tod_bias.io.documents import read_settings


class AxisFile(BaseModel):
    """Content of an axis file: settings of :func:`~tod_bias.perturb.load_axis`, for one axis."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    axis: str | None = None
    """Name of the axis, shipped or new; by default the name of the file without its ending."""
    lexicon: Path | None = None
    """Lexicon in place of the shipped one; of an axis ``persona_…`` a sheet of introductions."""
    scope: str | None = None
    """``attribute`` or ``word``; by default that of the lexicon."""
    protected: tuple[str, ...] = ()
    """Phrases that are never rewritten."""
    name_slots: Path | None = None
    """List of the slots that hold people's names, for axes of names."""
    introductions: Names | None = None
    """Kinds of introductions, for axes ``persona_…``."""
    model: str | None = None
    """Checkpoint of a neural perturber, for axes of terms."""
    sources: Names | None = None
    """Groups that are rewritten; by default all."""
    targets: Names | None = None
    """Groups that others are rewritten to; by default all."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that the file gives, without the name of the axis."""
        given = self.model_fields_set - {"axis"}
        return {name: getattr(self, name) for name in type(self).model_fields if name in given}


def read_axis_file(path: str | Path) -> tuple[str, dict[str, Any]]:
    """Read an axis file.

    A path that exists beside the file is taken from there; others start from the current folder.

    Args:
        path: of the file.

    Returns:
        The name of the axis, and settings for :func:`~tod_bias.perturb.load_axis`.

    Raises:
        AxisError: the file cannot be read, or a setting is unknown or has the wrong type; names the file and the
            setting.
    """
    path = Path(path)
    content = read_settings(path, f"axis file {path}: cannot be read", AxisError)
    if not isinstance(content, dict):
        raise AxisError(f"axis file {path}: expected settings such as 'lexicon: guild.tsv'")
    try:
        file = AxisFile.model_validate(content)
    except ValidationError as error:
        raise AxisError(f"axis file {path}: {_line_of(error)}") from None
    settings = file.settings()
    for name in ("lexicon", "name_slots", "model"):
        if (given := settings.get(name)) is not None:
            settings[name] = beside(path.parent, str(given))
    return file.axis or path.stem, settings


def _line_of(error: ValidationError) -> str:
    """Return one line about the first setting that cannot be used."""
    first = error.errors()[0]
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return f"unknown setting {shortened(name, 60)!r}; expected some of {', '.join(AxisFile.model_fields)}"
    return invalid(error, name)
