import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys

import pytest
from builders import small_corpus

from tod_bias.dialogues.files import write_jsonl


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tmp_path, gpt2):
    write_jsonl(small_corpus(), tmp_path / "corpus.jsonl")
    run = ["-m", "tod_bias.attribute", "--corpus", "corpus.jsonl", "--model", str(gpt2), "--max-new-tokens", "16"]
    run += ["--axes", "gender", "--bootstrap", "20", "--permutations", "50", "--draws", "2"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    outputs = []
    for name, command in (("one", [sys.executable, *run]), ("two", [*launch, *run])):
        done = subprocess.run([*command, "--out", name], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    results = [json.loads((tmp_path / name / "results.json").read_text()) for name in ("one", "two")]
    for result in results:
        result["cost"].pop("seconds")
        result["cost"].pop("seconds_by_stage")
    assert results[0] == results[1]
    assert outputs[0].replace("one/", "two/") == outputs[1]  # the second process prints nothing


@pytest.mark.slow
def test_two_machines_that_share_no_folder_give_what_one_gives(tmp_path, gpt2):
    """Each has its own copy of everything, its own home and caches; a launcher sets what is in ``launched``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    run = [sys.executable, "-m", "tod_bias.attribute", "--corpus", "corpus.jsonl", "--model", "model"]
    run += ["--max-new-tokens", "8", "--axes", "gender", "--bootstrap", "20", "--permutations", "50"]
    places = [tmp_path / name for name in ("alone", "first", "second")]
    started = []
    for place, rank in zip(places, (None, "0", "1"), strict=True):
        place.mkdir()
        write_jsonl(small_corpus(6), place / "corpus.jsonl")
        shutil.copytree(gpt2, place / "model")
        caches = {name: str(place / "home") for name in ("HOME", "HF_HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR")}
        launched = {"RANK": rank, "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = {**os.environ, **caches, **(launched if rank else {})}
        with (place / "said").open("w") as said:
            started.append(
                subprocess.Popen([*run, "--out", f"runs_of_{place.name}"], cwd=place, env=environment,
                                 stdout=said, stderr=subprocess.STDOUT)
            )  # fmt: skip
    for process, place in zip(started, places, strict=True):
        assert process.wait(timeout=300) == 0, (place / "said").read_text()
    folders = [place / f"runs_of_{place.name}" for place in places]
    alone, first = (json.loads((folder / "results.json").read_text()) for folder in folders[:2])
    for result in (alone, first):
        result["cost"].pop("seconds")
        result["cost"].pop("seconds_by_stage")
    assert first == alone
    assert kept_in(folders[1]) == kept_in(folders[0])  # so that it can go on alone
    assert [path.name for path in folders[2].iterdir()] == ["cache.sqlite"]  # no result, and no lock is left
    assert "Results" not in (places[2] / "said").read_text()


def kept_in(folder):
    with sqlite3.connect(folder / "cache.sqlite") as cache:
        found = dict(cache.execute("SELECT key, output FROM outputs"))
    cache.close()
    return found
