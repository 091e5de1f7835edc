import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import refused, run_command

from tod_bias.errors import TodBiasError
from tod_bias.io.files import replacing, replacing_files, subfolder, write_json, write_text

WOMAN = ("perturb", "--source", "woman", "--target", "man")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_old_content_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "f.txt"
    path.write_text("old")
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
        assert part.parent == tmp_path
    assert path.read_text() == "new"
    assert names(tmp_path) == ["f.txt"]


@pytest.mark.parametrize("error", [KeyError("x"), TodBiasError("x"), KeyboardInterrupt(), OSError(28, "disk full")])
def test_an_error_leaves_the_old_content_and_nothing_beside_it(tmp_path, error):
    path = tmp_path / "f.txt"
    path.write_text("old")

    def fail():
        with replacing(path) as part:
            part.write_text("half")
            raise error

    with pytest.raises((type(error), TodBiasError)):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["f.txt"]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    path = tmp_path / "f.txt"
    with replacing(path) as first, replacing(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # which ended last
    assert names(tmp_path) == ["f.txt"]


def test_permissions_and_links_that_were_named_stay(tmp_path):
    path = tmp_path / "f.txt"
    path.write_text("old")
    path.chmod(0o640)
    (tmp_path / "link").symlink_to(path)
    write_text(tmp_path / "link", "new", named=True)
    assert (path.read_text(), path.stat().st_mode & 0o777, (tmp_path / "link").is_symlink()) == ("new", 0o640, True)


def test_a_pipe_that_was_named_is_written_into_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    write_text(tmp_path / "pipe", "through", named=True)
    assert reader.communicate()[0] == b"through"
    assert names(tmp_path) == ["pipe"]


def put(kind, path, victim):
    """Something that is no plain file of one name."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "hard link":
        path.hardlink_to(victim)
    else:
        path.symlink_to({"link": victim, "dangling link": victim.parent / "none", "device": "/dev/null"}[kind])


KINDS = ("link", "dangling link", "hard link", "pipe", "device")


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_of_the_programs_is_no_way_to_another_file(tmp_path, kind):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    place = tmp_path / "run"
    place.mkdir()
    put(kind, place / "f.txt", victim)
    with pytest.raises(TodBiasError, match=r"f\.txt: cannot be written .*remove it"):
        write_text(place / "f.txt", "evil")
    assert (victim.read_text(), names(tmp_path), names(place)) == ("mine", ["run", "victim"], ["f.txt"])


def test_a_folder_of_the_programs_is_no_way_to_another_one(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "figures").symlink_to(tmp_path / "victim")
    with pytest.raises(TodBiasError, match="symbolic link"):
        subfolder(tmp_path / "run", "figures")
    (tmp_path / "named").symlink_to(tmp_path / "run")  # what the user names may be a link
    assert subfolder(tmp_path / "named", "tables") == tmp_path / "named" / "tables"
    assert names(tmp_path / "victim") == []


@pytest.mark.parametrize("name", ["folder", "missing/f.txt", "file/f.txt", "long" * 100])
def test_what_cannot_be_written_is_one_line_that_names_it(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(TodBiasError, match=r"cannot be written \(.*\); choose another --out") as error:
        write_text(tmp_path / name, "x")
    assert "\n" not in str(error.value)
    assert ".part" not in str(error.value)
    assert names(tmp_path) == ["file", "folder"]


def test_what_json_does_not_know_is_null_and_a_lone_surrogate_comes_back(tmp_path):
    content = {"a": [math.nan, -math.inf, (1.5, math.inf)], "b": "\ud800é", "c": {"d": math.nan}}
    write_json(tmp_path / "f.json", content)
    found = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert found == {"a": [None, None, [1.5, None]], "b": "\ud800é", "c": {"d": None}}


def test_of_several_files_the_last_one_never_lies_among_those_of_another(tmp_path, monkeypatch):
    def publish(text):
        with replacing_files(tmp_path / "m", "weights", ("old*",)) as part:
            for name in ("config", "weights", "words"):
                (part / name).write_text(text)

    moves = []
    replace = os.replace

    def record(source, target):
        weights = tmp_path / "m" / "weights"
        moves.append((Path(target).name, weights.read_text() if weights.exists() else None))
        replace(source, target)

    publish("one")
    (tmp_path / "m" / "old.json").write_text("")
    monkeypatch.setattr(os, "replace", record)
    publish("two")
    assert moves == [("config", None), ("words", None), ("weights", None)]
    assert names(tmp_path / "m") == ["config", "weights", "words"]
    moves.clear()
    publish("two")
    assert moves == [("weights", "two")]


def test_perturb_may_write_over_its_input(tmp_path):
    path = tmp_path / "p.txt"
    path.write_text("My wife is here.\n" * 5000)
    assert run_command(*WOMAN, path, "--out", path)[0] == 0
    assert path.read_text() == "My husband is here.\n" * 5000
    assert names(tmp_path) == ["p.txt"]


@pytest.mark.parametrize("content", [None, b"fine\nmy wife \xff\n"])
def test_perturb_of_what_cannot_be_read_touches_nothing(tmp_path, content):
    (tmp_path / "keep.txt").write_text("kept")
    if content is not None:
        (tmp_path / "in.txt").write_bytes(content)
    there = names(tmp_path)
    for out in ("keep.txt", "new.txt", "new/new.txt"):
        assert "in.txt: cannot be read" in refused(*WOMAN, tmp_path / "in.txt", "--out", tmp_path / out)
    assert (tmp_path / "keep.txt").read_text() == "kept"
    assert there == [name for name in names(tmp_path) if name != "new"]


def test_a_killed_write_leaves_the_old_content(tmp_path):
    (tmp_path / "p.txt").write_text("old")
    code = (
        "import os, sys; from tod_bias.io.files import write_lines\n"
        "def lines():\n  yield 'x' * 100_000\n  os.kill(os.getpid(), 9)\n"
        "write_lines(sys.argv[1], lines())"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path / "p.txt"], check=False).returncode == -9
    assert (tmp_path / "p.txt").read_text() == "old"
