"""Embeddings and attributes from files.

==================  ====================================================================================
``.npz``            matrices ``users`` and ``items``, or ``vectors``; ids in ``user_ids``, ``item_ids``, ``ids``;
                    or a saved model of the library implicit (``user_factors``, ``item_factors``)
``.parquet``        columns ``id``, ``vector`` (a list), attributes; a column ``table`` says users or items
``.txt .vec``       word2vec's text format, words as ids, with or without its first line
``.pt .pth``        a torch state with one table whose name holds ``user`` and one whose name holds ``item``
``.safetensors``    the same
==================  ====================================================================================

Nothing in a file is run: of ``.pt`` and ``.pth`` torch's loader of weights makes tensors and plain containers only
(``weights_only``), and refuses all else.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.errors import EmbeddingsError, shortened
from tod_bias.io.documents import text_lines
from tod_bias.io.files import replacing
from tod_bias.recommenders.embeddings.vectors import Embeddings, Entities
from tod_bias.recommenders.files import read_frame

if TYPE_CHECKING:
    import pandas as pd

_MATRICES = {"users": "user_ids", "items": "item_ids", "vectors": "ids"}
_IMPLICIT = ("user_factors", "item_factors")
_NO_ARRAYS = (
    *(OSError, ValueError, TypeError, LookupError, NotImplementedError, MemoryError, EOFError),
    *(zipfile.BadZipFile, zlib.error, SyntaxError, tokenize.TokenError),
)
"""Errors of numpy for files that hold no arrays."""
_FREE = 1 << 26
"""Bytes to which any archive may unpack."""
_SWELLING = 50
"""Numbers of embeddings do not pack to so small a part."""


def load_embeddings(path: str | Path) -> Embeddings:
    """Read embeddings from a file.

    Raises:
        TodBiasError: it cannot be read as embeddings.
    """
    file = Path(path)
    check_file(file)
    return FORMATS[file.suffix.lower()](file)


def check_file(file: Path) -> None:
    """Raises EmbeddingsError for a file that is not there, or whose ending no form of embeddings has."""
    if not file.is_file():
        raise EmbeddingsError(f"{file}: no such file; expected embeddings ({', '.join(FORMATS)})")
    if file.suffix.lower() not in FORMATS:
        raise EmbeddingsError(f"{file}: unknown ending; expected one of {', '.join(FORMATS)}")


def _npz(file: Path) -> Embeddings:
    try:
        with np.load(file, allow_pickle=False) as archive:
            size = sum(entry.file_size for entry in archive.zip.infolist())
            if size > max(_FREE, _SWELLING * file.stat().st_size):
                raise ValueError(f"it unpacks to {size:,} bytes, more than {_SWELLING} times its own; it holds nothing")
            wanted = (*_MATRICES, *_MATRICES.values(), *_IMPLICIT, "factors")
            arrays = {name: archive[name] for name in archive.files if name in wanted}
            content = ", ".join(archive.files) or "nothing"
        notes = _as_implicit(arrays, file) if set(_IMPLICIT) <= arrays.keys() else ()
    except _NO_ARRAYS as error:
        raise EmbeddingsError(f"{file}: cannot be read as .npz: {shortened(str(error))}") from error
    known = [name for name in _MATRICES if name in arrays]
    if not known or ("vectors" in known and len(known) > 1):
        raise EmbeddingsError(f"{file}: holds {content}; expected a matrix 'vectors', or 'users' and 'items'")
    tables = {}
    for name in known:
        ids = arrays.get(_MATRICES[name], np.array([]))
        tables[name] = Entities(name, arrays[name], tuple(map(str, ids.tolist())), source=str(file))
    return Embeddings(tables, str(file), notes)


def _as_implicit(arrays: dict[str, np.ndarray], file: Path) -> tuple[str, ...]:
    """Put the matrices of a model of implicit under our names; a note on columns that are left out."""
    users, items = (arrays[name] for name in _IMPLICIT)
    factors = int(arrays["factors"]) if "factors" in arrays else users.shape[1]
    arrays |= {"users": users[:, :factors], "items": items[:, :factors]}
    extra = users.shape[1] - factors  # of BPR and logistic matrix factorisation
    return (f"{file}: left out {extra} column(s) that hold biases, not latent factors",) if extra else ()


def _parquet(file: Path) -> Embeddings:
    frame = read_frame(file)
    if missing := [name for name in ("id", "vector") if name not in frame]:
        raise EmbeddingsError(
            f"{file}: no column {missing[0]!r} among {', '.join(map(str, frame.columns))}; expected id, vector"
        )
    parts = {"vectors": frame}
    if "table" in frame:
        parts = {str(name): part for name, part in frame.groupby("table", sort=False)}
        if unknown := sorted(set(parts) - {"users", "items"}):
            raise EmbeddingsError(f"{file}: table {unknown[0]!r}: expected users or items")
    tables = {}
    for name, part in parts.items():
        try:
            matrix = np.array(part["vector"].tolist(), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise EmbeddingsError(f"{file}: {name}: expected a list of as many numbers in each 'vector'") from error
        attributes = part.drop(columns=["vector"]).reset_index(drop=True)
        tables[name] = Entities(name, matrix, tuple(map(str, part["id"])), attributes, str(file))
    return Embeddings(tables, str(file))


def _word2vec_text(file: Path) -> Embeddings:
    words: list[str] = []
    rows: list[np.ndarray] = []
    try:
        for number, line in text_lines(file, "utf-8"):
            word, *numbers = line.rstrip().split(" ")
            if number == 1 and len(numbers) == 1 and word.isdigit() and numbers[0].isdigit():
                continue
            if rows and len(numbers) != len(rows[0]):
                raise EmbeddingsError(
                    f"{file}, line {number}: {len(numbers)} numbers after the word; expected {len(rows[0])}"
                )
            try:
                rows.append(np.array(numbers, dtype=np.float64))
            except ValueError as error:
                raise EmbeddingsError(f"{file}, line {number}: expected a word and numbers: {error}") from error
            words.append(word)
    except (OSError, UnicodeDecodeError) as error:
        raise EmbeddingsError(f"{file}: cannot be read as word2vec text: {error}") from error
    if not rows:
        raise EmbeddingsError(f"{file}: no vectors; expected a word and its numbers a line")
    return Embeddings({"vectors": Entities("vectors", np.stack(rows), tuple(words), source=str(file))}, str(file))


def _torch(file: Path) -> Embeddings:
    from tod_bias.recommenders.embeddings.torch_file import read_state

    state = read_state(file)
    for nested in ("state_dict", "model_state_dict"):
        if isinstance(state, Mapping) and isinstance(state.get(nested), Mapping):
            state = state[nested]
    parts = state.items() if isinstance(state, Mapping) else ()
    matrices = {str(name): part for name, part in parts if getattr(part, "ndim", 0) == 2}
    tables = {}
    for name, kind in (("users", "user"), ("items", "item")):
        matrix = _of_kind(matrices, kind, file).detach().float().numpy()
        tables[name] = Entities(name, matrix, source=str(file))
    return Embeddings(tables, str(file))


def _of_kind(matrices: Mapping[str, Any], kind: str, file: Path) -> Any:
    """The matrix whose name holds a kind; an embedding table before the layers of a tower."""
    fitting = [name for name in matrices if kind in name.lower()]
    fitting = [name for name in fitting if len(fitting) > 1 and "emb" in name.lower()] or fitting
    if len(fitting) != 1:
        listed = ", ".join(f"{name} {tuple(part.shape)}" for name, part in matrices.items()) or "none"
        raise EmbeddingsError(
            f"{file}: {len(fitting)} tables for {kind}s among its matrices ({listed}); save the two as 'users' and "
            "'items' with numpy.savez"
        )
    return matrices[fitting[0]]


FORMATS: dict[str, Callable[[Path], Embeddings]] = {
    ".npz": _npz,
    ".parquet": _parquet,
    ".txt": _word2vec_text,
    ".vec": _word2vec_text,
    ".pt": _torch,
    ".pth": _torch,
    ".safetensors": _torch,
}
"""The ending of a file's name, and what reads it."""


def save_embeddings(embeddings: Embeddings, path: str | Path) -> None:
    """Write an ``.npz`` that :func:`load_embeddings` reads: float32 matrices and their ids."""
    arrays: dict[str, np.ndarray] = {}
    for name, table in embeddings.tables.items():
        arrays[name] = table.vectors.astype(np.float32)
        arrays[_MATRICES[name]] = np.array(table.ids)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part, part.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


def read_attributes(path: str | Path, table: Entities) -> Entities:
    """Return the table with the attributes of a CSV or Parquet file: a column of ids and a column per attribute.

    The ids are in a column ``id``, ``user``, ``user_id``, ``item`` or ``item_id``. Entities that the file does not
    name have no attribute; ids that the embeddings do not hold are an error.

    Raises:
        TodBiasError: the file cannot be read, has no column of ids, repeats an id or names an unknown one.
    """
    frame = read_frame(path)
    column = _id_column(frame, table)
    if column is None:
        raise EmbeddingsError(f"{path}: no column of ids among {', '.join(map(str, frame.columns))}; name it 'id'")
    ids = frame[column].map(str)
    for wrong, reason in (
        (~ids.isin(table.rows_by_id.keys()), f"is unknown: {table.source} has {', '.join(table.ids[:3])}, …"),
        (ids.duplicated(), "stands twice"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise EmbeddingsError(f"{path}, line {row + 2}: id {ids.iloc[row]!r} {reason}")
    return attach(table, frame)


def attach(table: Entities, frame: pd.DataFrame) -> Entities:
    """The table with the attributes of a frame, matched by id; entities that it does not name have none."""
    column = _id_column(frame, table)
    if column is None or not frame[column].map(str).isin(table.rows_by_id.keys()).any():
        return table
    ids = frame[column].map(str)
    ordered = frame.set_index(ids).reindex(list(table.ids)).reset_index(drop=True)
    if table.attributes is not None:
        ordered = table.attributes.drop(columns=[c for c in table.attributes if c in ordered]).join(ordered)
    return Entities(table.name, table.vectors, table.ids, ordered, table.source)


def _id_column(frame: pd.DataFrame, table: Entities) -> str | None:
    kind = table.name[:-1]
    names = ("id", f"{kind}_id", kind, "user_id", "item_id", "user", "item")
    return next((name for name in names if name in frame), None)
