import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys

import pytest
from builders import small_corpus
from commands import run_command

from tod_bias.dialogues.files import write_jsonl

pytestmark = pytest.mark.slow

OPTIONS = ("--corpus", "corpus.jsonl", "--model", "model", "--max-new-tokens", "8", "--axes", "gender")
OPTIONS += ("--bootstrap", "20", "--permutations", "50", "--draws", "2", "--out", "out")
COMMAND = ("-m", "tod_bias.attribute", *OPTIONS)


def place_for(gpt2, place):
    """A folder with a copy of everything."""
    write_jsonl(small_corpus(12), place / "corpus.jsonl")
    shutil.copytree(gpt2, place / "model")
    return place


def result_in(place):
    result = json.loads((place / "out" / "results.json").read_text())
    del result["cost"]["seconds"], result["cost"]["seconds_by_stage"]
    return result


@pytest.fixture(scope="module")
def alone(tmp_path_factory, gpt2):
    """The folder of a run in one process, and what it said."""
    place = place_for(gpt2, tmp_path_factory.mktemp("alone"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        code, out, err = run_command("attribute", *OPTIONS)
    assert code == 0, err
    return place, out


def test_two_processes_give_what_one_gives(tmp_path, gpt2, alone):
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone", *COMMAND]
    place_for(gpt2, tmp_path)
    done = subprocess.run(launch, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert result_in(tmp_path) == result_in(alone[0])
    assert done.stdout.replace(str(tmp_path), str(alone[0])) == alone[1]  # the second process prints nothing


def test_two_machines_that_share_no_folder_give_what_one_gives(tmp_path, gpt2, alone):
    """Each has its own copy of everything, its own home and caches; a launcher sets what is in ``launched``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    places = [tmp_path / name for name in ("first", "second")]
    started = []
    for rank, place in enumerate(places):
        place.mkdir()
        place_for(gpt2, place)
        caches = {name: str(place / "home") for name in ("HOME", "HF_HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR")}
        launched = {"RANK": f"{rank}", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}
        launched |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        with (place / "said").open("w") as said:
            started.append(
                subprocess.Popen([sys.executable, *COMMAND], cwd=place, env={**os.environ, **caches, **launched},
                                 stdout=said, stderr=subprocess.STDOUT)
            )  # fmt: skip
    for process, place in zip(started, places, strict=True):
        assert process.wait(timeout=300) == 0, (place / "said").read_text()
    assert result_in(places[0]) == result_in(alone[0])
    assert kept_in(places[0] / "out") == kept_in(alone[0] / "out")  # so that it can go on alone
    assert [path.name for path in (places[1] / "out").iterdir()] == ["cache.sqlite"]  # no result, and no lock is left
    assert "Results" not in (places[1] / "said").read_text()


def kept_in(folder):
    with sqlite3.connect(folder / "cache.sqlite") as cache:
        found = dict(cache.execute("SELECT key, output FROM outputs"))
    cache.close()
    return found
