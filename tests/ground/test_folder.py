"""One run at a time writes into a folder; what a killed run left is in nobody's way."""

import os
import subprocess
import sys

import pytest

from tod_bias.errors import TodBiasError
from tod_bias.io.cache import Cache, clear
from tod_bias.io.folder import LOCK, claimed, claims, held, release, unwritten

HOLD = (
    "import sys, time; from tod_bias.io.folder import claimed; "
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


def test_a_folder_that_another_run_writes_names_its_process(tmp_path, other):
    with pytest.raises(TodBiasError, match=rf"another run \(process {other.pid} on .*choose another --out$"):
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


def test_processes_of_one_run_share_a_folder(tmp_path, monkeypatch, other):
    monkeypatch.setenv("RANK", "1")
    assert claimed(tmp_path) == tmp_path
    assert claims() == []
    release()
    assert (tmp_path / LOCK).exists()


def test_a_fork_does_not_let_go_of_its_parents_folder(tmp_path):
    claimed(tmp_path)
    if (child := os.fork()) == 0:
        release()
        os._exit(0)
    os.waitpid(child, 0)
    said = subprocess.run([sys.executable, "-c", HOLD, tmp_path], capture_output=True, text=True, check=False).stderr
    assert f"process {os.getpid()} on" in said


def test_a_card_that_says_nothing_is_no_matter(tmp_path, other):
    for card in ("", "{}", "[" * 9000):
        (tmp_path / LOCK).write_text(card)
        with pytest.raises(TodBiasError, match="another run writes here; wait for it"):
            claimed(tmp_path)


def test_answers_are_forgotten_under_the_hands_of_others(tmp_path):
    path = tmp_path / "cache.sqlite"
    beside = Cache(path)
    beside.put({"a": "1"})
    clear(path)
    beside.put({"b": "2"})  # a file that was removed would take this along
    assert Cache(path).get(["a", "b"]) == {"b": "2"}


def test_a_file_of_something_else_is_forgotten_too(tmp_path):
    path = tmp_path / "cache.sqlite"
    path.write_bytes(b"no database" * 1000)
    clear(path)
    assert not path.exists()


@pytest.mark.parametrize("is_written", [True, False])
def test_a_folder_of_an_interrupted_block_stays_claimed(tmp_path, is_written):
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
