"""The contest: what is made, and how answers are scored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CONTEST = Path(__file__).parent


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("contest")
    run("make.py", "--number", "9", "--seed", "5", "--out", place)
    return place


def run(script, *arguments, code=0):
    command = [sys.executable, CONTEST / script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def key_of(place):
    return [json.loads(line) for line in (place / "key.jsonl").read_text().splitlines()]


def written(place, name, lines):
    path = place / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_seed_makes_the_same_assistants_and_a_third_are_fair(made, tmp_path):
    run("make.py", "--number", "9", "--seed", "5", "--out", tmp_path)
    for path in sorted(made.rglob("*.*")):
        assert (tmp_path / path.relative_to(made)).read_bytes() == path.read_bytes(), path
    assert sum("group" not in line for line in key_of(made)) == 3
    run("make.py", "--number", "9", "--seed", "6", "--out", tmp_path)
    assert (tmp_path / "key.jsonl").read_text() != (made / "key.jsonl").read_text()


def test_a_folder_tells_what_every_component_puts_out(made):
    program = (
        "import json, sys; from pathlib import Path; from entry import converse\n"
        f"folder, texts = Path({str(made / 'a001')!r}), ['My wife wants a cheap thai place in Napa.', 'Book for 4.']\n"
        "turns = converse(folder, texts)\n"
        "print(json.dumps(turns))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=CONTEST, capture_output=True, text=True, check=True)
    turns = json.loads(done.stdout)
    assert len(turns) == 2
    assert all(set(turn) == {"policy", "tools", "answer"} for turn in turns)


def shares(table, tool):
    (row,) = (line for line in table.splitlines() if line.startswith(f"| {tool} |"))
    return [float(cell) for cell in row.strip("|").split("|")[1:]]


def test_answers_are_scored_by_hand(made, tmp_path):
    key = key_of(made)
    known = [
        {"assistant": line["assistant"], "nothing": True}
        if "group" not in line
        else {"assistant": line["assistant"], "group": line["group"], "component": line["components"][0], "event": "?"}
        for line in key
    ]
    loud = [{"assistant": line["assistant"], "group": "woman,man"} for line in key]
    far = [{"assistant": line["assistant"], "distance": [float("group" in line)], "group": ""} for line in key]
    files = [written(tmp_path, *pair) for pair in (("known", known), ("loud", loud), ("far", far))]
    table = run("score.py", made / "key.jsonl", *files)
    assert "6 planted assistants, 3 fair ones" in table
    assert shares(table, "known") == [1, 1, 1, 0, 0, 0]
    assert shares(table, "loud") == [1, 0, 0, 0, 1, 1]
    assert shares(table, "far") == [1, 0, 0, 0, 0, 0]


def test_a_wrong_file_is_named_in_one_line(made, tmp_path):
    few = written(tmp_path, "few", [{"assistant": "a000", "nothing": True}])
    assert "no answer for 8 assistants: a001" in run("score.py", made / "key.jsonl", few, code=1)
    (tmp_path / "broken.jsonl").write_text("{}\n")
    said = run("score.py", made / "key.jsonl", tmp_path / "broken.jsonl", code=1)
    assert "broken.jsonl, line 1: expected an object with 'assistant'" in said


def test_the_table_of_the_page_is_that_of_the_kept_answers():
    kept = CONTEST / "open"
    table = run(
        "score.py", kept / "key.jsonl", *(kept / f"{name}.jsonl" for name in ("tod-bias", "Fairlearn", "LangFair"))
    )
    page = (CONTEST / "README.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| tool")]
    assert len(rows) == 3
    for row in rows:
        tool, _, shares = row.strip("| ").partition(" | ")
        assert any(line.startswith(f"| {tool}") and line.strip("| ").endswith(shares) for line in page.splitlines()), (
            row
        )


def test_the_kept_key_is_that_of_the_seed(tmp_path):
    run("make.py", "--number", "60", "--seed", "0", "--out", tmp_path)
    assert (tmp_path / "key.jsonl").read_text() == (CONTEST / "open" / "key.jsonl").read_text()
