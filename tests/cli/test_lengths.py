"""The answer of every command for the demo has a number of lines, and no line is longer than 80 columns."""

import sys
from pathlib import Path

import pytest
from commands import run_command

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
from recommender_files import saved_lists

pytestmark = pytest.mark.slow
LENGTHS = {
    "attribute --out run": 25,
    "check run": 12,
    "check run --max-gap 0.1": 12,
    "cases run --out cases.jsonl": 12,
    "check --cases cases.jsonl --pipeline demo": 12,
    "mitigate run": 20,
    "compare run run": 25,
    "attribute --dry-run --out plan": 20,
    "doctor": 40,
    "recommend audit --city Springfield=lists.csv --out audit": 35,
}


def test_answers_have_lengths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    saved_lists("lists.csv")
    for line, most in LENGTHS.items():
        _, out, _ = run_command(line)
        lines = out.rstrip("\n").splitlines()
        assert lines, line
        assert len(lines) <= most, f"{line}: {len(lines)} lines\n{out}"
        if line != "doctor":  # folders and reasons of failures are not folded
            assert max(map(len, lines)) <= 80, f"{line}:\n{out}"
