"""Read what a request names, audit it, and write the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.errors import EmbeddingsError
from tod_bias.io.files import check_plain_file, subfolder, write_json
from tod_bias.io.folder import writable
from tod_bias.recommenders.embeddings import figures, tables
from tod_bias.recommenders.embeddings.audit import Associations, audit
from tod_bias.recommenders.embeddings.comparison import NAME
from tod_bias.recommenders.embeddings.interactions import load_interactions
from tod_bias.recommenders.embeddings.readers import attach, load_embeddings, read_attributes
from tod_bias.recommenders.embeddings.reading import LIMITS, remarks, statements
from tod_bias.recommenders.embeddings.sets import (
    REST,
    EntitySets,
    attribute_cells,
    attribute_specs,
    load_sets,
    resolve_sets,
)
from tod_bias.recommenders.embeddings.settings import AssociationRequest, AuditSettings
from tod_bias.recommenders.embeddings.vectors import Embeddings
from tod_bias.recommenders.files import read_frame
from tod_bias.report.canvas import draw
from tod_bias.report.rendering import FIGURES, REPORT, write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tod_bias.recommenders.embeddings.interactions import Interactions

_TEMPLATE = Path(__file__).parent / "templates" / "association.html.j2"


def audit_request(request: AssociationRequest, settings: AuditSettings, *, show_progress: bool = False) -> Associations:
    """Read and check everything that a request names, and audit it.

    Raises:
        TodBiasError: a file or a set that cannot be used.
    """
    assert request.embeddings is not None
    embeddings = load_embeddings(request.embeddings)
    interactions = None
    if request.interactions is not None:
        interactions = load_interactions(request.interactions, request.users, request.items)
        for kind, ids in (("users", interactions.user_ids), ("items", interactions.item_ids)):
            table = embeddings.table(kind, "", str(request.interactions))
            if table.rows_by_id.keys().isdisjoint(ids):
                raise EmbeddingsError(
                    f"{request.interactions}: none of its {kind} ({', '.join(ids[:3])}, …) is in {embeddings.source} "
                    f"({', '.join(table.ids[:3])}, …); both must use the same ids"
                )
    embeddings = _with_attributes(embeddings, request, interactions)
    sets = _sets(embeddings, request)
    notes = (*embeddings.notes, *_not_in_file(embeddings, request), *_unnamed(embeddings, request))
    embeddings = replace(embeddings, notes=notes)
    return audit(
        embeddings,
        sets,
        settings,
        name=request.embeddings.stem.replace("_", " "),
        attribute=(request.attribute or "attribute").partition("=")[0],
        interactions=interactions,
        pairs=_read_pairs(request.pairs, sets) if request.pairs is not None else None,
        show_progress=show_progress,
    )


def _with_attributes(
    embeddings: Embeddings, request: AssociationRequest, interactions: Interactions | None
) -> Embeddings:
    tables = dict(embeddings.tables)
    for kind, path in (("users", request.users), ("items", request.items)):
        if path is not None:
            name = kind if len(tables) > 1 else next(iter(tables))
            tables[name] = read_attributes(path, embeddings.table(name, "", str(path)))
        elif interactions is not None:
            tables[kind] = attach(tables[kind], interactions.users if kind == "users" else interactions.items)
    return Embeddings(tables, embeddings.source, embeddings.notes)


def _sets(embeddings: Embeddings, request: AssociationRequest) -> EntitySets:
    drop = request.overlap == "drop"
    if request.sets is not None:
        return load_sets(request.sets, embeddings, request.cluster_items, drop_shared=drop)
    if request.attribute is None:
        raise EmbeddingsError(
            "which groups define the attribute? give --sets FILE.json, or --users FILE.csv --attribute COLUMN"
        )
    specs = attribute_specs(embeddings.table(None, "A", "--attribute"), request.attribute, ("A", "B"))
    if request.test is not None:
        specs |= attribute_specs(embeddings.table(None, "E", "--test"), request.test, ("E", "P"))
    return resolve_sets(specs, embeddings, "the options", request.cluster_items, drop_shared=drop)


def _not_in_file(embeddings: Embeddings, request: AssociationRequest) -> Iterator[str]:
    """Yield a note on entities of the embeddings without a row in the file of their attributes."""
    for kind, path in (("users", request.users), ("items", request.items)):
        if path is None:
            continue
        table = embeddings.table(kind if len(embeddings.tables) > 1 else None, "", str(path))
        if table.attributes is not None and (number := int(table.attributes.isna().all(axis=1).sum())):
            yield f"{number:,} of {len(table.ids):,} {table.name} are not in {path.name} and have no attribute"


def _unnamed(embeddings: Embeddings, request: AssociationRequest) -> Iterator[str]:
    """Yield a note on entities whose attribute has a value that is in no set, such as a misspelt one."""
    column, _, values = (request.attribute or "").partition("=")
    if not values or request.sets is not None or values.split(",")[1:] == [REST]:
        return
    named = {value.strip() for value in values.split(",")}
    table = embeddings.table(None, "A", "--attribute")
    cells = attribute_cells(table, column, "--attribute").dropna().astype(str)
    if others := sorted(set(cells) - named):
        number = int((~cells.isin(named)).sum())
        shown = ", ".join(map(repr, others[:4])) + (", …" if len(others) > 4 else "")
        yield f"{number} of {len(cells)} {table.name} have another {column} ({shown}) and are in neither set"


def _read_pairs(path: Path, sets: EntitySets) -> np.ndarray:
    frame = read_frame(path)
    if frame.shape[1] != 2 or frame.empty:
        raise EmbeddingsError(f"{path}: expected two columns, an id of A and an id of B, got {frame.shape[1]} columns")
    columns = []
    for part, column in zip((sets.a, sets.b), frame, strict=True):
        rows = frame[column].map(str).map({name: number for number, name in enumerate(part.ids)})
        if rows.isna().any():
            line = int(np.argmax(rows.isna()))
            got = frame[column].iloc[line]
            raise EmbeddingsError(f"{path}, line {line + 2}: unknown id {got!r}: not in set {part.role}")
        columns.append(rows.astype(int))
    return np.stack(columns, axis=1)


def write_audit(result: Associations, folder: str | Path, comparison: Mapping[str, Any] | None = None) -> None:
    """Write an audit's files, with ``report.html``, ``figures/*.svg`` and ``tables/*.csv``.

    Args:
        result: the audit.
        folder: where to.
        comparison: with another training, which the report shows too.
    """
    place, run = writable(folder), result.record
    sheets = tables.sheets(run)
    if comparison is not None:
        sheets = [tables.changes(comparison), *sheets, tables.label_changes(comparison)]
        write_json(place / NAME, comparison)
    check_plain_file(place / REPORT)
    for name in (FIGURES, "tables"):
        subfolder(place, name)
    drawn = [
        (title, draw(figure, place / FIGURES / f"{name}.svg", title))
        for name, title, figure in _figures(result, comparison)
    ]
    flags = tables.flags(run)
    for sheet in (*sheets, flags):
        sheet.save(place / "tables")
    write_page(
        place / REPORT,
        _TEMPLATE,
        run=run,
        drawn=drawn,
        sheets=sheets,
        flags=flags,
        cards=statements(run),
        remarks=remarks(run),
        changed=comparison["reading"] if comparison is not None else [],
        limits=LIMITS,
    )
    result.save(place)


def _figures(result: Associations, comparison: Mapping[str, Any] | None) -> Iterator[tuple[str, str, Figure]]:
    """File name without ending, title and figure."""
    run = result.record
    if result.picture is not None:
        title = "Latent space (Beattie Figs. 1 and 2)"
        yield "latent_space", title, figures.latent_space(result.picture, run["sets"])
    yield "eaa", "EAA of the test sets; thick lines are means", figures.association(result.entities, run["sets"])
    yield "r_ripa", "R-RIPA by bias direction (Beattie Table 3)", figures.r_ripa(run)
    if any("audience_deciles" in entry for entry in run["classification"].values()):
        yield "deciles", "Labels of items by audience (Beattie Table 4)", figures.deciles(run)
    if comparison is not None:
        yield "changes", "Change of every metric", figures.changes(comparison)
