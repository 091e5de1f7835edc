"""Any file, however damaged, is read or refused with the project's own error: nothing else comes out of a reader."""

from __future__ import annotations

import copy
import importlib.util
import json
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_corpora import write_taskmaster, write_taskmaster3

from tod_bias import attribute, compare, load_corpus, load_pipeline
from tod_bias.audit.comparison import FinishedRun
from tod_bias.changes import Comparison
from tod_bias.dialogues.corpora import DEMO
from tod_bias.errors import TodBiasError
from tod_bias.io.cache import Cache
from tod_bias.perturb import load_axis
from tod_bias.perturb.names.slots import name_slots
from tod_bias.recommenders.embeddings.comparison import compare as compare_associations
from tod_bias.recommenders.embeddings.comparison import load_run
from tod_bias.recommenders.embeddings.interactions import load_interactions
from tod_bias.recommenders.embeddings.readers import load_embeddings, save_embeddings
from tod_bias.recommenders.embeddings.sets import load_sets
from tod_bias.recommenders.embeddings.vectors import Embeddings, Entities
from tod_bias.recommenders.lmrec.recommendations import read_recommendations
from tod_bias.recommenders.lmrec.reviews import read_csv, read_yelp
from tod_bias.recommenders.lmrec.templates import RESOURCES as TEMPLATES
from tod_bias.recommenders.lmrec.templates import load_templates
from tod_bias.results import AuditResult
from tod_bias.systems.saved_responses import SavedResponses
from tod_bias.testing.case_choice import cases_of
from tod_bias.testing.cases import axes_of_cases, read_cases, write_cases

pytestmark = pytest.mark.filterwarnings("ignore")  # what libraries say of damaged files is not at issue
TESTS = Path(__file__).parents[1]


def sibling(path: str) -> Any:
    """A module of the tests that is not on the path."""
    spec = importlib.util.spec_from_file_location(f"any_file_{Path(path).stem}", TESTS / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SERVICE = {
    "service_name": "R_1",
    "slots": [{"name": "city", "description": "Where", "is_categorical": True, "possible_values": ["Fremont"]}],
    "intents": [
        {
            "name": "Find", "description": "Find it", "is_transactional": False, "required_slots": ["city"],
            "optional_slots": {},
        }
    ],
}  # fmt: skip


def write_sgd(folder: Path) -> None:
    turns = [
        {"speaker": "USER", "utterance": "Tacos?", "frames": [{"service": "R_1", "slots": [], "actions": []}]},
        {
            "speaker": "SYSTEM",
            "utterance": "Here.",
            "frames": [
                {
                    "service": "R_1",
                    "actions": [],
                    "service_call": {"method": "Find", "parameters": {"city": "Fremont"}},
                    "service_results": [{"name": "House"}],
                }
            ],
        },
    ]
    place = folder / "google_sgd" / "dev"
    place.mkdir(parents=True)
    (place / "dialogues_001.json").write_text(json.dumps([{"dialogue_id": "1_0", "services": ["R_1"], "turns": turns}]))
    (place / "schema.json").write_text(json.dumps([SERVICE]))


def write_multiwoz(folder: Path) -> None:
    module = sibling("dialogues/test_multiwoz.py")
    module.write(folder, (module.state("find_restaurant", area="north"), {"Booking-Book": [["ref", "X"]]}))


def write_taskmaster2(folder: Path) -> None:
    sibling("dialogues/test_taskmaster.py").write(folder, 10)


def embeddings() -> Embeddings:
    drawn = np.random.default_rng(0)
    sizes = {"users": 6, "items": 8}
    return Embeddings({name: Entities(name, drawn.normal(size=(size, 3))) for name, size in sizes.items()})


def tree(write: Callable[[Path], Any], name: str, split: str) -> tuple[Callable[[Path], Any], Callable[[Path], Any]]:
    return write, lambda folder: load_corpus(name, datapath=folder, split=split)


def file(name: str, content: str | bytes | Callable[[Path], Any], read: Callable[[Path], Any]) -> Any:
    def write(folder: Path) -> None:
        path = folder / name
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write, lambda folder: read(folder / name)


def torch_state(path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    state = {"user_emb.weight": torch.ones(3, 2), "item_emb.weight": torch.ones(4, 2)}
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)


SOME = load_corpus("demo", split="test")[:16]


def audited(path: Path) -> None:
    attribute(load_pipeline("demo"), SOME, axes=["gender"], permutations=20).save(path.parent)


def kept_cases(path: Path) -> None:
    audited(path.parent / "run" / "results.json")
    write_cases(cases_of(path.parent / "run", SOME, only=["gender/demo-test-0002/man>woman/3"]).cases, path)
    shutil.rmtree(path.parent / "run")


def comparison(path: Path) -> None:
    audited(path.parent / "run" / "results.json")
    compare(path.parent / "run", path.parent / "run", permutations=20).save(path.parent)
    shutil.rmtree(path.parent / "run")


def compared(folder: Path) -> None:
    """All that reads a run and its turns, but pages."""
    for axis in FinishedRun.read(folder).axes:
        compare(folder, folder, axes=[axis], permutations=20)


def write_pipeline(folder: Path) -> None:
    (folder / "t.jsonl").write_text('{"call": {"city": "Fremont"}, "results": [{"name": "House"}]}\n')
    (folder / "p.yaml").write_text(PIPELINE)


def write_association(folder: Path) -> None:
    ids = {"id": list("abcdef"), "table": "items", "set": list("EEEPPP"), "cos_centroid": [5, 4, 1, 0, -1, -3]}
    frame = pd.DataFrame(ids).assign(eaa=lambda table: 2 * table["cos_centroid"], labelled_A_svc=True)
    frame.to_parquet(folder / "entities.parquet")
    record = {"ddof": 0, "attribute": "gender", "directions": {"centroid": {}}}
    record |= {"R_RIPA": {"centroid": {"usable": True}}, "sets": {role: {"name": role} for role in "ABEP"}, "flags": []}
    (folder / "associations.json").write_text(json.dumps(record))


def associations_compared(folder: Path) -> None:
    found = load_run(folder)
    compare_associations(found, found, permutations=20, resamples=5)


def answered(path: Path) -> None:
    answers = Cache(path)
    answers.put({"a": "1", "b": "[2]"})
    assert answers._database is not None
    answers._database.close()


DIALOGUE = "".join((DEMO / "test.jsonl").read_text().splitlines(keepends=True)[:2])
CHAT = json.dumps({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})
PIPELINE = (
    "description: x\nstages:\n  db: {stage: 'tod_bias.stages:LookupDb', table: t.jsonl}\n"
    "  b: {stage: 'tod_bias.stages:LookupDb', table: t.jsonl, concurrency: 2}\n"
)
LISTS = "query,label,venue,rank,price,categories\nq1,woman,v1,1,$,Bars\nq1,man,v2,1,$$,Food\n"
REVIEWS = "business_id,review_text,name,price,categories\nb1,good,Ann,1,Bars\nb2,bad,Bob,2,Food\n"
ANSWER = '{"id": "d1", "turn": 0, "variant": "original", "response": "Hi", "steps": []}\n'
SETS = json.dumps({"A": {"in": "users", "rows": [0, 1]}, "B": {"in": "users", "rows": [2, 3]}, "E": {"rows": [0]}})
LEXICON = (DEMO.parents[1] / "perturb" / "lexicons" / "gender.tsv").read_text()

READERS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "dialogues": file("d.jsonl", DIALOGUE, load_corpus),
    "chats": file("c.jsonl", CHAT + "\n", load_corpus),
    "google_sgd": tree(write_sgd, "google_sgd", "valid"),
    "google_sgd_described": tree(write_sgd, "google_sgd_described", "valid"),
    "multiwoz": tree(write_multiwoz, "multiwoz_v22", "valid"),
    "taskmaster": tree(lambda folder: write_taskmaster(folder, count=30), "taskmaster", "train"),
    "taskmaster2": tree(write_taskmaster2, "taskmaster2", "train"),
    "taskmaster3": tree(lambda folder: write_taskmaster3(folder, count=30), "taskmaster3", "train"),
    "pipeline": (write_pipeline, lambda folder: load_pipeline(folder / "p.yaml")),
    "lexicon": file("l.tsv", LEXICON, lambda path: load_axis("gender", lexicon=path)),
    "name slots": file("n.tsv", "person\tname\n", name_slots),
    "turns": file("results.json", audited, lambda path: compared(path.parent)),
    "results": file("results.json", audited, lambda path: AuditResult.load(path.parent)),
    "comparison": file("compare.json", comparison, Comparison.load),
    "recorded answers": file("a.jsonl", ANSWER, SavedResponses),
    "kept answers": file("cache.sqlite", answered, lambda path: Cache(path).get(["a", "b"])),
    "cases": file("c.jsonl", kept_cases, lambda path: axes_of_cases(read_cases(path))),
    "recommendations": file("r.csv", LISTS, lambda path: read_recommendations([(None, path)])),
    "reviews": file("r.csv", REVIEWS, lambda path: list(read_csv(path)())),
    "yelp": (sibling("recommenders/lmrec/test_reviews.py").yelp, lambda folder: list(read_yelp(folder, "boston")())),
    "templates": (lambda folder: shutil.copytree(TEMPLATES, folder, dirs_exist_ok=True), load_templates),
    "interactions": file("i.csv", "user,item\na,b\nc,d\n", load_interactions),
    "sets": file("s.json", SETS, lambda path: load_sets(path, embeddings())),
    "association": (write_association, associations_compared),
    "npz": file("e.npz", lambda path: save_embeddings(embeddings(), path), load_embeddings),
    "parquet": file(
        "e.parquet",
        lambda path: pd.DataFrame({"id": ["a", "b"], "vector": [[1.0, 2], [3, 4]]}).to_parquet(path),
        load_embeddings,
    ),
    "word2vec": file("e.txt", "2 2\na 1 2\nb 3 4\n", load_embeddings),
    "torch": file("e.pt", torch_state, load_embeddings),
    "safetensors": file("e.safetensors", torch_state, load_embeddings),
}
VALUES: tuple[Any, ...] = (
    None, [], {}, "", 5, -1, 1.5, True, [None], [[]], {"": None}, "\ud800", "a\nb\x00\x1b[31m", "x" * 5000, 10**400,
    "nan",
)  # fmt: skip
PIECES = (
    b"", b"\0", b"\xff\xfe", b"[", b"{", b"]", b'"', b"'", b",", b"\t", b"\n", b"\r", b"null", b"NaN", b"-1", b"1e999",
    b"&a *a",
    b"\\ud800", b": ", b"[" * 300, b"9" * 5000, b"!!python/name:os.system", b"x" * 200_000,
)  # fmt: skip


def changed(content: Any, draw: random.Random) -> Any:
    """A JSON value in which one part is another, gone, or there twice."""
    whole = [copy.deepcopy(content)]
    places: list[tuple[Any, Any]] = [(whole, 0)]
    for holder, key in places:
        inner = holder[key]
        if isinstance(inner, dict | list):
            places += [(inner, part) for part in (inner if isinstance(inner, dict) else range(len(inner)))]
    holder, key = draw.choice(places)
    how = draw.randrange(4)
    if how == 0 and holder is not whole:
        del holder[key]
    elif how == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[key] = draw.choice(VALUES)
    return whole[0] if whole else None


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Bytes of which some are others, gone, or there twice; of a JSON file, often a value of it."""
    if content and draw.random() < 0.7:
        try:
            lines = content.decode().splitlines() if content.count(b"\n{") else [content.decode()]
            number = draw.randrange(len(lines))
            lines[number] = json.dumps(changed(json.loads(lines[number]), draw))
            return "\n".join(lines).encode()
        except (ValueError, RecursionError, IndexError):
            pass
    first, last = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    if draw.random() < 0.5:  # a small hole or a large one
        last = min(last, first + draw.randrange(8))
    return content[:first] + draw.choice((*PIECES, content[first:last] * 2)) + content[last:]


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a reader's valid files, which are written once."""
    made: dict[str, Path] = {}

    def folder_of(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("valid")
            READERS[name][0](made[name])
        return made[name]

    return folder_of


@pytest.mark.parametrize("name", READERS)
def test_the_files_are_read_as_they_are(name: str, valid: Callable[[str], Path], tmp_path: Path) -> None:
    """Else the next test would damage what is refused anyway."""
    shutil.copytree(valid(name), tmp_path / "whole")
    READERS[name][1](tmp_path / "whole")


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=10, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_any_file_is_read_or_refused(name: str, seed: int, valid: Callable[[str], Path], tmp_path: Path) -> None:
    draw = random.Random(seed)
    folder = tmp_path / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(valid(name), folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = draw.choice(files)
    for _ in range(draw.randint(1, 3)):
        path.write_bytes(damaged(path.read_bytes(), draw))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = ""
        try:
            READERS[name][1](folder)
        except TodBiasError as error:
            said = str(error)
    assert "\n" not in said
