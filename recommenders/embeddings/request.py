"""What a user asks of an audit of embeddings, not yet read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator

from tod_bias.config import Names, Options


def _sizes(texts: tuple[str, ...]) -> tuple[str, ...]:
    if not texts or not all(text.isdecimal() and int(text) > 0 for text in texts):
        raise ValueError("must be numbers of entities by commas, e.g. 200,2500")
    return texts


class AssociationRequest(Options):
    """Embeddings, and which sets of their entities are compared."""

    title: ClassVar[str] = "Embeddings"
    not_options: ClassVar[frozenset[str]] = frozenset({"specs", "source"})

    embeddings: tuple[Path, ...] = ()
    """.npz, .parquet, word2vec (.txt, .bin), implicit's .npz, torch state; twice: users, items."""
    sets: Path | None = None
    """JSON file with A, B, E, P: lists of rows or ids."""
    users: Path | None = None
    """CSV or Parquet: id and attributes of users."""
    items: Path | None = None
    """CSV or Parquet: id and attributes of items."""
    attribute: str | None = None
    """Users' attribute: COLUMN or COLUMN=A,B."""
    test: str | None = None
    """Items to test: COLUMN=E,P; by default all items."""
    interactions: Path | None = None
    """File or folder (MovieLens, Last.FM): audiences and histories."""
    audience: str | None = None
    """Items' attribute with the share of A in their audience."""
    compare: tuple[Path, ...] = ()
    """Embeddings of another training of the same entities."""
    names: Names = ()
    """Names of the two trainings, by a comma."""
    pairs: Path | None = None
    """CSV of pairs (id of A, id of B) for the PCA direction."""
    csvc: Annotated[Names, AfterValidator(_sizes)] | None = None
    """Most biased entities per side, e.g. 200,2500."""
    user_table: str | None = None
    """Torch state: name of the users' table."""
    item_table: str | None = None
    """Torch state: name of the items' table."""
    specs: Any = None
    """In the place of a file of sets: its content."""
    source: str = "the options"
    """Where all this was said, for messages."""

    def beside(self, folder: Path) -> Self:
        """The same with its paths relative to a folder."""
        paths: dict[str, Any] = {name: tuple(folder / path for path in getattr(self, name)) for name in _SEVERAL}
        paths |= {name: getattr(self, name) and folder / getattr(self, name) for name in _FILES}
        return self.model_copy(update=paths)


_SEVERAL, _FILES = ("embeddings", "compare"), ("users", "items", "interactions", "pairs")
"""Options that name files."""
SCOPE_KEYS = (*_SEVERAL, *_FILES, "sets", "attribute", "names", "audience", "csvc")
"""What a scope file may hold."""
