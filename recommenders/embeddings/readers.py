"""Embeddings from files and from models of other libraries.

================  ======================================================================================
``.npz``          matrices ``users`` and ``items``, or ``vectors``; ids in ``user_ids``, ``item_ids``, ``ids``;
                  or a saved model of the library implicit (``user_factors``, ``item_factors``)
``.npy``          one matrix
``.parquet``      columns ``id``, ``vector`` (a list), attributes; a column ``table`` says users or items
``.txt .vec``     word2vec's text format, words as ids, with or without its first line
``.bin``          word2vec's binary format
``.pt .pth``      a torch state with two embedding tables (also ``.safetensors``)
================  ======================================================================================

Nothing in a file is run. gensim's own ``.kv`` is a pickle, which can run anything, and is refused; of ``.pt`` and
``.pth`` torch's loader of weights makes tensors and plain containers only (``weights_only``), and refuses all else.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.documents import check_columns, check_plain
from tod_bias.errors import EmbeddingsError, shortened
from tod_bias.files import replacing
from tod_bias.models.model_folder import DAMAGED
from tod_bias.recommenders.embeddings.vectors import Embeddings, Entities
from tod_bias.recommenders.embeddings.word2vec import read_binary

if TYPE_CHECKING:
    import pandas as pd

_MATRICES = {"users": "user_ids", "items": "item_ids", "vectors": "ids"}
_IMPLICIT = {"user_factors": "users", "item_factors": "items"}
_NO_ARRAYS = (
    *(OSError, ValueError, TypeError, LookupError, NotImplementedError, MemoryError, EOFError),
    *(zipfile.BadZipFile, zlib.error, SyntaxError, tokenize.TokenError),
)
"""What numpy raises for what is no file of arrays."""
_TABLE_COLUMN, _ID_COLUMN, _VECTOR_COLUMN = "table", "id", "vector"


def load_embeddings(
    path: str | Path | Sequence[str | Path], *, user_table: str | None = None, item_table: str | None = None
) -> Embeddings:
    """Read embeddings from one file, or the users' from a first and the items' from a second one.

    Args:
        path: the file, or two files.
        user_table: name of the users' table in a torch state, where its name does not hold "user".
        item_table: likewise "item".

    Raises:
        EmbeddingsError: a file that cannot be read as embeddings.
    """
    if not isinstance(path, str | Path):
        if len(path) > 1:
            _check_tables(path, user_table, item_table)
        return _both([Path(part) for part in path], user_table, item_table)
    file = Path(path)
    check_file(file)
    reader = _READERS[file.suffix.lower()]
    if reader is _torch:
        return from_torch_state(_torch(file), str(file), user_table, item_table)
    _check_tables(file, user_table, item_table)
    return reader(file)


def _check_tables(path: object, *tables: str | None) -> None:
    if named := [name for name in tables if name is not None]:
        raise EmbeddingsError(
            f"{path}: no torch state of both, so it has no table {named[0]!r} to choose; leave it out"
        )


def check_file(file: Path) -> None:
    """Raises EmbeddingsError for a file that is not there, or whose ending no form of embeddings has."""
    if not file.is_file():
        raise EmbeddingsError(f"{file}: no such file; expected embeddings ({', '.join(_READERS)})")
    if file.suffix.lower() not in _READERS:
        raise EmbeddingsError(f"{file}: unknown ending; expected one of {', '.join(_READERS)}")


def _both(files: Sequence[Path], user_table: str | None, item_table: str | None) -> Embeddings:
    if len(files) == 1:
        return load_embeddings(files[0], user_table=user_table, item_table=item_table)
    if len(files) != 2:
        raise EmbeddingsError(f"{len(files)} files of embeddings: expected one, or the users' and the items'")
    tables: dict[str, Entities] = {}
    notes: list[str] = []
    for name, file in zip(("users", "items"), files, strict=True):
        result = load_embeddings(file)
        if len(result.tables) != 1:
            raise EmbeddingsError(f"{file}: holds {', '.join(result.tables)}; of two files each holds one table")
        (only,) = result.tables.values()
        tables[name] = Entities(name, only.vectors, only.ids, only.attributes, only.source)
        notes += result.notes
    return Embeddings(tables, " and ".join(map(str, files)), tuple(notes))


_FREE = 1 << 26
"""Bytes to which any archive may unpack."""
_SWELLING = 50
"""Numbers of embeddings do not pack to so small a part."""


def _npz(file: Path) -> Embeddings:
    try:
        with np.load(file, allow_pickle=False) as archive:
            size = sum(entry.file_size for entry in archive.zip.infolist())
            if size > max(_FREE, _SWELLING * file.stat().st_size):
                raise ValueError(f"it unpacks to {size:,} bytes, more than {_SWELLING} times its own; it holds nothing")
            keys = list(archive.files)
            if set(_IMPLICIT) <= set(keys):
                factors = int(archive["factors"]) if "factors" in keys else None
                return _implicit(archive["user_factors"], archive["item_factors"], factors, str(file))
            known = [name for name in _MATRICES if name in keys]
            if not known or ("vectors" in known and len(known) > 1):
                raise EmbeddingsError(
                    f"{file}: holds {', '.join(keys) or 'nothing'}; expected a matrix 'vectors', or 'users' and 'items'"
                )
            tables = {
                name: Entities(name, archive[name], _ids(archive, _MATRICES[name]), source=str(file)) for name in known
            }
    except _NO_ARRAYS as error:
        if isinstance(error, EmbeddingsError):
            raise
        raise EmbeddingsError(f"{file}: cannot be read as .npz: {shortened(str(error))}") from error
    return Embeddings(tables, str(file))


def _ids(archive: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(str(name) for name in archive[key].tolist()) if key in archive else ()


def _npy(file: Path) -> Embeddings:
    try:
        matrix = np.load(file, allow_pickle=False)
    except _NO_ARRAYS as error:
        raise EmbeddingsError(f"{file}: cannot be read as .npy: {shortened(str(error))}") from error
    return Embeddings({"vectors": Entities("vectors", matrix, source=str(file))}, str(file))


def _parquet(file: Path) -> Embeddings:
    import pandas as pd

    try:
        frame = pd.read_parquet(file, engine="pyarrow")
    except (OSError, ValueError) as error:
        raise EmbeddingsError(f"{file}: cannot be read as Parquet: {shortened(str(error))}") from error
    return from_frame(frame, str(file))


def from_frame(frame: pd.DataFrame, source: str = "the frame") -> Embeddings:
    """Embeddings from a frame with columns ``id``, ``vector``, attributes, and ``table`` where there are two tables."""
    missing = [name for name in (_ID_COLUMN, _VECTOR_COLUMN) if name not in frame]
    if missing:
        raise EmbeddingsError(
            f"{source}: no column {missing[0]!r} among {', '.join(map(str, frame.columns))}; expected id, vector"
        )
    if _TABLE_COLUMN in frame:
        parts = {str(name): part for name, part in frame.groupby(_TABLE_COLUMN, sort=False)}
        unknown = sorted(set(parts) - set(_MATRICES))
        if unknown:
            raise EmbeddingsError(f"{source}: table {unknown[0]!r}: expected users or items")
    else:
        parts = {"vectors": frame}
    tables = {}
    for name, part in parts.items():
        try:
            lengths = part[_VECTOR_COLUMN].map(len)
            np.array(part[_VECTOR_COLUMN].iloc[:1].tolist(), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise EmbeddingsError(f"{source}: {name}: expected a list of numbers in {_VECTOR_COLUMN!r}") from error
        odd = part.loc[lengths.ne(lengths.iloc[:1].squeeze()), _ID_COLUMN].tolist()
        if odd:
            raise EmbeddingsError(f"{source}: {name}: dimensions differ: id {odd[0]!r} against the first")
        matrix = np.array(part[_VECTOR_COLUMN].tolist(), dtype=np.float64)
        attributes = part.drop(columns=[_VECTOR_COLUMN]).reset_index(drop=True)
        tables[name] = Entities(name, matrix, tuple(map(str, part[_ID_COLUMN])), attributes, source)
    return Embeddings(tables, source)


def _word2vec_text(file: Path) -> Embeddings:
    words: list[str] = []
    rows: list[np.ndarray] = []
    dimensions: int | None = None
    try:
        with file.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                parts = line.rstrip("\n").rstrip(" ").split(" ")
                if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                    dimensions = int(parts[1])
                    continue
                if parts == [""]:
                    continue
                dimensions = dimensions if dimensions is not None else len(parts) - 1
                if len(parts) - 1 != dimensions:
                    raise EmbeddingsError(
                        f"{file}, line {number}: {len(parts) - 1} numbers after the word; expected {dimensions}"
                    )
                try:
                    rows.append(np.array(parts[1:], dtype=np.float64))
                except ValueError as error:
                    raise EmbeddingsError(f"{file}, line {number}: expected a word and numbers: {error}") from error
                words.append(parts[0])
    except (OSError, UnicodeDecodeError) as error:
        raise EmbeddingsError(f"{file}: cannot be read as word2vec text: {error}") from error
    if not rows:
        raise EmbeddingsError(f"{file}: no vectors; expected a word and its numbers a line")
    return Embeddings({"vectors": Entities("vectors", np.stack(rows), tuple(words), source=str(file))}, str(file))


def _keyed_vectors(file: Path) -> Embeddings:
    raise EmbeddingsError(
        f"{file}: gensim's own format is a pickle, which can run code and is not opened; load it with gensim and write "
        'KeyedVectors.save_word2vec_format("vectors.txt", binary=False), or an .npz of vectors and ids'
    )


def _word2vec_binary(file: Path) -> Embeddings:
    words, vectors = read_binary(file)
    return Embeddings({"vectors": Entities("vectors", vectors, words, source=str(file))}, str(file))


def from_keyed_vectors(vectors: Any, source: str = "the KeyedVectors") -> Embeddings:
    """Embeddings from gensim's ``KeyedVectors``; keys become ids."""
    return Embeddings({"vectors": Entities("vectors", vectors.vectors, tuple(vectors.index_to_key), source=source)})


def from_implicit(model: Any, source: str = "the model") -> Embeddings:
    """Embeddings from a fitted model of the library implicit; row numbers are its user and item numbers.

    BPR and logistic matrix factorisation keep an item's bias in a last column that stands beside 1 in every user: that
    column is no part of the latent space and is left out, with a note.

    Raises:
        EmbeddingsError: the model is not fitted.
    """
    factors: list[Any] = [getattr(model, name, None) for name in _IMPLICIT]
    if any(part is None for part in factors):
        raise EmbeddingsError(f"{source}: no user_factors and item_factors; fit the model first")
    users, items = (np.asarray(part.to_numpy() if hasattr(part, "to_numpy") else part) for part in factors)
    return _implicit(users, items, getattr(model, "factors", None), source)


def _implicit(users: np.ndarray, items: np.ndarray, factors: int | None, source: str) -> Embeddings:
    notes: tuple[str, ...] = ()
    if factors is not None and users.ndim == 2 and users.shape[1] > factors:
        extra = users.shape[1] - factors
        users, items = users[:, :factors], items[:, :factors]
        notes = (f"{source}: left out {extra} column(s) that hold biases, not latent factors",)
    tables = {"users": Entities("users", users, source=source), "items": Entities("items", items, source=source)}
    return Embeddings(tables, source, notes)


def _torch(file: Path) -> Mapping[str, Any]:
    try:
        if file.suffix.lower() == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)  # type: ignore[no-any-return]
        import torch

        return torch.load(file, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]
    except DAMAGED as error:
        raise EmbeddingsError(
            f"{file}: cannot be read as a torch state of tensors ({type(error).__name__}); save model.state_dict()"
        ) from error


def from_torch_state(
    state: Mapping[str, Any],
    source: str = "the state",
    user_table: str | None = None,
    item_table: str | None = None,
) -> Embeddings:
    """Embeddings from a torch state: the two matrices whose names hold ``user`` and ``item``, or the named ones.

    Raises:
        EmbeddingsError: not exactly one such matrix for users and for items.
    """
    for nested in ("state_dict", "model_state_dict"):
        if isinstance(state, Mapping) and isinstance(state.get(nested), Mapping):
            state = state[nested]
    if not isinstance(state, Mapping):
        raise EmbeddingsError(f"{source}: expected a state (name to tensor), got {type(state).__name__}")
    matrices = {str(name): part for name, part in state.items() if getattr(part, "ndim", 0) == 2}
    listed = ", ".join(f"{name} {tuple(part.shape)}" for name, part in matrices.items()) or "none"
    tables = {}
    for kind, wanted in (("user", user_table), ("item", item_table)):
        fitting = _fitting(matrices, kind, wanted)
        if len(fitting) != 1:
            count = "more than one" if fitting else "no"
            raise EmbeddingsError(
                f"{source}: {count} table for {kind}s among its matrices ({listed}); name it with --{kind}-table"
            )
        matrix = matrices[fitting[0]].detach().float().numpy()
        tables[f"{kind}s"] = Entities(f"{kind}s", matrix, source=source)
    return Embeddings(tables, source)


def _fitting(names: Iterable[str], kind: str, wanted: str | None) -> list[str]:
    """The matrix that was named, or those whose names hold a kind; embedding tables before layers of a tower."""
    if wanted:
        return [name for name in names if name == wanted]
    fitting = [name for name in names if kind in name.lower()]
    return [name for name in fitting if len(fitting) > 1 and "emb" in name.lower()] or fitting


_READERS: dict[str, Any] = {
    ".npz": _npz,
    ".npy": _npy,
    ".parquet": _parquet,
    ".txt": _word2vec_text,
    ".vec": _word2vec_text,
    ".kv": _keyed_vectors,
    ".bin": _word2vec_binary,
    ".pt": _torch,
    ".pth": _torch,
    ".safetensors": _torch,
}


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
    """The table with the attributes of a CSV or Parquet file: a column of ids and a column an attribute.

    The ids stand in a column ``id``, ``user``, ``user_id``, ``item`` or ``item_id``. Entities that the file does not
    name have no attribute; ids that the embeddings do not hold are an error.

    Raises:
        EmbeddingsError: the file cannot be read, has no column of ids, repeats an id or names an unknown one.
    """
    import pandas as pd

    file = Path(path)
    try:
        if file.suffix == ".parquet":
            check_plain(file)
            frame = pd.read_parquet(file, engine="pyarrow")
        else:
            check_columns(file, ",")
            frame = pd.read_csv(file, dtype=str)
    except (OSError, ValueError, UnicodeDecodeError) as error:  # pandas' own parsing errors are ValueErrors
        raise EmbeddingsError(
            f"{file}: cannot be read as a table of attributes: {' '.join(str(error).split())}"
        ) from error
    column = _id_column(frame, table)
    if column is None:
        raise EmbeddingsError(
            f"{file}: no column of ids among {', '.join(map(str, frame.columns))}; "
            f"name it 'id' or '{table.name[:-1]}_id'"
        )
    ids = frame[column].map(str)
    unknown = ids[~ids.isin(table.rows_by_id.keys())]
    if len(unknown):
        raise EmbeddingsError(
            f"{file}, line {unknown.index[0] + 2}: unknown id {unknown.iloc[0]!r}: no such entity in {table.name} "
            f"of {table.source} (ids there: {', '.join(table.ids[:3])}, …)"
        )
    if ids.duplicated().any():
        row = int(np.flatnonzero(ids.duplicated())[0])
        raise EmbeddingsError(f"{file}, line {row + 2}: id {ids.iloc[row]!r} stands twice")
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
