"""Every way in: the same vectors come out."""

import numpy as np
import pandas as pd
import pytest
import torch
from gensim.models import KeyedVectors
from implicit.cpu.als import AlternatingLeastSquares
from implicit.cpu.bpr import BayesianPersonalizedRanking
from safetensors.torch import save_file
from scipy import sparse

from tod_bias.errors import TodBiasError
from tod_bias.recommenders.embeddings.readers import load_embeddings, read_attributes, save_embeddings
from tod_bias.recommenders.embeddings.sets import attribute_specs, load_sets, resolve_sets
from tod_bias.recommenders.embeddings.vectors import Embeddings, Entities

RNG = np.random.default_rng(0)
USERS, ITEMS = RNG.normal(size=(12, 4)).astype(np.float32), RNG.normal(size=(7, 4)).astype(np.float32)
WORDS = [f"word{number}" for number in range(12)]


@pytest.fixture
def two_tables(tmp_path):
    np.savez(tmp_path / "model.npz", users=USERS, items=ITEMS)
    return load_embeddings(tmp_path / "model.npz")


def test_npz_with_ids_and_back(tmp_path):
    tables = {"vectors": Entities("vectors", USERS, tuple(WORDS))}
    save_embeddings(Embeddings(tables), tmp_path / "saved.npz")
    again = load_embeddings(tmp_path / "saved.npz").tables["vectors"]
    assert again.ids == tuple(WORDS)
    assert again.vectors == pytest.approx(USERS)


def test_parquet_with_attributes(tmp_path):
    frame = pd.DataFrame({"id": WORDS, "vector": list(USERS), "gender": ["f", "m"] * 6})
    frame.to_parquet(tmp_path / "one.parquet")
    result = load_embeddings(tmp_path / "one.parquet").tables["vectors"]
    assert (result.ids, result.attributes["gender"].tolist()) == (tuple(WORDS), ["f", "m"] * 6)
    frame["table"] = ["users"] * 8 + ["items"] * 4
    frame.to_parquet(tmp_path / "two.parquet")
    tables = load_embeddings(tmp_path / "two.parquet").tables
    assert {name: len(part) for name, part in tables.items()} == {"users": 8, "items": 4}


@pytest.mark.parametrize("header", [True, False])
def test_word2vec_text(tmp_path, header):
    vectors = KeyedVectors(4)
    vectors.add_vectors(WORDS, USERS)
    vectors.save_word2vec_format(str(tmp_path / "v.txt"), write_header=header)
    result = load_embeddings(tmp_path / "v.txt").tables["vectors"]
    assert result.ids == tuple(WORDS)
    assert result.vectors == pytest.approx(USERS, abs=1e-6)


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning")
@pytest.mark.parametrize("kind", [AlternatingLeastSquares, BayesianPersonalizedRanking])
def test_files_of_implicit_models(tmp_path, kind):
    model = kind(factors=5, iterations=2, random_state=0, num_threads=1)
    seen = sparse.random(20, 15, 0.3, format="csr", random_state=0, dtype=np.float32)
    model.fit(seen, show_progress=False)
    model.save(str(tmp_path / "m.npz"))
    result = load_embeddings(tmp_path / "m.npz")
    assert result.tables["users"].vectors == pytest.approx(model.user_factors[:, :5])
    assert result.tables["items"].vectors == pytest.approx(model.item_factors[:, :5])
    assert bool(result.notes) == (kind is BayesianPersonalizedRanking)  # its bias column is no latent factor


def test_torch_states(tmp_path):
    state = {"user_emb.weight": torch.tensor(USERS), "item_emb.weight": torch.tensor(ITEMS)}
    state |= {"user_tower.0.weight": torch.zeros(8, 4), "bias": torch.zeros(3)}
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "m.pt")
    save_file(state, tmp_path / "m.safetensors")
    for result in (load_embeddings(tmp_path / "m.pt"), load_embeddings(tmp_path / "m.safetensors")):
        assert result.tables["users"].vectors == pytest.approx(USERS)
        assert result.tables["items"].vectors == pytest.approx(ITEMS)
    torch.save({"a": torch.tensor(USERS), "b": torch.tensor(ITEMS)}, tmp_path / "odd.pt")
    with pytest.raises(TodBiasError, match=r"0 tables for users .*a \(12, 4\), b \(7, 4\)"):
        load_embeddings(tmp_path / "odd.pt")


def test_attributes_are_matched_by_id(tmp_path, two_tables):
    (tmp_path / "users.csv").write_text("user_id,gender\n3,f\n1,m\n")
    table = read_attributes(tmp_path / "users.csv", two_tables.tables["users"])
    assert table.attributes["gender"].fillna("").tolist()[:4] == ["", "m", "", "f"]
    specs = attribute_specs(table, "gender", ("A", "B"))
    assert specs["A"] == {"in": "users", "where": {"gender": "f"}, "name": "f"}
    sets = resolve_sets({**specs, "E": [0, 2]}, Embeddings({"users": table, "items": two_tables.tables["items"]}))
    assert (sets.a.ids, sets.b.ids, sets.e.ids) == (["3"], ["1"], ["0", "2"])


def test_genres_in_one_cell_are_split():
    frame = pd.DataFrame({"genre": ["crime|drama", "sport", "drama", None, "crime"]})
    items = Entities("items", ITEMS[:5], attributes=frame)
    specs = {"A": [0], "B": [1], "E": {"in": "items", "where": {"genre": "crime"}}}
    sets = resolve_sets(specs, Embeddings({"users": Entities("users", USERS), "items": items}))
    assert sets.e.rows.tolist() == [0, 4]
    assert sets.e.name == "crime"


def test_json_sets_name_rows_and_ids(tmp_path, two_tables):
    (tmp_path / "s.json").write_text(
        '{"A": [0, 1], "B": {"in": "users", "rows": [2]}, "E": {"in": "items", "ids": [3]}, '
        '"P": {"in": "users", "rows": [7, 8], "name": "others"}}'
    )
    sets = load_sets(tmp_path / "s.json", two_tables)
    places = {part.role: (part.entities.name, part.rows.tolist()) for part in sets.all}
    assert places == {"A": ("users", [0, 1]), "B": ("users", [2]), "E": ("items", [3]), "P": ("users", [7, 8])}
    assert sets.p.name == "others"


def arrays(**content):
    return lambda path: np.savez(path, **content)


def text(content):
    return lambda path: path.write_text(content)


def frame(**columns):
    return lambda path: pd.DataFrame(columns).to_parquet(path)


FILES = {
    "missing.npz": (lambda path: None, "no such file"),
    "empty.npz": (arrays(other=USERS), "holds other; expected a matrix 'vectors'"),
    "broken.npz": (text("PK not really"), "cannot be read as .npz"),
    "objects.npz": (arrays(vectors=np.array([{}, {}], dtype=object)), "cannot be read as .npz"),
    "complex.npz": (arrays(vectors=np.ones((4, 2), dtype=complex)), "expected a matrix of numbers"),
    "flat.npz": (arrays(vectors=np.ones(4)), r"expected a matrix .*, got shape \(4,\)"),
    "ids.npz": (arrays(vectors=USERS, ids=np.array(["a"] * 12)), "id 'a' is repeated"),
    "few.npz": (arrays(vectors=USERS, ids=np.array(["a"])), "1 ids for 12 vectors"),
    "short.txt": (text("a 1 2 3\nb 1 2\n"), "line 2: 2 numbers after the word; expected 3"),
    "words.txt": (text("a 1 2 3\nb 1 two 3\n"), "line 2: expected a word and numbers"),
    "none.txt": (text(""), "no vectors"),
    "column.parquet": (frame(id=[1]), "no column 'vector' among id"),
    "ragged.parquet": (frame(id=[1, 2], vector=[[1.0], [1.0, 2.0]]), "as many numbers in each"),
    "text.pt": (text("hello"), "cannot be read as a torch state"),
    "what.xyz": (text("hello"), r"unknown ending; expected one of \.npz"),
}


@pytest.mark.parametrize("name", FILES)
def test_unusable_files_are_named_in_one_line(tmp_path, name):
    write, message = FILES[name]
    write(tmp_path / name)
    with pytest.raises(TodBiasError, match=message) as raised:
        load_embeddings(tmp_path / name)
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)
