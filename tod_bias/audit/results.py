"""What a run leaves: a record of plain JSON types, and a frame with a row a turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tod_bias.dialogues.text import well_formed
from tod_bias.files import replacing, write_text
from tod_bias.folder import held

if TYPE_CHECKING:
    import pandas as pd


class Table(Protocol):
    """Turns that lie on disk."""

    def frame(self) -> pd.DataFrame:
        """All of them, in memory."""

    def write(self, path: Path) -> None:
        """Write them to one Parquet file."""


class Results(dict[str, Any]):
    """The content of a run's JSON file, with the frame of its turns beside it."""

    record_name: ClassVar[str]
    """Name of the JSON file."""
    frame_name: ClassVar[str]
    """Name of the Parquet file."""
    table: Table | None = None
    """The turns on disk, where they are too many for memory."""
    _turns: pd.DataFrame | None = None

    @property
    def turns(self) -> pd.DataFrame:
        """One row a turn (draw and arm)."""
        if self._turns is None:
            if self.table is None:
                raise AttributeError("this result holds no turns")
            self._turns = self.table.frame()
        return self._turns

    @turns.setter
    def turns(self, frame: pd.DataFrame) -> None:
        self._turns = frame

    def save(self, folder: str | Path) -> None:
        """Write both files, each whole or not at all; the record last, so that it stands for a complete run.

        Raises:
            TodBiasError: the folder cannot be written to, or another run writes into it.
        """
        with held(folder) as place:
            with replacing(place / self.frame_name) as path:
                if self.table is not None:
                    self.table.write(path)
                else:
                    self.turns.to_parquet(path, index=False)
            self.save_record(place)

    def save_record(self, folder: Path) -> None:
        """Write the JSON file."""
        text = json.dumps(self, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_text(folder / self.record_name, well_formed(text))
