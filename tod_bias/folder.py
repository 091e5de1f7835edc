"""The folder that a run writes into."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tod_bias.errors import TodBiasError


def writable(folder: str | Path) -> Path:
    """Make a folder where there is none yet, and make sure that files can be written into it.

    Raises:
        TodBiasError: it cannot be made or written to.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise TodBiasError(f"{folder}: cannot be made a folder for results ({error}); choose another --out") from error
    return folder
