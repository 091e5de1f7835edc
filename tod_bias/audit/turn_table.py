"""The table of turns on disk.

It is written in chunks of dialogues, so that a run over a large corpus does not hold it in memory.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq


class TurnTable:
    """Rows of all axes on disk, an axis after the other; gone when the object is.

    Args:
        schema: its columns (:func:`~tod_bias.audit.turn_rows.schema_of`).
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tod-bias-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._schema = schema

    def add(self, axis: str, rows: pa.Table) -> None:
        """Write the rows of some dialogues on one axis."""
        import pyarrow.parquet as pq

        if axis not in self._writers:
            path = self._folder / f"{len(self._writers)}.parquet"
            self._writers[axis] = pq.ParquetWriter(path, self._schema)
        self._writers[axis].write_table(rows)

    def keep(self, axes: Sequence[str]) -> None:
        """Nothing more is written; only these axes stay, in this order."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {axis: self._writers[axis] for axis in axes}

    def _files(self) -> list[Any]:
        return [writer.where for writer in self._writers.values()]

    def frame(self) -> pd.DataFrame:
        """All rows, in memory."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        return pa.concat_tables([pq.read_table(file) for file in self._files()]).to_pandas()

    def write(self, path: Path) -> None:
        """Write all rows to one Parquet file, a row group after the other."""
        import pyarrow.parquet as pq

        with pq.ParquetWriter(path, self._schema) as writer:
            for file in self._files():
                with pq.ParquetFile(file) as part:
                    for number in range(part.num_row_groups):
                        writer.write_table(part.read_row_group(number))
