"""Nothing in a file of data runs: a pickle that touches a file is put in the place of everything that is read."""

import io
import json
import pickle
import shutil
import sqlite3
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from builders import Touch
from commands import in_file

from tod_bias.cli.application import main
from tod_bias.recommenders.embeddings.readers import FORMATS
from tod_bias.recommenders.lmrec.sample import sample, write_sample

pytestmark = pytest.mark.filterwarnings("ignore")  # what libraries say of files that are none is not at issue


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "RAN"


def forms(marker):
    """The same pickle in all the clothes in which libraries keep one."""
    plain = pickle.dumps(Touch(marker), protocol=2)
    as_npz, as_npy, as_torch, as_zip = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    array = np.empty(1, dtype=object)
    array[0] = Touch(marker)
    np.savez(as_npz, vectors=array, users=array, items=array, ids=array, user_factors=array, item_factors=array)
    np.save(as_npy, array, allow_pickle=True)
    torch.save({"user_emb.weight": Touch(marker), "item_emb.weight": torch.zeros(2, 2)}, as_torch)
    with zipfile.ZipFile(as_zip, "w") as archive:
        for name in ("data.pkl", "archive/data.pkl", "vectors.npy", "archive/constants.pkl"):
            archive.writestr(name, plain)
    old_torch = io.BytesIO()
    torch.save(Touch(marker), old_torch, _use_new_zipfile_serialization=False)
    made = {"pickle": plain, "npz": as_npz, "npy": as_npy, "torch": as_torch, "zip": as_zip, "old torch": old_torch}
    return {name: part if isinstance(part, bytes) else part.getvalue() for name, part in made.items()}


def two_forms(marker):
    return {name: content for name, content in forms(marker).items() if name in ("pickle", "torch")}


def refused(capsys, marker, *arguments, codes=(2,)):
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    err = capsys.readouterr().err
    assert not marker.exists()
    assert end.value.code in codes, err
    if end.value.code == 2:
        lines = [line for line in err.splitlines() if line.startswith("tod-bias: error: ")]
        assert len(lines) == 1, err
        assert "Traceback" not in err
    return err


@pytest.mark.parametrize("form", ["pickle", "npz", "npy", "torch", "zip", "old torch"])
def test_every_form_would_run_if_it_were_opened(tmp_path, marker, form):
    content = forms(marker)[form]
    (tmp_path / "f").write_bytes(content)
    if form in ("npz", "npy"):
        found = np.load(tmp_path / "f", allow_pickle=True)
        _ = found["vectors"] if form == "npz" else found
    elif form in ("torch", "old torch"):
        torch.load(tmp_path / "f", weights_only=False)
    else:
        pickle.loads(content if form == "pickle" else zipfile.ZipFile(tmp_path / "f").read("data.pkl"))
    assert marker.exists()


@pytest.mark.parametrize("suffix", [*FORMATS, *map(str.upper, FORMATS), ".npy", ".kv", ".bin", ".pkl", ".csv", ""])
def test_embeddings(tmp_path, capsys, marker, suffix):
    sets = tmp_path / "sets.json"
    sets.write_text('{"A": [0], "B": [1], "E": [0]}')
    for form, content in forms(marker).items():
        file = tmp_path / f"{form.replace(' ', '_')}{suffix}"
        file.write_bytes(content)
        out = ("--out", tmp_path / "out", "--sets", sets, "--quiet")
        refused(capsys, marker, "associate", "--embeddings", file, *out)


FILES = {
    "a corpus": ("export", "--corpus", "{}.jsonl"),
    "a corpus by an ending of pickles": ("export", "--corpus", "{}.pkl"),
    "a data set": ("export", "--corpus", "hf:{}"),
    "a data set of pandas": ("export", "--corpus", "hf:pandas"),
    "a pipeline": ("attribute", "--pipeline", "{}.yaml"),
    "a pipeline by an ending of pickles": ("attribute", "--pipeline", "{}.pkl"),
    "a lexicon": ("export", "--lexicon", "gender={}.tsv"),
    "a text": ("perturb", "--source", "woman", "--target", "man", "{}.txt", "--out", "out.txt"),
    "sets": ("associate", "--embeddings", "good.npz", "--sets", "{}.json"),
    "attributes": ("associate", "--embeddings", "good.npz", "--sets", "sets.json", "--items", "{}.csv"),
    "attributes, Parquet": ("associate", "--embeddings", "good.npz", "--sets", "sets.json", "--items", "{}.parquet"),
    "interactions": ("associate", "--embeddings", "good.npz", "--sets", "sets.json", "--interactions", "{}.csv"),
    "interactions, Parquet": (
        "associate",
        "--embeddings",
        "good.npz",
        "--sets",
        "sets.json",
        "--interactions",
        "{}.parquet",
    ),
    "saved lists": ("recommend", "audit", "--recommendations", "{}.csv", "--out", "out"),
    "saved lists, Parquet": ("recommend", "audit", "--recommendations", "{}.parquet", "--out", "out"),
    "reviews": ("recommend", "train", "--reviews", "{}.csv", "--out", "out"),
}


@pytest.mark.parametrize("case", FILES)
def test_files_of_every_command(tmp_path, monkeypatch, capsys, marker, case):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    np.savez("good.npz", vectors=np.eye(3))
    Path("sets.json").write_text('{"A": [0], "B": [1], "E": [0]}')
    for name in ("train.pkl", "test.pkl"):
        Path(name).write_bytes(pickle.dumps(Touch(marker)))
    for form, content in two_forms(marker).items():
        stem = form.replace(" ", "_")
        arguments = [part.format(stem) for part in FILES[case]]
        for part, named in zip(arguments, FILES[case], strict=True):
            if "{}" in named:
                Path(part.split("=")[-1].removeprefix("hf:")).write_bytes(content)
        refused(capsys, marker, *arguments)


FOLDERS = {
    "a run": (("report", "{}"), ("results.json", "turns.parquet", "variants.parquet")),
    "a run to view": (("view", "{}", "--build"), ("results.json", "turns.parquet", "variants.parquet")),
    "an audit": (("associate", "compare", "{}", "{}"), ("associations.json", "entities.parquet", "directions.npz")),
    "a model": (("evaluate", "--max-dialogues", "2", "--model", "{}"), ("config.json",)),
    "an encoder": (("recommend", "train", "--out", "out", "--init", "{}"), ("config.json",)),
    "a model to go on from": (("train", "--arch", "gpt2", "--out", "out", "--init", "{}"), ("config.json",)),
    "a recommender": (("recommend", "evaluate", "--model", "{}", "--reviews", "sample"), ("config.json",)),
    "a perturber": (
        ("perturb", "--source", "woman", "--target", "man", "--perturber", "{}", "t.txt"),
        ("config.json",),
    ),
    "a data set": (("export", "--corpus", "hf:{}"), ("dataset_info.json", "state.json", "data-00000-of-00001.arrow")),
    "MultiWOZ": (
        ("export", "--corpus", "multiwoz_v22", "--datapath", "."),
        ("multiwoz_v22/dialog_acts.json", "multiwoz_v22/test/dialogues_001.json", "multiwoz_v22/schema.json"),
    ),
    "Google SGD": (("export", "--corpus", "google_sgd", "--datapath", "."), ("google_sgd/test/dialogues_001.json",)),
    "Taskmaster": (("export", "--corpus", "taskmaster2", "--datapath", "."), ("taskmaster2/flights.json",)),
    "Yelp": (
        ("recommend", "train", "--out", "out", "--reviews", "Boston={}"),
        ("business.json", "review.json"),
    ),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_folders_of_every_command(tmp_path, monkeypatch, capsys, marker, case):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    Path("t.txt").write_text("My wife.\n")
    arguments, names = FOLDERS[case]
    for form, content in two_forms(marker).items():
        place = Path() if "/" in names[0] else Path(form.replace(" ", "_"))
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        refused(capsys, marker, *(part.format(place) for part in arguments))


WEIGHTS = (
    "model.safetensors",
    "pytorch_model.bin",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
)


@pytest.mark.parametrize(
    ("name", "form"), [*((name, "pickle") for name in WEIGHTS), ("model.safetensors", "torch"), (WEIGHTS[1], "torch")]
)
def test_one_file_of_a_model_folder(tmp_path, capsys, gpt2, marker, name, form):
    shutil.copytree(gpt2, tmp_path / "m")
    if name == "pytorch_model.bin":
        (tmp_path / "m" / "model.safetensors").unlink()
    (tmp_path / "m" / name).write_bytes(forms(marker)[form])
    for extra in ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth", "vocab.pkl"):
        (tmp_path / "m" / extra).write_bytes(forms(marker)[form])
    out = ("--out", tmp_path / "out", "--quiet")
    # the library goes on without generation defaults that it cannot read
    refused(capsys, marker, "evaluate", "--max-dialogues", 1, "--model", tmp_path / "m", *out, codes=(0, 2))
    if name == "pytorch_model.bin":
        arguments = ("train", "--arch", "gpt2", "--init", tmp_path / "m", "--max-dialogues", 3)
        refused(capsys, marker, *arguments, *in_file(tmp_path, max_steps=1, held_out=1), *out)


SMALL = {"layers": 1, "width": 8, "heads": 2, "vocabulary": 300, "max_steps": 1}
STATE = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin", "model.safetensors")


@pytest.mark.parametrize("settings", ["of another training", "a pickle"])
@pytest.mark.parametrize(
    "command",
    [
        ("train", "--arch", "gpt2", "--max-dialogues", "4"),
        ("recommend", "train", "--reviews", "{}", "--min-reviews", "1"),
    ],
    ids=["train", "recommend train"],
)
def test_a_checkpoint(tmp_path, capsys, marker, command, settings):
    """With the settings of the training itself: tests/models/test_resumption.py."""
    state = tmp_path / "m" / "checkpoint" / "checkpoint-1"
    state.mkdir(parents=True)
    content = forms(marker)
    (state.parent / "settings.json").write_bytes(b"{}" if settings == "of another training" else content["pickle"])
    (state / "trainer_state.json").write_text("{}")
    for name in STATE:
        (state / name).write_bytes(content["torch"])
    write_sample(tmp_path / "r.csv", sample(venues=8, reviews=5))
    command = [part.format(tmp_path / "r.csv") for part in command]
    small = SMALL if "recommend" in command else {**SMALL, "held_out": 1}
    options = (*in_file(tmp_path, **small), "--quiet", "--out", tmp_path / "m")
    assert "checkpoint" in refused(capsys, marker, *command, *options)


def test_a_store_of_answers(tmp_path, capsys, gpt2, marker):
    for content in two_forms(marker).values():
        (tmp_path / "cache.sqlite").write_bytes(content)
        refused(capsys, marker, "evaluate", "--max-dialogues", 1, "--model", gpt2, "--out", tmp_path)
    (tmp_path / "cache.sqlite").unlink()
    database = sqlite3.connect(tmp_path / "cache.sqlite")
    database.execute("CREATE TABLE outputs (key TEXT PRIMARY KEY, output TEXT) WITHOUT ROWID")
    database.execute("INSERT INTO outputs VALUES ('k', ?)", (forms(marker)["pickle"],))
    database.commit()
    database.close()
    refused(capsys, marker, "evaluate", "--max-dialogues", 1, "--model", gpt2, "--out", tmp_path, codes=(0, 2))


def test_a_frame_with_pickles_in_its_cells(tmp_path, capsys, marker):
    content = forms(marker)["pickle"]
    pd.DataFrame({"id": ["a", "b"], "vector": [content, content]}).to_parquet(tmp_path / "v.parquet")
    (tmp_path / "sets.json").write_text('{"A": [0], "B": [1], "E": [0]}')
    arguments = ("associate", "--embeddings", tmp_path / "v.parquet", "--sets", tmp_path / "sets.json")
    refused(capsys, marker, *arguments, "--out", tmp_path / "out")


CUSTOM = 'open({marker!r}, "w")\nfrom transformers import GPT2Config as C, GPT2LMHeadModel as M\n'


def custom_model(folder, gpt2, marker, file="config.json", **changes):
    shutil.copytree(gpt2, folder)
    (folder / "code.py").write_text(CUSTOM.format(marker=str(marker)))
    content = json.loads((folder / file).read_text())
    kinds = ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoTokenizer")
    content |= {"auto_map": {kind: "code.M" if "Model" in kind else "code.C" for kind in kinds}, **changes}
    (folder / file).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("file", "kind"), [("config.json", "mine"), ("config.json", "lmrec"), ("tokenizer_config.json", "")]
)
def test_a_model_that_brings_code_is_refused_in_one_line(tmp_path, capsys, monkeypatch, gpt2, marker, file, kind):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asks"))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    folder = custom_model(tmp_path / "m", gpt2, marker, file, **({"model_type": kind} if kind else {}))
    (folder / "venues.jsonl").write_text('{"id": "a", "name": "A"}\n')  # else it is seen to be no LMRec first
    for command in (
        ("evaluate", "--max-dialogues", 1, "--model", folder),
        ("train", "--arch", "gpt2", "--init", folder),
        ("recommend", "train", "--init", folder),
        ("perturb", "--source", "woman", "--target", "man", "--perturber", folder, Path(__file__)),
        ("recommend", "evaluate", "--model", folder),
    ):
        out = () if command[0] == "perturb" else ("--out", tmp_path / "out")
        err = refused(capsys, marker, *command, *out)
        if file == "config.json":
            assert "has custom code (auto_map), which is not run" in err
