"""From what a user gives to finished audits: Beattie's steps from scope to flag, for one training or two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from tod_bias.documents import read_yaml
from tod_bias.errors import EmbeddingsError, TodBiasError
from tod_bias.files import subfolder, write_json
from tod_bias.folder import writable
from tod_bias.recommenders.embeddings.audit import Associations, audit
from tod_bias.recommenders.embeddings.comparison import NAME, AuditedTraining, compare
from tod_bias.recommenders.embeddings.page import write_report
from tod_bias.recommenders.embeddings.readers import attach, load_embeddings, read_attributes
from tod_bias.recommenders.embeddings.request import SCOPE_KEYS, AssociationRequest
from tod_bias.recommenders.embeddings.sets import EntitySets, attribute_specs, load_sets, resolve_sets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.vectors import Embeddings

if TYPE_CHECKING:
    from tod_bias.recommenders.latent_factor.interactions import Interactions


@dataclass(frozen=True)
class Scope:
    """Everything that an audit needs, read and checked."""

    sets: EntitySets
    trainings: tuple[tuple[str, Embeddings], ...]
    """Name and embeddings; the sets lie in the first."""
    settings: AuditSettings = field(default_factory=AuditSettings)
    interactions: Interactions | None = None
    audience: np.ndarray | None = None
    """(items,)."""


def read_scope_file(path: str | Path) -> AssociationRequest:
    """Read a scope file (YAML): the options of :class:`AssociationRequest` by name, with the sets themselves.

    Paths are relative to the file.

    Raises:
        EmbeddingsError: it cannot be read or holds something else.
    """
    file = Path(path)
    try:
        content = read_yaml(file)
    except (OSError, UnicodeDecodeError) as error:
        raise EmbeddingsError(f"{file}: cannot be read ({error}); --scope takes a YAML file") from error
    except yaml.YAMLError as error:
        raise EmbeddingsError(f"{file}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or not (
        content.keys() <= set(SCOPE_KEYS) and {"embeddings", "sets"} <= set(content)
    ):
        raise EmbeddingsError(f"{file}: expected embeddings, sets and others of {', '.join(SCOPE_KEYS)}")
    given = {key: value for key, value in content.items() if value is not None}
    given |= {"specs": given.pop("sets", None), "source": str(file)}
    for key in ("embeddings", "compare"):
        if isinstance(given.get(key), str):
            given[key] = [given[key]]
    sizes = given.get("csvc")
    if isinstance(sizes, list) and all(type(size) is int for size in sizes):
        given["csvc"] = list(map(str, sizes))
    try:
        request = AssociationRequest.of(given)
    except TodBiasError as error:
        raise EmbeddingsError(f"{file}: {error}") from None
    return request.beside(file.parent)


def read_request(request: AssociationRequest, settings: AuditSettings) -> Scope:
    """Read and check everything that a request names.

    Raises:
        EmbeddingsError: a file or a set that cannot be used.
        InteractionsError: interactions that cannot be read.
    """
    embeddings = load_embeddings(request.embeddings, user_table=request.user_table, item_table=request.item_table)
    interactions = None
    if request.interactions is not None:
        from tod_bias.recommenders.latent_factor.interactions import load_interactions

        interactions = load_interactions(request.interactions, request.users, request.items)
        _check_overlap(embeddings, interactions, str(request.interactions))
    embeddings = _with_attributes(embeddings, request, interactions)
    sets, name = _sets(embeddings, request)
    embeddings = replace(embeddings, notes=(*embeddings.notes, *_others(embeddings, request)))
    pairs = _read_pairs(request.pairs, sets) if request.pairs is not None else None
    trainings = [("the embeddings", embeddings)]
    if request.compare:
        trainings.append(("compared", load_embeddings(request.compare)))
    names = list(request.names) or [_stem(part.source) for _, part in trainings]
    if len(names) != len(trainings):
        raise EmbeddingsError(f"{len(names)} names for {len(trainings)} training(s); give one a training")
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    return Scope(
        sets,
        tuple((label, part) for label, (_, part) in zip(names, trainings, strict=True)),
        settings.model_copy(
            update={"attribute": name, "pairs": pairs, "csvc": request.csvc and tuple(map(int, request.csvc))}
        ),
        interactions,
        _audience(sets, request.audience),
    )


def _check_overlap(embeddings: Embeddings, interactions: Interactions, where: str) -> None:
    for kind, ids in (("users", interactions.user_ids), ("items", interactions.item_ids)):
        if kind not in embeddings.tables:
            raise EmbeddingsError(f"{where}: interactions need embeddings of users and items; {kind} are missing")
        table = embeddings.tables[kind]
        if not any(name in table.rows_by_id for name in ids):
            raise EmbeddingsError(
                f"{where}: none of its {kind} ({', '.join(ids[:3])}, …) is in {embeddings.source} "
                f"({', '.join(table.ids[:3])}, …); both must use the same ids"
            )


def _stem(source: str) -> str:
    return Path(source.split(" and ")[0]).stem.replace("_", " ")


def _with_attributes(
    embeddings: Embeddings, request: AssociationRequest, interactions: Interactions | None
) -> Embeddings:
    tables = dict(embeddings.tables)
    for kind, path in (("users", request.users), ("items", request.items)):
        if path is not None:
            name = kind if kind in tables else next(iter(tables))
            if kind not in tables and len(tables) > 1:
                raise EmbeddingsError(f"{path}: {embeddings.source} holds no {kind}, only {', '.join(tables)}")
            tables[name] = read_attributes(path, tables[name])
        elif interactions is not None and kind in tables:
            tables[kind] = attach(tables[kind], interactions.users if kind == "users" else interactions.items)
    return Embeddings(tables, embeddings.source, embeddings.notes)


def _others(embeddings: Embeddings, request: AssociationRequest) -> Iterator[str]:
    """A note on entities whose attribute has a value that nobody named, a misspelt one among them."""
    column, _, values = (request.attribute or "").partition("=")
    if not values or request.sets is not None or request.specs is not None:
        return
    named = {value.strip() for value in values.split(",")}
    table = embeddings.table(None, "A", request.source)
    assert table.attributes is not None  # the sets were found in them
    cells = table.attributes[column].dropna().astype(str)
    if others := sorted(set(cells) - named):
        number = int((~cells.isin(named)).sum())
        shown = ", ".join(map(repr, others[:4])) + (", …" if len(others) > 4 else "")
        yield f"{number} of {len(cells)} {table.name} have another {column} ({shown}) and are in neither set"


def _sets(embeddings: Embeddings, request: AssociationRequest) -> tuple[EntitySets, str]:
    name = (request.attribute or "attribute").partition("=")[0]
    if request.specs is not None:
        return resolve_sets(request.specs, embeddings, request.source), name
    if request.sets is not None:
        return load_sets(request.sets, embeddings), name
    if request.attribute is None:
        raise EmbeddingsError(
            "which groups define the attribute? give --sets FILE.json, or --users FILE.csv --attribute COLUMN"
        )
    specs = attribute_specs(embeddings.table(None, "A", request.source), request.attribute, ("A", "B"))
    if request.test is not None:
        specs |= attribute_specs(embeddings.table(None, "E", request.source), request.test, ("E", "P"))
    return resolve_sets(specs, embeddings, request.source), name


def _read_pairs(path: str | Path, sets: EntitySets) -> np.ndarray:
    from tod_bias.recommenders.latent_factor.interactions import read_frame

    frame = read_frame(path)
    if frame.shape[1] != 2 or frame.empty:
        raise EmbeddingsError(f"{path}: expected two columns, an id of A and an id of B, got {frame.shape[1]} columns")
    columns = []
    for part, column in zip((sets.a, sets.b), frame, strict=True):
        places = {name: number for number, name in enumerate(part.ids)}
        unknown = [line for line, name in enumerate(frame[column].map(str), 2) if name not in places]
        if unknown:
            got = frame[column].iloc[unknown[0] - 2]
            raise EmbeddingsError(f"{path}, line {unknown[0]}: unknown id {got!r}: not in set {part.role}")
        columns.append([places[str(name)] for name in frame[column]])
    return np.array(columns).T


def _audience(sets: EntitySets, column: str | None) -> np.ndarray | None:
    if column is None:
        return None
    import pandas as pd

    table = sets.e.entities
    if table.attributes is None or column not in table.attributes:
        raise EmbeddingsError(
            f"{table.name} have no attribute {column!r} for --audience; give it with --items FILE.csv"
        )
    shares = pd.to_numeric(table.attributes[column], errors="coerce").to_numpy(dtype=float)
    texts = table.attributes[column][np.isnan(shares)].dropna()
    if len(texts):
        raise EmbeddingsError(
            f"attribute {column!r} of {table.name} holds {str(texts.iloc[0])!r}: expected shares of A between 0 and 1"
        )
    if np.nanmin(shares, initial=0.0) < 0 or np.nanmax(shares, initial=0.0) > 1:
        raise EmbeddingsError(f"attribute {column!r} of {table.name}: expected shares of A between 0 and 1")
    return shares


@dataclass(frozen=True)
class AssociationStudy:
    """The audits of one training or two, with their comparison."""

    runs: tuple[tuple[str, Associations], ...]
    comparison: dict[str, Any] | None


def run_scope(scope: Scope, out: str | Path, *, show_progress: bool = False) -> AssociationStudy:
    """Audit every training, compare two, and write results, tables, figures and report.

    The first training's results lie in ``out`` itself, the second one's in ``out/compared``.
    """
    place = Path(out)
    runs: list[tuple[str, Associations]] = []
    moved = [scope.sets, *(scope.sets.on(embeddings) for _, embeddings in scope.trainings[1:])]
    for (name, embeddings), sets in zip(scope.trainings, moved, strict=True):
        result = audit(
            embeddings,
            sets,
            scope.settings,
            interactions=scope.interactions,
            audience=scope.audience if scope.audience is None or not runs else _moved(scope, embeddings),
            picture_of=runs[0][1].picture if runs else None,
            show_progress=show_progress,
        )
        result["name"] = name
        runs.append((name, result))
    comparison = None
    if len(runs) == 2:
        comparison = compare(
            *(AuditedTraining(run, run.entities, name) for name, run in runs),
            permutations=scope.settings.permutations,
            resamples=scope.settings.bootstrap,
            seed=scope.settings.seed,
            names=(runs[0][0], runs[1][0]),
        )
        runs[1][1].save(subfolder(place, "compared"))
        save_comparison(comparison, place)
    write_report(runs, place, comparison)
    runs[0][1].save(place)
    return AssociationStudy(tuple(runs), comparison)


def _moved(scope: Scope, embeddings: Embeddings) -> np.ndarray | None:
    table = scope.sets.e.entities
    other = embeddings.tables[table.name]
    assert scope.audience is not None
    known = dict(zip(table.ids, scope.audience.tolist(), strict=True))
    return np.array([known.get(name, np.nan) for name in other.ids])


def save_comparison(comparison: Mapping[str, Any], folder: str | Path) -> Path:
    """Write ``comparison.json``."""
    place = writable(folder)
    write_json(place / NAME, comparison)
    return place / NAME


def demo_scope(settings: AuditSettings, *, strength: float | None = None, show_progress: bool = False) -> Scope:
    """The case study on synthetic interactions: gender, crime against sport, trained with and without gender.

    Raises:
        InteractionsError: a strength that cannot be used.
    """
    from tod_bias.recommenders.latent_factor.settings import TwoTowerConfig
    from tod_bias.recommenders.latent_factor.synthetic import STRENGTH, synthetic_interactions
    from tod_bias.recommenders.latent_factor.two_tower import train_two_tower

    interactions = synthetic_interactions(strength=STRENGTH if strength is None else strength, seed=settings.seed)
    trained = {
        name: train_two_tower(
            interactions, TwoTowerConfig(attribute=attribute, seed=settings.seed), show_progress=show_progress
        ).embeddings
        for name, attribute in (("with gender", "gender"), ("without gender", None))
    }
    specs = {
        "A": {"in": "users", "where": {"gender": "female"}},
        "B": {"in": "users", "where": {"gender": "male"}},
        "E": {"in": "items", "where": {"genre": "crime"}},
        "P": {"in": "items", "where": {"genre": "sport"}},
    }
    sets = resolve_sets(specs, trained["with gender"], "the case study")
    return Scope(sets, tuple(trained.items()), settings.model_copy(update={"attribute": "gender"}), interactions)
