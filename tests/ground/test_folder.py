"""One run at a time writes into a folder; what a killed run left is in nobody's way."""

import json
import os
import subprocess
import sys

import pytest

from tod_bias import folder as module
from tod_bias.answers import Answers, forget
from tod_bias.errors import TodBiasError
from tod_bias.folder import LOCK, claimed, claims, held, release, unwritten

HOLD = (
    "import sys, time; from tod_bias.folder import claimed; "
    "claimed(sys.argv[1]); print('held', flush=True); time.sleep(60)"
)


@pytest.fixture(autouse=True)
def _released():
    yield
    release()


@pytest.fixture
def other(tmp_path):
    """Another process that holds the folder."""
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_run_is_told_who_writes_there(tmp_path, other):
    with pytest.raises(TodBiasError, match=rf"run \w{{8}} \(process {other.pid} on .*choose another --out$"):
        claimed(tmp_path)


def test_a_run_is_not_read_while_it_is_written(tmp_path, other):
    with pytest.raises(TodBiasError, match=f"process {other.pid} "):
        unwritten(tmp_path)
    other.kill()
    other.wait()
    unwritten(tmp_path)


def test_a_killed_run_leaves_the_folder_free(tmp_path, other):
    other.kill()
    other.wait()
    assert (tmp_path / LOCK).exists()
    assert claimed(tmp_path) == tmp_path


def test_a_folder_that_a_run_made_goes_if_it_stays_empty(tmp_path):
    new, used, given = (tmp_path / name for name in ("new", "used", "given"))
    given.mkdir()
    for folder in (new, used, given):
        with held(folder), held(folder):
            if folder is used:
                (folder / "results.json").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given", "used"]


def test_a_run_holds_a_folder_as_often_as_it_likes_and_leaves_nothing(tmp_path):
    with held(tmp_path), held(tmp_path):
        assert claims() == [tmp_path]
        assert (tmp_path / LOCK).exists()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("launch", ["x|127.0.0.1|29500", "another"])
def test_processes_of_one_run_share_a_folder(tmp_path, monkeypatch, launch):
    for name, value in (("TORCHELASTIC_RUN_ID", "x"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RANK", "1")
    owner = {"process": os.getpid(), "host": module.platform.node(), "launch": launch}
    (tmp_path / LOCK).write_text(json.dumps(owner))
    if launch == "another":
        with pytest.raises(TodBiasError, match="writes here"):
            claimed(tmp_path)
    else:
        assert claimed(tmp_path) == tmp_path
    assert (tmp_path / LOCK).exists()


@pytest.mark.parametrize(
    ("owner", "is_free"),
    [
        ({"process": 2**22 + 1, "host": "HERE"}, True),
        ({"process": os.getpid(), "host": "HERE", "started": "1"}, True),
        ({"process": os.getpid(), "host": "HERE"}, False),
        ({"process": 1, "host": "elsewhere"}, False),
        ({"process": "x", "host": "HERE"}, True),
    ],
)
def test_without_locks_the_file_says_whether_its_owner_lives(tmp_path, monkeypatch, owner, is_free):
    monkeypatch.setattr(module, "fcntl", None)
    here = {**owner, "host": module.platform.node() if owner["host"] == "HERE" else owner["host"]}
    (tmp_path / LOCK).write_text(json.dumps(here))
    if is_free:
        assert claimed(tmp_path) == tmp_path
    else:
        with pytest.raises(TodBiasError, match="writes here"):
            claimed(tmp_path)


def test_answers_are_forgotten_under_the_hands_of_others(tmp_path):
    path = tmp_path / "answers.sqlite"
    beside = Answers(path)
    beside.put({"a": "1"})
    forget(path)
    beside.put({"b": "2"})  # a file that was removed would take this along
    assert Answers(path).get(["a", "b"]) == {"b": "2"}


def test_a_file_of_something_else_is_forgotten_too(tmp_path):
    path = tmp_path / "answers.sqlite"
    path.write_bytes(b"no database" * 1000)
    forget(path)
    assert not path.exists()


@pytest.mark.parametrize("is_written", [True, False])
def test_what_an_interrupted_block_left_is_still_told(tmp_path, is_written):
    def train():
        with held(tmp_path / "model") as folder:
            if is_written:
                (folder / "checkpoint").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()
    assert claims() == ([tmp_path / "model"] if is_written else [])
    assert not (tmp_path / "model" / LOCK).exists()
    release()
    assert claims() == []
